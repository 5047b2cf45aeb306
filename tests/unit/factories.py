"""Builders of states and commands with valid defaults: a test names only what it is about."""

from __future__ import annotations

import hashlib
from dataclasses import fields, replace
from datetime import datetime
from typing import Any

from taskstatus.adapters.canonical import canonicalize
from taskstatus.domain.business_status import BusinessStatus, StatusDefinition
from taskstatus.domain.commands import (
    ActivateAttempt,
    Actor,
    Caller,
    CreateTask,
    CreateWorkflow,
    Credential,
    DynamicStep,
    EventContent,
    ReportedError,
    StatedFields,
    StepSpec,
    TaskEventCommand,
    TaskSpec,
)
from taskstatus.domain.definitions import DataSchema, OperationDefinition, generic_profile
from taskstatus.domain.events import EXECUTION_EVENTS, EventType
from taskstatus.domain.ids import ExecutionId, TaskId, WorkflowId, bucket_of_owner, make_id
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.progress import Progress
from taskstatus.domain.state import (
    ExecutionTerms,
    FailurePolicy,
    StepDefinition,
    StepState,
    TaskEnvelope,
    TaskState,
)
from taskstatus.domain.task_commands import CommandHead

TENANT, SCOPE, OWNER = "t-01", "documents", "u-88"
COORDINATOR, EXECUTOR, PARSER = "coordinator", "policy-executor", "document-parser"
START = datetime(2026, 11, 30, 8, 0, 0)
UNIX_NOW = 1_796_000_000.0
MONOTONIC_NOW = 1_000.0
BUCKET = bucket_of_owner(TENANT, OWNER)


def an_id(number: int, bucket: int = BUCKET) -> bytes:
    """The ``number``-th id of the tests."""
    return make_id(1_796_000_000_000 + number, bucket, number * 0x9E3779B97F4A7C15)


WORKFLOW_ID = WorkflowId(an_id(1))
TASK_ID = TaskId(an_id(2))
EXECUTION_ID = ExecutionId(an_id(3))

COORDINATOR_CALLER = Caller(TENANT, SCOPE, COORDINATOR)
PARSER_CALLER = Caller(TENANT, SCOPE, PARSER)


def a_digest(text: str) -> bytes:
    """32 bytes that belong to the text."""
    return hashlib.sha256(text.encode()).digest()


def _split(changes: dict[str, Any], part: type) -> dict[str, Any]:
    """Take the changes of a part's fields out of ``changes``."""
    names = {field.name for field in fields(part)}
    return {name: changes.pop(name) for name in list(changes) if name in names}


def an_envelope(**changes: Any) -> TaskEnvelope:
    """What is frozen of the task."""
    envelope = TaskEnvelope(
        task_id=TASK_ID,
        workflow_id=WORKFLOW_ID,
        bucket=BUCKET,
        tenant_id=TENANT,
        authority_scope=SCOPE,
        owner_id=OWNER,
        client_task_key="task-1",
        creation_digest=a_digest("task-1"),
        title="Annual report",
        task_type="DOCUMENT_PROCESS",
        product_id="",
        priority=0,
        coordinator_producer=COORDINATOR,
        policy_executors=(EXECUTOR,),
        input_ref="input://task-1",
        created_at=START,
    )
    return replace(envelope, **changes)


def a_task(**changes: Any) -> TaskState:
    """A PENDING task of one open step; fields of the envelope may be named too."""
    envelope = an_envelope(**_split(changes, TaskEnvelope))
    task = TaskState(
        envelope=envelope,
        attempt=1,
        version=1,
        row_revision=1,
        lifecycle=Lifecycle.PENDING,
        business_status="PENDING",
        cancel_requested=False,
        shared=False,
        weight_total=1,
        progress_points=0,
        open_steps=1,
        stale_steps=0,
        degraded_steps=0,
        producer_seqs={},
        failure=None,
        started_at=None,
        finished_at=None,
        duration_ms=None,
        duration_source=None,
        committed_at=START,
    )
    return replace(task, **changes)


def a_task_in(lifecycle: Lifecycle, **changes: Any) -> TaskState:
    """A task that stands there, with the generic business status."""
    return a_task(**{"lifecycle": lifecycle, "business_status": lifecycle.value, **changes})


def a_definition(**changes: Any) -> StepDefinition:
    """The parse step."""
    definition = StepDefinition(
        step_id="02_parse",
        order=1,
        dynamic=False,
        parent_execution_id=None,
        operation_code="DOCUMENT.PARSE",
        expected_producer=PARSER,
        depends_on=(),
        failure_policy=FailurePolicy.FAIL_TASK,
        display_name="Parse",
        weight=1,
        max_run_seconds=0,
    )
    return replace(definition, **changes)


