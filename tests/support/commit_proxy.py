"""A TCP proxy before a database that knows a COMMIT when it passes.

It reads just enough of the client's packets to know one whose command is the query COMMIT.
"""

from __future__ import annotations

import asyncio

from tests.support.tcp_proxy import CHUNK_BYTES, Link, TcpProxy

_QUERY = 0x03
_HEADER_BYTES = 4


class CommitProxy(TcpProxy):
    """Forwards everything; subclasses say what becomes of a COMMIT and of its reply."""

    def __init__(self, upstream_port: int) -> None:
        super().__init__(upstream_port)
        self._muted: set[Link] = set()

    def mute(self, link: Link) -> None:
        """The server's next answer on this link, and the link, are lost."""
        self._muted.add(link)

    async def commits(self, link: Link) -> bool:
        """A COMMIT came; whether it is passed on. When not, its link ends."""
        return True

    def reply_lost(self) -> None:
        """An answer was lost with its link."""

    async def passes(self, size: int) -> None:
        """So many bytes are about to be passed on, either way."""

    async def up(self, link: Link, client_in: asyncio.StreamReader) -> None:
        """See ``TcpProxy``."""
        while True:
            header = await client_in.readexactly(_HEADER_BYTES)
            body = await client_in.readexactly(int.from_bytes(header[:3], "little"))
            is_commit = body[:1] == bytes([_QUERY]) and body[1:].strip().upper() == b"COMMIT"
            if is_commit and not await self.commits(link):
                return
            await self.passes(len(body))
            link.server_out.write(header + body)
            await link.server_out.drain()

    async def down(self, link: Link, server_in: asyncio.StreamReader) -> None:
        """See ``TcpProxy``."""
        while chunk := await server_in.read(CHUNK_BYTES):
            if link in self._muted:
                self.reply_lost()
                return
            await self.passes(len(chunk))
            link.client_out.write(chunk)
            await link.client_out.drain()

    def ended(self, link: Link) -> None:
        """See ``TcpProxy``."""
        self._muted.discard(link)
