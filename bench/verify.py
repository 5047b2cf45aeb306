"""Looks at the rows afterwards: a fast build that loses, doubles or skips anything is no result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from bench.drive import Outcome
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
COALESCED = """SELECT COUNT(*) FROM task_event_dedup WHERE INSTR(result, '"coalesced":true') > 0"""
TASK_MESSAGES = "SELECT COUNT(*) FROM task_outbox WHERE aggregate_type = 'TASK'"
NOT_PUBLISHED = "SELECT COUNT(*) FROM task_outbox WHERE status <> 'PUBLISHED'"
AFTER_BUILDS, AT_THE_END = "after the builds", "at the end"

EMPTY_OUTBOX = "TRUNCATE TABLE task_outbox"


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


Look = Callable[[AsyncConnection], Awaitable[list[Check]]]


def check_rows(database_url: str, outcomes: Iterable[Outcome], prepared_tasks: int) -> list[Check]:
    """After the comparison: versions, acknowledged events, and the rows that each of them left.

    Empties the outbox, whose messages nobody is meant to publish.
    """
    acknowledged = sum(outcome.acknowledged for outcome in outcomes)

    async def look(connection: AsyncConnection) -> list[Check]:
        events, coalesced = await _count(connection, EVENTS), await _count(connection, COALESCED)
        checks = [
            *await _versions(connection, AFTER_BUILDS, acknowledged, prepared_tasks),
            Check(AFTER_BUILDS, "outbox messages = 2 × events", await _count(connection, TASK_MESSAGES), 2 * events),
            Check(AFTER_BUILDS, "progress absorbed by later progress", coalesced, 0),
        ]
        await connection.exec_driver_sql(EMPTY_OUTBOX)
        return checks

    return asyncio.run(_with_connection(database_url, look))


def check_published(database_url: str, acknowledged: int, prepared_tasks: int) -> list[Check]:
    """After the publishing rounds, with every event of the run: versions again, and nothing left unpublished."""

    async def look(connection: AsyncConnection) -> list[Check]:
        checks = await _versions(connection, AT_THE_END, acknowledged, prepared_tasks)
        return [*checks, Check(AT_THE_END, "messages not published", await _count(connection, NOT_PUBLISHED), 0)]

    return asyncio.run(_with_connection(database_url, look))


async def _versions(connection: AsyncConnection, stage: str, acknowledged: int, prepared_tasks: int) -> list[Check]:
    events, dedups = await _count(connection, EVENTS), await _count(connection, DEDUPS)
    coalesced = await _count(connection, COALESCED)
    return [
        Check(stage, "tasks whose versions have a gap", await _count(connection, TASKS_WITH_A_GAP), 0),
        Check(stage, "dedup rows = events + absorbed", dedups, events + coalesced),
        Check(stage, "dedup rows = acknowledged events + created tasks", dedups, acknowledged + prepared_tasks),
    ]


async def _count(connection: AsyncConnection, query: str) -> int:
    return int((await connection.exec_driver_sql(query)).scalar_one())


async def _with_connection(database_url: str, look: Look) -> list[Check]:
    # Not the product's pools: their limit on a statement's time is made for requests, not for whole tables.
    engine = create_async_engine(driver_url(database_url))
    try:
        async with engine.connect() as connection:
            return await look(connection)
    finally:
        await engine.dispose()
