"""The compact form of events: fewer bytes, the same command (T-4, E-9)."""

from __future__ import annotations

import base64

from taskstatus_pb.v1 import report_service_pb2

from taskstatus.domain.errors import invalid

HANDLE_PREFIX = "exh_"
EVENT_ID_BYTES = 16
MICROSECONDS = 1_000_000


def to_full_form(event: report_service_pb2.CompactEvent) -> report_service_pb2.ReportEventRequest:
    """The full request that means the same. Raises RefusedError INVALID_ARGUMENT for an id that is not 16 bytes."""
    if len(event.event_id) != EVENT_ID_BYTES:
        raise invalid("eventId", f"must have {EVENT_ID_BYTES} bytes")
    request = report_service_pb2.ReportEventRequest(
        event_id=event.event_id.hex(),
        event_type=event.event_type,
        source_seq=event.source_seq,
        execution_handle=_handle(event.execution_handle),
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
        seconds, micros = divmod(event.occurred_at_us, MICROSECONDS)
        request.occurred_at.seconds = seconds
        request.occurred_at.nanos = micros * 1_000
    return request


def _handle(raw: bytes) -> str:
    """The text form; empty bytes are no handle at all."""
    return HANDLE_PREFIX + base64.urlsafe_b64encode(raw).decode().rstrip("=") if raw else ""
