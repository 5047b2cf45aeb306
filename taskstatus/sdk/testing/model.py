"""What the fake service keeps: workflows, tasks and the attempts of their steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NoReturn

from google.protobuf.message import Message
from taskstatus_pb.v1 import (
    common_pb2,
    query_service_pb2,
    register_service_pb2,
    report_service_pb2,
    task_commands_pb2,
)

Event = report_service_pb2.ReportEventRequest
Answer = report_service_pb2.ReportEventResponse

TERMINAL: Final = frozenset({"SUCCEEDED", "FAILED", "CANCELLED", "TIMED_OUT"})
WAITING: Final = frozenset({"RETRY_WAIT", "WAITING_USER_ACTION"})


class FakeRefusal(Exception):  # noqa: N818 - a refusal of the service under test, told over gRPC
    """A refused call, by the name of its reason."""

    def __init__(self, reason: str, message: str, violations: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.violations = violations or {}


def refuse(reason: str, message: str) -> NoReturn:
    """Raise the refusal."""
    raise FakeRefusal(reason, message)


def invalid(field_path: str, description: str) -> NoReturn:
    """Raise INVALID_ARGUMENT for one field."""
    raise FakeRefusal("INVALID_ARGUMENT", f"{field_path} {description}", {field_path: description})


@dataclass
class FakeAttempt:
    """One attempt of one step."""

    spec: register_service_pb2.StepSpec
    number: int
    task_attempt: int = 1
    """The run that it belongs to."""
    dynamic: bool = False
    parent_execution_id: str = ""
    depth: int = 0
    execution_id: str = ""
    """Empty until it is activated."""
    activation: bytes = b""
    """What it was activated with; other content for the same attempt is a conflict."""
    input_ref: str = ""
    version: int = 1
    """Of the step; goes on over attempts and runs."""
    lifecycle: str = "PENDING"
    superseded: bool = False
    generation: int = 1
    """Credentials of an earlier one are revoked."""
    source_seq: int = 0
    heartbeat_interval_seconds: int = 0
    """What its worker is told; 0: not to beat. May be changed at any time."""
    heartbeat_seq: int = 0
    """Of the last accepted beat."""
    token_serial: int = 1
    progress: common_pb2.Progress | None = None
    credited: float = 0.0
    """The furthest that any attempt of the step came, from 0 to 1."""
    phase_code: str = ""
    phase_label: str = ""
    error: common_pb2.EventError | None = None
    end_reason: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    duration_ms: float | None = None
    skip: task_commands_pb2.SkippedStep | None = None

    @property
    def handle(self) -> str:
        """The only handle that is accepted."""
        return f"exh_{self.execution_id}-{self.generation}"

    @property
    def token(self) -> str:
        """A token that is accepted, as are the ones before it since the last revocation."""
        return f"token_{self.execution_id}-{self.generation}-{self.token_serial}"

    @property
    def degrades(self) -> bool:
        """Whether its failure is one that the task goes on with."""
        policy = self.spec.failure_policy
        return self.lifecycle == "FAILED" and not self.superseded and policy == common_pb2.CONTINUE_WITH_WARNING

    def end(self, lifecycle: str, reason: str, at: datetime) -> None:
        """The service ends it, unless it has ended."""
        if self.lifecycle in TERMINAL:
            return
        self.lifecycle, self.end_reason, self.finished_at = lifecycle, reason, at
        self.version += 1

    def revoke(self) -> None:
        """Make its credentials worthless, without a version; RevokeExecution does it as a command."""
        self.generation += 1


@dataclass
class FakeTask:
    """One task; ``events`` are the committed ones as they were reported, ``timeline`` all of them."""

    task_id: str
    workflow_id: str
    coordinator: str
    spec: register_service_pb2.TaskSpec
    """As it is now labelled and classified."""
    content: bytes
    """As it was created."""
    created_at: datetime
    committed_at: datetime
    run_created_at: datetime
    version: int = 1
    attempt: int = 1
    """The run."""
    run_reason: str = ""
    lifecycle: str = "PENDING"
    business_status: str = "PENDING"
    cancel_requested: bool = False
    failure: query_service_pb2.TaskFailure | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    duration_ms: float | None = None
    steps: dict[str, list[FakeAttempt]] = field(default_factory=dict)
    """Of the current run."""
    earlier_runs: list[query_service_pb2.RunSnapshot] = field(default_factory=list)
    step_versions: dict[str, int] = field(default_factory=dict)
    """Of the steps of earlier runs."""
    events: list[Event] = field(default_factory=list)
    timeline: list[query_service_pb2.TimelineEvent] = field(default_factory=list)
    task_seqs: dict[str, int] = field(default_factory=dict)
    external_refs: list[tuple[str, str]] = field(default_factory=list)

    def current(self, step_id: str) -> FakeAttempt:
        """The latest attempt of a step."""
        if step_id not in self.steps:
            refuse("STEP_NOT_FOUND", "the task has no such step")
        return self.steps[step_id][-1]

    def attempts(self) -> list[FakeAttempt]:
        """Every attempt of the current run, step by step."""
        return [attempt for step in self.steps.values() for attempt in step]

    def may_rule(self, producer: str) -> bool:
        """Whether the producer may report the task's own events, and command it."""
        return producer == self.coordinator or producer in self.spec.policy_executors

    @property
    def health(self) -> str:
        """HEALTHY or DEGRADED; the fake never finds a worker silent."""
        return "DEGRADED" if any(attempt.degrades for attempt in self.attempts()) else "HEALTHY"

    @property
    def percent(self) -> float | None:
        """Weighted progress, 0–100; None when no step has a weight."""
        current = [step[-1] for step in self.steps.values()]
        total = sum(weight_of(attempt) for attempt in current)
        if not total:
            return None
        return 100.0 * sum(weight_of(attempt) * attempt.credited for attempt in current) / total


@dataclass
class FakeWorkflow:
    """One workflow; its status follows its tasks as soon as they change."""

    workflow_id: str
    request: register_service_pb2.CreateWorkflowRequest
    content: bytes
    coordinator: str
    title: str
    created_at: datetime
    updated_at: datetime
    version: int = 1
    ruling: str = ""
    """Goes before what its tasks say."""
    ruling_reason: str = ""
    shown: tuple[object, ...] = ()
    """What its version stands for: its version rises when that changes."""
    started_at: datetime | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True)
class Held:
    """What a credential names."""

    task: FakeTask
    attempt: FakeAttempt
    revoked: bool
    """Whether the credential's generation has passed."""


def weight_of(attempt: FakeAttempt) -> int:
    """Its step's share of the task's progress; dynamic steps have none."""
    if attempt.dynamic:
        return 0
    return attempt.spec.weight if attempt.spec.HasField("weight") else 1


def content_of(request: Message, *without: str) -> bytes:
    """What must be the same under the same id: the method and everything but ids of commands and credentials."""
    content = type(request)()
    content.CopyFrom(request)
    for name in ("execution_token", "execution_handle", "command_id", *without):
        if name in content.DESCRIPTOR.fields_by_name:
            content.ClearField(name)
    return content.DESCRIPTOR.name.encode() + b"\x1f" + content.SerializeToString(deterministic=True)
