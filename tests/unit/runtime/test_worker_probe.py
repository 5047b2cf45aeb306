"""Silent workers asked over the streams that have bound them: who answers in time, and what that leads to (H-6)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskstatus.application.ports_health import HealthCandidate
from taskstatus.domain.ids import ExecutionId
from taskstatus.runtime.worker_probe import Asking
from tests.unit.factories import START
from tests.unit.health_kit import until
from tests.unit.service_kit import drive

from .coalescer_kit import PERIOD, SOON, CoalescerKit

NO_TIME = 1e-6


def candidate(kit: CoalescerKit, number: int = 0) -> HealthCandidate:
    """Its lease, seen overdue."""
    step, lease = kit.steps[number], kit.lease(number)
    return HealthCandidate(
        tenant_id="t-01",
        authority_scope="default",
        workflow_id=kit.store.tables.tasks[step.task_id].envelope.workflow_id,
        task_id=step.task_id,
        task_attempt=1,
        step_id=step.definition.step_id,
        step_attempt=1,
        execution_id=kit.id(number),
        timeout_seconds=lease.timeout_seconds,
        heartbeat_seq=lease.heartbeat_seq,
        last_sign_at=lease.last_sign_at,
        deadline_at=lease.deadline_at,
        stale_since=None,
        as_of=START,
    )


class Streams:
    """Binds executions, and counts how often each is asked for a beat."""

    def __init__(self, kit: CoalescerKit, *numbers: int, answers: Collection[int] = ()) -> None:
        self.kit = kit
        self.asked: list[int] = []
        self.beats = {
            number: kit.coalescer.bind(kit.standing(number), lambda _standing: None, partial(self._ask, number))
            for number in numbers
        }
        self._answers = answers

    def _ask(self, number: int) -> None:
        self.asked.append(number)
        if number in self._answers:
            assert self.beats[number].beat(len(self.asked), 0.0) is None


def alive(kit: CoalescerKit, *numbers: int) -> set[int]:
    """Those of the executions that answer."""
    found = drive(kit.coalescer.alive([candidate(kit, number) for number in numbers]))
    return {number for number in numbers if kit.id(number) in found}


def test_h6_bound_execution_that_beats_when_asked_is_alive_and_its_lease_renewed_soon() -> None:
    kit = CoalescerKit()
    streams = Streams(kit, 0, answers={0})
    assert alive(kit, 0) == {0}
    assert streams.asked == [0]
    kit.pass_time(SOON)
    assert kit.lease().heartbeat_seq == 1


async def test_h6_execution_that_does_not_answer_in_time_is_not_alive() -> None:
    kit = CoalescerKit(2, answer_seconds=NO_TIME)
    streams = Streams(kit, 0, 1, answers={1})
    found = await kit.coalescer.alive([candidate(kit, 0), candidate(kit, 1)])
    assert (set(found), streams.asked) == ({kit.id(1)}, [0, 1])


def test_h6_execution_bound_nowhere_here_gets_no_answer() -> None:
    kit = CoalescerKit()
    assert alive(kit, 0) == set()


def test_h6_binding_that_cannot_ask_is_not_waited_for() -> None:
    kit = CoalescerKit()
    kit.told()
    assert alive(kit, 0) == set()


@pytest.mark.parametrize("sign", ["beat on the stream", "unary beat", "progress"])
async def test_h6_every_sign_of_life_is_an_answer(sign: str) -> None:
    kit = CoalescerKit(answer_seconds=60)
    streams = Streams(kit, 0)
    asking = asyncio.ensure_future(kit.coalescer.alive([candidate(kit)]))
    await until(lambda: streams.asked)
    match sign:
        case "beat on the stream":
            assert streams.beats[0].beat(1, 0.0) is None
        case "unary beat":
            assert kit.beat()
        case _:
            kit.coalescer.renew(kit.id(), kit.clock.monotonic)
    assert await asking == {kit.id()}


async def test_h6_refused_beat_is_no_answer() -> None:
    kit = CoalescerKit(answer_seconds=NO_TIME)
    kit.beat(9)
    kit.pass_time()
    streams = Streams(kit, 0)
    asking = asyncio.ensure_future(kit.coalescer.alive([candidate(kit)]))
    await until(lambda: streams.asked)
    assert streams.beats[0].beat(3, 0.0) == "STALE_SEQUENCE"
    assert await asking == frozenset()


def test_h6_beat_in_memory_is_an_answer_and_is_persisted_soon() -> None:
    kit = CoalescerKit()
    kit.beat(1)
    assert alive(kit, 0) == {0}
    kit.pass_time(SOON)
    assert kit.lease().heartbeat_seq == 1


def test_h6_beat_that_has_waited_for_a_whole_timeout_is_no_answer() -> None:
    kit = CoalescerKit(persist_every_seconds=3_600)
    kit.beat(1)
    kit.clock.advance(60)
    assert alive(kit, 0) == set()


async def test_h6_late_answer_is_persisted_soon_like_any_answer() -> None:
    kit = CoalescerKit(answer_seconds=NO_TIME)
    streams = Streams(kit, 0)
    assert await kit.coalescer.alive([candidate(kit)]) == frozenset()
    assert streams.beats[0].beat(1, 0.0) is None
    kit.pass_time(SOON)
    assert kit.lease().heartbeat_seq == 1


def test_h6_fault_of_one_stream_does_not_keep_the_others_from_asking(caplog: pytest.LogCaptureFixture) -> None:
    kit = CoalescerKit()

    def broken() -> None:
        raise RuntimeError("a stream's fault")

    kit.coalescer.bind(kit.standing(), lambda _standing: None, broken)
    streams = Streams(kit, 0, answers={0})
    assert alive(kit, 0) == {0}
    assert streams.asked == [0]
    assert "could not ask for a beat" in caplog.text


def test_h2_asking_makes_no_version_and_reads_nothing() -> None:
    kit = CoalescerKit()
    Streams(kit, 0, answers={0})
    tasks, reads = dict(kit.store.tables.tasks), kit.leases.reads
    alive(kit, 0)
    assert (kit.store.tables.tasks, kit.leases.reads) == (tasks, reads)


def test_h6_answered_question_leaves_nothing_behind() -> None:
    kit = CoalescerKit()
    Streams(kit, 0, answers={0})
    alive(kit, 0)
    kit.pass_time(SOON)
    beats = kit.coalescer.bind(kit.standing(), lambda _standing: None)
    assert beats.beat(7, 0.0) is None
    kit.pass_time(SOON)
    assert kit.lease().heartbeat_seq == 1, "an ordinary beat waits for its period"
    kit.pass_time(PERIOD)
    assert kit.lease().heartbeat_seq == 7


@given(st.sets(st.integers(0, 9)), st.lists(st.integers(0, 9)))
def test_h6_alive_is_who_was_heard_whoever_was_asked(asked: set[int], heard: list[int]) -> None:
    asking = Asking()
    for number in asked:
        asking.asked(_execution(number))
    for number in heard:
        asking.heard(_execution(number))
    found = asyncio.run(asking.answers(NO_TIME))
    assert found == {_execution(number) for number in heard}


def _execution(number: int) -> ExecutionId:
    return ExecutionId(number.to_bytes(16))
