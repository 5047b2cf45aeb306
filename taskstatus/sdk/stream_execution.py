"""One execution on a stream: its facts in order until each is answered, and what the service says of it (W-1)."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from taskstatus_pb.v1 import bind_execution_service_pb2 as pb
from taskstatus_pb.v1 import common_pb2
from taskstatus_pb.v1.report_service_pb2 import CompactEvent

from taskstatus.sdk.answers import ReportAnswer
from taskstatus.sdk.children import register_child
from taskstatus.sdk.connection import Connection
from taskstatus.sdk.context import ExecutionContext
from taskstatus.sdk.errors import INTERNAL, UNAVAILABLE, TaskStatusError, UnavailableError, from_item
from taskstatus.sdk.event_ids import EventIds
from taskstatus.sdk.failures import as_step_error, to_message
from taskstatus.sdk.manifest import DynamicStep
from taskstatus.sdk.reporter import EventData
from taskstatus.sdk.stream_events import Item, to_answer, to_data, to_event_id, to_micros

logger = logging.getLogger(__name__)

_ENDING: Final = frozenset({common_pb2.STEP_COMPLETED, common_pb2.STEP_FAILED, common_pb2.STEP_CANCELLED})
_ENDS: Final = frozenset({"TERMINAL", "STALE_ATTEMPT", "STALE_EXECUTION", "TOKEN_REVOKED"})
DEFAULT_INTERVAL_SECONDS: Final = 15


class StreamExecution:
    """Made by :class:`~taskstatus.sdk.stream.StreamReporter`; safe for the tasks of one loop.

    Facts may be told without waiting for the answers to earlier ones: they are sent in the order told. A fact without
    an answer is sent again, with the same event id, by every stream that follows, until it is answered. Every method
    raises TaskStatusError: a refusal as soon as it is known, UnavailableError when the policy's patience is over; the
    fact is still delivered after that, as long as the process and the reporter live.
    """

    def __init__(
        self, connection: Connection, context: ExecutionContext, event_ids: EventIds, on_work: Callable[[], None]
    ) -> None:
        self.context = context
        self.handle = context.execution_handle
        self.key = 0
        """Its number on the stream that is open; 0 while it has none."""
        self.bound: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when it was bound for the first time, or refused."""
        self.stopped = asyncio.Event()
        """It is no longer wanted: superseded, ended or revoked; ``stop_reason`` says which."""
        self.stop_reason = ""
        self.cancel_requested = False
        """Somebody asked for the task's cancellation: stop when it suits, and report."""
        self.interval_seconds = context.heartbeat_interval_seconds or DEFAULT_INTERVAL_SECONDS
        self.beats = False
        """It runs, as far as is known."""
        self.next_beat_at = 0.0
        self.heartbeat_seq = 0
        self.last_answer: ReportAnswer | None = None
        self._connection = connection
        self._event_ids = event_ids
        self._on_work = on_work
        self._items: deque[Item] = deque()
        self._sent = 0
        self._failed = False
        self._next_source_seq = 0
        self._began_at: float | None = None
        self._ended = False
        self._has_left = False
        self.is_over = False
        """It cannot be bound any more; what has no answer is asked for by calls."""
        self.pause = 0.0
        """Seconds to wait before its facts are sent again."""

    @property
    def ended(self) -> bool:
        """Whether its end was reported, even if the answer is still unknown."""
        return self._ended

    @property
    def has_left(self) -> bool:
        """Whether nothing more will be told."""
        return self._ended or self._has_left

    @property
    def unanswered(self) -> int:
        """Facts without an answer."""
        return len(self._items)

    @property
    def has_work(self) -> bool:
        """Whether there is something to send on the open stream."""
        return self.key > 0 and not self._failed and not self.pause and self._sent < len(self._items)

    async def started(self, *, event_id: str = "") -> ReportAnswer:
        """The execution began. Said again after a restart it changes nothing."""
        if self._began_at is not None:
            self._began_at = self._connection.timing.monotonic()
        return await self._report(CompactEvent(event_type=common_pb2.STEP_STARTED), event_id)

    async def progress(
        self,
        current: float,
        total: float = 0.0,
        unit: str = "",
        *,
        phase: str = "",
        phase_label: str = "",
        data: EventData | None = None,
        event_id: str = "",
    ) -> ReportAnswer | None:
        """How far it is; ``total`` 0 when unknown.

        None when a newer progress was told before this one could be sent, or when the service could not be reached for
        a short while: the work goes on then (W-3).
        """
        event = CompactEvent(
            event_type=common_pb2.STEP_PROGRESS,
            progress=common_pb2.Progress(current=current, total=total, unit=unit),
            phase_code=phase,
            phase_label=phase_label,
            data=to_data(data.schema, data.value) if data is not None else None,
        )
        item = self._enqueue(event, event_id)
        try:
            return await self._answer_of(item, self._connection.policy.progress_patience_seconds)
        except UnavailableError as error:
            logger.warning("progress of %s was not delivered yet: %s", self.context.execution_id, error)
            return None

    async def completed(
        self, *, data: EventData | None = None, duration_ms: float | None = None, event_id: str = ""
    ) -> ReportAnswer:
        """The execution succeeded. ``duration_ms`` missing: measured since ``started`` on the monotonic clock."""
        event = CompactEvent(
            event_type=common_pb2.STEP_COMPLETED,
            data=to_data(data.schema, data.value) if data is not None else None,
            duration_ms=self._duration(duration_ms),
        )
        return await self._report(event, event_id)

    async def failed(
        self, error: BaseException, *, duration_ms: float | None = None, event_id: str = ""
    ) -> ReportAnswer:
        """The execution failed; raise or pass StepError to choose what people see."""
        event = CompactEvent(
            event_type=common_pb2.STEP_FAILED,
            error=to_message(as_step_error(error)),
            duration_ms=self._duration(duration_ms),
        )
        return await self._report(event, event_id)

    async def cancelled(self, *, duration_ms: float | None = None, event_id: str = "") -> ReportAnswer:
        """The work stopped before its end, as asked (``cancel_requested``): the evidence of a cancellation (L-1)."""
        event = CompactEvent(event_type=common_pb2.STEP_CANCELLED, duration_ms=self._duration(duration_ms))
        return await self._report(event, event_id)

    async def register_child(self, step: DynamicStep) -> ExecutionContext:
        """Register a step that this execution has found to be needed, and give the context to hand on (R-4).

        As :meth:`taskstatus.sdk.Reporter.register_child`; a call of its own, after the answer to ``started``.
        """
        return await register_child(self._connection, self.context, self.handle, step)

    def _duration(self, duration_ms: float | None) -> int | None:
        if duration_ms is not None:
            return int(duration_ms)
        if self._began_at is None:
            return None
        return int((self._connection.timing.monotonic() - self._began_at) * 1000)

    async def _report(self, event: CompactEvent, event_id: str) -> ReportAnswer:
        answer = await self._answer_of(self._enqueue(event, event_id), self._connection.policy.patience_seconds)
        assert answer is not None, "only progress is overtaken"
        return answer

    async def _answer_of(self, item: Item, patience_seconds: float) -> ReportAnswer | None:
        try:
            async with asyncio.timeout(patience_seconds):
                return await asyncio.shield(item.answer)
        except TimeoutError:
            raise UnavailableError(UNAVAILABLE, "the service has not answered yet; the fact is still sent") from None

    def _enqueue(self, event: CompactEvent, event_id: str) -> Item:
        source_seq = self._next_source_seq
        name = common_pb2.EventType.Name(event.event_type)
        event.event_id = to_event_id(event_id or self._event_ids(self.context.execution_id, name, source_seq))
        event.source_seq = source_seq
        event.occurred_at_us = to_micros(self._connection.timing.now())
        item = Item(event)
        item.answer.add_done_callback(_seen)
        self._next_source_seq += 1
        self._ended = self._ended or event.event_type in _ENDING
        if self._items and event.event_type == common_pb2.STEP_PROGRESS and self._items[-1].may_be_overtaken:
            _settle(self._items.pop(), None)
        self._items.append(item)
        self._on_work()
        return item

    # ---- towards the stream

    def take(self, most: int) -> list[Item]:
        """The next facts to send."""
        items = [self._items[place] for place in range(self._sent, min(len(self._items), self._sent + most))]
        for item in items:
            item.event.stream_execution_key = self.key
            item.was_sent = True
        self._sent += len(items)
        return items

    def unbind(self) -> None:
        """The stream has ended: all that has no answer is to be sent again."""
        self.key, self._sent, self._failed, self.pause = 0, 0, False, 0.0

    def bind(self, key: int, response: pb.BindExecutionResponse) -> None:
        """The execution has a number on the open stream."""
        self.unbind()
        self.key, self.handle = key, response.execution_handle
        if not self.bound.done():
            self._next_source_seq = response.next_source_seq
            resumed = response.next_source_seq > 1
            self._began_at = None if resumed else self._connection.timing.monotonic()
            self.beats = resumed
            self.bound.set_result(None)

    def answered(self, item: Item, result: pb.CompactEventResult) -> None:
        """One fact was answered; one that failed in passing stays, and so does all that was sent after it (E-10)."""
        self._sent -= 1
        if not result.HasField("error"):
            self._accept(item, to_answer(item.event.event_id.hex(), self.context, result))
            return
        error = from_item(result.error)
        item.attempts += error.reason == INTERNAL
        given_up = item.attempts >= self._connection.policy.internal_attempts
        if error.retryable and not given_up:
            self._failed = True
            return
        self._items.remove(item)
        _settle(item, error)
        if given_up:
            # The service holds back what follows until it is sent again, or the execution is bound anew.
            self.key = 0

    def all_answered(self) -> bool:
        """Whether nothing is on its way; then what failed is to be sent again from the first on."""
        return self._sent <= 0

    def restart(self) -> bool:
        """Whether something failed; it goes on from its first fact without an answer."""
        failed, self._failed, self._sent = self._failed, False, 0
        return failed

    def _accept(self, item: Item, answer: ReportAnswer) -> None:
        self._items.remove(item)
        self.last_answer = answer
        self.cancel_requested = self.cancel_requested or answer.cancel_requested
        if answer.must_stop:
            self.stop(answer.reason)
        elif answer.accepted:
            self.beats = not self.has_left
        _settle(item, answer)

    def unsent_items(self) -> list[Item]:
        """Every fact without an answer, in order."""
        return list(self._items)

    def settle_by_call(self, item: Item, outcome: ReportAnswer | TaskStatusError) -> None:
        """A fact was answered by a call of its own, after its execution could not be bound any more."""
        if isinstance(outcome, TaskStatusError):
            self._items.remove(item)
            _settle(item, outcome)
        else:
            self._accept(item, outcome)

    def noticed(self, notice: pb.StreamExecutionNotice) -> None:
        """The service says something unasked."""
        self.cancel_requested = self.cancel_requested or notice.cancel_requested
        if notice.interval_seconds:
            self.interval_seconds = notice.interval_seconds
        if notice.beat_now:
            self.next_beat_at = 0.0
        reason = common_pb2.Reason.Name(notice.reason)
        if reason in _ENDS:
            self.stop(reason)

    def leave(self) -> None:
        """Whoever worked on it is gone: beat no more."""
        self._has_left, self.beats = True, False

    def stop(self, reason: str) -> None:
        """The execution is no longer wanted."""
        self.beats = False
        if not self.stopped.is_set():
            self.stop_reason = reason
            self.stopped.set()

    def refuse(self, error: TaskStatusError) -> None:
        """It cannot be bound."""
        self.is_over = True
        if error.reason in _ENDS:
            self.stop(error.reason)
        if not self.bound.done():
            self.bound.set_exception(error)
            self.bound.exception()


def _settle(item: Item, outcome: ReportAnswer | TaskStatusError | None) -> None:
    if item.answer.done():
        return
    if isinstance(outcome, TaskStatusError):
        item.answer.set_exception(outcome)
    else:
        item.answer.set_result(outcome)


def _seen(answer: asyncio.Future[ReportAnswer | None]) -> None:
    """Whoever told the fact may have stopped waiting for its answer."""
    if not answer.cancelled():
        answer.exception()
