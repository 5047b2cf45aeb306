"""Views → snapshots and timelines.

The field lists stand once, in ``domain.projections``: the snapshot's JSON form is what browsers get, and the protobuf
form is made from the same view, field by field; a test holds the two against each other.
"""

from __future__ import annotations

from datetime import datetime

import orjson
from google.protobuf import timestamp_pb2
from taskstatus_pb.v1 import common_pb2, query_service_pb2, task_commands_pb2

from taskstatus.domain.ids import format_execution_id, format_task_id, format_workflow_id
from taskstatus.domain.projections import (
    elapsed_ms,
    run_percent,
    shown_runs,
    step_percent,
    task_durations,
    task_percent,
)
from taskstatus.domain.records import EventRecord, RunOutcome, RunRecord, TaskView, TimelinePage
from taskstatus.domain.state import DurationSource, StepState, TaskFailure
from taskstatus.entrypoints.wire.values import to_timestamp


def task_snapshot(view: TaskView, *, for_service: bool = False) -> query_service_pb2.TaskSnapshot:
    """The snapshot of one view; who pays, and for how long it is kept, only services are told."""
    task, envelope = view.task, view.task.envelope
    labels = envelope.terms.labels
    snapshot = query_service_pb2.TaskSnapshot(
        workflow_id=format_workflow_id(envelope.workflow_id),
        task_id=format_task_id(envelope.task_id),
        task_version=task.version,
        title=envelope.title,
        task_type=envelope.task_type,
        product_id=envelope.product_id,
        priority=envelope.priority,
        task_attempt=task.attempt,
        lifecycle_status=common_pb2.LifecycleStatus.Value(task.lifecycle),
        business_status=task.business_status,
        health=common_pb2.Health.Value(task.health),
        progress_percent=task_percent(task),
        cancel_requested=task.cancel_requested,
        failure=_failure(task.failure),
        created_at=to_timestamp(envelope.created_at),
        started_at=_stamp(task.started_at),
        finished_at=_stamp(task.finished_at),
        updated_at=to_timestamp(task.committed_at),
        as_of=to_timestamp(view.as_of),
        duration_source=_source(task.duration_source),
        steps=[_step(step, view.as_of) for step in view.steps],
        summary_data=_shown(task.summary_schema, task.summary_data),
        status_definition_version=envelope.status_definition_version or 0,
        operation_definition_version=envelope.operation_definition_version or 0,
        registration_mode=common_pb2.RegistrationMode.Value(envelope.terms.mode),
        batch_id=envelope.batch_id,
        parent_task_id=format_task_id(envelope.parent_task_id) if envelope.parent_task_id else "",
        external_refs=[
            task_commands_pb2.ExternalRef(ref_type=ref.ref_type, ref_value=ref.ref_value) for ref in view.external_refs
        ],
        runs=[_run(run, outcome) for run, outcome in shown_runs(view)],
        data_classification=labels.data_classification,
        billing_account_id=labels.billing_account_id if for_service else "",
        retention_policy_id=labels.retention_policy_id if for_service else "",
    )
    _set_durations(snapshot, view)
    return snapshot


def _run(run: RunRecord, outcome: RunOutcome) -> query_service_pb2.RunSnapshot:
    return query_service_pb2.RunSnapshot(
        task_attempt=run.task_attempt,
        lifecycle_status=common_pb2.LifecycleStatus.Value(outcome.lifecycle),
        business_status=outcome.business_status,
        failure=_failure(outcome.failure),
        progress_percent=run_percent(run, outcome),
        created_at=to_timestamp(run.created_at),
        started_at=_stamp(outcome.started_at),
        finished_at=_stamp(outcome.finished_at),
        run_duration_ms=outcome.duration_ms,
        duration_source=_source(outcome.duration_source),
        reason=run.reason,
    )


def _set_durations(snapshot: query_service_pb2.TaskSnapshot, view: TaskView) -> None:
    durations = task_durations(view)
    for field, name in (
        ("queue_duration_ms", "queueDurationMs"),
        ("run_duration_ms", "runDurationMs"),
        ("total_duration_ms", "totalDurationMs"),
        ("elapsed_ms", "elapsedMs"),
    ):
        value = durations[name]
        if value is not None:
            setattr(snapshot, field, value)


