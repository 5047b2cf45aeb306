"""The wake-up hint over a real Redis: heard when it is there, missed without harm when it is not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from relay.wakeup_redis import RedisWakeUp
from scripts.stack import servers
from taskstatus.adapters.clock import SystemClock, SystemRandomness
from taskstatus.adapters.wake_up import RedisWakeUp as Sender
from tests.integration.relay.waiting import until

WAIT_SECONDS = 60


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[servers.RunningServer]:
    """A Redis server that the test may kill."""
    server = servers.start_redis(tmp_path, own=True)
    assert isinstance(server, servers.RunningServer)
    yield server
    server.stop()


async def test_a_hint_of_the_service_reaches_the_relay(own_redis: servers.RunningServer) -> None:
    listener, sender = RedisWakeUp(own_redis.url, SystemRandomness()), Sender(own_redis.url, SystemClock())
    heard = asyncio.Event()
    await listener.start(heard.set)
    await asyncio.wait_for(listener.listening.wait(), WAIT_SECONDS)
    heard.clear()

    sender.hint()

    await asyncio.wait_for(heard.wait(), WAIT_SECONDS)
    await sender.stop()
    await listener.stop()


async def test_a_new_subscription_is_itself_a_hint(own_redis: servers.RunningServer) -> None:
    listener = RedisWakeUp(own_redis.url, SystemRandomness())
    heard = asyncio.Event()
    await listener.start(heard.set)
    await asyncio.wait_for(heard.wait(), WAIT_SECONDS)
    await listener.stop()
    await listener.stop()


async def test_a_dead_redis_is_left_alone_and_taken_up_again_when_it_is_back(own_redis: servers.RunningServer) -> None:
    listener = RedisWakeUp(own_redis.url, SystemRandomness())
    heard = asyncio.Event()
    await listener.start(heard.set)
    await asyncio.wait_for(listener.listening.wait(), WAIT_SECONDS)

    own_redis.kill9()

    async def lost() -> bool:
        return not listener.listening.is_set()

    await until(lost, "the loss is noticed", seconds=WAIT_SECONDS)
    heard.clear()
    own_redis.restart()
    await asyncio.wait_for(heard.wait(), WAIT_SECONDS)
    assert listener.listening.is_set()
    await listener.stop()


async def test_an_absent_redis_is_no_error() -> None:
    listener = RedisWakeUp("redis://127.0.0.1:1/0", SystemRandomness())
    await listener.start(lambda: None)
    assert not listener.listening.is_set()
    await listener.stop()
