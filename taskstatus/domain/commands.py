"""Commands: what a caller wants recorded, resolved and checked in form, before any state is read."""

from __future__ import annotations

from dataclasses import field
from datetime import datetime

from taskstatus.domain.definitions import JsonObject
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.events import EventType
from taskstatus.domain.health_changes import HealthObservation
from taskstatus.domain.ids import ExecutionId, TaskId, WorkflowId
from taskstatus.domain.progress import Progress
from taskstatus.domain.quick_dataclasses import dataclass
from taskstatus.domain.registration_terms import DEFAULT_TERMS, RegistrationTerms
from taskstatus.domain.scrubbing import scrubbed
from taskstatus.domain.state import DurationSource, ExternalRef, FailurePolicy, Grant, StepError
from taskstatus.domain.workflow_aggregate import AggregationPolicy


@dataclass(frozen=True, slots=True)
class Caller:
    """The verified service behind a command."""

    tenant_id: str
    authority_scope: str
    producer_id: str


@dataclass(frozen=True, slots=True)
class Actor:
    """Who gives a command: a verified service, or a verified person with what their claims say."""

    tenant_id: str
    authority_scope: str = ""
    """Empty for a person: people belong to a tenant, not to a scope."""
    producer_id: str = ""
    user_id: str = ""
    projects: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    is_admin: bool = False
    """A service with the admin role, which rules on every task of its scope."""

    @property
    def is_person(self) -> bool:
        """Whether a person gives it."""
        return bool(self.user_id)

    @property
    def name(self) -> str:
        """``service:<producer>`` or ``user:<id>``, as the event log names it."""
        return f"user:{self.user_id}" if self.is_person else f"service:{self.producer_id}"


def actor_of(caller: Caller) -> Actor:
    """The service behind a caller."""
    return Actor(caller.tenant_id, caller.authority_scope, caller.producer_id)


@dataclass(frozen=True, slots=True)
class Credential:
    """What the execution token or handle of a report proved (its signature or MAC was right)."""

    generation: int
    expires_at: float | None
    """Unix seconds; None for a handle, which dies with its generation only."""
    allowed_events: frozenset[EventType]


@dataclass(frozen=True, slots=True)
class EventData:
    """``data`` of an event, opaque to the domain but for what was found wrong with it."""

    schema: str
    wire: bytes
    """The deterministic serialisation of the value."""
    value: JsonObject = field(default_factory=dict)
    shown: bytes = b""
    """The fields that the detail may show, as JSON; empty for none."""
    summary: bytes = b""
    """The fields that the summary may show, as JSON; empty for none."""
    fault: RefusedError | None = None
    """PAYLOAD_TOO_LARGE or INVALID_ARGUMENT, answered at its place in the order of guards (E-2)."""


@dataclass(frozen=True, slots=True)
class ReportedError:
    """``error`` of an event as sent; ``retryable`` None means not told."""

    category: str
    code: str
    message: str
    retryable: bool | None
    diagnostics_ref: str

    def settled(self) -> StepError:
        """As it is kept and shown: the message scrubbed, and by default another attempt may help (E-12)."""
        retryable = self.retryable is not False
        return StepError(self.category, self.code, scrubbed(self.message), retryable, self.diagnostics_ref)


@dataclass(frozen=True, slots=True)
class StatedFields:
    """What the full form repeats of the binding; empty or zero where it was silent. Must match, never decides."""

    workflow_id: str = ""
    task_id: str = ""
    task_attempt: int = 0
    step_id: str = ""
    step_attempt: int = 0
    execution_id: str = ""
    operation_code: str = ""
    producer_id: str = ""
    task_type: str = ""


