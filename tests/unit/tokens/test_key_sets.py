"""Keys that are read again: one load in flight, bounded in frequency, never emptied by a failure."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from taskstatus.adapters.tokens.key_sets import FixedKeySet, RefreshingKeySet
from taskstatus.adapters.tokens.keys import KeyMap, secret_key
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.reasons import Reason

from .support import FakeClock

pytestmark = pytest.mark.asyncio


def keys_of(*kids: str, secret: bytes = b"s" * 32) -> KeyMap:
    return {kid: secret_key(kid, secret) for kid in kids}


class Loader:
    """Gives the keys it is set to, or raises the error it is set to; may be held back."""

    def __init__(self, keys: KeyMap) -> None:
        self.keys = keys
        self.error: Exception | None = None
        self.calls = 0
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self) -> KeyMap:
        self.calls += 1
        self.gate.wait(timeout=30)
        if self.error is not None:
            raise self.error
        return self.keys


@pytest.fixture
def loader() -> Loader:
    return Loader(keys_of("a"))


@pytest.fixture
def key_set(loader: Loader, clock: FakeClock) -> RefreshingKeySet:
    return RefreshingKeySet(loader, clock, name="issuer", initial=keys_of("a"))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0)


async def test_known_kid_needs_no_load(key_set: RefreshingKeySet, loader: Loader) -> None:
    assert await key_set.find("a") == keys_of("a")["a"]
    assert loader.calls == 0


async def test_unknown_kid_loads_and_finds_the_new_key(key_set: RefreshingKeySet, loader: Loader) -> None:
    loader.keys = keys_of("a", "b")
    assert await key_set.find("b") is not None
    assert (loader.calls, key_set.epoch) == (1, 1)


async def test_unknown_kids_load_at_most_once_per_retry_interval(
    key_set: RefreshingKeySet, loader: Loader, clock: FakeClock
) -> None:
    for number in range(20):
        assert await key_set.find(f"forged-{number}") is None
    assert loader.calls == 1
    clock.advance(10)
    await key_set.find("forged")
    assert loader.calls == 2


@pytest.mark.parametrize("error", [OSError("down"), ValueError("no JSON"), RuntimeError("bug")])
async def test_failed_load_keeps_the_keys(key_set: RefreshingKeySet, loader: Loader, error: Exception) -> None:
    loader.error = error
    assert await key_set.find("b") is None
    assert await key_set.find("a") is not None
    assert key_set.epoch == 0


async def test_old_keys_are_refreshed_without_making_the_caller_wait(
    key_set: RefreshingKeySet, loader: Loader, clock: FakeClock
) -> None:
    loader.keys = keys_of("b")
    loader.gate.clear()
    clock.advance(300)
    assert await key_set.find("a") is not None
    loader.gate.set()
    await key_set.aclose()
    assert (loader.calls, key_set.epoch) == (1, 1)
    assert await key_set.find("a") is None


async def test_same_kid_with_another_key_changes_the_epoch(key_set: RefreshingKeySet, loader: Loader) -> None:
    loader.keys = keys_of("a", secret=b"t" * 32)
    await key_set.refresh()
    assert key_set.epoch == 1


async def test_load_of_the_same_keys_keeps_the_epoch(key_set: RefreshingKeySet, loader: Loader) -> None:
    await key_set.refresh()
    assert (loader.calls, key_set.epoch) == (1, 0)


async def test_concurrent_callers_share_one_load(key_set: RefreshingKeySet, loader: Loader) -> None:
    loader.keys = keys_of("a", "b")
    loader.gate.clear()
    callers = [asyncio.create_task(key_set.find("b")) for _ in range(5)]
    await until(lambda: loader.calls == 1)
    loader.gate.set()
    assert None not in await asyncio.gather(*callers)
    assert loader.calls == 1


async def test_load_in_flight_is_the_only_one_however_long_it_takes(
    key_set: RefreshingKeySet, loader: Loader, clock: FakeClock
) -> None:
    loader.gate.clear()
    callers = [asyncio.create_task(key_set.find("b"))]
    await until(lambda: loader.calls == 1)
    clock.advance(1000)
    callers.append(asyncio.create_task(key_set.find("c")))
    await key_set.find("a")
    loader.gate.set()
    assert await asyncio.gather(*callers) == [None, None]
    assert loader.calls == 1


async def test_cancelled_caller_leaves_the_shared_load_alone(key_set: RefreshingKeySet, loader: Loader) -> None:
    loader.keys = keys_of("a", "b")
    loader.gate.clear()
    caller = asyncio.create_task(key_set.find("b"))
    await until(lambda: loader.calls == 1)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    loader.gate.set()
    await key_set.aclose()
    assert await key_set.find("b") is not None
    assert loader.calls == 1


async def test_caller_waits_for_a_slow_load_within_bounds(loader: Loader, clock: FakeClock) -> None:
    key_set = RefreshingKeySet(loader, clock, name="issuer", initial=keys_of("a"), wait_seconds=0)
    loader.gate.clear()
    assert await key_set.find("b") is None
    loader.gate.set()
    await key_set.aclose()


async def test_no_keys_so_far_is_unavailable_not_unauthenticated(loader: Loader, clock: FakeClock) -> None:
    key_set = RefreshingKeySet(loader, clock, name="issuer")
    loader.error = OSError("down")
    for _ in range(2):
        with pytest.raises(RefusedError) as caught:
            await key_set.find("a")
        assert caught.value.reason is Reason.UNAVAILABLE
    assert loader.calls == 1
    loader.error = None
    clock.advance(10)
    assert await key_set.find("a") is not None


async def test_fixed_keys_never_change() -> None:
    key_set = FixedKeySet(keys_of("a"))
    assert await key_set.find("a") is not None
    assert await key_set.find("b") is None
    assert key_set.epoch == 0
    await key_set.aclose()
