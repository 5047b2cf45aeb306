"""Refusals over HTTP (names.md, *Reasons*): every reason has its status, and nothing secret is told."""

from __future__ import annotations

import logging

import pytest

from gateway_rest.problems import HTTP_MAPPINGS, retry_after
from taskstatus.domain.errors import FieldViolation, RefusedError
from taskstatus.domain.reasons import ANSWER_REASONS, RETRYABLE_REASONS, Reason

from .support import FakeDispatch, rest_client

EVENTS = "/internal/v1/task-events"

# names.md once more, by status, so that a slip in the table of the code does not go unseen.
STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED TOKEN_EXPIRED TOKEN_REVOKED",
    403: "PERMISSION_DENIED TOKEN_MISMATCH PRODUCER_MISMATCH OPERATION_MISMATCH EVENT_TYPE_NOT_ALLOWED",
    404: "WORKFLOW_NOT_FOUND TASK_NOT_FOUND STEP_NOT_FOUND EXECUTION_NOT_FOUND DEFINITION_NOT_FOUND",
    409: (
        "IDEMPOTENCY_CONFLICT TRANSITION_NOT_ALLOWED TERMINAL NOT_CANCELLABLE ALREADY_CLASSIFIED "
        "DEFINITION_INCOMPATIBLE STALE_ATTEMPT STALE_EXECUTION STALE_SEQUENCE PROGRESS_NOT_MONOTONIC"
    ),
    410: "EVENT_TOO_OLD",
    412: "VERSION_MISMATCH",
    413: "PAYLOAD_TOO_LARGE",
    422: "SCHEMA_NOT_ALLOWED SCHEMA_VIOLATION BUSINESS_STATUS_NOT_REGISTERED",
    429: "RATE_LIMITED DYNAMIC_LIMIT_REACHED DETAIL_SUBSCRIPTION_LIMIT WINDOW_EXCEEDED",
    500: "INTERNAL",
    503: "BUCKET_MOVED UNAVAILABLE",
}
EXPECTED = {Reason(name): status for status, names in STATUSES.items() for name in names.split()}


@pytest.mark.parametrize("reason", Reason)
def test_t3_reason_becomes_its_problem(reason: Reason) -> None:
    response = rest_client(FakeDispatch(error=RefusedError(reason, "Told to the caller."))).post(EVENTS, json={})
    problem = response.json()
    assert response.status_code == EXPECTED[reason]
    assert response.headers["content-type"] == "application/problem+json"
    assert problem.pop("title")
    assert problem.pop("code")
    assert problem == {
        "type": f"urn:taskstatus:reason:{reason}",
        "status": EXPECTED[reason],
        "detail": "Told to the caller.",
        "reason": reason,
        "retryable": reason in RETRYABLE_REASONS,
        "violations": [],
        "metadata": {},
    }
    assert ("retry-after" in response.headers) == (reason in RETRYABLE_REASONS)
    assert ("www-authenticate" in response.headers) == (response.status_code == 401)


def test_t3_table_is_total_and_answers_are_conflicts() -> None:
    assert set(HTTP_MAPPINGS) == set(Reason)
    assert {HTTP_MAPPINGS[reason].status for reason in ANSWER_REASONS} == {409}


def test_code_is_the_grpc_status_of_the_same_refusal() -> None:
    response = rest_client(FakeDispatch(error=RefusedError(Reason.IDEMPOTENCY_CONFLICT, "x"))).post(EVENTS, json={})
    assert response.json()["code"] == "ALREADY_EXISTS"


def test_violations_and_metadata_are_passed_on() -> None:
    error = RefusedError(Reason.INVALID_ARGUMENT, "m", (FieldViolation("a.b", "is odd"),), {"limit": "5"})
    problem = rest_client(FakeDispatch(error=error)).post(EVENTS, json={}).json()
    assert problem["violations"] == [{"field": "a.b", "description": "is odd"}]
    assert problem["metadata"] == {"limit": "5"}


@pytest.mark.parametrize(("seconds", "told"), [(None, 1), (0.0, 1), (0.2, 1), (2.0, 2), (2.1, 3)])
def test_retry_after_is_whole_seconds_and_never_zero(seconds: float | None, told: int) -> None:
    assert retry_after(seconds) == told


def test_told_pause_reaches_the_header() -> None:
    error = RefusedError(Reason.RATE_LIMITED, "m", retry_after_seconds=4.2)
    assert rest_client(FakeDispatch(error=error)).post(EVENTS, json={}).headers["retry-after"] == "5"


@pytest.mark.parametrize(
    "error", [ValueError("SELECT secret"), TimeoutError("SELECT secret"), KeyError("SELECT secret")]
)
def test_e12_unforeseen_exception_is_told_generically_and_logged(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "taskstatus.rest"):
        response = rest_client(FakeDispatch(error=error)).post(EVENTS, json={})
    assert (response.status_code, response.json()["reason"]) == (500, "INTERNAL")
    assert "SELECT" not in response.text
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[1] is error
