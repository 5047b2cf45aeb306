"""Mutants of commands on a task that exists: their frame, cancel, correct, relabel, attach, revoke."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from taskstatus.application.task_commands import TaskCommands
from taskstatus.domain import cancellation, correction, metadata, revocation, task_commands
from taskstatus.domain.business_status import generic_name
from taskstatus.domain.commands import Actor
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.state import StepState, TaskState
from taskstatus.domain.task_commands import CommandOutcome

from .mutant import Mutant
from .patching import Apply, NothingToMutateError, always, around, instead_of, method

FRAME, CANCEL, CORRECTION, METADATA = "command frame", "cancel", "correction", "metadata"
REFERENCES, REVOCATION = "external refs", "revocation"

Change = Callable[..., Any]


def command_mutants() -> Iterator[Mutant]:
    """Every mutant of this module."""
    for group, rules in RULES.items():
        for name, (spec, apply) in rules.items():
            yield Mutant(group, name, spec, apply)


def _as_of_any(*names: str) -> Change:
    """Judge a service as one of the task's own tenant or scope."""

    def change(original: Change, actor: Actor, rows: Any) -> Any:
        if rows.task is not None and not actor.is_person:
            actor = replace(actor, **{name: getattr(rows.task.envelope, name) for name in names})
        return original(actor, rows)

    return change


def _no_admins(original: Change, actor: Actor, *args: Any) -> Any:
    return original(replace(actor, is_admin=False), *args)


def _coordinators_of_nothing(_: Change, actor: Actor, *args: Any) -> bool:
    return actor.is_admin or actor.is_person


def _with_head(**changes: Any) -> Change:
    """Judge a command as if its head said something else."""

    def change(original: Change, head: Any, *args: Any, **named: Any) -> Any:
        return original(replace(head, **changes), *args, **named)

    return change


def _at_least_expected(original: Change, head: Any, rows: Any, **named: Any) -> Any:
    if rows.task is not None and head.expected_version > rows.task.version:
        head = replace(head, expected_version=0)
    return original(head, rows, **named)


def _at_most_expected(original: Change, head: Any, rows: Any, **named: Any) -> Any:
    if rows.task is not None and head.expected_version < rows.task.version:
        head = replace(head, expected_version=0)
    return original(head, rows, **named)


def _version_before_repeat(original: Change, head: Any, rows: Any, **named: Any) -> Any:
    original(head, replace(rows, seen=None), **named)
    return original(head, rows, **named)


def _never_seen(original: Change, head: Any, rows: Any, **named: Any) -> Any:
    return original(head, replace(rows, seen=None), **named)


def _repeat_before_rights(original: Change, head: Any, rows: Any, **named: Any) -> Any:
    return original(head, rows, of_scope=True) if rows.seen is not None else original(head, rows, **named)


def _repeat_of_anything(original: Change, head: Any, task: TaskState, seen: Any) -> Any:
    return original(replace(head, digest=seen.digest), task, seen)


def _told_as_first(original: Change, *args: Any) -> CommandOutcome:
    outcome: CommandOutcome = original(*args)
    return replace(outcome, result=replace(outcome.result, duplicate=False))


def _told_as_it_stands(original: Change, head: Any, task: TaskState, seen: Any) -> Any:
    outcome = original(head, task, seen)
    return replace(outcome, result=replace(outcome.result, task_version=task.version))


def _without(*names: str) -> Change:
    """Leave out a part of what is to be written."""

    def change(original: Change, *args: Any, **named: Any) -> Any:
        outcome = original(*args, **named)
        for name in names:
            getattr(outcome.changes, name).clear()
        return outcome

    return change


def _fact_without(**changes: Any) -> Change:
    """Let the event of a command say less."""

    def change(original: Change, head: Any, before: Any, after: Any, step: Any, fact: Any, *args: Any) -> Any:
        return original(head, before, after, step, replace(fact, **changes), *args)

    return change


def _noop_tells_change(original: Change, *args: Any) -> Any:
    outcome = original(*args)
    return replace(outcome, result=replace(outcome.result, changed=True))


