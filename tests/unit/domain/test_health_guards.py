"""The guards of a health change: their order, every answer of each, and what passes them (H-4, H-5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from taskstatus.domain.guards import GUARDS, Judgement
from taskstatus.domain.health_changes import HealthSign
from taskstatus.domain.health_guards import HEALTH_GUARDS, judge_health
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.reasons import Reason
from taskstatus.domain.records import SeenEvent
from taskstatus.domain.verdicts import Duplicate, NoOp, no_op
from tests.unit.factories import START, a_digest, a_running_step, a_task_in
from tests.unit.health_kit import HealthKit
from tests.unit.service_kit import reason_of

Violation = Callable[[Judgement], Judgement]
MOMENT = timedelta(microseconds=1)


def silent() -> Judgement:
    """A silence that every guard believes."""
    kit = HealthKit()
    kit.wait(61)
    kit.record(kit.overdue())
    kit_before = HealthKit()
    lease = kit_before.lease()
    now = lease.opened_at + timedelta(seconds=61)
    return Judgement(kit.writer.commands[0], now, kit_before.only_task(), kit_before.step(), None, lease=lease)


def stale(sign: HealthSign) -> Judgement:
    """A step that is STALE since a while; BEATING: heard again, LOST: its escalation is due."""
    j = silent()
    assert j.lease is not None
    assert j.step is not None
    assert j.command.observed is not None
    since = j.now - timedelta(seconds=301)
    heard = j.now - timedelta(seconds=1) if sign is HealthSign.BEATING else None
    lease = replace(
        j.lease, opened_at=since, stale_since=since, deadline_at=since + timedelta(seconds=300), last_heartbeat_at=heard
    )
    command = replace(j.command, observed=replace(j.command.observed, sign=sign))
    return replace(j, command=command, step=replace(j.step, stale=True), lease=lease)


BELIEVED: Mapping[HealthSign, Callable[[], Judgement]] = {
    HealthSign.SILENT: silent,
    HealthSign.BEATING: lambda: stale(HealthSign.BEATING),
    HealthSign.LOST: lambda: stale(HealthSign.LOST),
}


def _lease(j: Judgement, **changes: Any) -> Judgement:
    assert j.lease is not None
    return replace(j, lease=replace(j.lease, **changes))


def _step(j: Judgement, **changes: Any) -> Judgement:
    assert j.step is not None
    return replace(j, step=replace(j.step, **changes))


def _seen_elsewhere(j: Judgement) -> Judgement:
    other = no_op(a_task_in(Lifecycle.RUNNING), a_running_step()).result
    return replace(j, seen=SeenEvent(a_digest("other"), other))


def _the_other_health(j: Judgement) -> Judgement:
    """What the observation would record is so already."""
    assert j.step is not None
    assert j.command.observed is not None
    if j.command.observed.sign is HealthSign.LOST:
        return _lease(j, lost_at=START)
    return _step(j, stale=not j.step.stale)


def _a_beat_came(j: Judgement) -> Judgement:
    return _lease(j, heartbeat_seq=7)


def _not_overdue(j: Judgement) -> Judgement:
    return _lease(j, deadline_at=j.now + MOMENT)


def _never_heard_since(j: Judgement) -> Judgement:
    return _lease(j, last_heartbeat_at=j.now - timedelta(seconds=60))


IN_ORDER: Mapping[str, tuple[Reason | None, Violation]] = {
    "task exists": (Reason.TASK_NOT_FOUND, lambda j: replace(j, task=None)),
    "step exists": (Reason.STEP_NOT_FOUND, lambda j: replace(j, step=None)),
    "event id is new": (Reason.IDEMPOTENCY_CONFLICT, _seen_elsewhere),
    "run, attempt and execution are current": (Reason.STALE_ATTEMPT, lambda j: _step(j, superseded=True)),
    "step is running": (Reason.TERMINAL, lambda j: _step(j, lifecycle=Lifecycle.SUCCEEDED)),
    "lease is open": (None, lambda j: _lease(j, closed_at=START)),
    "health would change": (None, _the_other_health),
    "no beat came between": (None, _a_beat_came),
    "times say so still": (None, _not_overdue),
}
NAMES = tuple(IN_ORDER)


@pytest.mark.parametrize("sign", list(HealthSign))
def test_h4_observation_that_still_holds_passes_every_guard(sign: HealthSign) -> None:
    assert judge_health(BELIEVED[sign]()) is None


def test_h4_guards_stand_in_their_order_and_begin_as_those_of_events_do() -> None:
    assert tuple(guard.name for guard in HEALTH_GUARDS) == NAMES
    shared = [guard for guard in HEALTH_GUARDS if guard in GUARDS]
    assert shared == [guard for guard in GUARDS if guard.name in NAMES]


@pytest.mark.parametrize("name", NAMES)
def test_h4_single_violation_is_answered_as_its_guard_says(name: str) -> None:
    reason, violate = IN_ORDER[name]

    verdict = judge_health(violate(silent()))

    assert verdict is not None
    assert reason_of(verdict) is reason
    assert isinstance(verdict, NoOp) is (reason is None)


@pytest.mark.parametrize("first", [name for name, (reason, _) in IN_ORDER.items() if reason])
def test_h4_the_first_of_two_violated_guards_answers(first: str) -> None:
    """Those without a reason all answer the same, so that their order among themselves shows nowhere."""
    reason, violate_first = IN_ORDER[first]
    for second in NAMES[NAMES.index(first) + 1 :]:
        verdict = judge_health(violate_first(IN_ORDER[second][1](silent())))
        assert verdict is not None
        assert reason_of(verdict) is reason, second


def test_h4_guards_without_a_reason_answer_that_nothing_changes() -> None:
    without_reason = {guard.name for guard in HEALTH_GUARDS if not guard.reasons}
    assert without_reason == {name for name, (reason, _) in IN_ORDER.items() if reason is None}


def test_e3_observation_that_is_recorded_already_gives_its_first_result() -> None:
    j = silent()
    first = no_op(j.known_task, j.step).result
    assert judge_health(replace(j, seen=SeenEvent(j.command.digest, first))) == Duplicate(first)


def test_h4_ended_task_answers_terminal_for_a_step_that_still_runs() -> None:
    verdict = judge_health(replace(silent(), task=a_task_in(Lifecycle.FAILED)))
    assert verdict is not None
    assert reason_of(verdict) is Reason.TERMINAL


@pytest.mark.parametrize("lifecycle", [Lifecycle.PENDING, Lifecycle.CANCELLING])
def test_h4_step_that_does_not_run_has_no_health_to_change(lifecycle: Lifecycle) -> None:
    verdict = judge_health(_step(silent(), lifecycle=lifecycle))
    assert verdict is not None
    assert reason_of(verdict) is Reason.TRANSITION_NOT_ALLOWED


def test_h4_missing_lease_changes_nothing() -> None:
    assert isinstance(judge_health(replace(silent(), lease=None)), NoOp)


def test_e4_earlier_run_is_stale() -> None:
    j = silent()
    verdict = judge_health(replace(j, task=replace(j.known_task, attempt=2)))
    assert verdict is not None
    assert reason_of(verdict) is Reason.STALE_ATTEMPT


@pytest.mark.parametrize("sign", list(HealthSign))
def test_h4_what_is_so_already_changes_nothing(sign: HealthSign) -> None:
    assert isinstance(judge_health(_the_other_health(BELIEVED[sign]())), NoOp)


@pytest.mark.parametrize("sign", [HealthSign.SILENT, HealthSign.LOST])
def test_h4_deadline_is_over_at_its_very_moment_and_not_before(sign: HealthSign) -> None:
    j = BELIEVED[sign]()
    assert judge_health(_lease(j, deadline_at=j.now)) is None
    assert isinstance(judge_health(_lease(j, deadline_at=j.now + MOMENT)), NoOp)


@pytest.mark.parametrize("sign", [HealthSign.SILENT, HealthSign.LOST])
def test_h5_lease_without_a_deadline_is_never_overdue(sign: HealthSign) -> None:
    assert isinstance(judge_health(_lease(BELIEVED[sign](), deadline_at=None)), NoOp)


def test_h4_beat_counts_as_heard_for_less_than_a_timeout() -> None:
    j = BELIEVED[HealthSign.BEATING]()
    assert isinstance(judge_health(_never_heard_since(j)), NoOp)
    assert judge_health(_lease(j, last_heartbeat_at=j.now - timedelta(seconds=60) + MOMENT)) is None


def test_h4_recovery_holds_whatever_beats_came_after_it_was_seen() -> None:
    assert judge_health(_a_beat_came(BELIEVED[HealthSign.BEATING]())) is None


def test_h5_young_beat_wins_over_the_escalation_even_of_the_same_sequence() -> None:
    j = BELIEVED[HealthSign.LOST]()
    assert isinstance(judge_health(_lease(j, last_heartbeat_at=j.now - timedelta(seconds=59))), NoOp)


def test_h5_healthy_step_is_not_lost() -> None:
    assert isinstance(judge_health(_step(BELIEVED[HealthSign.LOST](), stale=False)), NoOp)
