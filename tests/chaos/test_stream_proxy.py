"""The proxy of streams cuts within what the client sends, and forwards everything until then."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field

from tests.chaos.stream_proxy import CuttingProxy
from tests.support.tcp_proxy import HOST

FRAME = b"0123456789"


@dataclass
class Server:
    """Keeps what arrives and answers each piece."""

    received: bytearray = field(default_factory=bytearray)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while piece := await reader.read(1_000):
                self.received += piece
                writer.write(b"ok")
        self.ended.set()
        writer.close()


async def test_t2_a_cut_lets_half_of_a_frame_arrive_and_resets_the_connection() -> None:
    server = Server()
    listening = await asyncio.start_server(server.serve, HOST, 0)
    async with CuttingProxy(listening.sockets[0].getsockname()[1]) as proxy:
        reader, writer = await asyncio.open_connection(HOST, proxy.port)
        writer.write(FRAME)
        assert await reader.read(2) == b"ok"
        proxy.cut()
        writer.write(FRAME)

        await asyncio.wait_for(server.ended.wait(), 5)
        assert await _rest_of(reader) in (b"", b"ok")
        assert bytes(server.received) == FRAME + FRAME[:5]
        writer.close()
        again, more = await asyncio.open_connection(HOST, proxy.port)
        more.write(FRAME)
        assert await again.read(2) == b"ok"
        more.close()
    listening.close()


async def _rest_of(reader: asyncio.StreamReader) -> bytes:
    try:
        return await asyncio.wait_for(reader.read(), 5)
    except OSError:
        return b""
