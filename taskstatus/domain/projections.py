"""Messages for people, built from validated state through fixed fields, never from a worker's own JSON (P-2, P-5).

No step result, input reference or diagnostics is among the fields: what is not named here cannot leak. ``state`` of a
detail message is, field for field, the JSON form of ``TaskSnapshot``.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import orjson

from taskstatus.domain.durations import json_time, milliseconds_between
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import format_execution_id, format_task_id, format_workflow_id
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.notices import Notice
from taskstatus.domain.progress import FULL_POINTS, percent_of_points, weighted_percent
from taskstatus.domain.records import RUNS_SHOWN, EventRecord, RunOutcome, RunRecord, TaskView
from taskstatus.domain.state import DurationSource, StepState, TaskFailure, TaskState

SCHEMA_VERSION = 1
NO_DURATION_SOURCE = "DURATION_SOURCE_UNSPECIFIED"

Json = dict[str, object]


def task_percent(task: TaskState) -> float | None:
    """The task's progress in percent; success shows 100 (E-8)."""
    return _percent(task.lifecycle, task.progress_points, task.weight_total)


def run_percent(run: RunRecord, outcome: RunOutcome) -> float | None:
    """A run's progress in percent, by the same rule."""
    return _percent(outcome.lifecycle, outcome.progress_points, run.weight_total)


def step_percent(step: StepState) -> float | None:
    """One attempt's own progress in percent; success shows 100 (E-8)."""
    if step.lifecycle is Lifecycle.SUCCEEDED:
        return percent_of_points(FULL_POINTS)
    points = step.progress.points if step.progress else None
    return None if points is None else percent_of_points(points)


def elapsed_ms(started_at: datetime | None, lifecycle: Lifecycle, as_of: datetime) -> int | None:
    """Milliseconds from start to ``as_of`` while the thing runs; None otherwise."""
    if started_at is None or lifecycle.is_terminal:
        return None
    return milliseconds_between(started_at, as_of)


def total_duration_ms(task: TaskState) -> int | None:
    """Milliseconds from the task's creation to its committed end, whatever runs lie between; None before (Q-2)."""
    return None if task.finished_at is None else milliseconds_between(task.envelope.created_at, task.finished_at)


def shown_runs(view: TaskView) -> list[tuple[RunRecord, RunOutcome]]:
    """The last ``RUNS_SHOWN`` runs: each as it ended, the current one as the task stands."""
    task = view.task
    standing = RunOutcome(
        task.lifecycle,
        task.business_status,
        task.progress_points,
        task.failure,
        task.started_at,
        task.finished_at,
        task.duration_ms,
        task.duration_source,
    )
    runs = [(it.run, standing if it.run.task_attempt == task.attempt else it.outcome) for it in view.runs]
    return [(run, outcome) for run, outcome in runs[-RUNS_SHOWN:] if outcome is not None]


def render_summary(
    task: TaskState, step: StepState | None, event_type: EventType, as_of: datetime, notice: Notice | None
) -> Json:
    """The whole ``task.summary`` message of one committed version."""
    message = _envelope("task.summary", task, event_type)
    if step is not None:
        message |= _step_envelope(step)
    message["task"] = _summary_of_task(task, as_of)
    if notice is not None:
        message["notice"] = notice.as_json()
    return message


def render_detail(view: TaskView) -> Json:
    """The whole ``task.detail`` message of the version that the view was read at."""
    trigger = view.trigger
    message = _envelope("task.detail", view.task, trigger.event_type if trigger else None)
    if trigger is not None and trigger.step_id:
        message |= {
            "stepId": trigger.step_id,
            "operationCode": trigger.operation_code,
            "stepVersion": str(trigger.step_version),
        }
    message["triggerEvent"] = None if trigger is None else timeline_event(trigger)
    message["state"] = task_snapshot(view)
    return message


