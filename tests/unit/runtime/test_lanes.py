"""Lanes: order within a task, group commit, bounded queues, drain (architecture, *The write path*)."""

from __future__ import annotations

import asyncio

import pytest

from taskstatus.application.call_group import CallGroup
from taskstatus.domain.events import EventType
from taskstatus.domain.reasons import Reason
from taskstatus.domain.verdicts import Refused, result_or_raise
from taskstatus.runtime.lanes import LaneConfig
from tests.unit.factories import progress, step_event
from tests.unit.service_kit import kinds_of, reason_of

from .lane_kit import LaneKit, completed

TURNS = 5
"""Of the event loop: more than it takes a lane to begin."""
STARTED, PROGRESSED = EventType.STEP_STARTED, EventType.STEP_PROGRESS


async def settle() -> None:
    """Let every lane go as far as it can."""
    for _ in range(TURNS):
        await asyncio.sleep(0)


async def test_e6_events_of_a_task_are_committed_in_the_order_of_arrival(lanes: LaneKit) -> None:
    step = lanes.add_task(1)

    answers = [
        lanes.submit(step_event(STARTED, 1, of=step)),
        lanes.submit(step_event(PROGRESSED, 2, of=step, phase_code="ocr")),
        lanes.submit(completed(step, 3)),
    ]

    assert [result_or_raise(await answer).task_version for answer in answers] == [2, 3, 4]


async def test_e6_what_queued_during_a_commit_goes_together(lanes: LaneKit) -> None:
    steps = [lanes.add_task(number) for number in range(6)]
    first = lanes.held_back(steps[0])
    await lanes.gate.begun()

    others = [lanes.submit(step_event(STARTED, of=step)) for step in steps[1:]]
    assert lanes.lanes.depth == 5
    lanes.gate.open()
    await asyncio.gather(first, *others)

    assert lanes.kit.observer.batches == [1, 5]
    assert lanes.lanes.depth == 0
    assert lanes.kit.wake_up.hints == 2


async def test_e6_idle_lane_commits_at_once(lanes: LaneKit) -> None:
    for number in range(3):
        await lanes.submit(step_event(STARTED, of=lanes.add_task(number)))
    assert lanes.kit.observer.batches == [1, 1, 1]


async def test_e6_a_small_batch_waits_for_the_commit_of_another_lane() -> None:
    lanes = LaneKit(lanes_per_shard=2)
    first = lanes.held_back(lanes.add_task(1))
    await lanes.gate.begun()

    second = lanes.submit(step_event(STARTED, of=lanes.add_task(2)))
    await settle()
    assert lanes.lanes.depth == 1, "it waits"
    lanes.gate.open()

    assert kinds_of([await first, await second]) == ["Accepted", "Accepted"]
    assert lanes.kit.observer.batches == [1, 1]


async def test_e6_a_batch_that_is_no_longer_small_is_committed_beside_another() -> None:
    lanes = LaneKit(lanes_per_shard=2, small_batch_commands=2)
    first = lanes.held_back(lanes.add_task(1))
    await lanes.gate.begun()

    others = [lanes.submit(step_event(STARTED, of=lanes.add_task(number))) for number in (2, 4)]
    await settle()
    assert lanes.lanes.depth == 0, "both are in a transaction, while the first still is"
    lanes.gate.open()

    assert kinds_of([await first, *[await other for other in others]]) == ["Accepted"] * 3
    assert sorted(lanes.kit.observer.batches) == [1, 2]


async def test_e6_a_lane_whose_queue_never_empties_does_not_keep_others_waiting() -> None:
    lanes = LaneKit(lanes_per_shard=2)
    busy = lanes.held_back(lanes.add_task(1))
    await lanes.gate.begun()
    more = [lanes.submit(step_event(STARTED, of=lanes.add_task(number))) for number in (3, 5, 7)]
    other = lanes.submit(step_event(STARTED, of=lanes.add_task(2)))
    finished: list[str] = []
    for name, answer in (("busy", busy), ("other", other), *((f"more {place}", it) for place, it in enumerate(more))):
        asyncio.ensure_future(answer).add_done_callback(lambda _, name=name: finished.append(name))
    lanes.gate.open()

    assert kinds_of([await busy, await other, *[await it for it in more]]) == ["Accepted"] * 5
    await settle()
    assert finished[:2] == ["busy", "other"]


