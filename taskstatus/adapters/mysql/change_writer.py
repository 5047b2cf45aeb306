"""Writes one ``ChangeSet`` in the lock order, a few statements a table for any number of rows up to a thousand.

Rows within a statement are sorted by key. Updates of existing rows are upserts, the one multi-row update that both
products and a router by bucket take; an upsert that inserts is a row that nobody held locked, and is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import TypeVar

from taskstatus.adapters.mysql import (
    hot_sql,
    rows_command,
    rows_event,
    rows_lease,
    rows_outbox,
    rows_run,
    rows_step,
    rows_task,
    rows_workflow,
    workflow_sql,
)
from taskstatus.adapters.mysql.session import Session
from taskstatus.adapters.mysql.statements import MultiRow, Parameters, cut_keys, cut_rows, flatten
from taskstatus.application.ports_store import StoreRefusedError
from taskstatus.domain.ids import ExecutionId
from taskstatus.domain.lease import LeaseState
from taskstatus.domain.records import ChangeSet, EndedRun
from taskstatus.domain.state import TaskState

R = TypeVar("R")
_UPDATED = 2
"""How the server counts an upsert's row that existed and changed; an inserted one counts 1."""


async def write_changes(session: Session, changes: ChangeSet) -> None:
    """Write everything; tables without rows cost nothing. Raises StoreRefusedError for an update of a missing row."""
    await _write_workflows(session, changes)
    await _write_tasks(session, changes)
    await _write_steps(session, changes)
    await _write_leases(session, changes)
    grants = _sorted_rows(changes.new_task_grants, lambda given: rows_task.acl_to_row(*given), 1, 3, 4)
    await _insert(session, hot_sql.INSERT_TASK_GRANTS, grants)
    await _insert(session, hot_sql.INSERT_DEDUPS, _sorted_rows(changes.dedups, rows_event.dedup_to_row, 1, 2))
    await _insert(session, hot_sql.INSERT_EVENTS, _sorted_rows(changes.events, rows_event.to_row, 1, 2))
    await _insert(
        session, hot_sql.INSERT_WORKFLOW_EVENTS, _sorted_rows(changes.workflow_events, rows_workflow.event_to_row, 1, 2)
    )
    await _insert(session, hot_sql.INSERT_AUDITS, _sorted_rows(changes.audits, rows_command.audit_to_row, 1))
    await _insert(session, hot_sql.INSERT_OUTBOX, _sorted_rows(changes.outbox, rows_outbox.to_row, 1))
    for group in cut_keys(sorted(changes.settled_triggers, key=lambda trigger: trigger[1])):
        parameters = (*(trigger for _, trigger in group), *(bucket for bucket, _ in group))
        await session.change(workflow_sql.delete_triggers(len(group)), parameters)


async def _write_workflows(session: Session, changes: ChangeSet) -> None:
    new = changes.new_workflows
    await _insert(session, hot_sql.INSERT_WORKFLOWS, _sorted_rows(new, rows_workflow.to_row, 1))
    await _update(session, hot_sql.UPDATE_WORKFLOWS, _sorted_rows(changes.workflows, rows_workflow.to_update_row, 1))
    grants = [rows_workflow.acl_to_row(workflow, grant) for workflow in new for grant in workflow.grants]
    await _insert(session, hot_sql.INSERT_WORKFLOW_GRANTS, sorted(grants, key=lambda row: (row[1], row[3], row[4])))


async def _write_tasks(session: Session, changes: ChangeSet) -> None:
    await _insert(session, hot_sql.INSERT_TASKS, _sorted_rows(changes.new_tasks, rows_task.to_row, 1))
    moved, progressed = _parted(changes.tasks, lambda task: task.envelope.task_id in changes.progressed)
    await _update(session, hot_sql.UPDATE_TASKS, _sorted_rows(moved, rows_task.to_update_row, 1))
    await _update(session, hot_sql.PROGRESS_TASKS, _sorted_rows(progressed, rows_task.to_progress_row, 1))
    for task in sorted(changes.relabelled, key=lambda task: task.envelope.task_id):
        await _relabel(session, task)
    await _insert(session, hot_sql.INSERT_RUNS, _sorted_rows(changes.new_runs, rows_run.to_row, 1, 2))
    registrations = _sorted_rows(changes.runs, rows_run.registrations_to_row, 1, 2)
    await _update(session, hot_sql.COUNT_REGISTRATIONS, registrations)
    await _update(session, hot_sql.END_RUNS, _sorted_rows(changes.ended_runs, rows_run.ended_to_row, 1, 2))
    await _insert(
        session, hot_sql.INSERT_EXTERNAL_REFS, _sorted_rows(changes.external_refs, rows_command.ref_to_row, 1, 2, 3, 4)
    )


