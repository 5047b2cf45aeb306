"""Giving a task its type and binding its definitions: at its creation, or once by ClassifyTask (L-5, R-8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from taskstatus.domain.business_status import StatusDefinition
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.events import EventType
from taskstatus.domain.evolve import with_version
from taskstatus.domain.notifications import OutboxTools
from taskstatus.domain.quick_dataclasses import dataclass, replace
from taskstatus.domain.reasons import Reason
from taskstatus.domain.state import TaskEnvelope, TaskState
from taskstatus.domain.task_commands import (
    CommandHead,
    CommandOutcome,
    CommandRows,
    Fact,
    admitted,
    audited,
    recorded,
)

CLASSIFICATION_SCHEMA = "taskstatus.classification.v1"
"""Of what the timeline shows with TASK_CLASSIFIED: the type, the versions bound, and the label."""
NEWEST = 0
"""Asked for as a version: the newest one that may be bound."""
NONE_BOUND = 0
"""As a bound version: the generic statuses, or the operations of any type only."""


@dataclass(frozen=True, slots=True)
class TypeVersions:
    """What is published of one task type: each version, and whether something new may still be bound to it."""

    task_type: str
    statuses: Mapping[int, bool]
    operations: Mapping[int, bool]
    """Over all operations of the type: a version may be bound while any operation of it may."""


@dataclass(frozen=True, slots=True)
class BoundVersions:
    """The versions that a task is bound to for good (R-8)."""

    statuses: int
    """0: the generic statuses."""
    operations: int
    """The newest version of its type's operations that its executions bind; 0: those of any type only."""


def bound_versions(versions: TypeVersions, statuses: int, operations: int) -> BoundVersions:
    """The versions to bind for the ones asked for (0: the newest).

    Raises RefusedError DEFINITION_NOT_FOUND for one that is not published, DEFINITION_INCOMPATIBLE for a retired one.
    """
    return BoundVersions(
        _bound("statusDefinitionVersion", versions.task_type, versions.statuses, statuses),
        _bound("operationDefinitionVersion", versions.task_type, versions.operations, operations),
    )


def _bound(field: str, task_type: str, published: Mapping[int, bool], asked: int) -> int:
    if asked == NEWEST:
        return max((version for version, is_open in published.items() if is_open), default=NONE_BOUND)
    is_open = published.get(asked)
    metadata = {"field": field, "taskType": task_type, "version": str(asked)}
    if is_open is None:
        raise RefusedError(
            Reason.DEFINITION_NOT_FOUND,
            f"{field}: version {asked} of {task_type} is not published",
            metadata=metadata,
        )
    if not is_open:
        raise RefusedError(
            Reason.DEFINITION_INCOMPATIBLE, f"{field}: version {asked} of {task_type} is retired", metadata=metadata
        )
    return asked


@dataclass(frozen=True, slots=True)
class ClassifyTask:
    """Give an unclassified task its type (R-8)."""

    head: CommandHead
    task_type: str
    status_definition_version: int
    """0: the newest."""
    operation_definition_version: int
    """0: the newest."""
    product_id: str | None
    """None leaves the label as it is."""


@dataclass(frozen=True, slots=True)
class TypeBinding:
    """What a task type offers now."""

    versions: BoundVersions
    statuses: StatusDefinition | None
    """The definition bound; None for the generic statuses."""


BindingOf = Callable[[TaskState, ClassifyTask], TypeBinding]
"""The binding for what a command asks; raises what ``bound_versions`` raises."""


def classify(command: ClassifyTask, rows: CommandRows, binding_of: BindingOf, tools: OutboxTools) -> CommandOutcome:
    """The task with its type and definitions, once and for good.

    Raises RefusedError as ``admitted`` says, ALREADY_CLASSIFIED, TERMINAL, and for the definitions DEFINITION_NOT_FOUND
    and DEFINITION_INCOMPATIBLE.
    """
    task = admitted(command.head, rows)
    if isinstance(task, CommandOutcome):
        return task
    envelope = task.envelope
    if envelope.is_classified:
        raise RefusedError(
            Reason.ALREADY_CLASSIFIED,
            f"the task is classified as {envelope.task_type}",
            metadata={"taskType": envelope.task_type},
        )
    if task.lifecycle.is_terminal:
        raise RefusedError(Reason.TERMINAL, "the task has ended")
    binding = binding_of(task, command)
    _refuse_contradiction(task, binding.statuses)
    classified = replace(
        envelope,
        task_type=command.task_type,
        status_definition_version=binding.versions.statuses,
        operation_definition_version=binding.versions.operations,
        product_id=envelope.product_id if command.product_id is None else command.product_id,
    )
    after = replace(with_version(task, rows.now), envelope=classified)
    old, new = _value(envelope), _value(classified)
    fact = Fact(EventType.TASK_CLASSIFIED, shown=(CLASSIFICATION_SCHEMA, tools.to_json(new)))
    outcome = recorded(command.head, task, after, None, fact, rows.now, tools)
    outcome.changes.relabelled.append(after)
    audit_id = tools.new_id(envelope.bucket)
    outcome.changes.audits.append(audited(command.head, after, fact, tools.to_json(old), tools.to_json(new), audit_id))
    return outcome


def _refuse_contradiction(task: TaskState, statuses: StatusDefinition | None) -> None:
    """Each status means one lifecycle (L-4), so also the one that the task has already."""
    if statuses is not None and statuses.contradicts(task.business_status, task.lifecycle):
        raise RefusedError(
            Reason.DEFINITION_INCOMPATIBLE,
            f"the definition gives {task.business_status} another lifecycle than {task.lifecycle}",
            metadata={"businessStatus": task.business_status, "lifecycleStatus": task.lifecycle},
        )


def _value(envelope: TaskEnvelope) -> Mapping[str, object]:
    return {
        "taskType": envelope.task_type,
        "statusDefinitionVersion": envelope.status_definition_version,
        "operationDefinitionVersion": envelope.operation_definition_version,
        "productId": envelope.product_id,
    }
