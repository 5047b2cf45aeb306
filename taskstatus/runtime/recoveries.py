"""STALE executions that beat again (port ``HealthSignals``): told by heartbeats, recorded through the lanes (H-4).

A signal costs the heartbeat nothing: it is kept in a bounded set, latest wins, and recorded in the background. A signal
that is lost, with the process or because the set is full, is given again by the next beat; and the reconciler finds a
beaten lease too when its escalation is due. So a worker that beats is never left STALE.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from taskstatus.application.health import HealthChanges, is_recorded, is_to_be_repeated
from taskstatus.application.ports_health import OverdueLeases
from taskstatus.application.ports_store import StoreUnavailableError
from taskstatus.domain.health_changes import HealthSign
from taskstatus.domain.ids import ExecutionId
from taskstatus.domain.standing import ExecutionStanding

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RecoveriesConfig:
    """Sizes and times; raises ValueError for values that cannot work."""

    max_waiting: int = 20_000
    batch: int = 100
    retry_seconds: float = 1.0
    """After a failure of the store."""

    def __post_init__(self) -> None:
        if min(self.max_waiting, self.batch) < 1 or self.retry_seconds <= 0:
            raise ValueError("sizes and times of recoveries must be positive")


class Recoveries:
    """The port HealthSignals; ``start``, idempotent ``stop``, public ``run_once``."""

    def __init__(self, leases: OverdueLeases, changes: HealthChanges, config: RecoveriesConfig) -> None:
        self._leases = leases
        self._changes = changes
        self._config = config
        self._waiting: dict[ExecutionId, None] = {}
        self._told = asyncio.Event()
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def beating(self, standing: ExecutionStanding) -> None:
        """See the port."""
        self._keep(standing.execution_id)

    @property
    def waiting(self) -> int:
        """Executions whose recovery is not recorded yet."""
        return len(self._waiting)

    async def run_once(self) -> int:
        """Record one batch; the number of recoveries. What the store could not take is kept for the next run."""
        batch = list(self._waiting)[: self._config.batch]
        for execution_id in batch:
            del self._waiting[execution_id]
        try:
            found = await self._leases.candidates(batch) if batch else []
        except StoreUnavailableError:
            self._keep(*batch)
            return 0
        beating = [candidate for candidate in found if candidate.sign is HealthSign.BEATING]
        verdicts = await self._changes.record(beating)
        for candidate, verdict in zip(beating, verdicts, strict=True):
            if is_to_be_repeated(verdict):
                self._keep(candidate.execution_id)
        return sum(map(is_recorded, verdicts))

    def start(self) -> None:
        """Begin recording in the background."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Record what is waiting, once, and end; may be called twice."""
        self._stopping.set()
        self._told.set()
        if self._task is not None:
            await self._task

    def _keep(self, *execution_ids: ExecutionId) -> None:
        for execution_id in execution_ids:
            if len(self._waiting) < self._config.max_waiting:
                self._waiting[execution_id] = None
                self._told.set()

    async def _run(self) -> None:
        while not self._stopping.is_set():
            await self._told.wait()
            self._told.clear()
            recorded = await self._record()
            if self._waiting:
                self._told.set()
                if not recorded:
                    await self._rest()
        await self._record()

    async def _record(self) -> int:
        try:
            return await self.run_once()
        except Exception:
            # A fault in one round must not end the recording of all later ones; the next beat tells it again.
            logger.exception("recoveries could not be recorded")
            return 0

    async def _rest(self) -> None:
        try:
            async with asyncio.timeout(self._config.retry_seconds):
                await self._stopping.wait()
        except TimeoutError:
            return
