"""Decide one event against the current state: a verdict, and when it is accepted all that it leaves behind."""

from __future__ import annotations

from datetime import datetime, timedelta

from taskstatus.domain.business_status import StatusDefinition
from taskstatus.domain.commands import TaskEventCommand
from taskstatus.domain.events import EventType
from taskstatus.domain.evolve import (
    Recorded,
    evolve_step,
    evolve_task,
    evolve_task_by_step,
    with_sequence,
    with_step_counted,
    with_version,
)
from taskstatus.domain.guards import OLDEST_ACCEPTED_EVENT, Judgement, judge, last_sequence
from taskstatus.domain.health_changes import (
    SERVICE_PRODUCER,
    HealthObservation,
    lease_after,
    run_deadline,
    step_after,
)
from taskstatus.domain.health_guards import judge_health
from taskstatus.domain.lease import LeaseState
from taskstatus.domain.notices import waits_for_person
from taskstatus.domain.quick_dataclasses import dataclass
from taskstatus.domain.records import EventRecord, LeaseRecord, ReportResult, SeenEvent
from taskstatus.domain.state import StepState, TaskState
from taskstatus.domain.verdicts import Accepted, Verdict


@dataclass(frozen=True, slots=True)
class Situation:
    """The locked state that one command meets, and the database's time."""

    task: TaskState | None
    step: StepState | None
    seen: SeenEvent | None
    now: datetime
    received_at: datetime
    """The database's clock minus the time waited in this process."""
    oldest_accepted: timedelta = OLDEST_ACCEPTED_EVENT
    lease: LeaseState | None = None
    """Of the execution that a health change names; None for every other command."""
    statuses: StatusDefinition | None = None
    """The statuses that the task is bound to; None: the generic ones, or the command names none."""


@dataclass(frozen=True, slots=True)
class Acceptance:
    """An accepted event with the state after it; the batch turns it into rows."""

    command: TaskEventCommand
    received_at: datetime
    task: TaskState
    step: StepState | None
    verdict: Accepted
    absorbs: bool
    """It took the version of an immediately preceding progress of the same execution (E-8)."""
    before: TaskState
    """The task as the event met it."""
    lease: LeaseState | None = None
    """As a health change leaves it."""

    @property
    def was_waiting(self) -> bool:
        """Whether the task waited for a person before."""
        return waits_for_person(self.before)

    @property
    def asks_for_person(self) -> bool:
        """Whether the event is what makes the task wait for a person; such a fact is never absorbed (O-3)."""
        return waits_for_person(self.task) and not self.was_waiting

    @property
    def ends_run(self) -> bool:
        """Whether the event is the task's own end."""
        return self.step is None and self.task.lifecycle.is_terminal


def decide(command: TaskEventCommand, situation: Situation, absorbs: bool = False) -> Verdict | Acceptance:
    """The answer of the first guard that objects, or the acceptance.

    ``absorbs``: the event before this one on the task was an accepted progress of the same execution in the same
    commit; this one, if it is accepted, takes its version over.
    """
    judgement = Judgement(
        command,
        situation.now,
        situation.task,
        situation.step,
        situation.seen,
        situation.oldest_accepted,
        situation.lease,
        situation.statuses,
    )
    objection = judge(judgement) if command.observed is None else judge_health(judgement)
    if objection is not None:
        return objection
    if command.observed is not None:
        return _change_health(judgement, command.observed, situation.received_at)
    task, step = _evolve(judgement, absorbs)
    result = _result(task, step)
    gap = command.content.source_seq - last_sequence(judgement) - 1
    before = judgement.known_task
    return Acceptance(command, situation.received_at, task, step, Accepted(result, gap), absorbs, before)


