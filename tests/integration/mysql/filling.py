"""A schema with enough rows that the optimizer's choices are those of production."""

from __future__ import annotations

from typing import Any

from taskstatus.adapters.clock import SystemClock, SystemRandomness
from taskstatus.adapters.mysql import hot_sql, read_sql
from taskstatus.adapters.mysql.engine import Database
from taskstatus.adapters.mysql.statements import flatten
from taskstatus.adapters.mysql.transactions import MySqlTaskStore
from taskstatus.application.ports_store import TransactionAttempt, WriteTransaction
from taskstatus.domain.records import ChangeSet
from taskstatus.domain.state import Grant, StepState, TaskState
from tests.contract import records
from tests.support.databases import TABLES

WORKFLOWS, TASKS_PER_WORKFLOW, STEPS_PER_TASK = 40, 25, 4
Filled = list[tuple[TaskState, list[StepState]]]


async def write(database: Database, changes: ChangeSet) -> None:
    """Commit a change set."""

    async def body(transaction: WriteTransaction, _attempt: TransactionAttempt) -> None:
        await transaction.write(changes)

    await MySqlTaskStore(database.writer, SystemClock(), SystemRandomness()).transact(body)


async def fill(database: Database) -> Filled:
    """A thousand tasks of four steps, a lease for each first step, and fresh statistics."""
    tasks: Filled = []
    for number in range(WORKFLOWS):
        workflow = records.workflow(f"w-{number}", grants=(Grant("USER", "u-99", "VIEW"),))
        members = [_task(workflow.workflow_id, number * TASKS_PER_WORKFLOW + n) for n in range(TASKS_PER_WORKFLOW)]
        creation = records.creation(workflow, *members)
        creation.opened_leases += [records.lease(steps[0]) for _, steps in members]
        creation.new_task_grants += [(task, Grant("USER", "u-99", "VIEW")) for task, _ in members]
        await write(database, creation)
        tasks += members
    async with database.writer.connect() as connection:
        await connection.exec_driver_sql(f"ANALYZE TABLE {','.join(TABLES)}")
    return tasks


def _task(workflow_id: bytes, number: int) -> tuple[TaskState, list[StepState]]:
    task = records.task(workflow_id, f"t-{number}", steps=STEPS_PER_TASK)
    return task, [records.step(task, n + 1) for n in range(STEPS_PER_TASK)]


def lookups(sample: Filled) -> dict[str, tuple[str, tuple[Any, ...]]]:
    """Every SELECT and UPDATE of the hot path and of the reader, with parameters for the sampled tasks."""
    count = len(sample)
    ids = [task.envelope.task_id for task, _ in sample]
    buckets = [task.envelope.bucket for task, _ in sample]
    executions = [records.execution_of(steps[1]) for _, steps in sample]
    first = sample[0][0].envelope
    steps = flatten([(task_id, 1, "02_parse") for task_id in ids])
    runs, ends = flatten([(i, 1) for i in ids]), flatten([(i, 1, records.START) for i in ids])
    seen = flatten([(task.envelope.task_id, f"create-{task.envelope.client_task_key}") for task, _ in sample])
    by_id, by_execution = (*ids, *buckets), (*executions, *buckets)
    keys = [task.envelope.client_task_key for task, _ in sample]
    values = (records.START, None, None, 1, records.START)
    leased = [records.execution_of(steps[0]) for _, steps in sample]
    changed, by_lease = flatten([(lease, value) for value in values for lease in leased]), (*leased, *buckets)
    return {
        "find_workflow_by_key": (hot_sql.FIND_WORKFLOW_BY_KEY, (records.TENANT, records.SCOPE, "w-7")),
        "lock_workflow": (hot_sql.LOCK_WORKFLOW, (first.workflow_id, first.bucket)),
        "workflow_grants": (hot_sql.WORKFLOW_GRANTS, (first.workflow_id, first.bucket)),
        "tasks_by_key": (hot_sql.tasks_by_key(count), (first.workflow_id, *keys, first.bucket)),
        "lock_tasks": (hot_sql.lock_tasks(count), by_id),
        "executions": (hot_sql.executions(count), by_execution),
        "step_attempts": (hot_sql.step_attempts(count), (*steps, *buckets)),
        "seen_events": (hot_sql.seen_events(count), (*seen, *buckets)),
        "cancel_unfinished_steps": (hot_sql.cancel_unfinished_steps(count), (*ends, *runs, *buckets)),
        "close_leases": (hot_sql.close_leases(count), by_execution),
        "lock_leases": (hot_sql.lock_leases(count), by_lease),
        "change_leases": (hot_sql.change_leases(count), (*changed, *by_lease)),
        "standings": (hot_sql.standings(count), by_execution),
        "close_leases_of_runs": (hot_sql.close_leases_of_runs(count), (*ends, *runs, *buckets)),
        "execution_bindings": (read_sql.execution_bindings(count), by_execution),
        "execution_state": (read_sql.EXECUTION_STATE, (executions[0], buckets[0])),
        "view_tasks": (read_sql.tasks(count), by_id),
        "view_steps": (read_sql.steps_of_current_runs(count), by_id),
        "view_triggers": (read_sql.events_of_current_versions(count), by_id),
        "task_grants": (hot_sql.task_grants(count), by_id),
        "timeline_position": (read_sql.TIMELINE_POSITION, (ids[0], buckets[0], ids[0], buckets[0])),
        "timeline_page": (read_sql.TIMELINE_PAGE, (ids[0], buckets[0], 0, 101)),
    }
