"""Side sessions that get in the way of the service's transactions: locked rows, deadlocks, killed connections."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from tests.chaos.tables import connected

RECENT_TASKS = "SELECT id FROM task ORDER BY created_at DESC LIMIT 12"
LOCK_TASK = "SELECT id FROM task WHERE id=%s FOR UPDATE"
LOCK_STEPS = "SELECT step_id FROM task_step WHERE task_id=%s FOR UPDATE"
SESSIONS = "SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND user = 'root'"
HELD_SECONDS = 0.02
ROWS_OF_A_DEADLOCK = 4


async def lock_for(url: str, seconds: float, random: Random) -> None:
    """Hold the rows of a few tasks; beyond 5 s the service's sessions give up waiting (1205)."""
    async with connected(url) as side:
        tasks = await _recent_tasks(side)
        await side.exec_driver_sql("BEGIN")
        for task_id in random.sample(tasks, min(len(tasks), 3)):
            await _try(side, LOCK_TASK, task_id)
        await asyncio.sleep(seconds)
        await side.exec_driver_sql("ROLLBACK")


async def provoke_deadlocks(url: str, seconds: float, random: Random) -> None:
    """Lock the rows that the service locks, in the opposite order: steps before their task, high ids before low."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    async with connected(url) as side:
        while loop.time() < end:
            tasks = await _recent_tasks(side)
            chosen = sorted(random.sample(tasks, min(len(tasks), ROWS_OF_A_DEADLOCK)), reverse=True)
            await side.exec_driver_sql("BEGIN")
            for task_id in chosen:
                if not (await _try(side, LOCK_STEPS, task_id) and await _try(side, LOCK_TASK, task_id)):
                    break
                await asyncio.sleep(HELD_SECONDS)
            await side.exec_driver_sql("ROLLBACK")
            await asyncio.sleep(HELD_SECONDS)


async def kill_sessions(url: str, random: Random, share: float) -> None:
    """End a share of the server's connections, whatever they are doing."""
    async with connected(url) as side:
        sessions = [row[0] for row in (await side.exec_driver_sql(SESSIONS)).all()]
        for session in random.sample(sessions, int(len(sessions) * share)):
            await _try(side, f"KILL CONNECTION {int(session)}")


async def _recent_tasks(side: AsyncConnection) -> Sequence[bytes]:
    return [row[0] for row in (await side.exec_driver_sql(RECENT_TASKS)).all()]


async def _try(side: AsyncConnection, statement: str, *parameters: Any) -> bool:
    """Whether the statement was done: the side session may be the deadlock's victim, or wait in vain."""
    try:
        await side.exec_driver_sql(statement, parameters)
    except DBAPIError:
        return False
    return True
