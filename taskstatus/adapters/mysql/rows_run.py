"""Rows of ``task_run``."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from datetime import datetime

from taskstatus.adapters.mysql.rows_failure import failure_from_row, failure_to_row
from taskstatus.adapters.mysql.session import Row
from taskstatus.adapters.mysql.statements import Parameters
from taskstatus.adapters.mysql.values import epoch_micros, from_epoch_micros, optional_enum, text, value_or_null
from taskstatus.domain.ids import TaskId
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.records import EndedRun, RunOutcome, RunRecord, RunView
from taskstatus.domain.state import DurationSource

KEY = ("bucket", "task_id", "task_attempt")
FROZEN = ("input_ref", "weight_total", "created_at", "reason")
REGISTRATIONS = ("dynamic_steps", "registered_at")
COLUMNS = KEY + FROZEN + REGISTRATIONS
OUTCOME = (
    "lifecycle_status",
    "business_status",
    "progress_points",
    "failure_code",
    "failure_message",
    "failure_category",
    "failure_retryable",
    "failed_step_id",
    "started_at",
    "finished_at",
    "duration_ms",
    "duration_source",
)


def to_row(run: RunRecord) -> Parameters:
    """The values of COLUMNS."""
    return (
        run.bucket,
        run.task_id,
        run.task_attempt,
        run.input_ref,
        run.weight_total,
        run.created_at,
        run.reason,
        run.dynamic_steps,
        _moments_row(run.registered_at),
    )


def registrations_to_row(run: RunRecord) -> Parameters:
    """The values of KEY and REGISTRATIONS."""
    return (run.bucket, run.task_id, run.task_attempt, run.dynamic_steps, _moments_row(run.registered_at))


def from_row(row: Row) -> RunView:
    """The run of a row of COLUMNS and OUTCOME."""
    bucket, task_id, task_attempt, input_ref, weight_total, created_at, reason, dynamic_steps, registered_at = row[:9]
    run = RunRecord(
        TaskId(task_id),
        bucket,
        task_attempt,
        input_ref,
        weight_total,
        created_at,
        reason,
        dynamic_steps,
        _moments(registered_at),
    )
    return RunView(run, None if row[9] is None else _outcome(row[9:21]))


def _outcome(row: Row) -> RunOutcome:
    lifecycle, business_status, points = row[:3]
    started_at, finished_at, duration_ms, duration_source = row[8:12]
    return RunOutcome(
        Lifecycle(text(lifecycle)),
        text(business_status),
        points,
        failure_from_row(row[3:8]),
        started_at,
        finished_at,
        duration_ms,
        optional_enum(DurationSource, duration_source),
    )


def _moments_row(moments: Sequence[datetime]) -> bytes | None:
    return struct.pack(f">{len(moments)}q", *map(epoch_micros, moments)) if moments else None


def _moments(packed: bytes | None) -> tuple[datetime, ...]:
    if not packed:
        return ()
    return tuple(from_epoch_micros(micros) for micros in struct.unpack(f">{len(packed) // 8}q", packed))


def ended_to_row(run: EndedRun) -> Parameters:
    """The values of KEY and OUTCOME."""
    state, envelope = run.state, run.state.envelope
    return (
        envelope.bucket,
        envelope.task_id,
        state.attempt,
        state.lifecycle.value,
        state.business_status,
        state.progress_points,
        *failure_to_row(state.failure),
        state.started_at,
        state.finished_at,
        state.duration_ms,
        value_or_null(state.duration_source),
    )
