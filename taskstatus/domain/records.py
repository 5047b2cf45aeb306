"""What an accepted command leaves behind: rows of the event log, dedup table, outbox, leases and read views.

A ``ChangeSet`` is everything that one transaction writes; the store writes it in the lock order and nothing else (E-6).
"""

from __future__ import annotations

from dataclasses import field
from datetime import datetime
from enum import StrEnum

from taskstatus.domain.events import EventType
from taskstatus.domain.health import Health
from taskstatus.domain.ids import ExecutionId, TaskId, WorkflowId
from taskstatus.domain.lease import LeaseState
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.quick_dataclasses import dataclass
from taskstatus.domain.reasons import Reason
from taskstatus.domain.state import DurationSource, ExternalRef, Grant, StepState, TaskFailure, TaskState, WorkflowState

CANONICAL_VERSION = 1
RUNS_SHOWN = 20
"""Runs that a snapshot and a detail message hold, for their size; what went before them stands in the timeline."""


@dataclass(frozen=True, slots=True)
class ReportResult:
    """The answer to one event (E-7). Both statuses are the task's after the commit."""

    accepted: bool
    task_id: TaskId
    task_version: int
    lifecycle: Lifecycle
    business_status: str
    changed: bool
    step_id: str = ""
    operation_code: str = ""
    step_version: int = 0
    committed_at: datetime | None = None
    duplicate: bool = False
    stale: bool = False
    reason: Reason | None = None
    coalesced: bool = False
    cancel_requested: bool = False
    task_attempt: int = 0
    """The run after a command; 0 in the answers to events, which name it themselves."""
    generation: int = 0
    """The credential generation after a revocation; 0 elsewhere."""


@dataclass(frozen=True, slots=True)
class SeenEvent:
    """The dedup row of an event id: what was committed under it, and the first result (E-3)."""

    digest: bytes
    result: ReportResult


@dataclass(frozen=True, slots=True)
class EventRecord:
    """One immutable row of ``task_event_log``."""

    task_id: TaskId
    bucket: int
    task_version: int
    event_id: str
    workflow_id: WorkflowId
    event_type: EventType
    task_attempt: int
    step_id: str
    step_attempt: int
    execution_id: ExecutionId | None
    superseded_execution_id: ExecutionId | None
    operation_code: str
    step_version: int
    producer_id: str
    source_seq: int
    lifecycle: Lifecycle
    business_status: str
    health: Health
    error_code: str
    data_schema: str
    reason: str
    actor: str
    """``service:<producer>``, ``user:<id>`` or ``taskstatus``."""
    trace_id: bytes | None
    occurred_at: datetime | None
    received_at: datetime
    committed_at: datetime
    duration_ms: int | None
    duration_source: DurationSource | None
    canonical: bytes
    digest: bytes
    shown_data: bytes = b""
    """The fields of its data that the detail may show, as JSON; empty for none."""


@dataclass(frozen=True, slots=True)
class WorkflowEventRecord:
    """One immutable row of ``workflow_event_log``."""

    workflow_id: WorkflowId
    bucket: int
    workflow_version: int
    event_id: str
    event_type: EventType
    task_id: TaskId | None
    actor: str
    trace_id: bytes | None
    committed_at: datetime
    digest: bytes
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ExternalRefRecord:
    """One row of ``task_external_ref``: within tenant and scope a number names one task for good."""

    bucket: int
    tenant_id: str
    authority_scope: str
    ref: ExternalRef
    task_id: TaskId
    created_at: datetime


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One row of ``command_audit``: who ruled what on a task, with the value before and after, as JSON (L-3, R-8)."""

    bucket: int
    audit_id: bytes
    tenant_id: str
    authority_scope: str
    task_id: TaskId
    command_id: str
    action: EventType
    actor: str
    reason: str
    old_value: bytes
    new_value: bytes
    committed_at: datetime


@dataclass(frozen=True, slots=True)
class DedupRecord:
    """One row of ``task_event_dedup``: an event id is unique within its task."""

    task_id: TaskId
    bucket: int
    event_id: str
    digest: bytes
    result: ReportResult


class OutboxKind(StrEnum):
    """What the relay does with a row."""

    PUBLISH = "PUBLISH"
    UNSUBSCRIBE = "UNSUBSCRIBE"
    DISCONNECT = "DISCONNECT"
    AGGREGATE = "AGGREGATE"
    """Not the relay's: the workflow projector recomputes the aggregate (L-7)."""


class Projection(StrEnum):
    """Whose view a message is (P-2)."""

    USER_SUMMARY = "USER_SUMMARY"
    TASK_DETAIL = "TASK_DETAIL"
    WORKFLOW_SUMMARY = "WORKFLOW_SUMMARY"
    PROJECT_BROADCAST = "PROJECT_BROADCAST"
    TENANT_BROADCAST = "TENANT_BROADCAST"
    SYSTEM_BROADCAST = "SYSTEM_BROADCAST"


class Audience(StrEnum):
    """Who receives it; expanded to channels when it is published, never by rows in the write transaction."""

    OWNER = "OWNER"
    USERS = "USERS"
    """The owner and everyone with a USER grant at the time of publishing."""
    VIEWERS = "VIEWERS"
    """Whoever is subscribed to the object's own channel."""
    GRANTEES = "GRANTEES"
    """Everyone with a USER grant at the time of publishing, without the owner."""
    NOBODY = "NOBODY"
    """The service itself."""


class AggregateType(StrEnum):
    """Which version axis a row belongs to."""

    TASK = "TASK"
    WORKFLOW = "WORKFLOW"


