"""Every rule of runs and commands keeps silent on a true history, and speaks on one that is doctored against it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from taskstatus.domain.events import EventType
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.records import RunView
from tests.history import rules_runs
from tests.history.building import FIRST, SECOND, STEP, TASK
from tests.history.commanding import RERUN, RESULT, SKIPPING, a_commanded_history
from tests.history.model import History, Outcome
from tests.history.validators import VALIDATORS, check

Doctor = Callable[[History], History]


def with_tables(history: History, **changes: Any) -> History:
    """The same with other rows."""
    return replace(history, tables=replace(history.tables, **changes), folds={})


def with_event(history: History, version: int, **changes: Any) -> History:
    """One row of the log changed."""
    row = replace(history.tables.events[TASK, version], **changes)
    return with_tables(history, events={**history.tables.events, (TASK, version): row})


def with_task(history: History, **changes: Any) -> History:
    """The task's row changed."""
    return with_tables(history, tasks={TASK: replace(history.tables.tasks[TASK], **changes)})


def with_step(history: History, run: int, **changes: Any) -> History:
    """The row of a run's attempt changed."""
    key = (TASK, run, STEP, 1)
    return with_tables(history, steps={**history.tables.steps, key: replace(history.tables.steps[key], **changes)})


def with_run(history: History, number: int, **changes: Any) -> History:
    """The frozen part of a run's row changed."""
    view = history.tables.runs[TASK, number]
    changed = RunView(replace(view.run, **changes), view.outcome)
    return with_tables(history, runs={**history.tables.runs, (TASK, number): changed})


def with_outcome(history: History, number: int, **changes: Any) -> History:
    """What a run's row says of its end changed."""
    view = history.tables.runs[TASK, number]
    assert view.outcome is not None
    changed = RunView(view.run, replace(view.outcome, **changes))
    return with_tables(history, runs={**history.tables.runs, (TASK, number): changed})


def without_run(history: History, number: int) -> History:
    """A run's row lost."""
    return with_tables(history, runs={key: view for key, view in history.tables.runs.items() if key[1] != number})


def with_live_outcome(history: History) -> History:
    """The run that goes on has an end already."""
    view = history.tables.runs[TASK, 3]
    ended = RunView(view.run, history.tables.runs[TASK, 2].outcome)
    return with_tables(history, runs={**history.tables.runs, (TASK, 3): ended})


def with_title(history: History, title: str) -> History:
    """The row says another title than its last relabelling."""
    task = history.tables.tasks[TASK]
    return with_task(history, envelope=replace(task.envelope, title=title))


def with_audits(history: History, **changes: Any) -> History:
    """The first audit row changed."""
    first, *others = history.tables.audits
    return with_tables(history, audits=(replace(first, **changes), *others))


def skipped_for(history: History, source_event_id: str) -> History:
    """The skip names another source."""
    skip = history.tables.steps[TASK, 3, STEP, 1].skip
    assert skip is not None
    return with_step(history, 3, skip=replace(skip, source_event_id=source_event_id))


def swapped(history: History, one: int, other: int) -> History:
    """Two facts in the other order."""
    events = history.tables.events
    first, second = events[TASK, one], events[TASK, other]
    changed = {
        (TASK, one): replace(second, task_version=one),
        (TASK, other): replace(first, task_version=other),
    }
    return with_tables(history, events={**events, **changed})


