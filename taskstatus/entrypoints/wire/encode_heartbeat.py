"""HeartbeatAnswer → HeartbeatResult (H-3)."""

from __future__ import annotations

from collections.abc import Iterable

from taskstatus_pb.v1 import common_pb2, heartbeat_service_pb2

from taskstatus.application.heartbeats import HeartbeatAnswer, Renewal
from taskstatus.domain.ids import format_execution_id
from taskstatus.entrypoints.wire.values import to_timestamp, unix_to_timestamp


def heartbeat_results(answers: Iterable[HeartbeatAnswer]) -> heartbeat_service_pb2.BatchHeartbeatResponse:
    """Response of BatchHeartbeat."""
    return heartbeat_service_pb2.BatchHeartbeatResponse(results=[_result(answer) for answer in answers])


def _result(answer: HeartbeatAnswer) -> heartbeat_service_pb2.HeartbeatResult:
    return heartbeat_service_pb2.HeartbeatResult(
        execution_id=format_execution_id(answer.execution_id) if answer.execution_id else "",
        accepted=answer.accepted,
        health=common_pb2.Health.Value(answer.health) if answer.health else common_pb2.HEALTH_UNSPECIFIED,
        reason=common_pb2.Reason.Value(answer.reason) if answer.reason else common_pb2.REASON_UNSPECIFIED,
        received_at=to_timestamp(answer.received_at) if answer.received_at else None,
        cancel_requested=answer.cancel_requested,
        interval_seconds=answer.interval_seconds,
        timeout_seconds=answer.timeout_seconds,
        renewal=execution_renewal(answer.renewal) if answer.renewal else None,
    )


def execution_renewal(renewal: Renewal) -> common_pb2.ExecutionRenewal:
    """The next token of an execution (R-11)."""
    return common_pb2.ExecutionRenewal(
        execution_token=renewal.token, execution_token_expire_time=unix_to_timestamp(renewal.expires_at)
    )
