"""Attempts of the fake: activating a known step, registering a dynamic one (R-4, R-6, R-10)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from taskstatus_pb.v1 import common_pb2, register_service_pb2

from taskstatus.sdk.testing.heartbeats import timeout_of
from taskstatus.sdk.testing.model import TERMINAL, FakeAttempt, FakeTask, Held, content_of, refuse
from taskstatus.sdk.testing.state import FakeState, is_late, without_waiting

TOKEN_LIFETIME: Final = timedelta(minutes=15)
Activate = register_service_pb2.ActivateStepRequest
Register = register_service_pb2.RegisterExecutionRequest
_NO_CONTENT: Final = ("task_id", "parent_execution_token", "parent_execution_handle")


@dataclass(frozen=True)
class _Registered:
    """A dynamic step as its first attempt would be, and the credential of the parent that registers it."""

    first: FakeAttempt
    held: Held | None


def activate(state: FakeState, producer: str, request: Activate) -> common_pb2.ExecutionContext:
    """The context of a known step's attempt."""
    task = state.task(request.task_id)
    _require_coordinator(task, producer)
    _require_run(task, request.task_attempt)
    task.current(request.step_id)
    return _attempt(state, task, producer, request, request.step_id, content_of(request, *_NO_CONTENT), None)


def register(state: FakeState, producer: str, request: Register) -> common_pb2.ExecutionContext:
    """The context of a dynamic step's attempt, for the coordinator or for the execution that found it."""
    task, step_id = state.task(request.task_id), f"dyn_{request.client_step_key}"
    held = _parent_credential(state, producer, request, task)
    if held is None:
        _require_coordinator(task, producer)
    _require_run(task, request.task_attempt)
    plain = Register()
    plain.CopyFrom(request)
    plain.parent_execution_id = held.attempt.execution_id if held else request.parent_execution_id
    first = FakeAttempt(
        register_service_pb2.StepSpec(
            step_id=step_id,
            operation_code=request.operation_code,
            expected_producer=request.producer_id,
            display_name=request.display_name,
            failure_policy=request.failure_policy or common_pb2.FAIL_TASK,
            max_run_seconds=request.max_run_seconds,
        ),
        1,
        task.attempt,
        dynamic=True,
        parent_execution_id=plain.parent_execution_id,
        version=task.step_versions.get(step_id, 0) + 1,
    )
    return _attempt(state, task, producer, request, step_id, content_of(plain, *_NO_CONTENT), _Registered(first, held))


def _parent_credential(state: FakeState, producer: str, request: Register, task: FakeTask) -> Held | None:
    if not (request.parent_execution_token or request.parent_execution_handle):
        return None
    held = state.held(producer, request.parent_execution_token, request.parent_execution_handle)
    if held.task is not task or request.parent_execution_id not in ("", held.attempt.execution_id):
        refuse("TOKEN_MISMATCH", "the parent's credential belongs to another execution or task")
    return held


def _check_registration(state: FakeState, task: FakeTask, registered: _Registered) -> None:
    first, held, parent = registered.first, registered.held, None
    for last in task.steps.get(first.spec.step_id, ())[-1:]:
        operation, producer = last.spec.operation_code, last.spec.expected_producer
        if (first.spec.operation_code, first.spec.expected_producer) != (operation, producer):
            refuse("IDEMPOTENCY_CONFLICT", "the step exists with another operation or producer")
    if first.parent_execution_id:
        owner, parent = state.execution_by_id(first.parent_execution_id)
        if owner is not task or parent.task_attempt != task.attempt:
            refuse("EXECUTION_NOT_FOUND", "the parent is not an execution of this task's current run")
        first.depth = parent.depth
    first.depth += 1
    if held is not None:
        _check_parent(task, held)
    if task.spec.registration_mode == common_pb2.FIXED:
        refuse("TRANSITION_NOT_ALLOWED", "the task's manifest is fixed: no step is added to it")
    policy, code = task.spec.dynamic_registration, first.spec.operation_code
    if policy.allowed_child_operations and not _within(code, policy.allowed_child_operations):
        refuse("PERMISSION_DENIED", "the task's policy does not allow this operation")
    if parent is not None and policy.allowed_parent_operations and not _may_have_children(task, parent):
        refuse("PERMISSION_DENIED", "the task's policy does not allow children under this operation")


def _check_parent(task: FakeTask, held: Held) -> None:
    if held.revoked:
        refuse("TOKEN_REVOKED", "the parent's credentials were revoked")
    if not _may_have_children(task, held.attempt):
        refuse("PERMISSION_DENIED", "this execution may not register children")
    if is_late(task, held.attempt):
        refuse("STALE_ATTEMPT", "a later attempt of the parent is current")
    if held.attempt.lifecycle in TERMINAL:
        refuse("TERMINAL", "the parent execution has ended")
    if held.attempt.lifecycle == "PENDING":
        refuse("TRANSITION_NOT_ALLOWED", "the parent execution has not started")


def _may_have_children(task: FakeTask, attempt: FakeAttempt) -> bool:
    return _within(attempt.spec.operation_code, task.spec.dynamic_registration.allowed_parent_operations)


def _within(code: str, patterns: Iterable[str]) -> bool:
    return any(code == name or (name.endswith("*") and code.startswith(name[:-1])) for name in patterns)


