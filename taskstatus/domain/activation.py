"""Activating an attempt of a step, or registering a dynamic one: R-4, R-6, R-10 as one pure decision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from taskstatus.domain.business_status import generic_name
from taskstatus.domain.commands import ActivateAttempt, DynamicStep, actor_of
from taskstatus.domain.definitions import OperationDefinition
from taskstatus.domain.dynamic import DynamicLimits, check_parent, check_policy, count_registration, depth_below
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.events import EventType
from taskstatus.domain.evolve import with_step_counted, with_version, without_waiting_status
from taskstatus.domain.ids import ExecutionId
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.notifications import OutboxTools, aggregate_trigger, task_notifications
from taskstatus.domain.own_events import Origin, own_event, own_result
from taskstatus.domain.quick_dataclasses import dataclass, replace
from taskstatus.domain.reasons import Reason
from taskstatus.domain.records import ChangeSet, DedupRecord, RunRecord, SeenEvent
from taskstatus.domain.state import (
    SUPERSEDED,
    ExecutionTerms,
    FailurePolicy,
    StepDefinition,
    StepState,
    TaskState,
)


@dataclass(frozen=True, slots=True)
class Activation:
    """The execution that the caller gets, the task after it, and what is to be written (nothing for a repeat)."""

    task: TaskState
    step: StepState
    created: bool
    changes: ChangeSet


@dataclass(frozen=True, slots=True)
class ActivationRows:
    """What the decision looks at, read under the task's lock."""

    task: TaskState | None
    attempts: Sequence[StepState]
    """Every attempt of the step in the run, by rising attempt."""
    parent: StepState | None
    """The parent execution, where the command names one."""
    seen: SeenEvent | None
    """The dedup row of the command's id."""
    now: datetime
    run: RunRecord | None = None
    """The task's current run; read for registrations."""
    last_step_version: int = 0
    """Of the step over all runs; read where the step is new to a later run."""
    first: StepState | None = None
    """The execution of an earlier run with which this very command was answered before (R-6)."""


DefinitionOf = Callable[[TaskState, str], OperationDefinition]
"""The newest definition of an operation for a task."""


def activate(
    command: ActivateAttempt,
    rows: ActivationRows,
    execution_id: ExecutionId,
    tools: OutboxTools,
    definition_of: DefinitionOf,
    limits: DynamicLimits,
) -> Activation:
    """The attempt's execution, new or as it was given before. Raises RefusedError; then nothing is written."""
    task = _own_task(command, rows)
    if rows.first is not None:
        return Activation(_as_first_answered(command, task, rows.seen), rows.first, created=False, changes=ChangeSet())
    existing = next((step for step in rows.attempts if step.attempt == command.step_attempt), None)
    if existing is not None and existing.terms is not None:
        return _repeat(command, _as_first_answered(command, task, rows.seen), existing)
    _refuse_reused_command(command, rows)
    _refuse_ended(task, existing)
    _refuse_wrong_attempt(command, rows.attempts)
    _refuse_changed_definition(command, rows.attempts)
    if command.dynamic is not None:
        _refuse_foreign_parent(command.dynamic, task, rows.parent)
        check_parent(command.parent, rows.parent)
        check_policy(task, command.dynamic, rows.parent)
    operation = _operation_definition(command, task, rows.attempts, definition_of)
    terms = _terms(command, task, execution_id, operation)
    if existing is not None:
        return _activate_manifest(task, existing, terms)
    return _new_attempt(command, rows, task, terms, operation, tools, limits)


def _own_task(command: ActivateAttempt, rows: ActivationRows) -> TaskState:
    task, caller = rows.task, command.caller
    if task is None or (task.envelope.tenant_id, task.envelope.authority_scope) != (
        caller.tenant_id,
        caller.authority_scope,
    ):
        raise RefusedError(Reason.TASK_NOT_FOUND, "no such task")
    if command.parent is None and not task.envelope.may_rule(caller.producer_id):
        raise RefusedError(Reason.PERMISSION_DENIED, "only the task's recorded coordinator may do this")
    if rows.first is not None:
        return task
    if command.task_attempt and command.task_attempt != task.attempt:
        raise RefusedError(Reason.STALE_ATTEMPT, "another run of the task is current")
    if not rows.attempts and command.dynamic is None:
        raise RefusedError(Reason.STEP_NOT_FOUND, "the task has no such step", metadata={"stepId": command.step_id})
    return task


