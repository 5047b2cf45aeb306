"""Many executions on one stream: order, re-sending, windows, beats, notices (W-1, W-4, T-2, E-10)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from taskstatus_pb.v1 import common_pb2

from taskstatus.sdk import (
    Connection,
    Coordinator,
    DynamicPolicy,
    DynamicStep,
    ExecutionContext,
    InvalidArgumentError,
    PreconditionFailedError,
    RetryPolicy,
    StepSpec,
    StreamReporter,
    TaskSpec,
    Timing,
    UnavailableError,
    connect,
    deterministic_event_ids,
)
from taskstatus.sdk.stream_beats import TICK_SECONDS
from taskstatus.sdk.testing import FakeTaskStatus

from .support import PARSER, STEP, QuickTiming, activated, parse_task

WAIT_SECONDS = 20.0


@dataclass
class TickedTiming:
    """Short pauses are over at once; the beat's tick waits until the test lets time pass."""

    quick: QuickTiming = field(default_factory=QuickTiming)
    ticks: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))

    def timing(self) -> Timing:
        """For ``connect``."""
        return Timing(
            monotonic=lambda: self.quick.seconds, now=self.quick.now, sleep=self.sleep, uniform=lambda low, high: high
        )

    async def sleep(self, seconds: float) -> None:
        """See the class."""
        if seconds >= TICK_SECONDS:
            await self.ticks.acquire()
            return
        self.quick.seconds += seconds
        await asyncio.sleep(0)

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and one tick with it."""
        self.quick.seconds += seconds
        self.ticks.release()


@pytest.fixture
def time() -> TickedTiming:
    """A clock of the stream's own."""
    return TickedTiming()


@pytest.fixture
async def connection(fake: FakeTaskStatus, time: TickedTiming) -> AsyncIterator[Connection]:
    """A connection of the parsing service."""
    async with connect(fake.target, lambda: PARSER, timing=time.timing()) as opened:
        yield opened


@pytest.fixture
async def stream(connection: Connection) -> AsyncIterator[StreamReporter]:
    """A reporter with a stream."""
    async with StreamReporter(connection) as reporter:
        yield reporter


