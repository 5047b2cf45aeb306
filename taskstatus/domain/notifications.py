"""Which outbox rows a committed version leaves (O-3, P-2): a summary that carries itself, a detail rendered later."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from taskstatus.domain.events import EventType
from taskstatus.domain.notices import notice_for
from taskstatus.domain.projections import render_summary
from taskstatus.domain.quick_dataclasses import dataclass
from taskstatus.domain.records import AggregateType, Audience, OutboxKind, OutboxRecord, Projection
from taskstatus.domain.state import StepState, TaskState, WorkflowState
from taskstatus.domain.workflow_messages import render_workflow_summary
from taskstatus.domain.workflow_views import WorkflowCut, full_cut, shared_cut

PASSING_FACTS = frozenset(
    {EventType.TASK_STARTED, EventType.STEP_STARTED, EventType.STEP_PROGRESS, EventType.STEP_HEALTH_CHANGED}
)
"""Facts that a newer summary may stand for, unless they carry a notice, as STALE does and its end does not (P-3).

Every other fact reaches the summary channels as itself (O-3).
"""


@dataclass(frozen=True, slots=True)
class OutboxTools:
    """What building a row needs from outside: ids of our own and JSON bytes."""

    new_id: Callable[[int], bytes]
    """A new UUIDv7 with the given bucket."""
    to_json: Callable[[Mapping[str, object]], bytes]


def task_notifications(
    tools: OutboxTools,
    task: TaskState,
    step: StepState | None,
    event_type: EventType,
    traceparent: str,
    *,
    was_waiting: bool = False,
) -> tuple[OutboxRecord, OutboxRecord]:
    """The summary and the detail row of one task version; ``was_waiting`` as in ``notice_for``."""
    notice = notice_for(event_type, task, step, was_waiting=was_waiting)
    summary = render_summary(task, step, event_type, task.committed_at, notice)
    is_protected = event_type not in PASSING_FACTS or notice is not None
    audience = Audience.USERS if task.shared else Audience.OWNER
    return (
        _task_row(
            tools,
            task,
            event_type,
            traceparent,
            Projection.USER_SUMMARY,
            audience,
            tools.to_json(summary),
            is_protected,
        ),
        _task_row(tools, task, event_type, traceparent, Projection.TASK_DETAIL, Audience.VIEWERS, None, is_protected),
    )


def _task_row(
    tools: OutboxTools,
    task: TaskState,
    event_type: EventType,
    traceparent: str,
    projection: Projection,
    audience: Audience,
    payload: bytes | None,
    is_protected: bool,
    kind: OutboxKind = OutboxKind.PUBLISH,
) -> OutboxRecord:
    envelope = task.envelope
    return OutboxRecord(
        outbox_id=tools.new_id(envelope.bucket),
        bucket=envelope.bucket,
        aggregate_type=AggregateType.TASK,
        aggregate_id=envelope.task_id,
        aggregate_version=task.version,
        kind=kind,
        projection=projection,
        audience=audience,
        tenant_id=envelope.tenant_id,
        owner_id=envelope.owner_id,
        workflow_id=envelope.workflow_id,
        event_type=event_type,
        protected=is_protected,
        payload=payload,
        traceparent=traceparent,
        committed_at=task.committed_at,
    )


def aggregate_trigger(
    tools: OutboxTools, before: TaskState, after: TaskState, event_type: EventType
) -> OutboxRecord | None:
    """The row that makes the projector look at the task's workflow, or None when it has no reason to (L-7).

    Every transaction that moves a task's lifecycle or shown health adds it to ``changes.outbox``, once for the version
    that the move has; creation does not, which counts its tasks itself. Any task version may have one.
    """
    if before.lifecycle is after.lifecycle and before.health is after.health:
        return None
    return _task_row(
        tools, after, event_type, "", Projection.WORKFLOW_SUMMARY, Audience.NOBODY, None, False, OutboxKind.AGGREGATE
    )


def workflow_notifications(
    tools: OutboxTools, workflow: WorkflowState, event_type: EventType, traceparent: str
) -> tuple[OutboxRecord, OutboxRecord]:
    """The summary rows of one workflow version: the whole for its owner, the common cut for everyone else (P-4)."""
    return (
        _workflow_row(tools, workflow, event_type, traceparent, Audience.OWNER, full_cut(workflow)),
        _workflow_row(tools, workflow, event_type, traceparent, Audience.VIEWERS, shared_cut(workflow)),
    )


def _workflow_row(
    tools: OutboxTools,
    workflow: WorkflowState,
    event_type: EventType,
    traceparent: str,
    audience: Audience,
    cut: WorkflowCut,
) -> OutboxRecord:
    return OutboxRecord(
        outbox_id=tools.new_id(workflow.bucket),
        bucket=workflow.bucket,
        aggregate_type=AggregateType.WORKFLOW,
        aggregate_id=workflow.workflow_id,
        aggregate_version=workflow.version,
        kind=OutboxKind.PUBLISH,
        projection=Projection.WORKFLOW_SUMMARY,
        audience=audience,
        tenant_id=workflow.tenant_id,
        owner_id=workflow.owner_id,
        workflow_id=workflow.workflow_id,
        event_type=event_type,
        protected=event_type is not EventType.WORKFLOW_AGGREGATED or cut.lifecycle.is_terminal,
        payload=tools.to_json(render_workflow_summary(workflow, cut, event_type)),
        traceparent=traceparent,
        committed_at=workflow.committed_at,
    )
