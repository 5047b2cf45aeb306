"""Runs and commands: one run after the other, ends that are kept, requests that bind, changes that are audited."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

import orjson

from taskstatus.domain.correction import CORRECTION_SCHEMA
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import TaskId
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.metadata import METADATA_SCHEMA
from taskstatus.domain.records import AuditRecord, EventRecord, RunOutcome
from taskstatus.domain.state import SKIPPED, TaskState
from tests.history.fold import execution_of, fold_of
from tests.history.fold_commands import LABELS, changed_values
from tests.history.model import History

AFTER_A_REQUEST = frozenset({Lifecycle.CANCELLING, Lifecycle.CANCELLED, Lifecycle.FAILED, Lifecycle.TIMED_OUT})
OWN_EVENTS = frozenset({EventType.EXECUTION_REVOKED, EventType.EXECUTION_REGISTERED, EventType.STEP_ATTEMPT_ACTIVATED})
"""They name an execution that did not send them."""


def runs_follow_one_another(history: History) -> Iterator[str]:
    """R-7: runs are 1…n, each opened by a TASK_RERUN after an end, with a row that keeps input and weights."""
    for task_id, task in history.tables.tasks.items():
        opened = {1: ""}
        before: EventRecord | None = None
        for row in history.tables.log_of(task_id):
            is_rerun = row.event_type is EventType.TASK_RERUN
            if row.task_attempt != max(opened) + is_rerun:
                yield f"{_short(task_id)}: version {row.task_version} is of run {row.task_attempt}, not {max(opened)}"
            if is_rerun and (before is None or not before.lifecycle.is_terminal):
                yield f"{_short(task_id)}: version {row.task_version} opens a run while another goes on"
            if is_rerun:
                opened[row.task_attempt] = row.reason
            before = row
        yield from _rows_of_runs(history, task, opened)


def _rows_of_runs(history: History, task: TaskState, opened: dict[int, str]) -> Iterator[str]:
    task_id = task.envelope.task_id
    rows = {run: view.run for (owner, run), view in history.tables.runs.items() if owner == task_id}
    if rows.keys() != opened.keys() or task.attempt != max(opened):
        yield f"{_short(task_id)}: has rows of the runs {sorted(rows)}, its log has {sorted(opened)}"
    dynamic: defaultdict[int, set[str]] = defaultdict(set)
    for step in history.tables.steps_of(task_id):
        if step.definition.dynamic:
            dynamic[step.task_attempt].add(step.definition.step_id)
    for run, row in rows.items():
        if (row.input_ref, row.weight_total) != (task.envelope.input_ref, task.weight_total):
            yield f"{_short(task_id)}: run {run} has another input or other weights"
        if row.reason != opened.get(run):
            yield f"{_short(task_id)}: run {run} was opened for {opened.get(run)!r}, its row says {row.reason!r}"
        if row.dynamic_steps != len(dynamic[run]):
            yield f"{_short(task_id)}: run {run} counts {row.dynamic_steps} dynamic steps of {len(dynamic[run])}"


def ended_runs_keep_their_outcome(history: History) -> Iterator[str]:
    """R-7, L-3: the row of each run says how it ended by the log, its corrections included; a live one has no end."""
    for task_id in history.tables.tasks:
        fold = fold_of(history, task_id)
        if not fold.is_complete:
            continue
        ends = {**fold.ends, fold.task.attempt: fold.task}
        for (owner, run), view in history.tables.runs.items():
            if owner != task_id or run not in ends:
                continue
            wanted = _outcome(ends[run]) if ends[run].lifecycle.is_terminal else None
            if view.outcome != wanted:
                yield f"{_short(task_id)}: run {run} ended as {wanted}, its row says {view.outcome}"


def _outcome(task: TaskState) -> RunOutcome:
    return RunOutcome(
        task.lifecycle,
        task.business_status,
        task.progress_points,
        task.failure,
        task.started_at,
        task.finished_at,
        task.duration_ms,
        task.duration_source,
    )


def skips_name_a_result(history: History) -> Iterator[str]:
    """X-3: each skipped step has its event behind the rerun, its reason, and an earlier STEP_COMPLETED of its own."""
    for task_id in history.tables.tasks:
        log = history.tables.log_of(task_id)
        results = {
            (row.event_id, row.step_id): row.task_version for row in log if row.event_type is EventType.STEP_COMPLETED
        }
        skipped = {(row.task_attempt, row.step_id): row for row in log if row.event_type is EventType.STEP_SKIPPED}
        openings = {row.task_attempt: row.task_version for row in log if row.event_type is EventType.TASK_RERUN}
        for step in history.tables.steps_of(task_id):
            key = (step.task_attempt, step.definition.step_id)
            if step.skip is None:
                if step.end_reason == SKIPPED:
                    yield f"{_short(task_id)}: {key} was skipped for nothing"
                continue
            event = skipped.pop(key, None)
            if event is None or event.reason != step.skip.reason:
                yield f"{_short(task_id)}: {key} is skipped, its event says {event and event.reason!r}"
            result = results.get((step.skip.source_event_id, step.definition.step_id))
            if result is None or result >= openings.get(step.task_attempt, 0):
                yield f"{_short(task_id)}: {key} is skipped for {step.skip.source_event_id}, which is no result of it"
        yield from (f"{_short(task_id)}: {key} was skipped by an event, not by its row" for key in skipped)


def cancelling_never_succeeds(history: History) -> Iterator[str]:
    """L-1: after a request the run is CANCELLING until evidence ends it, never SUCCEEDED; the row tells the request."""
    for task_id, task in history.tables.tasks.items():
        requested: set[int] = set()
        corrected: set[int] = set()
        for row in history.tables.log_of(task_id):
            if row.event_type is EventType.TASK_CORRECTED:
                corrected.add(row.task_attempt)
            if row.event_type is EventType.TASK_CANCEL_REQUESTED:
                requested.add(row.task_attempt)
            is_bound = row.task_attempt in requested - corrected
            if is_bound and row.lifecycle not in AFTER_A_REQUEST:
                yield f"{_short(task_id)}: {row.lifecycle} at version {row.task_version}, after a request to cancel"
        if task.cancel_requested != (task.attempt in requested):
            yield f"{_short(task_id)}: cancel_requested is {task.cancel_requested}, its log says otherwise"


def revoked_credentials_are_dead(history: History) -> Iterator[str]:
    """R-11: each revocation moves the generation; nothing is reported with an execution's credentials afterwards.

    The workers of a run keep the credentials that they were given first.
    """
    for task_id in history.tables.tasks:
        revoked: Counter[bytes] = Counter()
        for row in history.tables.log_of(task_id):
            if row.event_type is EventType.EXECUTION_REVOKED and row.execution_id is not None:
                revoked[row.execution_id] += 1
            elif row.event_type not in OWN_EVENTS and row.execution_id in revoked and _is_by_its_worker(row):
                yield f"{_short(task_id)}: {row.event_type} at version {row.task_version} by revoked credentials"
        for step in history.tables.steps_of(task_id):
            wanted = 1 + (revoked[step.terms.execution_id] if step.terms else 0)
            if step.generation != wanted:
                yield f"{_short(task_id)}: {step.key[1:]} is of generation {step.generation}, its log says {wanted}"


def _is_by_its_worker(row: EventRecord) -> bool:
    return row.source_seq > 0 and bool(execution_of(row.canonical))


def labels_follow_their_facts(history: History) -> Iterator[str]:
    """R-8: each change of a label begins with what there was, and the last one is the row's."""
    for task_id, task in history.tables.tasks.items():
        known: dict[str, object] = {}
        for row in history.tables.log_of(task_id):
            if row.event_type is not EventType.TASK_METADATA_UPDATED:
                continue
            old, new = changed_values(row, METADATA_SCHEMA)
            for name in (label for label in LABELS if label in old):
                before, after = old[name], new.get(name)
                if known.get(name, before) != before or before == after:
                    yield f"{_short(task_id)}: version {row.task_version} makes {name} of {before!r} {after!r}"
            known |= {name: value for name, value in new.items() if name in LABELS}
        for name, value in known.items():
            if getattr(task.envelope, LABELS[name]) != value:
                yield f"{_short(task_id)}: {name} is not {value!r}, as its log says"


