"""Rows of ``task_step``."""

from __future__ import annotations

from itertools import chain

from taskstatus.adapters.mysql.session import Row
from taskstatus.adapters.mysql.statements import Parameters
from taskstatus.adapters.mysql.values import from_json, optional_enum, plain, text, to_json, value_or_null
from taskstatus.domain.evolve import PROGRESS_OF_STEP
from taskstatus.domain.ids import ExecutionId, TaskId
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.progress import Progress
from taskstatus.domain.state import (
    DurationSource,
    ExecutionTerms,
    FailurePolicy,
    SkipRecord,
    StepDefinition,
    StepError,
    StepState,
)

KEY = ("bucket", "task_id", "task_attempt", "step_id", "attempt")
_DEFINITION = (
    "step_order",
    "is_dynamic",
    "parent_execution_id",
    "operation_code",
    "expected_producer",
    "depends_on",
    "failure_policy",
    "display_name",
    "weight",
    "max_run_seconds",
    "depth",
    "skip_reason",
    "skip_source_event_id",
)
_TERMS = (
    "execution_id",
    "activation_digest",
    "input_ref",
    "heartbeat_interval_seconds",
    "heartbeat_timeout_seconds",
    "definition_version",
    "definition_task_type",
)
_PROGRESS = ("progress_current", "progress_total", "progress_unit")
_CHANGING = (
    "generation",
    "superseded",
    "source_seq",
    "version",
    "lifecycle_status",
    "business_status",
    "is_stale",
    "is_degraded",
    *_PROGRESS,
    "progress_seq",
    "credited_points",
    "phase_code",
    "phase_label",
    "data_schema",
    "shown_data",
    "error_category",
    "error_code",
    "error_message",
    "error_retryable",
    "error_diagnostics_ref",
    "end_reason",
    "started_at",
    "finished_at",
    "duration_ms",
    "duration_source",
)
COLUMNS = (*KEY, *_DEFINITION, "created_at", *_TERMS, *_CHANGING)
MUTABLE = (*_TERMS, *_CHANGING)
"""The terms too: a manifest step gets them when its first attempt is activated (R-10)."""
PROGRESSED = tuple(chain.from_iterable(_PROGRESS if field == "progress" else (field,) for field in PROGRESS_OF_STEP))
"""Their columns have the fields' names, but for the progress itself."""

FROZEN = (*_DEFINITION, "created_at")
"""What no update changes."""

_TERMS_AT = len(KEY) + len(_DEFINITION) + 1
_SKIP_AT = len(KEY) + len(_DEFINITION) - 2
_CHANGING_AT = _TERMS_AT + len(_TERMS)
_NO_PROGRESS: Parameters = (None, None, None)
_NO_ERROR: Parameters = (None, None, None, None, None)
_NO_TERMS: Parameters = (None, None, None, None, None, None, None)


def to_row(step: StepState) -> Parameters:
    """The values of COLUMNS."""
    return (
        *_key_row(step),
        *_definition_row(step.definition),
        *((None, None) if step.skip is None else (step.skip.reason, step.skip.source_event_id)),
        step.created_at,
        *_terms_row(step.terms),
        *_changing_row(step),
    )


def to_update_row(step: StepState) -> Parameters:
    """The values of KEY and MUTABLE."""
    return (*_key_row(step), *_terms_row(step.terms), *_changing_row(step))


def to_progress_row(step: StepState) -> Parameters:
    """The values of KEY and PROGRESSED."""
    progress = step.progress
    return (
        *_key_row(step),
        step.source_seq,
        step.version,
        step.business_status,
        *(_NO_PROGRESS if progress is None else (progress.current, progress.total, progress.unit)),
        step.progress_seq,
        step.credited_points,
        step.phase_code,
        step.phase_label,
        step.data_schema,
        step.shown_data or None,
    )


