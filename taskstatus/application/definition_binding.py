"""Binds tasks to the definitions of their type, and executions to one version of their operation (L-5, R-8)."""

from __future__ import annotations

from collections.abc import Iterable

from taskstatus.application.ports_definitions import DefinitionRegistry
from taskstatus.domain.classification import (
    NEWEST,
    NONE_BOUND,
    ClassifyTask,
    TypeBinding,
    bound_versions,
)
from taskstatus.domain.commands import StepSpec, TaskSpec
from taskstatus.domain.definitions import OperationDefinition
from taskstatus.domain.quick_dataclasses import dataclass, replace
from taskstatus.domain.state import TaskState


@dataclass(frozen=True, slots=True)
class WantedVersions:
    """The definitions that a command names; versions of 0 are the newest."""

    task_type: str
    statuses: int
    operations: int


def wanted_by(spec: TaskSpec) -> WantedVersions:
    """What a task to create names."""
    return WantedVersions(
        spec.task_type, spec.status_definition_version or NEWEST, spec.operation_definition_version or NEWEST
    )


class DefinitionBinding:
    """Answers from memory, so that it may be asked under locks; ``prepare`` reads before them what is not known."""

    def __init__(self, registry: DefinitionRegistry) -> None:
        self._registry = registry

    async def prepare(self, tenant_id: str, authority_scope: str, wanted: Iterable[WantedVersions]) -> None:
        """Read what is new, where a command names a version that another replica may have published just now.

        Raises StoreUnavailableError; whether the version exists at all is judged when it is bound.
        """
        if any(self._is_unknown(tenant_id, authority_scope, each) for each in wanted):
            await self._registry.refresh()

    def _is_unknown(self, tenant_id: str, authority_scope: str, wanted: WantedVersions) -> bool:
        if not wanted.task_type or (wanted.statuses, wanted.operations) == (NEWEST, NEWEST):
            return False
        known = self._registry.type_versions(tenant_id, authority_scope, wanted.task_type)
        return wanted.statuses not in (NEWEST, *known.statuses) or wanted.operations not in (NEWEST, *known.operations)

    def bind_spec(self, tenant_id: str, authority_scope: str, spec: TaskSpec) -> TaskSpec:
        """A task to create with the versions that it is bound to, and its steps with their operations' policies (L-6).

        A task without a type stays unclassified. Raises RefusedError as ``bound_versions`` says.
        """
        if spec.task_type:
            versions = self._registry.type_versions(tenant_id, authority_scope, spec.task_type)
            wanted = wanted_by(spec)
            bound = bound_versions(versions, wanted.statuses, wanted.operations)
            spec = replace(
                spec, status_definition_version=bound.statuses, operation_definition_version=bound.operations
            )
        else:
            spec = replace(spec, status_definition_version=None, operation_definition_version=None)
        if all(step.failure_policy is not None for step in spec.steps):
            return spec
        steps = tuple(self._with_policy(tenant_id, authority_scope, spec, step) for step in spec.steps)
        return replace(spec, steps=steps)

    def _with_policy(self, tenant_id: str, authority_scope: str, spec: TaskSpec, step: StepSpec) -> StepSpec:
        if step.failure_policy is not None:
            return step
        definition = self._registry.latest(
            tenant_id, authority_scope, spec.task_type, step.operation_code, spec.operation_definition_version
        )
        return replace(step, failure_policy=definition.failure_policy)

    def bind_classified(self, task: TaskState, command: ClassifyTask) -> TypeBinding:
        """What ClassifyTask binds. Raises RefusedError as ``bound_versions`` says."""
        envelope = task.envelope
        tenant_id, authority_scope = envelope.tenant_id, envelope.authority_scope
        versions = bound_versions(
            self._registry.type_versions(tenant_id, authority_scope, command.task_type),
            command.status_definition_version,
            command.operation_definition_version,
        )
        if versions.statuses == NONE_BOUND:
            return TypeBinding(versions, None)
        statuses = self._registry.known_statuses(tenant_id, authority_scope, command.task_type, versions.statuses)
        return TypeBinding(versions, statuses)

    def operation_of(self, task: TaskState, operation_code: str) -> OperationDefinition:
        """What a new execution of a task binds for life: the newest version within the task's own bound."""
        envelope = task.envelope
        return self._registry.latest(
            envelope.tenant_id,
            envelope.authority_scope,
            envelope.task_type,
            operation_code,
            envelope.operation_definition_version,
        )
