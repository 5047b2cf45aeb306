"""The record of one run, the same for a simulation and for real processes: calls, final tables, publications.

Whoever drives a run fills a ``History``; ``validators.py`` judges it. Times of calls are seconds of the driver's own
clock; times of rows and of publications are the database's.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

import orjson

from taskstatus.domain.ids import ExecutionId, TaskId, WorkflowId
from taskstatus.domain.lease import LeaseState
from taskstatus.domain.records import (
    AuditRecord,
    DedupRecord,
    EventRecord,
    OutboxRecord,
    RunView,
    WorkflowEventRecord,
)
from taskstatus.domain.state import Grant, StepState, TaskState, WorkflowState

StepRowKey = tuple[TaskId, int, str, int]
"""(task, run, step, attempt)."""


class Outcome(StrEnum):
    """What a client knows of one item that it sent."""

    OK = "ok"
    """Accepted, changed and not absorbed; a duplicate's repeated first result too."""
    ABSORBED = "absorbed"
    """Accepted inside a newer progress (E-8); a duplicate's repeated first result too."""
    NO_OP = "no-op"
    """Accepted, nothing changed, nothing written (L-2)."""
    REFUSED = "refused"
    """Answered with a reason that says: not written (E-4, L-1, or an error)."""
    UNKNOWN = "unknown"
    """No answer, or UNAVAILABLE or INTERNAL: written or not."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """One item of one call, as its sender saw it."""

    number: int
    """Rises in the order in which calls began, and within a call in the order of its items."""
    call: int
    """Items of one call share it."""
    client: str
    stream: bytes
    """What E-10 keeps in order: the execution, or the task for the coordinator's events."""
    task_id: TaskId
    event_id: str
    """The event's id; for a command that writes an event, the command's (R-6)."""
    content: str
    """The same text for the same content, whatever the credential and the transport."""
    invoked_at: float
    done_at: float
    outcome: Outcome
    version: int | None = None
    """The task version acknowledged, with OK and ABSORBED."""
    duplicate: bool = False
    reason: str = ""
    committed_at: datetime | None = None
    coordinates: StepRowKey | None = None
    """For an activation: the attempt that it asked for; a ``duplicate`` when another command may have made it."""
    execution_id: ExecutionId | None = None
    """For an activation: the execution that it was given."""


@dataclass(frozen=True, slots=True)
class Creation:
    """An acknowledged task and the client key it was created under (ID-3)."""

    workflow_id: WorkflowId
    client_task_key: str
    task_id: TaskId


@dataclass(frozen=True, slots=True)
class Publication:
    """One message that a channel's subscribers received, in the order of the list."""

    channel: str
    data: bytes
    at: datetime
    """The database's clock at receipt."""
    version: int | None = None
    """The version given to the channel's gate."""
    message: Any = field(init=False, compare=False, repr=False)
    """The decoded JSON."""

    def __post_init__(self) -> None:
        """Decode once: every validator reads it."""
        object.__setattr__(self, "message", orjson.loads(self.data))


@dataclass(frozen=True, slots=True)
class Beat:
    """One heartbeat, as its sender saw it; OK, REFUSED or UNKNOWN. Times are seconds of the driver's clock."""

    execution_id: ExecutionId
    heartbeat_seq: int
    sent_at: float
    done_at: float
    outcome: Outcome = Outcome.UNKNOWN
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Window:
    """From when to when, in seconds of the driver's clock."""

    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class HealthWatch:
    """What a run tells about signs of life, and what may be asked of the service while nothing hinders it.

    Times are seconds of the driver's clock.
    """

    origin: datetime
    """The database's clock at second 0."""
    ended_at: float
    """When the tables were read."""
    beats: tuple[Beat, ...]
    disturbed: tuple[Window, ...]
    """While acknowledged beats may have been lost or kept back, and silence or its end may not have been recorded."""
    persist_seconds: float
    """Within so long an acknowledged sign of life is in the database, and what ended is known to streams."""
    detect_seconds: float
    """Within so long after its deadline silence is recorded."""
    recover_seconds: float
    """Within so long an acknowledged sign of life ends STALE."""
    disbelief_seconds: float
    """So long after it was hindered the service believes no silence."""
    lost_after_seconds: float
    """From STALE to WORKER_LOST."""

    def seconds(self, moment: datetime) -> float:
        """The database's time on the driver's clock."""
        return (moment - self.origin).total_seconds()

    def is_disturbed(self, begin: float, end: float) -> bool:
        """Whether a window touches this time."""
        return any(window.begin <= end and window.end >= begin for window in self.disturbed)


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """A row of the outbox and what became of it: PENDING, PROCESSING, PUBLISHED or DEAD."""

    record: OutboxRecord
    status: str


