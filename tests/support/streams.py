"""A raw client of StreamExecutions: one frame at a time, answers by correlation, notices kept."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import grpc
import grpc.aio
from taskstatus_pb.v1 import bind_execution_service_pb2 as pb
from taskstatus_pb.v1 import common_pb2, report_service_pb2

from tests.support.clients import Caller, Refusal, refusal_of

WAIT_SECONDS = 30.0

Request = pb.StreamExecutionsRequest
Response = pb.StreamExecutionsResponse


def compact(key: int, event_type: int, source_seq: int, event_id: bytes = b"", **fields: Any) -> Any:
    """An event of a bound execution, with an id of its own unless one is given."""
    return report_service_pb2.CompactEvent(
        stream_execution_key=key,
        event_id=event_id or uuid4().bytes,
        event_type=event_type,  # type: ignore[arg-type]
        source_seq=source_seq,
        **fields,
    )


def progress(key: int, source_seq: int, current: float, event_id: bytes = b"") -> Any:
    """A progress of ten pages."""
    pages = common_pb2.Progress(current=current, total=10, unit="page")
    return compact(key, common_pb2.STEP_PROGRESS, source_seq, event_id, progress=pages)


class StreamClient:
    """One stream; use it as a context manager, whose end cancels what is still open."""

    def __init__(self, caller: Caller) -> None:
        self.call: Any = caller.bind_service.StreamExecutions(metadata=caller.metadata)
        self.notices: list[pb.StreamExecutionNotice] = []
        self.going_away = asyncio.Event()
        self.opened: pb.StreamOpened | None = None
        self._correlations = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Response]] = {}
        self._news = asyncio.Event()
        self._writing = asyncio.Lock()
        self._reader: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        first = await self.call.read()
        if first is grpc.aio.EOF:
            raise grpc.aio.AioRpcError(*await _status_of(self.call))
        self.opened = first.opened
        self._reader = asyncio.create_task(self._read())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.call.cancel()
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.wait([self._reader])

    async def send(self, **frame: Any) -> asyncio.Future[Response]:
        """Send one frame and return what will give its answer."""
        correlation = next(self._correlations)
        answer = self._answers[correlation] = asyncio.get_running_loop().create_future()
        async with self._writing:
            await self.call.write(Request(correlation=correlation, **frame))
        return answer

    async def ask(self, **frame: Any) -> Response:
        """Send one frame and wait for its answer."""
        async with asyncio.timeout(WAIT_SECONDS):
            return await (await self.send(**frame))

    async def bind(self, *contexts: Any, by: str = "handle") -> list[pb.StreamBoundResult]:
        """Bind executions by their contexts."""
        wanted = [
            pb.BindExecutionRequest(execution_handle=context.execution_handle)
            if by == "handle"
            else pb.BindExecutionRequest(execution_token=context.execution_token)
            for context in contexts
        ]
        return list((await self.ask(bind=pb.StreamBind(executions=wanted))).bound.results)

    async def key_of(self, context: Any, by: str = "handle") -> int:
        """The number of an execution that can be bound."""
        (result,) = await self.bind(context, by=by)
        assert result.HasField("response"), result
        return int(result.stream_execution_key)

    async def report(self, *events: Any) -> list[pb.CompactEventResult]:
        """Report events in one frame."""
        return list((await self.ask(report=pb.StreamReport(events=events))).reported.results)

    async def beat(self, *beats: tuple[int, int]) -> pb.StreamBeaten:
        """Beat for (key, sequence) pairs in one frame."""
        frame = pb.StreamHeartbeat(
            beats=[pb.StreamBeat(stream_execution_key=key, heartbeat_seq=seq) for key, seq in beats]
        )
        return (await self.ask(heartbeat=frame)).beaten

    async def notice(self, matches: Callable[[pb.StreamExecutionNotice], bool]) -> pb.StreamExecutionNotice:
        """Wait for a notice."""
        async with asyncio.timeout(WAIT_SECONDS):
            while True:
                for notice in self.notices:
                    if matches(notice):
                        return notice
                self._news.clear()
                await self._news.wait()

    async def finish(self) -> grpc.StatusCode:
        """Finish in the orderly way; the status that the stream ends with."""
        answer = await self.ask(finish=pb.StreamFinish())
        assert answer.HasField("finished")
        return await self.code()

    async def code(self) -> grpc.StatusCode:
        """Wait for the end of the stream."""
        async with asyncio.timeout(WAIT_SECONDS):
            return await self.call.code()  # type: ignore[no-any-return]

    async def refusal(self) -> Refusal:
        """Wait for the end of the stream by a refusal."""
        return refusal_of(grpc.aio.AioRpcError(*await _status_of(self.call)))

    async def _read(self) -> None:
        try:
            while isinstance(frame := await self.call.read(), Response):
                self._take(frame)
        except grpc.aio.AioRpcError:
            pass
        self.going_away.set()
        for answer in self._answers.values():
            answer.cancel()

    def _take(self, frame: Response) -> None:
        if frame.correlation:
            self._answers.pop(frame.correlation).set_result(frame)
            return
        if frame.notice.going_away:
            self.going_away.set()
        self.notices.extend(frame.notice.executions)
        self._news.set()


async def _status_of(call: Any) -> tuple[Any, ...]:
    async with asyncio.timeout(WAIT_SECONDS):
        return (
            await call.code(),
            await call.initial_metadata(),
            await call.trailing_metadata(),
            await call.details(),
        )


def reasons_of(results: Sequence[pb.CompactEventResult]) -> list[str]:
    """The reason of each result: a refusal's, an answer's, or nothing."""
    reasons = [result.error.reason if result.HasField("error") else result.reason for result in results]
    return [common_pb2.Reason.Name(reason) if reason else "" for reason in reasons]
