"""Commands on a task that exists, and the frame that they share (R-6).

Every one is judged in this order: the task exists for the caller → the caller may → the command id was seen before (the
first result again) → ``expected_version`` → what the command itself asks of the state. The first that objects answers,
and nothing is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from datetime import datetime

from taskstatus.domain.commands import Actor, ReportedError
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import ExecutionId, TaskId
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.notifications import OutboxTools, aggregate_trigger, task_notifications
from taskstatus.domain.own_events import Origin, own_event, own_result
from taskstatus.domain.permissions import OPERATE, VIEW, may
from taskstatus.domain.quick_dataclasses import dataclass, replace
from taskstatus.domain.reasons import Reason
from taskstatus.domain.records import AuditRecord, ChangeSet, DedupRecord, ReportResult, SeenEvent
from taskstatus.domain.state import ExternalRef, Grant, StepState, TaskState


@dataclass(frozen=True, slots=True)
class CommandHead:
    """What every command carries."""

    actor: Actor
    command_id: str
    task_id: TaskId
    canonical: bytes
    """The method's name and the request's deterministic form, without its ids; kept with the event."""
    digest: bytes
    expected_version: int = 0
    """The version that the caller has seen (If-Match); 0: any."""
    trace_id: bytes | None = None
    traceparent: str = ""

    def origin(self, now: datetime) -> Origin:
        """Where the command's events come from."""
        return Origin(self.actor, self.command_id, self.trace_id, self.traceparent, now)


@dataclass(frozen=True, slots=True)
class RequestCancel:
    """Ask for a task's cancellation (L-1)."""

    head: CommandHead
    reason: str


@dataclass(frozen=True, slots=True)
class SkippedStep:
    """A step of the manifest that a rerun does not repeat (X-3)."""

    step_id: str
    reason: str
    source_event_id: str


@dataclass(frozen=True, slots=True)
class RerunTask:
    """Open a new run of an ended task (R-7)."""

    head: CommandHead
    task_attempt: int
    """The run to repeat; 0: the current one."""
    reason: str
    skipped: tuple[SkippedStep, ...]


@dataclass(frozen=True, slots=True)
class UpdateMetadata:
    """Change label, title or priority; None leaves a field as it is (R-8)."""

    head: CommandHead
    product_id: str | None
    title: str | None
    priority: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class AttachExternalRef:
    """Make a number of another system name the task (ID-5)."""

    head: CommandHead
    ref: ExternalRef


@dataclass(frozen=True, slots=True)
class RevokeExecution:
    """Make an execution's credentials worthless (R-11)."""

    head: CommandHead
    execution_id: ExecutionId
    reason: str


@dataclass(frozen=True, slots=True)
class CorrectTask:
    """Correct a terminal state (L-3)."""

    head: CommandHead
    lifecycle: Lifecycle
    business_status: str
    """Empty: the generic name of the lifecycle."""
    error: ReportedError | None
    failed_step_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class CommandRows:
    """What every command looks at, read under the task's lock."""

    task: TaskState | None
    grants: Sequence[Grant]
    """Read for people only."""
    seen: SeenEvent | None
    """The dedup row of the command's id."""
    now: datetime


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """The task after the command, its answer, and what is to be written (nothing for a repeat or a no-op)."""

    task: TaskState
    result: ReportResult
    changes: ChangeSet = field(default_factory=ChangeSet)


@dataclass(frozen=True, slots=True)
class Fact:
    """What the event of a command says besides its origin."""

    event_type: EventType
    reason: str = ""
    error_code: str = ""
    shown: tuple[str, bytes] = ("", b"")
    """Schema and JSON of what the timeline shows with it."""


