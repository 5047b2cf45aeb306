"""What waits to be written to one stream: answers in the order in which they were decided, notices merged."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from taskstatus_pb.v1 import bind_execution_service_pb2 as pb

from taskstatus.application.ports_clock import Clock

NOTICES_PER_FRAME = 500

Write = Callable[[bytes], Awaitable[None]]


class StreamOutbox:
    """Bounded by its producers: the window for items, ``has_room`` for the rest, one notice for each execution."""

    def __init__(self, clock: Clock, room_bytes: int, on_written: Callable[[int], None]) -> None:
        self._clock = clock
        self._room_bytes = room_bytes
        self._on_written = on_written
        self._answers: deque[tuple[bytes, int]] = deque()
        self._notices: dict[int, pb.StreamExecutionNotice] = {}
        self._going_away = False
        self._waiting_bytes = 0
        self._writing_since: float | None = None
        self._closed = False
        self._dropped = False
        self._changed = asyncio.Event()
        self._drained = asyncio.Event()

    @property
    def waiting(self) -> int:
        """Answers that are not written yet."""
        return len(self._answers)

    def put(self, answer: pb.StreamExecutionsResponse, items: int = 0) -> None:
        """Queue an answer to a frame of so many items of the window."""
        if self._dropped:
            return
        message = answer.SerializeToString()
        self._answers.append((message, items))
        self._waiting_bytes += len(message)
        self._changed.set()

    def notify(self, notice: pb.StreamExecutionNotice) -> None:
        """Queue news of one execution; news of it that still waits is brought up to date."""
        if self._dropped:
            return
        waiting = self._notices.setdefault(notice.stream_execution_key, notice)
        if waiting is not notice:
            waiting.MergeFrom(notice)
        self._changed.set()

    def announce_going_away(self) -> None:
        """Tell the client to open another stream, ahead of whatever waits."""
        self._going_away = True
        self._changed.set()

    async def has_room(self) -> None:
        """Wait until fewer bytes wait than one stream may hold; a client that reads nothing is read no further."""
        while self._waiting_bytes >= self._room_bytes and not self._dropped:
            self._drained.clear()
            await self._drained.wait()

    def stuck_for(self) -> float:
        """For how many seconds the client has not taken the message that is being written; 0 when it has."""
        return 0.0 if self._writing_since is None else self._clock.monotonic_seconds() - self._writing_since

    def close(self) -> None:
        """Nothing more comes: ``run`` ends when all is written."""
        self._closed = True
        self._changed.set()

    def drop(self) -> None:
        """Nobody reads any more: forget what waits, and whom to tell, or the two would hold each other."""
        self._dropped = self._closed = True
        self._on_written = _nobody
        self._answers.clear()
        self._notices.clear()
        self._waiting_bytes = 0
        self._changed.set()
        self._drained.set()

    async def run(self, write: Write) -> None:
        """Write until closed and empty. An exception of ``write`` passes through: the stream is gone."""
        while True:
            message, items = self._next()
            if message is None:
                if self._closed:
                    return
                self._changed.clear()
                await self._changed.wait()
                continue
            self._writing_since = self._clock.monotonic_seconds()
            await write(message)
            self._writing_since = None
            self._on_written(items)

    def _next(self) -> tuple[bytes | None, int]:
        if self._going_away or self._notices:
            return self._next_notice(), 0
        if not self._answers:
            return None, 0
        message, items = self._answers.popleft()
        self._waiting_bytes -= len(message)
        if self._waiting_bytes < self._room_bytes:
            self._drained.set()
        return message, items

    def _next_notice(self) -> bytes:
        frame = pb.StreamExecutionsResponse()
        frame.notice.going_away, self._going_away = self._going_away, False
        for key in list(self._notices)[:NOTICES_PER_FRAME]:
            frame.notice.executions.append(self._notices.pop(key))
        return frame.SerializeToString()


def _nobody(_items: int) -> None:
    """Is told of what is written to a stream that is gone."""
