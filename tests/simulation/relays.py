"""Relay processes: the product's loop over simulated ports, killed and stopped at any of them, and started again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from opentelemetry.trace import NoOpTracer
from prometheus_client import CollectorRegistry

from relay.config import RelayConfig
from relay.loop import RelayLoop
from relay.metrics import RelayMetrics
from relay.rendering import BatchRenderer
from relay.wakeup import OnHint
from taskstatus.adapters.memory.reader import MemoryTaskReader
from taskstatus.adapters.memory.store import MemoryTaskStore
from taskstatus.domain.projections import render_detail
from tests.simulation.centrifugo import Centrifugo, SimulatedPublisher
from tests.simulation.faults import Faults, Process, ProcessKilledError, Trace
from tests.simulation.loop import SimulatedLoop
from tests.simulation.options import Fault, Options, stream
from tests.simulation.outbox import OutboxTable, RelayOutbox
from tests.simulation.ports import ProcessClock, SeededRandomness
from tests.simulation.store import RelayReader

LONGEST_DOWN_SECONDS = 2.0
VERSION_EPOCH = "1"


class Hints:
    """Ports ``WakeUp`` and ``WakeUpListener``: every running relay hears a hint, unless it is lost."""

    def __init__(self, loop: SimulatedLoop, faults: Faults) -> None:
        self._loop = loop
        self._faults = faults
        self._listeners: list[OnHint] = []

    def hint(self) -> None:
        """See ``WakeUp``."""
        for listener in self._listeners:
            if not self._faults.happens(Fault.HINT_LOST):
                self._loop.call_soon(listener)

    async def start(self, on_hint: OnHint) -> None:
        """See ``WakeUpListener``."""
        self._listeners.append(on_hint)

    async def stop(self) -> None:
        """See ``WakeUpListener``; a hint to a stopped loop does nothing."""


class _RelayProcess(Process):
    """A process that dies or stands still at any crossing of its border."""

    def __init__(
        self, name: str, loop: SimulatedLoop, random: Random, options: Options, faults: Faults, die: Callable[[], None]
    ) -> None:
        super().__init__(name, loop, random, options.latency_seconds)
        self._faults = faults
        self._die = die
        self._lease_seconds = options.relay.lease_seconds

    async def enter(self) -> None:
        if self._faults.happens(Fault.RELAY_KILLED, self.name):
            self.killed = True
            self._die()
        if self._faults.happens(Fault.RELAY_PAUSED, self.name):
            self.stop_for(self._lease_seconds * (0.5 + self._faults.random.random()))
        await super().enter()


class RelayHost:
    """Keeps one relay running: what an orchestrator does after a crash."""

    def __init__(
        self,
        number: int,
        loop: SimulatedLoop,
        options: Options,
        faults: Faults,
        store: MemoryTaskStore,
        table: OutboxTable,
        server: Centrifugo,
        hints: Hints,
        trace: Trace,
    ) -> None:
        self._name = f"relay-{number}"
        self._loop = loop
        self._options = options
        self._faults = faults
        self._store = store
        self._table = table
        self._server = server
        self._hints = hints
        self._trace = trace
        self._random = stream(options.seed, self._name)
        self._metrics = RelayMetrics(CollectorRegistry())
        self._stopping = False
        self._relay: RelayLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self.defects: list[str] = []

    async def run(self) -> None:
        """Start the relay, and again after each death, until ``stop``."""
        while not self._stopping:
            self._relay = self._make_relay()
            self._task = await self._relay.start()
            await asyncio.wait([self._task])
            cause = None if self._task.cancelled() else self._task.exception()
            if cause is not None and not isinstance(cause, ProcessKilledError):
                self.defects.append(f"{self._name} died of {cause!r}")
                return
            if not self._stopping:
                await asyncio.sleep(self._random.random() * LONGEST_DOWN_SECONDS)

    async def stop(self) -> None:
        """Drain and end."""
        self._stopping = True
        if self._relay is not None:
            await self._relay.stop()

    def _kill(self) -> None:
        assert self._task is not None
        self._task.cancel()

    def _make_relay(self) -> RelayLoop:
        options, faults = self._options, self._faults
        process = _RelayProcess(self._name, self._loop, self._random, options, faults, self._kill)
        reader = RelayReader(MemoryTaskReader(self._store), process, faults)
        return RelayLoop(
            outbox=RelayOutbox(self._table, process, faults, self._trace),
            renderer=BatchRenderer(reader, render_detail, VERSION_EPOCH),
            publisher=SimulatedPublisher(self._server, process, faults),
            wakeup=self._hints,
            clock=ProcessClock(self._loop, self._random.random() * 1_000),
            randomness=SeededRandomness(self._random),
            config=options.relay,
            metrics=self._metrics,
            tracer=NoOpTracer(),
        )


def slowest_recovery_seconds(config: RelayConfig) -> float:
    """How long a row may wait once nothing fails any more: lease, rest, an outage's pause, a restart, a poll."""
    return (
        2 * config.lease_seconds
        + config.backoff_most_seconds
        + config.outage_most_seconds
        + config.poll_idle_seconds
        + LONGEST_DOWN_SECONDS
    )