async def _relabel(session: Session, task: TaskState) -> None:
    _, task_id, *labels = rows_task.relabelled_to_row(task)
    if await session.change(hot_sql.RELABEL_TASK, (*labels, task_id, task.envelope.bucket)) != 1:
        raise StoreRefusedError("an updated row of task does not exist")


async def _write_steps(session: Session, changes: ChangeSet) -> None:
    await _insert(session, hot_sql.INSERT_STEPS, _sorted_rows(changes.new_steps, rows_step.to_row, 1, 2, 3, 4))
    moved, progressed = _parted(changes.steps, lambda step: step.task_id in changes.progressed)
    await _update(session, hot_sql.UPDATE_STEPS, _sorted_rows(moved, rows_step.to_update_row, 1, 2, 3, 4))
    await _update(session, hot_sql.PROGRESS_STEPS, _sorted_rows(progressed, rows_step.to_progress_row, 1, 2, 3, 4))
    await _end_runs(session, hot_sql.cancel_unfinished_steps, changes.ended_runs)


async def _write_leases(session: Session, changes: ChangeSet) -> None:
    await _insert(session, hot_sql.INSERT_LEASES, _sorted_rows(changes.opened_leases, rows_outbox.lease_to_row, 1))
    for leases in cut_keys(sorted(changes.leases, key=lambda lease: lease.execution_id)):
        await _change_leases(session, leases)
    for group in cut_keys(sorted(changes.closed_leases, key=_execution_of)):
        parameters = (*map(_execution_of, group), *(bucket for bucket, _ in group))
        await session.change(hot_sql.close_leases(len(group)), parameters)
    await _end_runs(session, hot_sql.close_leases_of_runs, changes.ended_runs)


async def _change_leases(session: Session, leases: Sequence[LeaseState]) -> None:
    values = flatten([rows_lease.changed_values(leases, column) for column in rows_lease.CHANGED])
    keys = (*(lease.execution_id for lease in leases), *(lease.bucket for lease in leases))
    if await session.change(hot_sql.change_leases(len(leases)), (*values, *keys)) != len(set(keys[: len(leases)])):
        raise StoreRefusedError("a changed row of task_execution_lease does not exist, or is closed")


async def _end_runs(session: Session, statement: Callable[[int], str], runs: Sequence[EndedRun]) -> None:
    for group in cut_keys(sorted(runs, key=lambda run: (run.state.envelope.task_id, run.state.attempt))):
        runs_of_group = [(run.state.envelope.task_id, run.state.attempt) for run in group]
        times = [(*key, run.ended_at) for key, run in zip(runs_of_group, group, strict=True)]
        buckets = [run.state.envelope.bucket for run in group]
        await session.change(statement(len(group)), (*flatten(times), *flatten(runs_of_group), *buckets))


async def _insert(session: Session, statement: MultiRow, rows: Iterable[Parameters]) -> None:
    for group in cut_rows(list(rows)):
        await session.change(statement.text(len(group)), flatten(group))


async def _update(session: Session, statement: MultiRow, rows: Iterable[Parameters]) -> None:
    for group in cut_rows(list(rows)):
        text = statement.text(len(group), row_alias=session.has_row_alias)
        count = await session.change(text, flatten(group))
        if count != _UPDATED * len(group):
            raise StoreRefusedError(f"an updated row of {statement.table} does not exist, or did not change")


def _sorted_rows(records: Iterable[R], to_row: Callable[[R], Parameters], *key_positions: int) -> list[Parameters]:
    return sorted(map(to_row, records), key=itemgetter(*key_positions))


def _parted(records: Iterable[R], is_second: Callable[[R], bool]) -> tuple[list[R], list[R]]:
    parts: tuple[list[R], list[R]] = ([], [])
    for record in records:
        parts[is_second(record)].append(record)
    return parts


def _execution_of(closed: tuple[int, ExecutionId]) -> ExecutionId:
    return closed[1]
