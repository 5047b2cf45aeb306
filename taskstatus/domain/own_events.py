"""Facts that the service itself records for a command: creation, registration, a new attempt (R-6)."""

from __future__ import annotations

from datetime import datetime

from taskstatus.domain.commands import Actor
from taskstatus.domain.events import EventType
from taskstatus.domain.quick_dataclasses import dataclass
from taskstatus.domain.records import EventRecord, ReportResult
from taskstatus.domain.state import StepState, TaskState


@dataclass(frozen=True, slots=True)
class Origin:
    """Who created or ruled something, by which command, and when by the database's clock."""

    actor: Actor
    command_id: str
    trace_id: bytes | None
    traceparent: str
    now: datetime


def own_event(
    task: TaskState,
    step: StepState | None,
    event_type: EventType,
    origin: Origin,
    *,
    canonical: bytes,
    digest: bytes,
    superseded: StepState | None = None,
    reason: str = "",
    error_code: str = "",
    shown: tuple[str, bytes] = ("", b""),
    event_id: str = "",
) -> EventRecord:
    """The row of a fact that the service itself writes for a command; its id is the command's (R-6).

    ``shown``: schema and JSON of what the timeline shows with it. ``event_id``: for a further fact of the same command.
    """
    return EventRecord(
        task_id=task.envelope.task_id,
        bucket=task.envelope.bucket,
        task_version=task.version,
        event_id=event_id or origin.command_id,
        workflow_id=task.envelope.workflow_id,
        event_type=event_type,
        task_attempt=task.attempt,
        step_id=step.definition.step_id if step else "",
        step_attempt=step.attempt if step else 0,
        execution_id=step.terms.execution_id if step and step.terms else None,
        superseded_execution_id=superseded.terms.execution_id if superseded and superseded.terms else None,
        operation_code=step.definition.operation_code if step else "",
        step_version=step.version if step else 0,
        producer_id=origin.actor.producer_id,
        source_seq=0,
        lifecycle=task.lifecycle,
        business_status=task.business_status,
        health=task.health,
        error_code=error_code,
        data_schema=shown[0],
        reason=reason,
        actor=origin.actor.name,
        trace_id=origin.trace_id,
        occurred_at=None,
        received_at=origin.now,
        committed_at=task.committed_at,
        duration_ms=None,
        duration_source=None,
        canonical=canonical,
        digest=digest,
        shown_data=shown[1],
    )


def own_result(task: TaskState, step: StepState | None) -> ReportResult:
    """The first result of a command that wrote an event, kept in its dedup row."""
    return ReportResult(
        accepted=True,
        changed=True,
        task_id=task.envelope.task_id,
        step_id=step.definition.step_id if step else "",
        operation_code=step.definition.operation_code if step else "",
        task_version=task.version,
        step_version=step.version if step else 0,
        lifecycle=task.lifecycle,
        business_status=task.business_status,
        committed_at=task.committed_at,
        cancel_requested=task.cancel_requested,
    )
