"""The same event again, late events, sequences, and what one transaction writes (E-3, E-4, E-5, E-6, E-7)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from taskstatus.domain.events import EventType
from taskstatus.domain.ids import ExecutionId
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.reasons import Reason
from taskstatus.domain.verdicts import Accepted, result_or_raise
from tests.unit.factories import (
    COORDINATOR,
    EXECUTOR,
    SCOPE,
    a_digest,
    a_running_step,
    a_step,
    a_task,
    a_task_in,
    an_activation,
    an_id,
    step_event,
    task_event,
)
from tests.unit.service_kit import Kit, drive, kinds_of, reason_of

STARTED, PROGRESSED, COMPLETED = EventType.STEP_STARTED, EventType.STEP_PROGRESS, EventType.STEP_COMPLETED


def test_e3_same_event_again_gives_the_first_result(kit: Kit) -> None:
    kit.put(a_task(), a_step())
    command = step_event(STARTED)
    first = kit.result(command)
    kit.report(step_event(COMPLETED, 2))

    again = kit.result(command)

    assert again == replace(first, duplicate=True)
    assert kit.only_task().version == 3


def test_e3_same_event_again_after_the_task_has_ended_gives_the_first_result(kit: Kit) -> None:
    kit.put(a_task(), a_step())
    command = step_event(STARTED)
    first = kit.result(command)
    kit.report(task_event(EventType.TASK_FAILED))

    assert kit.result(command) == replace(first, duplicate=True)


def test_e3_same_event_again_by_a_superseded_execution_gives_the_first_result(kit: Kit) -> None:
    kit.put(a_task(), a_step())
    command = step_event(STARTED)
    first = kit.result(command)
    drive(kit.registration.activate(an_activation(attempt=2)))

    assert kit.result(command) == replace(first, duplicate=True)


def test_e3_same_id_with_other_content_is_a_conflict(kit: Kit) -> None:
    kit.put(a_task(), a_step())
    kit.result(step_event(STARTED, event_id="evt-1"))
    before = kit.only_task()

    assert kit.reason(step_event(COMPLETED, 2, event_id="evt-1")) is Reason.IDEMPOTENCY_CONFLICT
    assert kit.only_task() == before


def test_e3_event_id_is_unique_within_its_task_only(kit: Kit) -> None:
    kit.put(a_task(), a_step())
    other = a_task(task_id=an_id(50), client_task_key="task-2")
    kit.put(other)

    first = task_event(EventType.TASK_STARTED, event_id="evt-1")
    second = task_event(EventType.TASK_STARTED, event_id="evt-1", task_id=an_id(50))

    assert kinds_of(kit.report(first, second)) == ["Accepted", "Accepted"]


def test_e3_twice_in_one_batch_the_second_is_the_duplicate(kit: Kit) -> None:
    kit.put(a_task(), a_step())
    command = step_event(STARTED)

    first, second = kit.report(command, command)

    assert kinds_of([first, second]) == ["Accepted", "Duplicate"]
    assert result_or_raise(second) == replace(result_or_raise(first), duplicate=True)
    assert len(kit.tables.dedups) == 1


def test_e3_conflict_inside_one_batch_disturbs_nobody(kit: Kit) -> None:
    kit.put(a_task(), a_step())

    verdicts = kit.report(
        step_event(STARTED, event_id="evt-1"),
        step_event(PROGRESSED, 2, event_id="evt-1", phase_code="ocr"),
        step_event(COMPLETED, 3),
    )

    assert [reason_of(verdict) for verdict in verdicts] == [None, Reason.IDEMPOTENCY_CONFLICT, None]
    assert kit.only_task().version == 3


def test_e3_no_op_stale_and_refused_leave_no_dedup_row(kit: Kit) -> None:
    kit.put(a_task_in(Lifecycle.RUNNING), a_running_step(source_seq=5))

    kit.report(
        step_event(STARTED, 6, event_id="no-op"),
        step_event(COMPLETED, 5, event_id="stale"),
        step_event(COMPLETED, 7, event_id="refused", business_status="NOPE"),
    )

    assert not kit.tables.dedups
    assert not kit.tables.events
    assert result_or_raise(kit.report(step_event(COMPLETED, 8, event_id="stale"))[0]).accepted


@pytest.mark.parametrize("source_seq", [1, 4, 5])
def test_e4_sequence_that_does_not_rise_is_stale(kit: Kit, source_seq: int) -> None:
    kit.put(a_task_in(Lifecycle.RUNNING, version=7), a_running_step(source_seq=5, version=6))

    result = kit.result(step_event(COMPLETED, source_seq))

    assert (result.accepted, result.stale, result.reason) == (False, True, Reason.STALE_SEQUENCE)
    assert (result.task_version, result.step_version, result.changed) == (7, 6, False)
    assert kit.step().lifecycle is Lifecycle.RUNNING


def test_e4_gap_upward_is_accepted_and_counted(kit: Kit) -> None:
    kit.put(a_task_in(Lifecycle.RUNNING), a_running_step(source_seq=5))

    (verdict,) = kit.report(step_event(COMPLETED, 9))

    assert isinstance(verdict, Accepted)
    assert verdict.sequence_gap == 3
    assert kit.step().source_seq == 9


def test_e4_old_attempt_is_stale_and_changes_nothing(kit: Kit) -> None:
    old = a_step()
    kit.put(a_task(), old)
    kit.report(step_event(STARTED, 1))
    drive(kit.registration.activate(an_activation(attempt=2)))
    before = kit.only_task()

    result = kit.result(step_event(COMPLETED, 2, of=old))

    assert (result.accepted, result.stale, result.reason) == (False, True, Reason.STALE_ATTEMPT)
    assert kit.only_task() == before


def test_e4_event_of_an_old_age_is_refused_by_the_databases_clock(kit: Kit) -> None:
    kit.put(a_task(), a_step())
    now = kit.store.clock.read()

    assert kit.reason(step_event(STARTED, occurred_at=now - timedelta(days=7, seconds=1))) is Reason.EVENT_TOO_OLD
    assert kit.reason(step_event(STARTED, occurred_at=now - timedelta(days=6, hours=23))) is None


def test_e5_each_execution_counts_for_itself(kit: Kit) -> None:
    second = a_step(step_id="03_store", execution_id=ExecutionId(an_id(60)), expected_producer="store")
    kit.put(a_task(open_steps=2), a_step(), second)

    verdicts = kit.report(
        step_event(STARTED, 1), step_event(COMPLETED, 2), step_event(STARTED, 1, of=second, event_id="other")
    )

    assert kinds_of(verdicts) == ["Accepted", "Accepted", "Accepted"]


def test_e5_new_attempt_starts_its_sequence_anew(kit: Kit) -> None:
    kit.put(a_task(), a_step())
    kit.report(step_event(STARTED, 1), step_event(EventType.STEP_FAILED, 9))
    drive(kit.registration.activate(an_activation(attempt=2)))

    assert kit.reason(step_event(STARTED, 1, of=kit.step(attempt=2), event_id="second")) is None


def test_e5_task_events_count_by_producer(kit: Kit) -> None:
    kit.put(a_task(), a_step())

    started = task_event(EventType.TASK_STARTED, 4)
    late = task_event(EventType.TASK_COMPLETED, 4)
    by_executor = task_event(EventType.TASK_COMPLETED, 1, by=EXECUTOR)

    assert [reason_of(v) for v in kit.report(started, late, by_executor)] == [None, Reason.STALE_SEQUENCE, None]
    assert kit.only_task().producer_seqs == {COORDINATOR: 4, EXECUTOR: 1}


def test_e5_coordinators_end_of_a_step_is_in_its_task_sequence(kit: Kit) -> None:
    kit.put(a_task(), a_running_step(source_seq=5))

    kit.report(task_event(EventType.STEP_TIMED_OUT, 2, step_id="02_parse"))

    assert kit.step().source_seq == 5
    assert kit.only_task().producer_seqs == {COORDINATOR: 2}
    assert kit.step().lifecycle is Lifecycle.TIMED_OUT


def test_e6_accepted_event_leaves_its_rows(kit: Kit) -> None:
    kit.put(a_task(), a_step())
    command = step_event(STARTED, trace_id=bytes(range(16)), traceparent="00-trace", occurred_at=None)

    result = kit.result(command)

    ((key, event),) = kit.tables.events.items()
    assert key[1] == result.task_version == event.task_version == 2
    assert (event.canonical, event.digest) == (command.canonical, command.digest)
    assert (event.actor, event.trace_id) == ("service:document-parser", bytes(range(16)))
    assert event.execution_id == command.execution_id
    assert event.committed_at == result.committed_at
    assert [(row.projection, row.aggregate_version) for row in kit.tables.outbox.values()] == [
        ("USER_SUMMARY", 2),
        ("TASK_DETAIL", 2),
    ]
    ((_, dedup),) = kit.tables.dedups.items()
    assert (dedup.digest, dedup.result) == (command.digest, result)
    assert kit.only_task().row_revision == 2


def test_e6_committed_time_never_goes_back(kit: Kit) -> None:
    ahead = kit.store.clock.read() + timedelta(seconds=3)
    kit.put(a_task(committed_at=ahead), a_step())

    assert kit.result(step_event(STARTED)).committed_at == ahead


def test_e6_received_at_is_the_databases_time_minus_the_wait(kit: Kit) -> None:
    kit.put(a_task(), a_step())
    kit.clock.advance(2.5)

    result = kit.result(step_event(STARTED))

    ((_, event),) = kit.tables.events.items()
    assert result.committed_at is not None
    assert event.received_at == result.committed_at - timedelta(seconds=2.5)
    ((_, lease),) = kit.tables.leases.items()
    assert lease.lease.opened_at == event.received_at
    assert lease.lease.deadline_at == event.received_at + timedelta(seconds=60)


@pytest.mark.parametrize("whose", [{"tenant_id": "t-02"}, {"authority_scope": "other"}])
def test_id1_task_of_another_tenant_or_scope_is_as_unknown(kit: Kit, whose: dict[str, str]) -> None:
    kit.put(a_task(**whose))
    unknown = task_event(EventType.TASK_STARTED, task_id=an_id(77))

    (others,) = kit.report(task_event(EventType.TASK_STARTED))
    (nobodys,) = kit.report(unknown)

    assert reason_of(others) is reason_of(nobodys) is Reason.TASK_NOT_FOUND
    assert str(others) == str(nobodys)


def test_h4_lease_closes_with_its_execution_also_in_the_same_batch(kit: Kit) -> None:
    kit.put(a_task(), a_step())

    kit.report(step_event(STARTED, 1), step_event(COMPLETED, 2))

    ((_, row),) = kit.tables.leases.items()
    assert row.closed_at is not None


def test_e4_other_scope_learns_nothing_of_an_event_id(kit: Kit) -> None:
    kit.put(a_task(), a_step())
    kit.result(task_event(EventType.TASK_STARTED, event_id="evt-1"))
    stranger = task_event(EventType.TASK_STARTED, event_id="evt-1", digest=a_digest("x"))
    stranger = replace(stranger, caller=replace(stranger.caller, authority_scope="other"), bound=stranger.bound)
    stranger = replace(stranger, bound=stranger.caller)

    assert kit.reason(stranger) is Reason.TASK_NOT_FOUND
    assert stranger.caller.authority_scope != SCOPE
