"""The current state of a task and of its step attempts: what the domain reads, decides on and evolves.

What is frozen at creation stands in ``TaskEnvelope`` and ``StepDefinition``; the rest changes with events. All times
are naive UTC ``datetime`` values of the database's clock, with microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum

from taskstatus.domain.health import Health, shown_health
from taskstatus.domain.ids import ExecutionId, TaskId, WorkflowId
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.progress import Progress
from taskstatus.domain.quick_dataclasses import dataclass
from taskstatus.domain.registration_terms import DEFAULT_TERMS, RegistrationTerms
from taskstatus.domain.workflow_aggregate import NO_MEMBERS, AggregationPolicy, MemberCounts


class FailurePolicy(StrEnum):
    """What a step's failure means for its task; never a terminal (L-6)."""

    FAIL_TASK = "FAIL_TASK"
    RETRY_THEN_FAIL_TASK = "RETRY_THEN_FAIL_TASK"
    CONTINUE_WITH_WARNING = "CONTINUE_WITH_WARNING"
    WAIT_FOR_USER = "WAIT_FOR_USER"


class DurationSource(StrEnum):
    """How a duration was obtained (Q-2)."""

    WORKER_MONOTONIC = "WORKER_MONOTONIC"
    SERVER_WALL_CLOCK = "SERVER_WALL_CLOCK"
    WALL_CLOCK_ESTIMATE = "WALL_CLOCK_ESTIMATE"


PERMISSIONS = ("VIEW", "OPERATE", "ADMIN")
"""Each includes the ones before it."""

SUPERSEDED = "SUPERSEDED"
SKIPPED = "SKIPPED"
TASK_ENDED = "TASK_ENDED"


@dataclass(frozen=True, slots=True)
class StepError:
    """A failure in a bounded, scrubbed form; ``diagnostics_ref`` never reaches a projection (E-12)."""

    category: str
    code: str
    message: str
    retryable: bool
    diagnostics_ref: str


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """What failed a task, as the coordinator stated it."""

    code: str
    message: str
    category: str
    retryable: bool
    failed_step_id: str


@dataclass(frozen=True, slots=True)
class TaskEnvelope:
    """What no event changes: fixed at creation (ID-1), but for the labels and the classification that commands set."""

    task_id: TaskId
    workflow_id: WorkflowId
    bucket: int
    tenant_id: str
    authority_scope: str
    owner_id: str
    client_task_key: str
    creation_digest: bytes
    title: str
    task_type: str
    product_id: str
    priority: int
    coordinator_producer: str
    policy_executors: tuple[str, ...]
    input_ref: str
    created_at: datetime
    status_definition_version: int | None = None
    """The status definition of its type; 0: the generic statuses; None: not classified yet (R-8)."""
    operation_definition_version: int | None = None
    """The newest version of its type's operation definitions; 0: those for any type only; None: not classified."""
    batch_id: str = ""
    parent_task_id: TaskId | None = None
    sensitive: bool = False
    """Whether the workflow's grants do not apply; what everyone may see of the workflow leaves it out (P-4)."""
    terms: RegistrationTerms = DEFAULT_TERMS

    @property
    def is_classified(self) -> bool:
        """Whether type and definitions are bound."""
        return self.status_definition_version is not None

    def may_rule(self, producer_id: str) -> bool:
        """Whether the producer may report the task's own events (E-1)."""
        return producer_id == self.coordinator_producer or producer_id in self.policy_executors


@dataclass(frozen=True, slots=True)
class TaskState:
    """One task and the counters of its current run, changed by difference: no event reads sibling steps."""

    envelope: TaskEnvelope
    attempt: int
    """The run, from 1."""
    version: int
    row_revision: int
    """Raised by every write to the task, its steps or executions, also by those that make no version."""
    lifecycle: Lifecycle
    business_status: str
    cancel_requested: bool
    shared: bool
    """Whether any USER grant besides the owner's exists."""
    weight_total: int
    """Frozen per run."""
    progress_points: int
    """Sum over steps of weight × credited points."""
    open_steps: int
    stale_steps: int
    degraded_steps: int
    producer_seqs: Mapping[str, int]
    """Last accepted ``sourceSeq`` of task events per producer, in this run (E-5)."""
    failure: TaskFailure | None
    started_at: datetime | None
    finished_at: datetime | None
    duration_ms: int | None
    """As the coordinator measured the run."""
    duration_source: DurationSource | None
    committed_at: datetime
    """When ``version`` was committed."""
    summary_schema: str = ""
    summary_data: bytes = b""
    """The fields of the last data that ``task.summary`` may show, as JSON; empty for none (P-2)."""
    open_dynamic: int = 0
    """Executions of dynamic steps that have not ended (R-5)."""

    @property
    def health(self) -> Health:
        """The worse of the flags."""
        return shown_health(stale=self.stale_steps > 0, degraded=self.degraded_steps > 0)


