"""Requests → commands: every check of form, and nothing that needs state (INVALID_ARGUMENT with the field's path)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from google.protobuf.descriptor import EnumDescriptor
from taskstatus_pb.v1 import common_pb2, register_service_pb2

from taskstatus.application.identity import ExecutionGrant, ServiceIdentity
from taskstatus.domain import text
from taskstatus.domain.commands import (
    ActivateAttempt,
    Caller,
    CreateTask,
    CreateWorkflow,
    Credential,
    DynamicStep,
    ParentCredential,
    StepSpec,
    TaskSpec,
)
from taskstatus.domain.errors import RefusedError, invalid
from taskstatus.domain.heartbeat import LONGEST_PERSIST_SECONDS
from taskstatus.domain.ids import (
    ExecutionId,
    TaskId,
    WorkflowId,
    format_execution_id,
    parse_execution_id,
    parse_task_id,
    parse_workflow_id,
)
from taskstatus.domain.reasons import Reason
from taskstatus.domain.state import FailurePolicy, Grant
from taskstatus.entrypoints.wire.call import CallInfo
from taskstatus.entrypoints.wire.decode_terms import (
    MAX_RUN_SECONDS,
    aggregation_policy,
    definition_versions,
    external_refs,
    parent_task,
    registration_terms,
)
from taskstatus.entrypoints.wire.trace import trace_id_of
from taskstatus.entrypoints.wire.values import canonical_message, canonical_request, enum_name

MAX_INITIAL_TASKS = 100
MAX_KNOWN_STEPS = 300
MAX_DEPENDENCIES = 64
MAX_GRANTS = 100
MAX_POLICY_EXECUTORS = 8
MAX_WEIGHT = 1_000_000
DEFAULT_HEARTBEAT_INTERVAL_SECONDS = 15
DEFAULT_HEARTBEAT_TIMEOUT_SECONDS = 60
HEARTBEAT_PERSIST_SECONDS = LONGEST_PERSIST_SECONDS
MAX_HEARTBEAT_TIMEOUT_SECONDS = 24 * 3600
MAX_HEARTBEAT_INTERVAL_SECONDS = (MAX_HEARTBEAT_TIMEOUT_SECONDS - HEARTBEAT_PERSIST_SECONDS) // 3


def caller_of(identity: ServiceIdentity) -> Caller:
    """The domain's view of a verified service."""
    return Caller(identity.tenant_id, identity.authority_scope, identity.producer_id)


def to_create_workflow(
    request: register_service_pb2.CreateWorkflowRequest, identity: ServiceIdentity, call: CallInfo
) -> CreateWorkflow:
    """The command of CreateWorkflow."""
    if len(request.initial_tasks) > MAX_INITIAL_TASKS:
        raise invalid(
            "initialTasks", f"has {len(request.initial_tasks)} items, at most {MAX_INITIAL_TASKS} are allowed"
        )
    tasks = tuple(_task_spec(f"initialTasks[{i}]", task) for i, task in enumerate(request.initial_tasks))
    _check_unique("initialTasks", "clientTaskKey", [task.client_task_key for task in tasks])
    _, digest = canonical_request(request, without=("command_id",))
    return CreateWorkflow(
        caller=caller_of(identity),
        command_id=text.check_id("commandId", request.command_id, text.EVENT_ID_MAX),
        client_workflow_key=text.check_id("clientWorkflowKey", request.client_workflow_key, text.CODE_MAX),
        owner_id=text.check_id("ownerId", request.owner_id, text.OWNER_MAX),
        title=text.check_title("title", request.title),
        workflow_type=text.check_optional_id("workflowType", request.workflow_type, text.CODE_MAX),
        coordinator_producer=text.check_optional_id("coordinatorProducer", request.coordinator_producer, text.CODE_MAX),
        grants=_grants("grants", request.grants),
        tasks=tasks,
        digest=digest,
        trace_id=trace_id_of(call.traceparent),
        traceparent=call.traceparent,
        aggregation_policy=aggregation_policy("aggregationPolicy", request.aggregation_policy),
    )