def from_row(row: Row) -> StepState:
    """The attempt of a row that begins with COLUMNS; further columns are ignored."""
    bucket, task_id, task_attempt, step_id, attempt = row[:5]
    generation, superseded, source_seq, version, lifecycle, business, stale, degraded = row[
        _CHANGING_AT : _CHANGING_AT + 8
    ]
    progress_seq, credited, phase_code, phase_label, data_schema, shown = row[_CHANGING_AT + 11 : _CHANGING_AT + 17]
    end_reason, started_at, finished_at, duration_ms, source = row[_CHANGING_AT + 22 : _CHANGING_AT + 27]
    return StepState(
        task_id=TaskId(task_id),
        bucket=bucket,
        task_attempt=task_attempt,
        attempt=attempt,
        definition=_definition(text(step_id), row[5:_SKIP_AT]),
        terms=_terms(row[_TERMS_AT:_CHANGING_AT]),
        created_at=row[_TERMS_AT - 1],
        generation=generation,
        superseded=bool(superseded),
        source_seq=source_seq,
        version=version,
        lifecycle=Lifecycle(text(lifecycle)),
        business_status=text(business),
        stale=bool(stale),
        degraded=bool(degraded),
        progress=_progress(row[_CHANGING_AT + 8 : _CHANGING_AT + 11]),
        progress_seq=progress_seq,
        credited_points=credited,
        phase_code=text(phase_code),
        phase_label=phase_label,
        data_schema=text(data_schema),
        shown_data=shown or b"",
        error=_error(row[_CHANGING_AT + 17 : _CHANGING_AT + 22]),
        end_reason=text(end_reason),
        started_at=started_at,
        finished_at=finished_at,
        duration_ms=duration_ms,
        duration_source=optional_enum(DurationSource, source),
        skip=_skip(row[_SKIP_AT : _SKIP_AT + 2]),
    )


def _key_row(step: StepState) -> Parameters:
    return (step.bucket, step.task_id, step.task_attempt, step.definition.step_id, step.attempt)


def _definition_row(definition: StepDefinition) -> Parameters:
    return (
        definition.order,
        definition.dynamic,
        definition.parent_execution_id,
        definition.operation_code,
        definition.expected_producer,
        to_json(definition.depends_on),
        definition.failure_policy.value,
        definition.display_name,
        definition.weight,
        definition.max_run_seconds,
        definition.depth,
    )


def _terms_row(terms: ExecutionTerms | None) -> Parameters:
    if terms is None:
        return _NO_TERMS
    return (
        terms.execution_id,
        terms.activation_digest,
        terms.input_ref,
        terms.heartbeat_interval_seconds,
        terms.heartbeat_timeout_seconds,
        terms.definition_version,
        terms.definition_task_type,
    )


def _changing_row(step: StepState) -> Parameters:
    progress, error = step.progress, step.error
    return (
        step.generation,
        step.superseded,
        step.source_seq,
        step.version,
        plain(step.lifecycle),
        step.business_status,
        step.stale,
        step.degraded,
        *(_NO_PROGRESS if progress is None else (progress.current, progress.total, progress.unit)),
        step.progress_seq,
        step.credited_points,
        step.phase_code,
        step.phase_label,
        step.data_schema,
        step.shown_data or None,
        *(_NO_ERROR if error is None else _error_row(error)),
        step.end_reason,
        step.started_at,
        step.finished_at,
        step.duration_ms,
        value_or_null(step.duration_source),
    )


def _error_row(error: StepError) -> Parameters:
    return (error.category, error.code, error.message, error.retryable, error.diagnostics_ref)


def _definition(step_id: str, row: Row) -> StepDefinition:
    order, dynamic, parent, operation, producer, depends_on, policy, display_name, weight, max_run, depth = row
    return StepDefinition(
        step_id=step_id,
        order=order,
        dynamic=bool(dynamic),
        parent_execution_id=None if parent is None else ExecutionId(parent),
        operation_code=text(operation),
        expected_producer=text(producer),
        depends_on=tuple(from_json(depends_on)),
        failure_policy=FailurePolicy(text(policy)),
        display_name=display_name,
        weight=weight,
        max_run_seconds=max_run,
        depth=depth,
    )


def _skip(row: Row) -> SkipRecord | None:
    reason, source_event_id = row
    return None if reason is None else SkipRecord(reason, text(source_event_id))


def _terms(row: Row) -> ExecutionTerms | None:
    execution_id, digest, input_ref, interval, timeout, version, task_type = row
    if execution_id is None:
        return None
    return ExecutionTerms(ExecutionId(execution_id), digest, input_ref, interval, timeout, version, text(task_type))


def _progress(row: Row) -> Progress | None:
    current, total, unit = row
    return None if unit is None else Progress(current, total, unit)


def _error(row: Row) -> StepError | None:
    category, code, message, retryable, diagnostics_ref = row
    if code is None:
        return None
    return StepError(category, text(code), message, bool(retryable), diagnostics_ref)