class _Unsettling:
    """A store whose every try settles a lost COMMIT reply, or none."""

    def __init__(self, store: Any, settling: bool) -> None:
        self._store = store
        self._settling = settling

    async def transact(self, body: Change) -> Any:
        return await self._store.transact(lambda tx, attempt: body(tx, replace(attempt, settling=self._settling)))


def _settling(settling: bool) -> Change:
    async def change(original: Change, self: TaskCommands, *args: Any) -> Any:
        other = copy.copy(self)
        other._store = _Unsettling(self._store, settling)  # type: ignore[assignment]
        return await original(other, *args)

    return change


def _as_running(original: Change, command: Any, rows: Any, *args: Any) -> Any:
    """A terminal task counts as RUNNING."""
    return original(command, _standing(rows, Lifecycle.RUNNING, when_terminal=True), *args)


def _as_failed(original: Change, command: Any, rows: Any, *args: Any) -> Any:
    """A live task counts as FAILED."""
    return original(command, _standing(rows, Lifecycle.FAILED, when_terminal=False), *args)


def _standing(rows: Any, lifecycle: Lifecycle, *, when_terminal: bool) -> Any:
    if rows.task is None or rows.task.lifecycle.is_terminal is not when_terminal:
        return rows
    return replace(rows, task=replace(rows.task, lifecycle=lifecycle))


def _cancelling_as_running(original: Change, command: Any, rows: Any, *args: Any) -> Any:
    if rows.task is not None and rows.task.lifecycle is Lifecycle.CANCELLING:
        rows = replace(rows, task=replace(rows.task, lifecycle=Lifecycle.RUNNING))
    return original(command, rows, *args)


def _cancelled_outright(original: Change, *args: Any) -> Any:
    return _changed_task(original(*args), lifecycle=Lifecycle.CANCELLED)


def _not_flagged(original: Change, *args: Any) -> Any:
    return _changed_task(original(*args), cancel_requested=False)


def _status_left(original: Change, command: Any, rows: Any, *args: Any) -> Any:
    outcome = original(command, rows, *args)
    return _changed_task(outcome, business_status=rows.task.business_status)


def _failure_kept(original: Change, command: Any, rows: Any, *args: Any) -> Any:
    outcome = original(command, rows, *args)
    return _changed_task(outcome, failure=rows.task.failure)


def _changed_task(outcome: CommandOutcome, **changes: Any) -> CommandOutcome:
    if outcome.changes.is_empty:
        return outcome
    task = replace(outcome.task, **changes)
    outcome.changes.tasks[:] = [task]
    outcome.changes.relabelled[:] = [task for _ in outcome.changes.relabelled]
    return replace(outcome, task=task)


def _any_status_of(command: Any, _: Any) -> str:
    return str(command.business_status or generic_name(command.lifecycle))


def _generic_only(original: Change, command: Any, rows: Any, _: Any, tools: Any) -> Any:
    return original(command, rows, None, tools)


def _old_as_new(original: Change, head: Any, task: Any, fact: Any, old: bytes, new: bytes, audit_id: bytes) -> Any:
    return original(head, task, fact, new, old, audit_id)


def _nobody_named(original: Change, head: Any, *args: Any) -> Any:
    return replace(original(head, *args), actor="")


def _reason_forgotten(original: Change, *args: Any) -> Any:
    return replace(original(*args), reason="")


def _unnamed_cleared(original: Change, command: Any, *args: Any) -> Any:
    named = {name: getattr(command, name) for name in ("product_id", "title", "priority")}
    empty = {"product_id": "", "title": "", "priority": 0}
    cleared = {name: empty[name] if value is None else value for name, value in named.items()}
    return original(replace(command, **cleared), *args)


def _empty_is_unnamed(original: Change, command: Any, *args: Any) -> Any:
    return original(replace(command, product_id=command.product_id or None), *args)


def _never_priority(original: Change, command: Any, *args: Any) -> Any:
    return original(replace(command, priority=None), *args)


def _refs(**changes: Any) -> Change:
    def change(original: Change, command: Any, rows: Any, refs: Any, *args: Any) -> Any:
        return original(command, rows, replace(refs, **changes), *args)

    return change


