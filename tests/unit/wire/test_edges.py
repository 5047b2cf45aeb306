"""Statuses, results and the way from a call to its handler (E-7, E-10, T-3, names.md *Reasons*)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, fields, replace
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from taskstatus_pb.v1 import common_pb2, query_service_pb2, report_service_pb2

from taskstatus.application.access import METHOD_ROLES
from taskstatus.application.identity import Role
from taskstatus.application.ports_store import StoreUnavailableError
from taskstatus.application.service import TaskStatusService
from taskstatus.domain.errors import RefusedError, invalid
from taskstatus.domain.events import EventType
from taskstatus.domain.reasons import RETRYABLE_REASONS, Reason
from taskstatus.domain.records import ReportResult
from taskstatus.domain.verdicts import Refused, Stale, late
from taskstatus.entrypoints.grpc.stream_server import METHOD
from taskstatus.entrypoints.wire import encode
from taskstatus.entrypoints.wire.dispatch import Dispatcher
from taskstatus.entrypoints.wire.handlers import Handlers
from taskstatus.entrypoints.wire.statuses import GRPC_CODE_NUMBERS, GRPC_STATUS
from taskstatus.entrypoints.wire.trace import trace_id_of
from tests.unit.factories import START, TASK_ID, a_step, a_task, step_event
from tests.unit.service_kit import FakeClock, Kit, a_service, drive

from .requests import TRACEPARENT, WORKER, a_call, an_event

EXPECTED_STATUS = {
    grpc.StatusCode.UNAUTHENTICATED: "UNAUTHENTICATED TOKEN_EXPIRED TOKEN_REVOKED",
    grpc.StatusCode.PERMISSION_DENIED: (
        "PERMISSION_DENIED TOKEN_MISMATCH PRODUCER_MISMATCH OPERATION_MISMATCH EVENT_TYPE_NOT_ALLOWED"
    ),
    grpc.StatusCode.NOT_FOUND: (
        "WORKFLOW_NOT_FOUND TASK_NOT_FOUND STEP_NOT_FOUND EXECUTION_NOT_FOUND DEFINITION_NOT_FOUND"
    ),
    grpc.StatusCode.ALREADY_EXISTS: "IDEMPOTENCY_CONFLICT",
    grpc.StatusCode.ABORTED: "VERSION_MISMATCH",
    grpc.StatusCode.FAILED_PRECONDITION: (
        "TRANSITION_NOT_ALLOWED TERMINAL NOT_CANCELLABLE ALREADY_CLASSIFIED DEFINITION_INCOMPATIBLE EVENT_TOO_OLD "
        "STALE_ATTEMPT STALE_EXECUTION STALE_SEQUENCE PROGRESS_NOT_MONOTONIC"
    ),
    grpc.StatusCode.INVALID_ARGUMENT: (
        "INVALID_ARGUMENT SCHEMA_NOT_ALLOWED SCHEMA_VIOLATION BUSINESS_STATUS_NOT_REGISTERED"
    ),
    grpc.StatusCode.RESOURCE_EXHAUSTED: (
        "PAYLOAD_TOO_LARGE RATE_LIMITED DYNAMIC_LIMIT_REACHED DETAIL_SUBSCRIPTION_LIMIT WINDOW_EXCEEDED"
    ),
    grpc.StatusCode.UNAVAILABLE: "BUCKET_MOVED UNAVAILABLE",
    grpc.StatusCode.INTERNAL: "INTERNAL",
}


def test_names_every_reason_has_its_grpc_status() -> None:
    expected = {Reason(name): status for status, names in EXPECTED_STATUS.items() for name in names.split()}
    assert expected == GRPC_STATUS
    assert set(GRPC_STATUS) == set(GRPC_CODE_NUMBERS) == set(Reason)


def test_names_every_reason_is_on_the_wire() -> None:
    assert set(common_pb2.Reason.keys()) == {"REASON_UNSPECIFIED", *(reason.value for reason in Reason)}


def a_result(kit: Kit, **changes: Any) -> ReportResult:
    """The answer to a real STEP_STARTED."""
    kit.put(a_task(), a_step())
    return replace(kit.result(step_event(EventType.STEP_STARTED)), **changes)


def test_e7_answer_is_flattened_field_by_field(kit: Kit) -> None:
    result = a_result(kit, cancel_requested=True, coalesced=True, duplicate=True)
    response = encode.report_response(result)
    assert (response.accepted, response.duplicate, response.stale, response.changed) == (True, True, False, True)
    assert (response.coalesced, response.cancel_requested) == (True, True)
    assert (response.task_id, response.step_id) == (f"task_{TASK_ID.hex()}", "02_parse")
    assert (response.operation_code, response.task_version, response.step_version) == ("DOCUMENT.PARSE", 2, 2)
    assert (response.lifecycle_status, response.business_status) == (common_pb2.RUNNING, "RUNNING")
    assert response.committed_at.ToDatetime() == result.committed_at
    assert response.reason == common_pb2.REASON_UNSPECIFIED


@pytest.mark.parametrize("reason", [Reason.STALE_ATTEMPT, Reason.PROGRESS_NOT_MONOTONIC, Reason.TERMINAL])
def test_e4_answers_are_no_errors(reason: Reason) -> None:
    verdict = late(reason, a_task(), a_step())
    assert isinstance(verdict, Stale)
    outcome = encode.batch_result("evt-1", verdict)
    assert outcome.WhichOneof("outcome") == "response"
    assert outcome.response.reason == common_pb2.Reason.Value(reason)
    assert outcome.response.stale is reason.startswith("STALE")


def test_e10_refused_item_says_what_a_call_of_its_own_would_have() -> None:
    for reason in Reason:
        error = encode.batch_result("evt-1", Refused(RefusedError(reason, "why"))).error
        assert (error.reason, error.code) == (common_pb2.Reason.Value(reason), GRPC_CODE_NUMBERS[reason])
        assert error.retryable is (reason in RETRYABLE_REASONS)


def test_e10_invalid_item_names_its_fields() -> None:
    error = encode.batch_result("evt-1", Refused(invalid("eventId", "is required"))).error
    assert [(v.field, v.description) for v in error.field_violations] == [("eventId", "is required")]


@pytest.mark.parametrize(
    ("traceparent", "expected"),
    [
        (TRACEPARENT, "0af7651916cd43dd8448eb211c80319c"),
        ("", None),
        ("nonsense", None),
        (f"00-{'0' * 32}-{'1' * 16}-01", None),
        (TRACEPARENT.upper(), None),
        (TRACEPARENT + "\n", None),
    ],
)
def test_n3_trace_id_of_a_traceparent(traceparent: str, expected: str | None) -> None:
    found = trace_id_of(traceparent)
    assert (found.hex() if found else None) == expected


@dataclass
class FakeVerifier:
    """Everybody is the worker."""

    identity: Any = WORKER

    async def verify(self, _: str) -> Any:
        """The identity."""
        return self.identity


@dataclass
class Calls:
    """Keeps the statuses of calls."""

    statuses: list[str] = field(default_factory=list)

    def call_ended(self, transport: str, method: str, status: str, seconds: float) -> None:
        """Keep it."""
        self.statuses.append(status)


GET_TASK = "taskstatus.v1.QueryService/GetTask"


def dispatched(handler: Any, *, identity: Any = WORKER, token: str | None = "jwt") -> tuple[Any, list[str]]:
    """The answer or the refusal of one call, and how it was counted."""
    calls = Calls()
    dispatcher = Dispatcher(FakeVerifier(identity), {GET_TASK: handler}, FakeClock(), calls)
    call = replace(a_call(), bearer_token=token)
    try:
        return drive(dispatcher(GET_TASK, query_service_pb2.GetTaskRequest(), call)), calls.statuses
    except RefusedError as refusal:
        return refusal.reason, calls.statuses


async def answers(*_: object) -> Message:
    """An empty response."""
    return query_service_pb2.GetTaskResponse()


async def fails(*_: object) -> Message:
    """The store is away."""
    raise StoreUnavailableError("mysql://root:secret@db is away")


def test_t3_good_call_is_served_and_counted() -> None:
    assert dispatched(answers) == (query_service_pb2.GetTaskResponse(), ["OK"])


def test_e2_call_without_credentials_is_unauthenticated() -> None:
    assert dispatched(answers, token=None) == (Reason.UNAUTHENTICATED, ["UNAUTHENTICATED"])


def test_e2_role_without_access_is_denied() -> None:
    nobody = a_service("nobody")
    assert dispatched(answers, identity=nobody) == (Reason.PERMISSION_DENIED, ["PERMISSION_DENIED"])


def test_n1_store_that_is_away_is_unavailable() -> None:
    assert dispatched(fails) == (Reason.UNAVAILABLE, ["UNAVAILABLE"])


def test_n1_fault_of_our_own_is_counted_as_internal() -> None:
    calls = Calls()

    async def breaks(*_: object) -> Message:
        raise ZeroDivisionError

    dispatcher = Dispatcher(FakeVerifier(), {GET_TASK: breaks}, FakeClock(), calls)
    with pytest.raises(ZeroDivisionError):
        drive(dispatcher(GET_TASK, query_service_pb2.GetTaskRequest(), a_call()))
    assert calls.statuses == ["INTERNAL"]


def service_of(kit: Kit) -> TaskStatusService:
    """The service without its lanes."""
    absent: dict[str, Any] = dict.fromkeys(field.name for field in fields(TaskStatusService))
    here = {"registration": kit.registration, "executions": kit.executions, "queries": kit.queries}
    return TaskStatusService(**{**absent, **here})


def test_t3_every_method_of_the_matrix_has_a_handler(kit: Kit) -> None:
    assert set(Handlers(service_of(kit)).by_method()) == set(METHOD_ROLES) - {METHOD}


@pytest.mark.parametrize("count", [0, 501])
def test_e10_batch_holds_one_to_five_hundred_events(kit: Kit, count: int) -> None:
    request = report_service_pb2.BatchReportEventsRequest(events=[an_event()] * count)
    with pytest.raises(RefusedError) as caught:
        asyncio.run(Handlers(service_of(kit)).batch_report_events(request, WORKER, a_call()))
    assert [violation.field for violation in caught.value.violations] == ["events"]


def test_q1_handler_gives_services_the_trace_and_people_not(kit: Kit) -> None:
    kit.put(a_task(), a_step())
    kit.report(step_event(EventType.STEP_STARTED, trace_id=bytes(range(16)), occurred_at=START))
    request = query_service_pb2.ListTaskEventsRequest(task_id=TASK_ID.hex())

    response: Any = drive(Handlers(service_of(kit)).list_task_events(request, a_service("any", Role.WORKER), a_call()))

    assert response.events[0].trace_id == bytes(range(16)).hex()