def _require_coordinator(task: FakeTask, producer: str) -> None:
    if not task.may_rule(producer):
        refuse("PERMISSION_DENIED", "only the task's recorded coordinator may do this")


def _require_run(task: FakeTask, stated: int) -> None:
    if stated not in (0, task.attempt):
        refuse("STALE_ATTEMPT", "another run of the task is current")


def _attempt(
    state: FakeState,
    task: FakeTask,
    producer: str,
    request: Activate | Register,
    step_id: str,
    content: bytes,
    registered: _Registered | None,
) -> common_pb2.ExecutionContext:
    number, known = request.step_attempt, task.steps.get(step_id, [])
    same = next((attempt for attempt in known if attempt.number == number), None)
    if same is not None and same.execution_id:
        if same.activation != content:
            refuse("IDEMPOTENCY_CONFLICT", "this attempt was activated with other content")
        return _repeat(state, task, same, request.command_id)
    if (task.task_id, request.command_id) in state.first_results:
        refuse("IDEMPOTENCY_CONFLICT", "this command id was used for something else on the task")
    _check_number(task, known, same, number)
    if registered is not None:
        _check_registration(state, task, registered)
    attempt, event_type = _next(state, task, known, same, registered)
    attempt.input_ref = request.input_ref or task.spec.input_ref
    attempt.activation = content
    attempt.heartbeat_interval_seconds = request.heartbeat_interval_seconds or state.heartbeat_interval_seconds
    state.new_execution(task, attempt)
    if event_type:
        state.record(task, event_type, request.command_id, producer, attempt)
        answer = context_of(task, attempt, created=True)
        state.first_results[task.task_id, request.command_id] = (content, answer)
    return context_of(task, attempt, created=True)


def _repeat(state: FakeState, task: FakeTask, attempt: FakeAttempt, command_id: str) -> common_pb2.ExecutionContext:
    """The execution again; the command that made it is told the version of then (R-6)."""
    context = context_of(task, attempt, created=False)
    _, first = state.first_results.get((task.task_id, command_id), (b"", None))
    if isinstance(first, common_pb2.ExecutionContext) and first.execution_id == attempt.execution_id:
        context.task_version = first.task_version
    return context


def _check_number(task: FakeTask, known: list[FakeAttempt], same: FakeAttempt | None, number: int) -> None:
    """A retry is exactly the last attempt + 1, never after a success (R-6)."""
    if task.lifecycle in TERMINAL:
        refuse("TERMINAL", "the task has ended")
    if same is not None and same.lifecycle in TERMINAL:
        refuse("TERMINAL", "this attempt has ended; the next one may be activated")
    spent = [attempt for attempt in known if attempt.execution_id or attempt.lifecycle in TERMINAL]
    last = spent[-1].number if spent else 0
    if number <= last:
        refuse("STALE_ATTEMPT", "a later attempt exists")
    if number != last + 1:
        refuse("TRANSITION_NOT_ALLOWED", f"the next attempt is {last + 1}")
    if spent and spent[-1].lifecycle == "SUCCEEDED":
        refuse("TRANSITION_NOT_ALLOWED", "the step has succeeded; running it again is a rerun")


def _next(
    state: FakeState,
    task: FakeTask,
    known: list[FakeAttempt],
    same: FakeAttempt | None,
    registered: _Registered | None,
) -> tuple[FakeAttempt, str]:
    """The attempt to activate, and the event that it makes; attempt 1 of a known step makes none (R-10)."""
    if same is not None:
        return same, ""
    if not known:
        assert registered is not None, "the step of an activation exists"
        task.steps[registered.first.spec.step_id] = [registered.first]
        return registered.first, "EXECUTION_REGISTERED"
    last = known[-1]
    version = last.version + 1
    last.end("CANCELLED", "SUPERSEDED", state.now())
    last.superseded = True
    without_waiting(task)
    attempt = FakeAttempt(
        last.spec,
        last.number + 1,
        task.attempt,
        dynamic=last.dynamic,
        parent_execution_id=last.parent_execution_id,
        depth=last.depth,
        version=version,
        credited=last.credited,
    )
    known.append(attempt)
    return attempt, "STEP_ATTEMPT_ACTIVATED"


def context_of(task: FakeTask, attempt: FakeAttempt, *, created: bool) -> common_pb2.ExecutionContext:
    """The execution's context, with credentials of its present generation."""
    context = common_pb2.ExecutionContext(
        workflow_id=task.workflow_id,
        task_id=task.task_id,
        task_attempt=attempt.task_attempt,
        step_id=attempt.spec.step_id,
        step_attempt=attempt.number,
        execution_id=attempt.execution_id,
        operation_code=attempt.spec.operation_code,
        producer_id=attempt.spec.expected_producer,
        source_seq_start=attempt.source_seq + 1,
        input_ref=attempt.input_ref,
        heartbeat_interval_seconds=attempt.heartbeat_interval_seconds,
        heartbeat_timeout_seconds=timeout_of(attempt.heartbeat_interval_seconds),
        execution_token=attempt.token,
        execution_handle=attempt.handle,
        task_version=task.version,
        created=created,
        task_type=task.spec.task_type,
        status_definition_version=task.spec.status_definition_version,
        operation_definition_version=task.spec.operation_definition_version,
        may_register_children=_may_have_children(task, attempt),
    )
    context.execution_token_expire_time.FromDatetime(datetime.now(UTC) + TOKEN_LIFETIME)
    return context
