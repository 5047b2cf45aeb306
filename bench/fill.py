"""Fills tables by bulk SQL: copies of prepared tasks under new ids, older than anything that the loads will write.

A copy keeps the bucket and the random part of every id and takes another time, so that the rows of one copy still name
one another. It is not in the binary log, and it is no part of what is measured.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from taskstatus.adapters.mysql.engine import driver_url

NUMBERS = "bench_number"
MAX_COPIES_AT_ONCE = 100
AGE_SECONDS = 30 * 24 * 3600
IDS = ("id", "task_id", "workflow_id", "execution_id", "aggregate_id")
FINISHED = {
    "lifecycle_status": "'SUCCEEDED'",
    "business_status": "'SUCCEEDED'",
    "open_steps": "0",
    "started_at": "t.created_at",
    "finished_at": "t.created_at",
}
"""What is over concerns no reconciler."""
TASK_TABLES: tuple[tuple[str, str], ...] = (
    ("task", "1=1"),
    ("task_step", "t.step_order=(SELECT MIN(step_order) FROM task_step)"),
    ("task_event_log", "1=1"),
    ("task_event_dedup", "1=1"),
)
"""The tables that every event reads or writes, and which rows of the template are copied: one of each per task."""
NEVER = "'2099-01-01'"


@dataclass(frozen=True, slots=True)
class Copy:
    """Which rows of a table to copy, and which columns differ besides the ids; SQL over the row ``t`` and ``n``."""

    table: str
    where: str
    changed: Mapping[str, str]


def fill_tasks(database_url: str, template_tasks: int, tasks: int) -> int:
    """Copy the schema's tasks, ``template_tasks`` in number, until ``tasks`` more are there; how many were added."""
    copies = -(-tasks // template_tasks)
    parts = [Copy(table, where, FINISHED) for table, where in TASK_TABLES]
    asyncio.run(_fill(database_url, parts, copies, analyse=True))
    return copies * template_tasks


def fill_summaries(database_url: str, template_rows: int, rows: int) -> int:
    """Copy the schema's summary messages as later versions, due only when :func:`release` says so."""
    copies = -(-rows // template_rows)
    changed = {"aggregate_id": "t.aggregate_id", "aggregate_version": "1000+numbers.n", "due_at": NEVER}
    where = "t.projection='USER_SUMMARY' AND t.aggregate_version=1"
    asyncio.run(_fill(database_url, [Copy("task_outbox", where, changed)], copies))
    return copies * template_rows


def fill_details(database_url: str, template_tasks: int, rows: int) -> int:
    """Copy the schema's tasks with one detail message each, due only when :func:`release` says so."""
    copies = -(-rows // template_tasks)
    parts = [Copy(table, where, FINISHED) for table, where in TASK_TABLES]
    where = "t.projection='TASK_DETAIL' AND t.aggregate_version=1"
    asyncio.run(_fill(database_url, [*parts, Copy("task_outbox", where, {"due_at": NEVER})], copies))
    return copies * template_tasks


async def _fill(database_url: str, parts: Sequence[Copy], copies: int, *, analyse: bool = False) -> None:
    base_ms = int((time.time() - AGE_SECONDS) * 1000)
    engine = create_async_engine(driver_url(database_url), isolation_level="AUTOCOMMIT")
    try:
        async with engine.connect() as connection:
            await connection.exec_driver_sql("SET SESSION sql_log_bin=0")
            await connection.exec_driver_sql(f"CREATE TABLE {NUMBERS} (n INT UNSIGNED PRIMARY KEY)")
            await _number(connection, copies)
            for part in parts:
                await _stage(connection, part)
            # A connection for each table, since the server works on one statement with one core.
            await asyncio.gather(*(_copy(engine, part, base_ms, copies) for part in parts))
            await connection.exec_driver_sql(f"DROP TABLE {NUMBERS}")
            if analyse:
                await connection.exec_driver_sql(f"ANALYZE TABLE {', '.join(part.table for part in parts)}")
    finally:
        await engine.dispose()


async def _copy(engine: AsyncEngine, part: Copy, base_ms: int, copies: int) -> None:
    async with engine.connect() as connection:
        await connection.exec_driver_sql("SET SESSION sql_log_bin=0,unique_checks=0")
        statement = await _statement(connection, part, base_ms)
        for first in range(0, copies, MAX_COPIES_AT_ONCE):
            await connection.exec_driver_sql(statement, (first, first + MAX_COPIES_AT_ONCE))
        await connection.exec_driver_sql(f"DROP TABLE {_staged(part)}")


def _staged(part: Copy) -> str:
    return f"bench_template_{part.table}"


async def _number(connection: AsyncConnection, copies: int) -> None:
    for first in range(0, copies, 10_000):
        values = ",".join(f"({n})" for n in range(first, min(first + 10_000, copies)))
        await connection.exec_driver_sql(f"INSERT INTO {NUMBERS} VALUES {values}")


async def _stage(connection: AsyncConnection, part: Copy) -> None:
    """The template's rows in a table of their own: what is read must not be what is being written."""
    columns = ",".join(f"t.`{column}`" for column in await _columns(connection, part.table))
    await connection.exec_driver_sql(
        f"CREATE TABLE {_staged(part)} AS SELECT {columns} FROM {part.table} t WHERE {part.where}"
    )


async def _statement(connection: AsyncConnection, part: Copy, base_ms: int) -> str:
    """The copies' ids begin at ``base_ms``, the same in every table."""
    columns = await _columns(connection, part.table)
    values = []
    for column in columns:
        moved = f"CONCAT(UNHEX(LPAD(HEX({base_ms}+numbers.n),12,'0')),SUBSTRING(t.`{column}`,7))"
        values.append(part.changed.get(column, moved if column in IDS else f"t.`{column}`"))
    names = ",".join(f"`{column}`" for column in columns)
    return (
        f"INSERT INTO {part.table} ({names}) SELECT {','.join(values)}"
        f" FROM {NUMBERS} numbers CROSS JOIN {_staged(part)} t WHERE numbers.n>=%s AND numbers.n<%s"
    )


async def _columns(connection: AsyncConnection, table: str) -> list[str]:
    """Without those that the database computes."""
    found = await connection.exec_driver_sql(
        "SELECT column_name AS name FROM information_schema.columns "
        "WHERE table_schema=DATABASE() AND table_name=%s AND extra NOT LIKE '%%GENERATED%%' ORDER BY ordinal_position",
        (table,),
    )
    return [str(row[0]) for row in found.all()]
