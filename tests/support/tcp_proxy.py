"""A TCP proxy before one server, link by link; what passes is a subclass's to look at, delay or lose."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from types import TracebackType
from typing import Self

HOST = "127.0.0.1"
CHUNK_BYTES = 64 * 1024


class Link:
    """One client's connection through the proxy."""

    def __init__(self, client_out: asyncio.StreamWriter, server_out: asyncio.StreamWriter) -> None:
        self.client_out = client_out
        self.server_out = server_out

    def abort(self) -> None:
        """Reset both sides."""
        for writer in (self.client_out, self.server_out):
            writer.transport.abort()


class TcpProxy:
    """Forwards everything while it is entered; a link ends with either of its sides."""

    def __init__(self, upstream_port: int) -> None:
        self._upstream_port = upstream_port
        self._tasks: set[asyncio.Task[None]] = set()
        self.links: set[Link] = set()
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, HOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def up(self, link: Link, client_in: asyncio.StreamReader) -> None:
        """Forward what the client sends; the link ends with this."""
        while chunk := await client_in.read(CHUNK_BYTES):
            link.server_out.write(chunk)
            await link.server_out.drain()

    async def down(self, link: Link, server_in: asyncio.StreamReader) -> None:
        """Forward what the server answers; the link ends with this."""
        while chunk := await server_in.read(CHUNK_BYTES):
            link.client_out.write(chunk)
            await link.client_out.drain()

    def ended(self, link: Link) -> None:
        """A link is no more."""

    async def _serve(self, client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # Closed without waiting: a task that is cancelled while it waits here would leave the other end open.
        with contextlib.closing(client_out), contextlib.suppress(OSError):
            server_in, server_out = await asyncio.open_connection(HOST, self._upstream_port)
            with contextlib.closing(server_out):
                link = Link(client_out, server_out)
                self.links.add(link)
                try:
                    await _either(_until_gone(self.up(link, client_in)), _until_gone(self.down(link, server_in)))
                finally:
                    self.links.discard(link)
                    self.ended(link)


async def _until_gone(pump: Coroutine[None, None, None]) -> None:
    with contextlib.suppress(asyncio.IncompleteReadError, OSError):
        await pump


async def _either(*pumps: Coroutine[None, None, None]) -> None:
    """Run both until one ends, then end the other."""
    running = [asyncio.ensure_future(pump) for pump in pumps]
    try:
        await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for pump in running:
            pump.cancel()
        await asyncio.gather(*running, return_exceptions=True)
