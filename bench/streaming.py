"""Load on the product by stream: one stream per client, many frames in flight, answers by correlation.

``send`` is the strict form: every event must lead to a new version. ``send_until_accepted`` is the soak's: a stream
that was cut is opened again, its executions are bound again, and what has no answer is sent again as it was (E-3).
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Iterable, Sequence
from typing import Any, TypeVar

import grpc.aio
from taskstatus_pb.v1 import bind_execution_service_pb2 as pb
from taskstatus_pb.v1 import common_pb2

from bench import frames
from bench.product import DEADLINE_SECONDS, OWN_CONNECTION, UnexpectedAnswerError
from bench.workload import Event, Execution
from taskstatus.domain.events import EventType

METHOD = "/taskstatus.v1.BindExecutionService/StreamExecutions"
BIND_ITEMS = 500
PAUSE_SECONDS = 0.2
"""Before something refused in passing is sent again."""

T = TypeVar("T")
Response = pb.StreamExecutionsResponse


class StreamCutError(Exception):
    """The stream is no more; what was sent on it and not answered may be committed or not."""


def open_channel(target: str) -> grpc.aio.Channel:
    """A connection of its own."""
    return grpc.aio.insecure_channel(target, options=OWN_CONNECTION)


class StreamClient:
    """One stream on a connection; ``bearer`` is the worker's JWT."""

    def __init__(self, channel: grpc.aio.Channel, bearer: str) -> None:
        self._open_call: Any = channel.stream_stream(
            METHOD, request_serializer=None, response_deserializer=Response.FromString
        )
        self._metadata = (("authorization", f"Bearer {bearer}"),)
        self._call: Any = None
        self._reader: asyncio.Task[None] | None = None
        self._answers: dict[int, asyncio.Future[Response]] = {}
        self._correlations = itertools.count(1)
        self._keys: dict[bytes, int] = {}
        self._executions: dict[bytes, Execution] = {}
        self._over: set[bytes] = set()
        """Executions that were over when they were bound again."""
        self._writing = asyncio.Lock()
        self._opening = asyncio.Lock()
        self.reconnects = 0
        self.repeats = 0
        """Events whose first answer had been lost: the service had committed them before."""
        self.refusals = 0
        """Items refused in passing and sent again."""

    async def open(self, executions: Iterable[Execution] = ()) -> None:
        """Open the stream and bind executions, besides those bound before."""
        self._executions |= {execution.execution_id: execution for execution in executions}
        self.cut()
        if self._reader is not None:
            await asyncio.wait([self._reader])
        self._keys = {}
        self._call = self._open_call(metadata=self._metadata)
        if not isinstance(await _or_cut(self._call.read()), Response):
            raise StreamCutError("the stream ended before it began")
        self._reader = asyncio.create_task(self._read(self._call))
        await self._bind(list(self._executions.values()))

    def keys_of(self, executions: Iterable[Execution]) -> list[int]:
        """The numbers that binding gave."""
        return [self._keys[execution.execution_id] for execution in executions]

    async def send(self, events: Sequence[Event]) -> int:
        """Report events in one frame; how many were absorbed."""
        correlation = next(self._correlations)
        answer = await self._ask(correlation, frames.report_frame(correlation, events, self._keys))
        return sum(map(_check, answer.reported.results))

    async def send_until_accepted(self, events: Sequence[Event]) -> int:
        """Report events in one frame, over again until each is accepted; how many were absorbed."""
        left, absorbed = list(events), 0
        while left:
            call = self._call
            try:
                left, more = await self._send_once(left)
            except StreamCutError:
                await self._open_again(call)
                continue
            absorbed += more
            if left:
                self.refusals += len(left)
                await asyncio.sleep(PAUSE_SECONDS)
        return absorbed

    async def beat(self, keys: Sequence[int], seq: int) -> int:
        """Beat once for each key in one frame. Raises UnexpectedAnswerError when a beat was not taken."""
        correlation = next(self._correlations)
        beaten = (await self._ask(correlation, frames.beats_frame(correlation, keys, seq))).beaten
        if beaten.accepted != len(keys):
            raise UnexpectedAnswerError(common_pb2.Reason.Name(beaten.refused[0].reason))
        return 0

    def cut(self) -> None:
        """Break the stream off in the middle, as a lost connection would."""
        if self._call is not None:
            self._call.cancel()

    async def close(self) -> None:
        """Finish the stream in the orderly way."""
        try:
            correlation = next(self._correlations)
            await self._ask(correlation, frames.finish_frame(correlation))
        except StreamCutError:
            pass
        if self._reader is not None:
            await asyncio.wait([self._reader])

    async def _bind(self, executions: Sequence[Execution]) -> None:
        for start in range(0, len(executions), BIND_ITEMS):
            group = executions[start : start + BIND_ITEMS]
            correlation = next(self._correlations)
            answer = await self._ask(correlation, frames.bind_frame(correlation, group))
            for execution, result in zip(group, answer.bound.results, strict=True):
                if result.HasField("response"):
                    self._keys[execution.execution_id] = result.stream_execution_key
                elif result.error.reason == common_pb2.TERMINAL:
                    del self._executions[execution.execution_id]
                    self._over.add(execution.execution_id)
                else:
                    raise UnexpectedAnswerError(common_pb2.Reason.Name(result.error.reason))

    async def _send_once(self, events: Sequence[Event]) -> tuple[list[Event], int]:
        """The events to send again, and how many were absorbed. Executions are bound when they are first told of."""
        async with self._opening:
            await self._bind_new(event.execution for event in events)
            known = [event for event in events if event.execution.execution_id in self._keys]
        # The others' executions are over: what was their last event is committed.
        self.repeats += len(events) - len(known)
        if not known:
            return [], 0
        correlation = next(self._correlations)
        answer = await self._ask(correlation, frames.report_frame(correlation, known, self._keys))
        left, absorbed = [], 0
        for event, result in zip(known, answer.reported.results, strict=True):
            if result.HasField("error") and result.error.retryable:
                left.append(event)
            elif result.accepted and result.duplicate:
                self.repeats += 1
            else:
                absorbed += _check(result)
            if result.accepted and event.event_type is EventType.STEP_COMPLETED:
                del self._executions[event.execution.execution_id], self._keys[event.execution.execution_id]
        return left, absorbed

    async def _bind_new(self, executions: Iterable[Execution]) -> None:
        new = {each.execution_id: each for each in executions if each.execution_id not in self._keys}
        new = {key: execution for key, execution in new.items() if key not in self._over}
        self._executions |= new
        await self._bind(list(new.values()))

    async def _open_again(self, broken: Any) -> None:
        """Open another stream in place of a broken one; whoever comes first does it for all."""
        async with self._opening:
            if self._call is not broken:
                return
            while True:
                try:
                    await self.open()
                except StreamCutError:
                    await asyncio.sleep(PAUSE_SECONDS)
                else:
                    self.reconnects += 1
                    return

    async def _ask(self, correlation: int, frame: bytes) -> Response:
        """Send one frame and wait for its answer. Raises StreamCutError."""
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._answers[correlation] = answer
        async with asyncio.timeout(DEADLINE_SECONDS):
            async with self._writing:
                try:
                    await _or_cut(self._call.write(frame))
                except StreamCutError:
                    self._answers.pop(correlation, None)
                    raise
            return await answer

    async def _read(self, call: Any) -> None:
        cause = "the stream ended"
        try:
            while isinstance(answer := await _or_cut(call.read()), Response):
                future = self._answers.pop(answer.correlation, None)
                if future is not None and not future.done():
                    future.set_result(answer)
        except StreamCutError as error:
            cause = str(error)
        waiting, self._answers = self._answers, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(StreamCutError(cause))
                # Whoever waits sees it; nobody does when its own writing failed.
                future.exception()


async def _or_cut(operation: Awaitable[T]) -> T:
    """The result of an operation on a call. Raises StreamCutError when the call is over, however it ended."""
    try:
        return await operation
    except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
        raise StreamCutError(str(error)) from None
    except asyncio.CancelledError:
        # A call that its own client has cancelled raises it too.
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise StreamCutError("cut") from None


def _check(result: pb.CompactEventResult) -> bool:
    if result.HasField("error"):
        raise UnexpectedAnswerError(f"{common_pb2.Reason.Name(result.error.reason)}: {result.error.message}")
    if not (result.accepted and result.changed) or result.duplicate:
        raise UnexpectedAnswerError(common_pb2.Reason.Name(result.reason))
    return result.coalesced
