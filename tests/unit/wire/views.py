"""Random views of tasks and events: every optional part there or not, every enum value, any text and number."""

from __future__ import annotations

from datetime import datetime, timedelta

from hypothesis import strategies as st

from taskstatus.domain.events import EventType
from taskstatus.domain.health import Health
from taskstatus.domain.ids import ExecutionId
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.progress import Progress
from taskstatus.domain.projections import in_display_order
from taskstatus.domain.records import EventRecord, RunOutcome, RunRecord, RunView, TaskView
from taskstatus.domain.registration_terms import FixedLabels, RegistrationMode, RegistrationTerms
from taskstatus.domain.state import (
    DurationSource,
    ExecutionTerms,
    ExternalRef,
    FailurePolicy,
    SkipRecord,
    StepDefinition,
    StepError,
    StepState,
    TaskFailure,
)
from tests.unit.factories import BUCKET, TASK_ID, WORKFLOW_ID, a_task, an_envelope, an_id

WRITABLE_EVENTS = sorted(
    {event for event in EventType if event.startswith(("STEP_", "TASK_"))}
    - {
        EventType.TASK_CLASSIFIED,
        EventType.TASK_METADATA_UPDATED,
        EventType.TASK_CANCEL_REQUESTED,
        EventType.TASK_RERUN,
        EventType.TASK_CORRECTED,
        EventType.STEP_SKIPPED,
    }
    | {EventType.EXECUTION_REGISTERED}
)
"""What the event log can hold until the later commands exist."""

texts = st.text(st.characters(exclude_categories=("Cc", "Cs")), max_size=8)
versions = st.integers(0, 2**63 - 1)
counts = st.integers(0, 2**31 - 1)
milliseconds = st.none() | st.integers(0, 2**53)
moments = st.builds(
    lambda base, micros: base + timedelta(microseconds=micros),
    st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1)).map(lambda moment: moment.replace(microsecond=0)),
    st.sampled_from((0, 1, 1_000, 123_000, 123_456, 999_999)),
)
maybe_moments = st.none() | moments
execution_ids = st.integers(1, 1000).map(lambda number: ExecutionId(an_id(number)))
amounts = st.floats(0, 1e12, allow_nan=False) | st.integers(0, 1000).map(float)
progresses = st.builds(Progress, amounts, amounts, texts)
sources = st.none() | st.sampled_from(DurationSource)

shown = st.sampled_from((b"", b'{"pages":36,"ratio":0.5,"language":"zh","done":true,"none":null,"list":[1,{"a":2}]}'))

definitions = st.builds(
    StepDefinition,
    step_id=st.sampled_from(("01_a", "02_b", "dyn_c")),
    order=st.integers(1, 5),
    dynamic=st.booleans(),
    parent_execution_id=st.none() | execution_ids,
    operation_code=texts,
    expected_producer=texts,
    depends_on=st.lists(texts, max_size=2).map(tuple),
    failure_policy=st.sampled_from(FailurePolicy),
    display_name=texts,
    weight=counts,
    max_run_seconds=counts,
    depth=st.integers(0, 16),
)
step_states = st.builds(
    StepState,
    task_id=st.just(TASK_ID),
    bucket=st.just(BUCKET),
    task_attempt=st.just(1),
    attempt=st.integers(1, 3),
    definition=definitions,
    terms=st.none() | st.builds(ExecutionTerms, execution_ids, st.just(b""), texts, counts, counts),
    created_at=moments,
    superseded=st.booleans(),
    version=versions,
    lifecycle=st.sampled_from(Lifecycle),
    business_status=texts,
    stale=st.booleans(),
    degraded=st.booleans(),
    progress=st.none() | progresses,
    phase_code=texts,
    phase_label=texts,
    data_schema=texts,
    shown_data=shown,
    error=st.none() | st.builds(StepError, texts, texts, texts, st.booleans(), texts),
    end_reason=texts,
    started_at=maybe_moments,
    finished_at=maybe_moments,
    duration_ms=milliseconds,
    duration_source=sources,
    skip=st.none() | st.builds(SkipRecord, texts, texts),
)
labels = st.builds(FixedLabels, texts, texts, texts)
envelopes = st.builds(
    lambda **fields: an_envelope(**fields),
    title=texts,
    task_type=texts,
    product_id=texts,
    priority=st.integers(-100, 100),
    created_at=moments,
    batch_id=texts,
    parent_task_id=st.none() | st.just(TASK_ID),
    terms=st.builds(RegistrationTerms, st.sampled_from(RegistrationMode), labels=labels),
)
failures = st.none() | st.builds(TaskFailure, texts, texts, texts, st.booleans(), texts)
task_states = st.builds(
    lambda envelope, **fields: a_task(**{"envelope": envelope, **fields}),
    envelopes,
    attempt=st.integers(1, 9),
    version=versions,
    lifecycle=st.sampled_from(Lifecycle),
    business_status=texts,
    cancel_requested=st.booleans(),
    weight_total=st.integers(0, 10),
    progress_points=st.integers(0, 100_000),
    stale_steps=st.integers(0, 1),
    degraded_steps=st.integers(0, 1),
    failure=failures,
    started_at=maybe_moments,
    finished_at=maybe_moments,
    duration_ms=milliseconds,
    duration_source=sources,
    committed_at=moments,
    summary_schema=texts,
    summary_data=shown,
)
outcomes = st.builds(
    RunOutcome,
    st.sampled_from(Lifecycle),
    texts,
    st.integers(0, 100_000),
    failures,
    maybe_moments,
    maybe_moments,
    milliseconds,
    sources,
)
runs = st.builds(
    lambda number, weight, created_at, reason, outcome: RunView(
        RunRecord(TASK_ID, BUCKET, number, "", weight, created_at, reason), outcome
    ),
    st.integers(1, 9),
    st.integers(0, 10),
    moments,
    texts,
    st.none() | outcomes,
)
views = st.builds(
    lambda task, steps, as_of, runs, refs: TaskView(
        task, in_display_order(steps), as_of, runs=tuple(runs), external_refs=tuple(refs)
    ),
    task_states,
    st.lists(step_states, max_size=2),
    moments,
    st.lists(runs, max_size=3),
    st.lists(st.builds(ExternalRef, texts, texts), max_size=2),
)
events = st.builds(
    EventRecord,
    task_id=st.just(TASK_ID),
    bucket=st.just(BUCKET),
    task_version=versions,
    event_id=texts,
    workflow_id=st.just(WORKFLOW_ID),
    event_type=st.sampled_from(WRITABLE_EVENTS),
    task_attempt=st.integers(1, 9),
    step_id=texts,
    step_attempt=st.integers(0, 9),
    execution_id=st.none() | execution_ids,
    superseded_execution_id=st.none() | execution_ids,
    operation_code=texts,
    step_version=versions,
    producer_id=texts,
    source_seq=versions,
    lifecycle=st.sampled_from(Lifecycle),
    business_status=texts,
    health=st.sampled_from(Health),
    error_code=texts,
    data_schema=texts,
    reason=texts,
    actor=texts,
    trace_id=st.none() | st.binary(min_size=16, max_size=16),
    occurred_at=maybe_moments,
    received_at=moments,
    committed_at=moments,
    duration_ms=milliseconds,
    duration_source=sources,
    canonical=st.just(b""),
    digest=st.just(b""),
    shown_data=shown,
)
