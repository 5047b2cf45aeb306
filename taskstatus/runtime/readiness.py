"""Readiness: the process is ready while its store answers, and for a while longer, so that a blip empties no fleet."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from taskstatus.application.ports_clock import Clock

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReadinessConfig:
    """How often to look and how long a failure is forgiven, in seconds."""

    check_every_seconds: float = 2.0
    forgive_seconds: float = 15.0


class Readiness:
    """A loop that probes the store and tells listeners when readiness changes."""

    def __init__(
        self,
        probe: Callable[[], Awaitable[bool]],
        on_change: Callable[[bool], Awaitable[None]],
        clock: Clock,
        config: ReadinessConfig,
    ) -> None:
        self._probe = probe
        self._on_change = on_change
        self._clock = clock
        self._config = config
        self._last_success: float | None = None
        self._ready = False
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    @property
    def is_ready(self) -> bool:
        """Whether traffic should come here."""
        return self._ready and not self._stopping.is_set()

    async def run_once(self) -> bool:
        """Probe once and tell a change; returns whether the process is ready."""
        now = self._clock.monotonic_seconds()
        if await self._answers():
            self._last_success = now
        if self._stopping.is_set():
            return False
        ready = self._last_success is not None and now - self._last_success <= self._config.forgive_seconds
        if ready != self._ready:
            self._ready = ready
            logger.info("readiness changed", extra={"ready": ready})
            await self._on_change(ready)
        return ready

    async def _answers(self) -> bool:
        try:
            return await self._probe()
        except Exception:
            logger.warning("the store could not be probed", exc_info=True)
            return False

    def start(self) -> None:
        """Begin looking in the background."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Be unready from now on; may be called twice."""
        if not self._stopping.is_set():
            self._stopping.set()
            await self._on_change(False)
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        while not self._stopping.is_set():
            await self.run_once()
            try:
                async with asyncio.timeout(self._config.check_every_seconds):
                    await self._stopping.wait()
            except TimeoutError:
                continue
