"""Mutants of the workflow projector, of its triggers, and of who sees which cut of a workflow (L-7, P-4)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from taskstatus.application import workflows
from taskstatus.application.workflow_projection import WorkflowProjections
from taskstatus.domain import notifications, workflow_projection, workflow_views
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.state import TaskState, WorkflowState
from taskstatus.domain.workflow_aggregate import MemberCounts
from taskstatus.domain.workflow_views import WorkflowCut, WorkflowScope
from taskstatus.runtime.workflow_projector import WorkflowProjector

from .mutant import Mutant
from .patching import Apply, always, around, instead_of, method

PROJECTION, CUTS = "projection", "workflow cuts"

Change = Callable[..., Any]


def workflow_view_mutants() -> Iterator[Mutant]:
    """Every mutant of this module."""
    for group, rules in RULES.items():
        for name, (spec, apply) in rules.items():
            yield Mutant(group, name, spec, apply)


def _every_count_is_a_version(original: Change, changes: Any, workflow: Any, *args: Any) -> Any:
    after = original(changes, workflow, *args)
    if after.version > workflow.version or after == workflow:
        return after
    changes.workflows[-1] = replace(after, version=after.version + 1)
    return changes.workflows[-1]


def _unshown_forgotten(original: Change, changes: Any, workflow: Any, *args: Any) -> Any:
    before = len(changes.workflows)
    after = original(changes, workflow, *args)
    if after.version == workflow.version:
        del changes.workflows[before:]
    return after


def _counted_only(original: Change, counts: MemberCounts) -> MemberCounts:
    del original
    return counts


def _cut_shown_only(cut: Callable[[WorkflowState], WorkflowCut], _: Change, workflow: WorkflowState) -> Any:
    return workflow_projection._shown_of(cut(workflow))


def _trigger_for(**same: str) -> Change:
    """A move in one thing leaves no trigger."""

    def change(original: Change, tools: Any, before: TaskState, after: TaskState, *args: Any) -> Any:
        changed = {name: getattr(before, name) for name in same.values()}
        return original(tools, before, replace(after, **changed), *args)

    return change


def _triggers_always(original: Change, tools: Any, before: TaskState, after: TaskState, *args: Any) -> Any:
    moved = Lifecycle.RUNNING if after.lifecycle is not Lifecycle.RUNNING else Lifecycle.PENDING
    return original(tools, replace(before, lifecycle=moved), after, *args)


class _Blind:
    """A transaction that sees something else."""

    def __init__(self, tx: Any, **answers: Any) -> None:
        self._tx = tx
        self._answers = answers

    def __getattr__(self, name: str) -> Any:
        return self._answers.get(name) or getattr(self._tx, name)


class _BlindStore:
    def __init__(self, store: Any, answers: Callable[[Any], dict[str, Any]]) -> None:
        self._store = store
        self._answers = answers

    async def transact(self, body: Change) -> Any:
        return await self._store.transact(lambda tx, attempt: body(_Blind(tx, **self._answers(tx)), attempt))


def _projecting(answers: Callable[[Any], dict[str, Any]]) -> Apply:
    async def change(original: Change, self: WorkflowProjections, triggers: Any) -> Any:
        other = copy.copy(self)
        other._store = _BlindStore(self._store, answers)  # type: ignore[assignment]
        return await original(other, triggers)

    return method(WorkflowProjections, "project", change)


def _no_workflow_left(_: Any) -> dict[str, Any]:
    async def existing(ids: Any) -> Any:
        del ids
        return set()

    return {"existing_workflows": existing}


def _triggers_kept(tx: Any) -> dict[str, Any]:
    async def write(changes: Any) -> None:
        await tx.write(replace(changes, settled_triggers=[]))

    return {"write": write}


def _never_resting(original: Change, self: WorkflowProjector, found: Any) -> Any:
    self._resting = {}
    return original(self, found)


async def _from_the_beginning(original: Change, self: WorkflowProjector) -> Any:
    self._position = None
    return await original(self)


async def _all_or_none(original: Change, self: WorkflowProjector, group: Any) -> int:
    del original, self, group
    return 0


def _cut_with(**changes: Any) -> Change:
    def change(original: Change, *args: Any) -> WorkflowCut:
        return replace(original(*args), **changes)

    return change


def _as_full(_: Change, workflow: WorkflowState, *__: Any) -> WorkflowCut:
    return replace(workflow_views.full_cut(workflow), scope=WorkflowScope.SHARED)


def _status_of_all(original: Change, workflow: WorkflowState, *args: Any) -> WorkflowCut:
    return replace(original(workflow, *args), lifecycle=workflow.lifecycle)


def _own_times(original: Change, workflow: WorkflowState, seen: Any) -> WorkflowCut:
    cut: WorkflowCut = original(workflow, seen)
    return replace(cut, started_at=seen.started_at, finished_at=seen.finished_at)


def _in_any(name: str) -> Change:
    def change(original: Change, workflow: WorkflowState, service: Any) -> bool:
        return bool(original(workflow, replace(service, **{name: getattr(workflow, name)})))

    return change


def _any_tenants_person(original: Change, workflow: WorkflowState, user: Any) -> bool:
    return bool(original(workflow, replace(user, tenant_id=workflow.tenant_id)))


def _owner_only(_: Change, workflow: WorkflowState, user: Any) -> bool:
    return (workflow.tenant_id, workflow.owner_id) == (user.tenant_id, user.user_id)


def _without_groups(original: Change, user: Any) -> Any:
    return original(replace(user, projects=frozenset(), roles=frozenset()))


def _never_protected(original: Change, *args: Any) -> Any:
    return tuple(replace(row, protected=False) for row in original(*args))


def _always_protected(original: Change, *args: Any) -> Any:
    return tuple(replace(row, protected=True) for row in original(*args))


def _one_for_all(original: Change, *args: Any) -> Any:
    owners, viewers = original(*args)
    return owners, replace(viewers, payload=owners.payload)


RULES: dict[str, dict[str, tuple[str, Apply]]] = {
    PROJECTION: {
        "counts that nobody sees are versions": ("L-7", around(workflow_projection.project, _every_count_is_a_version)),
        "counts that nobody sees are forgotten": ("L-7", around(workflow_projection.project, _unshown_forgotten)),
        "stale tasks are shown by number": ("L-7", around(workflow_projection._only_shown, _counted_only)),
        "only the owner's cut is looked at": (
            "L-7",
            around(workflow_projection._shown, partial(_cut_shown_only, workflow_views.full_cut)),
        ),
        "only the common cut is looked at": (
            "L-7",
            around(workflow_projection._shown, partial(_cut_shown_only, workflow_views.shared_cut)),
        ),
        "a task's lifecycle leaves no trigger": (
            "L-7",
            around(notifications.aggregate_trigger, _trigger_for(of="lifecycle")),
        ),
        "a task's staleness leaves no trigger": (
            "L-7",
            around(notifications.aggregate_trigger, _trigger_for(of="stale_steps")),
        ),
        "a degraded task leaves no trigger": (
            "L-7",
            around(notifications.aggregate_trigger, _trigger_for(of="degraded_steps")),
        ),
        "every version leaves a trigger": ("L-7", around(notifications.aggregate_trigger, _triggers_always)),
        "a trigger is settled while its workflow is held": ("L-7", _projecting(_no_workflow_left)),
        "triggers are never settled": ("L-7", _projecting(_triggers_kept)),
        "a workflow that fails gets no rest": ("L-7", method(WorkflowProjector, "_groups", _never_resting)),
        "a full round begins from the beginning": ("L-7", method(WorkflowProjector, "_look", _from_the_beginning)),
        "one failure holds the whole group": ("L-7", method(WorkflowProjector, "_project_singly", _all_or_none)),
    },
    CUTS: {
        "the common cut is the whole": ("P-4", around(workflow_views.shared_cut, _as_full)),
        "the common cut has the whole's status": ("P-4", around(workflow_views.shared_cut, _status_of_all)),
        "a reader's cut has the whole's status": ("P-4", around(workflow_views.reader_cut, _status_of_all)),
        "a reader's cut is taken for the whole": (
            "P-4",
            around(workflow_views.reader_cut, _cut_with(scope=WorkflowScope.FULL)),
        ),
        "a ruling has the reader's times": ("P-4", around(workflow_views.reader_cut, _own_times)),
        "any tenant's service sees it": ("P-4", around(workflows._is_in_scope, _in_any("tenant_id"))),
        "any scope's service sees it": ("P-4", around(workflows._is_in_scope, _in_any("authority_scope"))),
        "any tenant's person follows it": ("P-4", around(workflows._may_follow, _any_tenants_person)),
        "anybody follows it": ("P-4", instead_of(workflows._may_follow, always(True))),
        "its owner alone follows it": ("A-2", around(workflows._may_follow, _owner_only)),
        "projects and roles see nothing": ("P-4", around(workflows._principals, _without_groups)),
        "an end may be superseded": ("O-3", around(notifications.workflow_notifications, _never_protected)),
        "a passing aggregate is protected": ("O-3", around(notifications.workflow_notifications, _always_protected)),
        "everybody is told the whole": ("P-4", around(notifications.workflow_notifications, _one_for_all)),
    },
}
"""By group and name: the spec id, and how the rule is broken."""
