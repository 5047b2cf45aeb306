"""Mutants of named rules of the domain: absorption, versions, evolution, activation, grants, notices, whitelists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from taskstatus.domain import activation, batch, creation, decide, evolve, guards, notices, progress, projections
from taskstatus.domain.channels import channel_of
from taskstatus.domain.commands import ReportedError, TaskEventCommand
from taskstatus.domain.decide import Acceptance
from taskstatus.domain.definitions import OperationDefinition, generic_profile, incompatibilities, shown_fields
from taskstatus.domain.events import EventType
from taskstatus.domain.health import Health, shown_health
from taskstatus.domain.ids import bucket_of_owner
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.notifications import task_notifications
from taskstatus.domain.scrubbing import scrubbed
from taskstatus.domain.state import FailurePolicy, Grant, StepState, TaskEnvelope, TaskState
from taskstatus.domain.verdicts import Accepted, Coalesced, Duplicate, Verdict, result_or_raise, settle_as_first

from .mutant import Mutant
from .patching import Apply, always, around, computed, instead_of, method

ABSORPTION, VERSIONS, PROGRESS, ENDING = "absorption", "versions", "progress", "ending"
POLICY, ACTIVATION, ACCESS, SHOWING, REPEATS = "failure policy", "activation", "access", "showing", "repeats"

Change = Callable[..., Any]


def domain_mutants() -> Iterator[Mutant]:
    """Every mutant of this module."""
    for group, rules in RULES.items():
        for name, (spec, apply) in rules.items():
            yield Mutant(group, name, spec, apply)


def _first(*args: Any, **_: Any) -> Any:
    """Give the first argument back unchanged."""
    return args[0]


def _last_of_chain(self: Any, command: TaskEventCommand) -> Acceptance | None:
    chain = self._last_of_task.get(command.task_id, [])
    acceptance: Acceptance | None = self._acceptances[chain[-1]] if chain else None
    return acceptance


def _absorb_other_execution(original: Change, self: Any, command: TaskEventCommand) -> list[int]:
    last = _last_of_chain(self, command)
    same = command if last is None else replace(command, execution_id=last.command.execution_id)
    return original(self, same)  # type: ignore[no-any-return]


def _absorb_by_anything(original: Change, self: Any, command: TaskEventCommand) -> list[int]:
    content = replace(command.content, event_type=EventType.STEP_PROGRESS)
    return original(self, replace(command, content=content))  # type: ignore[no-any-return]


def _absorb_anything(original: Change, self: Any, command: TaskEventCommand) -> list[int]:
    last = _last_of_chain(self, command)
    if last is None or last.step is None or command.content.event_type is not EventType.STEP_PROGRESS:
        return original(self, command)  # type: ignore[no-any-return]
    same = last.command.execution_id == command.execution_id
    return self._last_of_task[command.task_id] if same else []  # type: ignore[no-any-return]


def _absorb_one_only(original: Change, self: Any, command: TaskEventCommand) -> list[int]:
    return original(self, command)[-1:]  # type: ignore[no-any-return]


def _unmarked_absorbed(_: Change, self: Any, earlier: int, by: Acceptance) -> None:
    self.verdicts[earlier] = Coalesced(by.verdict.result)
    self._remember(earlier)


def _same_version(original: Change, task: TaskState, now: Any) -> TaskState:
    return replace(original(task, now), version=task.version)


def _time_goes_back(original: Change, task: TaskState, now: Any) -> TaskState:
    return replace(original(task, now), committed_at=now)


def _same_revision(original: Change, task: TaskState, now: Any) -> TaskState:
    return replace(original(task, now), row_revision=task.row_revision)


def _same_step_version(original: Change, step: StepState, event: Any, version: int) -> StepState:
    return original(step, event, version - 1)  # type: ignore[no-any-return]


def _not_started(original: Change, task: TaskState, before: StepState, after: StepState, event: Any) -> TaskState:
    return replace(original(task, before, after, event), lifecycle=task.lifecycle)


def _started_again(original: Change, task: TaskState, before: StepState, after: StepState, event: Any) -> TaskState:
    return replace(original(task, before, after, event), started_at=event.at)


def _step_started_again(original: Change, step: StepState, event: Any, version: int) -> StepState:
    after = original(step, event, version)
    return after if after.lifecycle.is_terminal else replace(after, started_at=event.at)


def _never_finished(original: Change, *args: Any) -> Any:
    return replace(original(*args), finished_at=None)


def _still_stale(original: Change, step: StepState, *args: Any) -> StepState:
    return replace(original(step, *args), stale=step.stale)


def _credit_not_counted(original: Change, task: TaskState, before: StepState | None, after: StepState) -> TaskState:
    return replace(original(task, before, after), progress_points=task.progress_points)


def _open_not_counted(original: Change, task: TaskState, before: StepState | None, after: StepState) -> TaskState:
    return replace(original(task, before, after), open_steps=task.open_steps)


def _without_policy(policy: FailurePolicy) -> Apply:
    def change(original: Change, step: StepState, event_type: EventType) -> str:
        is_off = step.definition.failure_policy is policy
        return "" if is_off else original(step, event_type)  # type: ignore[no-any-return]

    return around(evolve._status_by_policy, change)


def _retry_the_hopeless(original: Change, step: StepState, event_type: EventType) -> str:
    return original(replace(step, error=None), event_type)  # type: ignore[no-any-return]


def _undegraded(original: Change, *args: Any) -> StepState:
    return replace(original(*args), degraded=False)


def _policy_wins(original: Change, task: TaskState, before: StepState, after: StepState, event: Any) -> TaskState:
    silent = replace(event, content=replace(event.content, business_status=""))
    return original(task, before, after, silent)  # type: ignore[no-any-return]


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


def _success_shows_points(original: Change, thing: Any) -> Any:
    return original(replace(thing, lifecycle=Lifecycle.RUNNING))


def _elapsed_after_the_end(original: Change, started_at: Any, _: Lifecycle, as_of: Any) -> Any:
    return original(started_at, Lifecycle.RUNNING, as_of)


def _never_stale(*, stale: bool, degraded: bool) -> Health:
    return Health.DEGRADED if degraded else Health.HEALTHY


def _degraded_first(*, stale: bool, degraded: bool) -> Health:
    return Health.DEGRADED if degraded else Health.STALE if stale else Health.HEALTHY


def _never_degraded(*, stale: bool, degraded: bool) -> Health:
    return Health.STALE if stale else Health.HEALTHY


def _plain_channel(namespace: str, *parts: str) -> str:
    return f"{namespace}:{'/'.join(parts)}"


def _unflagged_duplicate(original: Change, verdict: Verdict) -> Any:
    return verdict.result if isinstance(verdict, Duplicate) else original(verdict)


def _settled_without_coalescing(original: Change, verdict: Verdict) -> Verdict:
    return Accepted(verdict.result) if isinstance(verdict, Duplicate) else original(verdict)  # type: ignore[no-any-return]


def _settles_every_verdict(original: Change, verdict: Verdict) -> Verdict:
    return Accepted(result_or_raise(verdict)) if not isinstance(verdict, Duplicate) else original(verdict)  # type: ignore[no-any-return]


def _own_number_kept(task: TaskState, *_: Any) -> TaskState:
    return task


def _own_wait_ignored(now: Any, _: float) -> Any:
    return now


def _told_retryable(original: Change, self: ReportedError) -> Any:
    return replace(original(self), retryable=True)


def _hopeless_unless_told(original: Change, self: ReportedError) -> Any:
    return replace(original(self), retryable=self.retryable is True)


def _forget_status(original: Change, j: guards.Judgement) -> Lifecycle:
    return j.known_task.lifecycle


RULES: dict[str, dict[str, tuple[str, Apply]]] = {
    ABSORPTION: {
        "no progress absorbs another": ("E-8", method(batch._Batch, "_absorbable", lambda *_: [])),
        "progress of another execution is absorbed": (
            "E-8",
            method(batch._Batch, "_absorbable", _absorb_other_execution),
        ),
        "any event absorbs": ("E-8", method(batch._Batch, "_absorbable", _absorb_by_anything)),
        "any event is absorbed": ("E-8", method(batch._Batch, "_absorbable", _absorb_anything)),
        "only the last of a chain is absorbed": ("E-8", method(batch._Batch, "_absorbable", _absorb_one_only)),
        "what asks for a person is absorbed": ("O-3", computed(Acceptance, "asks_for_person", always(False))),
        "what is not said again is absorbed": ("E-8", instead_of(batch._says_all_of, always(True))),
        "the absorbed is not told so": ("E-8", method(batch._Batch, "_acceptances_absorbed", _unmarked_absorbed)),
    },
    VERSIONS: {
        "the task's version stays": ("E-6", around(evolve.with_version, _same_version)),
        "the committed time goes back": ("E-6", around(evolve.with_version, _time_goes_back)),
        "the row revision stays": ("E-6", around(evolve.with_version, _same_revision)),
        "the step's version stays": ("E-6", around(evolve.evolve_step, _same_step_version)),
        "the wait in this process is ignored": ("E-6", instead_of(batch._received_at, _own_wait_ignored)),
        "a producer's task sequence is not kept": ("E-5", instead_of(evolve.with_sequence, _own_number_kept)),
        "the first start leaves the task PENDING": ("E-7", around(evolve.evolve_task_by_step, _not_started)),
        "the first start does not count for the status": ("E-7", around(guards.task_lifecycle_after, _forget_status)),
        "startedAt of the task is set again": ("L-2", around(evolve.evolve_task_by_step, _started_again)),
        "startedAt of the step is set again": ("L-2", around(evolve.evolve_step, _step_started_again)),
        "finishedAt of the step is not set": ("L-2", around(evolve._end_step, _never_finished)),
        "finishedAt of the task is not set": ("L-1", around(evolve._end_task, _never_finished)),
        "the start opens no lease": ("H-4", instead_of(decide.opened_lease, always(None))),
    },
    REPEATS: {
        "a batch forgets its own events": ("E-3", method(batch._Batch, "_remember", always(None))),
        "a duplicate is not told so": ("E-3", around(result_or_raise, _unflagged_duplicate)),
        "a settled commit is told as a duplicate": ("N-1", instead_of(settle_as_first, _first)),
        "a settled commit forgets that it was absorbed": ("N-1", around(settle_as_first, _settled_without_coalescing)),
    },
    PROGRESS: {
        "progress never goes back": ("E-8", instead_of(progress.goes_back, always(False))),
        "what is shown goes back with the end": (
            "E-8",
            instead_of(evolve._furthest, lambda _, content: content.progress),
        ),
        "a repeated progress is news": ("E-8", instead_of(guards._repeats_what_is_shown, always(False))),
        "credit is not counted": ("E-8", around(evolve.with_step_counted, _credit_not_counted)),
        "open steps are not counted": ("B-1", around(evolve.with_step_counted, _open_not_counted)),
        "success of a task shows its points": ("E-8", around(projections.task_percent, _success_shows_points)),
        "success of a step shows its points": ("E-8", around(projections.step_percent, _success_shows_points)),
        "elapsed time runs on after the end": ("Q-2", around(projections.elapsed_ms, _elapsed_after_the_end)),
    },
    ENDING: {
        "steps of an ended task stay open": ("L-1", instead_of(evolve.end_with_task, _first)),
        "steps in the batch of an ended task stay open": (
            "L-1",
            method(batch._Batch, "_end_loaded_steps", always(None)),
        ),
        "the end of a task closes no lease": ("L-1", computed(Acceptance, "ends_run", always(False))),
        "a terminal step event leaves STALE": ("L-1", around(evolve._end_step, _still_stale)),
        "a failed task keeps no failure": ("E-12", instead_of(evolve._failure, always(None))),
        "messages are not scrubbed": ("E-12", instead_of(scrubbed, _first)),
        "every error is retryable": ("E-12", method(ReportedError, "settled", _told_retryable)),
        "an error that does not tell is hopeless": ("E-12", method(ReportedError, "settled", _hopeless_unless_told)),
    },
    POLICY: {
        "WAIT_FOR_USER waits for nobody": ("L-6", _without_policy(FailurePolicy.WAIT_FOR_USER)),
        "RETRY_THEN_FAIL_TASK shows no waiting": ("L-6", _without_policy(FailurePolicy.RETRY_THEN_FAIL_TASK)),
        "a hopeless failure waits for a retry": ("L-6", around(evolve._status_by_policy, _retry_the_hopeless)),
        "a warning degrades nothing": ("L-6", around(evolve._end_step, _undegraded)),
        "the policy wins over the event": ("L-6", around(evolve.evolve_task_by_step, _policy_wins)),
        "a retry goes on waiting": ("L-6", instead_of(evolve.without_waiting_status, _first)),
        "STALE is hidden": ("L-6", instead_of(shown_health, _never_stale)),
        "DEGRADED hides STALE": ("L-6", instead_of(shown_health, _degraded_first)),
        "DEGRADED is hidden": ("L-6", instead_of(shown_health, _never_degraded)),
    },
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