def task_snapshot(view: TaskView) -> Json:
    """The JSON form of ``TaskSnapshot``."""
    task, envelope = view.task, view.task.envelope
    snapshot: Json = {
        "workflowId": format_workflow_id(envelope.workflow_id),
        "taskId": format_task_id(envelope.task_id),
        "taskVersion": str(task.version),
        "title": envelope.title,
        "taskType": envelope.task_type,
        "productId": envelope.product_id,
        "priority": envelope.priority,
        "taskAttempt": task.attempt,
        "lifecycleStatus": task.lifecycle,
        "businessStatus": task.business_status,
        "health": task.health,
        "progressPercent": task_percent(task),
        "cancelRequested": task.cancel_requested,
        "failure": _task_failure(task.failure),
        "createdAt": json_time(envelope.created_at),
        "startedAt": _optional_time(task.started_at),
        "finishedAt": _optional_time(task.finished_at),
        "updatedAt": json_time(task.committed_at),
        "asOf": json_time(view.as_of),
        "durationSource": _source(task.duration_source),
        "summaryData": shown(task.summary_schema, task.summary_data),
        "steps": [step_snapshot(step, view.as_of) for step in view.steps],
        "statusDefinitionVersion": envelope.status_definition_version or 0,
        "operationDefinitionVersion": envelope.operation_definition_version or 0,
        "registrationMode": envelope.terms.mode,
        "batchId": envelope.batch_id,
        "parentTaskId": format_task_id(envelope.parent_task_id) if envelope.parent_task_id else "",
        "externalRefs": [{"refType": ref.ref_type, "refValue": ref.ref_value} for ref in view.external_refs],
        "runs": [_run_snapshot(run, outcome) for run, outcome in shown_runs(view)],
        "dataClassification": envelope.terms.labels.data_classification,
        # For services only, and no service reads this form.
        "billingAccountId": "",
        "retentionPolicyId": "",
    }
    return _present(snapshot | task_durations(view))


def task_durations(view: TaskView) -> Json:
    """Queue, run, total and elapsed milliseconds; None where not known (Q-2).

    What a rerun waited in the queue begins when its run was opened; the total begins when the task was created.
    """
    task = view.task
    opened = view.runs[-1].run.created_at if view.runs else task.envelope.created_at
    return {
        "queueDurationMs": None if task.started_at is None else milliseconds_between(opened, task.started_at),
        "runDurationMs": task.duration_ms,
        "totalDurationMs": total_duration_ms(task),
        "elapsedMs": elapsed_ms(task.started_at, task.lifecycle, view.as_of),
    }


def _run_snapshot(run: RunRecord, outcome: RunOutcome) -> Json:
    return _present(
        {
            "taskAttempt": run.task_attempt,
            "lifecycleStatus": outcome.lifecycle,
            "businessStatus": outcome.business_status,
            "failure": _task_failure(outcome.failure),
            "progressPercent": run_percent(run, outcome),
            "createdAt": json_time(run.created_at),
            "startedAt": _optional_time(outcome.started_at),
            "finishedAt": _optional_time(outcome.finished_at),
            "runDurationMs": outcome.duration_ms,
            "durationSource": _source(outcome.duration_source),
            "reason": run.reason,
        }
    )


def step_snapshot(step: StepState, as_of: datetime) -> Json:
    """The JSON form of ``StepSnapshot``: one attempt of one step."""
    definition, terms = step.definition, step.terms
    parent = definition.parent_execution_id
    return _present(
        {
            "stepId": definition.step_id,
            "stepAttempt": step.attempt,
            "current": not step.superseded,
            "dynamic": definition.dynamic,
            "displayName": definition.display_name,
            "operationCode": definition.operation_code,
            "producerId": definition.expected_producer,
            "executionId": format_execution_id(terms.execution_id) if terms else "",
            "parentExecutionId": format_execution_id(parent) if parent else "",
            "dependsOn": list(definition.depends_on),
            "failurePolicy": definition.failure_policy,
            "stepVersion": str(step.version),
            "lifecycleStatus": step.lifecycle,
            "businessStatus": step.business_status,
            "health": step.health,
            "progress": _progress(step),
            "progressPercent": step_percent(step),
            "phaseCode": step.phase_code,
            "phaseLabel": step.phase_label,
            "weight": definition.weight,
            "error": _step_error(step),
            "data": shown(step.data_schema, step.shown_data),
            "endReason": step.end_reason,
            "startedAt": _optional_time(step.started_at),
            "finishedAt": _optional_time(step.finished_at),
            "durationMs": step.duration_ms,
            "durationSource": _source(step.duration_source),
            "elapsedMs": elapsed_ms(step.started_at, step.lifecycle, as_of),
            "depth": definition.depth,
            "skipSourceEventId": step.skip.source_event_id if step.skip else "",
            "skipReason": step.skip.reason if step.skip else "",
        }
    )


