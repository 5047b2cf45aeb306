"""Many executions on one stream, kept open in the background (T-2, W-4)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

from taskstatus_pb.v1 import bind_execution_service_pb2 as pb

from taskstatus.sdk.answers import ReportAnswer
from taskstatus.sdk.connection import Connection
from taskstatus.sdk.context import ExecutionContext
from taskstatus.sdk.credential import ExecutionCredential
from taskstatus.sdk.errors import UNAVAILABLE, TaskStatusError, UnavailableError, from_item
from taskstatus.sdk.event_ids import EventIds, random_event_ids
from taskstatus.sdk.retry import pauses
from taskstatus.sdk.stream_beats import beat_forever, beat_when_asked
from taskstatus.sdk.stream_events import Item, to_full_form
from taskstatus.sdk.stream_execution import StreamExecution
from taskstatus.sdk.stream_link import StreamLink
from taskstatus.sdk.worker import ending, require_wanted

logger = logging.getLogger(__name__)

FRAME_ITEMS: Final = 100
"""Events that one frame holds, at most: enough to be cheap, and answered before long."""
FINISH_SECONDS: Final = 5.0

Batch = list[tuple[StreamExecution, Item]]


class StreamReporter:
    """Reports and beats for any number of executions; use it as a context manager.

    It opens a stream, opens the next one when that ends, binds every execution again and sends what has no answer, in
    the order of each execution and with the same event ids, so that the first answers come back. It keeps within the
    window that the service tells, and beats for what runs, at the intervals that the service tells. Leaving it waits
    for the answers to all that was told, for the policy's patience at most.
    """

    def __init__(self, connection: Connection, *, event_ids: EventIds = random_event_ids) -> None:
        self._connection = connection
        self._event_ids = event_ids
        self._executions: dict[str, StreamExecution] = {}
        self._by_key: dict[int, StreamExecution] = {}
        self._unbound: dict[str, StreamExecution] = {}
        self._ready: dict[str, StreamExecution] = {}
        self._work = asyncio.Event()
        self._bind_work = asyncio.Event()
        self._beat_work = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._link: StreamLink | None = None
        self._running: asyncio.Task[None] | None = None
        self._background: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._running = asyncio.get_running_loop().create_task(self._run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None or issubclass(kind, Exception):
            await self._flush()
        await self._stop()

    @property
    def executions(self) -> Iterable[StreamExecution]:
        """Those that are bound or about to be."""
        return self._executions.values()

    async def bind(self, context: ExecutionContext) -> StreamExecution:
        """An execution that has told nothing yet; after a restart it goes on in its own sequence.

        Raises PreconditionFailedError STALE_ATTEMPT or TERMINAL when it is over: do not start the work;
        UnavailableError when the service cannot be reached within the policy's patience.
        """
        if self._running is None:
            raise RuntimeError("enter the StreamReporter before binding")
        execution = self._executions.get(context.execution_id) or await self._new(context)
        try:
            async with asyncio.timeout(self._connection.policy.patience_seconds):
                await asyncio.shield(execution.bound)
        except TimeoutError:
            self.release(execution)
            raise UnavailableError(UNAVAILABLE, "the service could not be reached") from None
        except BaseException:
            self.release(execution)
            raise
        return execution

    async def _new(self, context: ExecutionContext) -> StreamExecution:
        execution = StreamExecution(self._connection, context, self._event_ids, partial(self._has_work, context))
        if not execution.handle:
            credential = ExecutionCredential(self._connection, context)
            await credential.bind()
            execution.handle = credential.handle
        self._executions[context.execution_id] = execution
        self._bind_soon(execution)
        return execution

    @asynccontextmanager
    async def execution(self, context: ExecutionContext) -> AsyncIterator[StreamExecution]:
        """Bind, report the start, and on leaving report how it ended, unless the body did.

        Raises as :meth:`bind`, also when the execution ends between the two.
        """
        execution = await self.bind(context)
        try:
            require_wanted(await execution.started())
            async with ending(execution):
                yield execution
        finally:
            # A body that is cancelled tells nothing more, but what it told is still delivered.
            execution.leave()
            self._release_if_done(execution)

    def _release_if_done(self, execution: StreamExecution) -> None:
        if execution.has_left and not execution.unanswered:
            self.release(execution)

    def release(self, execution: StreamExecution) -> None:
        """Beat for it no more; what it told and has no answer yet is forgotten."""
        key = execution.context.execution_id
        for kept in (self._executions, self._unbound, self._ready):
            kept.pop(key, None)
        if self._by_key.get(execution.key) is execution:
            del self._by_key[execution.key]
        execution.beats = False
        self._tell_idle()

    def _has_work(self, context: ExecutionContext) -> None:
        execution = self._executions.get(context.execution_id)
        if execution is None:
            return
        self._idle.clear()
        if execution.has_work:
            self._ready[context.execution_id] = execution
            self._work.set()

    def _bind_soon(self, execution: StreamExecution) -> None:
        self._unbound[execution.context.execution_id] = execution
        self._bind_work.set()

    # ---- streams, one after the other

    async def _run(self) -> None:
        waiting = pauses(self._connection.policy, self._connection.timing)
        while True:
            try:
                self._link = await StreamLink.open(self._connection, self._noticed, self._work.set)
                waiting = pauses(self._connection.policy, self._connection.timing)
                await self._serve(self._link)
            except TaskStatusError as error:
                logger.warning("no stream to the service: %s", error)
                if not error.retryable and error.reason != "TOKEN_EXPIRED":
                    self._refuse_waiting(error)
            except Exception:
                # Such as a token provider's: the work goes on, and the next stream may be opened.
                logger.exception("the stream to the service failed")
            finally:
                await self._leave_link()
            await self._connection.timing.sleep(next(waiting))

    async def _leave_link(self) -> None:
        link, self._link = self._link, None
        self._by_key.clear()
        self._ready.clear()
        for execution in self._executions.values():
            execution.unbind()
            if not execution.is_over:
                self._bind_soon(execution)
        if link is not None:
            await link.close()

    async def _serve(self, link: StreamLink) -> None:
        """Until the stream ends or the service asks to leave it."""
        loop = asyncio.get_running_loop()
        parts = [
            loop.create_task(part)
            for part in (
                self._bind_all(link),
                self._send_all(link),
                beat_forever(link, self._connection, self._by_key),
                beat_when_asked(link, self._connection, self._by_key, self._beat_work),
            )
        ]
        ends = [loop.create_task(event.wait()) for event in (link.ended, link.going_away)]
        try:
            await asyncio.wait([*parts, *ends], return_when=asyncio.FIRST_COMPLETED)
            if link.going_away.is_set() and not link.ended.is_set():
                await _stop_all(parts)
                await link.finish(FINISH_SECONDS)
        finally:
            await _stop_all([*parts, *ends])
        if link.error is not None:
            raise link.error

    async def _bind_all(self, link: StreamLink) -> None:
        waiting = pauses(self._connection.policy, self._connection.timing)
        while True:
            await self._bind_work.wait()
            batch = list(self._unbound.values())[: min(FRAME_ITEMS, link.opened.frame_items)]
            if not batch:
                self._bind_work.clear()
                continue
            wanted = [pb.BindExecutionRequest(execution_handle=execution.handle) for execution in batch]
            answer = await link.ask(pb.StreamExecutionsRequest(bind=pb.StreamBind(executions=wanted)))
            outcomes = [self._take_binding(*pair) for pair in zip(batch, answer.bound.results, strict=True)]
            if all(outcomes):
                waiting = pauses(self._connection.policy, self._connection.timing)
            else:
                await self._connection.timing.sleep(next(waiting))

    def _take_binding(self, execution: StreamExecution, result: pb.StreamBoundResult) -> bool:
        """Whether that settles it; a refusal in passing leaves the execution to be bound."""
        key = execution.context.execution_id
        if result.HasField("response"):
            self._unbound.pop(key, None)
            execution.bind(result.stream_execution_key, result.response)
            self._by_key[execution.key] = execution
            self._has_work(execution.context)
            self._tell_idle()
            return True
        error = from_item(result.error)
        if error.retryable:
            return False
        self._unbound.pop(key, None)
        execution.refuse(error)
        self._spawn(self._settle_by_calls(execution))
        return True

    def _refuse_waiting(self, error: TaskStatusError) -> None:
        for execution in list(self._executions.values()):
            if not execution.bound.done():
                execution.refuse(error)

    # ---- events

    async def _send_all(self, link: StreamLink) -> None:
        while True:
            batch = self._next_batch(min(FRAME_ITEMS, link.opened.frame_items, link.room))
            if not batch:
                self._work.clear()
                await self._work.wait()
                continue
            report = pb.StreamReport(events=[item.event for _, item in batch])
            answer = await link.send(pb.StreamExecutionsRequest(report=report), len(batch))
            answer.add_done_callback(partial(self._take_answers, batch))

    def _next_batch(self, most: int) -> Batch:
        batch: Batch = []
        while self._ready and len(batch) < most:
            key, execution = next(iter(self._ready.items()))
            batch.extend((execution, item) for item in execution.take(most - len(batch)))
            if not execution.has_work:
                del self._ready[key]
        return batch

    def _take_answers(self, batch: Batch, answer: asyncio.Future[pb.StreamExecutionsResponse]) -> None:
        if answer.cancelled() or answer.exception() is not None:
            return
        for (execution, item), result in zip(batch, answer.result().reported.results, strict=True):
            execution.answered(item, result)
        for execution in {id(execution): execution for execution, _ in batch}.values():
            self._go_on(execution)
        self._work.set()
        self._tell_idle()

    def _go_on(self, execution: StreamExecution) -> None:
        """When nothing of it is on its way: bind it anew if need be, and send what failed again after a pause."""
        if execution.context.execution_id not in self._executions or not execution.all_answered():
            return
        if not execution.key:
            self._bind_soon(execution)
        elif execution.restart():
            execution.pause = self._connection.policy.first_pause_seconds
            self._spawn(self._resume(execution, execution.key))
        else:
            self._release_if_done(execution)

    async def _resume(self, execution: StreamExecution, key: int) -> None:
        policy, timing = self._connection.policy, self._connection.timing
        await timing.sleep(timing.uniform(policy.first_pause_seconds, policy.first_pause_seconds * 4))
        if execution.key == key:
            execution.pause = 0.0
            self._has_work(execution.context)

    async def _settle_by_calls(self, execution: StreamExecution) -> None:
        """Of an execution that cannot be bound any more: ask what became of each fact that has no answer."""
        connection = self._connection
        for item in execution.unsent_items():
            request = to_full_form(item.event, execution.handle)
            outcome: ReportAnswer | TaskStatusError
            try:
                response = await connection.call(connection.report.ReportEvent, request)
                outcome = ReportAnswer.from_message(request.event_id, response)
            except TaskStatusError as error:
                outcome = error
            execution.settle_by_call(item, outcome)
        self.release(execution)

    def _noticed(self, notice: pb.StreamExecutionNotice) -> None:
        execution = self._by_key.get(notice.stream_execution_key)
        if execution is not None:
            execution.noticed(notice)
            if notice.beat_now:
                self._beat_work.set()

    # ---- the end

    def _tell_idle(self) -> None:
        if all(not execution.unanswered for execution in self._executions.values()):
            self._idle.set()

    async def _flush(self) -> None:
        try:
            async with asyncio.timeout(self._connection.policy.patience_seconds):
                await self._idle.wait()
        except TimeoutError:
            left = sum(execution.unanswered for execution in self._executions.values())
            logger.warning("the reporter ends with %d facts unanswered", left)

    async def _stop(self) -> None:
        link = self._link
        if link is not None and not link.ended.is_set():
            await link.finish(FINISH_SECONDS)
        if self._running is not None:
            await _stop_all([self._running])
            self._running = None
        await _stop_all(list(self._background))

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


async def _stop_all(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, TaskStatusError):
            raise error