def to_create_task(
    request: register_service_pb2.CreateTaskRequest, identity: ServiceIdentity, call: CallInfo
) -> CreateTask:
    """The command of CreateTask."""
    if not request.HasField("task"):
        raise invalid("task", "is required")
    return CreateTask(
        caller=caller_of(identity),
        command_id=text.check_id("commandId", request.command_id, text.EVENT_ID_MAX),
        workflow_id=known_workflow_id(request.workflow_id),
        task=_task_spec("task", request.task),
        trace_id=trace_id_of(call.traceparent),
        traceparent=call.traceparent,
    )


def to_activate_step(
    request: register_service_pb2.ActivateStepRequest, identity: ServiceIdentity, call: CallInfo
) -> ActivateAttempt:
    """The command of ActivateStep."""
    canonical, digest = canonical_request(request, without=("command_id", "task_id"))
    interval, timeout = _heartbeat(request)
    return ActivateAttempt(
        caller=caller_of(identity),
        command_id=text.check_id("commandId", request.command_id, text.EVENT_ID_MAX),
        task_id=known_task_id(request.task_id),
        task_attempt=request.task_attempt,
        step_id=text.check_step_id("stepId", request.step_id),
        step_attempt=_positive("stepAttempt", request.step_attempt),
        input_ref=text.check_text("inputRef", request.input_ref, text.INPUT_REF_MAX),
        heartbeat_interval_seconds=interval,
        heartbeat_timeout_seconds=timeout,
        dynamic=None,
        canonical=canonical,
        digest=digest,
        trace_id=trace_id_of(call.traceparent),
        traceparent=call.traceparent,
    )


def to_register_execution(
    request: register_service_pb2.RegisterExecutionRequest,
    identity: ServiceIdentity,
    call: CallInfo,
    parent: ExecutionGrant | None = None,
) -> ActivateAttempt:
    """The command of RegisterExecution; ``parent``: the opened credential of the execution that registers a child."""
    plain = _with_plain_parent(request, parent)
    canonical, digest = canonical_request(plain, without=_NO_CONTENT_OF_REGISTRATION)
    interval, timeout = _heartbeat(request)
    key = text.check_step_id("clientStepKey", request.client_step_key, text.CLIENT_STEP_KEY_MAX)
    return ActivateAttempt(
        caller=caller_of(identity),
        command_id=text.check_id("commandId", request.command_id, text.EVENT_ID_MAX),
        task_id=known_task_id(request.task_id),
        task_attempt=request.task_attempt or (parent.binding.task_attempt if parent else 0),
        step_id=text.DYNAMIC_STEP_PREFIX + key,
        step_attempt=_positive("stepAttempt", request.step_attempt),
        input_ref=text.check_text("inputRef", request.input_ref, text.INPUT_REF_MAX),
        heartbeat_interval_seconds=interval,
        heartbeat_timeout_seconds=timeout,
        dynamic=_dynamic_step(plain),
        canonical=canonical,
        digest=digest,
        trace_id=trace_id_of(call.traceparent),
        traceparent=call.traceparent,
        parent=None if parent is None else _parent_credential(parent, call),
    )


_NO_CONTENT_OF_REGISTRATION = ("command_id", "task_id", "parent_execution_token", "parent_execution_handle")


def _parent_credential(grant: ExecutionGrant, call: CallInfo) -> ParentCredential:
    expires_at = None if math.isinf(grant.expires_at) else grant.expires_at
    credential = Credential(grant.generation, expires_at, grant.allowed_events)
    return ParentCredential(credential, grant.binding.may_register_children, call.received_unix)


def _with_plain_parent(
    request: register_service_pb2.RegisterExecutionRequest, parent: ExecutionGrant | None
) -> register_service_pb2.RegisterExecutionRequest:
    """The request with its parent in one text form, whoever names it, so that the form is outside the content."""
    if parent is None and not request.parent_execution_id:
        return request
    plain = register_service_pb2.RegisterExecutionRequest()
    plain.CopyFrom(request)
    stated = known_execution_id(request.parent_execution_id) if request.parent_execution_id else None
    if parent is not None:
        _check_stated_parent(request, stated, parent)
    execution_id = parent.binding.execution_id if parent else stated
    assert execution_id is not None
    plain.parent_execution_id = format_execution_id(execution_id)
    return plain


def _check_stated_parent(
    request: register_service_pb2.RegisterExecutionRequest, stated: ExecutionId | None, parent: ExecutionGrant
) -> None:
    if stated not in (None, parent.binding.execution_id) or known_task_id(request.task_id) != parent.binding.task_id:
        raise RefusedError(Reason.TOKEN_MISMATCH, "the parent's credential belongs to another execution or task")