def some_terms(**changes: Any) -> ExecutionTerms:
    """What activation fixed."""
    return replace(ExecutionTerms(EXECUTION_ID, a_digest("activation"), "input://parse", 15, 60), **changes)


def a_step(*, activated: bool = True, **changes: Any) -> StepState:
    """Attempt 1 of the parse step, PENDING; fields of definition and terms may be named too."""
    definition = a_definition(**_split(changes, StepDefinition))
    terms = some_terms(**_split(changes, ExecutionTerms))
    step = StepState(
        task_id=TASK_ID,
        bucket=BUCKET,
        task_attempt=1,
        attempt=1,
        definition=definition,
        terms=terms if activated else None,
        created_at=START,
        version=1,
        business_status="PENDING",
    )
    return replace(step, **changes)


def a_running_step(**changes: Any) -> StepState:
    """The parse step after its STEP_STARTED."""
    started = {"lifecycle": Lifecycle.RUNNING, "started_at": START, "source_seq": 1, "version": 2}
    return a_step(**{**started, **changes})


def a_failure(**changes: Any) -> ReportedError:
    """The ``error`` of a failed event."""
    return replace(ReportedError("SYSTEM", "PARSE_FAILED", "The document could not be read.", None, ""), **changes)


def progress(current: float, total: float = 100.0, unit: str = "page") -> Progress:
    """So many pages of a hundred."""
    return Progress(current, total, unit)


def content(event_type: EventType, source_seq: int = 1, **changes: Any) -> EventContent:
    """An event's own fields; failures carry an error."""
    event_id = changes.pop("event_id", f"evt-{event_type}-{source_seq}")
    if event_type in (EventType.STEP_FAILED, EventType.TASK_FAILED):
        changes.setdefault("error", a_failure())
    return EventContent(event_id=event_id, event_type=event_type, source_seq=source_seq, **changes)


_COMMAND_DEFAULTS: dict[str, Any] = {
    "stated": StatedFields(),
    "canonical": b"",
    "digest": b"",
    "received_monotonic": MONOTONIC_NOW,
    "received_unix": UNIX_NOW,
    "trace_id": None,
    "traceparent": "",
}


def _finished(command: TaskEventCommand) -> TaskEventCommand:
    canonical, digest = canonicalize(command)
    return replace(command, canonical=canonical, digest=digest)


def a_credential(**changes: Any) -> Credential:
    """A live credential of generation 1 for every event of an execution."""
    return replace(Credential(1, UNIX_NOW + 900, EXECUTION_EVENTS), **changes)


def step_event(event_type: EventType, source_seq: int = 1, *, of: StepState | None = None, **changes: Any) -> Any:
    """An event of an execution; fields of ``EventContent`` or ``TaskEventCommand`` may be named."""
    step = of or a_step()
    assert step.terms is not None
    own = _split(changes, EventContent)
    caller = Caller(TENANT, SCOPE, step.definition.expected_producer)
    resolved = {
        "caller": caller,
        "workflow_id": WORKFLOW_ID,
        "task_id": step.task_id,
        "task_attempt": step.task_attempt,
        "step_id": step.definition.step_id,
        "step_attempt": step.attempt,
        "execution_id": step.terms.execution_id,
        "operation_code": step.definition.operation_code,
        "bound": caller,
        "credential": a_credential(),
    }
    values = {**_COMMAND_DEFAULTS, **resolved, **changes}
    return _finished(TaskEventCommand(content=content(event_type, source_seq, **own), **values))


def task_event(event_type: EventType, source_seq: int = 1, *, by: str = COORDINATOR, **changes: Any) -> Any:
    """An event on a service identity alone: the task's own, or with ``step_id`` the end of a step."""
    own = _split(changes, EventContent)
    caller = Caller(TENANT, SCOPE, by)
    resolved = {
        "caller": caller,
        "workflow_id": None,
        "task_id": TASK_ID,
        "task_attempt": 0,
        "step_id": "",
        "step_attempt": 0,
        "execution_id": None,
        "operation_code": "",
        "bound": caller,
        "credential": None,
    }
    values = {**_COMMAND_DEFAULTS, **resolved, **changes}
    own.setdefault("event_id", f"evt-{by}-{event_type}-{source_seq}")
    return _finished(TaskEventCommand(content=content(event_type, source_seq, **own), **values))


def a_step_spec(step_id: str = "02_parse", **changes: Any) -> StepSpec:
    """One step of a manifest."""
    spec = StepSpec(
        step_id=step_id,
        operation_code="DOCUMENT.PARSE",
        expected_producer=PARSER,
        depends_on=(),
        failure_policy=FailurePolicy.FAIL_TASK,
        display_name="",
        weight=1,
        max_run_seconds=0,
    )
    return replace(spec, **changes)


