"""Frames of StreamExecutions and what they mean; nothing here knows a stream's state (T-2, T-4)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from google.protobuf.message import DecodeError
from taskstatus_pb.v1 import bind_execution_service_pb2 as pb
from taskstatus_pb.v1 import common_pb2

from taskstatus.application.executions import BoundExecution, IssuedCredentials
from taskstatus.domain.errors import RefusedError, invalid
from taskstatus.domain.reasons import Reason
from taskstatus.domain.records import ReportResult
from taskstatus.domain.standing import ExecutionStanding
from taskstatus.domain.verdicts import Refused, Verdict, result_or_raise
from taskstatus.entrypoints.wire import encode
from taskstatus.entrypoints.wire.values import unix_to_timestamp

Request = pb.StreamExecutionsRequest
Response = pb.StreamExecutionsResponse

_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)


def parse(message: bytes, most_items: int) -> Request:
    """The frame. Raises RefusedError INVALID_ARGUMENT for what is none, has no correlation, or no 1…most items."""
    try:
        frame = Request.FromString(message)
    except DecodeError:
        raise RefusedError(Reason.INVALID_ARGUMENT, "the frame is not a message of this method") from None
    kind = frame.WhichOneof("frame")
    if kind is None:
        raise invalid("frame", "is required")
    if frame.correlation < 1:
        raise invalid("correlation", "must be at least 1")
    if kind != "finish" and not 1 <= items_of(frame) <= most_items:
        raise invalid(kind, f"must hold 1 to {most_items} items")
    return frame


def items_of(frame: Request) -> int:
    """How many items a frame holds."""
    match frame.WhichOneof("frame"):
        case "bind":
            return len(frame.bind.executions)
        case "report":
            return len(frame.report.events)
        case "heartbeat":
            return len(frame.heartbeat.beats)
        case "renew":
            return len(frame.renew.stream_execution_keys)
        case _:
            return 0


def event_result(verdict: Verdict) -> pb.CompactEventResult:
    """The answer to one event, or its refusal (E-7)."""
    if isinstance(verdict, Refused):
        return pb.CompactEventResult(error=encode.item_error(verdict.error))
    return _compact_answer(result_or_raise(verdict))


def _compact_answer(result: ReportResult) -> pb.CompactEventResult:
    committed_at = result.committed_at
    return pb.CompactEventResult(
        accepted=result.accepted,
        duplicate=result.duplicate,
        stale=result.stale,
        reason=common_pb2.Reason.Value(result.reason) if result.reason else common_pb2.REASON_UNSPECIFIED,
        task_version=result.task_version,
        step_version=result.step_version,
        lifecycle_status=common_pb2.LifecycleStatus.Value(result.lifecycle),
        business_status=result.business_status,
        committed_at_us=(committed_at - _EPOCH) // _MICROSECOND if committed_at else 0,
        changed=result.changed,
        coalesced=result.coalesced,
        cancel_requested=result.cancel_requested,
    )


def bound_result(key: int, bound: BoundExecution) -> pb.StreamBoundResult:
    """One execution is bound."""
    return pb.StreamBoundResult(stream_execution_key=key, response=encode.bound_execution(bound))


def bind_refused(refusal: RefusedError) -> pb.StreamBoundResult:
    """One execution is not bound."""
    return pb.StreamBoundResult(error=encode.item_error(refusal))


def renewed_result(key: int, credentials: IssuedCredentials) -> pb.StreamRenewedResult:
    """One token is renewed."""
    renewal = common_pb2.ExecutionRenewal(
        execution_token=credentials.token,
        execution_token_expire_time=unix_to_timestamp(credentials.token_expires_at),
    )
    return pb.StreamRenewedResult(stream_execution_key=key, renewal=renewal)


def renewal_refused(key: int, refusal: RefusedError) -> pb.StreamRenewedResult:
    """One token is not renewed."""
    return pb.StreamRenewedResult(stream_execution_key=key, error=encode.item_error(refusal))


def beat_refused(beat: pb.StreamBeat, reason: Reason) -> pb.StreamBeatRefused:
    """One beat was not taken."""
    return pb.StreamBeatRefused(
        stream_execution_key=beat.stream_execution_key,
        heartbeat_seq=beat.heartbeat_seq,
        reason=common_pb2.Reason.Value(reason),
    )


def execution_notice(
    key: int, standing: ExecutionStanding, reason: Reason | None, *, beat_now: bool = False
) -> pb.StreamExecutionNotice:
    """How an execution stands now, why it can go on no more if so, and whether a beat of it is wanted at once."""
    return pb.StreamExecutionNotice(
        stream_execution_key=key,
        reason=common_pb2.Reason.Value(reason) if reason else common_pb2.REASON_UNSPECIFIED,
        cancel_requested=standing.cancel_requested,
        health=common_pb2.Health.Value(standing.health),
        interval_seconds=standing.interval_seconds,
        timeout_seconds=standing.timeout_seconds,
        beat_now=beat_now,
    )


def all_refused(frame: Request, refusal: RefusedError) -> Response:
    """The answer to a bind or a renewal of which nothing could be done."""
    answer = Response(correlation=frame.correlation)
    if frame.WhichOneof("frame") == "bind":
        answer.bound.results.extend(bind_refused(refusal) for _ in frame.bind.executions)
    else:
        keys: Sequence[int] = frame.renew.stream_execution_keys
        answer.renewed.results.extend(renewal_refused(key, refusal) for key in keys)
    return answer
