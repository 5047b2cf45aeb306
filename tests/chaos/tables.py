"""The database as the judge reads it after a run, and as the next run finds it: empty."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import NullPool

from taskstatus.adapters.mysql import (
    rows_command,
    rows_event,
    rows_lease,
    rows_outbox,
    rows_run,
    rows_step,
    rows_task,
    rows_workflow,
)
from taskstatus.adapters.mysql.engine import driver_url
from taskstatus.adapters.mysql.session import BEGIN_VIEW
from taskstatus.adapters.mysql.values import text
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import TaskId, WorkflowId
from taskstatus.domain.records import AuditRecord, DedupRecord, OutboxKind
from taskstatus.domain.state import Grant
from tests.history.model import FinalTables, OutboxRow
from tests.support.databases import TABLES

LEASES = "task_execution_lease"
Rows = Sequence[Any]


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[AsyncConnection]:
    """A connection of its own, without the product's limits, which are made for requests."""
    engine = create_async_engine(driver_url(url), poolclass=NullPool, isolation_level="AUTOCOMMIT")
    try:
        async with engine.connect() as connection:
            yield connection
    finally:
        await engine.dispose()


async def empty(url: str) -> None:
    """No row is left of the run before; the definitions stay."""
    async with connected(url) as connection:
        for table in TABLES:
            await connection.exec_driver_sql(f"TRUNCATE TABLE {table}")


async def unpublished(url: str) -> int:
    """Rows of the outbox that are still to be published, or DEAD, and changes that workflows have not followed."""
    async with connected(url) as connection:
        found = await connection.exec_driver_sql("SELECT COUNT(*) AS n FROM task_outbox WHERE status <> 'PUBLISHED'")
        return int(found.scalar_one())


async def stale(url: str) -> int:
    """Executions that run and are STALE; one whose credentials were revoked stays so, since nobody may beat for it."""
    statement = (
        "SELECT COUNT(*) AS n FROM task_execution_lease l JOIN task_step s ON s.execution_id=l.execution_id"
        " WHERE l.closed_at IS NULL AND l.stale_since IS NOT NULL AND s.generation=1"
    )
    async with connected(url) as connection:
        return int((await connection.exec_driver_sql(statement)).scalar_one())


async def committed_events(url: str) -> int:
    """Rows of the event log."""
    async with connected(url) as connection:
        return int((await connection.exec_driver_sql("SELECT COUNT(*) AS n FROM task_event_log")).scalar_one())


async def read_tables(url: str) -> FinalTables:
    """Every row, as of one moment: replicas still run, and may call a worker silent meanwhile."""
    async with connected(url) as connection:
        await connection.exec_driver_sql("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        await connection.exec_driver_sql(BEGIN_VIEW)
        tasks = [rows_task.from_row(row) for row in await _all(connection, "task", rows_task.COLUMNS)]
        steps = [rows_step.from_row(row) for row in await _all(connection, "task_step", rows_step.COLUMNS)]
        events = [rows_event.from_row(row) for row in await _all(connection, "task_event_log", rows_event.COLUMNS)]
        leases = [rows_lease.from_row(row) for row in await _all(connection, LEASES, rows_lease.COLUMNS)]
        viewers = await _workflow_grants(connection)
        workflows = [
            rows_workflow.from_row(row, viewers.get(WorkflowId(row[1]), ()))
            for row in await _all(connection, "workflow", rows_workflow.COLUMNS)
        ]
        logged = [
            rows_workflow.event_from_row(row)
            for row in await _all(connection, "workflow_event_log", rows_workflow.EVENT_COLUMNS)
        ]
        outbox = await _outbox(connection)
        runs = [
            rows_run.from_row(row) for row in await _all(connection, "task_run", rows_run.COLUMNS + rows_run.OUTCOME)
        ]
        audits = await _all(connection, "command_audit", rows_command.AUDIT_COLUMNS)
        return FinalTables(
            workflows={WorkflowId(workflow.workflow_id): workflow for workflow in workflows},
            tasks={task.envelope.task_id: task for task in tasks},
            steps={step.key: step for step in steps},
            events={(event.task_id, event.task_version): event for event in events},
            dedups=await _dedups(connection),
            leases={lease.execution_id: lease for lease in leases},
            grants=await _grants(connection),
            outbox=tuple(row for row in outbox if row.record.kind is not OutboxKind.AGGREGATE),
            workflow_events={(event.workflow_id, event.workflow_version): event for event in logged},
            unfollowed={row.record.workflow_id for row in outbox if row.record.kind is OutboxKind.AGGREGATE},
            runs={(view.run.task_id, view.run.task_attempt): view for view in runs},
            audits=tuple(map(_audit, audits)),
        )


def _audit(row: Any) -> AuditRecord:
    bucket, audit_id, tenant_id, scope, task_id, command_id, action, actor, reason, old, new, committed_at = row
    return AuditRecord(
        bucket,
        audit_id,
        text(tenant_id),
        text(scope),
        TaskId(task_id),
        text(command_id),
        EventType(text(action)),
        text(actor),
        reason,
        old,
        new,
        committed_at,
    )


async def _dedups(connection: AsyncConnection) -> dict[tuple[TaskId, str], DedupRecord]:
    found = {}
    for row in await _all(connection, "task_event_dedup", (*rows_event.SEEN_COLUMNS, "bucket")):
        key, seen = rows_event.seen_from_row(row[:-1])
        found[key] = DedupRecord(key[0], row[-1], key[1], seen.digest, seen.result)
    return found


async def _grants(connection: AsyncConnection) -> dict[TaskId, tuple[Grant, ...]]:
    grants: defaultdict[TaskId, list[Grant]] = defaultdict(list)
    for row in await _all(connection, "task_acl", ("task_id", *rows_task.GRANT_COLUMNS)):
        grants[TaskId(row[0])].append(rows_task.grant_from_row(row))
    return {task_id: tuple(given) for task_id, given in grants.items()}


async def _workflow_grants(connection: AsyncConnection) -> dict[WorkflowId, tuple[Grant, ...]]:
    grants: defaultdict[WorkflowId, list[Grant]] = defaultdict(list)
    for row in await _all(connection, "workflow_acl", ("workflow_id", *rows_task.GRANT_COLUMNS)):
        grants[WorkflowId(row[0])].append(rows_task.grant_from_row(row))
    return {workflow_id: tuple(given) for workflow_id, given in grants.items()}


async def _outbox(connection: AsyncConnection) -> tuple[OutboxRow, ...]:
    rows = await _all(connection, "task_outbox", (*rows_outbox.RECORD_COLUMNS, "status"))
    return tuple(OutboxRow(rows_outbox.from_row(row), text(row[-1])) for row in rows)


async def _all(connection: AsyncConnection, table: str, columns: Sequence[str]) -> Rows:
    return (await connection.exec_driver_sql(f"SELECT {','.join(columns)} FROM {table}")).all()
