"""One run: build the world, let clients and faults act, let it converge, and hand over its history."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Coroutine, Sequence
from functools import partial
from random import Random

from taskstatus.adapters.memory.store import MemoryTaskStore
from taskstatus.adapters.memory.tables import Tables
from taskstatus.application.register import CreatedTask, Registration
from taskstatus.domain.commands import Caller, CreateTask, CreateWorkflow, StepSpec, TaskSpec
from taskstatus.domain.ids import TaskId
from taskstatus.domain.state import FailurePolicy, Grant, TaskState
from tests.history.model import Creation, FinalTables, HealthWatch, History
from tests.simulation.centrifugo import Centrifugo
from tests.simulation.clients import Coordinator, TaskPlan, WorkerHost
from tests.simulation.faults import DISBELIEF_SECONDS, START, DatabaseClock, Faults, Trace
from tests.simulation.items import COORDINATOR, EXECUTOR, OPERATION, SCOPE, WORKER, Assignment
from tests.simulation.line import Line
from tests.simulation.loop import SimulatedLoop
from tests.simulation.nemesis import Nemesis
from tests.simulation.options import Fault, Options, stream
from tests.simulation.outbox import OutboxTable
from tests.simulation.ports import Credentials, ProcessClock
from tests.simulation.relays import Hints, RelayHost, slowest_recovery_seconds
from tests.simulation.replicas import Fleet

TENANTS = ("t-01", "t-02")
OWNER = "auth0|ada"
SAFETY_SECONDS = 60.0
"""Virtual; clients that are not through by then are left to the liveness phase."""
SETTLE_SECONDS = 10.0
"""Virtual: how long a client may take to get its answers once nothing fails any more."""
POLL_SECONDS = 0.1
TOKEN_SECONDS = 3_600.0
WATCH_SECONDS = 12.0
"""Virtual: how long silence is watched without faults; longer than two timeouts."""
MARGIN_SECONDS = 0.5
"""Beyond the times that are configured: calls take time."""
DETECT_SECONDS = 2.0


class World:
    """Everything of one seed."""

    def __init__(self, options: Options, loop: SimulatedLoop, trace: Trace) -> None:
        self._options = options
        self._loop = loop
        self.faults = Faults(options, trace, loop.time)
        self._random = stream(options.seed, "world")
        self._clock = DatabaseClock(loop)
        self._store = MemoryTaskStore(clock=self._clock)
        self._store.refuse = self.faults.refuses
        self._table = OutboxTable(self._store, loop.time)
        self._centrifugo = Centrifugo(loop.time, self._clock.read, trace)
        self._hints = Hints(loop, self.faults)
        credentials = Credentials(ProcessClock(loop, 0.0), TOKEN_SECONDS)
        self._fleet = Fleet(loop, options, self.faults, self._store, credentials, self._hints)
        self._line = Line(loop, options, self.faults, self._fleet, trace)
        self._relays = [
            RelayHost(
                number + 1,
                loop,
                options,
                self.faults,
                self._store,
                self._table,
                self._centrifugo,
                self._hints,
                trace,
            )
            for number in range(options.relays)
        ]
        self._hosts = [WorkerHost(number + 1, options, self._line, self.faults) for number in range(options.hosts)]
        self._beating: list[asyncio.Task[None]] = []
        self._ended_at = 0.0
        self._nemesis = Nemesis(loop, options, self.faults, self._fleet, self._store, self._clock, trace)
        self._trace = trace
        self._notes: list[str] = []

    async def run(self) -> History:
        """Safety with faults, then liveness without, then the end."""
        self._fleet.start_watching()
        relays = [asyncio.ensure_future(relay.run()) for relay in self._relays]
        nemesis = asyncio.ensure_future(self._nemesis.run())
        coordinators = await self._create()
        clients: list[Coordinator | WorkerHost] = [*coordinators, *self._hosts]
        self._beating = [asyncio.ensure_future(host.beat()) for host in self._hosts]
        working = await self._all([client.run() for client in clients], SAFETY_SECONDS)
        nemesis.cancel()
        self._heal()
        converged = working and await self._all([client.settle() for client in clients], SETTLE_SECONDS)
        await self._watch()
        converged = await self._drain() and converged
        await self._fleet.stop()
        await asyncio.gather(*(relay.stop() for relay in self._relays))
        await asyncio.wait(relays)
        return self._history(converged)

    async def _all(self, work: Sequence[Coroutine[object, object, None]], seconds: float) -> bool:
        tasks = [asyncio.ensure_future(one) for one in work]
        _, unfinished = await asyncio.wait(tasks, timeout=seconds)
        for task in unfinished:
            task.cancel()
        for task in tasks:
            if task.done() and not task.cancelled() and task.exception() is not None:
                raise task.exception() or AssertionError
        if unfinished:
            self._notes.append(f"{len(unfinished)} clients were not through after {seconds} s")
        return not unfinished

    def _heal(self) -> None:
        self._trace.add("FAULT", "none from now on")
        self.faults.end()
        self._store.unavailable = False
        self._table.requeue_dead()

    async def _watch(self) -> None:
        """Some hosts go on beating, others never beat again; then what watches over them ends, as in a drain."""
        for host in self._hosts:
            if self._random.randrange(2):
                host.fall_silent(2 * WATCH_SECONDS)
        await asyncio.sleep(WATCH_SECONDS)
        self._ended_at = self._loop.time()
        for beating in self._beating:
            beating.cancel()
        await asyncio.wait(self._beating)
        self._notes.extend(repr(task.exception()) for task in self._beating if not task.cancelled())
        await self._fleet.stop_watching()

    async def _drain(self) -> bool:
        """Wait for the relays; what went DEAD in a request that was on its way is requeued once more."""
        deadline = self._loop.time() + 2 * slowest_recovery_seconds(self._options.relay)
        while self._loop.time() < deadline:
            followed = not self._store.tables.triggers
            if followed and self._table.is_drained and self._table.requeue_dead() == 0:
                return True
            await asyncio.sleep(POLL_SECONDS)
        self._notes.append("the outbox was not drained in time")
        return False

    async def _create(self) -> list[Coordinator]:
        """One workflow for each tenant, with the same keys; the last task of the first one is added later."""
        plans = []
        for place, tenant_id in enumerate(TENANTS):
            count = self._options.tasks - 1 if place == 0 else 1
            specs = [_a_task(f"task-{number + 1}", self._options, self._random) for number in range(count)]
            for task in await self._create_workflow(tenant_id, specs):
                steps = {spec.step_id: 0 for spec in specs[0].steps}
                plans.append(TaskPlan(tenant_id, task.envelope.task_id, steps))
        return [self._coordinator(producer, plan) for plan in plans for producer in self._producers()]

    def _producers(self) -> tuple[str, ...]:
        return (COORDINATOR, EXECUTOR) if self._random.randrange(2) else (COORDINATOR,)

    def _coordinator(self, producer_id: str, plan: TaskPlan) -> Coordinator:
        return Coordinator(producer_id, plan, self._options, self._line, self._assign)

    def _assign(self, assignment: Assignment) -> None:
        self._random.choice(self._hosts).assign(assignment)

    async def _create_workflow(self, tenant_id: str, specs: Sequence[TaskSpec]) -> list[TaskState]:
        """With all tasks but the last at once, where there are several; every command is sent until it is answered."""
        grants = (Grant("USER", "bob", "VIEW"),) if self._random.randrange(2) else ()
        first, added = (specs[:-1], specs[-1:]) if len(specs) > 1 else (specs, ())
        command = _a_workflow(tenant_id, first, grants)
        created = await self._line.create(lambda registration: registration.create_workflow(command))
        tasks = list(created.tasks)
        for spec in added:
            addition = CreateTask(command.caller, "create-2", created.workflow.workflow_id, spec)
            tasks.append((await self._line.create(partial(_add_task, addition))).task)
        for task in tasks:
            envelope = task.envelope
            self._line.creations.append(Creation(envelope.workflow_id, envelope.client_task_key, envelope.task_id))
        return tasks

    def _history(self, converged: bool) -> History:
        defects = [defect for relay in self._relays for defect in relay.defects]
        return History(
            invocations=tuple(self._line.invocations),
            creations=tuple(self._line.creations),
            publications=tuple(self._centrifugo.publications),
            tables=_final(self._store.tables, self._table),
            faultless=self._options.faultless,
            clock_stepped=self.faults.counts[Fault.CLOCK_STEPPED] > 0,
            converged=converged,
            health=self._health(),
            notes=(*self._notes, *self._line.defects, *defects, *self._loop.failures),
        )

    def _health(self) -> HealthWatch:
        persist_seconds = self._options.coalescer.persist_every_seconds + MARGIN_SECONDS
        return HealthWatch(
            origin=START,
            ended_at=self._ended_at,
            beats=tuple(self._line.beats),
            disturbed=tuple(self.faults.disturbed),
            persist_seconds=persist_seconds,
            detect_seconds=DETECT_SECONDS,
            recover_seconds=persist_seconds + MARGIN_SECONDS,
            disbelief_seconds=DISBELIEF_SECONDS,
            lost_after_seconds=self._options.lost_after_seconds,
        )


async def _add_task(command: CreateTask, registration: Registration) -> CreatedTask:
    return await registration.create_task(command)


def _final(tables: Tables, outbox: OutboxTable) -> FinalTables:
    grants: dict[TaskId, tuple[Grant, ...]] = {}
    for (task_id, _, _), grant in tables.grants.items():
        grants[task_id] = (*grants.get(task_id, ()), grant)
    return FinalTables(
        workflows=dict(tables.workflows),
        tasks=dict(tables.tasks),
        steps=dict(tables.steps),
        events=dict(tables.events),
        dedups=dict(tables.dedups),
        leases={execution_id: row.state for execution_id, row in tables.leases.items()},
        grants=grants,
        outbox=outbox.final_rows(),
        workflow_events=dict(tables.workflow_events),
        unfollowed={row.workflow_id for row in tables.triggers.values()},
        runs={key: row.view() for key, row in tables.runs.items()},
        audits=tuple(tables.audits.values()),
    )


def _a_task(key: str, options: Options, random: Random) -> TaskSpec:
    steps = tuple(_a_step(number, random) for number in range(options.steps_per_task))
    return TaskSpec(
        client_task_key=key,
        title="Annual report",
        task_type="DOCUMENT_PROCESS",
        product_id="",
        priority=0,
        input_ref="input://task",
        steps=steps,
        coordinator_producer="",
        policy_executors=(EXECUTOR,),
        grants=(),
        sensitive=False,
        canonical=key.encode(),
        digest=hashlib.sha256(key.encode()).digest(),
    )


def _a_step(number: int, random: Random) -> StepSpec:
    return StepSpec(
        step_id=f"s{number + 1}",
        operation_code=OPERATION,
        expected_producer=WORKER,
        depends_on=(),
        failure_policy=random.choice(tuple(FailurePolicy)),
        display_name="",
        weight=random.randrange(4),
        max_run_seconds=0,
    )


def _a_workflow(tenant_id: str, tasks: Sequence[TaskSpec], grants: tuple[Grant, ...]) -> CreateWorkflow:
    return CreateWorkflow(
        caller=Caller(tenant_id, SCOPE, COORDINATOR),
        command_id="create-1",
        client_workflow_key="order-1",
        owner_id=OWNER,
        title="Import",
        workflow_type="",
        coordinator_producer="",
        grants=grants,
        tasks=tuple(tasks),
        digest=hashlib.sha256(repr(tasks).encode()).digest(),
    )
