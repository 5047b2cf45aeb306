"""The rows against the log: gapless versions, fold equality, ends that stay ends, leases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from itertools import pairwise

from taskstatus.domain.events import EventType
from taskstatus.domain.ids import TaskId
from taskstatus.domain.lifecycle import TARGET_OF_EVENT, Lifecycle
from taskstatus.domain.records import EventRecord
from taskstatus.domain.state import StepState, TaskState
from tests.history.fold import fold_of
from tests.history.model import History


def versions_are_gapless(history: History) -> Iterator[str]:
    """C2-4, E-6: per task versions are 1…n and the row says n; a step's versions rise by one; time never goes back."""
    for task_id, task in history.tables.tasks.items():
        log = history.tables.log_of(task_id)
        versions = [row.task_version for row in log]
        if versions != list(range(1, task.version + 1)):
            yield f"{_short(task_id)}: versions {versions}, the row says {task.version}"
        for earlier, later in pairwise(log):
            if later.committed_at < earlier.committed_at:
                yield f"{_short(task_id)}: version {later.task_version} was committed before the one it follows"
        late = [row.task_version for row in log if row.received_at > row.committed_at]
        if late:
            yield f"{_short(task_id)}: versions {late} were received after their commit"
        yield from _step_versions(task_id, log, history.tables.steps_of(task_id))
    for task_id in {row.task_id for row in history.tables.events.values()} - history.tables.tasks.keys():
        yield f"{_short(task_id)}: events without a task"


def _step_versions(task_id: TaskId, log: list[EventRecord], steps: list[StepState]) -> Iterator[str]:
    last: dict[tuple[int, str], int] = {}
    for row in log:
        if not row.step_id:
            continue
        key = (row.task_attempt, row.step_id)
        is_first_of_all = row.event_type is EventType.EXECUTION_REGISTERED
        if key not in last:
            earlier = max((step.version for step in steps if _is_before(step, row)), default=0)
            # A rerun opens the manifest's steps without an event for each.
            last[key] = earlier if is_first_of_all else earlier + 1
        expected = last[key] + (row.event_type is not EventType.STEP_SKIPPED)
        if row.step_version != expected:
            yield f"{_short(task_id)}: {row.step_id} has version {row.step_version}, not {expected}"
        last[key] = row.step_version


def _is_before(step: StepState, row: EventRecord) -> bool:
    """Whether an attempt is of the same step in an earlier run."""
    return step.definition.step_id == row.step_id and step.task_attempt < row.task_attempt


def fold_equals_rows(history: History) -> Iterator[str]:
    """C2-5: replaying the log through the pure domain gives the task and step rows, and what each event recorded."""
    for task_id, task in history.tables.tasks.items():
        fold = fold_of(history, task_id)
        yield from (f"{_short(task_id)}: {contradiction}" for contradiction in fold.contradictions)
        if not fold.is_complete:
            continue
        yield from _differences(task_id, "task", _with_unlogged(fold.task, task), task)
        for step in history.tables.steps_of(task_id):
            key = step.key[1:]
            if key in fold.steps:
                yield from _differences(task_id, f"step {key}", fold.steps[key], step)
            else:
                yield f"{_short(task_id)}: {key} is stored, no event made it"


def _with_unlogged(folded: TaskState, stored: TaskState) -> TaskState:
    """What no event row holds: the revision counts first activations too, the summary's cut needs the definitions."""
    return replace(
        folded,
        row_revision=stored.row_revision,
        summary_schema=stored.summary_schema,
        summary_data=stored.summary_data,
    )


def _differences(
    task_id: TaskId, what: str, folded: TaskState | StepState, stored: TaskState | StepState
) -> Iterator[str]:
    if folded == stored:
        return
    for field in fields(stored):
        wanted, found = getattr(folded, field.name), getattr(stored, field.name)
        if wanted != found:
            yield f"{_short(task_id)}: {what}.{field.name} is {found!r}, the fold says {wanted!r}"


def terminal_never_reverts(history: History) -> Iterator[str]:
    """C2-6, L-1: within a run nothing follows a task's end, and no event follows the end of a step's attempt.

    But for corrections, and for labels, which an ended task may get too.
    """
    for task_id in history.tables.tasks:
        ended: dict[tuple[int, str, int], str] = {}
        for row in history.tables.log_of(task_id):
            if row.event_type in (EventType.TASK_CORRECTED, EventType.TASK_METADATA_UPDATED):
                continue
            run, attempt = (row.task_attempt, "", 0), (row.task_attempt, row.step_id, row.step_attempt)
            for key in (run, attempt):
                if key in ended:
                    yield f"{_short(task_id)}: {row.event_type} at version {row.task_version} after {ended[key]}"
            if row.lifecycle.is_terminal:
                ended[run] = row.event_type
            target = TARGET_OF_EVENT.get(row.event_type)
            is_skip = row.event_type is EventType.STEP_SKIPPED
            if row.step_id and (is_skip or (target is not None and target.is_terminal)):
                ended[attempt] = row.event_type


def leases_follow_steps(history: History) -> Iterator[str]:
    """H-4, L-1: exactly the RUNNING executions of the current run hold an open lease."""
    for step in history.tables.steps.values():
        if step.terms is None:
            continue
        execution_id = step.terms.execution_id
        found = history.tables.leases.get(execution_id)
        has_open = found is not None and found.is_open
        if has_open != (step.lifecycle is Lifecycle.RUNNING):
            lease = "open" if has_open else "not open"
            yield f"{_short(step.task_id)}: {step.key[2:]} is {step.lifecycle}, its lease is {lease}"


def retries_supersede(history: History) -> Iterator[str]:
    """R-6: attempts are 1…n; all but the last are superseded and terminal; none follows a success."""
    attempts: dict[tuple[TaskId, int, str], list[StepState]] = {}
    for step in history.tables.steps.values():
        attempts.setdefault(step.key[:3], []).append(step)
    for (task_id, _, step_id), rows in attempts.items():
        rows.sort(key=lambda step: step.attempt)
        if [step.attempt for step in rows] != list(range(1, len(rows) + 1)):
            yield f"{_short(task_id)}: {step_id} has attempts {[step.attempt for step in rows]}"
        for step in rows[:-1]:
            if not step.superseded or not step.lifecycle.is_terminal or step.lifecycle is Lifecycle.SUCCEEDED:
                yield f"{_short(task_id)}: {step_id} attempt {step.attempt} is {step.lifecycle} below a later one"
        if rows[-1].superseded:
            yield f"{_short(task_id)}: {step_id} has no current attempt"


def counters_are_the_sum_of_the_steps(history: History) -> Iterator[str]:
    """E-8, L-6: what the task row counts by difference is what its steps show."""
    for task_id, task in history.tables.tasks.items():
        steps = [step for step in history.tables.steps_of(task_id) if step.task_attempt == task.attempt]
        current = [step for step in steps if not step.superseded]
        counted = {
            "open_steps": sum(not step.lifecycle.is_terminal for step in steps),
            "open_dynamic": sum(step.definition.dynamic and not step.lifecycle.is_terminal for step in steps),
            "stale_steps": sum(step.stale for step in steps),
            "degraded_steps": sum(step.degraded for step in steps),
            "progress_points": sum(step.definition.weight * step.credited_points for step in current),
        }
        for name, value in counted.items():
            if getattr(task, name) != value:
                yield f"{_short(task_id)}: {name} is {getattr(task, name)}, its steps show {value}"


def _short(task_id: TaskId) -> str:
    return f"task …{task_id.hex()[-6:]}"
