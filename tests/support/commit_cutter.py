"""A TCP proxy before a database that can lose the reply of a COMMIT, or hold COMMITs back, on command.

It reads just enough of the client's packets to know one whose command is the query COMMIT.
"""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from typing import Self

_QUERY = 0x03
_HEADER_BYTES = 4


class CommitCutter:
    """Forwards everything; the faults are switched on per commit."""

    def __init__(self, upstream_port: int) -> None:
        self._upstream_port = upstream_port
        self._cuts_wanted = 0
        self._open = asyncio.Event()
        self._open.set()
        self._held = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self.replies_cut = 0
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut_next_commit_reply(self) -> None:
        """The next COMMIT reaches the database; its reply, and the connection, are lost."""
        self._cuts_wanted += 1

    def hold_commits(self) -> None:
        """COMMITs wait here until ``release_commits``."""
        self._open.clear()
        self._held.clear()

    def release_commits(self) -> None:
        """Let the held COMMITs go on."""
        self._open.set()

    async def commit_held(self) -> None:
        """Return once a COMMIT is waiting."""
        async with asyncio.timeout(10):
            await self._held.wait()

    async def _serve(self, client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # Closed without waiting: a task that is cancelled while it waits here would leave the other end open.
        with contextlib.closing(client_out):
            server_in, server_out = await asyncio.open_connection("127.0.0.1", self._upstream_port)
            with contextlib.closing(server_out):
                link = _Link(self, client_out, server_out)
                pumps = [asyncio.ensure_future(link.up(client_in)), asyncio.ensure_future(link.down(server_in))]
                try:
                    await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for pump in pumps:
                        pump.cancel()
                    await asyncio.gather(*pumps, return_exceptions=True)

    async def before_commit(self) -> bool:
        """Wait while commits are held; whether this one's reply is to be cut."""
        if not self._open.is_set():
            self._held.set()
            await self._open.wait()
        if self._cuts_wanted:
            self._cuts_wanted -= 1
            return True
        return False


class _Link:
    def __init__(
        self, cutter: CommitCutter, client_out: asyncio.StreamWriter, server_out: asyncio.StreamWriter
    ) -> None:
        self._cutter = cutter
        self._client_out = client_out
        self._server_out = server_out
        self._cut_reply = False

    async def up(self, client_in: asyncio.StreamReader) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                header = await client_in.readexactly(_HEADER_BYTES)
                body = await client_in.readexactly(int.from_bytes(header[:3], "little"))
                if body[:1] == bytes([_QUERY]) and body[1:].strip().upper() == b"COMMIT":
                    self._cut_reply = await self._cutter.before_commit()
                self._server_out.write(header + body)
                await self._server_out.drain()

    async def down(self, server_in: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError):
            while chunk := await server_in.read(65536):
                if self._cut_reply:
                    self._cutter.replies_cut += 1
                    return
                self._client_out.write(chunk)
                await self._client_out.drain()
