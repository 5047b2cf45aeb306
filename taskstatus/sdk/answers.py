"""What became of a reported fact (E-7) and of a command (R-6), typed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Self

from taskstatus_pb.v1 import common_pb2, report_service_pb2, task_commands_pb2, workflow_pb2

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


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskChange:
    """What a command left behind: the task after its commit."""

    task_id: str
    task_version: int
    task_attempt: int
    """Its current run, from 1."""
    lifecycle_status: str
    business_status: str
    changed: bool
    """False when the task stood there already: nothing was written."""
    duplicate: bool
    """This very command was carried out before; this is its first result."""
    cancel_requested: bool
    committed_at: datetime | None
    """By the database's clock."""

    @classmethod
    def from_message(cls, message: task_commands_pb2.TaskChange) -> Self:
        """From the wire form."""
        at = message.committed_at.ToDatetime(tzinfo=UTC) if message.HasField("committed_at") else None
        return cls(
            task_id=message.task_id,
            task_version=message.task_version,
            task_attempt=message.task_attempt,
            lifecycle_status=common_pb2.LifecycleStatus.Name(message.lifecycle_status),
            business_status=message.business_status,
            changed=message.changed,
            duplicate=message.duplicate,
            cancel_requested=message.cancel_requested,
            committed_at=at,
        )


@dataclass(frozen=True, slots=True)
class Classification:
    """A task with its type, and what that bound for good (R-8)."""

    change: TaskChange
    status_definition_version: int
    """0: the generic statuses."""
    operation_definition_version: int
    """0: only operations that are defined for any type."""


@dataclass(frozen=True, slots=True)
class Revocation:
    """The task after it, and the generation that credentials must have from now on (R-11)."""

    change: TaskChange
    credential_generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowChange:
    """A workflow as a command left it; its version is its own axis, never compared with a task's (L-7)."""

    workflow_id: str
    workflow_version: int
    title: str
    lifecycle_status: str
    health: str
    ruled: bool
    """The status is a coordinator's ruling."""
    task_count: int
    changed: bool
    duplicate: bool

    @classmethod
    def from_message(cls, message: workflow_pb2.UpdateWorkflowResponse) -> Self:
        """From the wire form."""
        workflow = message.workflow
        return cls(
            workflow_id=workflow.workflow_id,
            workflow_version=workflow.workflow_version,
            title=workflow.title,
            lifecycle_status=common_pb2.LifecycleStatus.Name(workflow.lifecycle_status),
            health=common_pb2.Health.Name(workflow.health),
            ruled=workflow.ruled,
            task_count=workflow.task_count,
            changed=message.changed,
            duplicate=message.duplicate,
        )
