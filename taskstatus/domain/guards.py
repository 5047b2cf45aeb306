"""The guards of an event, one ordered tuple: the first that objects answers, on every transport alike (E-2).

The first guard, *caller authentic*, is a signature and lies in the adapters; everything a guard here sees has passed
it. ``GUARDS`` is data: tests, the reference page and the precedence of errors are derived from it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Protocol

from taskstatus.domain.business_status import StatusDefinition, lifecycle_of, may_follow
from taskstatus.domain.commands import EventContent, StatedFields, TaskEventCommand
from taskstatus.domain.events import COORDINATOR_STEP_EVENTS, EventType
from taskstatus.domain.ids import (
    ExecutionId,
    TaskId,
    WorkflowId,
    parse_execution_id,
    parse_task_id,
    parse_workflow_id,
)
from taskstatus.domain.lease import LeaseState
from taskstatus.domain.lifecycle import TARGET_OF_EVENT, Lifecycle, may_move
from taskstatus.domain.progress import goes_back
from taskstatus.domain.quick_dataclasses import dataclass
from taskstatus.domain.reasons import Reason
from taskstatus.domain.records import SeenEvent
from taskstatus.domain.state import StepState, TaskState
from taskstatus.domain.verdicts import Duplicate, Refused, Verdict, late, no_op, refused

OLDEST_ACCEPTED_EVENT = timedelta(days=7)
"""Default of the oldest event that can still be deduplicated (names.md, *Figures*)."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """All that the guards look at: one command against the locked state."""

    command: TaskEventCommand
    now: datetime
    """The database's clock."""
    task: TaskState | None
    step: StepState | None
    """The attempt that the credential (or the coordinator) names."""
    seen: SeenEvent | None
    oldest_accepted: timedelta = OLDEST_ACCEPTED_EVENT
    lease: LeaseState | None = None
    """Read for health changes only."""
    statuses: StatusDefinition | None = None
    """The statuses that the task is bound to; None: the generic ones, or the event names none."""

    @property
    def known_task(self) -> TaskState:
        """The task, once the guard for it has passed."""
        assert self.task is not None
        return self.task

    @property
    def known_step(self) -> StepState:
        """The step, once the guard for it has passed; only for step events."""
        assert self.step is not None
        return self.step

    @property
    def is_step_event(self) -> bool:
        """Whether the event is about a step."""
        return bool(self.command.step_id)


@dataclass(frozen=True, slots=True)
class Guard:
    """One rule: its name, the spec id it comes from, the reasons it can give, and its check."""

    name: str
    spec: str
    reasons: tuple[Reason, ...]
    check: Callable[[Judgement], Verdict | None]


class BoundFields(Protocol):
    """What a credential binds and a caller may repeat in its own words."""

    @property
    def workflow_id(self) -> WorkflowId | None: ...
    @property
    def task_id(self) -> TaskId: ...
    @property
    def task_attempt(self) -> int: ...
    @property
    def step_id(self) -> str: ...
    @property
    def step_attempt(self) -> int: ...
    @property
    def execution_id(self) -> ExecutionId | None: ...


def _credential_is_the_callers(j: Judgement) -> Verdict | None:
    command = j.command
    caller, bound = command.caller, command.bound
    if (caller.tenant_id, caller.authority_scope) != (bound.tenant_id, bound.authority_scope):
        return refused(Reason.TOKEN_MISMATCH, "the credential belongs to another tenant or scope")
    if caller.producer_id != bound.producer_id:
        return refused(Reason.PRODUCER_MISMATCH, "the credential is bound to another producer")
    if command.credential is not None and contradicts(command.stated, command):
        return refused(Reason.TOKEN_MISMATCH, "the fields stated contradict the execution's credential")
    return None


def contradicts(stated: StatedFields, bound: BoundFields) -> bool:
    """Whether a caller's own words name something else than what its credential binds (E-9)."""
    return (
        (bool(stated.task_id) and parse_task_id(stated.task_id) != bound.task_id)
        or (bool(stated.workflow_id) and parse_workflow_id(stated.workflow_id) != bound.workflow_id)
        or (bool(stated.execution_id) and parse_execution_id(stated.execution_id) != bound.execution_id)
        or (bool(stated.step_id) and stated.step_id != bound.step_id)
        or (bool(stated.task_attempt) and stated.task_attempt != bound.task_attempt)
        or (bool(stated.step_attempt) and stated.step_attempt != bound.step_attempt)
    )


def _task_exists(j: Judgement) -> Verdict | None:
    task, caller = j.task, j.command.caller
    visible = task is not None and (
        task.envelope.tenant_id == caller.tenant_id and task.envelope.authority_scope == caller.authority_scope
    )
    stated = j.command.stated.workflow_id
    if not visible or (stated and parse_workflow_id(stated) != j.known_task.envelope.workflow_id):
        return refused(Reason.TASK_NOT_FOUND, "no such task")
    return None


def _step_exists(j: Judgement) -> Verdict | None:
    if j.is_step_event and j.step is None:
        return refused(Reason.STEP_NOT_FOUND, "the task has no such step", stepId=j.command.step_id)
    return None


