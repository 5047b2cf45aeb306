"""Realistic records for store tests: one tenant, one owner, ids that carry their bucket."""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import replace
from datetime import datetime, timedelta

from taskstatus.domain.events import EventType
from taskstatus.domain.health import Health
from taskstatus.domain.ids import ExecutionId, TaskId, WorkflowId, bucket_of_id, bucket_of_owner, make_id
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.records import (
    AggregateType,
    Audience,
    ChangeSet,
    DedupRecord,
    EventRecord,
    LeaseRecord,
    OutboxKind,
    OutboxRecord,
    Projection,
    ReportResult,
    RunRecord,
    WorkflowEventRecord,
)
from taskstatus.domain.state import (
    ExecutionTerms,
    FailurePolicy,
    Grant,
    StepDefinition,
    StepState,
    TaskEnvelope,
    TaskState,
    WorkflowState,
)

TENANT, SCOPE, OWNER = "t-01", "documents", "u-88"
START = datetime(2026, 11, 30, 8, 0, 0, 123456)
BUCKET = bucket_of_owner(TENANT, OWNER)

_serial = itertools.count(1)


def new_id(bucket: int = BUCKET) -> bytes:
    """A fresh id in a bucket; later ones sort after earlier ones."""
    number = next(_serial)
    return make_id(1_790_000_000_000 + number, bucket, number * 0x9E3779B97F4A7C15)


def digest(text: str) -> bytes:
    """32 bytes that belong to the text."""
    return hashlib.sha256(text.encode()).digest()


def workflow(key: str = "order-1", **changes: object) -> WorkflowState:
    """A workflow without tasks."""
    state = WorkflowState(
        workflow_id=WorkflowId(new_id()),
        bucket=BUCKET,
        tenant_id=TENANT,
        authority_scope=SCOPE,
        owner_id=OWNER,
        client_workflow_key=key,
        creation_digest=digest(key),
        workflow_type="document.import",
        title="Import of the annual report",
        coordinator_producer="coordinator",
        lifecycle=Lifecycle.PENDING,
        version=1,
        task_count=0,
        created_at=START,
        committed_at=START,
    )
    return replace(state, **changes)  # type: ignore[arg-type]


def task(workflow_id: bytes, key: str = "task-1", *, steps: int = 3, **changes: object) -> TaskState:
    """A task of ``steps`` steps of weight 1, at version 1."""
    envelope = TaskEnvelope(
        task_id=TaskId(new_id(bucket_of_id(workflow_id))),
        workflow_id=WorkflowId(workflow_id),
        bucket=bucket_of_id(workflow_id),
        tenant_id=TENANT,
        authority_scope=SCOPE,
        owner_id=OWNER,
        client_task_key=key,
        creation_digest=digest(key),
        title="Annual report 2026, volume 1",
        task_type="document.import",
        product_id="reports",
        priority=0,
        coordinator_producer="coordinator",
        policy_executors=("policy-1",),
        input_ref="store://inputs/2026/annual-report-1.pdf",
        created_at=START,
    )
    state = TaskState(
        envelope=envelope,
        attempt=1,
        version=1,
        row_revision=1,
        lifecycle=Lifecycle.PENDING,
        business_status="PENDING",
        cancel_requested=False,
        shared=False,
        weight_total=steps,
        progress_points=0,
        open_steps=steps,
        stale_steps=0,
        degraded_steps=0,
        producer_seqs={},
        failure=None,
        started_at=None,
        finished_at=None,
        duration_ms=None,
        duration_source=None,
        committed_at=START,
    )
    return replace(state, **changes)  # type: ignore[arg-type]