def _own_number_taken(original: Change, command: Any, rows: Any, refs: Any, *args: Any) -> Any:
    others = tuple(ref for ref in refs.attached if ref != command.ref)
    return original(command, rows, replace(refs, attached=others, holder=None), *args)


def _not_of_scope(original: Change, head: Any, rows: Any, **_: Any) -> Any:
    return original(head, rows)


def _revoking(**changes: Any) -> Change:
    """Judge a revocation as if the execution stood otherwise."""

    def change(original: Change, command: Any, rows: Any, step: StepState | None, *args: Any) -> Any:
        return original(command, rows, step and replace(step, **changes), *args)

    return change


def _of_this_run(original: Change, command: Any, rows: Any, step: Any, *args: Any) -> Any:
    if step is not None and rows.task is not None:
        step = replace(step, task_attempt=rows.task.attempt)
    return original(command, rows, step, *args)


def _ended_step_revoked(original: Change, command: Any, rows: Any, step: Any, *args: Any) -> Any:
    if step is not None and step.lifecycle.is_terminal:
        step = replace(step, lifecycle=Lifecycle.RUNNING)
    return original(command, rows, step, *args)


def _generation_once(original: Change, command: Any, rows: Any, step: Any, *args: Any) -> Any:
    return original(command, rows, step and replace(step, generation=1), *args)


def _step_as_it_was(original: Change, command: Any, rows: Any, step: Any, *args: Any) -> Any:
    outcome = original(command, rows, step, *args)
    outcome.changes.steps[:] = [replace(each, version=step.version) for each in outcome.changes.steps]
    return outcome


def _execution_ended(original: Change, *args: Any) -> Any:
    outcome = original(*args)
    outcome.changes.steps[:] = [replace(each, lifecycle=Lifecycle.CANCELLED) for each in outcome.changes.steps]
    return outcome


def _noop_as_change(module: Any) -> Apply:
    """A command of one module that changes nothing makes a version all the same."""

    def apply() -> None:
        def made(task: TaskState) -> CommandOutcome:
            outcome = task_commands.unchanged(task)
            return replace(outcome, result=replace(outcome.result, changed=True, task_version=task.version + 1))

        if module.unchanged is not task_commands.unchanged:
            raise NothingToMutateError(f"{module.__name__} does not use the one no-op")
        module.unchanged = made

    return apply


