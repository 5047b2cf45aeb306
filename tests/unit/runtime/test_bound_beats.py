"""Beats of executions that live streams have bound: judged in memory, settled by each flush (H-3, H-6, T-2)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from taskstatus.domain.errors import RefusedError
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.reasons import Reason
from taskstatus.domain.standing import ExecutionStanding

from .coalescer_kit import SOON, CoalescerKit


def test_h7_progress_of_a_bound_stale_execution_is_told_soon() -> None:
    kit = CoalescerKit()
    kit.turn_stale()
    kit.told()
    kit.coalescer.renew(kit.id(), kit.clock.monotonic)
    kit.pass_time(SOON)
    assert len(kit.signals.told) == 1


def test_h3_bound_beat_is_judged_in_memory() -> None:
    kit = CoalescerKit()
    beats, _ = kit.told()
    reads = kit.leases.reads
    answers = [beats.beat(seq, 0.0) for seq in (3, 3, 2, 4)]
    assert answers == [None, None, Reason.STALE_SEQUENCE, None]
    assert kit.leases.reads == reads
    kit.pass_time()
    assert kit.lease().heartbeat_seq == 4
    assert kit.observer.judged == {"accepted": 3, Reason.STALE_SEQUENCE: 1}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"superseded": True}, Reason.STALE_ATTEMPT),
        ({"lifecycle": Lifecycle.FAILED}, Reason.TERMINAL),
        ({"generation": 2}, Reason.TOKEN_REVOKED),
    ],
)
@pytest.mark.parametrize("beating", [True, False])
def test_h3_end_is_noticed_within_a_period_whether_it_beats_or_not(
    changes: dict[str, Any], reason: Reason, beating: bool
) -> None:
    kit = CoalescerKit()
    beats, told = kit.told()
    kit.change(**changes)
    if beating:
        assert beats.beat(1, 0.0) is None

    kit.pass_time()

    assert len(told) == 1
    assert beats.beat(2, 0.0) is reason


def test_h3_execution_that_the_store_no_longer_knows_is_not_found() -> None:
    kit = CoalescerKit()
    beats, told = kit.told()
    kit.store.tables.execution_keys.clear()
    kit.pass_time()
    assert told == []
    assert beats.beat(1, 0.0) is Reason.EXECUTION_NOT_FOUND


def test_h3_beat_before_the_start_is_refused_and_the_start_is_noticed_soon() -> None:
    kit = CoalescerKit(started=False)
    beats, told = kit.told()
    assert beats.beat(1, 0.0) is Reason.TRANSITION_NOT_ALLOWED
    kit.start_step()

    kit.pass_time(SOON)

    assert [standing.has_open_lease for standing in told] == [True]
    assert beats.beat(2, 0.0) is None


def test_h3_impatient_beats_before_the_start_ask_once_a_second() -> None:
    kit = CoalescerKit(started=False)
    beats, _ = kit.told()
    before = kit.leases.reads
    for _ in range(9):
        beats.beat(1, 0.0)
        kit.pass_time(SOON)
    assert kit.leases.reads - before == 2


def test_t2_cancel_request_reaches_the_stream_within_a_period() -> None:
    kit = CoalescerKit()
    _, told = kit.told()
    task = kit.store.tables.tasks[kit.steps[0].task_id]
    kit.store.tables.tasks[task.envelope.task_id] = replace(task, cancel_requested=True)
    kit.pass_time()
    assert [standing.cancel_requested for standing in told] == [True]


def test_t2_two_streams_of_one_execution_share_its_sequence_and_are_both_told() -> None:
    kit = CoalescerKit()
    (first, first_told), (second, second_told) = kit.told(), kit.told()
    assert first.beat(5, 0.0) is None
    assert second.beat(4, 0.0) is Reason.STALE_SEQUENCE
    kit.pass_time()
    assert (len(first_told), len(second_told)) == (1, 1)


def test_t2_closed_binding_is_told_nothing_and_its_beat_is_persisted() -> None:
    kit = CoalescerKit()
    beats, told = kit.told()
    beats.beat(6, 0.0)
    beats.close()
    beats.close()
    kit.pass_time()
    assert told == []
    assert kit.lease().heartbeat_seq == 6


def test_t2_late_close_of_an_old_binding_leaves_the_new_one_alone() -> None:
    kit = CoalescerKit(max_bindings=2)
    old, _ = kit.told()
    old.close()
    _, told = kit.told()
    old.close()
    kit.pass_time()
    assert len(told) == 1


def test_t2_bindings_are_bounded_and_freed_by_closing() -> None:
    kit = CoalescerKit(max_bindings=1)
    beats, _ = kit.told()
    with pytest.raises(RefusedError) as caught:
        kit.told()
    assert caught.value.reason is Reason.RATE_LIMITED
    assert caught.value.retry_after_seconds
    beats.close()
    kit.told()


def test_t2_bound_again_it_goes_on_after_what_is_still_in_memory() -> None:
    kit = CoalescerKit()
    beats, _ = kit.told()
    beats.beat(8, 0.0)
    beats.close()
    again, _ = kit.told()
    assert again.beat(7, 0.0) is Reason.STALE_SEQUENCE
    assert again.beat(8, 0.0) is None


def test_t2_standing_read_before_the_known_one_changes_nothing() -> None:
    kit = CoalescerKit()
    early = kit.standing()
    kit.change(lifecycle=Lifecycle.SUCCEEDED)
    beats, _ = kit.told()
    kit.coalescer.bind(early, lambda _standing: None)
    assert beats.beat(1, 0.0) is Reason.TERMINAL


def test_t2_listener_that_fails_does_not_keep_the_others_from_being_told() -> None:
    kit = CoalescerKit()

    def failing(_standing: ExecutionStanding) -> None:
        raise RuntimeError("a stream's own fault")

    kit.coalescer.bind(kit.standing(), failing)
    _, told = kit.told()
    kit.pass_time()
    assert len(told) == 1


def test_h6_stream_over_a_slow_link_gets_longer_terms_with_its_lease() -> None:
    kit = CoalescerKit()
    beats, told = kit.told()
    beats.beat(1, 35.0)
    kit.pass_time()
    assert (kit.lease().interval_seconds, kit.lease().timeout_seconds) == (120, 375)
    assert (told[0].interval_seconds, told[0].timeout_seconds) == (120, 375)


def test_h3_unary_and_stream_share_the_sequence() -> None:
    kit = CoalescerKit()
    beats, _ = kit.told()
    assert kit.beat(5)
    assert beats.beat(4, 0.0) is Reason.STALE_SEQUENCE
    assert beats.beat(6, 0.0) is None
    assert kit.coalescer.last_seq(kit.id()) == 6
