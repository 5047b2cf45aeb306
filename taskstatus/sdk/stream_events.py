"""Events in the compact form, and the full form of the same for when there is no stream (E-9)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from taskstatus_pb.v1 import bind_execution_service_pb2 as pb
from taskstatus_pb.v1 import common_pb2, report_service_pb2

from taskstatus.sdk.answers import ReportAnswer
from taskstatus.sdk.context import ExecutionContext

_EVENT_ID = re.compile(r"(?:evt_)?([0-9a-f]{32})\Z")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(eq=False, slots=True)
class Item:
    """One event until it is answered."""

    event: report_service_pb2.CompactEvent
    answer: asyncio.Future[ReportAnswer | None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    was_sent: bool = False
    attempts: int = 0

    @property
    def may_be_overtaken(self) -> bool:
        """Whether a newer progress may stand for it: nobody has seen it yet."""
        return self.event.event_type == common_pb2.STEP_PROGRESS and not self.was_sent


def to_event_id(text: str) -> bytes:
    """The 16 bytes of an event id. Raises ValueError unless it is 32 hex digits, with ``evt_`` before them or not."""
    match = _EVENT_ID.match(text)
    if match is None:
        raise ValueError(f"an event id of a stream is 32 hex digits: {text!r}")
    return bytes.fromhex(match[1])


def to_micros(at: datetime) -> int:
    """Microseconds since 1970."""
    return (at - _EPOCH) // _MICROSECOND


def to_full_form(event: report_service_pb2.CompactEvent, handle: str) -> report_service_pb2.ReportEventRequest:
    """The full request that means the same event."""
    request = report_service_pb2.ReportEventRequest(
        event_id=event.event_id.hex(),
        execution_handle=handle,
        event_type=event.event_type,
        source_seq=event.source_seq,
        duration_source=event.duration_source,
        progress_seq=event.progress_seq,
        phase_code=event.phase_code,
        phase_label=event.phase_label,
        business_status=event.business_status,
        progress=event.progress if event.HasField("progress") else None,
        data=event.data if event.HasField("data") else None,
        error=event.error if event.HasField("error") else None,
        duration_ms=float(event.duration_ms) if event.HasField("duration_ms") else None,
    )
    if event.occurred_at_us:
        request.occurred_at.FromMicroseconds(event.occurred_at_us)
    return request


def to_answer(event_id: str, context: ExecutionContext, result: pb.CompactEventResult) -> ReportAnswer:
    """The typed answer to an event of an execution."""
    at_us = result.committed_at_us
    return ReportAnswer(
        event_id=event_id,
        accepted=result.accepted,
        duplicate=result.duplicate,
        stale=result.stale,
        reason=common_pb2.Reason.Name(result.reason) if result.reason else "",
        task_id=context.task_id,
        step_id=context.step_id,
        task_version=result.task_version,
        step_version=result.step_version,
        lifecycle_status=common_pb2.LifecycleStatus.Name(result.lifecycle_status),
        business_status=result.business_status,
        committed_at=_EPOCH + timedelta(microseconds=at_us) if at_us else None,
        changed=result.changed,
        coalesced=result.coalesced,
        cancel_requested=result.cancel_requested,
    )


def to_data(schema: str, value: Mapping[str, Any]) -> report_service_pb2.EventData:
    """The wire form of data."""
    message = report_service_pb2.EventData(schema=schema)
    message.value.update(dict(value))
    return message
