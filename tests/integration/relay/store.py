"""The outbox table of a real database: filled and inspected by tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from relay.claims import MysqlOutbox
from taskstatus.adapters.mysql import rows_outbox
from taskstatus.adapters.mysql.engine import is_mariadb, open_database
from taskstatus.adapters.mysql.hot_sql import INSERT_OUTBOX
from taskstatus.adapters.mysql.statements import cut_rows, flatten
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import TaskId, WorkflowId, make_id
from taskstatus.domain.records import AggregateType, Audience, OutboxKind, OutboxRecord, Projection

BUCKETS = 64
START_MS = 1_790_000_000_000
WORKFLOW = WorkflowId(make_id(START_MS, 1, 1))
TENANT = "acme"


class OutboxTable:
    """Direct access to ``task_outbox``, and an ``Outbox`` upon it."""

    def __init__(self, engine: AsyncEngine, url: str) -> None:
        self.engine = engine
        self.url = url
        self.outbox = MysqlOutbox(engine, "test")

    async def insert(self, records: Sequence[OutboxRecord]) -> None:
        """Write rows as the service's transactions do."""
        async with self.engine.connect() as connection:
            for group in cut_rows([rows_outbox.to_row(record) for record in records]):
                await connection.exec_driver_sql(INSERT_OUTBOX.text(len(group)), flatten(group))

    async def run(self, statement: str, *parameters: Any) -> int:
        """Run one statement; the number of rows."""
        async with self.engine.connect() as connection:
            return (await connection.exec_driver_sql(statement, parameters)).rowcount

    async def rows(self, query: str, *parameters: Any) -> Sequence[Any]:
        """The result of a query."""
        async with self.engine.connect() as connection:
            return (await connection.exec_driver_sql(query, parameters)).all()

    async def is_mariadb(self) -> bool:
        """Which product the server is."""
        return is_mariadb((await self.rows("SELECT VERSION()"))[0][0])

    async def multiply(self, times: int) -> int:
        """Add ``times - 1`` copies of each row, with ids and versions of their own; the number of rows added."""
        computed = {
            "id": "UNHEX(CONCAT(LEFT(HEX(id), 16), HEX(0x80000000 + k), RIGHT(HEX(id), 8)))",
            "aggregate_version": "aggregate_version + k * 1000000",
        }
        found = await self.rows(
            "SELECT column_name FROM information_schema.columns "
            "WHERE table_schema = DATABASE() AND table_name = 'task_outbox'"
        )
        columns = [row[0] for row in found]
        values = ", ".join(computed.get(name, name) for name in columns)
        return await self.run(
            f"INSERT INTO task_outbox ({', '.join(columns)}) "
            "WITH RECURSIVE n AS (SELECT 1 AS k UNION ALL SELECT k + 1 FROM n WHERE k < %s) "
            f"SELECT {values} FROM task_outbox CROSS JOIN n",
            times - 1,
        )

    async def counts(self) -> dict[str, int]:
        """Rows by status."""
        found = await self.rows("SELECT status, COUNT(*) FROM task_outbox GROUP BY status")
        return {row[0].decode(): row[1] for row in found}

    async def left(self) -> int:
        """Rows that are neither PUBLISHED nor DEAD."""
        return int((await self.rows("SELECT COUNT(*) FROM task_outbox WHERE due_at IS NOT NULL"))[0][0])

    async def now(self) -> datetime:
        """The database's clock."""
        now: datetime = (await self.rows("SELECT UTC_TIMESTAMP(6)"))[0][0]
        return now

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        """A transaction that is rolled back at the end."""
        async with self.engine.connect() as connection:
            await connection.exec_driver_sql("BEGIN")
            try:
                yield connection
            finally:
                await connection.exec_driver_sql("ROLLBACK")


@asynccontextmanager
async def open_table(url: str) -> AsyncIterator[OutboxTable]:
    """The table of a migrated database, emptied."""
    database = open_database(url)
    table = OutboxTable(database.writer, url)
    try:
        await table.run("TRUNCATE TABLE task_outbox")
        yield table
    finally:
        await database.dispose()


def task_id(number: int) -> TaskId:
    """The id of task ``number``, the same in every run."""
    return TaskId(make_id(START_MS, number % BUCKETS, number))


def summary(number: int, committed_at: datetime, *, task: int, version: int, owner: str) -> OutboxRecord:
    """A USER_SUMMARY row; ``number`` makes its id."""
    text = f'{{"kind":"task.summary","task":{task},"taskVersion":"{version}","title":"{"x" * 400}"}}'
    return OutboxRecord(
        outbox_id=make_id(int(committed_at.timestamp() * 1000), task % BUCKETS, number),
        bucket=task % BUCKETS,
        aggregate_type=AggregateType.TASK,
        aggregate_id=task_id(task),
        aggregate_version=version,
        kind=OutboxKind.PUBLISH,
        projection=Projection.USER_SUMMARY,
        audience=Audience.OWNER,
        tenant_id=TENANT,
        owner_id=owner,
        workflow_id=WORKFLOW,
        event_type=EventType.STEP_PROGRESS,
        protected=False,
        payload=text.encode(),
        traceparent="",
        committed_at=committed_at,
    )


def detail(number: int, committed_at: datetime, *, task: int, version: int, owner: str) -> OutboxRecord:
    """A TASK_DETAIL row."""
    row = summary(number, committed_at, task=task, version=version, owner=owner)
    return replace(row, projection=Projection.TASK_DETAIL, audience=Audience.VIEWERS, payload=None)


def summaries(count: int, now: datetime, *, owners: int = 100, first_id: int = 0) -> list[OutboxRecord]:
    """``count`` summary rows of as many versions; task ``n`` belongs to ``user-n``; committed a millisecond apart.

    ``first_id`` keeps the ids of two calls apart: their milliseconds can be the same.
    """
    first = now - timedelta(milliseconds=count)
    return [
        summary(
            first_id + number,
            first + timedelta(milliseconds=number),
            task=number % owners,
            version=number // owners + 1,
            owner=f"user-{number % owners}",
        )
        for number in range(count)
    ]