async def test_e6_a_turn_is_handed_over_by_the_last_commit_in_flight_only() -> None:
    lanes = LaneKit(lanes_per_shard=3, small_batch_commands=2)
    lanes.gate.close()
    burst = [lanes.submit(step_event(STARTED, of=lanes.add_task(number))) for number in (1, 3, 4, 6)]
    await settle()
    assert lanes.lanes.depth == 0, "two lanes commit side by side"
    small = lanes.submit(step_event(STARTED, of=lanes.add_task(2)))

    lanes.gate.let_one()
    await asyncio.wait(list(map(asyncio.ensure_future, burst)), return_when=asyncio.FIRST_COMPLETED)
    await settle()
    assert lanes.lanes.depth == 1, "or there would be two in flight ever after"
    lanes.gate.let_one()
    await asyncio.gather(*burst)
    await settle()
    assert lanes.lanes.depth == 0
    lanes.gate.open()

    assert kinds_of([await small]) == ["Accepted"]


async def test_n1_a_commit_that_is_held_up_holds_no_other_lane_for_long() -> None:
    lanes = LaneKit(lanes_per_shard=2, held_seconds=0.001)
    stuck = lanes.held_back(lanes.add_task(1))
    await lanes.gate.begun()
    other = lanes.submit(step_event(STARTED, of=lanes.add_task(2)))

    lanes.gate.close()
    await asyncio.wait_for(lanes.gate.begun(), timeout=10)
    lanes.gate.open()

    assert kinds_of([await stuck, await other]) == ["Accepted", "Accepted"]


def test_n1_a_time_that_holds_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="above 0"):
        LaneConfig(held_seconds=0)


async def test_s2_a_small_batch_waits_for_no_other_shard() -> None:
    lanes = LaneKit(lanes_per_shard=2)
    first = lanes.held_back(lanes.add_task(1, bucket=0))
    await lanes.gate.begun()

    second = lanes.submit(step_event(STARTED, of=lanes.add_task(2, bucket=1)))
    await settle()
    assert lanes.lanes.depth == 0
    lanes.gate.open()

    assert kinds_of([await first, await second]) == ["Accepted", "Accepted"]


async def test_e6_batch_is_bounded_by_commands() -> None:
    lanes = LaneKit(max_batch_commands=2)
    steps = [lanes.add_task(number) for number in range(6)]
    first = lanes.held_back(steps[0])
    await lanes.gate.begun()
    others = [lanes.submit(step_event(STARTED, of=step)) for step in steps[1:]]

    lanes.gate.open()
    await asyncio.gather(first, *others)

    assert lanes.kit.observer.batches == [1, 2, 2, 1]


async def test_e6_batch_is_bounded_by_bytes_and_takes_at_least_one() -> None:
    lanes = LaneKit(max_batch_bytes=1)
    steps = [lanes.add_task(number) for number in range(3)]
    first = lanes.held_back(steps[0])
    await lanes.gate.begun()
    others = [lanes.submit(step_event(STARTED, of=step)) for step in steps[1:]]

    lanes.gate.open()
    await asyncio.gather(first, *others)

    assert lanes.kit.observer.batches == [1, 1, 1]


async def test_s2_batch_never_mixes_shards(lanes: LaneKit) -> None:
    even, odd = lanes.add_task(1, bucket=0), lanes.add_task(2, bucket=1)
    lanes.gate.close()
    answers = [lanes.submit(step_event(STARTED, of=step)) for step in (even, odd)]

    lanes.gate.open()
    await asyncio.gather(*answers)

    assert lanes.kit.observer.batches == [1, 1]


async def test_e6_one_task_goes_through_one_lane() -> None:
    lanes = LaneKit(lanes_per_shard=4)
    step = lanes.add_task(1)
    first = lanes.held_back(step)
    await lanes.gate.begun()
    second = lanes.submit(completed(step))
    assert lanes.lanes.depth == 1

    lanes.gate.open()

    assert kinds_of([await first, await second]) == ["Accepted", "Accepted"]


async def test_n4_full_queue_answers_rate_limited_with_a_pause() -> None:
    lanes = LaneKit(max_queued_commands=1)
    steps = [lanes.add_task(number) for number in range(3)]
    first = lanes.held_back(steps[0])
    await lanes.gate.begun()
    queued = lanes.submit(step_event(STARTED, of=steps[1]))

    answer = lanes.submit(step_event(STARTED, of=steps[2]))

    assert answer.done()  # type: ignore[attr-defined]  # at once, while the commit before it is still held back
    refused = await answer
    assert isinstance(refused, Refused)
    assert refused.error.reason is Reason.RATE_LIMITED
    assert refused.error.retry_after_seconds
    lanes.gate.open()
    assert kinds_of([await first, await queued]) == ["Accepted", "Accepted"]


