"""Progress rises within an attempt, is absorbed only by what is itself committed, and never means success (E-8)."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskstatus.domain.events import EventType
from taskstatus.domain.ids import ExecutionId
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.progress import FULL_POINTS, Progress, goes_back, weighted_percent
from taskstatus.domain.projections import step_percent, task_percent
from taskstatus.domain.reasons import Reason
from taskstatus.domain.verdicts import result_or_raise
from tests.unit.factories import (
    a_running_step,
    a_step,
    a_task,
    a_task_in,
    an_activation,
    an_id,
    progress,
    step_event,
    task_event,
)
from tests.unit.service_kit import Kit, drive, kinds_of, reason_of

STARTED, PROGRESSED, COMPLETED = EventType.STEP_STARTED, EventType.STEP_PROGRESS, EventType.STEP_COMPLETED
RUNNING = Lifecycle.RUNNING

amounts = st.floats(min_value=0, max_value=1e9, allow_nan=False)


def at(source_seq: int, current: float, progress_seq: int = 0, **changes: object) -> object:
    """A progress of the parse step."""
    return step_event(PROGRESSED, source_seq, progress=progress(current), progress_seq=progress_seq, **changes)


@pytest.mark.parametrize(
    ("shown", "reported", "expected"),
    [
        (progress(10), progress(9), True),
        (progress(10), progress(10), False),
        (progress(10), progress(11), False),
        (progress(10, 0), progress(9, 0), True),
        (progress(10, 0), progress(9, 0, "file"), False),
        (progress(90), progress(10, 100, "file"), True),
        (progress(10, 100), progress(11, 1000), True),
        (progress(10, 0), progress(1, 100), False),
        (None, progress(0), False),
        (progress(500_099, 1_000_000), progress(500_001, 1_000_000), True),
    ],
)
def test_e8_goes_back(shown: Progress | None, reported: Progress, expected: bool) -> None:
    assert goes_back(shown, reported) is expected


@given(total=st.floats(min_value=1, max_value=1e9), first=st.floats(0, 1), second=st.floats(0, 1))
def test_e8_of_two_unequal_progresses_one_goes_back(total: float, first: float, second: float) -> None:
    one, other = Progress(first * total, total, "page"), Progress(second * total, total, "page")
    assert goes_back(one, other) is (other.current < one.current)


@given(current=amounts, total=amounts)
def test_e8_points_are_between_nothing_and_all(current: float, total: float) -> None:
    points = Progress(min(current, total), total, "").points
    assert (points is None) is (total == 0)
    assert points is None or 0 <= points <= FULL_POINTS


def test_e8_whole_percents_are_exact() -> None:
    assert [Progress(float(done), 100.0, "").points for done in range(101)] == [done * 100 for done in range(101)]
    assert [Progress(float(done), 36.0, "page").points for done in (9, 18, 27, 36)] == [2_500, 5_000, 7_500, 10_000]


@pytest.mark.parametrize("amount", [1e305, 1.7e308, 5e-324])
def test_e8_any_finite_amount_has_points(amount: float) -> None:
    assert math.isfinite(amount)
    assert Progress(amount, amount, "byte").points == FULL_POINTS


def test_e8_lower_progress_is_answered_not_written(kit: Kit) -> None:
    kit.put(a_task_in(RUNNING, version=4), a_running_step(progress=progress(40), progress_seq=3))

    result = kit.result(at(2, 39, 4))

    assert (result.accepted, result.stale, result.reason) == (False, False, Reason.PROGRESS_NOT_MONOTONIC)
    assert (kit.only_task().version, kit.tables.events) == (4, {})


@pytest.mark.parametrize(("progress_seq", "kind"), [(2, "Stale"), (3, "NoOp"), (4, "Accepted")])
def test_e8_progress_seq_lower_is_late_equal_is_a_no_op(kit: Kit, progress_seq: int, kind: str) -> None:
    kit.put(a_task_in(RUNNING), a_running_step(progress=progress(40), progress_seq=3))
    assert kinds_of(kit.report(at(2, 50, progress_seq))) == [kind]


def test_e8_progress_that_shows_nothing_new_is_a_no_op(kit: Kit) -> None:
    kit.put(a_task_in(RUNNING), a_running_step(progress=progress(40), phase_code="ocr"))
    assert kinds_of(kit.report(at(2, 40, phase_code="ocr"))) == ["NoOp"]


def test_e11_phase_alone_is_a_change_of_metadata(kit: Kit) -> None:
    kit.put(a_task_in(RUNNING), a_running_step(progress=progress(40)))

    result = kit.result(step_event(PROGRESSED, 2, phase_code="ocr", phase_label="Reading pages"))

    assert (result.changed, result.lifecycle) == (True, RUNNING)
    assert (kit.step().phase_code, kit.step().phase_label, kit.step().progress) == (
        "ocr",
        "Reading pages",
        progress(40),
    )


@pytest.mark.parametrize("lifecycle", [Lifecycle.PENDING, Lifecycle.CANCELLING])
def test_e8_progress_only_while_running(kit: Kit, lifecycle: Lifecycle) -> None:
    kit.put(a_task_in(RUNNING), a_step(lifecycle=lifecycle))
    assert kit.reason(at(2, 50)) is Reason.TRANSITION_NOT_ALLOWED


def test_e8_all_done_is_not_success(kit: Kit) -> None:
    kit.put(a_task_in(RUNNING), a_running_step())

    kit.result(at(2, 100))

    assert (kit.step().lifecycle, step_percent(kit.step())) == (RUNNING, 100.0)
    assert (kit.only_task().lifecycle, task_percent(kit.only_task())) == (RUNNING, 100.0)


def test_e8_success_shows_all_done(kit: Kit) -> None:
    kit.put(a_task_in(RUNNING, weight_total=2), a_running_step())

    kit.result(step_event(COMPLETED, 2))

    assert step_percent(kit.step()) == 100.0
    assert task_percent(kit.only_task()) == 50.0
    kit.result(task_event(EventType.TASK_COMPLETED))
    assert task_percent(kit.only_task()) == 100.0


def test_e8_failure_with_a_lower_progress_does_not_show_it_going_back(kit: Kit) -> None:
    kit.put(a_task_in(RUNNING), a_running_step(progress=progress(60), credited_points=6_000))

    kit.result(step_event(EventType.STEP_FAILED, 2, progress=progress(30)))

    assert step_percent(kit.step()) == 60.0


def test_e8_newer_progress_absorbs_the_older_of_one_commit(kit: Kit) -> None:
    kit.put(a_task_in(RUNNING, version=4), a_running_step(version=3))

    verdicts = kit.report(at(2, 10), at(3, 20), at(4, 30))

    assert kinds_of(verdicts) == ["Coalesced", "Coalesced", "Accepted"]
    first, second, last = (result_or_raise(verdict) for verdict in verdicts)
    assert (last.task_version, last.step_version, last.coalesced) == (5, 4, False)
    assert first == second == replace(last, coalesced=True)
    assert [key[1] for key in kit.tables.events] == [5]
    assert len(kit.tables.dedups) == 3
    assert len(kit.tables.outbox) == 2
    assert (kit.step().progress, kit.step().source_seq) == (progress(30), 4)


def test_e8_absorbed_progress_sent_again_gives_its_first_result(kit: Kit) -> None:
    kit.put(a_task_in(RUNNING), a_running_step())
    first, _ = kit.report(at(2, 10), at(3, 20))

    again = kit.result(at(2, 10))

    assert again == replace(result_or_raise(first), duplicate=True)
    assert again.coalesced


@pytest.mark.parametrize(
    ("newer", "kinds"),
    [
        (at(3, 5), ["Accepted", "Stale"]),
        (at(3, 10), ["Accepted", "NoOp"]),
        (at(3, 20, business_status="NOPE"), ["Accepted", "Refused"]),
        (step_event(COMPLETED, 3), ["Accepted", "Accepted"]),
        (step_event(COMPLETED, 3, progress=progress(20)), ["Accepted", "Accepted"]),
    ],
)
def test_e8_only_an_accepted_newer_progress_absorbs(kit: Kit, newer: object, kinds: list[str]) -> None:
    kit.put(a_task_in(RUNNING, version=4), a_running_step())

    verdicts = kit.report(at(2, 10), newer)

    assert kinds_of(verdicts) == kinds
    assert result_or_raise(verdicts[0]).task_version == 5
    assert (kit.only_task().envelope.task_id, 5) in kit.tables.events


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        (at(2, 10), step_event(PROGRESSED, 3, phase_code="OCR")),
        (at(2, 10), step_event(PROGRESSED, 3, progress=progress(20, 0))),
        (at(2, 10, phase_code="OCR"), at(3, 20)),
        (at(2, 10, phase_label="Reading"), at(3, 20, phase_code="OCR")),
        (at(2, 10, progress_seq=7), at(3, 20)),
        (at(2, 10, business_status="RUNNING"), at(3, 20)),
    ],
)
def test_e8_progress_that_told_more_than_the_newer_one_is_not_absorbed(kit: Kit, older: object, newer: object) -> None:
    kit.put(a_task_in(RUNNING, version=4), a_running_step(version=3))

    verdicts = kit.report(older, newer)

    assert kinds_of(verdicts) == ["Accepted", "Accepted"]
    assert [key[1] for key in kit.tables.events] == [5, 6]


def test_e8_progress_absorbs_no_start(kit: Kit) -> None:
    kit.put(a_task_in(RUNNING, version=4), a_step())

    verdicts = kit.report(step_event(STARTED, 1), at(2, 10))

    assert kinds_of(verdicts) == ["Accepted", "Accepted"]
    assert [result_or_raise(verdict).task_version for verdict in verdicts] == [5, 6]


def test_e8_every_absorbed_progress_has_the_result_that_was_committed(kit: Kit) -> None:
    kit.put(a_task_in(RUNNING, version=4), a_running_step())

    verdicts = kit.report(at(2, 10), at(3, 20), at(4, 30, business_status="RETRY_WAIT"))

    results = [result_or_raise(verdict) for verdict in verdicts]
    assert [(result.coalesced, result.business_status) for result in results] == [
        (True, "RETRY_WAIT"),
        (True, "RETRY_WAIT"),
        (False, "RETRY_WAIT"),
    ]


def test_e8_progress_of_another_execution_absorbs_nothing(kit: Kit) -> None:
    other = a_running_step(step_id="03_store", execution_id=ExecutionId(an_id(60)))
    kit.put(a_task_in(RUNNING, version=4, open_steps=2), a_running_step(), other)

    verdicts = kit.report(at(2, 10), at(2, 10, of=other, event_id="other"), at(3, 20))

    assert kinds_of(verdicts) == ["Accepted"] * 3
    assert [result_or_raise(verdict).task_version for verdict in verdicts] == [5, 6, 7]


def test_e8_progress_across_another_event_of_the_task_is_not_absorbed(kit: Kit) -> None:
    kit.put(a_task(), a_running_step())

    verdicts = kit.report(at(2, 10), task_event(EventType.TASK_STARTED), at(3, 20))

    assert kinds_of(verdicts) == ["Accepted"] * 3


def test_e8_progress_of_two_commits_has_two_versions(kit: Kit) -> None:
    kit.put(a_task_in(RUNNING, version=4), a_running_step())
    assert [kit.result(at(2, 10)).task_version, kit.result(at(3, 20)).task_version] == [5, 6]


def test_e8_terminal_event_wins_over_pending_progress(kit: Kit) -> None:
    kit.put(a_task_in(RUNNING), a_running_step())

    verdicts = kit.report(at(2, 10), step_event(COMPLETED, 3), at(4, 20))

    assert [reason_of(verdict) for verdict in verdicts] == [None, None, Reason.TERMINAL]


def test_e8_task_progress_is_weighted_and_counts_a_retry_once(kit: Kit) -> None:
    heavy = a_running_step(weight=3, credited_points=0)
    light = a_running_step(step_id="03_store", execution_id=ExecutionId(an_id(60)), weight=1)
    kit.put(a_task_in(RUNNING, weight_total=4, open_steps=2), heavy, light)

    kit.report(at(2, 50, of=heavy), at(2, 100, of=light, event_id="other"))
    assert task_percent(kit.only_task()) == 62.5
    kit.report(step_event(EventType.STEP_FAILED, 3, of=heavy))
    drive(kit.registration.activate(an_activation(attempt=2)))
    second = kit.step(attempt=2)
    kit.report(step_event(STARTED, 1, of=second, event_id="again"), at(2, 20, of=second, event_id="again-2"))

    assert task_percent(kit.only_task()) == 62.5
    assert step_percent(kit.step(attempt=2)) == 20.0
    kit.report(at(3, 80, of=second, event_id="again-3"))
    assert task_percent(kit.only_task()) == 85.0


@given(points=st.integers(0, 10**12), weight=st.integers(0, 10**6))
def test_e8_no_weight_no_percentage(points: int, weight: int) -> None:
    percent = weighted_percent(points, weight)
    assert (percent is None) is (weight == 0)


def test_o3_progress_that_asks_for_a_person_is_never_absorbed(kit: Kit) -> None:
    kit.put(a_task_in(RUNNING, version=4), a_running_step())

    verdicts = kit.report(at(2, 10, business_status="WAITING_USER_ACTION"), at(3, 20, business_status="RUNNING"))

    assert kinds_of(verdicts) == ["Accepted", "Accepted"]
    summaries = [row for row in kit.tables.outbox.values() if row.payload is not None]
    assert [(row.aggregate_version, row.protected) for row in summaries] == [(5, True), (6, False)]


def test_o3_progress_that_asks_for_a_person_is_not_absorbed_by_one_that_repeats_it(kit: Kit) -> None:
    kit.put(a_task_in(RUNNING, version=4), a_running_step())
    waiting = {"business_status": "WAITING_USER_ACTION"}

    verdicts = kit.report(at(2, 10, **waiting), at(3, 20, **waiting))

    assert kinds_of(verdicts) == ["Accepted", "Accepted"]
    noticed = [b'"notice"' in row.payload for row in kit.tables.outbox.values() if row.payload is not None]
    assert noticed == [True, False]


def test_p3_waiting_that_goes_on_is_no_news(kit: Kit) -> None:
    kit.put(a_task_in(RUNNING), a_running_step())

    kit.report(at(2, 10, business_status="WAITING_USER_ACTION"))
    kit.report(at(3, 20))

    noticed = [b'"notice"' in row.payload for row in kit.tables.outbox.values() if row.payload is not None]
    assert noticed == [True, False]


@pytest.mark.parametrize(
    ("newer", "kinds"),
    [
        ({}, ["Accepted", "Accepted"]),
        ({"phase_code": "layout"}, ["Coalesced", "Accepted"]),
        ({"phase_label": "Layout"}, ["Accepted", "Accepted"]),
    ],
)
def test_e8_progress_absorbs_only_what_it_says_itself(kit: Kit, newer: dict[str, str], kinds: list[str]) -> None:
    kit.put(a_task_in(RUNNING), a_running_step())

    verdicts = kit.report(at(2, 10, phase_code="ocr"), at(3, 20, **newer))

    assert kinds_of(verdicts) == kinds
    assert len(kit.tables.events) == kinds.count("Accepted")


def test_e3_a_repeat_in_the_batch_that_absorbs_its_event_gets_the_result_that_is_committed(kit: Kit) -> None:
    kit.put(a_task_in(RUNNING, version=4), a_running_step(version=3))

    first, again, last = kit.report(at(2, 10), at(2, 10), at(3, 20))

    assert kinds_of([first, again, last]) == ["Coalesced", "Duplicate", "Accepted"]
    assert result_or_raise(again) == replace(result_or_raise(first), duplicate=True)
