"""Any record that the domain may hand to the store."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from hypothesis import strategies as st

from taskstatus.domain.events import EventType
from taskstatus.domain.health import Health
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.progress import Progress
from taskstatus.domain.reasons import Reason
from taskstatus.domain.records import (
    AggregateType,
    Audience,
    DedupRecord,
    EventRecord,
    OutboxKind,
    OutboxRecord,
    Projection,
    ReportResult,
)
from taskstatus.domain.state import (
    DurationSource,
    ExecutionTerms,
    FailurePolicy,
    StepDefinition,
    StepError,
    StepState,
    TaskFailure,
    TaskState,
)
from tests.contract import records

INT32, INT64 = 2**31 - 1, 2**63 - 1
_VISIBLE = st.characters(min_codepoint=0x21, max_codepoint=0x7E)
_FREE = st.characters(exclude_categories=["Cs", "Cc"])

bytes16 = st.binary(min_size=16, max_size=16)
bytes32 = st.binary(min_size=32, max_size=32)
times = st.datetimes(min_value=datetime(1971, 1, 1), max_value=datetime(2199, 1, 1))
counts = st.integers(0, INT32)
longs = st.integers(0, INT64)


def ids(limit: int, minimum: int = 0) -> st.SearchStrategy[str]:
    """Visible ASCII; the longest too."""
    return st.text(_VISIBLE, min_size=minimum, max_size=limit) | st.just("\\'%" + "~" * (limit - 3))


def texts(limit: int) -> st.SearchStrategy[str]:
    """Any text without control characters; as long as allowed in four-byte characters too."""
    return st.text(_FREE, max_size=limit) | st.just("\U0001f680" * limit) | st.just("a ")


def optional(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Or None."""
    return st.none() | strategy


errors = st.builds(
    StepError,
    category=texts(64),
    code=ids(128),
    message=texts(512),
    retryable=st.booleans(),
    diagnostics_ref=texts(255),
)
failures = st.builds(
    TaskFailure,
    code=ids(128),
    message=texts(512),
    category=texts(64),
    retryable=st.booleans(),
    failed_step_id=ids(64),
)
progresses = st.builds(
    Progress,
    current=st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False),
    total=st.floats(0, 1e300, allow_subnormal=False),
    unit=texts(64),
)
definitions = st.builds(
    StepDefinition,
    step_id=ids(64, 1),
    order=counts,
    dynamic=st.booleans(),
    parent_execution_id=optional(bytes16),
    operation_code=ids(128),
    expected_producer=ids(128),
    depends_on=st.lists(ids(64), max_size=5).map(tuple),
    failure_policy=st.sampled_from(FailurePolicy),
    display_name=texts(200),
    weight=counts,
    max_run_seconds=counts,
)


@st.composite
def tasks(draw: st.DrawFn) -> TaskState:
    """A task in any state, with an id of its own."""
    base = records.task(records.new_id())
    envelope = replace(
        base.envelope,
        tenant_id=draw(ids(64)),
        authority_scope=draw(ids(64)),
        owner_id=draw(ids(64)),
        client_task_key=draw(ids(128)),
        creation_digest=draw(bytes32),
        title=draw(texts(200)),
        task_type=draw(ids(128)),
        product_id=draw(ids(64)),
        priority=draw(st.integers(-100, 100)),
        coordinator_producer=draw(ids(128)),
        policy_executors=tuple(draw(st.lists(ids(128), max_size=20))),
        input_ref=draw(texts(1024)),
        created_at=draw(times),
    )
    return TaskState(
        envelope=envelope,
        attempt=draw(st.integers(1, INT32)),
        version=draw(longs),
        row_revision=draw(longs),
        lifecycle=draw(st.sampled_from(Lifecycle)),
        business_status=draw(ids(64)),
        cancel_requested=draw(st.booleans()),
        shared=draw(st.booleans()),
        weight_total=draw(longs),
        progress_points=draw(longs),
        open_steps=draw(counts),
        stale_steps=draw(counts),
        degraded_steps=draw(counts),
        producer_seqs=draw(st.dictionaries(ids(128), longs, max_size=20)),
        failure=draw(optional(failures)),
        started_at=draw(optional(times)),
        finished_at=draw(optional(times)),
        duration_ms=draw(optional(longs)),
        duration_source=draw(optional(st.sampled_from(DurationSource))),
        committed_at=draw(times),
    )


