"""The faulty proxy does to a COMMIT what its fate says, and nothing to anything else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from tests.chaos.proxy import Fate, FaultyProxy
from tests.support.tcp_proxy import HOST


def packet(statement: bytes) -> bytes:
    """A query as MySQL's protocol frames it."""
    body = b"\x03" + statement
    return len(body).to_bytes(3, "little") + b"\x00" + body


@dataclass
class Server:
    """Answers each packet with ``ok``."""

    received: list[bytes] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while header := await reader.read(4):
            self.received.append(await reader.readexactly(int.from_bytes(header[:3], "little")))
            writer.write(b"ok")
        writer.close()


@dataclass
class Bench:
    """A client's connection through the proxy."""

    proxy: FaultyProxy
    server: Server
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ask(self, statement: bytes) -> bytes:
        """The answer; empty when the connection was lost."""
        self.writer.write(packet(statement))
        try:
            return await asyncio.wait_for(self.reader.read(2), 5)
        except OSError:
            return b""


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    server = Server()
    listening = await asyncio.start_server(server.serve, HOST, 0)
    async with FaultyProxy(listening.sockets[0].getsockname()[1]) as proxy:
        reader, writer = await asyncio.open_connection(HOST, proxy.port)
        yield Bench(proxy, server, reader, writer)
        writer.close()
    listening.close()


@pytest.mark.parametrize(("fate", "arrives"), [(Fate.REPLY_LOST, True), (Fate.LOST, False)])
async def test_n1_a_spoilt_commit_loses_its_reply(bench: Bench, fate: Fate, arrives: bool) -> None:
    bench.proxy.spoil_commits(fate, 1)

    assert await bench.ask(b"SELECT 1") == b"ok"
    assert await bench.ask(b"COMMIT") == b""
    assert (b"\x03COMMIT" in bench.server.received) is arrives


async def test_n1_a_healed_proxy_forwards_everything(bench: Bench) -> None:
    bench.proxy.spoil_commits(Fate.LOST, 3)
    bench.proxy.hold()
    bench.proxy.heal()

    assert await bench.ask(b"COMMIT") == b"ok"


async def test_n1_a_cut_resets_the_connection(bench: Bench) -> None:
    assert await bench.ask(b"SELECT 1") == b"ok"

    assert bench.proxy.cut() == 1
    assert await bench.ask(b"SELECT 1") == b""
