"""Creating workflows and tasks: the first state, event, grants and notifications in one change set (R-1, ID-3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from taskstatus.domain.business_status import generic_name
from taskstatus.domain.commands import CreateTask, CreateWorkflow, StepSpec, TaskSpec, actor_of
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import TaskId, WorkflowId
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.notifications import OutboxTools, task_notifications
from taskstatus.domain.own_events import Origin, own_event, own_result
from taskstatus.domain.records import (
    ChangeSet,
    DedupRecord,
    EventRecord,
    ExternalRefRecord,
    RunRecord,
)
from taskstatus.domain.state import (
    ExternalRef,
    FailurePolicy,
    Grant,
    StepDefinition,
    StepState,
    TaskEnvelope,
    TaskState,
    WorkflowState,
)
from taskstatus.domain.workflow_changes import with_new_members
from taskstatus.domain.workflow_events import fact_of, record_version

FIRST_VERSION = 1
FIRST_RUN = 1


def create_workflow(
    command: CreateWorkflow,
    workflow_id: WorkflowId,
    bucket: int,
    task_ids: Sequence[TaskId],
    now: datetime,
    tools: OutboxTools,
) -> tuple[WorkflowState, list[TaskState], ChangeSet]:
    """The new workflow with its first tasks, and all rows that say so (R-1)."""
    workflow = WorkflowState(
        workflow_id=workflow_id,
        bucket=bucket,
        tenant_id=command.caller.tenant_id,
        authority_scope=command.caller.authority_scope,
        owner_id=command.owner_id,
        client_workflow_key=command.client_workflow_key,
        creation_digest=command.digest,
        workflow_type=command.workflow_type,
        title=command.title,
        coordinator_producer=command.coordinator_producer or command.caller.producer_id,
        lifecycle=Lifecycle.PENDING,
        version=FIRST_VERSION,
        task_count=0,
        created_at=now,
        committed_at=now,
        grants=command.grants,
        aggregation_policy=command.aggregation_policy,
    )
    sensitive = sum(spec.sensitive for spec in command.tasks)
    workflow = with_new_members(workflow, len(command.tasks) - sensitive, sensitive, now)
    origin = Origin(actor_of(command.caller), command.command_id, command.trace_id, command.traceparent, now)
    changes = ChangeSet(new_workflows=[workflow])
    record_version(changes, workflow, fact_of(origin, EventType.WORKFLOW_CREATED, command.digest), tools)
    tasks = [
        _create_task(changes, workflow, spec, task_id, origin, tools)
        for spec, task_id in zip(command.tasks, task_ids, strict=True)
    ]
    return workflow, tasks, changes


def add_task(
    command: CreateTask, workflow: WorkflowState, task_id: TaskId, now: datetime, tools: OutboxTools
) -> tuple[WorkflowState, TaskState, ChangeSet]:
    """One more task of a workflow; membership raises the workflow's own version (L-7)."""
    origin = Origin(actor_of(command.caller), command.command_id, command.trace_id, command.traceparent, now)
    committed_at = max(now, workflow.committed_at)
    is_sensitive = int(command.task.sensitive)
    grown = replace(
        with_new_members(workflow, 1 - is_sensitive, is_sensitive, committed_at),
        version=workflow.version + 1,
        committed_at=committed_at,
    )
    changes = ChangeSet(workflows=[grown])
    record_version(changes, grown, fact_of(origin, EventType.TASK_CREATED, command.task.digest, task_id), tools)
    task = _create_task(changes, grown, command.task, task_id, origin, tools)
    return grown, task, changes


def _create_task(
    changes: ChangeSet,
    workflow: WorkflowState,
    spec: TaskSpec,
    task_id: TaskId,
    origin: Origin,
    tools: OutboxTools,
) -> TaskState:
    grants = effective_grants(workflow, spec)
    task = _first_state(workflow, spec, task_id, origin.now, grants)
    changes.new_tasks.append(task)
    changes.new_runs.append(
        RunRecord(task_id, workflow.bucket, FIRST_RUN, spec.input_ref, task.weight_total, origin.now)
    )
    changes.new_task_grants.extend((task, grant) for grant in grants)
    changes.external_refs.extend(_external_ref(task, ref) for ref in spec.external_refs)
    changes.new_steps.extend(
        _first_attempt(task, order, step, origin.now) for order, step in enumerate(spec.steps, start=1)
    )
    event = _created_event(task, spec, origin)
    changes.events.append(event)
    changes.dedups.append(DedupRecord(task_id, workflow.bucket, origin.command_id, spec.digest, own_result(task, None)))
    changes.outbox.extend(task_notifications(tools, task, None, EventType.TASK_CREATED, origin.traceparent))
    return task


