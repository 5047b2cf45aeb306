"""Mutants of named rules of an event: absorption, versions, repeats, progress, ending, failure policies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from taskstatus.domain import batch, decide, evolve, guards, progress, projections
from taskstatus.domain.commands import ReportedError, TaskEventCommand
from taskstatus.domain.decide import Acceptance
from taskstatus.domain.events import EventType
from taskstatus.domain.health import Health, shown_health
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.scrubbing import scrubbed
from taskstatus.domain.state import FailurePolicy, StepState, TaskState
from taskstatus.domain.verdicts import Accepted, Coalesced, Duplicate, Verdict, result_or_raise, settle_as_first

from .mutant import Mutant
from .patching import Apply, always, around, computed, instead_of, method

ABSORPTION, VERSIONS, REPEATS, PROGRESS = "absorption", "versions", "repeats", "progress"
ENDING, POLICY = "ending", "failure policy"

Change = Callable[..., Any]


def event_mutants() -> Iterator[Mutant]:
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


def _unmarked_absorbed(original: Change, self: Any) -> None:
    original(self)
    for place, verdict in enumerate(self.verdicts):
        if isinstance(verdict, Coalesced):
            self.verdicts[place] = Coalesced(replace(verdict.result, coalesced=False))


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


def _credit_not_counted(
    original: Change, task: TaskState, before: StepState | None, after: StepState
) -> dict[str, Any]:
    return {**original(task, before, after), "progress_points": task.progress_points}


def _open_not_counted(original: Change, task: TaskState, before: StepState | None, after: StepState) -> dict[str, Any]:
    return {**original(task, before, after), "open_steps": task.open_steps}


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


def _unflagged_duplicate(original: Change, verdict: Verdict) -> Any:
    return verdict.result if isinstance(verdict, Duplicate) else original(verdict)


def _settled_without_coalescing(original: Change, verdict: Verdict) -> Verdict:
    return Accepted(verdict.result) if isinstance(verdict, Duplicate) else original(verdict)  # type: ignore[no-any-return]


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
        "the absorbed is not told so": ("E-8", method(batch._Batch, "settle_absorbed", _unmarked_absorbed)),
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
        "credit is not counted": ("E-8", around(evolve._counts, _credit_not_counted)),
        "open steps are not counted": ("B-1", around(evolve._counts, _open_not_counted)),
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
}
"""By group and name: the spec id, and how the rule is broken."""