@dataclass(frozen=True, slots=True)
class StepDefinition:
    """What a step is; frozen when it is created or registered."""

    step_id: str
    order: int
    """Position in the manifest, or of registration; for display."""
    dynamic: bool
    parent_execution_id: ExecutionId | None
    operation_code: str
    expected_producer: str
    depends_on: tuple[str, ...]
    failure_policy: FailurePolicy
    display_name: str
    weight: int
    max_run_seconds: int
    depth: int = 0
    """How deep it lies below the manifest, whose steps are at 0 (R-5)."""


@dataclass(frozen=True, slots=True)
class SkipRecord:
    """Why a rerun does not repeat a step, and the STEP_COMPLETED whose result stands in (X-3)."""

    reason: str
    source_event_id: str


@dataclass(frozen=True, slots=True)
class ExecutionTerms:
    """What activation fixed for one attempt."""

    execution_id: ExecutionId
    activation_digest: bytes
    input_ref: str
    heartbeat_interval_seconds: int
    heartbeat_timeout_seconds: int
    definition_version: int = 0
    """The operation definition that this execution runs under for life (L-5); 0 is the generic profile."""
    definition_task_type: str = "*"
    """The task type under which that version was published."""


@dataclass(frozen=True, slots=True)
class StepState:
    """One attempt of one step in one run; a manifest step has no ``terms`` until it is activated (R-10)."""

    task_id: TaskId
    bucket: int
    task_attempt: int
    attempt: int
    definition: StepDefinition
    terms: ExecutionTerms | None
    created_at: datetime
    generation: int = 1
    """Credential generation; only revocation moves it (R-11)."""
    superseded: bool = False
    """Whether a later attempt is current."""
    source_seq: int = 0
    version: int = 0
    """The step's version at this attempt's last change; goes on over attempts and runs (E-6)."""
    lifecycle: Lifecycle = Lifecycle.PENDING
    business_status: str = ""
    stale: bool = False
    degraded: bool = False
    progress: Progress | None = None
    progress_seq: int = 0
    credited_points: int = 0
    """The most points any attempt of this step reached."""
    phase_code: str = ""
    phase_label: str = ""
    data_schema: str = ""
    shown_data: bytes = b""
    """The fields of the last data that ``task.detail`` may show, as JSON; empty for none (P-2)."""
    error: StepError | None = None
    end_reason: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    duration_ms: int | None = None
    duration_source: DurationSource | None = None
    skip: SkipRecord | None = None

    @property
    def key(self) -> tuple[TaskId, int, str, int]:
        """(task, run, step, attempt): the identity of the row (ID-3)."""
        return (self.task_id, self.task_attempt, self.definition.step_id, self.attempt)

    @property
    def health(self) -> Health:
        """The worse of the flags."""
        return shown_health(stale=self.stale, degraded=self.degraded)


@dataclass(frozen=True, slots=True)
class ExternalRef:
    """A number of another system (ID-5)."""

    ref_type: str
    ref_value: str


@dataclass(frozen=True, slots=True)
class Grant:
    """One principal's permission on a task (P-4)."""

    principal_type: str
    principal_id: str
    permission: str

    def includes(self, other: Grant) -> bool:
        """Whether this permission allows at least what the other's does."""
        return PERMISSIONS.index(self.permission) >= PERMISSIONS.index(other.permission)


@dataclass(frozen=True, slots=True)
class WorkflowState:
    """A workflow; its version is its own axis (L-7)."""

    workflow_id: WorkflowId
    bucket: int
    tenant_id: str
    authority_scope: str
    owner_id: str
    client_workflow_key: str
    creation_digest: bytes
    workflow_type: str
    title: str
    coordinator_producer: str
    lifecycle: Lifecycle
    version: int
    task_count: int
    created_at: datetime
    committed_at: datetime
    grants: tuple[Grant, ...] = field(default=())
    aggregation_policy: AggregationPolicy = AggregationPolicy.ALL_SUCCEED
    ruled: bool = False
    """Whether ``lifecycle`` is a coordinator's ruling, which goes before the aggregate."""
    ruling_reason: str = ""
    counts: MemberCounts = NO_MEMBERS
    """Of all its tasks, as the projector saw them last."""
    shared_counts: MemberCounts = NO_MEMBERS
    """Of those that every viewer of the workflow may see: without the sensitive ones (P-4)."""
    health: Health = Health.HEALTHY
    started_at: datetime | None = None
    """When it first was anything but PENDING."""
    finished_at: datetime | None = None
    """When it ended; None again once it goes on."""
    shared_started_at: datetime | None = None
    """As ``started_at``, of what every viewer may see: when a sensitive task ran is nobody else's business (P-4)."""
    shared_finished_at: datetime | None = None
