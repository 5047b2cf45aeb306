"""Ports around health: which leases are overdue, a second look at a silent worker, stuck work, and what is counted."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum
from typing import Protocol

from taskstatus.domain.health_changes import HealthSign
from taskstatus.domain.ids import ExecutionId, TaskId, WorkflowId

NOT_TAKEN_UP_SECONDS = 30
"""After so long an activated execution that has not started is stuck work (names.md, *Figures*)."""


@dataclass(frozen=True, slots=True)
class HealthCandidate:
    """One open lease with the execution that holds it, read without locks: a reason to look, not yet a fact."""

    tenant_id: str
    authority_scope: str
    workflow_id: WorkflowId
    task_id: TaskId
    task_attempt: int
    step_id: str
    step_attempt: int
    execution_id: ExecutionId
    timeout_seconds: int
    heartbeat_seq: int
    last_sign_at: datetime
    deadline_at: datetime | None
    stale_since: datetime | None
    as_of: datetime
    """The database's clock when it was read."""

    @property
    def sign(self) -> HealthSign:
        """What it would be recorded as."""
        if self.stale_since is None:
            return HealthSign.SILENT
        heard = self.last_sign_at + timedelta(seconds=self.timeout_seconds) > self.as_of
        return HealthSign.BEATING if heard else HealthSign.LOST

    @property
    def moment(self) -> datetime:
        """What tells this observation from others of the same kind (``observation_id``)."""
        return self.stale_since or self.deadline_at or self.last_sign_at


@dataclass(frozen=True, slots=True)
class LeasePosition:
    """A place in the order of deadlines."""

    deadline_at: datetime
    execution_id: ExecutionId


class OverdueLeases(Protocol):
    """Finds what health changes begin with, without locks; every method raises StoreUnavailableError."""

    async def overdue(self, limit: int, after: LeasePosition | None) -> Sequence[HealthCandidate]:
        """Up to ``limit`` open leases whose deadline has passed, by deadline and execution, after a position."""
        ...

    async def nearly(self, limit: int, within_seconds: float, after: LeasePosition | None) -> Sequence[HealthCandidate]:
        """As ``overdue``, but those whose deadline comes within so many seconds."""
        ...

    async def candidates(self, execution_ids: Sequence[ExecutionId]) -> Sequence[HealthCandidate]:
        """The open leases of these executions, by one IN-list."""
        ...


class WorkerProbe(Protocol):
    """Asks whether silent workers are alive after all (H-6): a second way to them, such as a stream that is open."""

    async def alive(self, candidates: Sequence[HealthCandidate]) -> Collection[ExecutionId]:
        """Those of the executions that are known to be at work, within a time of its own; any failure is no answer.

        Their sign of life is on its way into the lease. It takes no task's lock and makes no version (H-2).
        """
        ...


class StuckCause(StrEnum):
    """Why an execution or a task is listed; none of them ever fails it (H-8)."""

    OVER_RUN_TIME = "OVER_RUN_TIME"
    """It runs longer than its step's ``maxRunSeconds``."""
    NOT_TAKEN_UP = "NOT_TAKEN_UP"
    """It was activated and has not started."""
    LONG_STALE = "LONG_STALE"
    """It has been silent for long."""
    LOST_WORKER = "LOST_WORKER"
    """It has been silent for so long that WORKER_LOST was recorded."""
    TASK_OVER_RUN_TIME = "TASK_OVER_RUN_TIME"
    """The task's run takes longer than the task's own ``maxRunSeconds``."""


@dataclass(frozen=True, slots=True)
class StuckExecution:
    """One execution that a person or its coordinator should look at, or a task as a whole."""

    workflow_id: WorkflowId
    task_id: TaskId
    title: str
    task_attempt: int
    step_id: str
    """Empty for a task, as are the attempt and the operation."""
    step_attempt: int
    operation_code: str
    producer_id: str
    """Of a task, its coordinator."""
    execution_id: ExecutionId | None
    """None for a task."""
    causes: tuple[StuckCause, ...]
    since: datetime
    """From when on it counts as stuck, by the database's clock; for NOT_TAKEN_UP by the time in its id."""


class StuckPart(IntEnum):
    """The parts of the list, one after the other."""

    RUNNING = 0
    """Executions that run too long or are silent, by ``since``."""
    WAITING = 1
    """Executions that nobody has taken up, by execution."""
    TASKS = 2
    """Tasks whose run takes too long, by ``since``."""


@dataclass(frozen=True, slots=True)
class StuckPosition:
    """A place in the list."""

    part: StuckPart
    since: datetime
    id: bytes
    """An execution, a task, or the least id of a moment: a position never names work of another tenant."""


@dataclass(frozen=True, slots=True)
class StuckPage:
    """A part of the list; it may be short, and even empty, with more to follow."""

    executions: tuple[StuckExecution, ...]
    next_position: StuckPosition | None
    """Where the next page begins; None at the end."""
    as_of: datetime


class StuckWork(Protocol):
    """Lists and counts stuck work by indexes, without locks; every method raises StoreUnavailableError."""

    async def page(self, tenant_id: str, authority_scope: str, after: StuckPosition | None, limit: int) -> StuckPage:
        """Stuck executions and tasks of one tenant and scope; looks at a bounded number of rows."""
        ...

    async def counts(self) -> Mapping[StuckCause, int]:
        """How many there are by cause, in all tenants together; each counted up to a bound."""
        ...


class HealthObserver(Protocol):
    """What is measured of health; bounded labels only (N-3)."""

    def health_judged(self, sign: HealthSign, outcome: str) -> None:
        """One observation was answered: ``accepted`` when it was recorded, or why not."""
        ...

    def health_scanned(self, candidates: int, held_back: int) -> None:
        """One look at overdue leases found so many, and held back so many of them (H-5)."""
        ...

    def health_probed(self, alive: int, silent: int) -> None:
        """A second check found so many of the silent executions alive, and heard nothing of the others (H-6)."""
        ...

    def stuck_counted(self, counts: Mapping[StuckCause, int]) -> None:
        """How much stuck work there is now."""
        ...