def _dynamic_step(request: register_service_pb2.RegisterExecutionRequest) -> DynamicStep:
    parent = known_execution_id(request.parent_execution_id) if request.parent_execution_id else None
    return DynamicStep(
        parent_execution_id=parent,
        operation_code=text.check_id("operationCode", request.operation_code, text.CODE_MAX),
        producer_id=text.check_id("producerId", request.producer_id, text.CODE_MAX),
        display_name=text.check_text("displayName", request.display_name, text.LABEL_MAX),
        failure_policy=_failure_policy("failurePolicy", request.failure_policy),
        max_run_seconds=_at_most("maxRunSeconds", request.max_run_seconds, MAX_RUN_SECONDS),
    )


def known_workflow_id(value: str) -> WorkflowId:
    """A workflow id from its text; one that cannot exist is not found."""
    workflow_id = parse_workflow_id(value)
    if workflow_id is None:
        raise RefusedError(Reason.WORKFLOW_NOT_FOUND, "no such workflow")
    return workflow_id


def known_task_id(value: str) -> TaskId:
    """A task id from its text; one that cannot exist is not found."""
    task_id = parse_task_id(value)
    if task_id is None:
        raise RefusedError(Reason.TASK_NOT_FOUND, "no such task")
    return task_id


def known_execution_id(value: str) -> ExecutionId:
    """An execution id from its text; one that cannot exist is not found."""
    execution_id = parse_execution_id(value)
    if execution_id is None:
        raise RefusedError(Reason.EXECUTION_NOT_FOUND, "no such execution")
    return execution_id


def _task_spec(path: str, spec: register_service_pb2.TaskSpec) -> TaskSpec:
    if len(spec.known_steps) > MAX_KNOWN_STEPS:
        raise invalid(f"{path}.knownSteps", f"at most {MAX_KNOWN_STEPS} are allowed")
    if len(spec.policy_executors) > MAX_POLICY_EXECUTORS:
        raise invalid(f"{path}.policyExecutors", f"at most {MAX_POLICY_EXECUTORS} are allowed")
    steps = tuple(_step_spec(f"{path}.knownSteps[{i}]", step) for i, step in enumerate(spec.known_steps))
    _check_unique(f"{path}.knownSteps", "stepId", [step.step_id for step in steps])
    _check_dependencies(path, steps)
    if not -100 <= spec.priority <= 100:
        raise invalid(f"{path}.priority", "must be −100 to 100")
    canonical, digest = canonical_message(spec)
    status_version, operation_version = definition_versions(path, spec)
    return TaskSpec(
        client_task_key=text.check_id(f"{path}.clientTaskKey", spec.client_task_key, text.CODE_MAX),
        title=text.check_title(f"{path}.title", spec.title),
        task_type=text.check_optional_id(f"{path}.taskType", spec.task_type, text.CODE_MAX),
        product_id=text.check_optional_id(f"{path}.productId", spec.product_id, text.PRODUCT_MAX),
        priority=spec.priority,
        input_ref=text.check_text(f"{path}.inputRef", spec.input_ref, text.INPUT_REF_MAX),
        steps=steps,
        coordinator_producer=text.check_optional_id(
            f"{path}.coordinatorProducer", spec.coordinator_producer, text.CODE_MAX
        ),
        policy_executors=tuple(
            text.check_id(f"{path}.policyExecutors[{i}]", producer, text.CODE_MAX)
            for i, producer in enumerate(spec.policy_executors)
        ),
        grants=_grants(f"{path}.grants", spec.grants),
        sensitive=spec.sensitive,
        canonical=canonical,
        digest=digest,
        terms=registration_terms(path, spec),
        status_definition_version=status_version,
        operation_definition_version=operation_version,
        batch_id=text.check_optional_id(f"{path}.batchId", spec.batch_id, text.PRODUCT_MAX),
        parent_task_id=parent_task(spec),
        external_refs=external_refs(path, spec),
    )


