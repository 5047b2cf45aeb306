"""Waiting on a condition with a deadline: the only way in which these tests pass time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

DEADLINE_SECONDS = 120.0
LOOK_EVERY_SECONDS = 0.02


async def until(condition: Callable[[], Awaitable[bool]], what: str, seconds: float = DEADLINE_SECONDS) -> None:
    """Return once the condition holds; AssertionError naming it when it does not in time."""
    try:
        async with asyncio.timeout(seconds):
            while not await condition():
                await asyncio.sleep(LOOK_EVERY_SECONDS)
    except TimeoutError:
        raise AssertionError(f"after {seconds} s still not: {what}") from None


async def until_suspended(pid: int) -> None:
    """Return once SIGSTOP has reached every thread of the process: until then it may still answer."""

    async def suspended() -> bool:
        threads = Path(f"/proc/{pid}/task").iterdir()
        states = [(thread / "stat").read_text().rpartition(")")[2].split()[0] for thread in threads]
        return set(states) == {"T"}

    await until(suspended, f"process {pid} is suspended")
