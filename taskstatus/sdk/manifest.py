"""What a coordinator creates, as plain values: steps, tasks, grants, bounds (R-1, R-2, R-5, R-9, R-10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from taskstatus_pb.v1 import common_pb2, register_service_pb2, task_commands_pb2


class FailurePolicy(StrEnum):
    """What a step's failure means for its task; the service marks, it never ends the task (L-6)."""

    FAIL_TASK = "FAIL_TASK"
    RETRY_THEN_FAIL_TASK = "RETRY_THEN_FAIL_TASK"
    CONTINUE_WITH_WARNING = "CONTINUE_WITH_WARNING"
    WAIT_FOR_USER = "WAIT_FOR_USER"


class RegistrationMode(StrEnum):
    """Which steps a task may have (R-2)."""

    FIXED = "FIXED"
    """Its type and all its steps are known at creation."""
    MINIMAL = "MINIMAL"
    """No step is known at creation: each is registered while the task runs."""
    MIXED = "MIXED"
    """A known backbone, and dynamic steps."""


class AggregationPolicy(StrEnum):
    """How a workflow's status follows from its tasks; a ruling goes before it (L-7)."""

    ALL_SUCCEED = "ALL_SUCCEED"
    ANY_SUCCEEDS = "ANY_SUCCEEDS"
    COORDINATOR_RULES = "COORDINATOR_RULES"
    """Never ends by itself: ``Coordinator.update_workflow`` ends it."""


class PrincipalType(StrEnum):
    """Whom a grant names."""

    USER = "USER"
    PROJECT = "PROJECT"
    ROLE = "ROLE"


class Permission(StrEnum):
    """What a grant allows; each includes the ones before it."""

    VIEW = "VIEW"
    OPERATE = "OPERATE"
    ADMIN = "ADMIN"