def _step(step: StepState, as_of: datetime) -> query_service_pb2.StepSnapshot:
    definition, terms = step.definition, step.terms
    parent = definition.parent_execution_id
    return query_service_pb2.StepSnapshot(
        step_id=definition.step_id,
        step_attempt=step.attempt,
        current=not step.superseded,
        dynamic=definition.dynamic,
        display_name=definition.display_name,
        operation_code=definition.operation_code,
        producer_id=definition.expected_producer,
        execution_id=format_execution_id(terms.execution_id) if terms else "",
        parent_execution_id=format_execution_id(parent) if parent else "",
        depends_on=definition.depends_on,
        failure_policy=common_pb2.FailurePolicy.Value(definition.failure_policy),
        step_version=step.version,
        lifecycle_status=common_pb2.LifecycleStatus.Value(step.lifecycle),
        business_status=step.business_status,
        health=common_pb2.Health.Value(step.health),
        progress=_progress(step),
        progress_percent=step_percent(step),
        phase_code=step.phase_code,
        phase_label=step.phase_label,
        weight=definition.weight,
        error=_error(step),
        end_reason=step.end_reason,
        started_at=_stamp(step.started_at),
        finished_at=_stamp(step.finished_at),
        duration_ms=step.duration_ms,
        duration_source=_source(step.duration_source),
        elapsed_ms=elapsed_ms(step.started_at, step.lifecycle, as_of),
        data=_shown(step.data_schema, step.shown_data),
        depth=definition.depth,
        skip_source_event_id=step.skip.source_event_id if step.skip else "",
        skip_reason=step.skip.reason if step.skip else "",
    )


def timeline(page: TimelinePage, after_version: int, *, with_trace: bool) -> query_service_pb2.ListTaskEventsResponse:
    """The timeline; it says when the asked window has been cleaned away (Q-1). Traces are for services."""
    return query_service_pb2.ListTaskEventsResponse(
        events=[_event(event, with_trace=with_trace) for event in page.events],
        task_version=page.task_version,
        has_more=page.has_more,
        window_cleaned=page.oldest_task_version > after_version + 1
        or (page.oldest_task_version == 0 and after_version < page.task_version),
        oldest_task_version=page.oldest_task_version,
    )


def _event(event: EventRecord, *, with_trace: bool) -> query_service_pb2.TimelineEvent:
    return query_service_pb2.TimelineEvent(
        event_id=event.event_id,
        task_version=event.task_version,
        step_version=event.step_version,
        event_type=common_pb2.EventType.Value(event.event_type),
        task_attempt=event.task_attempt,
        step_id=event.step_id,
        step_attempt=event.step_attempt,
        execution_id=format_execution_id(event.execution_id) if event.execution_id else "",
        operation_code=event.operation_code,
        producer_id=event.producer_id,
        source_seq=event.source_seq,
        lifecycle_status=common_pb2.LifecycleStatus.Value(event.lifecycle),
        business_status=event.business_status,
        health=common_pb2.Health.Value(event.health),
        error_code=event.error_code,
        reason=event.reason,
        occurred_at=_stamp(event.occurred_at),
        received_at=to_timestamp(event.received_at),
        committed_at=to_timestamp(event.committed_at),
        duration_ms=event.duration_ms,
        trace_id=event.trace_id.hex() if with_trace and event.trace_id else "",
        data=_shown(event.data_schema, event.shown_data),
        actor=event.actor,
    )


def _shown(schema: str, fields: bytes) -> query_service_pb2.ShownData | None:
    if not fields:
        return None
    data = query_service_pb2.ShownData(schema=schema)
    data.value.update(orjson.loads(fields))
    return data


def _failure(failure: TaskFailure | None) -> query_service_pb2.TaskFailure | None:
    if failure is None:
        return None
    return query_service_pb2.TaskFailure(
        code=failure.code,
        message=failure.message,
        failed_step_id=failure.failed_step_id,
        category=failure.category,
        retryable=failure.retryable,
    )


def _progress(step: StepState) -> common_pb2.Progress | None:
    progress = step.progress
    if progress is None:
        return None
    return common_pb2.Progress(current=progress.current, total=progress.total, unit=progress.unit)


def _error(step: StepState) -> common_pb2.EventError | None:
    error = step.error
    if error is None:
        return None
    return common_pb2.EventError(
        category=error.category, code=error.code, retryable=error.retryable, message=error.message
    )


def _source(source: DurationSource | None) -> common_pb2.DurationSource.ValueType:
    if source is None:
        return common_pb2.DURATION_SOURCE_UNSPECIFIED
    return common_pb2.DurationSource.Value(source)


def _stamp(at: datetime | None) -> timestamp_pb2.Timestamp | None:
    return None if at is None else to_timestamp(at)