def step(of: TaskState, number: int, *, active: bool = True, attempt: int = 1, **changes: object) -> StepState:
    """Step ``number`` of a task, activated unless told otherwise."""
    terms = ExecutionTerms(
        execution_id=ExecutionId(new_id(of.envelope.bucket)),
        activation_digest=digest(f"activation {number} {attempt}"),
        input_ref=f"store://pages/{number}",
        heartbeat_interval_seconds=15,
        heartbeat_timeout_seconds=60,
    )
    definition = StepDefinition(
        step_id=f"{number:02d}_parse",
        order=number,
        dynamic=False,
        parent_execution_id=None,
        operation_code="document.parse",
        expected_producer="parser",
        depends_on=(f"{number - 1:02d}_parse",) if number > 1 else (),
        failure_policy=FailurePolicy.RETRY_THEN_FAIL_TASK,
        display_name=f"Parse part {number}",
        weight=1,
        max_run_seconds=600,
    )
    state = StepState(
        task_id=of.envelope.task_id,
        bucket=of.envelope.bucket,
        task_attempt=of.attempt,
        attempt=attempt,
        definition=definition,
        terms=terms if active else None,
        created_at=START,
    )
    return replace(state, **changes)  # type: ignore[arg-type]


def execution_of(state: StepState) -> ExecutionId:
    """The execution of an activated step."""
    assert state.terms is not None
    return state.terms.execution_id


def event(of: TaskState, event_id: str, about: StepState | None = None, **changes: object) -> EventRecord:
    """The event that made the task's present version."""
    record = EventRecord(
        task_id=of.envelope.task_id,
        bucket=of.envelope.bucket,
        task_version=of.version,
        event_id=event_id,
        workflow_id=of.envelope.workflow_id,
        event_type=EventType.STEP_PROGRESS if about else EventType.TASK_CREATED,
        task_attempt=of.attempt,
        step_id=about.definition.step_id if about else "",
        step_attempt=about.attempt if about else 0,
        execution_id=about.terms.execution_id if about and about.terms else None,
        superseded_execution_id=None,
        operation_code=about.definition.operation_code if about else "",
        step_version=about.version if about else 0,
        producer_id="parser",
        source_seq=about.source_seq if about else 0,
        lifecycle=of.lifecycle,
        business_status=of.business_status,
        health=Health.HEALTHY,
        error_code="",
        data_schema="generic.progress.v1",
        reason="",
        actor="service:parser",
        trace_id=digest(event_id)[:16],
        occurred_at=of.committed_at - timedelta(milliseconds=20),
        received_at=of.committed_at - timedelta(milliseconds=3),
        committed_at=of.committed_at,
        duration_ms=None,
        duration_source=None,
        canonical=b"\x0a\x10" + event_id.encode() + bytes(range(256)),
        digest=digest(event_id),
    )
    return replace(record, **changes)  # type: ignore[arg-type]


def dedup(of: TaskState, event_id: str, about: StepState | None = None) -> DedupRecord:
    """The dedup row of an accepted event at the task's present version."""
    result = ReportResult(
        accepted=True,
        task_id=of.envelope.task_id,
        task_version=of.version,
        lifecycle=of.lifecycle,
        business_status=of.business_status,
        changed=True,
        step_id=about.definition.step_id if about else "",
        operation_code=about.definition.operation_code if about else "",
        step_version=about.version if about else 0,
        committed_at=of.committed_at,
    )
    return DedupRecord(of.envelope.task_id, of.envelope.bucket, event_id, digest(event_id), result)


def outbox(of: TaskState, projection: Projection, **changes: object) -> OutboxRecord:
    """The notification of the task's present version for one projection."""
    detail = projection is Projection.TASK_DETAIL
    record = OutboxRecord(
        outbox_id=new_id(of.envelope.bucket),
        bucket=of.envelope.bucket,
        aggregate_type=AggregateType.TASK,
        aggregate_id=of.envelope.task_id,
        aggregate_version=of.version,
        kind=OutboxKind.PUBLISH,
        projection=projection,
        audience=Audience.VIEWERS if detail else Audience.OWNER,
        tenant_id=TENANT,
        owner_id=OWNER,
        workflow_id=of.envelope.workflow_id,
        event_type=EventType.STEP_PROGRESS,
        protected=False,
        payload=None if detail else b'{"kind":"task.summary","title":"' + b"x" * 500 + b'"}',
        traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        committed_at=of.committed_at,
    )
    return replace(record, **changes)  # type: ignore[arg-type]


