"""A worker's beats in the background: as often as told, until the end, and never in the work's way (H-1, H-3, W-3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from taskstatus_pb.v1 import common_pb2, heartbeat_service_pb2

from taskstatus.sdk import Connection, Coordinator, ExecutionContext, Worker, connect
from taskstatus.sdk.credential import ExecutionCredential
from taskstatus.sdk.heartbeats import EARLIEST, Heartbeats
from taskstatus.sdk.testing import FakeTaskStatus

from .support import PARSER, StepTiming, activated

INTERVAL = 15


@pytest.fixture
def time() -> StepTiming:
    return StepTiming()


@pytest.fixture
async def connection(fake: FakeTaskStatus, time: StepTiming) -> AsyncIterator[Connection]:
    fake.state.heartbeat_interval_seconds = INTERVAL
    async with connect(fake.target, lambda: PARSER, timing=time.timing()) as opened:
        yield opened


@pytest.fixture
async def context(connection: Connection, coordinator: Coordinator) -> ExecutionContext:
    """An execution that is asked to beat."""
    return await activated(coordinator)


@pytest.fixture
def beating_worker(connection: Connection) -> Worker:
    return Worker(connection)


def beats_of(fake: FakeTaskStatus) -> list[Any]:
    requests = [call.request for call in fake.calls_of("BatchHeartbeat")]
    assert all(isinstance(request, heartbeat_service_pb2.BatchHeartbeatRequest) for request in requests)
    return [request.heartbeats[0] for request in requests]  # type: ignore[attr-defined]


async def heart_of(connection: Connection, context: ExecutionContext) -> Heartbeats:
    """The beats of an execution that has started, each sent by the test."""
    credential = ExecutionCredential(connection, context)
    await credential.bind()
    await (await Worker(connection).bind(context)).started()
    return Heartbeats(connection, context, credential)


async def test_w1_execution_beats_while_it_is_open(
    fake: FakeTaskStatus, beating_worker: Worker, context: ExecutionContext, time: StepTiming
) -> None:
    async with beating_worker.execution(context):
        for _ in range(3):
            await time.next_beat()

    sequence = [beat.heartbeat_seq for beat in beats_of(fake)]
    assert len(sequence) == 3
    assert sequence == sorted(set(sequence))
    assert {beat.execution_handle for beat in beats_of(fake)} == {context.execution_handle}
    assert set(time.waits) == {(EARLIEST + 1) / 2 * INTERVAL}
    assert fake.lifecycle(context.task_id, context.step_id) == "SUCCEEDED"


async def test_w1_beats_stop_at_the_end_of_the_body(
    fake: FakeTaskStatus, beating_worker: Worker, context: ExecutionContext, time: StepTiming
) -> None:
    async with beating_worker.execution(context):
        await time.next_beat()
    running = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert not any("Heartbeats._run" in repr(task) for task in running)


async def test_w1_beats_stop_when_the_body_fails(
    beating_worker: Worker, context: ExecutionContext, fake: FakeTaskStatus
) -> None:
    with pytest.raises(KeyError):
        async with beating_worker.execution(context):
            raise KeyError("x")
    assert not any("Heartbeats._run" in repr(task) for task in asyncio.all_tasks())
    assert fake.lifecycle(context.task_id, context.step_id) == "FAILED"


async def test_h6_answers_say_how_often_to_beat(
    fake: FakeTaskStatus, beating_worker: Worker, context: ExecutionContext, time: StepTiming
) -> None:
    fake.state.task(context.task_id).current(context.step_id).heartbeat_interval_seconds = 60
    async with beating_worker.execution(context):
        await time.next_beat()
        await time.next_beat()
    assert [wait / INTERVAL for wait in time.waits] == pytest.approx([0.9, 3.6, 3.6])


async def test_h3_cancel_request_reaches_the_work_by_a_beat(
    beating_worker: Worker, context: ExecutionContext, coordinator: Coordinator, time: StepTiming
) -> None:
    async with beating_worker.execution(context) as execution:
        assert not execution.cancel_requested
        await coordinator.request_cancel(context.task_id)
        await time.next_beat()
        assert execution.cancel_requested


async def test_h3_superseded_execution_is_over_and_beats_no_more(
    fake: FakeTaskStatus, beating_worker: Worker, context: ExecutionContext, coordinator: Coordinator, time: StepTiming
) -> None:
    async with beating_worker.execution(context) as execution:
        await coordinator.activate(context.task_id, context.step_id, attempt=2)
        (await time.waiting.get()).set()
        while not execution.over:
            await asyncio.sleep(0)
        assert execution.over == "STALE_ATTEMPT"
    assert len(beats_of(fake)) == 1


@pytest.mark.parametrize(
    ("change", "over"),
    [
        ({"generation": 2}, "TOKEN_REVOKED"),
        ({"superseded": True}, "STALE_ATTEMPT"),
        ({"lifecycle": "FAILED"}, "TERMINAL"),
    ],
)
async def test_h3_what_ends_an_execution_is_a_clear_state(
    fake: FakeTaskStatus, connection: Connection, context: ExecutionContext, change: dict[str, Any], over: str
) -> None:
    heart = await heart_of(connection, context)
    await heart.beat()
    assert heart.over == ""
    attempt = fake.state.task(context.task_id).current(context.step_id)
    for name, value in change.items():
        setattr(attempt, name, value)
    await heart.beat()
    assert heart.over == over


async def test_h1_restarted_worker_beats_on_above_the_one_before(
    fake: FakeTaskStatus, connection: Connection, context: ExecutionContext, time: StepTiming
) -> None:
    first = await heart_of(connection, context)
    for _ in range(3):
        await first.beat()
    time.seconds += 1.0
    second = await heart_of(connection, context)
    await second.beat()
    sequence = [beat.heartbeat_seq for beat in beats_of(fake)]
    assert sequence == sorted(set(sequence))


async def test_h3_clock_that_went_back_is_made_up_for(
    fake: FakeTaskStatus, connection: Connection, context: ExecutionContext, time: StepTiming
) -> None:
    heart = await heart_of(connection, context)
    attempt = fake.state.task(context.task_id).current(context.step_id)
    attempt.heartbeat_seq = beats = int(time.now().timestamp() * 1000) + 3_600_000
    for _ in range(13):
        await heart.beat()
    assert attempt.heartbeat_seq > beats
    assert heart.over == ""


async def test_h6_beats_carry_the_last_round_trip(
    fake: FakeTaskStatus, connection: Connection, context: ExecutionContext, time: StepTiming
) -> None:
    heart = await heart_of(connection, context)
    report = connection.heartbeat.BatchHeartbeat

    async def slow(*arguments: Any, **options: Any) -> Any:
        time.seconds += 0.025
        return await report(*arguments, **options)

    connection.heartbeat.BatchHeartbeat = slow  # type: ignore[assignment,method-assign]
    await heart.beat()
    await heart.beat()
    assert [beat.round_trip_ms for beat in beats_of(fake)] == pytest.approx([0.0, 25.0])


@pytest.mark.parametrize("reason", ["UNAVAILABLE", "RATE_LIMITED", "INTERNAL", "UNAUTHENTICATED"])
async def test_w3_beat_that_fails_is_not_sent_again_and_harms_nothing(
    fake: FakeTaskStatus, beating_worker: Worker, context: ExecutionContext, time: StepTiming, reason: str
) -> None:
    fake.fail_next("BatchHeartbeat", reason)
    async with beating_worker.execution(context) as execution:
        await time.next_beat()
        assert len(beats_of(fake)) == 1
        await time.next_beat()
        assert execution.over == ""
    assert len(beats_of(fake)) == 2
    assert fake.lifecycle(context.task_id, context.step_id) == "SUCCEEDED"


async def test_w3_token_provider_that_fails_costs_beats_only(
    fake: FakeTaskStatus, coordinator: Coordinator, time: StepTiming
) -> None:
    fake.state.heartbeat_interval_seconds = INTERVAL
    context = await activated(coordinator)
    broken = False

    def provider() -> str:
        if broken:
            raise RuntimeError("no token today")
        return PARSER

    async with (
        connect(fake.target, provider, timing=time.timing()) as connection,
        Worker(connection).execution(context),
    ):
        broken = True
        await time.next_beat()
        broken = False
        await time.next_beat()
    assert len(beats_of(fake)) == 1


async def test_h1_context_without_an_interval_asks_for_no_beats(
    fake: FakeTaskStatus, coordinator: Coordinator, worker: Worker
) -> None:
    context = await activated(coordinator)
    async with worker.execution(context):
        assert not any("Heartbeats._run" in repr(task) for task in asyncio.all_tasks())
    assert beats_of(fake) == []


async def test_h3_fake_judges_beats_as_the_service_does(
    fake: FakeTaskStatus, connection: Connection, context: ExecutionContext
) -> None:
    stub = connection.heartbeat.BatchHeartbeat

    async def reason_of(**beat: Any) -> Any:
        request = heartbeat_service_pb2.BatchHeartbeatRequest(heartbeats=[heartbeat_service_pb2.Heartbeat(**beat)])
        return (await connection.call(stub, request)).results[0]

    handle = context.execution_handle
    assert (await reason_of(execution_handle=handle, heartbeat_seq=1)).reason == _reason("TRANSITION_NOT_ALLOWED")
    await (await Worker(connection).bind(context)).started()
    first = await reason_of(execution_handle=handle, heartbeat_seq=2)
    assert (first.accepted, first.interval_seconds, first.timeout_seconds) == (True, INTERVAL, 60)
    assert (await reason_of(execution_handle=handle, heartbeat_seq=2)).accepted
    assert (await reason_of(execution_handle=handle, heartbeat_seq=1)).reason == _reason("STALE_SEQUENCE")
    assert (await reason_of(execution_handle="exh_forged", heartbeat_seq=1)).reason == _reason("UNAUTHENTICATED")


def _reason(name: str) -> int:
    return common_pb2.Reason.Value(name)
