"""Test databases on the servers that the run was given: one schema per test module, emptied between tests."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy import make_url
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from taskstatus.adapters.mysql.engine import Database, PoolLimits, driver_url, open_database
from taskstatus.adapters.mysql.migrate import migrate

TABLES = (
    "workflow",
    "workflow_acl",
    "workflow_event_log",
    "task",
    "task_run",
    "task_step",
    "task_event_log",
    "task_event_dedup",
    "task_acl",
    "task_execution_lease",
    "task_outbox",
    "task_external_ref",
    "command_audit",
)


def schema_url(server_url: str, name: str) -> str:
    """The URL of a schema of the test's own on a server."""
    safe = re.sub(r"[^a-z0-9_]", "_", name.lower())[-40:]
    return make_url(server_url).set(database=f"test_{safe}").render_as_string(hide_password=False)


def create_schema(url: str) -> None:
    """A schema at the newest revision, whatever an earlier run left there."""
    asyncio.run(_recreate(url))


def drop_schema(url: str) -> None:
    """Remove the schema."""
    asyncio.run(_drop(url))


@asynccontextmanager
async def emptied_database(url: str, limits: PoolLimits | None = None) -> AsyncIterator[Database]:
    """Pools of a schema without rows."""
    database = open_database(url, limits)
    try:
        async with database.writer.connect() as connection:
            for table in TABLES:
                await connection.exec_driver_sql(f"DELETE FROM {table}")
        yield database
    finally:
        await database.dispose()


async def _recreate(url: str) -> None:
    await _drop(url)
    await migrate(url)


async def _drop(url: str) -> None:
    parsed = driver_url(url)
    engine = create_async_engine(parsed.set(database=""), poolclass=NullPool, isolation_level="AUTOCOMMIT")
    async with engine.connect() as connection:
        await connection.exec_driver_sql(f"DROP DATABASE IF EXISTS `{parsed.database}`")
    await engine.dispose()


async def count_rows(url: str) -> dict[str, int]:
    """The number of rows of every table, to see that nothing was written."""
    engine = create_async_engine(driver_url(url), poolclass=NullPool, isolation_level="AUTOCOMMIT")
    try:
        async with engine.connect() as connection:
            counts = {}
            for table in TABLES:
                counts[table] = (await connection.exec_driver_sql(f"SELECT COUNT(*) AS n FROM {table}")).scalar_one()
            return counts
    finally:
        await engine.dispose()


async def audit_of(url: str, producer_id: str) -> list[tuple[str, str, str]]:
    """(reason, event type, transport) of the rejected reports of a producer."""
    engine = create_async_engine(driver_url(url), poolclass=NullPool, isolation_level="AUTOCOMMIT")
    try:
        async with engine.connect() as connection:
            statement = "SELECT reason,event_type,transport FROM report_audit WHERE producer_id=%s ORDER BY id"
            rows = (await connection.exec_driver_sql(statement, (producer_id,))).all()
            return [(row[0].decode(), row[1].decode(), row[2].decode()) for row in rows]
    finally:
        await engine.dispose()
