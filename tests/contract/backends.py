"""The stores under test, each with a probe into the tables that no port reads back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from taskstatus.adapters.clock import SystemClock, SystemRandomness
from taskstatus.adapters.memory.health import MemoryOverdueLeases, MemoryStuckWork
from taskstatus.adapters.memory.lease_store import MemoryLeaseStore
from taskstatus.adapters.memory.lists import MemoryTaskLists
from taskstatus.adapters.memory.reader import MemoryTaskReader
from taskstatus.adapters.memory.store import MemoryTaskStore
from taskstatus.adapters.memory.workflows import MemoryAggregateTriggers, MemoryWorkflowReader
from taskstatus.adapters.mysql import rows_outbox
from taskstatus.adapters.mysql.engine import Database
from taskstatus.adapters.mysql.health_table import HealthTable
from taskstatus.adapters.mysql.lease_table import LeaseTable
from taskstatus.adapters.mysql.list_table import ListTable
from taskstatus.adapters.mysql.reader import MySqlTaskReader
from taskstatus.adapters.mysql.stuck_table import StuckTable
from taskstatus.adapters.mysql.transactions import MySqlTaskStore
from taskstatus.adapters.mysql.workflow_table import WorkflowTable
from taskstatus.application.ports_health import OverdueLeases, StuckWork
from taskstatus.application.ports_heartbeats import LeaseStore
from taskstatus.application.ports_lists import TaskListReader
from taskstatus.application.ports_store import TaskReader, TaskStore, TransactionAttempt, WriteTransaction
from taskstatus.application.ports_workflows import AggregateTriggers, WorkflowReader
from taskstatus.domain.ids import ExecutionId, TaskId
from taskstatus.domain.lease import LeaseState
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.records import ChangeSet, OutboxRecord
from taskstatus.domain.state import Grant

Leases = dict[ExecutionId, datetime | None]
"""When each lease was closed; None while it is open."""


@dataclass(frozen=True)
class Backend:
    """One implementation: the ports, and what they leave behind."""

    store: TaskStore
    reader: TaskReader
    outbox: Callable[[], Awaitable[list[OutboxRecord]]]
    leases: Callable[[], Awaitable[Leases]]
    run_outcome: Callable[[TaskId, int], Awaitable[Lifecycle | None]]
    lease_store: LeaseStore
    lease_states: Callable[[], Awaitable[dict[ExecutionId, LeaseState]]]
    overdue: OverdueLeases
    stuck: StuckWork
    lists: TaskListReader
    triggers: AggregateTriggers
    workflows: WorkflowReader
    revoke: Callable[[TaskId, Grant], Awaitable[None]]
    """As AccessService will: the row stays, its time of revocation is set."""

    async def write(self, *parts: ChangeSet) -> None:
        """Commit change sets, each in a transaction of its own."""
        for changes in parts:
            await self.store.transact(_writing(changes))


def _writing(changes: ChangeSet) -> Callable[[WriteTransaction, TransactionAttempt], Awaitable[None]]:
    async def body(transaction: WriteTransaction, _attempt: TransactionAttempt) -> None:
        await transaction.write(changes)

    return body


def memory_backend() -> Backend:
    """The in-memory store."""
    store = MemoryTaskStore()

    async def outbox() -> list[OutboxRecord]:
        return [store.tables.outbox[key] for key in sorted(store.tables.outbox)]

    async def leases() -> Leases:
        return {execution_id: row.closed_at for execution_id, row in store.tables.leases.items()}

    async def run_outcome(task_id: TaskId, attempt: int) -> Lifecycle | None:
        outcome = store.tables.runs[(task_id, attempt)].outcome
        return None if outcome is None else outcome.lifecycle

    async def lease_states() -> dict[ExecutionId, LeaseState]:
        return {execution_id: row.state for execution_id, row in store.tables.leases.items()}

    reader = MemoryTaskReader(store)
    overdue, stuck = MemoryOverdueLeases(store), MemoryStuckWork(store)

    async def revoke(task_id: TaskId, grant: Grant) -> None:
        del store.tables.grants[(task_id, grant.principal_type, grant.principal_id)]

    return Backend(
        store,
        reader,
        outbox,
        leases,
        run_outcome,
        MemoryLeaseStore(store),
        lease_states,
        overdue,
        stuck,
        MemoryTaskLists(store),
        MemoryAggregateTriggers(store),
        MemoryWorkflowReader(store),
        revoke,
    )


def mysql_backend(database: Database) -> Backend:
    """The store on MySQL or MariaDB."""
    store = MySqlTaskStore(database.writer, SystemClock(), SystemRandomness())

    async def outbox() -> list[OutboxRecord]:
        columns = ",".join(rows_outbox.RECORD_COLUMNS)
        return [
            rows_outbox.from_row(row)
            for row in await _query(database, f"SELECT {columns} FROM task_outbox WHERE for_projector=0 ORDER BY id")
        ]

    async def leases() -> Leases:
        rows = await _query(
            database, "SELECT execution_id,closed_at,deadline_at IS NULL AS no_deadline FROM task_execution_lease"
        )
        assert all((closed_at is not None) == bool(no_deadline) for _, closed_at, no_deadline in rows)
        return {ExecutionId(execution_id): closed_at for execution_id, closed_at, _ in rows}

    async def run_outcome(task_id: TaskId, attempt: int) -> Lifecycle | None:
        statement = "SELECT lifecycle_status FROM task_run WHERE task_id=%s AND task_attempt=%s"
        (value,) = (await _query(database, statement, (task_id, attempt)))[0]
        return None if value is None else Lifecycle(value.decode())

    async def lease_states() -> dict[ExecutionId, LeaseState]:
        names = [field.name for field in fields(LeaseState)]
        rows = await _query(database, f"SELECT {','.join(names)} FROM task_execution_lease")
        return {ExecutionId(row[0]): LeaseState(*row) for row in rows}

    reader = MySqlTaskReader(database.reader)
    table, overdue, stuck = LeaseTable(store, reader), HealthTable(reader), StuckTable(reader)

    async def revoke(task_id: TaskId, grant: Grant) -> None:
        await _change(
            database,
            "UPDATE task_acl SET revoked_at=SYSDATE(6) WHERE task_id=%s AND principal_type=%s AND principal_id=%s",
            (task_id, grant.principal_type, grant.principal_id),
        )

    return Backend(
        store,
        reader,
        outbox,
        leases,
        run_outcome,
        table,
        lease_states,
        overdue,
        stuck,
        ListTable(reader),
        WorkflowTable(reader),
        WorkflowTable(reader),
        revoke,
    )


async def _change(database: Database, statement: str, parameters: tuple[Any, ...]) -> None:
    async with database.writer.connect() as connection:
        await connection.exec_driver_sql(statement, parameters)


async def _query(database: Database, statement: str, parameters: tuple[Any, ...] = ()) -> Sequence[Any]:
    async with database.writer.connect() as connection:
        return (await connection.exec_driver_sql(statement, parameters)).all()