def admitted(head: CommandHead, rows: CommandRows, *, of_scope: bool = False) -> TaskState | CommandOutcome:
    """The task, when the command is to be judged on; or the first result of a command that was carried out before.

    A person needs OPERATE, a service must be the recorded coordinator or an admin; ``of_scope``: any service of the
    task's scope will do. Raises RefusedError TASK_NOT_FOUND, PERMISSION_DENIED, IDEMPOTENCY_CONFLICT, VERSION_MISMATCH.
    """
    task = _visible(head.actor, rows)
    if not (of_scope or _may_rule(head.actor, task, rows.grants)):
        raise RefusedError(Reason.PERMISSION_DENIED, "this caller may not do this with the task")
    if rows.seen is not None:
        return _repeated(head, task, rows.seen)
    if head.expected_version not in (0, task.version):
        raise RefusedError(
            Reason.VERSION_MISMATCH,
            f"the task is at version {task.version}; read it again",
            metadata={"taskVersion": str(task.version)},
        )
    return task


def _visible(actor: Actor, rows: CommandRows) -> TaskState:
    task = rows.task
    if task is not None:
        envelope = task.envelope
        if actor.is_person and may(envelope, rows.grants, actor, VIEW):
            return task
        if not actor.is_person and (envelope.tenant_id, envelope.authority_scope) == (
            actor.tenant_id,
            actor.authority_scope,
        ):
            return task
    raise RefusedError(Reason.TASK_NOT_FOUND, "no such task")


def _may_rule(actor: Actor, task: TaskState, grants: Sequence[Grant]) -> bool:
    if actor.is_person:
        return may(task.envelope, grants, actor, OPERATE)
    return actor.is_admin or task.envelope.may_rule(actor.producer_id)


def _repeated(head: CommandHead, task: TaskState, seen: SeenEvent) -> CommandOutcome:
    if seen.digest != head.digest:
        raise RefusedError(
            Reason.IDEMPOTENCY_CONFLICT,
            "this command id was used for something else on the task",
            metadata={"commandId": head.command_id},
        )
    return CommandOutcome(task, replace(seen.result, duplicate=True))


def unchanged(task: TaskState) -> CommandOutcome:
    """The task stands there already: accepted, nothing written (L-2)."""
    return CommandOutcome(task, replace(own_result(task, None), changed=False, task_attempt=task.attempt))


def recorded(
    head: CommandHead,
    before: TaskState,
    after: TaskState,
    step: StepState | None,
    fact: Fact,
    now: datetime,
    tools: OutboxTools,
) -> CommandOutcome:
    """The outcome of a command that makes one version: the new state with event, dedup row and notifications."""
    result = replace(own_result(after, step), task_attempt=after.attempt, generation=step.generation if step else 0)
    event = own_event(
        after,
        step,
        fact.event_type,
        head.origin(now),
        canonical=head.canonical,
        digest=head.digest,
        reason=fact.reason,
        error_code=fact.error_code,
        shown=fact.shown,
    )
    dedup = DedupRecord(head.task_id, after.envelope.bucket, head.command_id, head.digest, result)
    changes = ChangeSet(tasks=[after], events=[event], dedups=[dedup])
    changes.outbox.extend(task_notifications(tools, after, step, fact.event_type, head.traceparent))
    trigger = aggregate_trigger(tools, before, after, fact.event_type)
    if trigger is not None:
        changes.outbox.append(trigger)
    return CommandOutcome(after, result, changes)


def audited(head: CommandHead, task: TaskState, fact: Fact, old: bytes, new: bytes, audit_id: bytes) -> AuditRecord:
    """The audit row of a command that changed a value; ``old`` and ``new`` as JSON."""
    envelope = task.envelope
    return AuditRecord(
        bucket=envelope.bucket,
        audit_id=audit_id,
        tenant_id=envelope.tenant_id,
        authority_scope=envelope.authority_scope,
        task_id=envelope.task_id,
        command_id=head.command_id,
        action=fact.event_type,
        actor=head.actor.name,
        reason=fact.reason,
        old_value=old,
        new_value=new,
        committed_at=task.committed_at,
    )
