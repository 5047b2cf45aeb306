"""Looks at the rows afterwards: a fast build that loses, doubles or skips anything is no result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from bench.drive import Outcome
from taskstatus.adapters.mysql.engine import PoolLimits, open_database
from taskstatus.adapters.mysql.session import Session, open_session

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
COALESCED = """SELECT COUNT(*) FROM task_event_dedup WHERE result LIKE '%"coalesced":true%'"""
TASK_MESSAGES = "SELECT COUNT(*) FROM task_outbox WHERE aggregate_type = 'TASK'"
NOT_PUBLISHED = "SELECT COUNT(*) FROM task_outbox WHERE status <> 'PUBLISHED'"
EMPTY_OUTBOX = "TRUNCATE TABLE task_outbox"


@dataclass(frozen=True, slots=True)
class Check:
    """One statement about the rows: what was found beside what must be."""

    name: str
    found: int
    wanted: int

    @property
    def holds(self) -> bool:
        """Whether it is as it must be."""
        return self.found == self.wanted


Look = Callable[[Session], Awaitable[list[Check]]]


def check_rows(database_url: str, outcomes: Iterable[Outcome], prepared_tasks: int) -> list[Check]:
    """After the comparison: versions, acknowledged events, and the rows that each of them left.

    Empties the outbox, whose messages nobody is meant to publish.
    """
    acknowledged = sum(outcome.acknowledged for outcome in outcomes)

    async def look(session: Session) -> list[Check]:
        events, coalesced = await _count(session, EVENTS), await _count(session, COALESCED)
        checks = [
            *await _versions(session, acknowledged, prepared_tasks),
            Check("outbox messages = 2 × events", await _count(session, TASK_MESSAGES), 2 * events),
            Check("progress absorbed by later progress", coalesced, 0),
        ]
        await session.change(EMPTY_OUTBOX)
        return checks

    return asyncio.run(_with_session(database_url, look))


def check_published(database_url: str, acknowledged: int, prepared_tasks: int) -> list[Check]:
    """After the publishing rounds, with every event of the run: versions again, and nothing left unpublished."""

    async def look(session: Session) -> list[Check]:
        checks = await _versions(session, acknowledged, prepared_tasks)
        return [*checks, Check("messages not published", await _count(session, NOT_PUBLISHED), 0)]

    return asyncio.run(_with_session(database_url, look))


async def _versions(session: Session, acknowledged: int, prepared_tasks: int) -> list[Check]:
    events, dedups = await _count(session, EVENTS), await _count(session, DEDUPS)
    coalesced = await _count(session, COALESCED)
    return [
        Check("tasks whose versions have a gap", await _count(session, TASKS_WITH_A_GAP), 0),
        Check("dedup rows = events + absorbed", dedups, events + coalesced),
        Check("dedup rows = acknowledged events + created tasks", dedups, acknowledged + prepared_tasks),
    ]


async def _count(session: Session, query: str) -> int:
    return int((await session.rows(query))[0][0])


async def _with_session(database_url: str, look: Look) -> list[Check]:
    database = open_database(database_url, PoolLimits(writers=1, readers=1))
    try:
        async with open_session(database.writer) as session:
            return await look(session)
    finally:
        await database.dispose()