@dataclass(frozen=True, slots=True)
class Grant:
    """One person, project or role that may see a task."""

    principal_type: PrincipalType
    principal_id: str
    permission: Permission = Permission.VIEW

    def to_message(self) -> register_service_pb2.AccessGrant:
        """The wire form."""
        kind = register_service_pb2.AccessGrant
        return kind(
            principal_type=kind.PrincipalType.Value(self.principal_type),
            principal_id=self.principal_id,
            permission=kind.Permission.Value(self.permission),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSpec:
    """A step known when its task is created. ``weight`` is its share of the task's progress."""

    step_id: str
    operation_code: str
    expected_producer: str
    depends_on: Sequence[str] = ()
    failure_policy: FailurePolicy | None = None
    """None: the policy of the operation's definition, else FAIL_TASK."""
    display_name: str = ""
    weight: int = 1
    max_run_seconds: int = 0

    def to_message(self) -> register_service_pb2.StepSpec:
        """The wire form."""
        return register_service_pb2.StepSpec(
            step_id=self.step_id,
            operation_code=self.operation_code,
            expected_producer=self.expected_producer,
            depends_on=self.depends_on,
            failure_policy=_policy_value(self.failure_policy),
            display_name=self.display_name,
            weight=self.weight,
            max_run_seconds=self.max_run_seconds,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicStep:
    """A step that was not known when its task was created (R-4); it becomes ``dyn_`` + ``client_step_key``."""

    client_step_key: str
    operation_code: str
    producer_id: str
    attempt: int = 1
    """A retry is the last attempt + 1, with everything else as before."""
    display_name: str = ""
    failure_policy: FailurePolicy | None = None
    """None: the policy of the operation's definition, else FAIL_TASK."""
    input_ref: str = ""
    """Empty: the task's."""
    max_run_seconds: int = 0
    heartbeat_interval_seconds: int = 0
    """0: the service's default."""
    heartbeat_timeout_seconds: int = 0
    """0: the service's default."""

    def to_request(self, task_id: str, command_id: str) -> register_service_pb2.RegisterExecutionRequest:
        """The registration of one attempt, without its parent."""
        return register_service_pb2.RegisterExecutionRequest(
            command_id=command_id,
            task_id=task_id,
            client_step_key=self.client_step_key,
            operation_code=self.operation_code,
            producer_id=self.producer_id,
            step_attempt=self.attempt,
            display_name=self.display_name,
            failure_policy=_policy_value(self.failure_policy),
            input_ref=self.input_ref,
            max_run_seconds=self.max_run_seconds,
            heartbeat_interval_seconds=self.heartbeat_interval_seconds,
            heartbeat_timeout_seconds=self.heartbeat_timeout_seconds,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicPolicy:
    """Bounds of a task's dynamic steps in one run; 0 and empty stand for the service's own (R-5)."""

    parent_operations: Sequence[str] = ()
    """Operations whose executions may register children themselves, such as ``AGENT.RUN`` or ``AGENT.*``."""
    child_operations: Sequence[str] = ()
    """Operations that may be registered, such as ``SEARCH.*``; empty: any."""
    max_steps: int = 0
    max_depth: int = 0
    max_parallel: int = 0
    max_per_minute: int = 0

    def to_message(self) -> register_service_pb2.DynamicRegistrationPolicy:
        """The wire form."""
        return register_service_pb2.DynamicRegistrationPolicy(
            allowed_parent_operations=self.parent_operations,
            allowed_child_operations=self.child_operations,
            max_dynamic_steps=self.max_steps,
            max_depth=self.max_depth,
            max_parallel_executions=self.max_parallel,
            max_registrations_per_minute=self.max_per_minute,
        )


@dataclass(frozen=True, slots=True)
class ExternalRef:
    """A number under which another system knows a task, such as an order's; it names one task for good (ID-5)."""

    ref_type: str
    ref_value: str

    def to_message(self) -> task_commands_pb2.ExternalRef:
        """The wire form."""
        return task_commands_pb2.ExternalRef(ref_type=self.ref_type, ref_value=self.ref_value)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """An independent task; ``client_task_key`` makes its creation idempotent within the workflow."""

    client_task_key: str
    title: str
    task_type: str = ""
    """Empty: ``Coordinator.classify`` gives it one, once."""
    product_id: str = ""
    priority: int = 0
    input_ref: str = ""
    steps: Sequence[StepSpec] = ()
    coordinator_producer: str = ""
    policy_executors: Sequence[str] = ()
    grants: Sequence[Grant] = ()
    sensitive: bool = False
    mode: RegistrationMode | None = None
    """None: MIXED."""
    dynamic: DynamicPolicy | None = None
    """None: the service's own bounds, and no execution registers children itself."""
    status_definition_version: int = 0
    """With ``task_type``; 0: the newest, or the generic statuses."""
    operation_definition_version: int = 0
    """With ``task_type``: the newest version that its executions may bind; 0: the newest published."""
    batch_id: str = ""
    parent_task_id: str = ""
    """The task that caused it; only relates."""
    external_refs: Sequence[ExternalRef] = ()
    billing_account_id: str = ""
    retention_policy_id: str = ""
    data_classification: str = ""
    max_run_seconds: int = 0
    """After so many seconds of a run it is listed as stuck work, never failed; 0: never."""

    def to_message(self) -> register_service_pb2.TaskSpec:
        """The wire form."""
        return register_service_pb2.TaskSpec(
            client_task_key=self.client_task_key,
            title=self.title,
            task_type=self.task_type,
            product_id=self.product_id,
            priority=self.priority,
            input_ref=self.input_ref,
            known_steps=[step.to_message() for step in self.steps],
            coordinator_producer=self.coordinator_producer,
            policy_executors=self.policy_executors,
            grants=[grant.to_message() for grant in self.grants],
            sensitive=self.sensitive,
            registration_mode=_mode_value(self.mode),
            dynamic_registration=self.dynamic.to_message() if self.dynamic is not None else None,
            status_definition_version=self.status_definition_version,
            operation_definition_version=self.operation_definition_version,
            batch_id=self.batch_id,
            parent_task_id=self.parent_task_id,
            external_refs=[ref.to_message() for ref in self.external_refs],
            billing_account_id=self.billing_account_id,
            retention_policy_id=self.retention_policy_id,
            data_classification=self.data_classification,
            max_run_seconds=self.max_run_seconds,
        )


@dataclass(frozen=True, slots=True)
class CreatedTask:
    """A task as its creation left it."""

    client_task_key: str
    task_id: str
    task_version: int
    """1 when it was just created."""


@dataclass(frozen=True, slots=True)
class CreatedWorkflow:
    """A workflow and its initial tasks, in the order asked for."""

    workflow_id: str
    workflow_version: int
    created: bool
    """False when it existed already and was given again."""
    tasks: tuple[CreatedTask, ...]


def created_task(message: register_service_pb2.CreatedTask) -> CreatedTask:
    """From the wire form."""
    return CreatedTask(message.client_task_key, message.task_id, message.task_version)


def _mode_value(mode: RegistrationMode | None) -> common_pb2.RegistrationMode.ValueType:
    if mode is None:
        return common_pb2.REGISTRATION_MODE_UNSPECIFIED
    return common_pb2.RegistrationMode.Value(mode)


def _policy_value(policy: FailurePolicy | None) -> common_pb2.FailurePolicy.ValueType:
    if policy is None:
        return common_pb2.FAILURE_POLICY_UNSPECIFIED
    return common_pb2.FailurePolicy.Value(policy)
