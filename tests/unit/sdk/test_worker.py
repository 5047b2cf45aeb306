"""A worker's execution from start to end (W-1, R-11, E-3, E-4, E-12)."""

from __future__ import annotations

import asyncio
import inspect
import textwrap
from typing import Any

import pytest

import taskstatus.sdk
from taskstatus.sdk import (
    Connection,
    Coordinator,
    EventData,
    ExecutionContext,
    InvalidArgumentError,
    PreconditionFailedError,
    StepError,
    UnauthenticatedError,
    UnavailableError,
    Worker,
    deterministic_event_ids,
)
from taskstatus.sdk.testing import FakeTaskStatus

from .support import PARSER, QuickTiming, activated


def adoption_snippet() -> str:
    """The code block of the package's docstring."""
    text = inspect.getdoc(taskstatus.sdk) or ""
    block = text.partition("::\n")[2]
    lines = block.split("\n\nA normal end")[0].splitlines()
    return textwrap.dedent("\n".join(lines))


async def test_w1_ten_lines_adopt_the_sdk(fake: FakeTaskStatus, coordinator: Coordinator) -> None:
    context = await activated(coordinator)
    pages: list[int] = []
    names: dict[str, Any] = {"parse": pages.append}
    snippet = adoption_snippet()

    exec(snippet, names)
    await names["handle"]({"context": context.to_dict(), "pages": 3}, fake.target, lambda: PARSER)

    assert len([line for line in snippet.splitlines() if line.strip()]) <= 10
    assert pages == [1, 2, 3]
    assert fake.reported(context.task_id) == ["STEP_STARTED", *["STEP_PROGRESS"] * 3, "STEP_COMPLETED"]


async def test_w1_a_normal_end_reports_completion(
    fake: FakeTaskStatus, coordinator: Coordinator, worker: Worker, clock: QuickTiming
) -> None:
    context = await activated(coordinator)

    async with worker.execution(context) as execution:
        clock.seconds += 12.3456

    ended = fake.state.task(context.task_id).events[-1]
    assert fake.lifecycle(context.task_id, context.step_id) == "SUCCEEDED"
    assert ended.duration_ms == 12_345.0
    assert ended.source_seq == 2
    assert execution.last_answer is not None
    assert execution.last_answer.task_version == 3


async def test_e12_an_exception_is_reported_without_its_text_and_goes_on(
    fake: FakeTaskStatus, coordinator: Coordinator, worker: Worker
) -> None:
    context = await activated(coordinator)

    with pytest.raises(KeyError):
        async with worker.execution(context):
            raise KeyError("password=hunter2")

    error = fake.state.task(context.task_id).events[-1].error
    assert (error.code, error.category) == ("KeyError", "SYSTEM")
    assert "hunter2" not in error.message
    assert not error.HasField("retryable")


async def test_e12_a_step_error_says_what_people_see(
    fake: FakeTaskStatus, coordinator: Coordinator, worker: Worker
) -> None:
    context = await activated(coordinator)

    with pytest.raises(StepError):
        async with worker.execution(context):
            raise StepError("UNREADABLE", "The file is no text. " * 50, category="INPUT", retryable=False)

    error = fake.state.task(context.task_id).events[-1].error
    assert (error.code, error.category, error.retryable) == ("UNREADABLE", "INPUT", False)
    assert len(error.message) == 512


async def test_a_body_that_reported_its_end_is_left_alone(
    fake: FakeTaskStatus, coordinator: Coordinator, worker: Worker
) -> None:
    context = await activated(coordinator)

    async with worker.execution(context) as execution:
        await execution.completed(data=EventData("parse.v1", {"pages": 2}))

    assert fake.reported(context.task_id) == ["STEP_STARTED", "STEP_COMPLETED"]
    assert fake.state.task(context.task_id).events[-1].data.value["pages"] == 2


async def test_a_cancelled_body_reports_nothing(fake: FakeTaskStatus, coordinator: Coordinator, worker: Worker) -> None:
    context = await activated(coordinator)
    entered = asyncio.Event()

    async def work() -> None:
        async with worker.execution(context):
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert fake.lifecycle(context.task_id, context.step_id) == "RUNNING"


async def test_w6_a_restarted_worker_goes_on_in_its_sequence(
    fake: FakeTaskStatus, coordinator: Coordinator, worker: Worker
) -> None:
    context = await activated(coordinator)
    first = await worker.bind(context)
    await first.started()
    await first.progress(1, 3, "page")

    async with worker.execution(context) as execution:
        await execution.progress(2, 3, "page")

    events = fake.state.task(context.task_id).events
    assert [event.source_seq for event in events] == [1, 2, 4, 5]
    assert not events[-1].HasField("duration_ms"), "this process did not see the start"