def _repeat(command: ActivateAttempt, task: TaskState, existing: StepState) -> Activation:
    assert existing.terms is not None
    if existing.terms.activation_digest != command.digest:
        raise RefusedError(Reason.IDEMPOTENCY_CONFLICT, "this attempt was activated with other content")
    return Activation(task, existing, created=False, changes=ChangeSet())


def _as_first_answered(command: ActivateAttempt, task: TaskState, seen: SeenEvent | None) -> TaskState:
    """The task with the version of the first answer, where this very command was answered before (R-6)."""
    if seen is None or seen.digest != command.digest:
        return task
    return replace(task, version=seen.result.task_version)


def _refuse_reused_command(command: ActivateAttempt, rows: ActivationRows) -> None:
    if rows.seen is not None:
        raise RefusedError(
            Reason.IDEMPOTENCY_CONFLICT,
            "this command id was used for something else on the task",
            metadata={"commandId": command.command_id},
        )


def _refuse_ended(task: TaskState, existing: StepState | None) -> None:
    """Neither a task nor an attempt that has ended before it was activated is handed out."""
    if task.lifecycle.is_terminal:
        raise RefusedError(Reason.TERMINAL, "the task has ended")
    if existing is not None and existing.lifecycle.is_terminal:
        raise RefusedError(Reason.TERMINAL, "this attempt has ended; the next one may be activated")


def _refuse_wrong_attempt(command: ActivateAttempt, attempts: Sequence[StepState]) -> None:
    """A retry is exactly the last attempt + 1, never after a success (R-6); a first one needs no predecessor."""
    spent = [step for step in attempts if step.terms is not None or step.lifecycle.is_terminal]
    last = spent[-1] if spent else None
    number = last.attempt if last else 0
    if command.step_attempt <= number:
        raise RefusedError(Reason.STALE_ATTEMPT, "a later attempt exists")
    if command.step_attempt != number + 1:
        raise RefusedError(
            Reason.TRANSITION_NOT_ALLOWED,
            f"the next attempt is {number + 1}",
            metadata={"nextAttempt": str(number + 1)},
        )
    if last is not None and last.lifecycle is Lifecycle.SUCCEEDED:
        raise RefusedError(Reason.TRANSITION_NOT_ALLOWED, "the step has succeeded; running it again is a rerun")


def _refuse_changed_definition(command: ActivateAttempt, attempts: Sequence[StepState]) -> None:
    """A registration names the step that exists, or a new one; it never redefines one."""
    dynamic = command.dynamic
    if dynamic is None or not attempts:
        return
    definition = attempts[-1].definition
    if (definition.operation_code, definition.expected_producer) != (dynamic.operation_code, dynamic.producer_id):
        raise RefusedError(Reason.IDEMPOTENCY_CONFLICT, "the step exists with another operation or producer")


def _refuse_foreign_parent(dynamic: DynamicStep, task: TaskState, parent: StepState | None) -> None:
    if dynamic.parent_execution_id is None:
        return
    if parent is None or (parent.task_id, parent.task_attempt) != (task.envelope.task_id, task.attempt):
        raise RefusedError(Reason.EXECUTION_NOT_FOUND, "the parent is not an execution of this task's current run")


def _operation_definition(
    command: ActivateAttempt, task: TaskState, attempts: Sequence[StepState], definition_of: DefinitionOf
) -> OperationDefinition:
    """The definition that the execution is bound to for life (L-5); the producer must be one that it admits."""
    known = attempts[-1].definition if attempts else None
    dynamic = command.dynamic
    assert known is not None or dynamic is not None
    code = known.operation_code if known else dynamic.operation_code if dynamic else ""
    producer = known.expected_producer if known else dynamic.producer_id if dynamic else ""
    operation = definition_of(task, code)
    if not operation.admits_producer(producer):
        raise RefusedError(
            Reason.PRODUCER_MISMATCH,
            "the operation's definition does not admit this producer",
            metadata={"operationCode": code, "producerId": producer},
        )
    return operation


def _terms(
    command: ActivateAttempt, task: TaskState, execution_id: ExecutionId, operation: OperationDefinition
) -> ExecutionTerms:
    return ExecutionTerms(
        execution_id=execution_id,
        activation_digest=command.digest,
        input_ref=command.input_ref or task.envelope.input_ref,
        heartbeat_interval_seconds=command.heartbeat_interval_seconds,
        heartbeat_timeout_seconds=command.heartbeat_timeout_seconds,
        definition_version=operation.version,
        definition_task_type=operation.task_type,
    )


