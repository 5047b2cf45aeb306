"""What the fake shows of a task: snapshot, runs and list items, in the form of the service's own."""

from __future__ import annotations

from datetime import datetime

from google.protobuf.message import Message
from taskstatus_pb.v1 import common_pb2, query_service_pb2, task_commands_pb2, task_list_pb2

from taskstatus.sdk.testing.model import TERMINAL, FakeAttempt, FakeTask, weight_of


def task_snapshot(task: FakeTask, as_of: datetime) -> query_service_pb2.TaskSnapshot:
    """The task with every attempt of its current run, and every run."""
    spec = task.spec
    snapshot = query_service_pb2.TaskSnapshot(
        workflow_id=task.workflow_id,
        task_id=task.task_id,
        task_version=task.version,
        title=spec.title,
        task_type=spec.task_type,
        product_id=spec.product_id,
        priority=spec.priority,
        task_attempt=task.attempt,
        lifecycle_status=common_pb2.LifecycleStatus.Value(task.lifecycle),
        business_status=task.business_status,
        status_definition_version=spec.status_definition_version,
        health=common_pb2.Health.Value(task.health),
        progress_percent=task.percent,
        cancel_requested=task.cancel_requested,
        failure=task.failure,
        run_duration_ms=task.duration_ms,
        duration_source=_source(task.duration_ms),
        steps=[_step(attempt, as_of) for attempt in task.attempts()],
        operation_definition_version=spec.operation_definition_version,
        registration_mode=spec.registration_mode or common_pb2.MIXED,
        batch_id=spec.batch_id,
        parent_task_id=spec.parent_task_id,
        external_refs=[task_commands_pb2.ExternalRef(ref_type=kind, ref_value=value) for kind, value in _refs(task)],
        runs=[*task.earlier_runs, run_snapshot(task)],
        data_classification=spec.data_classification,
        billing_account_id=spec.billing_account_id,
        retention_policy_id=spec.retention_policy_id,
    )
    if task.started_at is not None:
        snapshot.queue_duration_ms = _between(task.run_created_at, task.started_at)
    if task.finished_at is not None:
        snapshot.total_duration_ms = _between(task.created_at, task.finished_at)
    elif task.started_at is not None:
        snapshot.elapsed_ms = _between(task.started_at, as_of)
    _stamp(snapshot, task, "created_at", "started_at", "finished_at")
    snapshot.updated_at.FromDatetime(task.committed_at)
    snapshot.as_of.FromDatetime(as_of)
    return snapshot


def task_summary(task: FakeTask, as_of: datetime) -> task_list_pb2.TaskSummary:
    """The task in a list: a part of its snapshot."""
    snapshot, summary = task_snapshot(task, as_of), task_list_pb2.TaskSummary()
    for field, value in snapshot.ListFields():
        if field.name not in summary.DESCRIPTOR.fields_by_name:
            continue
        if isinstance(value, Message):
            getattr(summary, field.name).CopyFrom(value)
        else:
            setattr(summary, field.name, value)
    return summary


def run_snapshot(task: FakeTask) -> query_service_pb2.RunSnapshot:
    """The task's current run."""
    run = query_service_pb2.RunSnapshot(
        task_attempt=task.attempt,
        lifecycle_status=common_pb2.LifecycleStatus.Value(task.lifecycle),
        business_status=task.business_status,
        failure=task.failure,
        progress_percent=task.percent,
        run_duration_ms=task.duration_ms,
        duration_source=_source(task.duration_ms),
        reason=task.run_reason,
    )
    run.created_at.FromDatetime(task.run_created_at)
    _stamp(run, task, "started_at", "finished_at")
    return run


def recorded_event(task: FakeTask, event: query_service_pb2.TimelineEvent) -> task_list_pb2.RecordedEvent:
    """A committed event with its task; the fake notifies nobody."""
    return task_list_pb2.RecordedEvent(
        workflow_id=task.workflow_id,
        task_id=task.task_id,
        event_id=event.event_id,
        task_version=event.task_version,
        event_type=event.event_type,
        step_id=event.step_id,
        execution_id=event.execution_id,
        actor=event.actor,
        trace_id=event.trace_id,
        committed_at=event.committed_at,
    )


def _step(attempt: FakeAttempt, as_of: datetime) -> query_service_pb2.StepSnapshot:
    spec = attempt.spec
    step = query_service_pb2.StepSnapshot(
        step_id=spec.step_id,
        step_attempt=attempt.number,
        current=not attempt.superseded,
        dynamic=attempt.dynamic,
        display_name=spec.display_name,
        operation_code=spec.operation_code,
        producer_id=spec.expected_producer,
        execution_id=attempt.execution_id,
        parent_execution_id=attempt.parent_execution_id,
        depends_on=spec.depends_on,
        failure_policy=spec.failure_policy,
        step_version=attempt.version,
        lifecycle_status=common_pb2.LifecycleStatus.Value(attempt.lifecycle),
        business_status=attempt.lifecycle,
        health=common_pb2.DEGRADED if attempt.degrades else common_pb2.HEALTHY,
        progress=attempt.progress,
        progress_percent=_percent(attempt),
        phase_code=attempt.phase_code,
        phase_label=attempt.phase_label,
        weight=weight_of(attempt),
        error=attempt.error,
        end_reason=attempt.end_reason,
        duration_ms=attempt.duration_ms,
        duration_source=_source(attempt.duration_ms),
        depth=attempt.depth,
        skip_source_event_id=attempt.skip.source_event_id if attempt.skip else "",
        skip_reason=attempt.skip.reason if attempt.skip else "",
    )
    _stamp(step, attempt, "started_at", "finished_at")
    if attempt.started_at is not None and attempt.lifecycle not in TERMINAL:
        step.elapsed_ms = _between(attempt.started_at, as_of)
    return step


def _percent(attempt: FakeAttempt) -> float | None:
    if attempt.lifecycle == "SUCCEEDED":
        return 100.0
    if attempt.progress is None or not attempt.progress.total:
        return None
    return 100.0 * attempt.progress.current / attempt.progress.total


def _refs(task: FakeTask) -> list[tuple[str, str]]:
    return sorted(task.external_refs)


def _source(duration_ms: float | None) -> common_pb2.DurationSource.ValueType:
    return common_pb2.DURATION_SOURCE_UNSPECIFIED if duration_ms is None else common_pb2.WORKER_MONOTONIC


def _between(begin: datetime, end: datetime) -> float:
    return float(int((end - begin).total_seconds() * 1000))


def _stamp(message: Message, kept: object, *names: str) -> None:
    for name in names:
        at = getattr(kept, name)
        if at is not None:
            getattr(message, name).FromDatetime(at)
