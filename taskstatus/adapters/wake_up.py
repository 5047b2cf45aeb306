"""The wake-up hint for the relay through Redis: fire and forget, never needed for correctness (B-2)."""

from __future__ import annotations

import asyncio
import logging

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from taskstatus.application.ports_clock import Clock

logger = logging.getLogger(__name__)

WAKE_UP_CHANNEL = "taskstatus:outbox"
SOCKET_SECONDS = 0.2
BREAKER_SECONDS = 5.0


class NoWakeUp:
    """Without Redis the relay polls."""

    def hint(self) -> None:
        """Nothing to tell."""

    async def stop(self) -> None:
        """Nothing to close."""


class RedisWakeUp:
    """At most one hint in flight; hints given meanwhile become one more. A failure silences it for a while."""

    def __init__(self, url: str, clock: Clock) -> None:
        self._redis = Redis.from_url(
            url,
            socket_timeout=SOCKET_SECONDS,
            socket_connect_timeout=SOCKET_SECONDS,
            retry=Retry(NoBackoff(), 0),
        )
        self._clock = clock
        self._task: asyncio.Task[None] | None = None
        self._again = False
        self._closed_until = 0.0

    def hint(self) -> None:
        """See the port WakeUp."""
        if self._clock.monotonic_seconds() < self._closed_until:
            return
        if self._task is not None and not self._task.done():
            self._again = True
            return
        self._task = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        self._again = True
        try:
            while self._again:
                self._again = False
                await self._redis.publish(WAKE_UP_CHANNEL, b"1")
        except (RedisError, OSError, TimeoutError) as error:
            self._closed_until = self._clock.monotonic_seconds() + BREAKER_SECONDS
            logger.warning("no wake-up hints for a while: %s", type(error).__name__)

    async def stop(self) -> None:
        """Close the connection."""
        if self._task is not None:
            await self._task
        await self._redis.aclose()
