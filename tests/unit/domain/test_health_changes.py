"""STALE, back, and lost: what each observation records, and that nothing else moves (H-4, H-5, B-1, L-6, P-3)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskstatus.domain.events import EventType
from taskstatus.domain.health import Health
from taskstatus.domain.health_changes import HealthSign, HealthTerms, observation_id, task_deadline
from taskstatus.domain.lease import MAX_PATIENCE, patience_seconds
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.registration_terms import RegistrationTerms
from taskstatus.domain.state import FailurePolicy
from tests.unit.factories import (
    EXECUTION_ID,
    START,
    TASK_ID,
    a_failure,
    a_step,
    a_task,
    an_activation,
    an_id,
    step_event,
    task_event,
)
from tests.unit.health_kit import HealthKit, seconds
from tests.unit.service_kit import drive, kinds_of

TIMES = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1))
STALE_EVENT, LOST_EVENT = EventType.STEP_HEALTH_CHANGED, EventType.WORKER_LOST


def test_h4_silence_is_one_version_of_task_and_step_and_nothing_else_moves() -> None:
    kit = HealthKit()
    before, task = kit.step(), kit.only_task()

    kit.go_stale()

    after = kit.step()
    assert after == replace(before, stale=True, version=before.version + 1)
    assert (kit.only_task().version, kit.only_task().stale_steps) == (task.version + 1, 1)
    assert kit.only_task().health is Health.STALE
    assert (kit.only_task().lifecycle, kit.only_task().business_status) == (task.lifecycle, task.business_status)
    assert len(kit.tables.outbox) == 4  # a summary and a detail each for the start and for STALE


def test_h4_event_tells_who_observed_what() -> None:
    kit = HealthKit()
    kit.go_stale()

    event = kit.tables.events[(TASK_ID, 3)]

    assert (event.event_type, event.reason, event.health) == (STALE_EVENT, "SILENT", Health.STALE)
    assert (event.producer_id, event.actor, event.source_seq) == ("taskstatus", "taskstatus", 0)
    assert (event.step_id, event.execution_id, event.lifecycle) == ("02_parse", EXECUTION_ID, Lifecycle.RUNNING)


def test_h4_worker_that_never_beats_goes_stale_a_timeout_after_its_start() -> None:
    kit = HealthKit()
    kit.wait(59)
    assert not kit.overdue()
    kit.wait(2)
    assert [candidate.sign for candidate in kit.overdue()] == [HealthSign.SILENT]


def test_h4_beat_moves_the_deadline_and_recovery_comes_once() -> None:
    kit = HealthKit()
    kit.wait(50)
    kit.beat(1)
    kit.wait(50)
    assert not kit.overdue()

    kit.go_stale()
    kit.recover(2)
    repeated = kit.record(kit.stale_or_not())

    assert kinds_of(repeated) == ["NoOp"]
    assert kit.health_events() == [(STALE_EVENT, "SILENT"), (STALE_EVENT, "BEATING")]
    assert kit.only_task().health is Health.HEALTHY


def test_h4_two_replicas_that_saw_the_same_silence_record_it_once() -> None:
    kit = HealthKit()
    kit.wait(61)
    seen_by_one, seen_by_other = kit.overdue(), kit.overdue()

    verdicts = [*kit.record(seen_by_one), *kit.record(seen_by_other)]

    assert kinds_of(verdicts) == ["Accepted", "Duplicate"]
    assert kit.health_events() == [(STALE_EVENT, "SILENT")]


def test_h4_two_replicas_in_one_batch_record_it_once() -> None:
    kit = HealthKit()
    kit.wait(61)
    kit.record(kit.overdue())
    (command,) = kit.writer.commands
    kit = HealthKit()
    kit.wait(61)

    verdicts = kit.report(command, command)

    assert kinds_of(verdicts) == ["Accepted", "Duplicate"]


def test_h4_late_beat_wins_over_a_silence_seen_before_it() -> None:
    kit = HealthKit()
    kit.wait(61)
    seen = kit.overdue()
    kit.beat(1)

    assert kinds_of(kit.record(seen)) == ["NoOp"]
    assert not kit.health_events()


def test_h4_beat_that_came_and_went_makes_an_older_observation_void() -> None:
    kit = HealthKit()
    kit.wait(61)
    seen = kit.overdue()
    kit.beat(1)
    kit.wait(61)

    assert kinds_of(kit.record(seen)) == ["NoOp"]
    assert kinds_of(kit.record(kit.overdue())) == ["Accepted"]


def test_h4_completion_wins_over_a_silence_seen_before_it() -> None:
    kit = HealthKit()
    kit.wait(61)
    seen = kit.overdue()
    kit.report(step_event(EventType.STEP_COMPLETED, 2))

    assert kinds_of(kit.record(seen)) == ["Stale"]
    assert not kit.step().stale


def test_h4_completion_before_silence_in_one_batch_wins() -> None:
    kit = HealthKit()
    kit.wait(61)
    kit.record(kit.overdue())
    (silence,) = kit.writer.commands
    kit = HealthKit()
    kit.wait(61)

    verdicts = kit.report(step_event(EventType.STEP_COMPLETED, 2), silence)

    assert kinds_of(verdicts) == ["Accepted", "Stale"]
    assert (kit.step().stale, kit.only_task().stale_steps) == (False, 0)


def test_l1_silence_before_completion_in_one_batch_leaves_no_stale_and_a_closed_lease() -> None:
    kit = HealthKit()
    kit.wait(61)
    kit.record(kit.overdue())
    (silence,) = kit.writer.commands
    kit = HealthKit()
    kit.wait(61)

    verdicts = kit.report(silence, step_event(EventType.STEP_COMPLETED, 2))

    assert kinds_of(verdicts) == ["Accepted", "Accepted"]
    assert (kit.step().stale, kit.only_task().stale_steps, kit.step().version) == (False, 0, 4)
    assert (kit.lease().is_open, kit.lease().deadline_at, kit.lease().stuck_at) == (False, None, None)


def test_l1_end_of_the_task_after_silence_in_one_batch_leaves_no_stale() -> None:
    kit = HealthKit()
    kit.wait(61)
    kit.record(kit.overdue())
    (silence,) = kit.writer.commands
    kit = HealthKit()
    kit.wait(61)

    kit.report(silence, task_event(EventType.TASK_CANCELLED))

    assert (kit.step().stale, kit.only_task().stale_steps) == (False, 0)
    assert not kit.lease().is_open


def test_h4_superseded_attempt_is_never_stale_again() -> None:
    kit = HealthKit()
    kit.wait(61)
    seen = kit.overdue()
    drive(kit.registration.activate(an_activation(attempt=2)))

    assert kinds_of(kit.record(seen)) == ["Stale"]
    assert not kit.health_events()
    assert not kit.overdue()


def test_h4_deadline_of_another_silence_is_another_event() -> None:
    """A worker that lives by progress alone keeps ``heartbeat_seq`` 0 (H-7); its second silence is a fact too."""
    kit = HealthKit()
    kit.go_stale()
    kit.recover(0)
    kit.wait(121)

    assert kinds_of(kit.record(kit.overdue())) == ["Accepted"]


def test_l6_recovery_shows_degraded_again() -> None:
    failed = a_step(
        step_id="03_optional", execution_id=an_id(9), failure_policy=FailurePolicy.CONTINUE_WITH_WARNING, order=2
    )
    kit = HealthKit(a_step(), failed)
    kit.report(step_event(EventType.STEP_FAILED, 2, of=failed, error=a_failure()))
    assert kit.only_task().health is Health.DEGRADED

    kit.go_stale()
    assert kit.only_task().health is Health.STALE
    kit.recover(1)

    assert kit.only_task().health is Health.DEGRADED


def test_l6_task_is_stale_until_its_last_stale_step_is_back() -> None:
    other = a_step(step_id="03_store", execution_id=an_id(9), order=2)
    kit = HealthKit(a_step(), other)
    kit.wait(61)
    kit.record(kit.overdue())
    assert kit.only_task().stale_steps == 2

    kit.beat(1)
    kit.record(kit.stale_or_not())
    assert (kit.only_task().stale_steps, kit.only_task().health) == (1, Health.STALE)


def test_h5_long_silence_is_told_once_as_lost_and_never_as_failed() -> None:
    kit = HealthKit()
    kit.go_stale()
    kit.wait(299)
    assert not kit.overdue()
    kit.wait(2)
    seen = [*kit.overdue(), *kit.overdue()]

    verdicts = kit.record(seen)

    assert kinds_of(verdicts) == ["Accepted", "Duplicate"]
    assert kit.health_events() == [(STALE_EVENT, "SILENT"), (LOST_EVENT, "LOST")]
    assert (kit.step().lifecycle, kit.step().stale, kit.only_task().stale_steps) == (Lifecycle.RUNNING, True, 1)
    assert kit.lease().deadline_at is None
    kit.wait(100_000)
    assert not kit.overdue()


def test_h5_lost_worker_that_beats_is_healthy_again() -> None:
    kit = HealthKit()
    kit.go_stale()
    kit.wait(301)
    kit.record(kit.overdue())

    kit.recover(1)

    assert (kit.lease().lost_at, kit.lease().stale_since, kit.lease().recoveries) == (None, None, 1)
    assert kit.only_task().health is Health.HEALTHY


def test_h5_beat_that_no_signal_told_of_is_found_when_the_escalation_is_due() -> None:
    kit = HealthKit()
    kit.go_stale()
    kit.wait(290)
    kit.beat(1)
    kit.wait(11)

    (candidate,) = kit.overdue()

    assert candidate.sign is HealthSign.BEATING
    assert kinds_of(kit.record([candidate])) == ["Accepted"]


def test_h5_late_beat_wins_over_the_escalation() -> None:
    kit = HealthKit()
    kit.go_stale()
    kit.wait(301)
    seen = kit.overdue()
    kit.beat(1)

    assert kinds_of(kit.record(seen)) == ["NoOp"]
    assert (LOST_EVENT, "LOST") not in kit.health_events()


def test_h5_flapping_worker_is_given_more_patience_each_time_up_to_a_bound() -> None:
    kit = HealthKit()
    patience = []
    for seq in range(1, MAX_PATIENCE + 4):
        kit.wait(301)
        kit.record(kit.overdue())
        kit.recover(seq)
        lease = kit.lease()
        assert lease.deadline_at is not None
        patience.append((lease.deadline_at - lease.last_sign_at).total_seconds())

    assert patience == [120, 180, 240, 300, 300, 300, 300]


def test_h5_patience_is_one_timeout_without_a_recovery() -> None:
    assert patience_seconds(60, 0) == 60


def test_h4_recovery_needs_a_beat_younger_than_the_timeout() -> None:
    kit = HealthKit()
    kit.go_stale()
    kit.beat(1)
    seen = kit.stale_or_not()
    kit.wait(61)

    assert kinds_of(kit.record(seen)) == ["NoOp"]
    assert kit.step().stale


def test_h8_stuck_work_counts_from_long_silence_and_not_after_recovery() -> None:
    kit = HealthKit()
    assert kit.lease().stuck_at is None
    kit.go_stale()
    lease = kit.lease()
    assert lease.stale_since is not None
    assert lease.stuck_at == lease.stale_since + seconds(120)

    kit.recover(1)

    assert kit.lease().stuck_at is None


def test_h8_run_time_counts_from_the_start_and_the_earlier_cause_wins() -> None:
    kit = HealthKit(a_step(max_run_seconds=100))
    opened_at = kit.lease().opened_at
    assert kit.lease().stuck_at == opened_at + seconds(100)

    kit.go_stale()
    assert kit.lease().stuck_at == opened_at + seconds(100)
    kit.recover(1)

    assert kit.lease().stuck_at == opened_at + seconds(100)


@given(st.integers(0, 10**7), st.none() | TIMES, st.none() | TIMES)
def test_h8_only_an_open_run_with_a_limit_has_a_deadline(
    limit: int, started_at: datetime | None, finished_at: datetime | None
) -> None:
    task = a_task(terms=RegistrationTerms(max_run_seconds=limit), started_at=started_at, finished_at=finished_at)
    deadline = task_deadline(task)
    if not limit or started_at is None or finished_at is not None:
        assert deadline is None
    else:
        assert deadline == started_at + seconds(limit)


@pytest.mark.parametrize("sign", list(HealthSign))
def test_h4_observation_has_one_id_that_fits_an_event_id(sign: HealthSign) -> None:
    name = observation_id(sign, EXECUTION_ID, START)
    assert name == observation_id(sign, EXECUTION_ID, START)
    assert len(name) <= 64
    assert name != observation_id(sign, EXECUTION_ID, START + seconds(0.000001))


@pytest.mark.parametrize("terms", [{"lost_after_seconds": 0}, {"stuck_after_seconds": 0}])
def test_h5_terms_that_cannot_work_are_refused(terms: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least 1 second"):
        HealthTerms(**terms)
