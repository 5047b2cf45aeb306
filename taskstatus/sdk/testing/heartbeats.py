"""Heartbeats of the fake service: judged as the real one does, and kept on the attempt."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import grpc.aio
from taskstatus_pb.v1 import common_pb2, heartbeat_service_pb2, heartbeat_service_pb2_grpc

from taskstatus.sdk.testing.model import TERMINAL, FakeRefusal, Held
from taskstatus.sdk.testing.state import FakeState, is_late

PERSIST_SECONDS = 15
Context = grpc.aio.ServicerContext[Any, Any]
Request = heartbeat_service_pb2.BatchHeartbeatRequest
Response = heartbeat_service_pb2.BatchHeartbeatResponse
Serve = Callable[[Request, Context, Callable[[str, Request], Response]], Awaitable[Response]]


def timeout_of(interval_seconds: int) -> int:
    """Three intervals and a persist period; 0 where there are no beats."""
    return 3 * interval_seconds + PERSIST_SECONDS if interval_seconds else 0


class FakeHeartbeats(heartbeat_service_pb2_grpc.HeartbeatServiceServicer):
    """BatchHeartbeat over what the fake knows."""

    def __init__(self, serve: Serve, state: FakeState) -> None:
        self._serve = serve
        self._state = state

    async def BatchHeartbeat(self, request: Request, context: Context) -> Response:  # noqa: N802 - its name on the wire
        """One result for each beat."""
        return await self._serve(request, context, self._beat_all)

    def _beat_all(self, producer: str, request: Request) -> Response:
        return Response(results=[self._beat(producer, beat) for beat in request.heartbeats])

    def _beat(self, producer: str, beat: heartbeat_service_pb2.Heartbeat) -> heartbeat_service_pb2.HeartbeatResult:
        try:
            held = self._state.held(producer, beat.execution_token, beat.execution_handle)
        except FakeRefusal as refusal:
            return heartbeat_service_pb2.HeartbeatResult(reason=common_pb2.Reason.Value(refusal.reason))
        attempt, reason = held.attempt, _refusal(held, beat.heartbeat_seq)
        if not reason:
            attempt.heartbeat_seq = beat.heartbeat_seq
        result = heartbeat_service_pb2.HeartbeatResult(
            execution_id=attempt.execution_id,
            accepted=not reason,
            reason=common_pb2.Reason.Value(reason) if reason else common_pb2.REASON_UNSPECIFIED,
            health=common_pb2.HEALTHY,
            cancel_requested=held.task.cancel_requested,
            interval_seconds=attempt.heartbeat_interval_seconds,
            timeout_seconds=timeout_of(attempt.heartbeat_interval_seconds),
        )
        result.received_at.FromDatetime(datetime.now(UTC))
        return result


def _refusal(held: Held, seq: int) -> str:
    if held.revoked:
        return "TOKEN_REVOKED"
    if is_late(held.task, held.attempt):
        return "STALE_ATTEMPT"
    if held.attempt.lifecycle in TERMINAL or held.task.lifecycle in TERMINAL:
        return "TERMINAL"
    if held.attempt.lifecycle == "PENDING":
        return "TRANSITION_NOT_ALLOWED"
    return "STALE_SEQUENCE" if seq < held.attempt.heartbeat_seq else ""
