"""Heartbeat → BeatDraft: every check of form; an item that fails it is answered INVALID_ARGUMENT at its place (H-3)."""

from __future__ import annotations

from taskstatus_pb.v1 import heartbeat_service_pb2

from taskstatus.application.heartbeats import BeatDraft
from taskstatus.application.identity import ServiceIdentity
from taskstatus.domain import text
from taskstatus.domain.commands import StatedFields
from taskstatus.domain.errors import RefusedError, invalid
from taskstatus.entrypoints.wire.call import CallInfo
from taskstatus.entrypoints.wire.decode import finite
from taskstatus.entrypoints.wire.decode_event import ID_TEXT_MAX, MAX_SEQUENCE, short
from taskstatus.entrypoints.wire.trace import trace_id_of
from taskstatus.entrypoints.wire.values import from_timestamp

MAX_BATCH_HEARTBEATS = 500
_NOTHING = (StatedFields(), 0, 0.0)


def to_beat_drafts(
    request: heartbeat_service_pb2.BatchHeartbeatRequest, identity: ServiceIdentity, call: CallInfo
) -> list[BeatDraft]:
    """One draft for each beat. Raises RefusedError INVALID_ARGUMENT for an empty or over-long list."""
    if not 1 <= len(request.heartbeats) <= MAX_BATCH_HEARTBEATS:
        raise invalid("heartbeats", f"must hold 1 to {MAX_BATCH_HEARTBEATS} items")
    return [_draft(beat, identity, call) for beat in request.heartbeats]


def _draft(beat: heartbeat_service_pb2.Heartbeat, identity: ServiceIdentity, call: CallInfo) -> BeatDraft:
    fault: RefusedError | None = None
    stated, seq, round_trip_ms = _NOTHING
    try:
        stated, seq, round_trip_ms = _content(beat)
    except RefusedError as refusal:
        fault = refusal
    return BeatDraft(
        caller=identity,
        execution_token=beat.execution_token,
        execution_handle=beat.execution_handle,
        stated=stated,
        heartbeat_seq=seq,
        round_trip_ms=round_trip_ms,
        transport=call.transport,
        received_monotonic=call.received_monotonic,
        received_unix=call.received_unix,
        trace_id=trace_id_of(call.traceparent),
        fault=fault,
    )


def _content(beat: heartbeat_service_pb2.Heartbeat) -> tuple[StatedFields, int, float]:
    stated, seq = _stated(beat), _sequence(beat.heartbeat_seq)
    if beat.HasField("sent_at"):
        from_timestamp("sentAt", beat.sent_at)
    return stated, seq, finite("roundTripMs", beat.round_trip_ms)


def _stated(beat: heartbeat_service_pb2.Heartbeat) -> StatedFields:
    return StatedFields(
        task_id=short("taskId", beat.task_id, ID_TEXT_MAX),
        task_attempt=beat.task_attempt,
        step_id=short("stepId", beat.step_id, text.STEP_ID_MAX),
        step_attempt=beat.step_attempt,
        execution_id=short("executionId", beat.execution_id, ID_TEXT_MAX),
    )


def _sequence(number: int) -> int:
    if not 1 <= number <= MAX_SEQUENCE:
        raise invalid("heartbeatSeq", "must be at least 1")
    return number
