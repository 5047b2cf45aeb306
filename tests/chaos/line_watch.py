"""A TCP proxy between one client and its replica that knows when the replica has said something."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from typing import Self

from tests.chaos.proxy import CHUNK_BYTES, HOST


class WatchedLine:
    """Forwards everything; the client may be paused meanwhile."""

    def __init__(self, upstream: str) -> None:
        self._upstream_port = int(upstream.rpartition(":")[2])
        self._spoken = asyncio.Event()
        self._links: set[asyncio.Task[None]] = set()
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, HOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for link in self._links:
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)

    async def next_word(self) -> None:
        """Wait until the replica says something from now on."""
        self._spoken.clear()
        await self._spoken.wait()

    async def _serve(self, client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter) -> None:
        link = asyncio.current_task()
        assert link is not None
        self._links.add(link)
        server_in, server_out = await asyncio.open_connection(HOST, self._upstream_port)
        pumps = [
            asyncio.ensure_future(_pump(client_in, server_out)),
            asyncio.ensure_future(_pump(server_in, client_out, self._spoken)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            client_out.transport.abort()
            server_out.transport.abort()
            self._links.discard(link)


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, spoken: asyncio.Event | None = None) -> None:
    with contextlib.suppress(OSError):
        while chunk := await source.read(CHUNK_BYTES):
            if spoken is not None:
                spoken.set()
            sink.write(chunk)
            await sink.drain()
