"""The one place where a write transaction runs, fails and runs again (port ``TaskStore``)."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy.ext.asyncio import AsyncEngine

from taskstatus.adapters.mysql.errors import Cause, DatabaseError
from taskstatus.adapters.mysql.session import Session, open_session
from taskstatus.adapters.mysql.write_transaction import MySqlWriteTransaction
from taskstatus.application.ports_clock import Clock, Randomness
from taskstatus.application.ports_store import (
    StoreRefusedError,
    StoreUnavailableError,
    TransactionAttempt,
    WriteTransaction,
)

T = TypeVar("T")
Body = Callable[[WriteTransaction, TransactionAttempt], Awaitable[T]]
SessionBody = Callable[[Session, TransactionAttempt], Awaitable[T]]


@dataclass(frozen=True, slots=True)
class RetryLimits:
    """How often and for how long one transaction is tried, and the pauses in between (seconds)."""

    attempts: int = 6
    duplicate_attempts: int = 3
    """A key that another transaction took is found by the next run; a key taken within the rows themselves never is."""
    budget_seconds: float = 10.0
    """No new run begins after it."""
    conflict_pause_seconds: float = 0.01
    outage_pause_seconds: float = 0.1
    longest_pause_seconds: float = 2.0


def _unmeasured(_seconds: float) -> None:
    """Nobody is told."""


class MySqlTaskStore:
    """Write transactions on the writer pool.

    Cancelling ``transact`` discards its connection, and whether the COMMIT happened stays unknown: callers shield it.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        clock: Clock,
        randomness: Randomness,
        limits: RetryLimits | None = None,
        on_pool_wait: Callable[[float], None] = _unmeasured,
    ) -> None:
        """``on_pool_wait`` is told how many seconds each run waited for its connection."""
        self._engine = engine
        self._clock = clock
        self._randomness = randomness
        self._limits = limits or RetryLimits()
        self._on_pool_wait = on_pool_wait

    async def transact(self, body: Body[T]) -> T:
        """See ``TaskStore.transact``; a violated unique key also runs ``body`` again, a few times."""

        async def write(session: Session, attempt: TransactionAttempt) -> T:
            return await body(MySqlWriteTransaction(session), attempt)

        return await self.run(write)

    async def run(self, body: SessionBody[T]) -> T:
        """The same for plain statements, of adapters whose rows no ``WriteTransaction`` knows."""
        deadline = self._clock.monotonic_seconds() + self._limits.budget_seconds
        settling = False
        for number in itertools.count(1):
            try:
                return await self._run_once(body, TransactionAttempt(number, settling))
            except DatabaseError as error:
                settling = settling or error.in_commit
                pause = self._pause_after(number, error, deadline)
            await asyncio.sleep(pause)
        raise AssertionError("unreachable: the loop has no end")

    async def _run_once(self, body: SessionBody[T], attempt: TransactionAttempt) -> T:
        asked = self._clock.monotonic_seconds()
        async with open_session(self._engine) as session:
            self._on_pool_wait(self._clock.monotonic_seconds() - asked)
            await session.begin()
            try:
                value = await body(session, attempt)
            except Exception:
                await session.rollback()
                raise
            await session.commit()
            return value

    def _pause_after(self, number: int, error: DatabaseError, deadline: float) -> float:
        """Seconds until the next run; raises when there is to be none."""
        limits = self._limits
        if error.cause is Cause.REFUSED and not error.in_commit:
            raise StoreRefusedError(str(error)) from error
        if error.cause is Cause.DUPLICATE and number >= limits.duplicate_attempts:
            raise StoreRefusedError(str(error)) from error
        quick = error.cause in (Cause.CONFLICT, Cause.DUPLICATE)
        base = limits.conflict_pause_seconds if quick else limits.outage_pause_seconds
        ceiling = min(base * 2.0**number, limits.longest_pause_seconds)
        pause = ceiling * (0.5 + self._randomness.fraction() / 2)
        if number >= limits.attempts or self._clock.monotonic_seconds() + pause >= deadline:
            raise StoreUnavailableError(f"gave up after {number} attempts: {error}") from error
        return pause
