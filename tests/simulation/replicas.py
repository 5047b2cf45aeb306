"""Service processes: the product's application service and lanes, over connections of their own to the one store."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

import orjson

from taskstatus.adapters.canonical import canonicalize
from taskstatus.adapters.memory.audit import MemoryAudit
from taskstatus.adapters.memory.health import MemoryStuckWork
from taskstatus.adapters.memory.reader import MemoryTaskReader
from taskstatus.adapters.memory.store import MemoryTaskStore
from taskstatus.application.data_rules import DataRules
from taskstatus.application.executions import ExecutionCommands, ExecutionDirectory
from taskstatus.application.ids_factory import IdFactory
from taskstatus.application.rate_limit import RateLimit, RateLimiter
from taskstatus.application.register import Registration
from taskstatus.application.report import Rejections, Reporting
from taskstatus.application.task_commands import TaskCommands
from taskstatus.application.workflow_projection import WorkflowProjections
from taskstatus.domain.dynamic import DynamicLimits
from taskstatus.domain.notifications import OutboxTools
from taskstatus.runtime.lanes import Lanes
from taskstatus.runtime.shielded_store import ShieldedStore
from taskstatus.runtime.workflow_projector import ProjectorConfig, WorkflowProjector
from tests.simulation.faults import Faults, Process
from tests.simulation.health import ReplicaHealth
from tests.simulation.loop import SimulatedLoop
from tests.simulation.options import Options, stream
from tests.simulation.ports import (
    Credentials,
    GenericDefinitions,
    OneShard,
    ProcessClock,
    SeededRandomness,
    SilentObserver,
)
from tests.simulation.relays import Hints
from tests.simulation.store import SimulatedLeases, SimulatedStore, SimulatedTriggers

T = TypeVar("T")


class Replica:
    """One service process. Killed, it answers nobody; its transactions stop where they are."""

    def __init__(
        self,
        name: str,
        loop: SimulatedLoop,
        options: Options,
        faults: Faults,
        inner: MemoryTaskStore,
        credentials: Credentials,
        hints: Hints,
    ) -> None:
        random = stream(options.seed, name)
        self.process = Process(name, loop, random, options.latency_seconds)
        self.clock = ProcessClock(loop, random.random() * 1_000)
        self.store = ShieldedStore(SimulatedStore(inner, self.process, faults))
        reader = MemoryTaskReader(inner)
        ids = IdFactory(self.clock, SeededRandomness(random))
        tools = OutboxTools(new_id=ids.new, to_json=orjson.dumps)
        observer, definitions = SilentObserver(), GenericDefinitions()
        rules = DataRules(definitions, definitions)
        self.projector = WorkflowProjector(
            SimulatedTriggers(inner, self.process, faults),
            WorkflowProjections(self.store, tools, hints),
            self.clock,
            observer,
            ProjectorConfig(batch=3, group=1),
        )
        self.lanes = Lanes(
            self.store, definitions, OneShard(), self.clock, tools, hints, observer, options.lanes, self.projector.hint
        )
        self.executions = ExecutionCommands(credentials, ExecutionDirectory(reader), reader, self.clock)
        self.watch = ReplicaHealth(
            SimulatedLeases(inner, self.process, faults),
            MemoryStuckWork(inner),
            self.lanes,
            self.executions,
            self.clock,
            options,
            random,
        )
        self.reporting = Reporting(
            self.executions,
            rules,
            canonicalize,
            self.lanes,
            RateLimiter(self.clock, RateLimit()),
            Rejections(observer, MemoryAudit()),
            self.watch.coalescer,
        )
        self.registration = Registration(self.store, self.executions, ids, tools, hints, definitions, DynamicLimits())
        self.commands = TaskCommands(self.store, ExecutionDirectory(reader), definitions, tools, hints)
        self._calls: set[asyncio.Task[object]] = set()

    async def serve(self, work: Coroutine[object, object, T], give_up_after: float | None) -> T | None:
        """Run one call as a server does, in a task of its own.

        None: the caller went away after ``give_up_after`` virtual seconds, or the process died; the outcome is unknown.
        An exception of the work passes through.
        """
        call: asyncio.Task[T] = asyncio.ensure_future(work)
        self._calls.add(call)
        try:
            if give_up_after is not None:
                asyncio.get_running_loop().call_later(give_up_after, call.cancel)
            await asyncio.wait([call])
        finally:
            self._calls.discard(call)
        return None if call.cancelled() else call.result()

    def start(self) -> None:
        """Begin with the loops."""
        self.watch.start()
        self.projector.start()

    def kill(self) -> None:
        """End the process as kill -9 does; callers lose their connections."""
        self.process.killed = True
        self.watch.kill()
        if self.projector._task is not None:
            # Nothing of the product ends a loop without letting it finish; a killed process does.
            self.projector._task.cancel()
        for call in list(self._calls):
            call.cancel()

    async def stop(self) -> None:
        """Drain as SIGTERM does."""
        await self.watch.stop()
        await self.projector.stop()
        await self.lanes.stop()
        await self.store.drain()


class Fleet:
    """The replicas behind one address; a killed one is replaced at once by an empty one."""

    def __init__(
        self,
        loop: SimulatedLoop,
        options: Options,
        faults: Faults,
        inner: MemoryTaskStore,
        credentials: Credentials,
        hints: Hints,
    ) -> None:
        self._loop = loop
        self._options = options
        self._faults = faults
        self._inner = inner
        self._credentials = credentials
        self._hints = hints
        self._started = 0
        self.replicas = [self._start() for _ in range(options.replicas)]
        self.dead: list[Replica] = []

    def kill(self, place: int) -> str:
        """Kill one and start its successor; the name of the dead one."""
        replica = self.replicas[place]
        replica.kill()
        self.dead.append(replica)
        self.replicas[place] = self._start()
        self.replicas[place].start()
        return replica.process.name

    def start_watching(self) -> None:
        """Begin with heartbeats, health and workflows, in the running loop."""
        for replica in self.replicas:
            replica.start()

    async def stop_watching(self) -> None:
        """Persist the beats that are in memory and record no health change any more."""
        await asyncio.gather(*(replica.watch.stop() for replica in self.replicas))

    async def stop(self) -> None:
        """Drain all."""
        await asyncio.gather(*(replica.stop() for replica in self.replicas))

    def _start(self) -> Replica:
        self._started += 1
        name = f"replica-{self._started}"
        return Replica(name, self._loop, self._options, self._faults, self._inner, self._credentials, self._hints)
