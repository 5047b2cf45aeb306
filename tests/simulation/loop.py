"""An event loop without I/O: time is virtual, and a seed decides which of the ready callbacks runs next."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from enum import StrEnum
from random import Random
from typing import Any


class Ordering(StrEnum):
    """How the next ready callback is chosen; each finds other faults (a fair order hides what a swizzled one shows)."""

    FIFO = "fifo"
    """As asyncio does it."""
    RANDOM = "random"
    """Any of them."""
    SWIZZLED = "swizzled"
    """The oldest, but one time in five any of them."""


SWIZZLE_ONE_IN = 5


class StuckError(Exception):
    """Nothing is ready and no timer is set: somebody waits for what will never come, or the run does not end."""


class SimulatedLoop(asyncio.BaseEventLoop):
    """Runs one callback at a time. When none is ready, the time jumps to the next timer."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, random: Random, ordering: Ordering, *, most_callbacks: int) -> None:
        super().__init__()
        self._virtual_now = 0.0
        self._random = random
        self._ordering = ordering
        self._left = most_callbacks
        self.failures: list[str] = []
        """What asyncio would have logged: exceptions that nobody asked for."""
        self.set_exception_handler(self._note_failure)

    def time(self) -> float:
        """Virtual seconds since the start."""
        return self._virtual_now

    def _run_once(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise StuckError("the run used up its callbacks")
        if not self._ready:
            self._jump()
        handle = self._take()
        if not handle.cancelled():
            handle._run()

    def _jump(self) -> None:
        """To the next timer, with all that are due then; while anything is ready the time stands still."""
        while self._scheduled and self._scheduled[0].cancelled():
            heapq.heappop(self._scheduled)
        if not self._scheduled:
            raise StuckError("everybody waits and no timer is set")
        self._virtual_now = max(self._virtual_now, self._scheduled[0].when())
        while self._scheduled and self._scheduled[0].when() <= self._virtual_now:
            self._ready.append(heapq.heappop(self._scheduled))

    def _take(self) -> asyncio.Handle:
        count = len(self._ready)
        if count > 1 and self._picks_any():
            place = self._random.randrange(count)
            handle = self._ready[place]
            del self._ready[place]
            return handle
        return self._ready.popleft()

    def _picks_any(self) -> bool:
        if self._ordering is Ordering.SWIZZLED:
            return self._random.randrange(SWIZZLE_ONE_IN) == 0
        return self._ordering is Ordering.RANDOM

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Cancelled timers are dropped when their time comes."""

    def _process_events(self, event_list: list[Any]) -> None:
        """There is no I/O."""

    def _write_to_self(self) -> None:
        """There is no other thread to wake."""

    def _note_failure(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.failures.append(f"{context.get('message')}: {context.get('exception')!r}")
