"""Faults of the whole world: outages, dead replicas, a clock that goes back."""

from __future__ import annotations

import asyncio

from taskstatus.adapters.memory.store import MemoryTaskStore
from tests.simulation.faults import DatabaseClock, Faults, Trace
from tests.simulation.loop import SimulatedLoop
from tests.simulation.options import WINDOWS, Fault, Options, stream
from tests.simulation.replicas import Fleet

LONGEST_CALM_SECONDS = 0.6
LONGEST_OUTAGE_SECONDS = 0.8
LONGEST_CLOCK_STEP_SECONDS = 2.0


class Nemesis:
    """Hurts the world at random moments, in the ways that the seed has chosen."""

    def __init__(
        self,
        loop: SimulatedLoop,
        options: Options,
        faults: Faults,
        fleet: Fleet,
        store: MemoryTaskStore,
        clock: DatabaseClock,
        trace: Trace,
    ) -> None:
        self._faults = faults
        self._fleet = fleet
        self._store = store
        self._clock = clock
        self._trace = trace
        self._loop_time = loop.time
        self._random = stream(options.seed, "nemesis")

    async def run(self) -> None:
        """Go on until cancelled."""
        chosen = self._faults.chosen(*WINDOWS)
        while chosen:
            await asyncio.sleep(self._random.random() * LONGEST_CALM_SECONDS)
            await self._hurt(self._random.choice(chosen))

    async def _hurt(self, fault: Fault) -> None:
        self._faults.note(fault)
        if fault is Fault.REPLICA_KILLED:
            name = self._fleet.kill(self._random.randrange(len(self._fleet.replicas)))
            self._trace.add("FAULT", f"{name} is dead")
        elif fault is Fault.CLOCK_STEPPED:
            self._clock.step_back(self._random.random() * LONGEST_CLOCK_STEP_SECONDS)
        elif fault is Fault.STORE_DOWN:
            await self._store_outage()
        elif fault is Fault.PUBLISHER_DOWN:
            self._faults.publisher_is_down = True
            await self._outage()
            self._faults.publisher_is_down = False

    async def _store_outage(self) -> None:
        began = self._loop_time()
        self._store.unavailable = True
        try:
            await self._outage()
        finally:
            self._store.unavailable = False
            self._faults.disturb(began, self._loop_time())

    async def _outage(self) -> None:
        await asyncio.sleep(self._random.random() * LONGEST_OUTAGE_SECONDS)