DOCTORED: list[tuple[str, Doctor]] = [
    ("runs_follow_one_another", lambda h: with_event(h, RERUN, task_attempt=1)),
    ("runs_follow_one_another", lambda h: with_event(h, RERUN + 1, task_attempt=1)),
    ("runs_follow_one_another", lambda h: with_event(h, RERUN - 1, lifecycle=Lifecycle.RUNNING)),
    ("runs_follow_one_another", lambda h: without_run(h, 2)),
    ("runs_follow_one_another", lambda h: with_task(h, attempt=2)),
    ("runs_follow_one_another", lambda h: with_run(h, 2, reason="other")),
    ("runs_follow_one_another", lambda h: with_run(h, 2, input_ref="input://other")),
    ("runs_follow_one_another", lambda h: with_run(h, 3, weight_total=9)),
    ("runs_follow_one_another", lambda h: with_run(h, 1, dynamic_steps=1)),
    ("ended_runs_keep_their_outcome", lambda h: with_outcome(h, 1, lifecycle=Lifecycle.CANCELLED)),
    ("ended_runs_keep_their_outcome", lambda h: with_outcome(h, 2, progress_points=1)),
    ("ended_runs_keep_their_outcome", lambda h: with_outcome(h, 2, failure=None)),
    ("ended_runs_keep_their_outcome", with_live_outcome),
    ("skips_name_a_result", lambda h: skipped_for(h, "never")),
    ("skips_name_a_result", lambda h: skipped_for(h, f"{STEP}.1.1")),
    ("skips_name_a_result", lambda h: with_event(h, SKIPPING + 1, reason="other")),
    ("skips_name_a_result", lambda h: with_step(h, 3, skip=None)),
    ("skips_name_a_result", lambda h: with_event(h, SKIPPING + 1, event_type=EventType.STEP_COMPLETED)),
    ("cancelling_never_succeeds", lambda h: with_event(h, 6, lifecycle=Lifecycle.SUCCEEDED)),
    ("cancelling_never_succeeds", lambda h: with_event(h, 5, lifecycle=Lifecycle.RUNNING)),
    ("cancelling_never_succeeds", lambda h: with_task(h, cancel_requested=True)),
    ("revoked_credentials_are_dead", lambda h: swapped(h, 2, 4)),
    ("revoked_credentials_are_dead", lambda h: with_step(h, 1, generation=1)),
    ("revoked_credentials_are_dead", lambda h: with_step(h, 2, generation=2)),
    ("labels_follow_their_facts", lambda h: with_title(h, "Report 2")),
    ("labels_follow_their_facts", lambda h: swapped(h, 3, 9)),
    ("changes_are_audited", lambda h: with_tables(h, audits=h.tables.audits[1:])),
    ("changes_are_audited", lambda h: with_tables(h, audits=(*h.tables.audits, h.tables.audits[0]))),
    ("changes_are_audited", lambda h: with_audits(h, command_id="never")),
    ("changes_are_audited", lambda h: with_audits(h, actor="user:ada")),
    ("changes_are_audited", lambda h: with_audits(h, reason="")),
    ("changes_are_audited", lambda h: with_audits(h, new_value=b"{}")),
    # The older rules over several runs.
    ("versions_are_gapless", lambda h: with_event(h, RERUN + 1, step_version=1)),
    ("versions_are_gapless", lambda h: with_event(h, SKIPPING + 1, step_version=9)),
    ("versions_are_gapless", lambda h: with_step(h, 1, version=1)),
    ("fold_equals_rows", lambda h: with_event(h, SKIPPING, lifecycle=Lifecycle.FAILED)),
    ("fold_equals_rows", lambda h: with_step(h, 3, version=1)),
    ("fold_equals_rows", lambda h: with_step(h, 3, lifecycle=Lifecycle.PENDING)),
    ("fold_equals_rows", lambda h: with_title(h, "Report")),
    ("fold_equals_rows", lambda h: with_task(h, open_dynamic=1)),
    ("fold_equals_rows", lambda h: with_step(h, 1, generation=5)),
    ("terminal_never_reverts", lambda h: with_event(h, 7, event_type=EventType.TASK_STARTED)),
    ("terminal_never_reverts", lambda h: with_event(h, RERUN, event_type=EventType.TASK_STARTED, task_attempt=1)),
    ("counters_are_the_sum_of_the_steps", lambda h: with_task(h, open_dynamic=1)),
    ("every_version_has_its_rows", lambda h: with_tables(h, outbox=h.tables.outbox[:-4])),
]


def test_c2_a_true_history_of_commands_breaks_no_rule() -> None:
    history = a_commanded_history()

    assert check(history) == []
    log = history.tables.log_of(TASK)
    assert [row.event_type for row in log][SKIPPING - 1 :] == [EventType.TASK_RERUN, EventType.STEP_SKIPPED]
    assert (log[RERUN - 1].event_type, log[-1].task_attempt) == (EventType.TASK_RERUN, 3)
    assert {call.outcome for call in history.invocations} == {Outcome.OK}
    assert history.tables.events[TASK, RERUN + 2].event_id == RESULT
    executions = {step.terms.execution_id for step in history.tables.steps.values() if step.terms}
    assert executions == {FIRST, SECOND}


@pytest.mark.parametrize(
    ("validator", "doctor"), DOCTORED, ids=[f"{name}-{place}" for place, (name, _) in enumerate(DOCTORED)]
)
def test_c2_a_doctored_history_of_commands_is_told_by_its_validator(validator: str, doctor: Doctor) -> None:
    violations = check(doctor(a_commanded_history()))

    assert validator in {violation.validator for violation in violations}


def test_c2_every_rule_of_runs_is_shown_to_speak() -> None:
    rules = {rule.__name__ for rule in VALIDATORS if rule.__module__ == rules_runs.__name__}

    assert rules <= {name for name, _ in DOCTORED}
