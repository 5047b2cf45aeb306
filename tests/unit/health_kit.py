"""Leases, beats and observations over the in-memory store: what reconcilers of any number of replicas see and do."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from taskstatus.adapters.canonical import canonicalize
from taskstatus.adapters.memory.health import MemoryOverdueLeases
from taskstatus.adapters.memory.lease_store import MemoryLeaseStore
from taskstatus.application.call_group import CallGroup
from taskstatus.application.health import HealthChanges
from taskstatus.application.ports_health import HealthCandidate, StuckCause
from taskstatus.application.ports_heartbeats import Beat
from taskstatus.domain.commands import TaskEventCommand
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.events import EventType
from taskstatus.domain.health_changes import HealthSign, HealthTerms
from taskstatus.domain.ids import ExecutionId
from taskstatus.domain.lease import LeaseState
from taskstatus.domain.reasons import Reason
from taskstatus.domain.records import ChangeSet
from taskstatus.domain.standing import ExecutionStanding
from taskstatus.domain.state import StepState
from taskstatus.domain.verdicts import Refused, Verdict
from tests.unit.factories import EXECUTION_ID, a_step, a_task, step_event
from tests.unit.service_kit import Kit, drive

TERMS = HealthTerms(lost_after_seconds=300, stuck_after_seconds=120)


@dataclass
class RecordingHealthObserver:
    """Keeps what is measured of health."""

    judged: list[tuple[HealthSign, str]] = field(default_factory=list)
    scanned: list[tuple[int, int]] = field(default_factory=list)
    stuck: list[Mapping[StuckCause, int]] = field(default_factory=list)
    probed: list[tuple[int, int]] = field(default_factory=list)

    def health_judged(self, sign: HealthSign, outcome: str) -> None:
        """Keep it."""
        self.judged.append((sign, outcome))

    def health_scanned(self, candidates: int, held_back: int) -> None:
        """Keep it."""
        self.scanned.append((candidates, held_back))

    def health_probed(self, alive: int, silent: int) -> None:
        """Keep it."""
        self.probed.append((alive, silent))

    def stuck_counted(self, counts: Mapping[StuckCause, int]) -> None:
        """Keep it."""
        self.stuck.append(counts)

    @property
    def accepted(self) -> Counter[HealthSign]:
        """How often each sign was recorded."""
        return Counter(sign for sign, outcome in self.judged if outcome == "accepted")


@dataclass
class DirectWriter:
    """The port EventWriter without lanes: each command in a transaction of its own, at once."""

    kit: Kit
    refuse_with: Reason | None = None
    commands: list[TaskEventCommand] = field(default_factory=list)

    def submit(self, command: TaskEventCommand, _group: CallGroup) -> Awaitable[Verdict]:
        """See the port."""
        self.commands.append(command)
        return self._commit(command)

    async def _commit(self, command: TaskEventCommand) -> Verdict:
        if self.refuse_with is not None:
            return Refused(RefusedError(self.refuse_with, "told to refuse"))
        (verdict,) = await self.kit.commit([command])
        return verdict


class HealthKit(Kit):
    """A running execution (unless told otherwise) with an open lease of 60 seconds."""

    def __init__(self, *steps: StepState, running: bool = True) -> None:
        super().__init__()
        self.overdue_leases = MemoryOverdueLeases(self.store)
        self.lease_store = MemoryLeaseStore(self.store)
        self.health_observer = RecordingHealthObserver()
        self.writer = DirectWriter(self)
        self.changes = HealthChanges(self.writer, canonicalize, self.clock, self.health_observer, TERMS)
        members = steps or (a_step(),)
        self.put(a_task(open_steps=len(members), weight_total=len(members)), *members)
        if running:
            for step in members:
                self._start(step)

    def put_running(self, step: StepState) -> None:
        """Add a step to the task and start it."""
        self.tables.apply(ChangeSet(new_steps=[step]), self.store.clock.read())
        self._start(step)

    def _start(self, step: StepState) -> None:
        self.result(step_event(EventType.STEP_STARTED, 1, of=step, event_id=f"start-{step.definition.step_id}"))

    def wait(self, seconds: float) -> None:
        """Let time pass for the database and for this process."""
        self.store.clock.advance(seconds)
        self.clock.advance(seconds)

    def lease(self, execution_id: ExecutionId = EXECUTION_ID) -> LeaseState:
        """The lease as committed."""
        return self.tables.leases[execution_id].state

    def beat(self, heartbeat_seq: int, execution_id: ExecutionId = EXECUTION_ID) -> None:
        """Persist one beat, received now."""
        drive(self._persist([self._beat_of(execution_id, heartbeat_seq)]))

    async def persist_beats(self, *executions: ExecutionId) -> Mapping[ExecutionId, ExecutionStanding]:
        """Persist the next beat of each, and tell how they stand."""
        return await self._persist([self._beat_of(each, self.lease(each).heartbeat_seq + 1) for each in executions])

    async def _persist(self, beats: Sequence[Beat]) -> Mapping[ExecutionId, ExecutionStanding]:
        return await self.lease_store.persist(beats, self.clock.monotonic_seconds)

    def _beat_of(self, execution_id: ExecutionId, heartbeat_seq: int) -> Beat:
        lease, now = self.lease(execution_id), self.clock.monotonic_seconds()
        return Beat(execution_id, heartbeat_seq, now, lease.interval_seconds, lease.timeout_seconds)

    def overdue(self, limit: int = 100) -> Sequence[HealthCandidate]:
        """What a reconciler would find now."""
        return drive(self.overdue_leases.overdue(limit, None))

    def stale_or_not(self, execution_id: ExecutionId = EXECUTION_ID) -> Sequence[HealthCandidate]:
        """What a signal of a beat would find now."""
        return drive(self.overdue_leases.candidates([execution_id]))

    def record(self, candidates: Sequence[HealthCandidate]) -> list[Verdict]:
        """Let the lanes judge observations."""
        return drive(self.changes.record(candidates))

    def go_stale(self) -> None:
        """Be silent for a timeout, and be found."""
        self.wait(61)
        self.record(self.overdue())
        assert self.step().stale

    def recover(self, heartbeat_seq: int) -> None:
        """Beat again, and be found."""
        self.beat(heartbeat_seq)
        self.record(self.stale_or_not())
        assert not self.step().stale

    def health_events(self) -> list[tuple[str, str]]:
        """(event type, reason) of the facts about health, by version."""
        events = sorted(self.tables.events.values(), key=lambda event: event.task_version)
        kinds = (EventType.STEP_HEALTH_CHANGED, EventType.WORKER_LOST)
        return [(event.event_type.value, event.reason) for event in events if event.event_type in kinds]


def seconds(count: float) -> timedelta:
    """So many."""
    return timedelta(seconds=count)


async def until(condition: Callable[[], object]) -> None:
    """Let other tasks run until it holds."""
    for _ in range(1_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("did not come true")