def effective_grants(workflow: WorkflowState, spec: TaskSpec) -> tuple[Grant, ...]:
    """The grants that become a task's rows: the workflow's and its own, or its own alone when sensitive (P-4)."""
    inherited = () if spec.sensitive else workflow.grants
    strongest: dict[tuple[str, str], Grant] = {}
    for grant in (*inherited, *spec.grants):
        key = (grant.principal_type, grant.principal_id)
        if key not in strongest or grant.includes(strongest[key]):
            strongest[key] = grant
    return tuple(strongest.values())


def _first_state(
    workflow: WorkflowState, spec: TaskSpec, task_id: TaskId, now: datetime, grants: tuple[Grant, ...]
) -> TaskState:
    envelope = TaskEnvelope(
        task_id=task_id,
        workflow_id=workflow.workflow_id,
        bucket=workflow.bucket,
        tenant_id=workflow.tenant_id,
        authority_scope=workflow.authority_scope,
        owner_id=workflow.owner_id,
        client_task_key=spec.client_task_key,
        creation_digest=spec.digest,
        title=spec.title,
        task_type=spec.task_type,
        product_id=spec.product_id,
        priority=spec.priority,
        coordinator_producer=spec.coordinator_producer or workflow.coordinator_producer,
        policy_executors=spec.policy_executors,
        input_ref=spec.input_ref,
        created_at=now,
        status_definition_version=spec.status_definition_version,
        operation_definition_version=spec.operation_definition_version,
        batch_id=spec.batch_id,
        parent_task_id=spec.parent_task_id,
        sensitive=spec.sensitive,
        terms=spec.terms,
    )
    return TaskState(
        envelope=envelope,
        attempt=FIRST_RUN,
        version=FIRST_VERSION,
        row_revision=1,
        lifecycle=Lifecycle.PENDING,
        business_status=generic_name(Lifecycle.PENDING),
        cancel_requested=False,
        shared=any(g.principal_type == "USER" and g.principal_id != workflow.owner_id for g in grants),
        weight_total=sum(step.weight for step in spec.steps),
        progress_points=0,
        open_steps=len(spec.steps),
        stale_steps=0,
        degraded_steps=0,
        producer_seqs={},
        failure=None,
        started_at=None,
        finished_at=None,
        duration_ms=None,
        duration_source=None,
        committed_at=now,
    )


def _external_ref(task: TaskState, ref: ExternalRef) -> ExternalRefRecord:
    envelope = task.envelope
    return ExternalRefRecord(
        envelope.bucket, envelope.tenant_id, envelope.authority_scope, ref, envelope.task_id, task.committed_at
    )


def _first_attempt(task: TaskState, order: int, spec: StepSpec, now: datetime) -> StepState:
    definition = StepDefinition(
        step_id=spec.step_id,
        order=order,
        dynamic=False,
        parent_execution_id=None,
        operation_code=spec.operation_code,
        expected_producer=spec.expected_producer,
        depends_on=spec.depends_on,
        failure_policy=spec.failure_policy or FailurePolicy.FAIL_TASK,
        display_name=spec.display_name,
        weight=spec.weight,
        max_run_seconds=spec.max_run_seconds,
    )
    return StepState(
        task_id=task.envelope.task_id,
        bucket=task.envelope.bucket,
        task_attempt=task.attempt,
        attempt=1,
        definition=definition,
        terms=None,
        created_at=now,
        version=FIRST_VERSION,
        business_status=generic_name(Lifecycle.PENDING),
    )


def _created_event(task: TaskState, spec: TaskSpec, origin: Origin) -> EventRecord:
    return own_event(
        task,
        None,
        EventType.TASK_CREATED,
        origin,
        canonical=spec.canonical,
        digest=spec.digest,
    )
