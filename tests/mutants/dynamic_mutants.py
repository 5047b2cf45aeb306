"""Mutants of dynamic steps: their bounds, the parents that register them, and a task's relations (R-2, R-4, R-5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

from taskstatus.application import executions, register
from taskstatus.application.executions import ExecutionCommands
from taskstatus.domain import activation, dynamic, metadata, registration_terms
from taskstatus.domain.dynamic import DynamicLimits
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.registration_terms import DynamicPolicy, RegistrationMode
from taskstatus.domain.state import StepState, TaskState
from taskstatus.entrypoints.wire import decode_terms

from .mutant import Mutant
from .patching import Apply, always, around, instead_of, method

BOUNDS, PARENTS, RELATIONS = "dynamic bounds", "parents", "relations"
BEYOND_ANY = 2**31

Change = Callable[..., Any]


def dynamic_mutants() -> Iterator[Mutant]:
    """Every mutant of this module."""
    for group, rules in RULES.items():
        for name, (spec, apply) in rules.items():
            yield Mutant(group, name, spec, apply)


def _as_mixed(original: Change, task: TaskState, *args: Any) -> Any:
    terms = task.envelope.terms
    if terms.mode is RegistrationMode.FIXED:
        task = replace(task, envelope=replace(task.envelope, terms=replace(terms, mode=RegistrationMode.MIXED)))
    return original(task, *args)


def _minimal_as_fixed(original: Change, task: TaskState, *args: Any) -> Any:
    terms = task.envelope.terms
    if terms.mode is RegistrationMode.MINIMAL:
        task = replace(task, envelope=replace(task.envelope, terms=replace(terms, mode=RegistrationMode.FIXED)))
    return original(task, *args)


def _listed_children_only(_: Change, self: DynamicPolicy, code: str) -> bool:
    return registration_terms.is_within(code, self.child_operations)


def _any_coordinators_parent(original: Change, task: TaskState, wanted: Any, _: Any) -> Any:
    return original(task, wanted, None)


def _limits_with(name: str) -> Change:
    """One bound is not asked for."""

    def change(original: Change, task: Any, run: Any, limits: DynamicLimits, **named: Any) -> Any:
        return original(task, run, replace(limits, **{name: BEYOND_ANY}), **named)

    return change


def _always_new(original: Change, *args: Any, is_new_step: bool, **named: Any) -> Any:
    del is_new_step
    return original(*args, is_new_step=True, **named)


def _never_new(original: Change, *args: Any, is_new_step: bool, **named: Any) -> Any:
    del is_new_step
    return original(*args, is_new_step=False, **named)


def _minute_of(seconds: int) -> Apply:
    """Registrations age faster or slower than they do."""

    def apply() -> None:
        dynamic.MINUTE = timedelta(seconds=seconds)

    return apply


def _not_counted(original: Change, task: Any, run: Any, *args: Any, **named: Any) -> Any:
    original(task, run, *args, **named)
    return run


def _never_forgotten(original: Change, task: Any, run: Any, *args: Any, **named: Any) -> Any:
    counted = original(task, run, *args, **named)
    return replace(counted, registered_at=(*run.registered_at, counted.registered_at[-1]))


def _never_told_when(original: Change, what: str, limit: int, *_: Any) -> Any:
    return original(what, limit)


def _own_bounds_only(_: Change, self: DynamicLimits, __: DynamicPolicy) -> DynamicLimits:
    return self


def _any_prefix(_: Change, code: str, patterns: Any) -> bool:
    return any(code.startswith(pattern.removesuffix(".*")) for pattern in patterns)


def _names_only(_: Change, code: str, patterns: Any) -> bool:
    return code in patterns


def _namespaces_only(original: Change, code: str, patterns: Any) -> bool:
    return bool(original(code, [pattern for pattern in patterns if pattern.endswith("*")]))


def _parent_as(**changes: Any) -> Change:
    """Judge a parent as if it stood otherwise."""

    def change(original: Change, credential: Any, parent: StepState | None) -> None:
        original(credential, parent and replace(parent, **changes))

    return change


def _credential_as(**changes: Any) -> Change:
    def change(original: Change, credential: Any, parent: Any) -> None:
        original(credential and replace(credential, **changes), parent)

    return change


def _unstarted_parent(original: Change, credential: Any, parent: StepState | None) -> None:
    if parent is not None and parent.lifecycle is Lifecycle.PENDING:
        parent = replace(parent, lifecycle=Lifecycle.RUNNING)
    original(credential, parent)


def _ended_parent(original: Change, credential: Any, parent: StepState | None) -> None:
    if parent is not None and parent.lifecycle.is_terminal:
        parent = replace(parent, lifecycle=Lifecycle.RUNNING)
    original(credential, parent)


def _worker_without_credential(original: Change, command: Any, rows: Any) -> Any:
    if command.dynamic is not None and rows.task is not None:
        own = replace(command.caller, producer_id=rows.task.envelope.coordinator_producer)
        command = replace(command, caller=own)
    return original(command, rows)


def _parents_coordinate(original: Change, command: Any, rows: Any) -> Any:
    return original(replace(command, parent=None), rows)


def _children_for_all(original: Change, *args: Any) -> Any:
    return replace(original(*args), may_register_children=True)


def _children_for_nobody(original: Change, *args: Any) -> Any:
    return replace(original(*args), may_register_children=False)


async def _anybodys_parent(_: Change, self: ExecutionCommands, __: Any, token: str, handle: str) -> Any:
    return await self.open(token, handle) if token or handle else None


def _version_from_one(original: Change, command: Any, rows: Any, *args: Any) -> Any:
    return original(command, replace(rows, last_step_version=0), *args)


async def _any_parent_task(original: Change, tx: Any, caller: Any, path: str, tasks: Any) -> None:
    await original(tx, caller, path, [replace(task, parent_task_id=None) for task in tasks])


async def _taken_numbers(original: Change, tx: Any, caller: Any, path: str, tasks: Any) -> None:
    await original(tx, caller, path, [replace(task, external_refs=()) for task in tasks])


def _one_more_number() -> None:
    metadata.MAX_EXTERNAL_REFS += 1


def _any_fixed(original: Change, path: str, spec: Any) -> Any:
    plain = type(spec)()
    plain.CopyFrom(spec)
    plain.ClearField("registration_mode")
    return replace(original(path, plain), mode=RegistrationMode.MIXED)


RULES: dict[str, dict[str, tuple[str, Apply]]] = {
    BOUNDS: {
        "a fixed manifest grows": ("R-2", around(dynamic.check_policy, _as_mixed)),
        "a minimal task gets no steps": ("R-2", around(dynamic.check_policy, _minimal_as_fixed)),
        "any child": ("R-5", method(DynamicPolicy, "admits_child", always(True))),
        "no child without a list": ("R-5", method(DynamicPolicy, "admits_child", _listed_children_only)),
        "any parent that the coordinator names": ("R-5", around(dynamic.check_policy, _any_coordinators_parent)),
        "any number of steps": ("R-5", around(dynamic.count_registration, _limits_with("max_steps"))),
        "any depth": ("R-5", around(dynamic.count_registration, _limits_with("max_depth"))),
        "any number at once": ("R-5", around(dynamic.count_registration, _limits_with("max_parallel"))),
        "any number a minute": ("R-5", around(dynamic.count_registration, _limits_with("max_per_minute"))),
        "a retry is a further step": ("R-5", around(dynamic.count_registration, _always_new)),
        "no step is a further one": ("R-5", around(dynamic.count_registration, _never_new)),
        "a minute of 59 seconds": ("R-5", _minute_of(59)),
        "a minute of 61 seconds": ("R-5", _minute_of(61)),
        "registrations are not counted": ("R-5", around(dynamic.count_registration, _not_counted)),
        "registrations are never forgotten": ("R-5", around(dynamic.count_registration, _never_forgotten)),
        "nobody is told when to come again": ("R-5", around(dynamic._reached, _never_told_when)),
        "depth is not counted": ("R-5", instead_of(dynamic.depth_below, always(1))),
        "a task's own bounds do not count": ("R-5", method(DynamicLimits, "of", _own_bounds_only)),
        "a namespace ends anywhere": ("R-5", around(registration_terms.is_within, _any_prefix)),
        "there are no namespaces": ("R-5", around(registration_terms.is_within, _names_only)),
        "there are namespaces only": ("R-5", around(registration_terms.is_within, _namespaces_only)),
        "a fixed manifest may be empty": ("R-2", around(decode_terms.registration_terms, _any_fixed)),
    },
    PARENTS: {
        "an expired credential registers": ("R-4", around(dynamic.check_parent, _credential_as(received_unix=0.0))),
        "a revoked credential registers": ("R-4", around(dynamic.check_parent, _parent_as(generation=0))),
        "any credential grants children": ("R-4", around(dynamic.check_parent, _credential_as(grants_children=True))),
        "a superseded parent registers": ("R-4", around(dynamic.check_parent, _parent_as(superseded=False))),
        "an ended parent registers": ("R-4", around(dynamic.check_parent, _ended_parent)),
        "a parent registers before it starts": ("R-4", around(dynamic.check_parent, _unstarted_parent)),
        "a worker registers without a credential": ("R-4", around(activation._own_task, _worker_without_credential)),
        "a parent must be the coordinator": ("R-4", around(activation._own_task, _parents_coordinate)),
        "every execution may have children": ("R-5", around(executions.binding_of, _children_for_all)),
        "no execution may have children": ("R-5", around(executions.binding_of, _children_for_nobody)),
        "anybody's credential registers": ("R-4", method(ExecutionCommands, "open_parent", _anybodys_parent)),
        "a dynamic step's version begins anew": ("E-6", around(activation._new_attempt, _version_from_one)),
    },
    RELATIONS: {
        "any task is a parent": ("ID-5", around(register._check_relations, _any_parent_task)),
        "a new task takes numbers away": ("ID-5", around(register._check_relations, _taken_numbers)),
        "the limit of numbers is one more": ("ID-5", _one_more_number),
    },
}
"""By group and name: the spec id, and how the rule is broken."""
