"""Writes rejected reports in the background: a bounded queue, batches, and what does not fit is counted (N-4).

A flood of bad reports must cost the good ones nothing: ``record`` never waits, a failing store drops the batch after
one try, and rows older than the retention are deleted a few at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from taskstatus.application.ports_audit import AuditStore, RejectedReport
from taskstatus.application.ports_clock import Clock
from taskstatus.application.ports_store import StoreUnavailableError

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AuditConfig:
    """Sizes and times; raises ValueError for values that cannot work."""

    max_queued: int = 10_000
    batch: int = 500
    flush_every_seconds: float = 1.0
    retention_seconds: float = 7 * 86_400.0
    clean_batch: int = 1_000

    def __post_init__(self) -> None:
        if min(self.max_queued, self.batch, self.clean_batch) < 1 or self.flush_every_seconds <= 0:
            raise ValueError("audit sizes and times must be positive")


class AuditWriter:
    """The port RejectionAudit; ``start``, idempotent ``stop`` that writes what is queued, public ``run_once``."""

    def __init__(self, store: AuditStore, clock: Clock, on_dropped: Callable[[int], None], config: AuditConfig) -> None:
        self._store = store
        self._clock = clock
        self._on_dropped = on_dropped
        self._config = config
        self._queue: deque[RejectedReport] = deque()
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    def record(self, report: RejectedReport) -> None:
        """See the port."""
        if len(self._queue) >= self._config.max_queued:
            self._on_dropped(1)
            return
        self._queue.append(report)

    async def run_once(self) -> int:
        """Write one batch, delete a few old rows; the number of records written."""
        batch = [self._queue.popleft() for _ in range(min(len(self._queue), self._config.batch))]
        try:
            if batch:
                await self._store.append(batch)
            await self._store.clean(
                self._clock.unix_seconds() - self._config.retention_seconds, self._config.clean_batch
            )
        except StoreUnavailableError as error:
            if batch:
                self._on_dropped(len(batch))
                logger.warning("rejected reports could not be kept: %s", error, extra={"records": len(batch)})
            return 0
        return len(batch)

    def start(self) -> None:
        """Begin writing in the background."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Write what is queued, as far as the store takes it, and end; may be called twice."""
        self._stopping.set()
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                async with asyncio.timeout(self._config.flush_every_seconds):
                    await self._stopping.wait()
            except TimeoutError:
                await self._write_queued()
        await self._write_queued()

    async def _write_queued(self) -> None:
        while await self.run_once() and self._queue:
            continue
