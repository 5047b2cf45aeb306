"""Mutants of the workflow axis: what its members make of it, and what its coordinator does (L-7, R-6)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from taskstatus.application.workflows import Workflows
from taskstatus.domain import workflow_aggregate, workflow_changes, workflow_commands
from taskstatus.domain.health import Health
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.state import WorkflowState
from taskstatus.domain.workflow_aggregate import AggregationPolicy, MemberCounts

from .mutant import Mutant
from .patching import Apply, around, method

AGGREGATE, RULING = "aggregate", "ruling"

Change = Callable[..., Any]


def workflow_mutants() -> Iterator[Mutant]:
    """Every mutant of this module."""
    for group, rules in RULES.items():
        for name, (spec, apply) in rules.items():
            yield Mutant(group, name, spec, apply)


def _whatever_policy(policy: AggregationPolicy) -> Change:
    def change(original: Change, _: AggregationPolicy, counts: MemberCounts) -> Any:
        return original(policy, counts)

    return change


def _counts_with(**names: str) -> Change:
    """Take one count for another, or for none where it is named ``-``."""

    def change(original: Change, first: Any, counts: MemberCounts) -> Any:
        changes = {name: getattr(counts, other) if other != "-" else 0 for name, other in names.items()}
        return original(first, replace(counts, **changes))

    return change


def _failed_first(original: Change, policy: AggregationPolicy, counts: MemberCounts) -> Any:
    return Lifecycle.FAILED if counts.failed and not counts.succeeded else original(policy, counts)


def _any_success_at_once(original: Change, policy: AggregationPolicy, counts: MemberCounts) -> Any:
    if policy is AggregationPolicy.ANY_SUCCEEDS and counts.succeeded:
        return Lifecycle.SUCCEEDED
    return original(policy, counts)


def _ruler_needs_no_ruling(original: Change, policy: AggregationPolicy, counts: MemberCounts) -> Any:
    if policy is AggregationPolicy.COORDINATOR_RULES:
        policy = AggregationPolicy.ALL_SUCCEED
    return original(policy, counts)


def _timed_out_as_cancelled(original: Change, policy: AggregationPolicy, counts: MemberCounts) -> Any:
    moved = replace(counts, timed_out=0, cancelled=counts.cancelled + counts.timed_out)
    return original(policy, moved)


def _degraded_first(original: Change, lifecycle: Lifecycle, counts: MemberCounts) -> Health:
    return Health.DEGRADED if counts.degraded and not lifecycle.is_terminal else original(lifecycle, counts)


def _healthy_or_not(original: Change, _: Lifecycle, counts: MemberCounts) -> Any:
    return original(Lifecycle.RUNNING, counts)


def _standing_with(**changes: Any) -> Change:
    def change(original: Change, counts: MemberCounts, standing: Any, members: int) -> Any:
        return original(counts, replace(standing, **changes), members)

    return change


def _ended_counts(original: Change, counts: MemberCounts, standing: Any, members: int) -> MemberCounts:
    counted: MemberCounts = original(counts, standing, members)
    if not standing.lifecycle.is_terminal:
        return counted
    stale, degraded = standing.stale, standing.degraded and not standing.stale
    return replace(counted, stale=counts.stale + members * stale, degraded=counts.degraded + members * degraded)


def _all_shared(original: Change, tally: Any, standing: Any, *args: Any) -> Any:
    return original(tally, replace(standing, sensitive=False), *args)


def _first_start_forgotten(_: Change, known: Any, lifecycle: Lifecycle, at: Any) -> Any:
    del known
    return None if lifecycle is Lifecycle.PENDING else at


def _end_forgotten(_: Change, known: Any, lifecycle: Lifecycle, at: Any) -> Any:
    del known
    return at if lifecycle.is_terminal else None


def _end_for_good(_: Change, known: Any, lifecycle: Lifecycle, at: Any) -> Any:
    return known or (at if lifecycle.is_terminal else None)


def _ruling_ignored(original: Change, workflow: WorkflowState, counts: MemberCounts) -> Any:
    return original(replace(workflow, ruled=False), counts)


def _sensitive_in_common(original: Change, workflow: Any, common: int, sensitive: int, at: Any) -> Any:
    return original(workflow, common + sensitive, 0, at)


def _of_any(*names: str) -> Change:
    """Judge a caller as one of the workflow's own tenant, scope or coordinator."""

    def change(original: Change, command: Any, workflow: Any) -> Any:
        if workflow is not None:
            own = {name: getattr(workflow, _FIELD_OF.get(name, name)) for name in names}
            command = replace(command, caller=replace(command.caller, **own))
        return original(command, workflow)

    return change


_FIELD_OF = {"producer_id": "coordinator_producer"}


def _any_version(original: Change, command: Any, *args: Any) -> Any:
    return original(replace(command, expected_version=0), *args)


def _versions_to_come(original: Change, command: Any, rows: Any, *args: Any) -> Any:
    if rows.workflow is not None and command.expected_version > rows.workflow.version:
        command = replace(command, expected_version=0)
    return original(command, rows, *args)


def _version_before_repeat(original: Change, command: Any, rows: Any, *args: Any) -> Any:
    original(command, replace(rows, seen=None), *args)
    return original(command, rows, *args)


