"""Sending the same request again: when, how often, how long (N-1)."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

from taskstatus.sdk.errors import INTERNAL, RESENT_REASONS, TaskStatusError

logger = logging.getLogger(__name__)

T = TypeVar("T")


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Timing:
    """Clocks, waiting and chance, replaceable in tests."""

    monotonic: Callable[[], float] = time.monotonic
    """Seconds; for durations and deadlines."""
    now: Callable[[], datetime] = _utc_now
    """An aware time; for people only, never for judgement."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    uniform: Callable[[float, float], float] = field(default_factory=lambda: random.SystemRandom().uniform)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How long to try. All times in seconds."""

    attempt_timeout_seconds: float = 5.0
    """The deadline of one attempt."""
    patience_seconds: float = 120.0
    """How long a fact or a command is sent again before UnavailableError is raised."""
    progress_patience_seconds: float = 5.0
    """The same for progress, which the next one makes up for."""
    first_pause_seconds: float = 0.1
    most_pause_seconds: float = 5.0
    internal_attempts: int = 5
    """How often a request is sent that the service answers with INTERNAL."""

    def __post_init__(self) -> None:
        """Raise ValueError for figures that cannot work together."""
        if min(self.attempt_timeout_seconds, self.patience_seconds, self.progress_patience_seconds) <= 0:
            raise ValueError("timeouts and patience must be above 0")
        if not 0 < self.first_pause_seconds <= self.most_pause_seconds:
            raise ValueError("pauses must be above 0 and rising")
        if self.internal_attempts < 1:
            raise ValueError("internal_attempts must be at least 1")


class Retrier:
    """Runs an attempt until it succeeds, is refused for good, or patience ends."""

    def __init__(self, policy: RetryPolicy, timing: Timing) -> None:
        self.policy = policy
        self._timing = timing

    async def run(
        self, attempt: Callable[[float], Awaitable[T]], *, what: str, patience_seconds: float | None = None
    ) -> T:
        """The attempt's result; it is given its own timeout in seconds. Raises its last TaskStatusError."""
        ends_at = self._timing.monotonic() + (patience_seconds or self.policy.patience_seconds)
        for number, pause in enumerate(pauses(self.policy, self._timing), start=1):
            remaining = max(ends_at - self._timing.monotonic(), 0.001)
            try:
                return await attempt(min(self.policy.attempt_timeout_seconds, remaining))
            except TaskStatusError as error:
                wait = max(pause, error.retry_after_seconds or 0.0)
                if not self._again(error, number) or self._timing.monotonic() + wait >= ends_at:
                    raise
                logger.warning("%s is sent again in %.1f s: %s", what, wait, error)
            await self._timing.sleep(wait)
        raise AssertionError("pauses never end")

    def _again(self, error: TaskStatusError, number: int) -> bool:
        if error.reason == INTERNAL:
            return number < self.policy.internal_attempts
        return error.reason in RESENT_REASONS


def pauses(policy: RetryPolicy, timing: Timing) -> Iterator[float]:
    """Doubling pauses in seconds, each jittered between its half and its whole: callers shall not return together."""
    pause = policy.first_pause_seconds
    while True:
        yield timing.uniform(pause / 2, pause)
        pause = min(pause * 2, policy.most_pause_seconds)