async def test_r6_a_superseded_attempt_does_not_start(coordinator: Coordinator, worker: Worker) -> None:
    context = await activated(coordinator)
    await coordinator.activate(context.task_id, context.step_id, attempt=2)

    with pytest.raises(PreconditionFailedError, match="STALE_ATTEMPT"):
        async with worker.execution(context):
            raise AssertionError("the work must not start")


async def test_r6_an_attempt_superseded_while_it_binds_does_not_start(
    fake: FakeTaskStatus, coordinator: Coordinator, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = await activated(coordinator)
    reporter = await worker.bind(context)
    monkeypatch.setattr(worker, "bind", lambda _: asyncio.sleep(0, reporter))
    await coordinator.activate(context.task_id, context.step_id, attempt=2)

    with pytest.raises(PreconditionFailedError, match="STALE_ATTEMPT"):
        async with worker.execution(context):
            raise AssertionError("the work must not start")


async def test_e4_a_late_completion_is_answered_stale(coordinator: Coordinator, worker: Worker) -> None:
    context = await activated(coordinator)
    late = await worker.bind(context)
    await late.started()
    await coordinator.activate(context.task_id, context.step_id, attempt=2)

    answer = await late.completed()

    assert (answer.accepted, answer.stale, answer.reason) == (False, True, "STALE_ATTEMPT")
    assert answer.must_stop


async def test_e3_a_lost_answer_is_asked_for_again_with_the_same_event(
    fake: FakeTaskStatus, coordinator: Coordinator, worker: Worker, clock: QuickTiming
) -> None:
    context = await activated(coordinator)
    fake.fail_next("ReportEvent", "UNAVAILABLE", after_acting=True)

    async with worker.execution(context) as execution:
        clock.seconds += 1
        assert execution.last_answer is not None
        assert execution.last_answer.duplicate

    first, again, _ = fake.calls_of("ReportEvent")
    assert first.request == again.request
    assert fake.reported(context.task_id) == ["STEP_STARTED", "STEP_COMPLETED"]


async def test_w3_lost_progress_never_fails_the_work(
    fake: FakeTaskStatus, coordinator: Coordinator, worker: Worker, clock: QuickTiming
) -> None:
    context = await activated(coordinator)

    async with worker.execution(context) as execution:
        fake.fail_next("ReportEvent", "UNAVAILABLE", times=10, retry_after_seconds=1.0)
        assert await execution.progress(1, 3) is None
        assert sum(clock.waits) < 5
        fake.heal()
        assert await execution.progress(2, 3) is not None

    assert fake.reported(context.task_id)[-1] == "STEP_COMPLETED"


async def test_a_refused_progress_is_the_callers_fault(
    fake: FakeTaskStatus, coordinator: Coordinator, worker: Worker
) -> None:
    context = await activated(coordinator)
    reporter = await worker.bind(context)
    await reporter.started()
    fake.fail_next("ReportEvent", "INVALID_ARGUMENT", violations={"progress.total": "must be finite"})

    with pytest.raises(InvalidArgumentError) as caught:
        await reporter.progress(1, float("inf"))

    assert [(found.field, found.description) for found in caught.value.violations] == [
        ("progress.total", "must be finite")
    ]
    await reporter.progress(1, 3)
    assert [event.source_seq for event in fake.state.task(context.task_id).events] == [1, 2]


async def test_a_completion_that_may_have_been_taken_is_not_turned_into_a_failure(
    fake: FakeTaskStatus, coordinator: Coordinator, worker: Worker
) -> None:
    context = await activated(coordinator)

    async def work() -> None:
        async with worker.execution(context) as execution:
            fake.fail_next("ReportEvent", "UNAVAILABLE", times=1000, after_acting=True)
            await execution.completed()

    with pytest.raises(UnavailableError):
        await work()

    assert fake.reported(context.task_id) == ["STEP_STARTED", "STEP_COMPLETED"]


async def test_a_refused_completion_becomes_a_failure(
    fake: FakeTaskStatus, coordinator: Coordinator, worker: Worker
) -> None:
    context = await activated(coordinator)

    async def work() -> None:
        async with worker.execution(context) as execution:
            fake.fail_next("ReportEvent", "INVALID_ARGUMENT")
            await execution.completed()

    with pytest.raises(InvalidArgumentError):
        await work()

    assert fake.reported(context.task_id) == ["STEP_STARTED", "STEP_FAILED"]


async def test_an_undelivered_failure_leaves_the_works_own_exception(
    fake: FakeTaskStatus, coordinator: Coordinator, worker: Worker
) -> None:
    context = await activated(coordinator)

    async def work() -> None:
        async with worker.execution(context):
            fake.fail_next("ReportEvent", "UNAVAILABLE", times=1000)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        await work()

    assert "not delivered" in caught.value.__notes__[0]


async def test_w1_concurrent_reports_of_one_execution_stay_in_order(
    fake: FakeTaskStatus, coordinator: Coordinator, worker: Worker
) -> None:
    context = await activated(coordinator)
    reporter = await worker.bind(context)
    await reporter.started()

    answers = await asyncio.gather(*(reporter.progress(page, 20, "page") for page in range(1, 21)))

    assert all(answer is not None and answer.accepted for answer in answers)
    assert [event.source_seq for event in fake.state.task(context.task_id).events] == list(range(1, 22))


async def test_w2_a_deterministic_id_names_the_same_place_again(
    fake: FakeTaskStatus, coordinator: Coordinator, worker_connection: Connection
) -> None:
    context = await activated(coordinator)
    reporter = await Worker(worker_connection, event_ids=deterministic_event_ids).bind(context)

    answer = await reporter.started()

    assert answer.event_id == deterministic_event_ids(context.execution_id, "STEP_STARTED", 1)
    assert answer.event_id != deterministic_event_ids(context.execution_id, "STEP_STARTED", 2)


async def test_r11_the_token_is_renewed_before_it_expires(
    fake: FakeTaskStatus, coordinator: Coordinator, worker: Worker, clock: QuickTiming
) -> None:
    reporter = await worker.bind(await activated(coordinator))
    first = await reporter.token()
    assert await reporter.token() == first

    clock.seconds += 100 * 365 * 24 * 3600

    assert await reporter.token() != first
    assert len(fake.calls_of("RenewExecution")) == 1


async def test_r11_a_context_without_handle_gets_one(
    fake: FakeTaskStatus, coordinator: Coordinator, worker: Worker
) -> None:
    data = (await activated(coordinator)).to_dict()
    del data["executionHandle"]

    async with worker.execution(ExecutionContext.from_dict(data)):
        pass

    assert [call.method for call in fake.calls[2:]] == [
        "RenewExecution",
        "BindExecution",
        "ReportEvent",
        "ReportEvent",
    ]


async def test_r11_a_revoked_execution_stops(fake: FakeTaskStatus, coordinator: Coordinator, worker: Worker) -> None:
    context = await activated(coordinator)
    fake.state.task(context.task_id).current(context.step_id).revoke()

    with pytest.raises(UnauthenticatedError, match="TOKEN_REVOKED"):
        await worker.bind(context)


async def test_e7_a_cancel_request_reaches_the_worker(
    fake: FakeTaskStatus, coordinator: Coordinator, worker: Worker
) -> None:
    context = await activated(coordinator)
    async with worker.execution(context) as execution:
        assert not execution.cancel_requested
        await coordinator.request_cancel(context.task_id)
        await execution.progress(1, 3)
        assert execution.cancel_requested


async def test_e7_an_older_answer_does_not_take_a_cancel_request_back(
    fake: FakeTaskStatus, coordinator: Coordinator, worker: Worker
) -> None:
    context = await activated(coordinator)
    async with worker.execution(context) as execution:
        await execution.progress(1, 3)
        await coordinator.request_cancel(context.task_id)
        await execution.progress(2, 3)
        fake.state.task(context.task_id).cancel_requested = False
        answer = await execution.progress(3, 3)
        assert answer is not None
        assert (answer.cancel_requested, execution.cancel_requested) == (False, True)


async def test_l1_a_worker_that_stops_as_asked_gives_the_evidence(
    fake: FakeTaskStatus, coordinator: Coordinator, worker: Worker
) -> None:
    context = await activated(coordinator)
    async with worker.execution(context) as execution:
        await coordinator.request_cancel(context.task_id)
        answer = await execution.cancelled()
    assert (answer.accepted, answer.lifecycle_status) == (True, "CANCELLING")
    assert fake.reported(context.task_id) == ["STEP_STARTED", "STEP_CANCELLED"]
    assert fake.lifecycle(context.task_id, context.step_id) == "CANCELLED"