@dataclass(frozen=True, slots=True)
class OutboxRecord:
    """One notification to give; a detail row has no payload and is rendered when it is published."""

    outbox_id: bytes
    bucket: int
    aggregate_type: AggregateType
    aggregate_id: bytes
    aggregate_version: int
    kind: OutboxKind
    projection: Projection
    audience: Audience
    tenant_id: str
    owner_id: str
    workflow_id: WorkflowId
    event_type: EventType
    protected: bool
    """Must reach the summary channels as itself (O-3)."""
    payload: bytes | None
    """JSON, ready to publish."""
    traceparent: str
    committed_at: datetime


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """The lease that STEP_STARTED opens; judged by the server's receive time (H-4)."""

    execution_id: ExecutionId
    bucket: int
    task_id: TaskId
    task_attempt: int
    step_id: str
    step_attempt: int
    producer_id: str
    interval_seconds: int
    timeout_seconds: int
    opened_at: datetime
    deadline_at: datetime
    stuck_at: datetime | None = None
    """When the execution has run longer than its step allows (H-8); None without such a limit."""

    def as_opened(self) -> LeaseState:
        """The state that it begins with."""
        return LeaseState(
            execution_id=self.execution_id,
            bucket=self.bucket,
            interval_seconds=self.interval_seconds,
            timeout_seconds=self.timeout_seconds,
            opened_at=self.opened_at,
            deadline_at=self.deadline_at,
            stuck_at=self.stuck_at,
        )


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One row of ``task_run``: a run's frozen beginning and, once it has ended, its outcome (R-7)."""

    task_id: TaskId
    bucket: int
    task_attempt: int
    input_ref: str
    weight_total: int
    created_at: datetime
    reason: str = ""
    """Why it was opened; empty for the first."""
    dynamic_steps: int = 0
    """How many dynamic steps were registered (R-5)."""
    registered_at: tuple[datetime, ...] = ()
    """When the last registrations were, oldest first, as many as the limit per minute looks at (R-5)."""


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run ended (R-7)."""

    lifecycle: Lifecycle
    business_status: str
    progress_points: int
    failure: TaskFailure | None
    started_at: datetime | None
    finished_at: datetime | None
    duration_ms: int | None
    duration_source: DurationSource | None


@dataclass(frozen=True, slots=True)
class RunView:
    """One run with its outcome; None while it goes on."""

    run: RunRecord
    outcome: RunOutcome | None


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A run that a terminal task event ended: leases close and unfinished steps become CANCELLED (L-1)."""

    state: TaskState
    ended_at: datetime


@dataclass(slots=True)
class ChangeSet:
    """Everything one transaction writes. Updated rows appear once, in their last state."""

    new_workflows: list[WorkflowState] = field(default_factory=list)
    workflows: list[WorkflowState] = field(default_factory=list)
    workflow_events: list[WorkflowEventRecord] = field(default_factory=list)
    new_tasks: list[TaskState] = field(default_factory=list)
    new_runs: list[RunRecord] = field(default_factory=list)
    new_task_grants: list[tuple[TaskState, Grant]] = field(default_factory=list)
    tasks: list[TaskState] = field(default_factory=list)
    relabelled: list[TaskState] = field(default_factory=list)
    """Tasks, also among ``tasks``, whose title, type, label, priority or definitions a command changed (R-8)."""
    runs: list[RunRecord] = field(default_factory=list)
    """Runs whose registrations grew."""
    external_refs: list[ExternalRefRecord] = field(default_factory=list)
    new_steps: list[StepState] = field(default_factory=list)
    steps: list[StepState] = field(default_factory=list)
    progressed: set[TaskId] = field(default_factory=set)
    """Tasks, also among ``tasks``, to which nothing but progress was reported: of them and of their changed steps, only
    ``PROGRESS_OF_TASK`` and ``PROGRESS_OF_STEP`` differ from what was read."""
    ended_runs: list[EndedRun] = field(default_factory=list)
    opened_leases: list[LeaseRecord] = field(default_factory=list)
    leases: list[LeaseState] = field(default_factory=list)
    """Changed by health: deadline, staleness and what follows from it; locked and open when they are written."""
    closed_leases: list[tuple[int, ExecutionId]] = field(default_factory=list)
    """(bucket, execution): closed by an end of the execution, never by silence."""
    dedups: list[DedupRecord] = field(default_factory=list)
    events: list[EventRecord] = field(default_factory=list)
    outbox: list[OutboxRecord] = field(default_factory=list)
    settled_triggers: list[tuple[int, bytes]] = field(default_factory=list)
    """(bucket, outbox id) of AGGREGATE rows that the projector has looked into (L-7)."""
    audits: list[AuditRecord] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to commit."""
        return not any(getattr(self, name) for name in self.__slots__)


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task with every attempt of its current run, read in one consistent view (Q-2)."""

    task: TaskState
    steps: tuple[StepState, ...]
    """By order, then attempt."""
    as_of: datetime
    trigger: EventRecord | None = None
    """The event that made the task's version, where it was asked for."""
    runs: tuple[RunView, ...] = ()
    """The last ``RUNS_SHOWN`` runs, the current one last (R-7)."""
    external_refs: tuple[ExternalRef, ...] = ()
    """The numbers that name the task, by type and value (ID-5)."""


@dataclass(frozen=True, slots=True)
class TimelinePage:
    """Committed events after a version, oldest first (Q-1)."""

    events: tuple[EventRecord, ...]
    task_version: int
    has_more: bool
    oldest_task_version: int
    """0 when the task has no event left."""
