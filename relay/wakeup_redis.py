"""The wake-up hint over Redis pub/sub: an accelerator that may be absent, slow or dead without anybody noticing."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Final

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from relay.pacing import exponential, jittered
from relay.wakeup import OnHint
from taskstatus.adapters.wake_up import WAKE_UP_CHANNEL
from taskstatus.application.ports_clock import Randomness

_logger = logging.getLogger(__name__)

CONNECT_SECONDS: Final = 1.0
LISTEN_SECONDS: Final = 5.0
"""How long one read waits; between reads an idle connection is pinged, so that a silent death is noticed."""
RECONNECT_FIRST_SECONDS: Final = 0.2
RECONNECT_MOST_SECONDS: Final = 10.0


class RedisWakeUp:
    """Port ``WakeUpListener``: one background task that subscribes, listens, and reconnects with a growing pause."""

    def __init__(self, url: str, randomness: Randomness) -> None:
        self._url = url
        self._randomness = randomness
        self._listening = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def listening(self) -> asyncio.Event:
        """Set while the subscription stands."""
        return self._listening

    async def start(self, on_hint: OnHint) -> None:
        """See ``WakeUpListener.start``."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(on_hint), name="relay-wakeup")

    async def stop(self) -> None:
        """See ``WakeUpListener.stop``."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self, on_hint: OnHint) -> None:
        failures = 0
        while True:
            try:
                await self._listen(on_hint)
            except (RedisError, OSError) as error:
                # Once per loss: the breaker's pauses would fill the log otherwise.
                if self._listening.is_set() or failures == 0:
                    _logger.warning("no wake-up hints, polling only", extra={"cause": str(error)})
            failures = 0 if self._listening.is_set() else failures + 1
            self._listening.clear()
            pause = exponential(RECONNECT_FIRST_SECONDS, RECONNECT_MOST_SECONDS, failures)
            await asyncio.sleep(jittered(pause, self._randomness))

    async def _listen(self, on_hint: OnHint) -> None:
        """Listen until the connection fails. redis-py's own retries would hide a dead server for seconds."""
        client = Redis.from_url(
            self._url,
            retry=Retry(NoBackoff(), 0),
            socket_connect_timeout=CONNECT_SECONDS,
            socket_timeout=CONNECT_SECONDS,
            health_check_interval=LISTEN_SECONDS,
        )
        async with contextlib.aclosing(client), client.pubsub() as pubsub:
            await pubsub.subscribe(WAKE_UP_CHANNEL)
            while True:
                message = await pubsub.get_message(timeout=LISTEN_SECONDS)
                if message is None:
                    continue
                # The confirmation too: something may have been committed before the subscription stood.
                self._listening.set()
                on_hint()
