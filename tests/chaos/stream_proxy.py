"""A TCP proxy in front of one replica's gRPC port that cuts connections in the middle of what the client sends."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from typing import Self

from tests.chaos.proxy import CHUNK_BYTES, HOST


class CuttingProxy:
    """Forwards everything, until ``cut``."""

    def __init__(self, upstream_port: int) -> None:
        self._upstream_port = upstream_port
        self._links: dict[asyncio.Task[None], tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = {}
        self._condemned: set[asyncio.Task[None]] = set()
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, HOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        links = list(self._links)
        for writers in self._links.values():
            _abort(*writers)
        await asyncio.gather(*links, return_exceptions=True)

    def cut(self) -> None:
        """Of what the client of each connection sends next half arrives, then the connection is reset."""
        self._condemned |= self._links.keys()

    async def _serve(self, client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter) -> None:
        link = asyncio.current_task()
        assert link is not None
        try:
            server_in, server_out = await asyncio.open_connection(HOST, self._upstream_port)
        except OSError:
            client_out.transport.abort()
            return
        self._links[link] = (client_out, server_out)
        pumps = [
            asyncio.ensure_future(self._up(link, client_in, server_out)),
            asyncio.ensure_future(_down(server_in, client_out)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            _abort(client_out, server_out)
            del self._links[link]
            self._condemned.discard(link)

    async def _up(self, link: asyncio.Task[None], source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while chunk := await source.read(CHUNK_BYTES):
                is_last = link in self._condemned
                sink.write(chunk[: len(chunk) // 2] if is_last else chunk)
                await sink.drain()
                if is_last:
                    return


def _abort(*writers: asyncio.StreamWriter) -> None:
    for writer in writers:
        writer.transport.abort()


async def _down(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await source.read(CHUNK_BYTES):
            sink.write(chunk)
            await sink.drain()
