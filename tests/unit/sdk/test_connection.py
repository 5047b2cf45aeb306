"""Calls: identity, trace, re-sending, typed errors (N-1, T-1, style point 13)."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import grpc
import grpc.aio
import pytest
from taskstatus_pb.v1 import common_pb2, query_service_pb2, report_service_pb2

import taskstatus.sdk
from taskstatus.domain.reasons import RETRYABLE_REASONS, Reason
from taskstatus.entrypoints.wire.statuses import GRPC_STATUS
from taskstatus.sdk import (
    Connection,
    LimitError,
    NotFoundError,
    RetryPolicy,
    TaskStatusError,
    Tls,
    UnavailableError,
    connect,
)
from taskstatus.sdk.errors import from_item
from taskstatus.sdk.testing import FakeTaskStatus
from taskstatus.sdk.testing.errors import status_code

from .support import QuickTiming

SDK = Path(taskstatus.sdk.__file__).parent


async def get_task(connection: Connection, patience_seconds: float | None = None) -> None:
    """Some call."""
    request = query_service_pb2.GetTaskRequest(task_id="task_1")
    await connection.call(connection.query.GetTask, request, patience_seconds=patience_seconds)


async def test_identity_and_trace_travel_in_the_metadata(fake: FakeTaskStatus) -> None:
    async def token() -> str:
        return "jwt"

    async with connect(fake.target, token, traceparent=lambda: "00-ab-cd-01") as connection:
        with pytest.raises(NotFoundError):
            await get_task(connection)

    metadata = fake.calls[0].metadata
    assert metadata["authorization"] == "Bearer jwt"
    assert metadata["traceparent"] == "00-ab-cd-01"


async def test_the_token_is_asked_for_before_every_attempt(fake: FakeTaskStatus, clock: QuickTiming) -> None:
    tokens = iter(["old", "new"])
    fake.fail_next("GetTask", "UNAVAILABLE")

    async with connect(fake.target, lambda: next(tokens), timing=clock.timing()) as connection:
        with pytest.raises(NotFoundError):
            await get_task(connection)

    assert [call.metadata["authorization"] for call in fake.calls] == ["Bearer old", "Bearer new"]


@pytest.mark.parametrize("reason", ["UNAVAILABLE", "RATE_LIMITED", "INTERNAL", "BUCKET_MOVED"])
async def test_n1_a_passing_refusal_is_sent_again(
    fake: FakeTaskStatus, worker_connection: Connection, clock: QuickTiming, reason: str
) -> None:
    fake.fail_next("GetTask", reason, times=3, retry_after_seconds=2.5)

    with pytest.raises(NotFoundError):
        await get_task(worker_connection)

    assert len(fake.calls) == 4
    assert clock.waits == [2.5, 2.5, 2.5], "never sooner than the service asks for"


async def test_n1_pauses_double_up_to_their_bound(
    fake: FakeTaskStatus, worker_connection: Connection, clock: QuickTiming
) -> None:
    fake.fail_next("GetTask", "UNAVAILABLE", times=8)

    with pytest.raises(NotFoundError):
        await get_task(worker_connection)

    assert clock.waits == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


async def test_n1_patience_ends_with_the_last_error(
    fake: FakeTaskStatus, worker_connection: Connection, clock: QuickTiming
) -> None:
    fake.fail_next("GetTask", "RATE_LIMITED", "queue full", times=1000, retry_after_seconds=0.5)

    with pytest.raises(LimitError, match="queue full") as caught:
        await get_task(worker_connection, patience_seconds=3)

    assert sum(clock.waits) <= 3
    assert caught.value.retryable
    assert caught.value.retry_after_seconds == 0.5


async def test_n1_a_fault_that_never_passes_is_not_tried_for_ever(
    fake: FakeTaskStatus, worker_connection: Connection
) -> None:
    fake.fail_next("GetTask", "INTERNAL", times=1000)

    with pytest.raises(UnavailableError, match="INTERNAL"):
        await get_task(worker_connection)

    assert len(fake.calls) == 5


async def test_a_refusal_is_final(fake: FakeTaskStatus, worker_connection: Connection) -> None:
    with pytest.raises(NotFoundError):
        await get_task(worker_connection)
    assert len(fake.calls) == 1


async def test_n1_nobody_listening_is_unavailable(clock: QuickTiming) -> None:
    async with FakeTaskStatus() as gone:
        target = gone.target

    async with connect(target, lambda: "t", timing=clock.timing()) as connection:
        with pytest.raises(UnavailableError) as caught:
            await get_task(connection, patience_seconds=1)

    assert (caught.value.reason, caught.value.retryable) == ("UNAVAILABLE", True)


async def test_n1_a_service_that_comes_back_is_found_again(clock: QuickTiming) -> None:
    async with FakeTaskStatus() as first, connect(first.target, lambda: "t") as connection:
        with pytest.raises(NotFoundError):
            await get_task(connection)
        await first.__aexit__(None, None, None)
        async with FakeTaskStatus(target=first.target) as second:
            with pytest.raises(NotFoundError):
                await get_task(connection, patience_seconds=60)
            assert len(second.calls) == 1


async def test_a_server_without_our_methods_gives_its_status(fake: FakeTaskStatus, clock: QuickTiming) -> None:
    async with connect(fake.target, lambda: "t", timing=clock.timing()) as connection:
        channel = connection._channel
        method: grpc.aio.UnaryUnaryMultiCallable[
            query_service_pb2.GetTaskRequest, query_service_pb2.GetTaskResponse
        ] = channel.unary_unary(
            "/taskstatus.v1.QueryService/Unknown",
            request_serializer=query_service_pb2.GetTaskRequest.SerializeToString,
            response_deserializer=query_service_pb2.GetTaskResponse.FromString,
        )
        with pytest.raises(TaskStatusError, match="UNIMPLEMENTED"):
            await connection.call(method, query_service_pb2.GetTaskRequest())


async def test_tls_is_asked_for(fake: FakeTaskStatus, clock: QuickTiming) -> None:
    async with connect(fake.target, lambda: "t", tls=Tls(), timing=clock.timing()) as connection:
        with pytest.raises(UnavailableError):
            await get_task(connection, patience_seconds=0.1)


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_of_the_service_becomes_its_class(reason: Reason) -> None:
    code = GRPC_STATUS[reason]
    item = common_pb2.ItemError(
        reason=common_pb2.Reason.Value(reason),
        code=code.value[0],
        message="m",
        field_violations=[common_pb2.FieldViolation(field="f", description="d")],
    )

    error = from_item(item)

    assert type(error) is not TaskStatusError
    assert (error.reason, error.message, error.violations[0].field) == (reason, "m", "f")
    assert error.retryable == (reason in RETRYABLE_REASONS)


@pytest.mark.parametrize("reason", list(Reason))
def test_the_fake_refuses_with_the_services_own_status(reason: Reason) -> None:
    assert status_code(reason) is GRPC_STATUS[reason]


async def test_e10_items_of_a_batch_keep_their_own_errors(worker_connection: Connection) -> None:
    event = report_service_pb2.ReportEventRequest(event_id="e1", task_id="task_unknown")
    request = report_service_pb2.BatchReportEventsRequest(events=[event])

    answer = await worker_connection.call(worker_connection.report.BatchReportEvents, request)

    error = from_item(answer.results[0].error)
    assert isinstance(error, NotFoundError)
    assert answer.results[0].event_id == "e1"


@pytest.mark.parametrize(
    "figures",
    [
        {"patience_seconds": 0},
        {"first_pause_seconds": 0},
        {"first_pause_seconds": 2, "most_pause_seconds": 1},
        {"internal_attempts": 0},
    ],
)
def test_a_policy_that_cannot_work_is_refused(figures: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        RetryPolicy(**figures)  # type: ignore[arg-type]


def test_the_sdk_imports_stubs_grpc_and_the_standard_library_alone() -> None:
    allowed = {*sys.stdlib_module_names, "grpc", "grpc_status", "google", "taskstatus_pb"}
    found = set()
    for file in SDK.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module)
    foreign = {
        name for name in found if name.partition(".")[0] not in allowed and not name.startswith("taskstatus.sdk")
    }
    assert foreign == set()


def test_what_is_exported_exists() -> None:
    assert sorted(taskstatus.sdk.__all__) == taskstatus.sdk.__all__
    assert all(hasattr(taskstatus.sdk, name) for name in taskstatus.sdk.__all__)