RULES: dict[str, dict[str, tuple[str, Apply]]] = {
    FRAME: {
        "another tenant's task": ("ID-1", around(task_commands._visible, _as_of_any("tenant_id"))),
        "another scope's task": ("ID-1", around(task_commands._visible, _as_of_any("authority_scope"))),
        "any service commands": ("E-1", instead_of(task_commands._may_rule, always(True))),
        "a coordinator commands nothing": ("E-1", around(task_commands._may_rule, _coordinators_of_nothing)),
        "an administrator commands nothing": ("L-3", around(task_commands._may_rule, _no_admins)),
        "a stale version is as good as any": ("R-8", around(task_commands.admitted, _at_most_expected)),
        "a version to come is as good as any": ("R-8", around(task_commands.admitted, _at_least_expected)),
        "no version is told": ("R-8", around(task_commands.admitted, _with_head(expected_version=0))),
        "the expected version goes before the repeat": ("R-6", around(task_commands.admitted, _version_before_repeat)),
        "a command id is never known again": ("R-6", around(task_commands.admitted, _never_seen)),
        "a repeat is answered to anybody": ("R-6", around(task_commands.admitted, _repeat_before_rights)),
        "other content is a repeat": ("R-6", around(task_commands._repeated, _repeat_of_anything)),
        "a repeat is told as the first": ("R-6", around(task_commands._repeated, _told_as_first)),
        "a repeat is told the version of today": ("R-6", around(task_commands._repeated, _told_as_it_stands)),
        "a settled COMMIT is a repeat": ("R-6", method(TaskCommands, "run", _settling(False))),
        "every repeat is a settled COMMIT": ("R-6", method(TaskCommands, "run", _settling(True))),
        "a no-op is told as a change": ("L-2", around(task_commands.unchanged, _noop_tells_change)),
        "no event is written": ("R-6", around(task_commands.recorded, _without("events"))),
        "no dedup row is written": ("R-6", around(task_commands.recorded, _without("dedups"))),
        "nobody is told": ("R-6", around(task_commands.recorded, _without("outbox"))),
    },
    CANCEL: {
        "an ended task is cancelled": ("L-1", around(cancellation.request_cancel, _as_running)),
        "asked again, it is news": ("L-2", around(cancellation.request_cancel, _cancelling_as_running)),
        "a request is evidence": ("L-1", around(cancellation.request_cancel, _cancelled_outright)),
        "workers are not told": ("L-1", around(cancellation.request_cancel, _not_flagged)),
        "the business status stays": ("L-1", around(cancellation.request_cancel, _status_left)),
        "the reason is lost": ("L-1", around(task_commands.recorded, _fact_without(reason=""))),
    },
    CORRECTION: {
        "a live task is corrected": ("L-3", around(correction.correct, _as_failed)),
        "the failure stays": ("L-3", around(correction.correct, _failure_kept)),
        "the failure is lost": ("L-3", instead_of(correction._failure, always(None))),
        "the run keeps its outcome": ("L-3", around(correction.correct, _without("ended_runs"))),
        "it is not audited": ("L-3", around(correction.correct, _without("audits"))),
        "old and new are exchanged": ("L-3", around(task_commands.audited, _old_as_new)),
        "the audit names nobody": ("L-3", around(task_commands.audited, _nobody_named)),
        "the audit gives no reason": ("L-3", around(task_commands.audited, _reason_forgotten)),
        "the timeline does not show it": ("L-3", around(task_commands.recorded, _fact_without(shown=("", b"")))),
        "what it is already is news": ("L-2", _noop_as_change(correction)),
        "a status of any lifecycle": ("L-4", instead_of(correction._business_status, _any_status_of)),
        "the task's own statuses do not count": ("L-4", around(correction.correct, _generic_only)),
    },
    METADATA: {
        "what is not named is cleared": ("R-8", around(metadata.update_metadata, _unnamed_cleared)),
        "a label cannot be taken away": ("R-8", around(metadata.update_metadata, _empty_is_unnamed)),
        "the priority never changes": ("R-8", around(metadata.update_metadata, _never_priority)),
        "it is not audited": ("R-8", around(metadata.update_metadata, _without("audits"))),
        "the row keeps its labels": ("R-8", around(metadata.update_metadata, _without("relabelled"))),
        "what it is already is news": ("L-2", _noop_as_change(metadata)),
    },
    REFERENCES: {
        "a number changes hands": ("ID-5", instead_of(metadata.refuse_taken, always(None))),
        "its own number is news": ("ID-5", around(metadata.attach_external_ref, _own_number_taken)),
        "any number of numbers": ("ID-5", around(metadata.attach_external_ref, _refs(attached=()))),
        "the number is not kept": ("ID-5", around(metadata.attach_external_ref, _without("external_refs"))),
        "the coordinator alone attaches": ("E-1", around(task_commands.admitted, _not_of_scope)),
    },
    REVOCATION: {
        "a superseded execution is revoked": ("R-11", around(revocation.revoke, _revoking(superseded=False))),
        "an earlier run's execution is revoked": ("R-11", around(revocation.revoke, _of_this_run)),
        "an ended execution is revoked": ("R-11", around(revocation.revoke, _ended_step_revoked)),
        "an ended task's execution is revoked": ("R-11", around(revocation.revoke, _as_running)),
        "revoked once, revoked for good": ("R-11", around(revocation.revoke, _generation_once)),
        "nothing is revoked": ("R-11", around(revocation.revoke, _without("steps"))),
        "the step keeps its version": ("E-6", around(revocation.revoke, _step_as_it_was)),
        "the execution ends with its credentials": ("R-11", around(revocation.revoke, _execution_ended)),
    },
}
"""By group and name: the spec id, and how the rule is broken."""