def _step_spec(path: str, spec: register_service_pb2.StepSpec) -> StepSpec:
    step_id = text.check_step_id(f"{path}.stepId", spec.step_id)
    if step_id.startswith(text.DYNAMIC_STEP_PREFIX):
        raise invalid(f"{path}.stepId", "may not start with dyn_, which is reserved")
    if len(spec.depends_on) > MAX_DEPENDENCIES:
        raise invalid(f"{path}.dependsOn", f"at most {MAX_DEPENDENCIES} are allowed")
    return StepSpec(
        step_id=step_id,
        operation_code=text.check_id(f"{path}.operationCode", spec.operation_code, text.CODE_MAX),
        expected_producer=text.check_id(f"{path}.expectedProducer", spec.expected_producer, text.CODE_MAX),
        depends_on=tuple(spec.depends_on),
        failure_policy=_failure_policy(f"{path}.failurePolicy", spec.failure_policy),
        display_name=text.check_text(f"{path}.displayName", spec.display_name, text.LABEL_MAX),
        weight=_at_most(f"{path}.weight", spec.weight if spec.HasField("weight") else 1, MAX_WEIGHT),
        max_run_seconds=_at_most(f"{path}.maxRunSeconds", spec.max_run_seconds, MAX_RUN_SECONDS),
    )


def _check_dependencies(path: str, steps: Sequence[StepSpec]) -> None:
    known = {step.step_id for step in steps}
    for index, step in enumerate(steps):
        unknown = [name for name in step.depends_on if name not in known]
        if unknown:
            raise invalid(f"{path}.knownSteps[{index}].dependsOn", "names a step that is not among knownSteps")


def _check_unique(path: str, field: str, keys: Sequence[str]) -> None:
    if len(set(keys)) != len(keys):
        raise invalid(path, f"the same {field} stands twice")


def _grants(path: str, grants: Sequence[register_service_pb2.AccessGrant]) -> tuple[Grant, ...]:
    if len(grants) > MAX_GRANTS:
        raise invalid(path, f"at most {MAX_GRANTS} are allowed")
    return tuple(_grant(f"{path}[{i}]", grant) for i, grant in enumerate(grants))


def _grant(path: str, grant: register_service_pb2.AccessGrant) -> Grant:
    enums = register_service_pb2.AccessGrant.DESCRIPTOR.enum_types_by_name
    principal_type = _enum_name(f"{path}.principalType", enums["PrincipalType"], grant.principal_type)
    permission = _enum_name(f"{path}.permission", enums["Permission"], grant.permission)
    return Grant(
        principal_type, text.check_id(f"{path}.principalId", grant.principal_id, text.PRINCIPAL_MAX), permission
    )


def _enum_name(path: str, enum: EnumDescriptor, number: int) -> str:
    if number == 0:
        raise invalid(path, "is required")
    return enum_name(path, enum, number)


def _failure_policy(path: str, number: int) -> FailurePolicy | None:
    if number == common_pb2.FAILURE_POLICY_UNSPECIFIED:
        return None
    return FailurePolicy(_enum_name(path, common_pb2.FailurePolicy.DESCRIPTOR, number))


def _positive(path: str, number: int) -> int:
    if number < 1:
        raise invalid(path, "must be at least 1")
    return number


def _at_most(path: str, number: int, limit: int) -> int:
    if number > limit:
        raise invalid(path, f"must be at most {limit}")
    return number


class _HeartbeatTerms(Protocol):
    heartbeat_interval_seconds: int
    heartbeat_timeout_seconds: int


def _heartbeat(request: _HeartbeatTerms) -> tuple[int, int]:
    """(interval, timeout) in seconds; the timeout covers three intervals and the persist period (names.md)."""
    interval = request.heartbeat_interval_seconds or DEFAULT_HEARTBEAT_INTERVAL_SECONDS
    _at_most("heartbeatIntervalSeconds", interval, MAX_HEARTBEAT_INTERVAL_SECONDS)
    shortest = 3 * interval + HEARTBEAT_PERSIST_SECONDS
    timeout = request.heartbeat_timeout_seconds or max(DEFAULT_HEARTBEAT_TIMEOUT_SECONDS, shortest)
    if timeout < shortest:
        raise invalid("heartbeatTimeoutSeconds", f"must be at least {shortest} for an interval of {interval}")
    return interval, _at_most("heartbeatTimeoutSeconds", timeout, MAX_HEARTBEAT_TIMEOUT_SECONDS)


def finite(path: str, value: float) -> float:
    """A finite, non-negative number."""
    if not math.isfinite(value) or value < 0:
        raise invalid(path, "must be a finite number, not negative")
    return value
