"""Waiting on a condition with a deadline: the only way in which these tests pass time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

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