def _event_is_new(j: Judgement) -> Verdict | None:
    if j.seen is None:
        return None
    if j.seen.digest != j.command.digest:
        return refused(
            Reason.IDEMPOTENCY_CONFLICT,
            "this event id was committed with other content",
            eventId=j.command.content.event_id,
        )
    return Duplicate(j.seen.result)


def _credential_is_live(j: Judgement) -> Verdict | None:
    credential = j.command.credential
    if credential is None:
        return None
    if credential.expires_at is not None and credential.expires_at <= j.command.received_unix:
        return refused(Reason.TOKEN_EXPIRED, "the execution token has expired; renew it")
    if credential.generation < j.known_step.generation:
        return refused(Reason.TOKEN_REVOKED, "the execution's credentials were revoked")
    return None


def _operation_and_producer_match(j: Judgement) -> Verdict | None:
    command, stated = j.command, j.command.stated
    if stated.producer_id and stated.producer_id != command.caller.producer_id:
        return refused(Reason.PRODUCER_MISMATCH, "the producer stated is not the caller")
    if stated.task_type and stated.task_type != j.known_task.envelope.task_type:
        return refused(Reason.TOKEN_MISMATCH, "the task type stated is not the task's")
    if not j.is_step_event:
        return None
    definition = j.known_step.definition
    if command.credential is not None and definition.expected_producer != command.caller.producer_id:
        return refused(Reason.PRODUCER_MISMATCH, "the step expects another producer")
    code = definition.operation_code
    if stated.operation_code not in ("", code) or command.operation_code not in ("", code):
        return refused(Reason.OPERATION_MISMATCH, "the operation is not the step's")
    return None


def _run_attempt_and_execution_are_current(j: Judgement) -> Verdict | None:
    command, task = j.command, j.known_task
    if command.task_attempt and command.task_attempt != task.attempt:
        return late(Reason.STALE_ATTEMPT, task, j.step)
    if not j.is_step_event:
        return None
    step = j.known_step
    if step.superseded or step.task_attempt != task.attempt:
        return late(Reason.STALE_ATTEMPT, task, step)
    named = command.execution_id or _stated_execution(command.stated)
    if named is not None and (step.terms is None or step.terms.execution_id != named):
        return late(Reason.STALE_EXECUTION, task, step)
    return None


def _stated_execution(stated: StatedFields) -> bytes | None:
    """The execution that a coordinator means to end, where it says so; bytes that name none for an odd text."""
    if not stated.execution_id:
        return None
    return parse_execution_id(stated.execution_id) or b""


def _event_type_is_allowed(j: Judgement) -> Verdict | None:
    command, event_type = j.command, j.command.content.event_type
    if command.credential is not None:
        allowed = event_type in command.credential.allowed_events
    else:
        allowed = j.known_task.envelope.may_rule(command.caller.producer_id) and (
            event_type in COORDINATOR_STEP_EVENTS or not j.is_step_event
        )
    if allowed:
        return None
    return refused(Reason.EVENT_TYPE_NOT_ALLOWED, f"this caller may not report {event_type} here", eventType=event_type)


def _data_is_valid(j: Judgement) -> Verdict | None:
    data = j.command.content.data
    if data is None or data.fault is None:
        return None
    return Refused(data.fault)


def _event_is_young_enough(j: Judgement) -> Verdict | None:
    occurred_at = j.command.content.occurred_at
    if occurred_at is not None and occurred_at < j.now - j.oldest_accepted:
        return refused(Reason.EVENT_TOO_OLD, "the event is older than the oldest that can be deduplicated")
    return None


def _sequence_rises(j: Judgement) -> Verdict | None:
    if j.command.content.source_seq > last_sequence(j):
        return None
    return late(Reason.STALE_SEQUENCE, j.known_task, j.step)


def last_sequence(j: Judgement) -> int:
    """The last accepted ``sourceSeq`` of the command's own stream (E-5)."""
    if j.command.credential is not None:
        return j.known_step.source_seq
    return j.known_task.producer_seqs.get(j.command.caller.producer_id, 0)


def _progress_rises(j: Judgement) -> Verdict | None:
    content = j.command.content
    if content.event_type is not EventType.STEP_PROGRESS or j.known_step.lifecycle.is_terminal:
        return None
    step = j.known_step
    if content.progress_seq and content.progress_seq < step.progress_seq:
        return late(Reason.PROGRESS_NOT_MONOTONIC, j.known_task, step)
    if content.progress_seq and content.progress_seq == step.progress_seq:
        return no_op(j.known_task, step)
    if content.progress is not None and goes_back(step.progress, content.progress):
        return late(Reason.PROGRESS_NOT_MONOTONIC, j.known_task, step)
    return no_op(j.known_task, step) if _repeats_what_is_shown(content, step) else None


