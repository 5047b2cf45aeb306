"""What simulated clients send: one item with its credential, its content, and the text that identifies the content."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from taskstatus.application.heartbeats import BeatDraft
from taskstatus.application.identity import ExecutionBinding, Role, ServiceIdentity
from taskstatus.application.report import EventDraft
from taskstatus.domain.commands import ActivateAttempt, Caller, DynamicStep, EventContent, StatedFields
from taskstatus.domain.ids import TaskId
from taskstatus.domain.state import FailurePolicy
from tests.simulation.options import INTERVAL_SECONDS, TIMEOUT_SECONDS
from tests.simulation.ports import ProcessClock

SCOPE = "documents"
COORDINATOR, EXECUTOR, WORKER, STRANGER = "coordinator", "policy-executor", "document-parser", "stranger"
OPERATION = "DOCUMENT.PARSE"
FOR_EVER = float("inf")


def a_service(tenant_id: str, producer_id: str) -> ServiceIdentity:
    """A verified service with every role: roles are judged before the application service."""
    return ServiceIdentity(tenant_id, SCOPE, producer_id, frozenset(Role), producer_id, FOR_EVER)


@dataclass(frozen=True, slots=True)
class Assignment:
    """An execution that a worker was given, with its credentials."""

    binding: ExecutionBinding
    token: str
    handle: str


@dataclass(frozen=True, slots=True)
class Item:
    """One event as one client sends it."""

    identity: ServiceIdentity
    task_id: TaskId
    """The task that the credential, or the coordinator, names."""
    stream: bytes
    content: EventContent
    stated: StatedFields
    token: str = ""
    handle: str = ""

    @property
    def text(self) -> str:
        """The same for the same resolved command: what the canonical hash covers (E-3)."""
        target = "" if self.token or self.handle else f"{self.stated.step_id}/{self.stated.step_attempt}"
        return f"{self.identity.tenant_id}/{self.identity.producer_id}/{self.stream.hex()}/{target}/{self.content!r}"

    def draft(self, clock: ProcessClock) -> EventDraft:
        """As a transport of the process with this clock decodes it."""
        return EventDraft(
            caller=self.identity,
            execution_token=self.token,
            execution_handle=self.handle,
            stated=self.stated,
            content=self.content,
            transport="simulated",
            received_monotonic=clock.monotonic_seconds(),
            received_unix=clock.unix_seconds(),
            trace_id=None,
            traceparent="",
        )


@dataclass(frozen=True, slots=True)
class Pulse:
    """One heartbeat as a worker sends it."""

    identity: ServiceIdentity
    assignment: Assignment
    heartbeat_seq: int

    def draft(self, clock: ProcessClock) -> BeatDraft:
        """As a transport of the process with this clock decodes it."""
        return BeatDraft(
            caller=self.identity,
            execution_token="",
            execution_handle=self.assignment.handle,
            stated=StatedFields(),
            heartbeat_seq=self.heartbeat_seq,
            round_trip_ms=0.0,
            transport="simulated",
            received_monotonic=clock.monotonic_seconds(),
            received_unix=clock.unix_seconds(),
            trace_id=None,
        )


def an_activation(
    tenant_id: str,
    producer_id: str,
    task_id: TaskId,
    step_id: str,
    attempt: int,
    command_id: str,
    input_ref: str,
    *,
    is_dynamic: bool,
) -> ActivateAttempt:
    """ActivateStep, or RegisterExecution; the digest belongs to the content, as the wire's does."""
    text = f"{task_id.hex()}/{step_id}/{attempt}/{input_ref}/{is_dynamic}"
    dynamic = DynamicStep(None, OPERATION, WORKER, "Dynamic", FailurePolicy.FAIL_TASK, 0)
    return ActivateAttempt(
        caller=Caller(tenant_id, SCOPE, producer_id),
        command_id=command_id,
        task_id=task_id,
        task_attempt=0,
        step_id=step_id,
        step_attempt=attempt,
        input_ref=input_ref,
        heartbeat_interval_seconds=INTERVAL_SECONDS,
        heartbeat_timeout_seconds=TIMEOUT_SECONDS,
        dynamic=dynamic if is_dynamic else None,
        canonical=text.encode(),
        digest=hashlib.sha256(text.encode()).digest(),
    )
