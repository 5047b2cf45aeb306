"""What each version of a workflow leaves: one event of its own log, and the notifications that say so (E-6, L-7)."""

from __future__ import annotations

from taskstatus.domain.events import EventType
from taskstatus.domain.ids import TaskId
from taskstatus.domain.notifications import OutboxTools, workflow_notifications
from taskstatus.domain.own_events import Origin
from taskstatus.domain.quick_dataclasses import dataclass
from taskstatus.domain.records import ChangeSet, WorkflowEventRecord
from taskstatus.domain.state import WorkflowState


@dataclass(frozen=True, slots=True)
class WorkflowFact:
    """What made a version of a workflow."""

    event_type: EventType
    event_id: str
    """The command's id, where a command made it (R-6)."""
    actor: str
    digest: bytes
    task_id: TaskId | None = None
    """The task that came, where one did."""
    reason: str = ""
    trace_id: bytes | None = None
    traceparent: str = ""


def fact_of(
    origin: Origin, event_type: EventType, digest: bytes, task_id: TaskId | None = None, reason: str = ""
) -> WorkflowFact:
    """The fact of a command."""
    return WorkflowFact(
        event_type,
        origin.command_id,
        origin.actor.name,
        digest,
        task_id,
        reason,
        origin.trace_id,
        origin.traceparent,
    )


def record_version(changes: ChangeSet, workflow: WorkflowState, fact: WorkflowFact, tools: OutboxTools) -> None:
    """Add the event and the notifications of the workflow's version; the row itself is the caller's."""
    changes.workflow_events.append(
        WorkflowEventRecord(
            workflow_id=workflow.workflow_id,
            bucket=workflow.bucket,
            workflow_version=workflow.version,
            event_id=fact.event_id,
            event_type=fact.event_type,
            task_id=fact.task_id,
            actor=fact.actor,
            trace_id=fact.trace_id,
            committed_at=workflow.committed_at,
            digest=fact.digest,
            reason=fact.reason,
        )
    )
    changes.outbox.extend(workflow_notifications(tools, workflow, fact.event_type, fact.traceparent))
