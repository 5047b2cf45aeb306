"""A proxy between one client and its replica that knows when the replica has said something."""

from __future__ import annotations

import asyncio

from tests.support.tcp_proxy import CHUNK_BYTES, Link, TcpProxy


class WatchedLine(TcpProxy):
    """Forwards everything; the client may be paused meanwhile."""

    def __init__(self, upstream: str) -> None:
        super().__init__(int(upstream.rpartition(":")[2]))
        self._spoken = asyncio.Event()

    async def next_word(self) -> None:
        """Wait until the replica says something from now on."""
        self._spoken.clear()
        await self._spoken.wait()

    async def down(self, link: Link, server_in: asyncio.StreamReader) -> None:
        """See ``TcpProxy``."""
        while chunk := await server_in.read(CHUNK_BYTES):
            self._spoken.set()
            link.client_out.write(chunk)
            await link.client_out.drain()