async def test_e10_rate_limited_item_breaks_its_execution_only() -> None:
    lanes = LaneKit(max_queued_commands=1)
    busy, step, other = (lanes.add_task(number) for number in range(3))
    group = CallGroup()
    first = lanes.held_back(busy)
    await lanes.gate.begun()
    filler = lanes.submit(step_event(STARTED, of=other))
    limited = lanes.submit(step_event(STARTED, of=step), group)
    lanes.gate.open()
    await asyncio.gather(first, filler)

    later = lanes.submit(completed(step), group)
    elsewhere = lanes.submit(completed(other), group)

    assert reason_of(await limited) is Reason.RATE_LIMITED
    assert reason_of(await later) is Reason.UNAVAILABLE
    assert reason_of(await elsewhere) is None
    assert lanes.version_of(step) == 1


async def test_e6_caller_that_goes_away_leaves_the_batch_alone(lanes: LaneKit) -> None:
    step, other = lanes.add_task(1), lanes.add_task(2)
    first = lanes.held_back(step)
    await lanes.gate.begun()
    waiting = asyncio.ensure_future(lanes.submit(completed(step)))
    neighbour = lanes.submit(step_event(STARTED, of=other))

    waiting.cancel()
    lanes.gate.open()

    assert kinds_of([await first, await neighbour]) == ["Accepted", "Accepted"]
    assert lanes.version_of(step) == 3


async def test_e6_caller_in_the_middle_of_a_commit_may_go_away(lanes: LaneKit) -> None:
    step = lanes.add_task(1)
    answer = asyncio.ensure_future(lanes.held_back(step))
    await lanes.gate.begun()

    answer.cancel()
    lanes.gate.open()
    again = await lanes.submit(step_event(STARTED, of=step))

    assert kinds_of([again]) == ["Duplicate"]


async def test_n1_stop_answers_what_is_queued_and_takes_nothing_more(lanes: LaneKit) -> None:
    steps = [lanes.add_task(number) for number in range(4)]
    first = lanes.held_back(steps[0])
    await lanes.gate.begun()
    queued = [lanes.submit(step_event(STARTED, of=step)) for step in steps[1:3]]

    stopping = asyncio.ensure_future(lanes.lanes.stop())
    await asyncio.sleep(0)
    late = await lanes.submit(step_event(STARTED, of=steps[3]))
    lanes.gate.open()
    await stopping
    await lanes.lanes.stop()

    assert kinds_of([await first, *[await answer for answer in queued]]) == ["Accepted"] * 3
    assert reason_of(late) is Reason.UNAVAILABLE
    assert lanes.version_of(steps[3]) == 1


async def test_e8_progress_that_queued_together_is_absorbed(lanes: LaneKit) -> None:
    busy, step = lanes.add_task(1), lanes.add_task(2)
    await lanes.submit(step_event(STARTED, of=step))
    first = lanes.held_back(busy)
    await lanes.gate.begun()
    reports = [
        lanes.submit(step_event(PROGRESSED, number, of=step, progress=progress(10 * number))) for number in (2, 3, 4)
    ]

    lanes.gate.open()
    await first

    assert kinds_of([await report for report in reports]) == ["Coalesced", "Coalesced", "Accepted"]


async def test_o4_refused_commands_wake_nobody(lanes: LaneKit) -> None:
    step = lanes.add_task(1)
    await lanes.submit(step_event(STARTED, of=step, business_status="NOPE"))
    assert lanes.kit.wake_up.hints == 0


@pytest.mark.parametrize(
    "name",
    ["lanes_per_shard", "max_batch_commands", "small_batch_commands", "max_batch_bytes", "max_queued_commands"],
)
def test_n1_lane_sizes_that_cannot_work_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        LaneConfig(**{name: 0})


def test_e10_a_failure_breaks_what_comes_after_it_in_the_call_and_nothing_before() -> None:
    group = CallGroup()
    first, second, third = (group.next_position() for _ in range(3))
    group.break_stream(b"stream", second)
    assert [group.is_broken(b"stream", place) for place in (first, second, third)] == [False, False, True]
    assert group.is_broken(b"stream")
    assert not group.is_broken(b"other", third)


async def test_e10_a_full_queue_refuses_the_tail_of_a_call_and_never_its_head() -> None:
    lanes = LaneKit(max_queued_commands=2)
    group = CallGroup()
    answers = [lanes.lanes.submit(step_event(EventType.STEP_STARTED, seq), group) for seq in (1, 2, 3, 4)]
    reasons = [reason_of(await answer) for answer in answers]
    assert Reason.UNAVAILABLE not in reasons[:2]
    assert reasons[2:] == [Reason.RATE_LIMITED, Reason.UNAVAILABLE]