def _repeats_what_is_shown(content: EventContent, step: StepState) -> bool:
    """A progress that would change nothing anybody sees (L-2)."""
    return (
        step.lifecycle is Lifecycle.RUNNING
        and (content.progress is None or content.progress == step.progress)
        and content.phase_code in ("", step.phase_code)
        and content.phase_label in ("", step.phase_label)
        and content.business_status in ("", step.business_status)
        and not content.progress_seq
        and content.data is None
    )


def _lifecycle_allows(j: Judgement) -> Verdict | None:
    task, event_type = j.known_task, j.command.content.event_type
    target = TARGET_OF_EVENT[event_type]
    current = j.known_step.lifecycle if j.is_step_event else task.lifecycle
    if current is target and (current.is_terminal or event_type is not EventType.STEP_PROGRESS):
        return no_op(task, j.step)
    if current.is_terminal or task.lifecycle.is_terminal:
        return late(Reason.TERMINAL, task, j.step)
    if event_type is EventType.STEP_PROGRESS:
        return None if current is Lifecycle.RUNNING else _not_allowed(current, event_type)
    return None if may_move(current, target) else _not_allowed(current, event_type)


def _not_allowed(current: Lifecycle, event_type: EventType) -> Verdict:
    return refused(
        Reason.TRANSITION_NOT_ALLOWED,
        f"{event_type} is not allowed while {current}",
        eventType=event_type,
        lifecycleStatus=current,
    )


def _business_status_fits(j: Judgement) -> Verdict | None:
    status = j.command.content.business_status
    if not status:
        return None
    if lifecycle_of(status, j.statuses) is not task_lifecycle_after(j):
        return refused(
            Reason.BUSINESS_STATUS_NOT_REGISTERED,
            "the business status is not registered for the task's lifecycle after this event",
            businessStatus=status,
        )
    current = j.known_task.business_status
    if not may_follow(status, current, j.statuses):
        return refused(
            Reason.TRANSITION_NOT_ALLOWED,
            f"the task's definition does not allow this business status after {current}",
            businessStatus=status,
            currentBusinessStatus=current,
        )
    return None


def task_lifecycle_after(j: Judgement) -> Lifecycle:
    """Where the task stands once the event is accepted: the first STEP_STARTED of a run moves it to RUNNING (E-7)."""
    task, event_type = j.known_task, j.command.content.event_type
    if not j.is_step_event:
        return TARGET_OF_EVENT[event_type]
    starts = event_type is EventType.STEP_STARTED and task.lifecycle is Lifecycle.PENDING
    return Lifecycle.RUNNING if starts else task.lifecycle


GUARDS: tuple[Guard, ...] = (
    Guard(
        "credential is the caller's own",
        "E-2",
        (Reason.TOKEN_MISMATCH, Reason.PRODUCER_MISMATCH),
        _credential_is_the_callers,
    ),
    Guard("task exists", "E-2", (Reason.TASK_NOT_FOUND,), _task_exists),
    Guard("step exists", "R-3", (Reason.STEP_NOT_FOUND,), _step_exists),
    Guard("event id is new", "E-3", (Reason.IDEMPOTENCY_CONFLICT,), _event_is_new),
    Guard("credential is live", "R-11", (Reason.TOKEN_EXPIRED, Reason.TOKEN_REVOKED), _credential_is_live),
    Guard(
        "operation and producer match",
        "E-2",
        (Reason.PRODUCER_MISMATCH, Reason.TOKEN_MISMATCH, Reason.OPERATION_MISMATCH),
        _operation_and_producer_match,
    ),
    Guard(
        "run, attempt and execution are current",
        "E-4",
        (Reason.STALE_ATTEMPT, Reason.STALE_EXECUTION),
        _run_attempt_and_execution_are_current,
    ),
    Guard("event type is allowed", "E-1", (Reason.EVENT_TYPE_NOT_ALLOWED,), _event_type_is_allowed),
    Guard(
        "data is valid",
        "L-5",
        (Reason.SCHEMA_NOT_ALLOWED, Reason.SCHEMA_VIOLATION, Reason.PAYLOAD_TOO_LARGE, Reason.INVALID_ARGUMENT),
        _data_is_valid,
    ),
    Guard("event is young enough", "E-4", (Reason.EVENT_TOO_OLD,), _event_is_young_enough),
    Guard("source sequence rises", "E-5", (Reason.STALE_SEQUENCE,), _sequence_rises),
    Guard("progress rises", "E-8", (Reason.PROGRESS_NOT_MONOTONIC,), _progress_rises),
    Guard("lifecycle allows", "L-1", (Reason.TERMINAL, Reason.TRANSITION_NOT_ALLOWED), _lifecycle_allows),
    Guard(
        "business status fits",
        "E-7",
        (Reason.BUSINESS_STATUS_NOT_REGISTERED, Reason.TRANSITION_NOT_ALLOWED),
        _business_status_fits,
    ),
)


def judge(j: Judgement) -> Verdict | None:
    """The answer of the first guard that objects; None when the event is to be recorded."""
    for guard in GUARDS:
        verdict = guard.check(j)
        if verdict is not None:
            return verdict
    return None
