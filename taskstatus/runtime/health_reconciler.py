"""Finds silent executions and has the lanes record them as STALE, and later as lost; any number of replicas (H-4, H-5).

One round: read overdue leases by their deadline, without locks → hold back what proves nothing → ask a second time
where there is a second way to the worker, also those whose deadline is near (H-6) → submit the rest to the lanes, which
repeat the condition under the locks. Whichever replica comes first records a silence; for the others it is a repeat or
no longer true.

*Silence proves nothing while beats could not be kept.* The reconciler trusts silence only since its own start, its last
failure to reach the store, and its last stall: before a worker is called silent, or lost, the service must have been
able to hear it for the grace, and for as long as that worker may be silent. So an outage makes no wave of STALE.
Invariants: a round is bounded by the batch, rounds by the pause between them; a full round goes on behind its last
lease, so that leases that are held back never hide others. Nothing here fails a step (B-1).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from taskstatus.application.health import HealthChanges, is_recorded, shows_outage
from taskstatus.application.ports_clock import Clock, Randomness
from taskstatus.application.ports_health import (
    HealthCandidate,
    HealthObserver,
    LeasePosition,
    OverdueLeases,
    StuckWork,
    WorkerProbe,
)
from taskstatus.application.ports_store import StoreUnavailableError
from taskstatus.domain.health_changes import HealthSign
from taskstatus.domain.ids import ExecutionId

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReconcilerConfig:
    """Sizes, and times in seconds; raises ValueError for values that cannot work."""

    batch: int = 100
    grace_seconds: float = 60.0
    """0: silence is believed at once, for tests and for a single machine."""
    busy_pause_seconds: float = 1.0
    """After a full round: with the batch it bounds how many steps go STALE per second."""
    idle_pause_seconds: float = 5.0
    stall_seconds: float = 15.0
    """Rounds that begin further apart show that this process, or its database, stood still."""
    probe_seconds: float = 2.0
    """How long the second check may take."""
    ask_ahead_seconds: float = 10.0
    """How long before its deadline a silent worker is asked: more than a round, so that its answer is persisted before
    any replica may call it silent, also one that has no way to ask it."""
    ask_ahead_batch: int = 1_000
    count_every_seconds: float = 30.0
    """How often stuck work is counted."""

    def __post_init__(self) -> None:
        pauses = (self.busy_pause_seconds, self.idle_pause_seconds, self.probe_seconds, self.count_every_seconds)
        if min(self.batch, self.ask_ahead_batch) < 1 or min(pauses) <= 0 or self.grace_seconds < 0:
            raise ValueError("sizes and times of the health reconciler must be positive")
        if self.stall_seconds <= self.idle_pause_seconds:
            raise ValueError("a stall must be longer than the idle pause")


class HealthReconciler:
    """``start``, idempotent ``stop``, public ``run_once``."""

    def __init__(
        self,
        leases: OverdueLeases,
        changes: HealthChanges,
        stuck: StuckWork,
        clock: Clock,
        randomness: Randomness,
        observer: HealthObserver,
        config: ReconcilerConfig,
        probe: WorkerProbe | None = None,
    ) -> None:
        self._leases = leases
        self._changes = changes
        self._stuck = stuck
        self._clock = clock
        self._randomness = randomness
        self._observer = observer
        self._config = config
        self._probe = probe
        self._position: LeasePosition | None = None
        self._near_position: LeasePosition | None = None
        self._hearing_since: float | None = None
        """This process's monotonic clock since when silence proves something."""
        self._last_round: float | None = None
        self._counted_at: float | None = None
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def run_once(self) -> int:
        """One round; how many changes were recorded. A store that cannot be reached ends it and begins the grace."""
        self._notice_stall()
        try:
            found = await self._leases.overdue(self._config.batch, self._position)
        except StoreUnavailableError as error:
            self._stop_hearing(f"the store cannot be reached: {error}")
            return 0
        self._position = _behind(found) if len(found) == self._config.batch else None
        due = [candidate for candidate in found if self._is_believed(candidate)]
        self._observer.health_scanned(len(found), len(found) - len(due))
        silent = await self._without_the_living(due)
        verdicts = await self._changes.record(silent)
        if any(map(shows_outage, verdicts)):
            self._stop_hearing("health changes could not be written")
        return sum(map(is_recorded, verdicts))

    async def count_stuck(self) -> None:
        """Tell how much stuck work there is (H-8); a store that cannot be reached leaves the last count."""
        try:
            counts = await self._stuck.counts()
        except StoreUnavailableError:
            return
        self._counted_at = self._clock.monotonic_seconds()
        self._observer.stuck_counted(counts)

    def start(self) -> None:
        """Begin looking in the background."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """End the round that runs and begin no other; may be called twice, and without a start."""
        self._stopping.set()
        if self._task is not None:
            await self._task

    def _notice_stall(self) -> None:
        now, last = self._clock.monotonic_seconds(), self._last_round
        self._last_round = now
        if self._hearing_since is None:
            self._hearing_since = now
        elif last is not None and now - last > self._config.stall_seconds:
            self._stop_hearing(f"no round for {now - last:.0f} s")

    def _stop_hearing(self, why: str) -> None:
        """Beats may have gone unheard until now."""
        self._hearing_since = self._clock.monotonic_seconds()
        logger.warning("silence is not believed for a while: %s", why)

    def _is_believed(self, candidate: HealthCandidate) -> bool:
        grace = self._config.grace_seconds
        if candidate.sign is HealthSign.BEATING or not grace:
            return True
        assert self._hearing_since is not None
        heard_for = self._clock.monotonic_seconds() - self._hearing_since
        return heard_for >= max(grace, float(candidate.timeout_seconds))

    async def _without_the_living(self, due: Sequence[HealthCandidate]) -> list[HealthCandidate]:
        """All but those that would go STALE and are found alive."""
        if self._probe is None:
            return list(due)
        silent = [candidate for candidate in due if candidate.sign is HealthSign.SILENT]
        asked = [*silent, *await self._nearly_silent()]
        alive = await self._found_alive(self._probe, asked) if asked else set()
        return [candidate for candidate in due if candidate.execution_id not in alive]

    async def _nearly_silent(self) -> list[HealthCandidate]:
        """Those that are in the last quarter of their patience, and near its end.

        A worker on a stream is asked by the replica that holds the stream; the others, which could not, find its lease
        renewed. In a long silence the rounds walk through all of them.
        """
        config, position = self._config, self._near_position
        try:
            found = await self._leases.nearly(config.ask_ahead_batch, config.ask_ahead_seconds, position)
        except StoreUnavailableError:
            # It only helps; the round itself, or the next one, tells of the outage.
            return []
        self._near_position = _behind(found) if len(found) == config.ask_ahead_batch else None
        return [candidate for candidate in found if _is_near(candidate)]

    async def _found_alive(self, probe: WorkerProbe, asked: Sequence[HealthCandidate]) -> set[ExecutionId]:
        try:
            async with asyncio.timeout(self._config.probe_seconds):
                answered = set(await probe.alive(asked))
        except Exception:
            # A second check that fails is one that found nobody; it must not keep STALE from ever being told.
            logger.warning("silent workers could not be asked a second time", exc_info=True)
            answered = set()
        alive = answered & {candidate.execution_id for candidate in asked}
        self._observer.health_probed(len(alive), len(asked) - len(alive))
        return alive

    async def _run(self) -> None:
        while not self._stopping.is_set():
            await self._round()
            try:
                async with asyncio.timeout(self._pause()):
                    await self._stopping.wait()
            except TimeoutError:
                continue

    async def _round(self) -> None:
        try:
            await self.run_once()
            now = self._clock.monotonic_seconds()
            if self._counted_at is None or now - self._counted_at >= self._config.count_every_seconds:
                await self.count_stuck()
        except Exception:
            # A fault in one round must not leave all workers unwatched.
            logger.exception("a round of the health reconciler failed")

    def _pause(self) -> float:
        """Seconds until the next round, spread by a fifth so that replicas do not march in step."""
        pause = self._config.idle_pause_seconds if self._position is None else self._config.busy_pause_seconds
        return pause * (0.9 + self._randomness.fraction() / 5)


def _behind(found: Sequence[HealthCandidate]) -> LeasePosition | None:
    last = found[-1]
    return None if last.deadline_at is None else LeasePosition(last.deadline_at, last.execution_id)


def _is_near(candidate: HealthCandidate) -> bool:
    """Whether it is in the last quarter of its timeout; short ones are near their deadline all the time."""
    if candidate.stale_since is not None or candidate.deadline_at is None:
        return False
    return candidate.deadline_at - candidate.as_of <= timedelta(seconds=candidate.timeout_seconds / 4)
