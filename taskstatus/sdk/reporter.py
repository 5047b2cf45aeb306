"""Reports the facts of one execution, in order (W-1). Nothing here is shared between executions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from taskstatus_pb.v1 import common_pb2, report_service_pb2
from taskstatus_pb.v1.report_service_pb2 import ReportEventRequest as Event

from taskstatus.sdk.answers import ReportAnswer
from taskstatus.sdk.children import register_child
from taskstatus.sdk.connection import Connection
from taskstatus.sdk.context import ExecutionContext
from taskstatus.sdk.credential import ExecutionCredential, Position
from taskstatus.sdk.errors import TaskStatusError
from taskstatus.sdk.event_ids import EventIds
from taskstatus.sdk.failures import as_step_error, to_message
from taskstatus.sdk.heartbeats import Heartbeats
from taskstatus.sdk.manifest import DynamicStep

logger = logging.getLogger(__name__)

_ENDING: Final = frozenset({common_pb2.STEP_COMPLETED, common_pb2.STEP_FAILED, common_pb2.STEP_CANCELLED})


@dataclass(frozen=True, slots=True)
class EventData:
    """A JSON object (at most 16 KiB, no results) under a schema that the operation's definition registers.

    Without a definition only ``generic.progress.v1`` is taken, with progress: ``message`` and ``items``.
    """

    schema: str
    value: Mapping[str, Any]


class Reporter:
    """Bound to one execution; made by :class:`~taskstatus.sdk.worker.Worker`. Safe for the tasks of one loop.

    One event at a time is in flight: a later one that overtook it would make it stale for ever. Every method raises
    TaskStatusError: a refusal at once, a passing fault when the policy's patience is over.
    """

    def __init__(
        self,
        connection: Connection,
        context: ExecutionContext,
        credential: ExecutionCredential,
        position: Position,
        event_ids: EventIds,
        heartbeats: Heartbeats,
    ) -> None:
        self.context = context
        self._connection = connection
        self._credential = credential
        self._event_ids = event_ids
        self._heartbeats = heartbeats
        self._next_source_seq = position.next_source_seq
        self._began_at = None if position.resumed else connection.timing.monotonic()
        self._in_order = asyncio.Lock()
        self._last: ReportAnswer | None = None
        self._cancel_requested = False
        self._ended = False

    @property
    def last_answer(self) -> ReportAnswer | None:
        """The latest answer; after the end the one to hand over to the coordinator (W-5)."""
        return self._last

    @property
    def ended(self) -> bool:
        """Whether its end was reported, even if the answer is still unknown."""
        return self._ended

    @property
    def cancel_requested(self) -> bool:
        """Whether any answer, to an event or a beat, said that somebody asked for the task's cancellation.

        That is never taken back, though the first answer to an event that is sent again may not know of it yet.
        """
        return self._cancel_requested or self._heartbeats.cancel_requested

    @property
    def over(self) -> str:
        """Why a heartbeat was told that the execution is no longer wanted, such as STALE_ATTEMPT; empty otherwise.

        Stop working then: whatever would still be reported is late.
        """
        return self._heartbeats.over

    async def token(self) -> str:
        """The execution's token, renewed when it is about to expire."""
        return await self._credential.token()

    async def started(self, *, event_id: str = "") -> ReportAnswer:
        """The execution began. Said again after a restart it changes nothing."""
        if self._began_at is not None:
            self._began_at = self._connection.timing.monotonic()
        return await self._report(Event(event_id=event_id, event_type=common_pb2.STEP_STARTED))

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
        """How far it is; ``total`` 0 when unknown. None when the service could not be reached for a short while.

        The work goes on then (W-3): the next progress, or the end, makes up for the one that was lost.
        """
        event = Event(
            event_id=event_id,
            event_type=common_pb2.STEP_PROGRESS,
            progress=common_pb2.Progress(current=current, total=total, unit=unit),
            phase_code=phase,
            phase_label=phase_label,
            data=_wire_data(data),
        )
        try:
            return await self._report(event, self._connection.policy.progress_patience_seconds)
        except TaskStatusError as error:
            if not error.retryable:
                raise
            logger.warning("progress of %s was not delivered: %s", self.context.execution_id, error)
            return None

    async def completed(
        self, *, data: EventData | None = None, duration_ms: float | None = None, event_id: str = ""
    ) -> ReportAnswer:
        """The execution succeeded. ``duration_ms`` missing: measured since ``started`` on the monotonic clock."""
        event = Event(
            event_id=event_id,
            event_type=common_pb2.STEP_COMPLETED,
            data=_wire_data(data),
            duration_ms=self._duration(duration_ms),
        )
        return await self._report(event)

    async def failed(
        self, error: BaseException, *, duration_ms: float | None = None, event_id: str = ""
    ) -> ReportAnswer:
        """The execution failed; raise or pass StepError to choose what people see."""
        event = Event(
            event_id=event_id,
            event_type=common_pb2.STEP_FAILED,
            error=to_message(as_step_error(error)),
            duration_ms=self._duration(duration_ms),
        )
        return await self._report(event)

    async def cancelled(self, *, duration_ms: float | None = None, event_id: str = "") -> ReportAnswer:
        """The work stopped before its end, as asked (``cancel_requested``): the evidence of a cancellation (L-1)."""
        event = Event(event_id=event_id, event_type=common_pb2.STEP_CANCELLED, duration_ms=self._duration(duration_ms))
        return await self._report(event)

    async def register_child(self, step: DynamicStep) -> ExecutionContext:
        """Register a step that this execution has found to be needed, and give the context to hand on (R-4).

        Only after ``started``, and where ``context.may_register_children``; else PermissionDeniedError. The step's key
        and attempt make it idempotent. LimitError DYNAMIC_LIMIT_REACHED says by ``retry_after_seconds`` when to ask
        again, where that helps.
        """
        return await register_child(self._connection, self.context, self._credential.handle, step)

    def _duration(self, duration_ms: float | None) -> float | None:
        """None when this process did not see the start: the service then goes by the database's clock."""
        if duration_ms is not None:
            return float(int(duration_ms))
        if self._began_at is None:
            return None
        return float(int((self._connection.timing.monotonic() - self._began_at) * 1000))

    async def _report(self, event: Event, patience_seconds: float | None = None) -> ReportAnswer:
        async with self._in_order:
            event.source_seq = self._next_source_seq
            if not event.event_id:
                name = common_pb2.EventType.Name(event.event_type)
                event.event_id = self._event_ids(self.context.execution_id, name, event.source_seq)
            event.occurred_at.FromDatetime(self._connection.timing.now())
            self._credential.put_into(event)
            self._last = await self._send(event, patience_seconds)
            self._cancel_requested = self._cancel_requested or self._last.cancel_requested
            return self._last

    async def _send(self, event: Event, patience_seconds: float | None) -> ReportAnswer:
        """Send until answered. Only a refusal says for sure that the event, and with it its number, was not taken."""
        had_ended = self._ended
        self._ended = had_ended or event.event_type in _ENDING
        self._next_source_seq += 1
        method = self._connection.report.ReportEvent
        try:
            response = await self._connection.call(method, event, patience_seconds=patience_seconds)
        except TaskStatusError as error:
            if not error.retryable:
                self._next_source_seq -= 1
                self._ended = had_ended
            raise
        return ReportAnswer.from_message(event.event_id, response)


def _wire_data(data: EventData | None) -> report_service_pb2.EventData | None:
    if data is None:
        return None
    message = report_service_pb2.EventData(schema=data.schema)
    message.value.update(dict(data.value))
    return message
