"""Mutants of definitions: what may be published, which version is bound, what a status may follow (L-4, L-5, R-8)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from taskstatus.adapters.definitions import publishing
from taskstatus.adapters.definitions.registry import CachedRegistry
from taskstatus.adapters.definitions.shelf import DefinitionShelf
from taskstatus.application.definition_binding import DefinitionBinding
from taskstatus.domain import batch, business_status, classification
from taskstatus.domain.business_status import BusinessStatus, StatusDefinition, StatusProblem
from taskstatus.domain.lifecycle import Lifecycle

from .mutant import Mutant
from .patching import Apply, always, around, instead_of, method

DEFINITIONS = "definitions"

Change = Callable[..., Any]


def definition_mutants() -> Iterator[Mutant]:
    """Every mutant of this module."""
    for name, (spec, apply) in RULES.items():
        yield Mutant(DEFINITIONS, name, spec, apply)


def _without_problems_of(field: str) -> Change:
    def change(original: Change, statuses: Any) -> list[StatusProblem]:
        return [problem for problem in original(statuses) if problem.field != field]

    return change


def _only_generic_names(original: Change, statuses: Any) -> list[StatusProblem]:
    """``allowed_from`` may not name the definition's own statuses."""
    named = [StatusProblem(i, "allowed_from", "own") for i, status in enumerate(statuses) if status.allowed_from]
    return [*original(statuses), *named]


def _retired_counts(original: Change, field: str, task_type: str, published: Any, asked: int) -> int:
    return int(original(field, task_type, dict.fromkeys(published, True), asked))


def _unknown_counts(original: Change, field: str, task_type: str, published: Any, asked: int) -> int:
    return int(original(field, task_type, {**{asked: True}, **published} if asked else published, asked))


def _oldest(original: Change, field: str, task_type: str, published: Any, asked: int) -> int:
    if asked:
        return int(original(field, task_type, published, asked))
    return min((version for version, is_open in published.items() if is_open), default=0)


def _without_bound(original: Change, self: DefinitionShelf, *args: Any) -> Any:
    return original(self, *args[:-1], None)


def _bound_for_any_type_too(original: Change, self: DefinitionShelf, *args: Any) -> Any:
    found = original(self, *args)
    up_to = args[-1]
    return original(self, *args[:3], "NO.SUCH", None) if up_to is not None and found.version > up_to else found


def _newest_of_retired(original: Change, self: DefinitionShelf, key: Any, operation_code: str, up_to: Any) -> Any:
    versions = self._operations.get(key, {}).get(operation_code, {})
    newest = max((version for version in versions if up_to is None or version <= up_to), default=None)
    return None if newest is None else versions[newest].definition


def _last_scope(original: Change, self: DefinitionShelf, *args: Any) -> Any:
    by_scope = self._scopes.get(args, {})
    return by_scope[max(by_scope)] if by_scope else None


def _all_operations_open(original: Change, self: DefinitionShelf, *args: Any) -> Any:
    found = original(self, *args)
    return replace(found, operations=dict.fromkeys(found.operations, True))


def _learnt_once(original: Change, self: CachedRegistry, row: Any) -> int:
    key = (row.tenant_id, row.authority_scope, row.key)
    seen = {(change.tenant_id, change.authority_scope, change.key) for change in self._seen}
    return 0 if key in seen else int(original(self, row))


def _policy_of_the_newest(original: Change, self: DefinitionBinding, *args: Any) -> Any:
    *scope, spec, step = args
    return original(self, *scope, replace(spec, operation_definition_version=None), step)


def _as_unclassified(original: Change, command: Any, rows: Any, *args: Any) -> Any:
    if rows.task is not None:
        envelope = replace(rows.task.envelope, status_definition_version=None)
        rows = replace(rows, task=replace(rows.task, envelope=envelope))
    return original(command, rows, *args)


def _as_running(original: Change, command: Any, rows: Any, *args: Any) -> Any:
    if rows.task is not None and rows.task.lifecycle.is_terminal:
        rows = replace(rows, task=replace(rows.task, lifecycle=Lifecycle.RUNNING))
    return original(command, rows, *args)


def _unlabelled(original: Change, command: Any, *args: Any) -> Any:
    return original(replace(command, product_id=None), *args)


def _changed_without(name: str) -> Change:
    def change(original: Change, *args: Any) -> Any:
        outcome = original(*args)
        setattr(outcome.changes, name, [])
        return outcome

    return change


def _without_same_status(original: Change, newer: Any, older: Any) -> bool:
    return bool(original(newer, replace(older, business_status="")))


def _last_only(original: Change, versions: Any, item: Any) -> list[str]:
    newest = max(versions, default=0)
    return list(original({newest: versions[newest]} if newest else {}, item))


RULES: dict[str, tuple[str, Apply]] = {
    "a status stands twice": ("L-4", around(business_status.problems_of, _without_problems_of("code"))),
    "a generic status changes its lifecycle": (
        "L-4",
        around(business_status.problems_of, _without_problems_of("lifecycle")),
    ),
    "a status follows one that nobody knows": (
        "L-4",
        around(business_status.problems_of, _without_problems_of("allowed_from")),
    ),
    "a status follows generic ones only": ("L-4", around(business_status.problems_of, _only_generic_names)),
    "any status follows any": ("L-4", method(BusinessStatus, "may_follow", always(True))),
    "no definition contradicts a task": ("L-4", method(StatusDefinition, "contradicts", always(False))),
    "a retired version is bound": ("R-8", around(classification._bound, _retired_counts)),
    "an unknown version is bound": ("R-8", around(classification._bound, _unknown_counts)),
    "the oldest version is bound": ("R-8", around(classification._bound, _oldest)),
    "a classified task is classified": ("R-8", around(classification.classify, _as_unclassified)),
    "an ended task is classified": ("R-8", around(classification.classify, _as_running)),
    "the label is forgotten": ("R-8", around(classification.classify, _unlabelled)),
    "a classification is not audited": ("R-8", around(classification.classify, _changed_without("audits"))),
    "a classification leaves the envelope": (
        "R-8",
        around(classification.classify, _changed_without("relabelled")),
    ),
    "an execution ignores the task's bound": ("L-5", method(DefinitionShelf, "latest", _without_bound)),
    "the bound holds for any type too": ("L-5", method(DefinitionShelf, "latest", _bound_for_any_type_too)),
    "an execution binds a retired version": ("L-5", method(DefinitionShelf, "_newest", _newest_of_retired)),
    "people get the last scope's statuses": ("L-5", method(DefinitionShelf, "first_statuses", _last_scope)),
    "a retired operation keeps its version open": (
        "L-5",
        method(DefinitionShelf, "type_versions", _all_operations_open),
    ),
    "retirement is never learnt": ("L-5", method(CachedRegistry, "_learn", _learnt_once)),
    "steps take the newest policy": ("L-6", method(DefinitionBinding, "_with_policy", _policy_of_the_newest)),
    "a schema that comes back may be any": ("L-5", around(publishing._incompatible, _last_only)),
    "a schema may break its readers": ("L-5", instead_of(publishing._incompatible, always([]))),
    "a progress absorbs another status": ("E-8", around(batch._says_all_of, _without_same_status)),
}
"""By name: the spec id, and how the rule is broken."""
