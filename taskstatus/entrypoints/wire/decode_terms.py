"""What a task's creation fixes about its later steps and its relations (R-2, R-5, R-9, ID-5)."""

from __future__ import annotations

import re

from taskstatus_pb.v1 import common_pb2, register_service_pb2, task_commands_pb2, workflow_pb2

from taskstatus.domain import text
from taskstatus.domain.definitions import ANY_TASK_TYPE
from taskstatus.domain.errors import RefusedError, invalid
from taskstatus.domain.ids import TaskId, parse_task_id
from taskstatus.domain.metadata import MAX_EXTERNAL_REFS
from taskstatus.domain.reasons import Reason
from taskstatus.domain.registration_terms import DynamicPolicy, FixedLabels, RegistrationMode, RegistrationTerms
from taskstatus.domain.state import ExternalRef
from taskstatus.domain.workflow_aggregate import AggregationPolicy
from taskstatus.entrypoints.wire.values import enum_name

MAX_OPERATION_PATTERNS = 50
MAX_DYNAMIC_STEPS = 10_000
MAX_DEPTH = 16
MAX_PARALLEL_EXECUTIONS = 1_000
MAX_PER_MINUTE = 600
MAX_RUN_SECONDS = 366 * 24 * 3600
REF_TYPE_MAX = 64

_PATTERN = re.compile(r"[\x21-\x29\x2b-\x7e]+(\.\*)?\Z")


def registration_terms(path: str, spec: register_service_pb2.TaskSpec) -> RegistrationTerms:
    """Mode, bounds, labels and run time; a fixed manifest names its type and steps, a minimal task no step (R-2)."""
    mode = _mode(f"{path}.registrationMode", spec.registration_mode)
    if mode is RegistrationMode.FIXED and not (spec.task_type and spec.known_steps):
        raise invalid(f"{path}.registrationMode", "FIXED needs taskType and knownSteps")
    if mode is RegistrationMode.MINIMAL and spec.known_steps:
        raise invalid(f"{path}.knownSteps", "must be empty for MINIMAL")
    if mode is RegistrationMode.FIXED and spec.HasField("dynamic_registration"):
        raise invalid(f"{path}.dynamicRegistration", "has no meaning for FIXED")
    return RegistrationTerms(
        mode,
        _policy(f"{path}.dynamicRegistration", spec.dynamic_registration),
        FixedLabels(
            text.check_optional_id(f"{path}.billingAccountId", spec.billing_account_id, text.PRODUCT_MAX),
            text.check_optional_id(f"{path}.retentionPolicyId", spec.retention_policy_id, text.PRODUCT_MAX),
            text.check_optional_id(f"{path}.dataClassification", spec.data_classification, text.PRODUCT_MAX),
        ),
        _bounded(f"{path}.maxRunSeconds", spec.max_run_seconds, MAX_RUN_SECONDS),
    )


def definition_versions(path: str, spec: register_service_pb2.TaskSpec) -> tuple[int | None, int | None]:
    """(status, operation) definition version asked for: 0 is the newest, None where the task is not classified."""
    if spec.task_type == ANY_TASK_TYPE:
        raise invalid(f"{path}.taskType", "* stands for any type, so that no task can be of it")
    if spec.task_type:
        return spec.status_definition_version, spec.operation_definition_version
    if spec.status_definition_version or spec.operation_definition_version:
        raise invalid(f"{path}.taskType", "is required with a definition version")
    return None, None


def parent_task(spec: register_service_pb2.TaskSpec) -> TaskId | None:
    """The task that caused it; one that cannot exist is not found."""
    if not spec.parent_task_id:
        return None
    parent = parse_task_id(spec.parent_task_id)
    if parent is None:
        raise RefusedError(Reason.TASK_NOT_FOUND, "no such parent task", metadata={"field": "parentTaskId"})
    return parent


def external_refs(path: str, spec: register_service_pb2.TaskSpec) -> tuple[ExternalRef, ...]:
    """The numbers that name the task from its creation on."""
    if len(spec.external_refs) > MAX_EXTERNAL_REFS:
        raise invalid(f"{path}.externalRefs", f"at most {MAX_EXTERNAL_REFS} are allowed")
    return tuple(external_ref(f"{path}.externalRefs[{i}]", ref) for i, ref in enumerate(spec.external_refs))


def external_ref(path: str, ref: task_commands_pb2.ExternalRef) -> ExternalRef:
    """A number of another system."""
    return ExternalRef(
        text.check_id(f"{path}.refType", ref.ref_type, REF_TYPE_MAX),
        text.check_id(f"{path}.refValue", ref.ref_value, text.REFERENCE_MAX),
    )


def _mode(path: str, number: int) -> RegistrationMode:
    if number == common_pb2.REGISTRATION_MODE_UNSPECIFIED:
        return RegistrationMode.MIXED
    return RegistrationMode(enum_name(path, common_pb2.RegistrationMode.DESCRIPTOR, number))


def _policy(path: str, policy: register_service_pb2.DynamicRegistrationPolicy) -> DynamicPolicy:
    return DynamicPolicy(
        _patterns(f"{path}.allowedParentOperations", tuple(policy.allowed_parent_operations)),
        _patterns(f"{path}.allowedChildOperations", tuple(policy.allowed_child_operations)),
        _bounded(f"{path}.maxDynamicSteps", policy.max_dynamic_steps, MAX_DYNAMIC_STEPS),
        _bounded(f"{path}.maxDepth", policy.max_depth, MAX_DEPTH),
        _bounded(f"{path}.maxParallelExecutions", policy.max_parallel_executions, MAX_PARALLEL_EXECUTIONS),
        _bounded(f"{path}.maxRegistrationsPerMinute", policy.max_registrations_per_minute, MAX_PER_MINUTE),
    )


def _patterns(path: str, patterns: tuple[str, ...]) -> tuple[str, ...]:
    if len(patterns) > MAX_OPERATION_PATTERNS:
        raise invalid(path, f"at most {MAX_OPERATION_PATTERNS} are allowed")
    for index, pattern in enumerate(patterns):
        if len(pattern) > text.CODE_MAX or not _PATTERN.match(pattern):
            raise invalid(f"{path}[{index}]", "must be an operation, or a namespace that ends in .*")
    return patterns


def _bounded(path: str, value: int, limit: int) -> int:
    if value > limit:
        raise invalid(path, f"must be at most {limit}")
    return value


def aggregation_policy(path: str, number: workflow_pb2.AggregationPolicy.ValueType) -> AggregationPolicy:
    """How a workflow's status follows from its tasks; ALL_SUCCEED unless told (L-7)."""
    if number == workflow_pb2.AGGREGATION_POLICY_UNSPECIFIED:
        return AggregationPolicy.ALL_SUCCEED
    return AggregationPolicy(enum_name(path, workflow_pb2.AggregationPolicy.DESCRIPTOR, number))
