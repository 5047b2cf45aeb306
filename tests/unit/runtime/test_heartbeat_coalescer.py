"""The coalescer over the in-memory store: one write per period, nothing lost in passing (H-2, H-4, H-7)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskstatus.application.ports_heartbeats import MAX_PERSISTED_BEATS, Beat
from taskstatus.application.ports_store import StoreRefusedError, StoreUnavailableError
from taskstatus.domain.health import Health
from taskstatus.domain.lease import LeaseState
from taskstatus.domain.reasons import Reason
from taskstatus.domain.records import ChangeSet
from taskstatus.runtime.heartbeat_coalescer import CoalescerConfig
from tests.contract import records
from tests.unit.factories import START

from .coalescer_kit import PERIOD, SOON, CoalescerKit


def test_h2_beats_of_a_period_are_one_write_of_the_latest() -> None:
    kit = CoalescerKit(3)
    for seq in (1, 2, 3):
        for number in range(3):
            assert kit.beat(seq, number)
    kit.run()
    assert kit.leases.writes == 0

    kit.pass_time()

    assert kit.leases.writes == 1
    assert [kit.lease(number).heartbeat_seq for number in range(3)] == [3, 3, 3]
    kit.pass_time()
    assert kit.leases.writes == 1


def test_h1_persisted_beat_has_the_time_of_its_receipt() -> None:
    kit = CoalescerKit()
    kit.beat()
    received = kit.store.clock.read()

    kit.pass_time()

    last = kit.lease().last_heartbeat_at
    assert last is not None
    assert abs(last - received) < timedelta(seconds=0.001)
    assert kit.lease().deadline_at == last + timedelta(seconds=60)


def test_h2_many_executions_are_flushed_before_the_period_ends() -> None:
    kit = CoalescerKit(3, flush_executions=3)
    kit.beat(number=0)
    kit.beat(number=1)
    kit.run()
    assert kit.leases.writes == 0
    kit.beat(number=2)
    kit.run()
    assert [kit.lease(number).heartbeat_seq for number in range(3)] == [1, 1, 1]


def test_h2_flush_is_cut_into_statements_that_the_server_takes() -> None:
    kit = CoalescerKit(MAX_PERSISTED_BEATS + 1)
    for number in range(len(kit.steps)):
        kit.beat(number=number)
    kit.pass_time()
    assert kit.leases.writes == 2
    assert {kit.lease(number).heartbeat_seq for number in range(len(kit.steps))} == {1}


def test_h2_failed_flush_keeps_its_beats_with_their_times() -> None:
    kit = CoalescerKit(2)
    kit.beat(1, 0)
    kit.beat(1, 1)
    received = kit.store.clock.read()
    kit.store.unavailable = True
    kit.pass_time()
    kit.store.unavailable = False
    kit.beat(4, 1)
    assert kit.coalescer.pending_executions == 2

    kit.pass_time(5.0)

    assert [kit.lease(number).heartbeat_seq for number in (0, 1)] == [1, 4]
    old, new = (kit.lease(number).last_heartbeat_at for number in (0, 1))
    assert old is not None
    assert new is not None
    assert abs(old - received) < timedelta(seconds=0.01)
    assert new - old > timedelta(seconds=14)


def test_h2_store_that_is_down_is_tried_after_a_rising_pause() -> None:
    kit = CoalescerKit(first_pause_seconds=1.0, longest_pause_seconds=4.0)
    kit.beat()
    kit.store.unavailable = True
    kit.pass_time()
    kit.store.unavailable = False
    kit.pass_time(0.9)
    assert kit.lease().heartbeat_seq == 0

    kit.store.unavailable = True
    for pause in (1.0, 2.0, 4.0, 4.0):
        kit.pass_time(pause)
    kit.store.unavailable = False
    kit.pass_time(3.9)
    assert kit.lease().heartbeat_seq == 0
    kit.pass_time(0.2)
    assert kit.lease().heartbeat_seq == 1


def test_h2_newer_beat_outlives_the_older_one_that_failed() -> None:
    kit = CoalescerKit()
    kit.beat(7)
    kit.store.unavailable = True
    kit.pass_time()
    kit.coalescer.renew(kit.id(), kit.clock.monotonic)
    assert kit.coalescer.last_seq(kit.id()) == 7

    kit.store.unavailable = False
    kit.pass_time(5.0)

    assert (kit.lease().heartbeat_seq, kit.lease().timeout_seconds) == (7, 60)


async def test_h2_beat_that_comes_during_a_failing_flush_is_the_one_that_is_kept() -> None:
    kit = CoalescerKit()
    persist = kit.leases.persist

    async def failing(beats: Sequence[Beat], monotonic_now: Any) -> Any:
        kit.clock.advance(3.0)
        assert kit.coalescer.last_seq(kit.id()) == 5
        assert kit.coalescer.take(Beat(kit.id(), 6, kit.clock.monotonic, 20, 90), standing)
        raise StoreUnavailableError("away")

    kit.beat(5)
    standing = (await kit.leases.standings([kit.id()]))[kit.id()]
    kit.leases.persist = failing  # type: ignore[method-assign]
    kit.clock.advance(PERIOD)
    await kit.coalescer.run_once()
    received = kit.clock.monotonic
    kit.leases.persist = persist  # type: ignore[method-assign]

    kit.clock.advance(5.0)
    kit.store.clock.advance(30.0)
    await kit.coalescer.run_once()

    lease = kit.lease()
    assert (lease.heartbeat_seq, lease.interval_seconds, lease.timeout_seconds) == (6, 20, 90)
    assert lease.last_heartbeat_at is not None
    waited = timedelta(seconds=kit.clock.monotonic - received)
    assert abs(kit.store.clock.read() - waited - lease.last_heartbeat_at) < timedelta(milliseconds=1)


async def test_h2_beats_refused_by_the_database_are_counted_and_do_not_block_others() -> None:
    kit = CoalescerKit(MAX_PERSISTED_BEATS + 1)
    poison = min(kit.id(number) for number in range(len(kit.steps)))
    persist = kit.leases.persist

    async def refusing(beats: Sequence[Beat], monotonic_now: Any) -> Any:
        if any(beat.execution_id == poison for beat in beats):
            raise StoreRefusedError("no such value")
        return await persist(beats, monotonic_now)

    kit.leases.persist = refusing  # type: ignore[method-assign]
    for number in range(len(kit.steps)):
        kit.beat(number=number)
    kit.clock.advance(PERIOD)

    await kit.coalescer.run_once()

    assert kit.observer.lost == MAX_PERSISTED_BEATS
    assert kit.coalescer.pending_executions == 0
    assert [step.definition.order for number, step in enumerate(kit.steps) if kit.lease(number).heartbeat_seq] == [
        max(kit.steps, key=records.execution_of).definition.order
    ]


def test_h2_memory_is_bounded_and_those_who_are_in_stay_in() -> None:
    kit = CoalescerKit(3, max_pending_executions=2)
    assert [kit.beat(number=number) for number in (0, 1, 2)] == [True, True, False]
    assert kit.beat(2, 0)
    beats, _ = kit.told(2)
    assert beats.beat(1, 0.0) is Reason.UNAVAILABLE
    kit.coalescer.renew(kit.id(2), 1.0)
    kit.pass_time()
    assert [kit.lease(number).heartbeat_seq for number in (0, 1, 2)] == [2, 1, 0]
    assert kit.beat(number=2)


def test_h4_stale_execution_that_beats_is_persisted_soon_and_told_once_per_beat() -> None:
    kit = CoalescerKit(2)
    kit.turn_stale(0)
    kit.beat(1, 0)
    kit.beat(1, 1)
    assert kit.signals.told == []

    kit.pass_time(SOON)

    assert [standing.execution_id for standing in kit.signals.told] == [kit.id(0)]
    assert kit.signals.told[0].heartbeat_seq == 1
    assert [kit.lease(number).heartbeat_seq for number in (0, 1)] == [1, 0]
    kit.pass_time()
    assert len(kit.signals.told) == 1


def test_h4_staleness_found_by_the_flush_itself_is_told() -> None:
    kit = CoalescerKit()
    kit.beat()
    kit.turn_stale()
    kit.pass_time()
    assert [standing.health for standing in kit.signals.told] == [Health.STALE]


def test_h4_closed_lease_is_no_sign_of_recovery() -> None:
    kit = CoalescerKit()
    kit.beat()
    kit.turn_stale()
    kit.store.tables.apply(ChangeSet(closed_leases=[(kit.steps[0].bucket, kit.id())]), START)
    kit.pass_time()
    assert kit.signals.told == []
    assert kit.lease().heartbeat_seq == 0


def test_h4_stale_beats_survive_an_outage_and_are_then_told() -> None:
    kit = CoalescerKit()
    kit.turn_stale()
    kit.beat()
    kit.store.unavailable = True
    kit.pass_time(SOON)
    kit.store.unavailable = False
    kit.pass_time(1.0)
    assert len(kit.signals.told) == 1


def test_h7_progress_renews_and_leaves_sequence_and_terms() -> None:
    kit = CoalescerKit()
    kit.beat(9)
    kit.pass_time()
    before = kit.lease()
    kit.coalescer.renew(kit.id(), kit.clock.monotonic)
    kit.pass_time()
    assert before.last_heartbeat_at is not None
    assert kit.lease().last_heartbeat_at is not None
    assert kit.lease().last_heartbeat_at > before.last_heartbeat_at  # type: ignore[operator]
    assert kit.lease().heartbeat_seq == 9
    assert kit.lease().timeout_seconds == before.timeout_seconds


async def test_n1_stop_persists_what_is_pending_and_takes_nothing_more() -> None:
    kit = CoalescerKit()
    beats, _ = kit.told()
    kit.beat(3)
    kit.coalescer.start()
    await kit.coalescer.stop()
    await kit.coalescer.stop()
    assert kit.lease().heartbeat_seq == 3
    assert kit.observer.lost == 0
    assert not kit.beat(4)
    assert beats.beat(4, 0.0) is Reason.UNAVAILABLE
    assert kit.coalescer.pending_executions == 0


async def test_n1_stop_says_what_it_could_not_persist(caplog: pytest.LogCaptureFixture) -> None:
    kit = CoalescerKit(2)
    kit.beat(number=0)
    kit.beat(number=1)
    kit.store.unavailable = True
    await kit.coalescer.stop()
    assert kit.observer.lost == 2
    assert "could not be persisted before the end" in caplog.text


async def test_h2_loop_persists_by_itself() -> None:
    """The loop waits by the event loop's clock; the process's clock stands so that the first period is over."""
    kit = CoalescerKit(flush_executions=1)
    persisted = asyncio.Event()
    persist = kit.leases.persist

    async def noting(beats: Sequence[Beat], monotonic_now: Any) -> Any:
        standings = await persist(beats, monotonic_now)
        persisted.set()
        return standings

    kit.leases.persist = noting  # type: ignore[method-assign]
    kit.coalescer.start()
    await asyncio.sleep(0)
    kit.beat(2)
    await persisted.wait()
    await kit.coalescer.stop()
    assert kit.lease().heartbeat_seq == 2


@pytest.mark.parametrize(
    "config",
    [
        {"persist_every_seconds": 0},
        {"flush_executions": 0},
        {"max_pending_executions": 0},
        {"max_bindings": 0},
        {"soon_seconds": 0},
        {"longest_pause_seconds": 0.1},
    ],
)
def test_coalescer_sizes_that_cannot_work_are_refused(config: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="coalescer"):
        CoalescerConfig(**config)


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("beat"), st.integers(0, 2), st.integers(1, 40)),
        st.tuples(st.just("stream"), st.integers(0, 2), st.integers(1, 40)),
        st.tuples(st.just("renew"), st.integers(0, 2), st.just(0)),
        st.tuples(st.just("pass"), st.just(0), st.integers(1, 20)),
        st.tuples(st.just("outage"), st.just(0), st.integers(0, 1)),
    ),
    max_size=40,
)


@given(ACTIONS)
def test_h2_persisted_beats_only_rise_and_never_overtake_what_was_received(actions: list[tuple[str, int, int]]) -> None:
    kit = CoalescerKit(3)
    streams = [kit.told(number)[0] for number in range(3)]
    received = [0, 0, 0]
    before: list[LeaseState] = [kit.lease(number) for number in range(3)]
    for action, number, value in actions:
        if action == "pass":
            kit.pass_time(float(value))
        elif action == "outage":
            kit.store.unavailable = bool(value)
        elif action == "renew":
            kit.coalescer.renew(kit.id(number), kit.clock.monotonic)
        elif action == "stream":
            if streams[number].beat(value, 0.0) is None:
                received[number] = max(received[number], value)
        elif not kit.store.unavailable:
            kit.beat(value, number)
            received[number] = max(received[number], value)
        after = [kit.lease(number) for number in range(3)]
        for old, new, most in zip(before, after, received, strict=True):
            assert old.heartbeat_seq <= new.heartbeat_seq <= most
            assert (old.last_heartbeat_at or START) <= (new.last_heartbeat_at or START) <= kit.store.clock.read()
        before = after
    kit.store.unavailable = False
    kit.pass_time(PERIOD)
    assert [kit.lease(number).heartbeat_seq for number in range(3)] == received
