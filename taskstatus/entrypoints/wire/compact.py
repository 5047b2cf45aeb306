"""The compact form of events: fewer bytes, the same command (T-4, E-9)."""

from __future__ import annotations

import base64
from datetime import datetime, timedelta

from taskstatus_pb.v1 import report_service_pb2

from taskstatus.application.identity import ExecutionGrant, ServiceIdentity
from taskstatus.application.report import EventDraft
from taskstatus.domain import text
from taskstatus.domain.commands import EventContent, StatedFields
from taskstatus.domain.errors import invalid
from taskstatus.entrypoints.wire.call import CallInfo
from taskstatus.entrypoints.wire.decode_event import (
    data_of,
    duration_source_of,
    error_of,
    event_type_of,
    progress_of,
    sequence_of,
)
from taskstatus.entrypoints.wire.trace import trace_id_of
from taskstatus.entrypoints.wire.values import whole_milliseconds

HANDLE_PREFIX = "exh_"
EVENT_ID_BYTES = 16
_EPOCH = datetime(1970, 1, 1)
_NOTHING_STATED = StatedFields()


def to_compact_draft(
    event: report_service_pb2.CompactEvent,
    identity: ServiceIdentity,
    call: CallInfo,
    grant: ExecutionGrant | None = None,
) -> EventDraft:
    """The draft that the full form of the event would give; on a stream with the ``grant`` of its bound execution.

    Raises RefusedError INVALID_ARGUMENT naming the first field that is off, in the order of the full form.
    """
    return EventDraft(
        caller=identity,
        execution_token="",
        execution_handle=_handle(event, is_bound=grant is not None),
        stated=_NOTHING_STATED,
        content=_content(event),
        transport=call.transport,
        received_monotonic=call.received_monotonic,
        received_unix=call.received_unix,
        trace_id=trace_id_of(call.traceparent),
        traceparent=call.traceparent,
        grant=grant,
    )


def _content(event: report_service_pb2.CompactEvent) -> EventContent:
    event_id = _event_id(event.event_id)
    event_type = event_type_of(event.event_type)
    return EventContent(
        event_id=event_id,
        event_type=event_type,
        source_seq=sequence_of(event.source_seq),
        business_status=text.check_optional_id("businessStatus", event.business_status, text.BUSINESS_STATUS_MAX),
        occurred_at=_time(event.occurred_at_us) if event.occurred_at_us else None,
        duration_ms=whole_milliseconds("durationMs", event.duration_ms) if event.HasField("duration_ms") else None,
        duration_source=duration_source_of(event.duration_source),
        progress=progress_of(event.progress) if event.HasField("progress") else None,
        progress_seq=event.progress_seq,
        phase_code=text.check_text("phaseCode", event.phase_code, text.CODE_MAX),
        phase_label=text.check_text("phaseLabel", event.phase_label, text.LABEL_MAX),
        data=data_of(event.data) if event.HasField("data") else None,
        error=error_of(event, event_type),
    )


def _event_id(raw: bytes) -> str:
    if len(raw) != EVENT_ID_BYTES:
        raise invalid("eventId", f"must have {EVENT_ID_BYTES} bytes")
    return raw.hex()


def _time(microseconds: int) -> datetime:
    try:
        return _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError as error:
        raise invalid("occurredAt", "is not a time between the years 1 and 9999") from error


def _handle(event: report_service_pb2.CompactEvent, *, is_bound: bool) -> str:
    """The text form; empty bytes are no handle at all."""
    if is_bound:
        if event.execution_handle:
            raise invalid("executionHandle", "has no place on a stream, where streamExecutionKey names the execution")
        return ""
    if event.stream_execution_key:
        raise invalid("streamExecutionKey", "means something on a stream only")
    raw = event.execution_handle
    return HANDLE_PREFIX + base64.urlsafe_b64encode(raw).decode().rstrip("=") if raw else ""