async def until(condition: Callable[[], Any]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():
            await asyncio.sleep(0.001)


async def many(coordinator: Coordinator, count: int) -> list[ExecutionContext]:
    """Executions of as many tasks."""
    steps = [StepSpec(step_id=STEP, operation_code="DOCUMENT.PARSE", expected_producer=PARSER)]
    tasks = [TaskSpec(client_task_key=f"task-{n}", title="Page", steps=steps) for n in range(count)]
    workflow = await coordinator.create_workflow("many", owner_id="u-88", title="Many", tasks=tasks)
    return [await coordinator.activate(task.task_id, STEP) for task in workflow.tasks]


async def test_w1_an_execution_on_a_stream_is_reported_from_start_to_end(
    fake: FakeTaskStatus, coordinator: Coordinator, stream: StreamReporter, time: TickedTiming
) -> None:
    context = await activated(coordinator)
    async with stream.execution(context) as execution:
        answer = await execution.progress(1, 2, "page")
        time.quick.seconds += 12.3456
    assert answer is not None
    assert (answer.task_version, answer.task_id, answer.lifecycle_status) == (3, context.task_id, "RUNNING")
    assert fake.reported(context.task_id) == ["STEP_STARTED", "STEP_PROGRESS", "STEP_COMPLETED"]
    assert fake.state.task(context.task_id).events[-1].duration_ms == 12_345.0
    assert fake.calls_of("ReportEvent") == []


async def test_e12_an_exception_is_reported_as_failure_and_goes_on(
    fake: FakeTaskStatus, coordinator: Coordinator, stream: StreamReporter
) -> None:
    context = await activated(coordinator)
    with pytest.raises(KeyError):
        async with stream.execution(context):
            raise KeyError("secret")
    assert fake.reported(context.task_id) == ["STEP_STARTED", "STEP_FAILED"]


async def test_t2_many_executions_share_one_stream(
    fake: FakeTaskStatus, coordinator: Coordinator, stream: StreamReporter
) -> None:
    contexts = await many(coordinator, 30)

    async def run(context: ExecutionContext) -> None:
        async with stream.execution(context) as execution:
            await asyncio.gather(*(execution.progress(page, 5, "page") for page in range(1, 6)))

    await asyncio.gather(*map(run, contexts))
    assert fake.streams.opened == 1
    for context in contexts:
        events = fake.state.task(context.task_id).events
        assert [event.source_seq for event in events] == sorted(event.source_seq for event in events)
        assert fake.lifecycle(context.task_id, STEP) == "SUCCEEDED"


async def test_w4_what_has_no_answer_is_sent_again_on_the_next_stream_with_the_same_id(
    fake: FakeTaskStatus, coordinator: Coordinator, stream: StreamReporter
) -> None:
    execution = await stream.bind(await activated(coordinator))
    await execution.started()
    fake.fail_next("StreamReport", "UNAVAILABLE", after_acting=True)
    answer = await execution.progress(1, 2, "page")
    assert answer is not None
    assert (answer.accepted, answer.duplicate) == (True, True)
    assert fake.streams.opened == 2
    assert fake.reported(execution.context.task_id) == ["STEP_STARTED", "STEP_PROGRESS"]


async def test_w4_an_end_that_was_committed_before_the_cut_is_asked_for_by_a_call(
    fake: FakeTaskStatus, coordinator: Coordinator, stream: StreamReporter
) -> None:
    execution = await stream.bind(await activated(coordinator))
    await execution.started()
    fake.fail_next("StreamReport", "UNAVAILABLE", after_acting=True)
    answer = await execution.completed()
    assert (answer.accepted, answer.duplicate, answer.task_version) == (True, True, 3)
    assert [call.request.event_id for call in fake.calls_of("ReportEvent")] == [answer.event_id]  # type: ignore[attr-defined]


async def test_e10_after_a_failure_in_passing_all_goes_in_order_again(
    fake: FakeTaskStatus, coordinator: Coordinator, stream: StreamReporter
) -> None:
    execution = await stream.bind(await activated(coordinator))
    fake.fail_next("StreamReport", "UNAVAILABLE", times=2)
    started, progress, completed = await asyncio.gather(
        execution.started(), execution.progress(1, 2, "page"), execution.completed()
    )
    assert progress is not None
    assert [started.task_version, progress.task_version, completed.task_version] == [2, 3, 4]
    assert fake.reported(execution.context.task_id) == ["STEP_STARTED", "STEP_PROGRESS", "STEP_COMPLETED"]


async def test_e10_a_fact_that_the_service_cannot_record_is_given_up_and_the_next_goes_on(
    fake: FakeTaskStatus, coordinator: Coordinator
) -> None:
    context = await activated(coordinator)
    policy = RetryPolicy(internal_attempts=2)
    timing = TickedTiming().timing()
    async with (
        connect(fake.target, lambda: PARSER, timing=timing, retry=policy) as connection,
        StreamReporter(connection) as stream,
    ):
        execution = await stream.bind(context)
        fake.fail_next("StreamReport", "INTERNAL", times=2)
        outcomes = await asyncio.gather(execution.started(), execution.completed(), return_exceptions=True)
    assert isinstance(outcomes[0], UnavailableError)
    assert fake.reported(context.task_id) == ["STEP_COMPLETED"]


async def test_e10_a_refusal_fails_its_own_fact_only(
    fake: FakeTaskStatus, coordinator: Coordinator, stream: StreamReporter
) -> None:
    execution = await stream.bind(await activated(coordinator))
    await execution.started()
    fake.fail_next("StreamReport", "INVALID_ARGUMENT")
    with pytest.raises(InvalidArgumentError):
        await execution.progress(1, 2, "page")
    assert (await execution.completed()).accepted


async def test_w3_progress_that_was_not_sent_yet_is_overtaken_by_a_newer_one(
    fake: FakeTaskStatus, coordinator: Coordinator, stream: StreamReporter
) -> None:
    execution = await stream.bind(await activated(coordinator))
    await execution.started()
    first, second, third = await asyncio.gather(*(execution.progress(n, 3, "page") for n in (1, 2, 3)))
    assert (first, second) == (None, None)
    assert third is not None
    assert third.accepted
    assert fake.reported(execution.context.task_id) == ["STEP_STARTED", "STEP_PROGRESS"]


async def test_t2_the_window_that_the_service_tells_is_kept(
    fake: FakeTaskStatus, coordinator: Coordinator, connection: Connection
) -> None:
    fake.streams.window_items = 2
    contexts = await many(coordinator, 12)
    async with StreamReporter(connection) as stream:
        executions = await asyncio.gather(*map(stream.bind, contexts))
        await asyncio.gather(*(execution.started() for execution in executions))
    sizes = [len(frame.report.events) for frame in fake.streams.seen if frame.HasField("report")]
    assert max(sizes) <= 2
    assert sum(sizes) == 12


async def test_t2_going_away_moves_everything_to_another_stream(
    fake: FakeTaskStatus, coordinator: Coordinator, stream: StreamReporter
) -> None:
    execution = await stream.bind(await activated(coordinator))
    await execution.started()
    await fake.streams.go_away()
    await until(lambda: fake.streams.opened == 2 and execution.key)
    assert (await execution.completed()).accepted
    assert any(frame.HasField("finish") for frame in fake.streams.seen)


async def test_t2_notices_tell_of_cancellation_and_of_the_end(
    fake: FakeTaskStatus, coordinator: Coordinator, stream: StreamReporter
) -> None:
    execution = await stream.bind(await activated(coordinator))
    await execution.started()
    name = execution.context.execution_id
    await fake.streams.notify(name, cancel_requested=True, interval_seconds=40)
    await until(lambda: execution.cancel_requested)
    assert execution.interval_seconds == 40
    assert not execution.stopped.is_set()
    await fake.streams.notify(name, reason=common_pb2.STALE_ATTEMPT)
    async with asyncio.timeout(WAIT_SECONDS):
        await execution.stopped.wait()
    assert execution.stop_reason == "STALE_ATTEMPT"
    assert not execution.beats


async def test_l1_a_cancel_request_reaches_a_stream_unasked_and_is_confirmed_on_it(
    fake: FakeTaskStatus, coordinator: Coordinator, stream: StreamReporter
) -> None:
    context = await activated(coordinator)
    async with stream.execution(context) as execution:
        await coordinator.request_cancel(context.task_id, "wrong file")
        await until(lambda: execution.cancel_requested)
        answer = await execution.cancelled()
    assert (answer.accepted, answer.cancel_requested) == (True, True)
    assert fake.reported(context.task_id) == ["STEP_STARTED", "STEP_CANCELLED"]
    assert list(stream.executions) == []


async def test_r4_an_execution_on_a_stream_registers_children_too(
    coordinator: Coordinator, stream: StreamReporter
) -> None:
    task = replace(parse_task(), dynamic=DynamicPolicy(parent_operations=["DOCUMENT.PARSE"]))
    workflow = await coordinator.create_workflow("agent", owner_id="u-88", title="Agent", tasks=[task])
    context = await coordinator.activate(workflow.tasks[0].task_id, STEP)
    found = DynamicStep(client_step_key="a", operation_code="SEARCH.WEB", producer_id=PARSER)
    async with stream.execution(context) as parent, stream.execution(await parent.register_child(found)) as child:
        assert child.context.step_id == "dyn_a"
    assert child.last_answer is not None
    assert child.last_answer.accepted


async def test_r11_a_revocation_stops_an_execution_on_its_stream(
    coordinator: Coordinator, stream: StreamReporter
) -> None:
    execution = await stream.bind(await activated(coordinator))
    await execution.started()
    await coordinator.revoke(execution.context.execution_id, "leaked")
    async with asyncio.timeout(WAIT_SECONDS):
        await execution.stopped.wait()
    assert execution.stop_reason == "TOKEN_REVOKED"


async def test_r6_an_execution_that_is_over_cannot_be_bound(
    fake: FakeTaskStatus, coordinator: Coordinator, stream: StreamReporter
) -> None:
    context = await activated(coordinator)
    await coordinator.activate(context.task_id, STEP, attempt=2)
    with pytest.raises(PreconditionFailedError) as caught:
        await stream.bind(context)
    assert caught.value.reason == "STALE_ATTEMPT"
    assert list(stream.executions) == []


async def test_h3_running_executions_beat_at_their_interval_in_one_frame(
    fake: FakeTaskStatus, coordinator: Coordinator, stream: StreamReporter, time: TickedTiming
) -> None:
    executions = await asyncio.gather(*map(stream.bind, await many(coordinator, 3)))
    await asyncio.gather(*(execution.started() for execution in executions[:2]))
    time.pass_time(1)
    await until(lambda: len(fake.streams.beats) == 2)
    time.pass_time(1)
    time.pass_time(15)
    await until(lambda: len(fake.streams.beats) == 4)
    first, second = (
        [beat for beat in fake.streams.beats if beat.stream_execution_key == e.key] for e in executions[:2]
    )
    assert first[1].heartbeat_seq > first[0].heartbeat_seq
    assert len(second) == 2
    frames = [frame for frame in fake.streams.seen if frame.HasField("heartbeat")]
    assert [len(frame.heartbeat.beats) for frame in frames] == [2, 2]


async def test_h6_asked_for_a_beat_it_beats_at_once_for_those_asked_about(
    fake: FakeTaskStatus, coordinator: Coordinator, stream: StreamReporter, time: TickedTiming
) -> None:
    executions = await asyncio.gather(*map(stream.bind, await many(coordinator, 3)))
    await asyncio.gather(*(execution.started() for execution in executions[:2]))
    time.pass_time(1)
    await until(lambda: len(fake.streams.beats) == 2)
    asked = executions[0]

    await fake.streams.notify(asked.context.execution_id, beat_now=True)

    await until(lambda: len(fake.streams.beats) == 3)
    before, after = (beat for beat in fake.streams.beats if beat.stream_execution_key == asked.key)
    assert after.heartbeat_seq > before.heartbeat_seq
    assert asked.next_beat_at == time.quick.seconds + asked.interval_seconds


async def test_h6_asked_about_work_that_does_not_run_it_stays_silent(
    fake: FakeTaskStatus, coordinator: Coordinator, stream: StreamReporter
) -> None:
    waiting, running = await asyncio.gather(*map(stream.bind, await many(coordinator, 2)))
    await running.started()
    await fake.streams.notify(waiting.context.execution_id, beat_now=True)
    await fake.streams.notify(running.context.execution_id, beat_now=True)
    await until(lambda: fake.streams.beats)
    assert {beat.stream_execution_key for beat in fake.streams.beats} == {running.key}


async def test_w1_a_restarted_worker_goes_on_in_its_sequence(
    fake: FakeTaskStatus, coordinator: Coordinator, connection: Connection
) -> None:
    context = await activated(coordinator)
    async with StreamReporter(connection) as first:
        execution = await first.bind(context)
        await execution.started()
        await execution.progress(1, 2, "page")
    async with StreamReporter(connection) as second:
        execution = await second.bind(context)
        answer = await execution.completed()
    assert answer.accepted
    assert fake.state.task(context.task_id).events[-1].source_seq == 3
    assert not fake.state.task(context.task_id).events[-1].HasField("duration_ms")


async def test_w2_deterministic_ids_are_the_same_for_the_same_place(
    fake: FakeTaskStatus, coordinator: Coordinator, connection: Connection
) -> None:
    context = await activated(coordinator)
    async with StreamReporter(connection, event_ids=deterministic_event_ids) as stream:
        answer = await (await stream.bind(context)).started()
    assert answer.event_id == deterministic_event_ids(context.execution_id, "STEP_STARTED", 1).removeprefix("evt_")


async def test_id4_an_event_id_that_is_not_16_bytes_is_the_callers_mistake(
    coordinator: Coordinator, stream: StreamReporter
) -> None:
    execution = await stream.bind(await activated(coordinator))
    with pytest.raises(ValueError, match="32 hex digits"):
        await execution.started(event_id="evt-1")


async def test_n1_a_service_that_is_down_is_waited_for(
    fake: FakeTaskStatus, coordinator: Coordinator, stream: StreamReporter
) -> None:
    execution = await stream.bind(await activated(coordinator))
    await execution.started()
    fake.fail_next("StreamBind", "UNAVAILABLE", times=3)
    fake.streams.cut()
    assert (await execution.completed()).accepted
