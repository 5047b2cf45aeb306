"""Lanes under faults: store away, poison, lost COMMIT replies; nothing is lost, doubled or reordered (E-10, N-1)."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest

from taskstatus.application.call_group import CallGroup
from taskstatus.domain.events import EventType
from taskstatus.domain.reasons import Reason
from taskstatus.domain.records import ChangeSet
from taskstatus.domain.verdicts import Refused, result_or_raise
from tests.unit.factories import progress, step_event
from tests.unit.service_kit import kinds_of, reason_of

from .lane_kit import LaneKit, completed

STARTED, PROGRESSED = EventType.STEP_STARTED, EventType.STEP_PROGRESS


async def test_n1_unreachable_store_answers_unavailable_with_a_pause(lanes: LaneKit) -> None:
    step = lanes.add_task(1)
    lanes.kit.store.unavailable = True

    refused = await lanes.submit(step_event(STARTED, of=step))

    assert isinstance(refused, Refused)
    assert (refused.error.reason, refused.error.retry_after_seconds) == (Reason.UNAVAILABLE, 1.0)
    lanes.kit.store.unavailable = False
    assert kinds_of([await lanes.submit(step_event(STARTED, of=step))]) == ["Accepted"]


async def test_e10_later_items_of_a_failed_execution_wait_unevaluated(lanes: LaneKit) -> None:
    step, other = lanes.add_task(1), lanes.add_task(2)
    group, another_call = CallGroup(), CallGroup()
    lanes.kit.store.unavailable = True
    failed = await lanes.submit(step_event(STARTED, of=step), group)
    lanes.kit.store.unavailable = False

    later = await lanes.submit(completed(step), group)
    neighbour = await lanes.submit(step_event(STARTED, of=other), group)
    resent = await lanes.submit(step_event(STARTED, of=step), another_call)

    assert [reason_of(verdict) for verdict in (failed, later)] == [Reason.UNAVAILABLE] * 2
    assert kinds_of([neighbour, resent]) == ["Accepted", "Accepted"]
    assert result_or_raise(resent).task_version == 2


async def test_e10_items_already_queued_wait_too(lanes: LaneKit) -> None:
    lanes = LaneKit(max_batch_commands=1)
    step = lanes.add_task(1)
    group = CallGroup()
    lanes.gate.close()
    lanes.kit.store.unavailable = True
    first = lanes.submit(step_event(STARTED, of=step), group)
    second = lanes.submit(completed(step), group)
    first.add_done_callback(lambda _: setattr(lanes.kit.store, "unavailable", False))  # type: ignore[attr-defined]

    lanes.gate.open()

    assert reason_of(await first) is reason_of(await second) is Reason.UNAVAILABLE
    assert lanes.version_of(step) == 1


async def test_e10_refusal_that_cannot_pass_breaks_nothing(lanes: LaneKit) -> None:
    step = lanes.add_task(1)
    group = CallGroup()

    bad = await lanes.submit(step_event(STARTED, 1, of=step, business_status="NOPE", event_id="bad"), group)
    good = await lanes.submit(step_event(STARTED, 2, of=step), group)

    assert reason_of(bad) is Reason.BUSINESS_STATUS_NOT_REGISTERED
    assert kinds_of([good]) == ["Accepted"]


async def test_n1_poison_fails_alone(lanes: LaneKit, caplog: pytest.LogCaptureFixture) -> None:
    busy, *steps = (lanes.add_task(number) for number in range(8))
    lanes.poison("evt-poison")
    first = lanes.held_back(busy)
    await lanes.gate.begun()
    events = [step_event(STARTED, of=step) for step in steps]
    events[3] = step_event(STARTED, of=steps[3], event_id="evt-poison")
    answers = [lanes.submit(event) for event in events]

    with caplog.at_level(logging.ERROR):
        lanes.gate.open()
        await first
        verdicts = [await answer for answer in answers]

    assert kinds_of(verdicts) == ["Accepted"] * 3 + ["Refused"] + ["Accepted"] * 3
    assert reason_of(verdicts[3]) is Reason.INTERNAL
    assert [lanes.version_of(step) for step in steps] == [2, 2, 2, 1, 2, 2, 2]
    assert len(caplog.records) == 1


async def test_e10_later_items_of_a_poisonous_execution_wait(lanes: LaneKit) -> None:
    step, other = lanes.add_task(1), lanes.add_task(2)
    lanes.poison("evt-poison")
    group = CallGroup()
    lanes.gate.close()
    poison = lanes.submit(step_event(STARTED, of=step, event_id="evt-poison"), group)
    later = lanes.submit(completed(step), group)
    neighbour = lanes.submit(step_event(STARTED, of=other), group)

    lanes.gate.open()

    assert reason_of(await poison) is Reason.INTERNAL
    assert reason_of(await later) is Reason.UNAVAILABLE
    assert kinds_of([await neighbour]) == ["Accepted"]
    assert lanes.version_of(step) == 1


async def test_n1_fault_of_our_own_fails_its_command_alone(lanes: LaneKit) -> None:
    step, other = lanes.add_task(1), lanes.add_task(2)

    def broken(changes: ChangeSet) -> bool:
        if any(row.event_id == "evt-broken" for row in changes.dedups):
            raise ZeroDivisionError
        return False

    lanes.kit.store.refuse = broken
    lanes.gate.close()
    answers = [
        lanes.submit(step_event(STARTED, of=step, event_id="evt-broken")),
        lanes.submit(step_event(STARTED, of=other)),
    ]
    lanes.gate.open()

    assert [reason_of(await answer) for answer in answers] == [Reason.INTERNAL, None]


@pytest.mark.parametrize("committed", [True, False])
async def test_n1_ambiguous_commit_is_settled_as_the_first_result(lanes: LaneKit, committed: bool) -> None:
    step = lanes.add_task(1)
    lanes.kit.store.lose_next_commit_reply(committed=committed)

    verdict = await lanes.submit(step_event(STARTED, of=step))

    assert kinds_of([verdict]) == ["Accepted"]
    assert (result_or_raise(verdict).duplicate, result_or_raise(verdict).task_version) == (False, 2)
    assert lanes.version_of(step) == 2
    again = result_or_raise(await lanes.submit(step_event(STARTED, of=step)))
    assert again == replace(result_or_raise(verdict), duplicate=True)


async def test_n1_reply_lost_twice_is_settled_all_the_same(lanes: LaneKit) -> None:
    step = lanes.add_task(1)
    for committed in (True, True, False):
        lanes.kit.store.lose_next_commit_reply(committed=committed)

    verdict = await lanes.submit(step_event(STARTED, of=step))

    assert (kinds_of([verdict]), lanes.version_of(step)) == (["Accepted"], 2)


async def test_n1_settling_keeps_every_kind_of_verdict(lanes: LaneKit) -> None:
    busy, step = lanes.add_task(1), lanes.add_task(2)
    old = step_event(STARTED, 1, of=step)
    await lanes.submit(old)
    first = lanes.held_back(busy)
    await lanes.gate.begun()
    events = [
        old,
        step_event(PROGRESSED, 2, of=step, progress=progress(10)),
        step_event(PROGRESSED, 3, of=step, progress=progress(20)),
        step_event(PROGRESSED, 3, of=step, progress=progress(20)),
        step_event(PROGRESSED, 1, of=step, progress=progress(90), event_id="late"),
        step_event(STARTED, 9, of=step, business_status="NOPE", event_id="bad"),
    ]
    answers = [lanes.submit(event) for event in events]

    def lose_the_next_replies(_: object) -> None:
        lanes.kit.store.lose_next_commit_reply(committed=True)
        lanes.kit.store.lose_next_commit_reply(committed=True)

    first.add_done_callback(lose_the_next_replies)  # type: ignore[attr-defined]
    lanes.gate.open()
    await first
    verdicts = [await answer for answer in answers]

    assert kinds_of(verdicts) == ["Duplicate", "Coalesced", "Accepted", "Duplicate", "Stale", "NoOp"]
    assert lanes.version_of(step) == 3


async def test_n1_order_is_kept_while_a_commit_is_settled(lanes: LaneKit) -> None:
    step = lanes.add_task(1)
    first = lanes.held_back(step)
    await lanes.gate.begun()
    second = lanes.submit(completed(step))
    lanes.kit.store.lose_next_commit_reply(committed=False)

    lanes.gate.open()
    answers = await asyncio.gather(first, second)

    assert [result_or_raise(answer).task_version for answer in answers] == [2, 3]


async def test_n1_a_fault_around_the_commit_answers_everyone_and_the_lane_goes_on(
    lanes: LaneKit, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    step = lanes.add_task(1)

    def fail(commands: int, commit_seconds: float) -> None:
        raise RuntimeError("the observer is broken")

    with monkeypatch.context() as broken:
        broken.setattr(lanes.kit.observer, "batch_committed", fail)
        untold = await lanes.submit(step_event(STARTED, of=step))
    again = await lanes.submit(step_event(STARTED, of=step))

    assert reason_of(untold) is Reason.INTERNAL
    assert kinds_of([again]) == ["Duplicate"]
    assert "a lane failed" in caplog.text