def a_task_spec(*step_ids: str, key: str = "task-1", **changes: Any) -> TaskSpec:
    """A task to create, with a step for each id."""
    spec = TaskSpec(
        client_task_key=key,
        title="Annual report",
        task_type="DOCUMENT_PROCESS",
        product_id="",
        priority=0,
        input_ref="input://task-1",
        steps=tuple(a_step_spec(step_id) for step_id in step_ids),
        coordinator_producer="",
        policy_executors=(EXECUTOR,),
        grants=(),
        sensitive=False,
        canonical=b"task " + key.encode(),
        digest=a_digest(key),
    )
    return replace(spec, **changes)


def a_workflow_command(*tasks: TaskSpec, **changes: Any) -> CreateWorkflow:
    """Create a workflow with these tasks."""
    command = CreateWorkflow(
        caller=COORDINATOR_CALLER,
        command_id="cmd-workflow",
        client_workflow_key="order-1",
        owner_id=OWNER,
        title="Import",
        workflow_type="",
        coordinator_producer="",
        grants=(),
        tasks=tasks,
        digest=a_digest("order-1"),
    )
    return replace(command, **changes)


def a_task_command(workflow_id: WorkflowId, task: TaskSpec, **changes: Any) -> CreateTask:
    """Add a task to a workflow."""
    return replace(CreateTask(COORDINATOR_CALLER, "cmd-task", workflow_id, task), **changes)


def an_operation(operation_code: str = "DOCUMENT.PARSE", version: int = 1, **changes: Any) -> OperationDefinition:
    """A published definition whose data may show ``pages`` in both projections and ``language`` in the detail."""
    schema = DataSchema(
        name="document.parse.v1",
        events=frozenset({EventType.STEP_PROGRESS, EventType.STEP_COMPLETED}),
        json_schema='{"properties": {"pages": {"type": "integer"}}, "type": "object"}',
        detail_fields=("pages", "language"),
        summary_fields=("pages",),
        max_bytes=1024,
    )
    generic = generic_profile(operation_code)
    return replace(generic, **{"version": version, "schemas": (schema,), **changes})


REVIEWED = StatusDefinition(
    "DOCUMENT_PROCESS",
    1,
    (
        BusinessStatus("QUEUED", Lifecycle.PENDING),
        BusinessStatus("PARSING", Lifecycle.RUNNING, frozenset({"QUEUED", "PENDING", "RUNNING"})),
        BusinessStatus("WAITING_REVIEW", Lifecycle.RUNNING, frozenset({"PARSING"})),
        BusinessStatus("REJECTED", Lifecycle.FAILED, frozenset({"WAITING_REVIEW"})),
        BusinessStatus("PUBLISHED", Lifecycle.SUCCEEDED, frozenset({"WAITING_REVIEW"})),
    ),
)
"""The statuses of documents that a person reviews."""


def an_activation(task_id: TaskId = TASK_ID, step_id: str = "02_parse", attempt: int = 1, **changes: Any) -> Any:
    """Activate an attempt of a step."""
    what = f"{task_id.hex()}/{step_id}/{attempt}"
    command = ActivateAttempt(
        caller=COORDINATOR_CALLER,
        command_id=f"cmd-{step_id}-{attempt}",
        task_id=task_id,
        task_attempt=0,
        step_id=step_id,
        step_attempt=attempt,
        input_ref="",
        heartbeat_interval_seconds=15,
        heartbeat_timeout_seconds=60,
        dynamic=None,
        canonical=what.encode(),
        digest=a_digest(what),
    )
    return replace(command, **changes)


def a_registration(task_id: TaskId = TASK_ID, key: str = "search", attempt: int = 1, **changes: Any) -> Any:
    """Register an execution of a dynamic step."""
    dynamic = replace(
        DynamicStep(None, "SEARCH.WEB", PARSER, "Search", FailurePolicy.FAIL_TASK, 0), **_split(changes, DynamicStep)
    )
    return an_activation(task_id, f"dyn_{key}", attempt, **{"dynamic": dynamic, **changes})


def an_actor(producer: str = COORDINATOR, **changes: Any) -> Actor:
    """The service that gives a command."""
    return replace(Actor(TENANT, SCOPE, producer), **changes)


def a_person(user_id: str = OWNER, **changes: Any) -> Actor:
    """The person who gives a command."""
    return replace(Actor(TENANT, user_id=user_id), **changes)


def a_head(command_id: str = "cmd-1", what: str = "command", **changes: Any) -> CommandHead:
    """The head of a command of the coordinator on the task."""
    head = CommandHead(an_actor(), command_id, TASK_ID, what.encode(), a_digest(what))
    return replace(head, **changes)
