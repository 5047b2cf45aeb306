"""A TCP proxy between one process and its database that loses COMMITs or their replies, delays, holds and cuts.

It reads just enough of the client's packets to know one whose command is the query COMMIT.
"""

from __future__ import annotations

import asyncio
import contextlib
from enum import Enum
from types import TracebackType
from typing import Self

HOST = "127.0.0.1"
CHUNK_BYTES = 65_536
_QUERY = 0x03
_HEADER_BYTES = 4


class Fate(Enum):
    """What becomes of one COMMIT."""

    PASSES = "passes"
    REPLY_LOST = "done, its reply and the connection are lost"
    LOST = "never arrives, and the connection is lost"


class FaultyProxy:
    """Forwards everything; every fault is switched on from outside and ends with ``heal``."""

    def __init__(self, upstream_port: int) -> None:
        self._upstream_port = upstream_port
        self._fates: list[Fate] = []
        self._links: set[_Link] = set()
        self._open = asyncio.Event()
        self._open.set()
        self._delay_seconds = 0.0
        self._bytes_per_second = 0.0
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, HOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        tasks = [link.task for link in self._links]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def spoil_commits(self, fate: Fate, count: int) -> None:
        """The fate of the next COMMITs."""
        self._fates.extend([fate] * count)

    def cut(self) -> int:
        """Reset every connection; how many there were."""
        for link in self._links:
            link.abort()
        return len(self._links)

    def slow_down(self, delay_seconds: float, bytes_per_second: float) -> None:
        """Delay each packet or chunk; 0 bytes per second: no limit."""
        self._delay_seconds, self._bytes_per_second = delay_seconds, bytes_per_second

    def hold(self) -> None:
        """Let nothing through, and close nothing either, as a partition does."""
        self._open.clear()

    def release(self) -> None:
        """The end of ``hold``."""
        self._open.set()

    def heal(self) -> None:
        """Forward everything at once again."""
        self._fates.clear()
        self.release()
        self.slow_down(0.0, 0.0)

    def next_fate(self) -> Fate:
        """What becomes of the COMMIT that has just been read."""
        return self._fates.pop(0) if self._fates else Fate.PASSES

    async def pass_time(self, size: int) -> None:
        """Wait as the present faults want for so many bytes."""
        rate = self._bytes_per_second
        seconds = self._delay_seconds + (size / rate if rate else 0.0)
        if seconds:
            await asyncio.sleep(seconds)
        await self._open.wait()

    async def _serve(self, client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            server_in, server_out = await asyncio.open_connection(HOST, self._upstream_port)
        except OSError:
            client_out.transport.abort()
            return
        link = _Link(self, task, client_out, server_out)
        self._links.add(link)
        try:
            await link.run(client_in, server_in)
        finally:
            self._links.discard(link)


class _Link:
    """One connection through the proxy."""

    def __init__(
        self,
        proxy: FaultyProxy,
        task: asyncio.Task[None],
        client_out: asyncio.StreamWriter,
        server_out: asyncio.StreamWriter,
    ) -> None:
        self.task = task
        self._proxy = proxy
        self._client_out = client_out
        self._server_out = server_out
        self._loses_reply = False

    def abort(self) -> None:
        """Reset both sides."""
        for writer in (self._client_out, self._server_out):
            writer.transport.abort()

    async def run(self, client_in: asyncio.StreamReader, server_in: asyncio.StreamReader) -> None:
        """Forward until either side ends."""
        pumps = [asyncio.ensure_future(self._up(client_in)), asyncio.ensure_future(self._down(server_in))]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            self.abort()

    async def _up(self, client_in: asyncio.StreamReader) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                header = await client_in.readexactly(_HEADER_BYTES)
                body = await client_in.readexactly(int.from_bytes(header[:3], "little"))
                if body[:1] == bytes([_QUERY]) and body[1:].strip().upper() == b"COMMIT":
                    fate = self._proxy.next_fate()
                    if fate is Fate.LOST:
                        return
                    self._loses_reply = fate is Fate.REPLY_LOST
                await self._proxy.pass_time(len(body))
                self._server_out.write(header + body)
                await self._server_out.drain()

    async def _down(self, server_in: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError):
            while chunk := await server_in.read(CHUNK_BYTES):
                if self._loses_reply:
                    return
                await self._proxy.pass_time(len(chunk))
                self._client_out.write(chunk)
                await self._client_out.drain()