def lease(of: StepState, opened_at: datetime = START) -> LeaseRecord:
    """The lease of a started execution."""
    return LeaseRecord(
        execution_id=execution_of(of),
        bucket=of.bucket,
        task_id=of.task_id,
        task_attempt=of.task_attempt,
        step_id=of.definition.step_id,
        step_attempt=of.attempt,
        producer_id="parser",
        interval_seconds=15,
        timeout_seconds=60,
        opened_at=opened_at,
        deadline_at=opened_at + timedelta(seconds=60),
    )


def run(of: TaskState) -> RunRecord:
    """The run that the task is in."""
    envelope = of.envelope
    return RunRecord(
        envelope.task_id, envelope.bucket, of.attempt, envelope.input_ref, of.weight_total, of.committed_at
    )


def workflow_event(
    of: WorkflowState, event_id: str, event_type: EventType = EventType.WORKFLOW_CREATED
) -> WorkflowEventRecord:
    """The event that made the workflow's present version."""
    return WorkflowEventRecord(
        workflow_id=of.workflow_id,
        bucket=of.bucket,
        workflow_version=of.version,
        event_id=event_id,
        event_type=event_type,
        task_id=None,
        actor="service:coordinator",
        trace_id=None,
        committed_at=of.committed_at,
        digest=digest(event_id),
    )


def creation(of: WorkflowState, *tasks: tuple[TaskState, list[StepState]]) -> ChangeSet:
    """Everything that creating a workflow with its tasks writes."""
    changes = ChangeSet(new_workflows=[of], workflow_events=[workflow_event(of, f"create-{of.client_workflow_key}")])
    for state, steps in tasks:
        event_id = f"create-{state.envelope.client_task_key}"
        changes.new_tasks.append(state)
        changes.new_runs.append(run(state))
        changes.new_steps.extend(steps)
        changes.events.append(event(state, event_id))
        changes.dedups.append(dedup(state, event_id))
        changes.outbox.append(outbox(state, Projection.USER_SUMMARY, event_type=EventType.TASK_CREATED))
    return changes


def next_version(state: TaskState, **changes: object) -> TaskState:
    """The task one version later, one millisecond after."""
    moved = replace(
        state,
        version=state.version + 1,
        row_revision=state.row_revision + 1,
        committed_at=state.committed_at + timedelta(milliseconds=1),
    )
    return replace(moved, **changes)  # type: ignore[arg-type]


def advanced(state: StepState, **changes: object) -> StepState:
    """The step after one more event."""
    moved = replace(
        state,
        version=state.version + 1,
        source_seq=state.source_seq + 1,
        lifecycle=Lifecycle.RUNNING,
        started_at=state.started_at or START,
    )
    return replace(moved, **changes)  # type: ignore[arg-type]


def progress_of(state: TaskState, about: StepState, event_id: str) -> tuple[TaskState, StepState, ChangeSet]:
    """One accepted STEP_PROGRESS: the new states and everything it writes."""
    after, moved = next_version(state, lifecycle=Lifecycle.RUNNING, started_at=START), advanced(about)
    changes = ChangeSet(
        tasks=[after],
        steps=[moved],
        events=[event(after, event_id, moved)],
        dedups=[dedup(after, event_id, moved)],
        outbox=[outbox(after, Projection.USER_SUMMARY), outbox(after, Projection.TASK_DETAIL)],
    )
    return after, moved, changes


def merged(parts: list[ChangeSet]) -> ChangeSet:
    """One change set of several that touch different tasks."""
    whole = ChangeSet()
    for part in parts:
        for name in ChangeSet.__slots__:
            setattr(whole, name, type(getattr(whole, name))([*getattr(whole, name), *getattr(part, name)]))
    return whole


def additional(state: TaskState, *grants: Grant) -> ChangeSet:
    """A task that is added to a workflow later, with its grants."""
    return ChangeSet(
        new_tasks=[state],
        new_runs=[run(state)],
        new_task_grants=[(state, grant) for grant in grants],
        events=[event(state, f"create-{state.envelope.client_task_key}")],
    )
