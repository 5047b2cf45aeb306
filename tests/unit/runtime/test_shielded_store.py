"""Transactions outlive their callers and are waited for at the end (N-1)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from taskstatus.application.ports_store import StoreUnavailableError
from taskstatus.runtime.shielded_store import ShieldedStore


class SlowStore:
    """A transaction that waits for the test."""

    def __init__(self) -> None:
        self.begun, self.gate = asyncio.Event(), asyncio.Event()
        self.error: Exception | None = None
        self.finished = 0

    async def transact(self, body: Callable[..., Awaitable[Any]]) -> Any:
        """Wait, then finish."""
        self.begun.set()
        await self.gate.wait()
        self.finished += 1
        if self.error is not None:
            raise self.error
        return "value"


async def nothing(*_: object) -> None:
    """A body without effect."""


async def test_n1_cancelled_caller_does_not_cut_off_the_transaction() -> None:
    inner = SlowStore()
    store = ShieldedStore(inner)
    caller = asyncio.ensure_future(store.transact(nothing))
    await inner.begun.wait()

    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    inner.gate.set()
    await store.drain()

    assert inner.finished == 1


async def test_n1_failure_that_nobody_waits_for_is_quiet() -> None:
    inner = SlowStore()
    inner.error = StoreUnavailableError("away")
    store = ShieldedStore(inner)
    caller = asyncio.ensure_future(store.transact(nothing))
    await inner.begun.wait()
    caller.cancel()
    inner.gate.set()

    await store.drain()

    assert inner.finished == 1


async def test_n1_caller_that_waits_gets_value_and_error() -> None:
    inner = SlowStore()
    inner.gate.set()
    store = ShieldedStore(inner)
    assert await store.transact(nothing) == "value"

    inner.error = StoreUnavailableError("away")
    with pytest.raises(StoreUnavailableError):
        await store.transact(nothing)
    await store.drain()
