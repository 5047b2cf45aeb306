"""Heartbeats and health of one simulated process: the product's coalescer, recoveries and reconciler over its ports."""

from __future__ import annotations

from random import Random

from taskstatus.adapters.canonical import canonicalize
from taskstatus.adapters.memory.audit import MemoryAudit
from taskstatus.application.executions import ExecutionCommands
from taskstatus.application.health import HealthChanges
from taskstatus.application.heartbeats import Heartbeats
from taskstatus.application.links import Links
from taskstatus.application.ports_health import StuckWork
from taskstatus.application.ports_heartbeats import BoundBeats
from taskstatus.application.ports_runtime import EventWriter
from taskstatus.application.ports_store import StoreUnavailableError
from taskstatus.application.rate_limit import RateLimit, RateLimiter
from taskstatus.domain.health_changes import HealthTerms
from taskstatus.domain.heartbeat import TermBounds
from taskstatus.domain.ids import ExecutionId
from taskstatus.domain.reasons import Reason
from taskstatus.domain.standing import ExecutionStanding
from taskstatus.runtime.health_reconciler import HealthReconciler
from taskstatus.runtime.heartbeat_coalescer import HeartbeatCoalescer
from taskstatus.runtime.recoveries import Recoveries, RecoveriesConfig
from tests.simulation.items import Pulse
from tests.simulation.options import Options
from tests.simulation.ports import ProcessClock, SeededRandomness, SilentObserver
from tests.simulation.store import SimulatedLeases

BEATS_PER_SECOND, BURST_BEATS = 200_000.0, 400_000.0
BOUNDS = TermBounds(persist_seconds=1)
UNBOUND_ONE_IN = 8


class ReplicaHealth:
    """What watches over executions in one process."""

    def __init__(
        self,
        leases: SimulatedLeases,
        stuck: StuckWork,
        writer: EventWriter,
        executions: ExecutionCommands,
        clock: ProcessClock,
        options: Options,
        random: Random,
    ) -> None:
        observer, links = SilentObserver(), Links()
        self._leases = leases
        self._executions = executions
        self._random = random
        self._bound: dict[ExecutionId, BoundBeats] = {}
        terms = HealthTerms(options.lost_after_seconds, options.lost_after_seconds)
        changes = HealthChanges(writer, canonicalize, clock, observer, terms)
        self._recoveries = Recoveries(leases, changes, RecoveriesConfig(retry_seconds=0.1))
        self.coalescer = HeartbeatCoalescer(leases, clock, self._recoveries, observer, links, BOUNDS, options.coalescer)
        self._reconciler = HealthReconciler(
            leases, changes, stuck, clock, SeededRandomness(random), observer, options.reconciler
        )
        self._heartbeats = Heartbeats(
            executions,
            leases,
            self.coalescer,
            links,
            RateLimiter(clock, RateLimit(BEATS_PER_SECOND, BURST_BEATS)),
            clock,
            observer,
            MemoryAudit(),
            BOUNDS,
            token_ttl_seconds=3_600,
        )
        self._clock = clock
        self._loops = (self.coalescer, self._recoveries, self._reconciler)

    def start(self) -> None:
        """Begin watching."""
        for loop in self._loops:
            loop.start()

    async def beat_unary(self, pulses: list[Pulse]) -> list[Reason | None]:
        """BatchHeartbeat: why each was not accepted."""
        answers = await self._heartbeats.beat_all([pulse.draft(self._clock) for pulse in pulses])
        return [answer.reason for answer in answers]

    async def beat_bound(self, pulses: list[Pulse]) -> list[Reason | None]:
        """As a stream that has bound the executions answers, now and then after it was closed and opened again."""
        return [await self._beat_bound(pulse) for pulse in pulses]

    async def _beat_bound(self, pulse: Pulse) -> Reason | None:
        execution_id = pulse.assignment.binding.execution_id
        if self._random.randrange(UNBOUND_ONE_IN) == 0:
            self._unbind(execution_id)
        if execution_id not in self._bound:
            end = await self._bind(execution_id)
            if end is not None:
                return end
        # Told of its end while others came in between.
        bound = self._bound.get(execution_id)
        return Reason.UNAVAILABLE if bound is None else bound.beat(pulse.heartbeat_seq, 0.0)

    async def _bind(self, execution_id: ExecutionId) -> Reason | None:
        try:
            standing = (await self._leases.standings([execution_id]))[execution_id]
        except StoreUnavailableError:
            return Reason.UNAVAILABLE
        if standing.end is None:
            self._unbind(execution_id)
            self._bound[execution_id] = self.coalescer.bind(standing, self._restand)
        return standing.end

    def _restand(self, standing: ExecutionStanding) -> None:
        if standing.end is not None:
            self._unbind(standing.execution_id)

    def _unbind(self, execution_id: ExecutionId) -> None:
        bound = self._bound.pop(execution_id, None)
        if bound is not None:
            bound.close()

    def kill(self) -> None:
        """End as kill -9 does: what is in memory is lost."""
        for loop in self._loops:
            # Nothing of the product ends a loop without letting it finish; a killed process does.
            task = loop._task
            assert task is not None
            task.cancel()

    async def stop(self) -> None:
        """As at a drain: what is in memory is persisted and recorded; may be called twice."""
        await self._reconciler.stop()
        await self.coalescer.stop()
        await self._recoveries.stop()