@st.composite
def steps(draw: st.DrawFn, task: TaskState) -> StepState:
    """A step attempt in any state."""
    terms = st.builds(
        ExecutionTerms,
        execution_id=st.builds(lambda: records.new_id(task.envelope.bucket)),
        activation_digest=bytes32,
        input_ref=texts(1024),
        heartbeat_interval_seconds=counts,
        heartbeat_timeout_seconds=counts,
    )
    return StepState(
        task_id=task.envelope.task_id,
        bucket=task.envelope.bucket,
        task_attempt=task.attempt,
        attempt=draw(st.integers(1, INT32)),
        definition=draw(definitions),
        terms=draw(optional(terms)),
        created_at=draw(times),
        generation=draw(counts),
        superseded=draw(st.booleans()),
        source_seq=draw(longs),
        version=draw(longs),
        lifecycle=draw(st.sampled_from(Lifecycle)),
        business_status=draw(ids(64)),
        stale=draw(st.booleans()),
        degraded=draw(st.booleans()),
        progress=draw(optional(progresses)),
        progress_seq=draw(longs),
        credited_points=draw(st.integers(0, 10_000)),
        phase_code=draw(texts(128)),
        phase_label=draw(texts(200)),
        data_schema=draw(ids(128)),
        error=draw(optional(errors)),
        end_reason=draw(ids(32)),
        started_at=draw(optional(times)),
        finished_at=draw(optional(times)),
        duration_ms=draw(optional(longs)),
        duration_source=draw(optional(st.sampled_from(DurationSource))),
    )


@st.composite
def events(draw: st.DrawFn, task: TaskState) -> EventRecord:
    """The event of the task's version."""
    return EventRecord(
        task_id=task.envelope.task_id,
        bucket=task.envelope.bucket,
        task_version=task.version,
        event_id=draw(ids(64, 1)),
        workflow_id=task.envelope.workflow_id,
        event_type=draw(st.sampled_from(EventType)),
        task_attempt=task.attempt,
        step_id=draw(ids(64)),
        step_attempt=draw(counts),
        execution_id=draw(optional(bytes16)),
        superseded_execution_id=draw(optional(bytes16)),
        operation_code=draw(ids(128)),
        step_version=draw(longs),
        producer_id=draw(ids(128)),
        source_seq=draw(longs),
        lifecycle=draw(st.sampled_from(Lifecycle)),
        business_status=draw(ids(64)),
        health=draw(st.sampled_from(Health)),
        error_code=draw(ids(128)),
        data_schema=draw(ids(128)),
        reason=draw(texts(512)),
        actor=draw(ids(200)),
        trace_id=draw(optional(bytes16)),
        occurred_at=draw(optional(times)),
        received_at=draw(times),
        committed_at=draw(times),
        duration_ms=draw(optional(longs)),
        duration_source=draw(optional(st.sampled_from(DurationSource))),
        canonical=draw(st.binary(max_size=2000)),
        digest=draw(bytes32),
    )


@st.composite
def dedups(draw: st.DrawFn, task: TaskState) -> DedupRecord:
    """The dedup row of any event id with any result, the longest too."""
    result = ReportResult(
        accepted=draw(st.booleans()),
        task_id=task.envelope.task_id,
        task_version=draw(longs),
        lifecycle=draw(st.sampled_from(Lifecycle)),
        business_status=draw(ids(64)),
        changed=draw(st.booleans()),
        step_id=draw(ids(64)),
        operation_code=draw(ids(128)),
        step_version=draw(longs),
        committed_at=draw(optional(times)),
        duplicate=draw(st.booleans()),
        stale=draw(st.booleans()),
        reason=draw(optional(st.sampled_from(Reason))),
        coalesced=draw(st.booleans()),
        cancel_requested=draw(st.booleans()),
    )
    return DedupRecord(task.envelope.task_id, task.envelope.bucket, draw(ids(64, 1)), draw(bytes32), result)


@st.composite
def messages(draw: st.DrawFn, task: TaskState) -> OutboxRecord:
    """An outbox row of the task's version."""
    return OutboxRecord(
        outbox_id=records.new_id(task.envelope.bucket),
        bucket=task.envelope.bucket,
        aggregate_type=draw(st.sampled_from(AggregateType)),
        aggregate_id=task.envelope.task_id,
        aggregate_version=task.version,
        kind=draw(st.sampled_from(OutboxKind)),
        projection=draw(st.sampled_from(Projection)),
        audience=draw(st.sampled_from(Audience)),
        tenant_id=draw(ids(64)),
        owner_id=draw(ids(64)),
        workflow_id=task.envelope.workflow_id,
        event_type=draw(st.sampled_from(EventType)),
        protected=draw(st.booleans()),
        payload=draw(optional(st.binary(max_size=4000))),
        traceparent=draw(ids(55)),
        committed_at=draw(times),
    )
