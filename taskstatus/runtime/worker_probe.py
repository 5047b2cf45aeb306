"""One question to silent workers, and which of them answered in time (H-6).

A question is *open* for each execution that was asked → *answered* by any sign of life, or left open when the time is
over. A sign that comes later answers nobody, and is a beat like any other.
"""

from __future__ import annotations

import asyncio
import contextlib

from taskstatus.domain.ids import ExecutionId


class Asking:
    """What one look of the reconciler wants to know."""

    def __init__(self) -> None:
        self._open: set[ExecutionId] = set()
        self._alive: set[ExecutionId] = set()
        self._all_answered = asyncio.Event()

    def asked(self, execution_id: ExecutionId) -> None:
        """Somebody who may know was asked."""
        self._open.add(execution_id)

    def heard(self, execution_id: ExecutionId) -> None:
        """The execution has given a sign of life."""
        self._alive.add(execution_id)
        self._open.discard(execution_id)
        if not self._open:
            self._all_answered.set()

    async def answers(self, seconds: float) -> frozenset[ExecutionId]:
        """The executions known to be alive, once all have answered or the time is over."""
        if self._open:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._all_answered.wait()
        return frozenset(self._alive)
