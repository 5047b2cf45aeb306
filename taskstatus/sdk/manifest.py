"""What a coordinator creates, as plain values: steps, tasks, grants (R-1, R-9, R-10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from taskstatus_pb.v1 import common_pb2, register_service_pb2


class FailurePolicy(StrEnum):
    """What a step's failure means for its task; the service marks, it never ends the task (L-6)."""

    FAIL_TASK = "FAIL_TASK"
    RETRY_THEN_FAIL_TASK = "RETRY_THEN_FAIL_TASK"
    CONTINUE_WITH_WARNING = "CONTINUE_WITH_WARNING"
    WAIT_FOR_USER = "WAIT_FOR_USER"


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
    failure_policy: FailurePolicy = FailurePolicy.FAIL_TASK
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
            failure_policy=common_pb2.FailurePolicy.Value(self.failure_policy),
            display_name=self.display_name,
            weight=self.weight,
            max_run_seconds=self.max_run_seconds,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """An independent task; ``client_task_key`` makes its creation idempotent within the workflow."""

    client_task_key: str
    title: str
    task_type: str = ""
    product_id: str = ""
    priority: int = 0
    input_ref: str = ""
    steps: Sequence[StepSpec] = ()
    coordinator_producer: str = ""
    policy_executors: Sequence[str] = ()
    grants: Sequence[Grant] = ()
    sensitive: bool = False

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
