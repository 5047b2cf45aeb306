"""One live gRPC stream to the service: frames out, answers by correlation, notices; it ends one day (T-2)."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from typing import Any, Self

import grpc.aio
from taskstatus_pb.v1 import bind_execution_service_pb2 as pb

from taskstatus.sdk.connection import Connection
from taskstatus.sdk.errors import UNAVAILABLE, TaskStatusError, UnavailableError, from_call

logger = logging.getLogger(__name__)

OnNotice = Callable[[pb.StreamExecutionNotice], None]


class StreamLink:
    """A stream that the service has opened."""

    def __init__(
        self,
        connection: Connection,
        call: Any,
        opened: pb.StreamOpened,
        on_notice: OnNotice,
        on_room: Callable[[], None],
    ) -> None:
        self.opened = opened
        self.ended = asyncio.Event()
        """Nothing more comes; what has no answer must be sent again on another stream."""
        self.going_away = asyncio.Event()
        """The service asks to open another stream."""
        self.in_flight = 0
        """Items that were sent and are not answered."""
        self.round_trip_ms = 0.0
        """Of the latest answer."""
        self.error: TaskStatusError | None = None
        self._monotonic = connection.timing.monotonic
        self._call = call
        self._on_notice = on_notice
        self._on_room = on_room
        self._correlations = itertools.count(1)
        self._waiting: dict[int, tuple[asyncio.Future[pb.StreamExecutionsResponse], int, float]] = {}
        self._writing = asyncio.Lock()
        self._reader = asyncio.get_running_loop().create_task(self._read())

    @classmethod
    async def open(cls, connection: Connection, on_notice: OnNotice, on_room: Callable[[], None]) -> Self:
        """Open a stream; ``on_room`` is called whenever more may be sent. Raises TaskStatusError."""
        call: Any = connection.bind.StreamExecutions(metadata=await connection.metadata())
        try:
            async with asyncio.timeout(connection.policy.attempt_timeout_seconds):
                first = await call.read()
            if not isinstance(first, pb.StreamExecutionsResponse) or not first.HasField("opened"):
                raise UnavailableError(UNAVAILABLE, "the service did not open the stream")
        except Exception as error:
            call.cancel()
            raise _typed(error) from error
        except BaseException:
            call.cancel()
            raise
        return cls(connection, call, first.opened, on_notice, on_room)

    @property
    def room(self) -> int:
        """How many more items may be sent now."""
        return max(0, self.opened.window_items - self.in_flight)

    async def send(self, frame: pb.StreamExecutionsRequest, items: int = 0) -> asyncio.Future[Any]:
        """Send a frame of so many items of the window; what is returned gives its answer.

        Raises UnavailableError when the stream has ended, and so does what is returned.
        """
        frame.correlation = next(self._correlations)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[frame.correlation] = (answer, items, self._monotonic())
        self.in_flight += items
        try:
            async with self._writing:
                await self._call.write(frame)
        except Exception as error:
            self._end(_typed(error))
            raise _lost() from error
        if self.ended.is_set():
            self._end(self.error)
        return answer

    async def ask(self, frame: pb.StreamExecutionsRequest, items: int = 0) -> Any:
        """Send a frame and wait for its answer. Raises UnavailableError when the stream has ended."""
        return await (await self.send(frame, items))

    async def finish(self, patience_seconds: float) -> None:
        """End the stream in the orderly way, if the service still listens."""
        try:
            async with asyncio.timeout(patience_seconds):
                await self.ask(pb.StreamExecutionsRequest(finish=pb.StreamFinish()))
        except (TimeoutError, TaskStatusError) as error:
            logger.debug("a stream did not end in order: %s", error)

    async def close(self) -> None:
        """Let go of the stream, whatever its state."""
        self._call.cancel()
        self._reader.cancel()
        await asyncio.wait([self._reader])
        self._end(self.error)

    async def _read(self) -> None:
        try:
            while isinstance(frame := await self._call.read(), pb.StreamExecutionsResponse):
                self._take(frame)
        except grpc.aio.AioRpcError as error:
            self._end(from_call(error))
        else:
            self._end(None)

    def _take(self, frame: pb.StreamExecutionsResponse) -> None:
        if not frame.correlation:
            if frame.notice.going_away:
                self.going_away.set()
            for notice in frame.notice.executions:
                self._on_notice(notice)
            return
        found = self._waiting.pop(frame.correlation, None)
        if found is None:
            return
        answer, items, sent_at = found
        self.in_flight -= items
        self.round_trip_ms = (self._monotonic() - sent_at) * 1000
        if not answer.done():
            answer.set_result(frame)
        self._on_room()

    def _end(self, error: TaskStatusError | None) -> None:
        self.error = self.error or error
        self.ended.set()
        waiting, self._waiting = self._waiting, {}
        for answer, _, _ in waiting.values():
            if not answer.done():
                answer.set_exception(_lost())
                # Whoever sent it may have stopped waiting.
                answer.exception()


def _lost() -> UnavailableError:
    return UnavailableError(UNAVAILABLE, "the stream ended before the answer came")


def _typed(error: Exception) -> TaskStatusError:
    if isinstance(error, grpc.aio.AioRpcError):
        return from_call(error)
    if isinstance(error, TimeoutError):
        return UnavailableError(UNAVAILABLE, "the service did not open the stream in time")
    if isinstance(error, TaskStatusError):
        return error
    return UnavailableError(UNAVAILABLE, f"the stream failed: {type(error).__name__}")
