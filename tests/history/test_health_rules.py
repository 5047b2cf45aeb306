"""Every rule of health keeps silent on a true history, speaks on a doctored one, and knows when it knows nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from taskstatus.domain.events import EventType
from taskstatus.domain.lifecycle import Lifecycle
from tests.history import rules_health
from tests.history.building import FIRST, START, TASK, a_silent_history
from tests.history.model import Beat, History, Outcome, Window
from tests.history.rules_health import Finding, judge_returns, judge_silence, judge_stale
from tests.history.test_validators import with_event, with_step, with_tables
from tests.history.validators import VALIDATORS, check

Doctor = Callable[[History], History]
SILENCES = ["SILENT", "BEATING", "SILENT", "LOST", "BEATING", "SILENT"]
STARTED, SILENT, BACK, SILENT_AGAIN, LOST, BACK_AGAIN, SILENT_AT_LAST, COMPLETED = range(2, 10)
"""Versions of the history."""


def with_lease(history: History, **changes: Any) -> History:
    """The lease changed."""
    lease = replace(history.tables.leases[FIRST], **changes)
    return with_tables(history, leases={FIRST: lease})


def with_watch(history: History, **changes: Any) -> History:
    """Another watch."""
    assert history.health is not None
    return replace(history, health=replace(history.health, **changes))


def with_beat(history: History, at: float, outcome: Outcome = Outcome.OK, reason: str = "", seq: int = 99) -> History:
    """One beat more."""
    assert history.health is not None
    return with_watch(history, beats=(*history.health.beats, Beat(FIRST, seq, at, at, outcome, reason)))


def without_beats(history: History) -> History:
    """Nobody ever beat."""
    return with_watch(with_lease(history, heartbeat_seq=0), beats=())


def at(history: History, version: int) -> float:
    """When an event was committed, in seconds."""
    return (history.tables.events[TASK, version].committed_at - START).total_seconds()


def just_before(history: History, version: int, seconds: float) -> History:
    """An acknowledged beat so long before an event."""
    return with_beat(history, at(history, version) - seconds)


def moved(history: History, version: int, seconds: float) -> History:
    """An event committed so much later."""
    committed_at = history.tables.events[TASK, version].committed_at
    return with_event(history, version, committed_at=committed_at + timedelta(seconds=seconds))


def without_fact(history: History, version: int) -> History:
    """A fact of health that was never recorded, its version taken by what changes nothing."""
    return with_event(history, version, event_type=EventType.STEP_PROGRESS, reason="")


DOCTORED: list[tuple[str, Doctor]] = [
    ("health_alternates", lambda h: with_event(h, SILENT, reason="BEATING")),
    ("health_alternates", lambda h: with_event(h, SILENT_AGAIN, reason="BEATING")),
    ("health_alternates", lambda h: with_event(h, BACK, reason="SILENT")),
    ("health_alternates", lambda h: with_event(h, BACK_AGAIN, reason="LOST")),
    ("health_alternates", lambda h: with_event(h, SILENT_AGAIN, reason="LOST")),
    (
        "health_is_of_running_executions",
        lambda h: with_event(h, COMPLETED + 1, event_type=EventType.WORKER_LOST, reason="LOST", execution_id=FIRST),
    ),
    ("health_is_of_running_executions", lambda h: with_event(h, LOST, event_type=EventType.STEP_COMPLETED)),
    ("health_is_of_running_executions", lambda h: with_event(h, LOST, superseded_execution_id=FIRST)),
    ("health_is_of_running_executions", lambda h: with_event(h, STARTED, event_type=EventType.STEP_PROGRESS)),
    ("health_is_of_running_executions", lambda h: with_event(h, SILENT, execution_id=b"another")),
    ("health_flags_follow_facts", lambda h: with_step(h, 1, stale=True)),
    ("health_flags_follow_facts", lambda h: with_lease(h, recoveries=1)),
    ("health_flags_follow_facts", lambda h: with_lease(h, closed_at=None, stale_since=START)),
    ("health_flags_follow_facts", lambda h: with_lease(h, closed_at=None, lost_at=START)),
    ("patience_grows", lambda h: moved(h, SILENT, -6)),
    ("patience_grows", lambda h: moved(h, SILENT_AT_LAST, -61)),
    ("lost_comes_late", lambda h: moved(h, LOST, -2)),
    ("stale_is_true", lambda h: just_before(h, SILENT, 20)),
    ("stale_is_true", lambda h: just_before(h, SILENT_AT_LAST, 170)),
    ("silence_is_told", lambda h: without_fact(h, SILENT)),
    ("silence_is_told", lambda h: without_fact(h, SILENT_AT_LAST)),
    ("signs_of_life_end_stale", lambda h: moved(h, BACK, 50)),
    ("signs_of_life_end_stale", lambda h: without_fact(h, BACK)),
    ("signs_of_life_end_stale", without_beats),
    ("beats_are_answered_truly", lambda h: with_beat(h, at(h, STARTED) - 3)),
    ("beats_are_answered_truly", lambda h: with_beat(h, at(h, COMPLETED) + 20)),
    ("beats_are_answered_truly", lambda h: just_refused(h, "TERMINAL")),
    ("beats_are_answered_truly", lambda h: just_refused(h, "STALE_ATTEMPT")),
    ("beats_are_answered_truly", lambda h: just_refused(h, "STALE_SEQUENCE")),
    ("beats_are_answered_truly", lambda h: just_refused(h, "TRANSITION_NOT_ALLOWED")),
    ("acknowledged_beats_are_kept", lambda h: with_lease(h, heartbeat_seq=2)),
    ("acknowledged_beats_are_kept", lambda h: with_lease(h, heartbeat_seq=100)),
]


def just_refused(history: History, reason: str) -> History:
    """A beat of the running execution refused."""
    return with_beat(history, at(history, LOST) + 1, Outcome.REFUSED, reason)


def test_c2_silence_its_end_and_a_lost_worker_break_no_rule() -> None:
    history = a_silent_history()

    assert check(history) == []
    assert [row.reason for row in history.tables.log_of(TASK) if row.reason] == SILENCES


@pytest.mark.parametrize(
    ("validator", "doctor"), DOCTORED, ids=[f"{name}-{place}" for place, (name, _) in enumerate(DOCTORED)]
)
def test_h4_a_doctored_silence_is_told_by_its_validator(validator: str, doctor: Doctor) -> None:
    violations = check(doctor(a_silent_history()))

    assert validator in {violation.validator for violation in violations}


def test_h4_every_rule_of_health_is_shown_to_speak() -> None:
    rules = {rule.__name__ for rule in VALIDATORS if rule.__module__ == rules_health.__name__}

    assert rules == {name for name, _ in DOCTORED}


@pytest.mark.parametrize(
    ("version", "reason"),
    [(BACK, "SILENT"), (BACK_AGAIN, "LOST")],
)
def test_h4_the_replay_of_the_log_tells_doctored_silence_too(version: int, reason: str) -> None:
    violations = check(with_event(a_silent_history(), version, reason=reason))

    assert "fold_equals_rows" in {violation.validator for violation in violations}


@pytest.mark.parametrize("doctor", [lambda h: just_before(h, SILENT, 20), lambda h: without_fact(h, SILENT)])
def test_h5_what_happens_while_the_service_is_hindered_is_unknown(doctor: Doctor) -> None:
    history = with_watch(doctor(a_silent_history()), disturbed=(Window(0.0, 1_000.0),))

    assert not {"stale_is_true", "silence_is_told"} & {violation.validator for violation in check(history)}


@pytest.mark.parametrize(
    ("doctor", "finding"),
    [
        (lambda h: h, Finding.KEPT),
        (lambda h: just_before(h, SILENT, 20), Finding.BROKEN),
        (lambda h: just_before(h, SILENT, 5), Finding.UNKNOWN),
        (lambda h: with_beat(h, at(h, SILENT) - 20, Outcome.UNKNOWN), Finding.UNKNOWN),
        (lambda h: with_beat(h, at(h, SILENT) - 20, Outcome.REFUSED, "STALE_SEQUENCE"), Finding.KEPT),
        (lambda h: replace(just_before(h, SILENT, 20), clock_stepped=True), Finding.UNKNOWN),
    ],
)
def test_h4_stale_is_judged_by_what_was_surely_persisted(doctor: Doctor, finding: Finding) -> None:
    history = doctor(a_silent_history())
    assert history.health is not None

    assert next(judge_stale(history, history.health))[0] is finding


def test_h4_an_unanswered_beat_excuses_no_silence_that_lasted_longer() -> None:
    history = with_beat(without_fact(a_silent_history(), SILENT_AT_LAST), 690.5, Outcome.UNKNOWN)
    assert history.health is not None

    assert Counter(finding for finding, _ in judge_silence(history, history.health))[Finding.BROKEN] == 1


def test_h4_a_beat_before_the_end_of_the_run_need_not_have_ended_stale() -> None:
    history = with_event(a_silent_history(), COMPLETED, event_type=EventType.STEP_PROGRESS, lifecycle=Lifecycle.RUNNING)
    history = with_event(history, COMPLETED + 1, event_type=EventType.TASK_STARTED)
    late, early = with_beat(history, 693.0), with_beat(history, 689.0)

    assert late.health is not None
    assert early.health is not None
    assert list(judge_returns(late, late.health))[-1][0] is Finding.KEPT
    assert list(judge_returns(early, early.health))[-1][0] is Finding.BROKEN