def _never_seen(original: Change, command: Any, rows: Any, *args: Any) -> Any:
    return original(command, replace(rows, seen=None), *args)


def _same_whatever(original: Change, command: Any, workflow: Any, seen: Any) -> Any:
    return original(replace(command, digest=seen.digest), workflow, seen)


def _version_of_today(original: Change, command: Any, workflow: Any, seen: Any) -> Any:
    return replace(original(command, workflow, seen), workflow=workflow)


def _commanded_without(**changes: Any) -> Change:
    def change(original: Change, command: Any, *args: Any) -> Any:
        return original(replace(command, **changes), *args)

    return change


class _Unsettling:
    def __init__(self, store: Any) -> None:
        self._store = store

    async def transact(self, body: Change) -> Any:
        return await self._store.transact(lambda tx, attempt: body(tx, replace(attempt, settling=False)))


async def _unsettled(original: Change, self: Workflows, command: Any) -> Any:
    other = copy.copy(self)
    other._store = _Unsettling(self._store)  # type: ignore[assignment]
    return await original(other, command)


RULES: dict[str, dict[str, tuple[str, Apply]]] = {
    AGGREGATE: {
        **{
            f"every policy is {policy}": ("L-7", around(workflow_aggregate.lifecycle_of, _whatever_policy(policy)))
            for policy in AggregationPolicy
        },
        "a workflow runs before its tasks": ("L-7", around(workflow_aggregate.lifecycle_of, _counts_with(pending="-"))),
        "a task that runs again begins anew": (
            "L-7",
            around(workflow_aggregate.lifecycle_of, _counts_with(reopened="-")),
        ),
        "the end does not wait for cancelling tasks": (
            "L-7",
            around(workflow_aggregate.lifecycle_of, _counts_with(cancelling="-")),
        ),
        "timed out is cancelled": ("L-7", around(workflow_aggregate.lifecycle_of, _timed_out_as_cancelled)),
        "the first failure ends it": ("L-7", around(workflow_aggregate.lifecycle_of, _failed_first)),
        "the first success ends it": ("L-7", around(workflow_aggregate.lifecycle_of, _any_success_at_once)),
        "a coordinator need not rule": ("L-7", around(workflow_aggregate.lifecycle_of, _ruler_needs_no_ruling)),
        "DEGRADED goes before STALE": ("L-7", around(workflow_aggregate.health_of, _degraded_first)),
        "an ended workflow is unwell": ("L-7", around(workflow_aggregate.health_of, _healthy_or_not)),
        "a failed task does not show": ("L-7", around(workflow_aggregate.health_of, _counts_with(failed="-"))),
        "a timed-out task does not show": ("L-7", around(workflow_aggregate.health_of, _counts_with(timed_out="-"))),
        "a degraded task does not show": ("L-7", around(workflow_aggregate.health_of, _counts_with(degraded="-"))),
        "nobody is stale": ("L-7", around(workflow_aggregate._with_members, _standing_with(stale=False))),
        "ended tasks stay unwell": ("L-7", around(workflow_aggregate._with_members, _ended_counts)),
        "sensitive tasks are counted for all": ("P-4", around(workflow_aggregate.with_standing, _all_shared)),
        "sensitive tasks come in common": ("P-4", around(workflow_changes.with_new_members, _sensitive_in_common)),
        "it starts anew": ("L-7", around(workflow_changes._started, _first_start_forgotten)),
        "it ends anew": ("L-7", around(workflow_changes._finished, _end_forgotten)),
        "it ends for good": ("L-7", around(workflow_changes._finished, _end_for_good)),
    },
    RULING: {
        "another tenant rules": ("L-7", around(workflow_commands._admitted, _of_any("tenant_id"))),
        "another scope rules": ("L-7", around(workflow_commands._admitted, _of_any("authority_scope"))),
        "any service rules": ("L-7", around(workflow_commands._admitted, _of_any("producer_id"))),
        "no version is told": ("L-7", around(workflow_commands.update_workflow, _any_version)),
        "a version to come is as good as any": ("L-7", around(workflow_commands.update_workflow, _versions_to_come)),
        "the expected version goes before the repeat": (
            "R-6",
            around(workflow_commands.update_workflow, _version_before_repeat),
        ),
        "a command id is never known again": ("R-6", around(workflow_commands.update_workflow, _never_seen)),
        "other content is a repeat": ("R-6", around(workflow_commands._repeated, _same_whatever)),
        "a repeat is told the version of today": ("R-6", around(workflow_commands._repeated, _version_of_today)),
        "a settled COMMIT is a repeat": ("R-6", method(Workflows, "update", _unsettled)),
        "the title stays": ("L-7", around(workflow_commands._changed, _commanded_without(title=None))),
        "a ruling is no ruling": ("L-7", around(workflow_commands._changed, _commanded_without(ruling=None))),
        "a ruling is for good": ("L-7", around(workflow_commands._changed, _commanded_without(withdraw=False))),
        "the members go before the ruling": ("L-7", around(workflow_changes.status_for, _ruling_ignored)),
    },
}
"""By group and name: the spec id, and how the rule is broken."""