def _evolve(j: Judgement, absorbs: bool) -> tuple[TaskState, StepState | None]:
    command, before = j.command, j.known_task
    versioned = before if absorbs else with_version(before, j.now)
    event = Recorded(command.content, versioned.committed_at, own_sequence=command.credential is not None)
    if command.credential is None:
        versioned = with_sequence(versioned, command.caller.producer_id, command.content.source_seq)
    if not j.is_step_event:
        return evolve_task(versioned, event), None
    old = j.known_step
    step = evolve_step(old, event, old.version if absorbs else old.version + 1)
    return evolve_task_by_step(versioned, old, step, event), step


def _change_health(j: Judgement, observed: HealthObservation, received_at: datetime) -> Acceptance:
    """A version of the task and of the step in which nothing but their health moves (H-4, B-1)."""
    before, old, lease = j.known_task, j.known_step, j.lease
    assert lease is not None
    step = step_after(old, observed.sign)
    task = with_step_counted(with_version(before, j.now), old, step)
    return Acceptance(
        j.command,
        received_at,
        task,
        step,
        Accepted(_result(task, step)),
        absorbs=False,
        before=before,
        lease=lease_after(lease, observed, old, j.now),
    )


def _result(task: TaskState, step: StepState | None) -> ReportResult:
    return ReportResult(
        accepted=True,
        changed=True,
        task_id=task.envelope.task_id,
        step_id=step.definition.step_id if step else "",
        operation_code=step.definition.operation_code if step else "",
        task_version=task.version,
        step_version=step.version if step else 0,
        lifecycle=task.lifecycle,
        business_status=task.business_status,
        committed_at=task.committed_at,
        cancel_requested=task.cancel_requested,
    )


def event_record(acceptance: Acceptance) -> EventRecord:
    """The immutable row of an accepted event; always the full ids, never a handle (E-9)."""
    command, task, step = acceptance.command, acceptance.task, acceptance.step
    content = command.content
    return EventRecord(
        task_id=task.envelope.task_id,
        bucket=task.envelope.bucket,
        task_version=task.version,
        event_id=content.event_id,
        workflow_id=task.envelope.workflow_id,
        event_type=content.event_type,
        task_attempt=task.attempt,
        step_id=step.definition.step_id if step else "",
        step_attempt=step.attempt if step else 0,
        execution_id=step.terms.execution_id if step and step.terms else None,
        superseded_execution_id=None,
        operation_code=step.definition.operation_code if step else "",
        step_version=step.version if step else 0,
        producer_id=command.caller.producer_id,
        source_seq=content.source_seq,
        lifecycle=task.lifecycle,
        business_status=task.business_status,
        health=task.health,
        error_code=content.error.code if content.error else "",
        data_schema=content.data.schema if content.data else "",
        reason=content.reason,
        actor=f"service:{command.caller.producer_id}" if command.observed is None else SERVICE_PRODUCER,
        trace_id=command.trace_id,
        occurred_at=content.occurred_at,
        received_at=acceptance.received_at,
        committed_at=task.committed_at,
        duration_ms=content.duration_ms,
        duration_source=content.duration_source,
        canonical=command.canonical,
        digest=command.digest,
        shown_data=content.data.shown if content.data else b"",
    )


def opened_lease(acceptance: Acceptance) -> LeaseRecord | None:
    """The lease that an accepted STEP_STARTED opens, from the server's time of receipt (H-4)."""
    step, content = acceptance.step, acceptance.command.content
    if step is None or step.terms is None or content.event_type is not EventType.STEP_STARTED:
        return None
    timeout = step.terms.heartbeat_timeout_seconds
    return LeaseRecord(
        execution_id=step.terms.execution_id,
        bucket=step.bucket,
        task_id=step.task_id,
        task_attempt=step.task_attempt,
        step_id=step.definition.step_id,
        step_attempt=step.attempt,
        producer_id=step.definition.expected_producer,
        interval_seconds=step.terms.heartbeat_interval_seconds,
        timeout_seconds=timeout,
        opened_at=acceptance.received_at,
        deadline_at=acceptance.received_at + timedelta(seconds=timeout),
        stuck_at=run_deadline(step, acceptance.received_at),
    )