@dataclass(frozen=True, slots=True)
class EventContent:
    """The event's own fields, the same in full and compact form."""

    event_id: str
    event_type: EventType
    source_seq: int
    business_status: str = ""
    occurred_at: datetime | None = None
    duration_ms: int | None = None
    duration_source: DurationSource | None = None
    progress: Progress | None = None
    progress_seq: int = 0
    phase_code: str = ""
    phase_label: str = ""
    data: EventData | None = None
    error: ReportedError | None = None
    failed_step_id: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TaskEventCommand:
    """One event, resolved to full ids: the single form that every transport leads to (E-9).

    With a ``credential`` it comes from an execution and names it wholly; without one it is the coordinator's, on its
    service identity alone: ``execution_id`` is None, and ``step_id`` is empty for task events.
    """

    caller: Caller
    content: EventContent
    workflow_id: WorkflowId | None
    task_id: TaskId
    task_attempt: int
    """0 for the coordinator's events: the current run."""
    step_id: str
    step_attempt: int
    """0 with a step id: the step's latest attempt."""
    execution_id: ExecutionId | None
    operation_code: str
    bound: Caller
    """Whom the credential is bound to; the caller itself for the coordinator's events."""
    credential: Credential | None
    stated: StatedFields
    canonical: bytes
    """Canonical bytes, version 1 (E-3)."""
    digest: bytes
    """SHA-256 over the version byte and ``canonical``."""
    received_monotonic: float
    """This process's monotonic clock at receipt, in seconds."""
    received_unix: float
    """This process's wall clock at receipt, in seconds; judges the credential's expiry only."""
    trace_id: bytes | None
    traceparent: str
    observed: HealthObservation | None = None
    """Set for a health change, which the service itself records; it has guards of its own (H-4)."""


@dataclass(frozen=True, slots=True)
class StepSpec:
    """One step of a manifest, checked in form."""

    step_id: str
    operation_code: str
    expected_producer: str
    depends_on: tuple[str, ...]
    failure_policy: FailurePolicy | None
    """None: the operation definition's, else FAIL_TASK."""
    display_name: str
    weight: int
    max_run_seconds: int


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One task to create, checked in form."""

    client_task_key: str
    title: str
    task_type: str
    product_id: str
    priority: int
    input_ref: str
    steps: tuple[StepSpec, ...]
    coordinator_producer: str
    """Empty: the workflow's."""
    policy_executors: tuple[str, ...]
    grants: tuple[Grant, ...]
    sensitive: bool
    canonical: bytes
    """The request's deterministic form; kept with the TASK_CREATED event."""
    digest: bytes
    """Of the canonical form, for the conflict rule of ID-3."""
    terms: RegistrationTerms = DEFAULT_TERMS
    status_definition_version: int | None = None
    """With a task type, as asked for: 0 is the newest. Once bound: what the envelope keeps."""
    operation_definition_version: int | None = None
    batch_id: str = ""
    parent_task_id: TaskId | None = None
    external_refs: tuple[ExternalRef, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateWorkflow:
    """Create a workflow with its first tasks (R-1)."""

    caller: Caller
    command_id: str
    client_workflow_key: str
    owner_id: str
    title: str
    workflow_type: str
    coordinator_producer: str
    grants: tuple[Grant, ...]
    tasks: tuple[TaskSpec, ...]
    digest: bytes
    trace_id: bytes | None = None
    traceparent: str = ""
    aggregation_policy: AggregationPolicy = AggregationPolicy.ALL_SUCCEED


@dataclass(frozen=True, slots=True)
class CreateTask:
    """Add one task to a workflow (ID-3)."""

    caller: Caller
    command_id: str
    workflow_id: WorkflowId
    task: TaskSpec
    trace_id: bytes | None = None
    traceparent: str = ""


@dataclass(frozen=True, slots=True)
class ActivateAttempt:
    """Give one attempt of a step its execution: ActivateStep, or RegisterExecution when ``dynamic`` is set."""

    caller: Caller
    command_id: str
    task_id: TaskId
    task_attempt: int
    """0: the current run."""
    step_id: str
    step_attempt: int
    input_ref: str
    heartbeat_interval_seconds: int
    heartbeat_timeout_seconds: int
    dynamic: DynamicStep | None
    canonical: bytes
    """The request's deterministic form without its command id; kept with the event."""
    digest: bytes
    trace_id: bytes | None = None
    traceparent: str = ""
    parent: ParentCredential | None = None
    """Set when the parent execution itself registers the child; None for the coordinator."""


@dataclass(frozen=True, slots=True)
class ParentCredential:
    """The credential of a running execution that registers a child under itself; its signature or MAC was right."""

    credential: Credential
    grants_children: bool
    """Whether it says REGISTER_CHILD_EXECUTION."""
    received_unix: float
    """This process's wall clock at receipt, in seconds; judges the expiry only."""


@dataclass(frozen=True, slots=True)
class DynamicStep:
    """The definition that a registration brings along."""

    parent_execution_id: ExecutionId | None
    operation_code: str
    producer_id: str
    display_name: str
    failure_policy: FailurePolicy | None
    """None: the operation definition's, else FAIL_TASK."""
    max_run_seconds: int
