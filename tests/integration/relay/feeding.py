"""Ten thousand rows in waves, as a busy service writes them: summaries, and details of tasks whose versions rise."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from taskstatus.adapters.clock import SystemClock, SystemRandomness
from taskstatus.adapters.mysql import rows_outbox
from taskstatus.adapters.mysql.hot_sql import INSERT_OUTBOX
from taskstatus.adapters.mysql.statements import flatten
from taskstatus.adapters.mysql.transactions import MySqlTaskStore
from taskstatus.application.ports_store import TransactionAttempt, WriteTransaction
from taskstatus.domain.records import ChangeSet, OutboxRecord
from taskstatus.domain.state import TaskState
from tests.contract import records
from tests.integration.relay.store import BUCKETS, TENANT, WORKFLOW, OutboxTable, detail, summary, task_id
from tests.integration.relay.waiting import until

WAVES = 20
OWNERS = 50
SUMMARIES = 8
"""Of each owner in each wave."""
TASKS = 20
VERSIONS = 5
"""Of each task in each wave."""
ROWS = WAVES * (OWNERS * SUMMARIES + TASKS * VERSIONS)
BACKLOG = 2000
"""Feeding waits while more rows than this are left."""
FIRST_SUMMARY_TASK = 1000


def owner_of(number: int) -> str:
    """The owner's id, one that needs encoding."""
    return f"auth0|{number}"


async def prepare_tasks(table: OutboxTable) -> None:
    """The tasks of the detail rows, without steps."""
    await table.run("DELETE FROM task")
    tasks = [_task(number) for number in range(TASKS)]

    async def write(transaction: WriteTransaction, _attempt: TransactionAttempt) -> None:
        await transaction.write(ChangeSet(new_tasks=tasks))

    await MySqlTaskStore(table.engine, SystemClock(), SystemRandomness()).transact(write)


async def feed(table: OutboxTable) -> None:
    """Write all waves, each in one transaction."""

    async def has_room() -> bool:
        return await table.left() <= BACKLOG

    for wave in range(WAVES):
        await until(has_room, "the backlog has room", seconds=300)
        await _write_wave(table, wave)


async def _write_wave(table: OutboxTable, wave: int) -> None:
    rows = [rows_outbox.to_row(record) for record in _wave(wave, await table.now())]
    async with table.engine.connect() as connection:
        await connection.exec_driver_sql("BEGIN")
        await connection.exec_driver_sql("UPDATE task SET version = %s", ((wave + 1) * VERSIONS,))
        await connection.exec_driver_sql(INSERT_OUTBOX.text(len(rows)), flatten(rows))
        await connection.exec_driver_sql("COMMIT")


def _wave(wave: int, now: datetime) -> list[OutboxRecord]:
    numbers = iter(range(wave * ROWS // WAVES, ROWS))
    summaries = [
        summary(
            next(numbers),
            now,
            task=FIRST_SUMMARY_TASK + owner,
            version=wave * SUMMARIES + place + 1,
            owner=owner_of(owner),
        )
        for place in range(SUMMARIES)
        for owner in range(OWNERS)
    ]
    details = [
        detail(next(numbers), now, task=task, version=wave * VERSIONS + place + 1, owner=owner_of(0))
        for place in range(VERSIONS)
        for task in range(TASKS)
    ]
    return summaries + details


def _task(number: int) -> TaskState:
    state = records.task(WORKFLOW, f"task-{number}", steps=0)
    envelope = replace(state.envelope, task_id=task_id(number), bucket=number % BUCKETS, tenant_id=TENANT)
    return replace(state, envelope=envelope)