def changes_are_audited(history: History) -> Iterator[str]:
    """L-3, R-8: each correction and each relabelling has one audit row: who, why, before and after."""
    audits: defaultdict[tuple[TaskId, str], list[AuditRecord]] = defaultdict(list)
    for audit in history.tables.audits:
        audits[audit.task_id, audit.command_id].append(audit)
    for row in history.tables.events.values():
        changed = _audited_change(row)
        if changed is None:
            continue
        found = audits.pop((row.task_id, row.event_id), [])
        told = [(a.action, a.actor, a.reason, orjson.loads(a.old_value), orjson.loads(a.new_value)) for a in found]
        if told != [(row.event_type, row.actor, row.reason, *changed)]:
            yield f"{_short(row.task_id)}: version {row.task_version} ({row.event_type}) is audited as {told}"
    for (task_id, command_id), left in audits.items():
        yield f"{_short(task_id)}: {len(left)} audit rows of {command_id}, which changed nothing"


def _audited_change(row: EventRecord) -> tuple[object, object] | None:
    """(old, new) of a fact that is audited."""
    match row.event_type:
        case EventType.TASK_CORRECTED:
            return changed_values(row, CORRECTION_SCHEMA)
        case EventType.TASK_METADATA_UPDATED:
            old, new = changed_values(row, METADATA_SCHEMA)
            # A number of another system is a relation, not a change of the task's own values.
            return (old, new) if old else None
        case _:
            return None


def _short(task_id: TaskId) -> str:
    return f"task …{task_id.hex()[-6:]}"
