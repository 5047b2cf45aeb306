"""Looks at the rows afterwards: a fast build that loses, doubles or skips anything is no result."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from taskstatus.adapters.mysql.engine import driver_url

TASKS_WITH_A_GAP = """
SELECT COUNT(*) FROM (
  SELECT task.id FROM task LEFT JOIN task_event_log ON task_event_log.task_id = task.id
  GROUP BY task.id, task.version
  HAVING COUNT(task_event_log.task_version) <> task.version OR MIN(task_event_log.task_version) <> 1
      OR MAX(task_event_log.task_version) <> task.version
) AS broken
"""
EVENTS = "SELECT COUNT(*) FROM task_event_log"
DEDUPS = "SELECT COUNT(*) FROM task_event_dedup"
DOUBLED = """
SELECT COUNT(*) FROM (
  SELECT task_id FROM task_event_log GROUP BY task_id, event_id HAVING COUNT(*) > 1
) AS doubled
"""
COALESCED = """SELECT COUNT(*) FROM task_event_dedup WHERE INSTR(result, '"coalesced":true') > 0"""
TASK_MESSAGES = "SELECT COUNT(*) FROM task_outbox WHERE aggregate_type = 'TASK' AND for_projector = 0"
NOT_PUBLISHED = "SELECT COUNT(*) FROM task_outbox WHERE status <> 'PUBLISHED' AND for_projector = 0"
BEATS = "SELECT COALESCE(SUM(heartbeat_seq), 0) FROM task_execution_lease"

POLL_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Check:
    """One statement about the rows: what was found beside what must be."""

    stage: str
    name: str
    found: int
    wanted: int

    @property
    def holds(self) -> bool:
        """Whether it is as it must be."""
        return self.found == self.wanted


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Expected:
    """What a schema must hold: tasks that were prepared (or filled in), and events acknowledged to the loads."""

    stage: str
    tasks: int
    acknowledged: int
    absorbs: bool = False
    """Whether the load lets progress be absorbed (E-8)."""


def check_rows(database_url: str, expected: Expected, filled: int = 0) -> list[Check]:
    """Versions, acknowledged events, and the rows that each of them left; ``filled`` tasks have no messages."""

    async def look(connection: AsyncConnection) -> list[Check]:
        stage, events = expected.stage, await count(connection, EVENTS)
        dedups, coalesced = await count(connection, DEDUPS), await count(connection, COALESCED)
        acknowledged = expected.acknowledged + expected.tasks
        messages = await count(connection, TASK_MESSAGES)
        checks = [
            Check(stage, "tasks whose versions have a gap", await count(connection, TASKS_WITH_A_GAP), 0),
            Check(stage, "events with a second row", await count(connection, DOUBLED), 0),
            Check(stage, "dedup rows = events + absorbed", dedups, events + coalesced),
            Check(stage, "dedup rows = acknowledged events + created tasks", dedups, acknowledged),
            Check(stage, "outbox messages = 2 × events", messages, 2 * (events - filled)),
        ]
        unwanted = [] if expected.absorbs else [Check(stage, "progress absorbed by later progress", coalesced, 0)]
        return checks + unwanted

    return asyncio.run(with_connection(database_url, look))


def check_published(database_url: str, stage: str) -> list[Check]:
    """Nothing is left unpublished."""

    async def look(connection: AsyncConnection) -> list[Check]:
        return [Check(stage, "messages not published", await count(connection, NOT_PUBLISHED), 0)]

    return asyncio.run(with_connection(database_url, look))


async def count(connection: AsyncConnection, query: str) -> int:
    """The one number that a query gives."""
    return int((await connection.exec_driver_sql(query)).scalar_one())


async def with_connection(database_url: str, look: Callable[[AsyncConnection], Awaitable[T]]) -> T:
    """Look at a schema with a connection of its own."""
    # Not the product's pools: their limit on a statement's time is made for requests, not for whole tables.
    engine = create_async_engine(driver_url(database_url))
    try:
        async with engine.connect() as connection:
            return await look(connection)
    finally:
        await engine.dispose()


def number(database_url: str, query: str) -> int:
    """The one number that a query gives, from code that is not asynchronous."""
    return asyncio.run(with_connection(database_url, lambda connection: count(connection, query)))


def change(database_url: str, statement: str) -> None:
    """Run a statement on whole tables, outside the binary log: it only sets the stage."""

    async def run(connection: AsyncConnection) -> None:
        await connection.exec_driver_sql("SET SESSION sql_log_bin=0")
        await connection.exec_driver_sql(statement)
        await connection.commit()

    asyncio.run(with_connection(database_url, run))


def moment(database_url: str) -> str:
    """The database's clock."""

    async def look(connection: AsyncConnection) -> str:
        return str((await connection.exec_driver_sql("SELECT UTC_TIMESTAMP(6) AS now")).scalar_one())

    return asyncio.run(with_connection(database_url, look))


def becomes_zero(database_url: str, query: str, seconds: float) -> bool:
    """Wait until a query gives 0; False when it does not within ``seconds``."""

    async def look(connection: AsyncConnection) -> bool:
        deadline = time.monotonic() + seconds
        while await count(connection, query):
            await connection.rollback()
            if time.monotonic() >= deadline:
                return False
            await asyncio.sleep(POLL_SECONDS)
        return True

    return asyncio.run(with_connection(database_url, look))