def timeline_event(event: EventRecord) -> Json:
    """The JSON form of ``TimelineEvent`` as people see it, without its trace."""
    return _present(
        {
            "eventId": event.event_id,
            "taskVersion": str(event.task_version),
            "stepVersion": str(event.step_version),
            "eventType": event.event_type,
            "taskAttempt": event.task_attempt,
            "stepId": event.step_id,
            "stepAttempt": event.step_attempt,
            "executionId": format_execution_id(event.execution_id) if event.execution_id else "",
            "operationCode": event.operation_code,
            "producerId": event.producer_id,
            "sourceSeq": str(event.source_seq),
            "lifecycleStatus": event.lifecycle,
            "businessStatus": event.business_status,
            "health": event.health,
            "errorCode": event.error_code,
            "data": shown(event.data_schema, event.shown_data),
            "reason": event.reason,
            "occurredAt": _optional_time(event.occurred_at),
            "receivedAt": json_time(event.received_at),
            "committedAt": json_time(event.committed_at),
            "durationMs": event.duration_ms,
            "traceId": "",
            "actor": event.actor,
        }
    )


def in_display_order(steps: Sequence[StepState]) -> tuple[StepState, ...]:
    """Attempts by the step's order, its id and the attempt."""
    return tuple(sorted(steps, key=lambda step: (step.definition.order, step.definition.step_id, step.attempt)))


def shown(schema: str, fields: bytes) -> Json | None:
    """``data`` of a message: the schema and its whitelisted fields; None when nothing may be shown (P-2)."""
    return {"schema": schema, "value": orjson.loads(fields)} if fields else None


def _envelope(kind: str, task: TaskState, event_type: EventType | None) -> Json:
    return {
        "kind": kind,
        "schemaVersion": SCHEMA_VERSION,
        "workflowId": format_workflow_id(task.envelope.workflow_id),
        "taskId": format_task_id(task.envelope.task_id),
        "taskType": task.envelope.task_type or None,
        "eventType": event_type,
        "taskVersion": str(task.version),
    }


def _step_envelope(step: StepState) -> Json:
    return {
        "stepId": step.definition.step_id,
        "operationCode": step.definition.operation_code,
        "stepVersion": str(step.version),
    }


def _summary_of_task(task: TaskState, as_of: datetime) -> Json:
    envelope = task.envelope
    return {
        "id": format_task_id(envelope.task_id),
        "version": str(task.version),
        "title": envelope.title,
        "taskType": envelope.task_type or None,
        "statusDefinitionVersion": envelope.status_definition_version,
        "productId": envelope.product_id or None,
        "priority": envelope.priority,
        "lifecycleStatus": task.lifecycle,
        "businessStatus": task.business_status,
        "health": task.health,
        "progressPercent": task_percent(task),
        "cancelRequested": task.cancel_requested,
        "failedStepId": task.failure.failed_step_id if task.failure else None,
        "createdAt": json_time(envelope.created_at),
        "startedAt": _optional_time(task.started_at),
        "finishedAt": _optional_time(task.finished_at),
        "elapsedMs": elapsed_ms(task.started_at, task.lifecycle, as_of),
        "totalDurationMs": total_duration_ms(task),
        "asOf": json_time(as_of),
        "summaryData": shown(task.summary_schema, task.summary_data),
    }


def _percent(lifecycle: Lifecycle, points: int, weight_total: int) -> float | None:
    return 100.0 if lifecycle is Lifecycle.SUCCEEDED else weighted_percent(points, weight_total)


def _task_failure(failure: TaskFailure | None) -> Json | None:
    if failure is None:
        return None
    return {
        "code": failure.code,
        "message": failure.message,
        "failedStepId": failure.failed_step_id,
        "category": failure.category,
        "retryable": failure.retryable,
    }


def _step_error(step: StepState) -> Json | None:
    error = step.error
    if error is None:
        return None
    return {
        "category": error.category,
        "code": error.code,
        "retryable": error.retryable,
        "message": error.message,
        "diagnosticsRef": "",
    }


def _progress(step: StepState) -> Json | None:
    progress = step.progress
    if progress is None:
        return None
    return {"current": progress.current, "total": progress.total, "unit": progress.unit}


def _source(source: DurationSource | None) -> str:
    return NO_DURATION_SOURCE if source is None else source.value


def _optional_time(at: datetime | None) -> str | None:
    return None if at is None else json_time(at)


def _present(fields: Json) -> Json:
    return {name: value for name, value in fields.items() if value is not None}
