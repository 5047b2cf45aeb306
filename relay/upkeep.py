"""Housekeeping beside the publishing loop: the gauges of the backlog, and the cleaning of published rows (O-4)."""

from __future__ import annotations

import asyncio
import logging

from relay.config import UpkeepConfig
from relay.metrics import RelayMetrics
from relay.rows import OutboxUnavailableError, OutboxUpkeep
from taskstatus.application.ports_clock import Clock

_logger = logging.getLogger(__name__)


class UpkeepLoop:
    """Counts every ``gauge_interval_seconds`` and cleans every ``clean_interval_seconds``, in small batches."""

    def __init__(self, outbox: OutboxUpkeep, clock: Clock, config: UpkeepConfig, metrics: RelayMetrics) -> None:
        self._outbox = outbox
        self._clock = clock
        self._config = config
        self._metrics = metrics
        self._stopping = asyncio.Event()
        self._next_clean = clock.monotonic_seconds()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> asyncio.Task[None]:
        """Begin in the background; the task ends after ``stop``, or earlier with the defect that killed it."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="relay-upkeep")
        return self._task

    async def stop(self) -> None:
        """End after the present batch, and wait for it; may be called again."""
        self._stopping.set()
        if self._task is not None:
            await asyncio.wait([self._task])

    async def run_once(self) -> int:
        """One turn; the number of rows deleted. An outage of the database ends it early, never raises."""
        try:
            self._metrics.show(await self._outbox.backlog())
            return await self._clean() if self._clean_is_due() else 0
        except OutboxUnavailableError as error:
            _logger.warning("upkeep skipped, the outbox is not available", extra={"cause": str(error)})
            return 0

    def _clean_is_due(self) -> bool:
        now = self._clock.monotonic_seconds()
        if now < self._next_clean:
            return False
        self._next_clean = now + self._config.clean_interval_seconds
        return True

    async def _clean(self) -> int:
        total = 0
        after: bytes | None = b""
        while after is not None and not self._stopping.is_set():
            deleted, after = await self._outbox.clean_batch(
                after, self._config.published_retention_seconds, self._config.clean_batch_rows
            )
            total += deleted
            self._metrics.cleaned.inc(deleted)
        if total:
            _logger.info("published rows cleaned", extra={"rows": total})
        return total

    async def _run(self) -> None:
        while not self._stopping.is_set():
            await self.run_once()
            try:
                async with asyncio.timeout(self._config.gauge_interval_seconds):
                    await self._stopping.wait()
            except TimeoutError:
                pass
