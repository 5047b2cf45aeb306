"""What became of a reported fact, typed (E-7)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Self

from taskstatus_pb.v1 import common_pb2, report_service_pb2

_STOP_REASONS: Final = frozenset({"STALE_ATTEMPT", "STALE_EXECUTION", "TERMINAL"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportAnswer:
    """The service's answer to one event. Accepted means committed; a late fact is answered, not refused."""

    event_id: str
    accepted: bool
    duplicate: bool
    """This very event was committed before; the versions are those of then."""
    stale: bool
    reason: str
    """Why it was not accepted, such as STALE_ATTEMPT; empty otherwise."""
    task_id: str
    step_id: str
    task_version: int
    step_version: int
    lifecycle_status: str
    """The task's, after the event."""
    business_status: str
    committed_at: datetime | None
    """By the database's clock."""
    changed: bool
    """False when the state was already reached and nothing was written."""
    coalesced: bool
    cancel_requested: bool
    """Somebody asked for the task's cancellation: stop when it suits, and report."""

    @property
    def must_stop(self) -> bool:
        """This execution is no longer wanted: a later attempt is current, or the step or task has ended."""
        return not self.accepted and self.reason in _STOP_REASONS

    @classmethod
    def from_message(cls, event_id: str, message: report_service_pb2.ReportEventResponse) -> Self:
        """From the wire form."""
        at = message.committed_at.ToDatetime(tzinfo=UTC) if message.HasField("committed_at") else None
        return cls(
            event_id=event_id,
            accepted=message.accepted,
            duplicate=message.duplicate,
            stale=message.stale,
            reason=common_pb2.Reason.Name(message.reason) if message.reason else "",
            task_id=message.task_id,
            step_id=message.step_id,
            task_version=message.task_version,
            step_version=message.step_version,
            lifecycle_status=common_pb2.LifecycleStatus.Name(message.lifecycle_status),
            business_status=message.business_status,
            committed_at=at,
            changed=message.changed,
            coalesced=message.coalesced,
            cancel_requested=message.cancel_requested,
        )
