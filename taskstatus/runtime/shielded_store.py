"""Transactions that a caller's cancellation or deadline does not cut off half-way.

A cancelled query closes its connection while the server goes on executing it, so every transaction runs in a task of
its own; the caller may stop waiting, the transaction ends by itself and is awaited when the process drains.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from taskstatus.application.ports_store import TaskStore, TransactionAttempt, WriteTransaction

T = TypeVar("T")


class ShieldedStore:
    """A TaskStore whose transactions outlive their callers."""

    def __init__(self, store: TaskStore) -> None:
        self._store = store
        self._running: set[asyncio.Task[Any]] = set()

    async def transact(self, body: Callable[[WriteTransaction, TransactionAttempt], Awaitable[T]]) -> T:
        """See the port."""
        task: asyncio.Task[T] = asyncio.ensure_future(self._store.transact(body))
        self._running.add(task)
        task.add_done_callback(self._forget)
        return await asyncio.shield(task)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            # A caller that went away never asks for the outcome; reading it here keeps asyncio from complaining.
            task.exception()

    async def drain(self) -> None:
        """Wait for the transactions that are still running."""
        if self._running:
            await asyncio.wait(set(self._running))
