"""A proxy in front of one replica's gRPC port that cuts connections in the middle of what the client sends."""

from __future__ import annotations

import asyncio

from tests.support.tcp_proxy import CHUNK_BYTES, Link, TcpProxy


class CuttingProxy(TcpProxy):
    """Forwards everything, until ``cut``."""

    def __init__(self, upstream_port: int) -> None:
        super().__init__(upstream_port)
        self._condemned: set[Link] = set()

    def cut(self) -> None:
        """Of what the client of each connection sends next half arrives, then the connection is reset."""
        self._condemned |= self.links

    async def up(self, link: Link, client_in: asyncio.StreamReader) -> None:
        """See ``TcpProxy``."""
        while chunk := await client_in.read(CHUNK_BYTES):
            is_last = link in self._condemned
            link.server_out.write(chunk[: len(chunk) // 2] if is_last else chunk)
            await link.server_out.drain()
            if is_last:
                link.client_out.transport.abort()
                return

    def ended(self, link: Link) -> None:
        """See ``TcpProxy``."""
        self._condemned.discard(link)