@dataclass(frozen=True, slots=True)
class FinalTables:
    """All rows after the run."""

    workflows: Mapping[WorkflowId, WorkflowState]
    tasks: Mapping[TaskId, TaskState]
    steps: Mapping[StepRowKey, StepState]
    events: Mapping[tuple[TaskId, int], EventRecord]
    dedups: Mapping[tuple[TaskId, str], DedupRecord]
    leases: Mapping[ExecutionId, LeaseState]
    grants: Mapping[TaskId, tuple[Grant, ...]]
    outbox: tuple[OutboxRow, ...]
    """But for the triggers of the workflow projector."""
    workflow_events: Mapping[tuple[WorkflowId, int], WorkflowEventRecord]
    unfollowed: Set[WorkflowId]
    """Workflows with triggers that are left."""
    runs: Mapping[tuple[TaskId, int], RunView]
    audits: tuple[AuditRecord, ...]

    def log_of(self, task_id: TaskId) -> list[EventRecord]:
        """A task's events by rising version."""
        return sorted((row for row in self.events.values() if row.task_id == task_id), key=lambda row: row.task_version)

    def steps_of(self, task_id: TaskId) -> list[StepState]:
        """Every attempt of every step of a task, of all runs."""
        return [step for step in self.steps.values() if step.task_id == task_id]


AttemptKey = tuple[int, str, int]
"""(run, step, attempt) of one task."""
StepStatus = tuple[str, int, str, str]
"""(step, attempt, version, lifecycle) as a detail message shows it."""


@dataclass(frozen=True, slots=True)
class Fold:
    """What replaying one task's log gave."""

    task: TaskState
    steps: Mapping[AttemptKey, StepState]
    """Of all runs."""
    shown: Mapping[int, tuple[str, list[StepStatus]]]
    """The task's lifecycle and the steps of its run at each version."""
    ends: Mapping[int, TaskState]
    """The task as each earlier run left it, by the number of the run."""
    contradictions: tuple[str, ...]
    """Versions whose event row says otherwise than the replay; after one that cannot be applied the replay ends."""
    is_complete: bool


@dataclass(frozen=True, slots=True)
class History:
    """One run."""

    invocations: tuple[Invocation, ...]
    creations: tuple[Creation, ...]
    publications: tuple[Publication, ...]
    tables: FinalTables
    faultless: bool = False
    """No fault was injected at all: nothing may be published twice (O-6)."""
    clock_stepped: bool = False
    """The database's clock went back during the run, so its times cannot be compared across machines."""
    converged: bool = True
    """The driver saw the faults end, every client answered and the relays idle before it read the tables."""
    notes: tuple[str, ...] = field(default=())
    """Defects that the driver itself met: an exception out of a port, a task that died, a call that never ended."""
    health: HealthWatch | None = None
    """None when nobody beat in this run: then silence is judged by the rows alone."""
    folds: dict[TaskId, Fold] = field(default_factory=dict, compare=False, repr=False)
    """Replays that validators share (``fold.fold_of``)."""