def _activate_manifest(task: TaskState, row: StepState, terms: ExecutionTerms) -> Activation:
    """Attempt 1 of a manifest step: it has its execution now, and nobody sees a difference (R-10)."""
    touched = replace(task, row_revision=task.row_revision + 1)
    step = replace(row, terms=terms)
    return Activation(touched, step, created=True, changes=ChangeSet(tasks=[touched], steps=[step]))


def _new_attempt(
    command: ActivateAttempt,
    rows: ActivationRows,
    task: TaskState,
    terms: ExecutionTerms,
    operation: OperationDefinition,
    tools: OutboxTools,
    limits: DynamicLimits,
) -> Activation:
    origin = Origin(actor_of(command.caller), command.command_id, command.trace_id, command.traceparent, rows.now)
    last = rows.attempts[-1] if rows.attempts else None
    versioned = with_version(task, rows.now)
    if last is not None:
        versioned = without_waiting_status(versioned)
    step_version = (last.version if last else rows.last_step_version) + 1
    changes = ChangeSet()
    if last is not None:
        ended = _supersede(last, versioned.committed_at, step_version)
        versioned = with_step_counted(versioned, last, ended)
        changes.steps.append(ended)
        if last.terms is not None:
            changes.closed_leases.append((last.bucket, last.terms.execution_id))
    step = StepState(
        task_id=task.envelope.task_id,
        bucket=task.envelope.bucket,
        task_attempt=task.attempt,
        attempt=command.step_attempt,
        definition=_definition(command, last, task, rows.parent, operation),
        terms=terms,
        created_at=versioned.committed_at,
        version=step_version,
        business_status=generic_name(Lifecycle.PENDING),
        credited_points=last.credited_points if last else 0,
    )
    # The credit is the step's, not the attempt's: it moves over without being counted again (E-8).
    versioned = with_step_counted(versioned, replace(step, lifecycle=Lifecycle.CANCELLED), step)
    if command.dynamic is not None:
        assert rows.run is not None
        bounds, depth = limits.of(task.envelope.terms.dynamic), step.definition.depth
        is_new = last is None
        changes.runs.append(
            count_registration(versioned, rows.run, bounds, is_new_step=is_new, depth=depth, now=rows.now)
        )
    _record(changes, command, versioned, step, last, origin, tools)
    trigger = aggregate_trigger(tools, task, versioned, changes.events[-1].event_type)
    if trigger is not None:
        changes.outbox.append(trigger)
    return Activation(versioned, step, created=True, changes=changes)


def _supersede(last: StepState, at: datetime, version: int) -> StepState:
    """The attempt before a retry can never come back to life; if it was not terminal it is CANCELLED (R-6)."""
    step = replace(last, superseded=True, degraded=False, stale=False)
    if last.lifecycle.is_terminal:
        return step
    return replace(
        step,
        lifecycle=Lifecycle.CANCELLED,
        business_status=generic_name(Lifecycle.CANCELLED),
        end_reason=SUPERSEDED,
        finished_at=at,
        version=version,
    )


def _definition(
    command: ActivateAttempt,
    last: StepState | None,
    task: TaskState,
    parent: StepState | None,
    operation: OperationDefinition,
) -> StepDefinition:
    if last is not None:
        return last.definition
    dynamic = command.dynamic
    assert isinstance(dynamic, DynamicStep)
    return StepDefinition(
        step_id=command.step_id,
        order=task.version + 1_000,
        dynamic=True,
        parent_execution_id=dynamic.parent_execution_id,
        operation_code=dynamic.operation_code,
        expected_producer=dynamic.producer_id,
        depends_on=(),
        failure_policy=dynamic.failure_policy or operation.failure_policy or FailurePolicy.FAIL_TASK,
        display_name=dynamic.display_name,
        weight=0,
        max_run_seconds=dynamic.max_run_seconds,
        depth=depth_below(parent),
    )


def _record(
    changes: ChangeSet,
    command: ActivateAttempt,
    task: TaskState,
    step: StepState,
    superseded: StepState | None,
    origin: Origin,
    tools: OutboxTools,
) -> None:
    event_type = EventType.STEP_ATTEMPT_ACTIVATED if superseded else EventType.EXECUTION_REGISTERED
    changes.tasks.append(task)
    changes.new_steps.append(step)
    changes.events.append(
        own_event(
            task,
            step,
            event_type,
            origin,
            canonical=command.canonical,
            digest=command.digest,
            superseded=superseded,
        )
    )
    changes.dedups.append(
        DedupRecord(
            task.envelope.task_id, task.envelope.bucket, command.command_id, command.digest, own_result(task, step)
        )
    )
    changes.outbox.extend(task_notifications(tools, task, step, event_type, command.traceparent))
