"""One event as the messages of each transport and form: full and compact, protobuf and JSON (E-9, T-3)."""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC
from typing import Any, TypeVar

from google.protobuf import json_format, struct_pb2
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from taskstatus_pb.v1 import common_pb2, heartbeat_service_pb2, report_service_pb2

from taskstatus.domain.commands import EventContent, StatedFields
from tests.simulation.items import Item, Pulse

M = TypeVar("M", bound=Message)

_HANDLE_PREFIX = "exh_"
_EVENT_ID_BYTES = 16
_NOTHING_STATED = StatedFields()


def event_id_of(item: Item) -> str:
    """The id on the wire: 32 hex digits, so that every form can carry it; the same text gives the same id."""
    return hashlib.blake2b(item.content.event_id.encode(), digest_size=_EVENT_ID_BYTES).hexdigest()


def fits_compact(item: Item) -> bool:
    """Whether the compact form can say all of it."""
    return bool(item.handle) and item.stated == _NOTHING_STATED and not item.content.reason


def full_request(item: Item) -> report_service_pb2.ReportEventRequest:
    """The full form."""
    content, stated = item.content, item.stated
    request = report_service_pb2.ReportEventRequest(
        **_common(item),
        execution_token=item.token,
        execution_handle=item.handle,
        task_id=stated.task_id,
        step_id=stated.step_id,
        step_attempt=stated.step_attempt,
        operation_code=stated.operation_code,
        producer_id=stated.producer_id,
        event_id=event_id_of(item),
        duration_ms=None if content.duration_ms is None else float(content.duration_ms),
        reason=content.reason,
    )
    if content.occurred_at is not None:
        request.occurred_at.CopyFrom(_timestamp(content))
    return request


def compact_event(item: Item) -> report_service_pb2.CompactEvent:
    """The compact form of an item that fits it."""
    content = item.content
    return report_service_pb2.CompactEvent(
        **_common(item),
        execution_handle=base64.urlsafe_b64decode(item.handle.removeprefix(_HANDLE_PREFIX)),
        event_id=bytes.fromhex(event_id_of(item)),
        duration_ms=content.duration_ms,
        occurred_at_us=_timestamp(content).ToMicroseconds() if content.occurred_at is not None else 0,
    )


def heartbeat(pulse: Pulse) -> heartbeat_service_pb2.Heartbeat:
    """One beat of a batch."""
    return heartbeat_service_pb2.Heartbeat(execution_handle=pulse.assignment.handle, heartbeat_seq=pulse.heartbeat_seq)


def json_body(message: Message) -> dict[str, Any]:
    """A request in its JSON mapping."""
    return dict(json_format.MessageToDict(message))


def from_json(tree: dict[str, Any], target: M) -> M:
    """A response out of its JSON mapping; raises json_format.ParseError."""
    json_format.ParseDict(tree, target)
    return target


def _common(item: Item) -> dict[str, Any]:
    content = item.content
    return {
        "event_type": common_pb2.EventType.Value(content.event_type.value),
        "source_seq": content.source_seq,
        "business_status": content.business_status,
        "progress": _progress(content),
        "progress_seq": content.progress_seq,
        "phase_code": content.phase_code,
        "phase_label": content.phase_label,
        "data": _data(content),
        "error": _error(content),
    }


def _timestamp(content: EventContent) -> Timestamp:
    stamp = Timestamp()
    assert content.occurred_at is not None
    stamp.FromDatetime(content.occurred_at.replace(tzinfo=UTC))
    return stamp


def _progress(content: EventContent) -> common_pb2.Progress | None:
    progress = content.progress
    if progress is None:
        return None
    return common_pb2.Progress(current=progress.current, total=progress.total, unit=progress.unit)


def _data(content: EventContent) -> report_service_pb2.EventData | None:
    data = content.data
    if data is None:
        return None
    return report_service_pb2.EventData(schema=data.schema, value=struct_pb2.Struct.FromString(data.wire))


def _error(content: EventContent) -> common_pb2.EventError | None:
    error = content.error
    if error is None:
        return None
    return common_pb2.EventError(
        category=error.category,
        code=error.code,
        message=error.message,
        retryable=error.retryable,
        diagnostics_ref=error.diagnostics_ref,
    )
