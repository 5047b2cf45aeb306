"""Mutants of reruns and of the steps that they skip (R-7, X-3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any

from taskstatus.domain import rerun
from taskstatus.domain.events import EventType
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.state import StepState, TaskState

from .mutant import Mutant
from .patching import Apply, always, around, instead_of

RERUN, SKIPS = "rerun", "skipped steps"

Change = Callable[..., Any]


def rerun_mutants() -> Iterator[Mutant]:
    """Every mutant of this module."""
    for group, rules in RULES.items():
        for name, (spec, apply) in rules.items():
            yield Mutant(group, name, spec, apply)


def _live_as_failed(original: Change, command: Any, rows: Any, *args: Any) -> Any:
    if rows.task is not None and not rows.task.lifecycle.is_terminal:
        rows = replace(rows, task=replace(rows.task, lifecycle=Lifecycle.FAILED))
    return original(command, rows, *args)


def _of_any_run(original: Change, command: Any, *args: Any) -> Any:
    return original(replace(command, task_attempt=0), *args)


def _all_as_manifest(original: Change, steps: Any) -> Any:
    return original([replace(step, definition=replace(step.definition, dynamic=False)) for step in steps])


def _first_attempts(original: Change, steps: Any) -> Any:
    return original([step for step in steps if step.attempt == 1])


def _first_state_with(*names: str, **changes: Any) -> Change:
    """A run that takes something over from the one before."""

    def change(original: Change, task: TaskState, open_steps: int) -> TaskState:
        kept = {name: getattr(task, name) for name in names}
        return replace(original(task, open_steps), **kept, **changes)

    return change


def _same_run(original: Change, task: TaskState, open_steps: int) -> TaskState:
    return replace(original(task, open_steps), attempt=task.attempt)


def _first_attempt_with(**changes: Callable[[StepState], Any]) -> Change:
    """First attempts that look otherwise; each change is made from the last attempt of the run before."""

    def change(original: Change, task: TaskState, last: StepState, skipped: Any) -> StepState:
        made = original(task, last, skipped)
        return replace(made, **{name: of(last) for name, of in changes.items()})

    return change


def _skipped_with(**changes: Any) -> Change:
    def change(original: Change, task: TaskState, last: StepState, skipped: Any) -> StepState:
        made = original(task, last, skipped)
        return made if skipped is None else replace(made, **changes)

    return change


def _input_lost(original: Change, *args: Any) -> Any:
    return replace(original(*args), input_ref="")


def _weights_lost(original: Change, *args: Any) -> Any:
    return replace(original(*args), weight_total=0)


def _no_reason(original: Change, task: Any, _: str) -> Any:
    return original(task, "")


def _any_step(original: Change, command: Any, manifest: Any, sources: Any) -> Any:
    known = {**{skipped.step_id: None for skipped in command.skipped}, **manifest}
    return {step_id: skipped for step_id, skipped in original(command, known, sources).items() if step_id in manifest}


def _any_source(_: Change, command: Any, manifest: Any, __: Any) -> Any:
    return {skipped.step_id: skipped for skipped in command.skipped if skipped.step_id in manifest}


def _sources_with(**of_skip: Callable[[Any], Any]) -> Change:
    """Judge a skip as if its source said what is needed."""

    def change(original: Change, command: Any, manifest: Any, sources: Any) -> Any:
        seen = {
            skipped.source_event_id: replace(
                sources[skipped.source_event_id], **{name: of(skipped) for name, of in of_skip.items()}
            )
            for skipped in command.skipped
            if skipped.source_event_id in sources
        }
        return original(command, manifest, seen)

    return change


def _anybody_skips(original: Change, command: Any, *args: Any) -> Any:
    if command.head.actor.is_person:
        actor = replace(command.head.actor, user_id="", producer_id="coordinator")
        command = replace(command, head=replace(command.head, actor=actor))
    return original(command, *args)


def _no_credit(original: Change, begun: TaskState, skipped: Any) -> TaskState:
    return replace(original(begun, skipped), progress_points=begun.progress_points)


def _one_version(original: Change, begun: TaskState, skipped: Any) -> TaskState:
    return replace(original(begun, skipped), version=begun.version)


def _skips_stay_open(original: Change, begun: TaskState, skipped: Any) -> TaskState:
    return replace(original(begun, skipped), open_steps=begun.open_steps)


def _numbered() -> Change:
    numbers = count()

    def change(original: Change, *args: Any) -> str:
        return f"{original(*args)[:-4]}{next(numbers):04}"

    return change


RULES: dict[str, dict[str, tuple[str, Apply]]] = {
    RERUN: {
        "a live run runs again": ("R-7", around(rerun.rerun, _live_as_failed)),
        "any run is the current one": ("R-7", around(rerun.rerun, _of_any_run)),
        "it is the same run": ("ID-3", around(rerun._first_state, _same_run)),
        "dynamic steps are copied": ("R-7", around(rerun._manifest, _all_as_manifest)),
        "versions go on from first attempts": ("E-6", around(rerun._manifest, _first_attempts)),
        **{
            f"the run before leaves its {name}": ("R-7", around(rerun._first_state, _first_state_with(name)))
            for name in (
                "failure",
                "started_at",
                "finished_at",
                "duration_ms",
                "duration_source",
                "cancel_requested",
                "producer_seqs",
                "business_status",
                "progress_points",
                "open_dynamic",
                "stale_steps",
                "degraded_steps",
                "summary_data",
            )
        },
        "nothing is open": ("R-7", around(rerun._first_state, _first_state_with("open_steps"))),
        "step versions begin anew": ("E-6", around(rerun._first_attempt, _first_attempt_with(version=lambda _: 1))),
        "executions go on": ("E-6", around(rerun._first_attempt, _first_attempt_with(terms=lambda last: last.terms))),
        "the attempt number goes on": (
            "R-7",
            around(rerun._first_attempt, _first_attempt_with(attempt=lambda last: last.attempt + 1)),
        ),
        "the input is not frozen": ("R-7", around(rerun._run_record, _input_lost)),
        "the weights are not frozen": ("R-7", around(rerun._run_record, _weights_lost)),
        "the reason is lost": ("R-7", around(rerun._run_record, _no_reason)),
    },
    SKIPS: {
        "any step is skipped": ("X-3", around(rerun._checked_skips, _any_step)),
        "no source is needed": ("X-3", around(rerun._checked_skips, _any_source)),
        "any event is a result": (
            "X-3",
            around(rerun._checked_skips, _sources_with(event_type=lambda _: EventType.STEP_COMPLETED)),
        ),
        "any step's result will do": (
            "X-3",
            around(rerun._checked_skips, _sources_with(step_id=lambda skipped: skipped.step_id)),
        ),
        "people skip": ("X-3", around(rerun._checked_skips, _anybody_skips)),
        "a skipped step waits": ("X-3", around(rerun._first_attempt, _skipped_with(lifecycle=Lifecycle.PENDING))),
        "reason and source are lost": ("X-3", around(rerun._first_attempt, _skipped_with(skip=None))),
        "a skip looks like a run": ("X-3", around(rerun._first_attempt, _skipped_with(end_reason=""))),
        "its result is lost": ("X-3", around(rerun._first_attempt, _skipped_with(shown_data=b""))),
        "its share is not done": ("X-3", around(rerun._with_skips, _no_credit)),
        "skips have no version": ("X-3", around(rerun._with_skips, _one_version)),
        "skipped steps stay open": ("X-3", around(rerun._with_skips, _skips_stay_open)),
        "skips are no facts": ("X-3", instead_of(rerun._record_skips, always(None))),
        "the event of a skip is another each time": ("X-3", around(rerun._skip_id, _numbered())),
    },
}
"""By group and name: the spec id, and how the rule is broken."""
