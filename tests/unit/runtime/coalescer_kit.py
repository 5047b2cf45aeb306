"""A coalescer over the in-memory store, with a clock that a test moves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from taskstatus.adapters.memory.clock import MemoryDatabaseClock
from taskstatus.adapters.memory.lease_store import MemoryLeaseStore
from taskstatus.adapters.memory.store import MemoryTaskStore
from taskstatus.application.links import Links
from taskstatus.application.ports_heartbeats import Beat
from taskstatus.domain.heartbeat import TermBounds
from taskstatus.domain.ids import ExecutionId
from taskstatus.domain.lease import LeaseState
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.records import ChangeSet
from taskstatus.domain.standing import ExecutionStanding
from taskstatus.runtime.heartbeat_coalescer import CoalescerConfig, HeartbeatCoalescer
from tests.contract import records
from tests.unit.beats_kit import RecordingBeats, RecordingSignals
from tests.unit.factories import START
from tests.unit.service_kit import FakeClock, drive

PERIOD = 15.0
SOON = 0.2


class CoalescerKit:
    """Executions with their leases, and a coalescer that a test drives by ``pass_time``."""

    def __init__(self, executions: int = 1, *, started: bool = True, **config: Any) -> None:
        self.clock = FakeClock()
        self.store = MemoryTaskStore(clock=MemoryDatabaseClock(START))
        self.leases = MemoryLeaseStore(self.store)
        self.signals, self.observer = RecordingSignals(), RecordingBeats()
        self.coalescer = HeartbeatCoalescer(
            self.leases, self.clock, self.signals, self.observer, Links(), TermBounds(), CoalescerConfig(**config)
        )
        workflow = records.workflow()
        task = records.task(workflow.workflow_id, steps=executions, lifecycle=Lifecycle.RUNNING)
        self.steps = [records.step(task, number + 1) for number in range(executions)]
        self.store.tables.apply(records.creation(workflow, (task, self.steps)), START)
        if started:
            for number in range(executions):
                self.start_step(number)

    def start_step(self, number: int = 0) -> None:
        """STEP_STARTED is committed."""
        self.change(number, lifecycle=Lifecycle.RUNNING)
        lease = records.lease(self.steps[number], self.store.clock.read())
        self.store.tables.apply(ChangeSet(opened_leases=[lease]), START)

    def change(self, number: int = 0, **changes: Any) -> None:
        """Something else is committed about a step."""
        step = self.steps[number] = replace(self.steps[number], **changes)
        self.store.tables.steps[step.key] = step

    def turn_stale(self, number: int = 0) -> None:
        """The reconciler has found it silent."""
        self.change(number, stale=True)
        row = self.store.tables.leases[self.id(number)]
        state = replace(row.state, stale_since=self.store.clock.read())
        self.store.tables.leases[self.id(number)] = replace(row, state=state)

    def id(self, number: int = 0) -> ExecutionId:
        """An execution."""
        return records.execution_of(self.steps[number])

    def lease(self, number: int = 0) -> LeaseState:
        """Its lease as persisted."""
        return self.store.tables.leases[self.id(number)].state

    def standing(self, number: int = 0) -> ExecutionStanding:
        """How it stands in the store."""
        return drive(self.leases.standings([self.id(number)]))[self.id(number)]

    def beat(self, seq: int = 1, number: int = 0) -> bool:
        """A unary beat that was judged."""
        beat = Beat(self.id(number), seq, self.clock.monotonic, 15, 60)
        return self.coalescer.take(beat, self.standing(number))

    def run(self) -> None:
        """One look of the loop."""
        drive(self.coalescer.run_once())

    def pass_time(self, seconds: float = PERIOD) -> None:
        """Let time pass, for the process and the database, then look."""
        self.clock.advance(seconds)
        self.store.clock.advance(seconds)
        self.run()

    def told(self, number: int = 0, **changes: Any) -> tuple[Any, list[ExecutionStanding]]:
        """A stream's binding, and what it is told."""
        told: list[ExecutionStanding] = []
        return self.coalescer.bind(replace(self.standing(number), **changes), told.append), told
