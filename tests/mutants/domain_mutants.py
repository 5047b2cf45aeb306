"""Mutants of named rules of activation, of access to a task, and of what people are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from taskstatus.domain import activation, creation, notices
from taskstatus.domain.channels import channel_of
from taskstatus.domain.definitions import OperationDefinition, generic_profile, incompatibilities, shown_fields
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import bucket_of_owner
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.notifications import task_notifications
from taskstatus.domain.state import Grant, StepState, TaskEnvelope, TaskState

from .mutant import Mutant
from .patching import Apply, always, around, instead_of, method

ACTIVATION, ACCESS, SHOWING = "activation", "access", "showing"

Change = Callable[..., Any]


def domain_mutants() -> Iterator[Mutant]:
    """Every mutant of this module."""
    for group, rules in RULES.items():
        for name, (spec, apply) in rules.items():
            yield Mutant(group, name, spec, apply)


def _own_task_seen(**blind: bool) -> Apply:
    """Judge a command on a task without looking at one thing."""

    def change(original: Change, command: Any, rows: Any) -> TaskState:
        task = rows.task
        if task is not None and blind.get("tenant"):
            own = replace(command.caller, tenant_id=task.envelope.tenant_id)
            own = replace(own, authority_scope=task.envelope.authority_scope)
            command = replace(command, caller=own)
        if task is not None and blind.get("coordinator"):
            own = replace(command.caller, producer_id=task.envelope.coordinator_producer)
            command = replace(command, caller=own)
        if blind.get("run"):
            command = replace(command, task_attempt=0)
        return original(command, rows)  # type: ignore[no-any-return]

    return around(activation._own_task, change)


def _repeat_of_anything(original: Change, command: Any, task: TaskState, existing: StepState) -> Any:
    assert existing.terms is not None
    return original(replace(command, digest=existing.terms.activation_digest), task, existing)


def _after_success(original: Change, command: Any, attempts: Any) -> None:
    failed = [
        replace(step, lifecycle=Lifecycle.FAILED) if step.lifecycle is Lifecycle.SUCCEEDED else step
        for step in attempts
    ]
    original(command, failed)


def _any_number(original: Change, command: Any, attempts: Any) -> None:
    spent = [step for step in attempts if step.terms is not None or step.lifecycle.is_terminal]
    if spent and command.step_attempt > spent[-1].attempt:
        command = replace(command, step_attempt=spent[-1].attempt + 1)
    original(command, attempts)


def _ended_task_ignored(original: Change, task: TaskState, existing: StepState | None) -> None:
    original(replace(task, lifecycle=Lifecycle.RUNNING), existing)


def _ended_attempt_ignored(original: Change, task: TaskState, _: StepState | None) -> None:
    original(task, None)


def _not_superseded(original: Change, last: StepState, *args: Any) -> StepState:
    return replace(original(last, *args), superseded=False)


def _not_cancelled(original: Change, last: StepState, *args: Any) -> StepState:
    return replace(original(last, *args), lifecycle=last.lifecycle, end_reason=last.end_reason)


def _activation_seen(original: Change, task: TaskState, *args: Any) -> Any:
    return _activated(original(task, *args), version=task.version + 1)


def _activation_unread(original: Change, task: TaskState, *args: Any) -> Any:
    return _activated(original(task, *args), row_revision=task.row_revision)


def _activated(result: activation.Activation, **changes: Any) -> activation.Activation:
    task = replace(result.task, **changes)
    return replace(result, task=task, changes=replace(result.changes, tasks=[task]))


def _inherit_always(original: Change, workflow: Any, spec: Any) -> Any:
    return original(workflow, replace(spec, sensitive=False))


def _inherit_never(original: Change, workflow: Any, spec: Any) -> Any:
    return original(workflow, replace(spec, sensitive=True))


def _own_grants_ignored(original: Change, workflow: Any, spec: Any) -> Any:
    return original(workflow, replace(spec, grants=()))


def _executors_ignored(_: Change, self: TaskEnvelope, producer_id: str) -> bool:
    return producer_id == self.coordinator_producer


def _coordinator_ignored(_: Change, self: TaskEnvelope, producer_id: str) -> bool:
    return producer_id in self.policy_executors


def _as_waiting_before(was_waiting: bool) -> Change:
    def change(original: Change, *args: Any, **_: Any) -> Any:
        return original(*args, was_waiting=was_waiting)

    return change


def _silent_about(*event_types: EventType) -> Change:
    def change(original: Change, event_type: EventType, *args: Any, **named: Any) -> Any:
        return None if event_type in event_types else original(event_type, *args, **named)

    return change


def _level(level: str) -> Change:
    def change(original: Change, *args: Any) -> Any:
        return replace(original(*args), level=level)

    return change


def _unprotected_notice(original: Change, *args: Any, **named: Any) -> Any:
    return tuple(replace(row, protected=args[3] not in _PASSING and row.protected) for row in original(*args, **named))


_PASSING = (EventType.TASK_STARTED, EventType.STEP_STARTED, EventType.STEP_PROGRESS)


def _grantees_forgotten(original: Change, tools: Any, task: TaskState, *args: Any, **named: Any) -> Any:
    return original(tools, replace(task, shared=False), *args, **named)


def _all_fields(value: Any, _: Any) -> dict[str, Any]:
    return dict(value)


def _plain_channel(namespace: str, *parts: str) -> str:
    return f"{namespace}:{'/'.join(parts)}"


RULES: dict[str, dict[str, tuple[str, Apply]]] = {
    ACTIVATION: {
        "another tenant's task": ("R-10", _own_task_seen(tenant=True)),
        "any producer activates": ("R-10", _own_task_seen(coordinator=True)),
        "any run is current": ("R-6", _own_task_seen(run=True)),
        "other content is a repeat": ("ID-3", around(activation._repeat, _repeat_of_anything)),
        "a used command id is new": ("R-6", instead_of(activation._refuse_reused_command, always(None))),
        "an ended task takes executions": ("L-1", around(activation._refuse_ended, _ended_task_ignored)),
        "an ended attempt is handed out": ("R-6", around(activation._refuse_ended, _ended_attempt_ignored)),
        "attempts may leave gaps": ("R-6", around(activation._refuse_wrong_attempt, _any_number)),
        "an attempt follows a success": ("R-6", around(activation._refuse_wrong_attempt, _after_success)),
        "any attempt number": ("R-6", instead_of(activation._refuse_wrong_attempt, always(None))),
        "a step is redefined": ("R-4", instead_of(activation._refuse_changed_definition, always(None))),
        "any execution is a parent": ("R-4", instead_of(activation._refuse_foreign_parent, always(None))),
        "any producer is admitted": ("R-5", method(OperationDefinition, "admits_producer", always(True))),
        "the old attempt stays current": ("R-6", around(activation._supersede, _not_superseded)),
        "the old attempt is not ended": ("R-6", around(activation._supersede, _not_cancelled)),
        "the first attempt is seen": ("R-10", around(activation._activate_manifest, _activation_seen)),
        "the first attempt leaves the row revision": (
            "R-10",
            around(activation._activate_manifest, _activation_unread),
        ),
    },
    ACCESS: {
        "anybody rules a task": ("E-1", method(TaskEnvelope, "may_rule", always(True))),
        "policy executors rule nothing": ("E-1", method(TaskEnvelope, "may_rule", _executors_ignored)),
        "the coordinator rules nothing": ("E-1", method(TaskEnvelope, "may_rule", _coordinator_ignored)),
        "a sensitive task inherits": ("P-4", around(creation.effective_grants, _inherit_always)),
        "no task inherits": ("P-4", around(creation.effective_grants, _inherit_never)),
        "a task's own grants are lost": ("P-4", around(creation.effective_grants, _own_grants_ignored)),
        "the last grant wins": ("P-4", method(Grant, "includes", always(True))),
        "the first grant wins": ("P-4", method(Grant, "includes", always(False))),
        "grantees get no summary": ("P-4", around(task_notifications, _grantees_forgotten)),
        "channel parts are not encoded": ("P-1", instead_of(channel_of, _plain_channel)),
        "every owner has the same bucket": ("S-1", instead_of(bucket_of_owner, always(7))),
    },
    SHOWING: {
        "every field is shown": ("P-2", instead_of(shown_fields, _all_fields)),
        "no field is shown": ("P-2", instead_of(shown_fields, always({}))),
        "a failed step is told to nobody": (
            "P-3",
            around(notices.notice_for, _silent_about(EventType.STEP_FAILED, EventType.STEP_TIMED_OUT)),
        ),
        "a failed task is told to nobody": (
            "P-3",
            around(notices.notice_for, _silent_about(EventType.TASK_FAILED, EventType.TASK_TIMED_OUT)),
        ),
        "needed action is told to nobody": ("P-3", around(notices.notice_for, _as_waiting_before(True))),
        "waiting that goes on is news": ("P-3", around(notices.notice_for, _as_waiting_before(False))),
        "a failed step is an ERROR": ("P-3", around(notices._step_failed, _level(notices.ERROR))),
        "a failed task is a WARNING": ("P-3", around(notices._task_failed, _level(notices.WARNING))),
        "needed action may be superseded": ("O-3", around(task_notifications, _unprotected_notice)),
        "a schema may change under its name": ("L-5", instead_of(incompatibilities, always([]))),
        "the generic profile allows no data": (
            "L-5",
            around(generic_profile, lambda original, code: replace(original(code), schemas=())),
        ),
    },
}
"""By group and name: the spec id, and how the rule is broken."""
