"""The application around the routes: credentials, tracing, limits, CORS, pages and logs."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from starlette.types import Message

from gateway_rest.app import RestSettings
from gateway_rest.endpoint import LARGE_BYTES, beside_the_loop
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.reasons import Reason

from .support import JSON, FakeClock, FakeDispatch, rest_client

EVENTS = "/internal/v1/task-events"
PARENT_TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{PARENT_TRACE}-b7ad6b7169203331-01"


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(spans: InMemorySpanExporter) -> Iterator[TracerProvider]:
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(spans))
    yield made
    made.shutdown()


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer abc.def", "abc.def"),
        ("bearer  abc", "abc"),
        ("Basic abc", None),
        ("Bearer", None),
        ("Bearer ", None),
        ("abc", None),
        (None, None),
    ],
)
def test_r11_bearer_token_is_passed_on(header: str | None, token: str | None) -> None:
    dispatch = FakeDispatch()
    rest_client(dispatch).post(EVENTS, json={}, headers={"Authorization": header} if header else {})
    assert dispatch.call.bearer_token == token


def test_two_authorization_headers_are_refused() -> None:
    dispatch = FakeDispatch()
    headers = [("Authorization", "Bearer a"), ("Authorization", "Bearer b")]
    response = rest_client(dispatch).post(EVENTS, json={}, headers=headers)
    assert (response.status_code, dispatch.calls) == (401, [])


def test_call_carries_transport_and_times_of_receipt() -> None:
    dispatch = FakeDispatch()
    rest_client(dispatch).post(EVENTS, json={})
    call = dispatch.call
    clock = FakeClock()
    assert (call.transport, call.received_monotonic, call.received_unix) == ("rest", clock.monotonic, clock.unix)


def test_n3_server_span_continues_the_callers_trace(provider: TracerProvider, spans: InMemorySpanExporter) -> None:
    dispatch = FakeDispatch()
    rest_client(dispatch, tracer_provider=provider).get("/api/v1/tasks/t-1", headers={"traceparent": PARENT})
    (span,) = spans.get_finished_spans()
    assert span.context is not None
    assert dispatch.call.traceparent == f"00-{PARENT_TRACE}-{span.context.span_id:016x}-01"
    assert (span.name, span.kind) == ("GET /api/v1/tasks/{task_id}", SpanKind.SERVER)
    assert span.attributes == {
        "http.request.method": "GET",
        "http.route": "/api/v1/tasks/{task_id}",
        "http.response.status_code": 200,
    }


def test_n3_problem_names_its_trace(provider: TracerProvider, spans: InMemorySpanExporter) -> None:
    dispatch = FakeDispatch(error=RefusedError(Reason.TASK_NOT_FOUND, "No such task."))
    response = rest_client(dispatch, tracer_provider=provider).get("/api/v1/tasks/t", headers={"traceparent": PARENT})
    (span,) = spans.get_finished_spans()
    assert response.json()["instance"] == f"urn:taskstatus:trace:{PARENT_TRACE}"
    assert span.attributes is not None
    assert (span.attributes["error.type"], span.status.status_code) == ("TASK_NOT_FOUND", StatusCode.UNSET)


def test_n3_fault_of_the_service_makes_the_span_an_error(provider: TracerProvider, spans: InMemorySpanExporter) -> None:
    rest_client(FakeDispatch(error=ValueError("x")), tracer_provider=provider).get("/api/v1/tasks/t")
    (span,) = spans.get_finished_spans()
    assert span.status.status_code is StatusCode.ERROR


@pytest.mark.parametrize("traceparent", ["", "garbage", "00-" + "0" * 32 + "-b7ad6b7169203331-01"])
def test_malformed_traceparent_is_ignored(traceparent: str) -> None:
    dispatch = FakeDispatch()
    response = rest_client(dispatch).post(EVENTS, json={}, headers={"traceparent": traceparent})
    assert (response.status_code, dispatch.call.traceparent) == (200, "")


def test_traceparent_is_passed_on_when_nothing_traces() -> None:
    dispatch = FakeDispatch()
    rest_client(dispatch).post(EVENTS, json={}, headers={"traceparent": PARENT})
    assert dispatch.call.traceparent == PARENT


@pytest.mark.parametrize(
    "content_type",
    ["", "text/plain", "application/x-www-form-urlencoded", "application/jsonx", "application/json; charset=latin-1"],
)
def test_t3_body_of_another_type_is_415(content_type: str) -> None:
    dispatch = FakeDispatch()
    response = rest_client(dispatch).post(EVENTS, content=b"{}", headers={"content-type": content_type})
    assert (response.status_code, response.headers["accept"]) == (415, "application/json")
    assert dispatch.calls == []


def test_compressed_body_is_415() -> None:
    headers = {**JSON, "content-encoding": "gzip"}
    assert rest_client(FakeDispatch()).post(EVENTS, content=b"{}", headers=headers).status_code == 415


@pytest.mark.parametrize(
    "content_type", ["application/json", "Application/JSON; Charset=UTF-8", 'application/json;charset="utf-8"']
)
def test_json_in_utf8_is_taken(content_type: str) -> None:
    response = rest_client(FakeDispatch()).post(EVENTS, content=b"{}", headers={"content-type": content_type})
    assert response.status_code == 200


def test_empty_body_is_the_empty_message() -> None:
    assert rest_client(FakeDispatch()).post(EVENTS).status_code == 200


def _event_of(size: int) -> bytes:
    frame = b'{"eventId":""}'
    return frame[:-2] + b"x" * (size - len(frame)) + frame[-2:]


def test_t3_body_over_the_limit_is_413_by_its_declared_length() -> None:
    client = rest_client(FakeDispatch(), RestSettings(max_body_bytes=100))
    assert client.post(EVENTS, content=_event_of(100), headers=JSON).status_code == 200
    response = client.post(EVENTS, content=_event_of(101), headers=JSON)
    assert (response.status_code, response.json()["reason"]) == (413, "PAYLOAD_TOO_LARGE")
    assert response.json()["metadata"] == {"limitBytes": "100"}


async def _request(app: object, messages: list[Message], length: str | None = None) -> tuple[int, int, list[Message]]:
    """Send raw ASGI messages; gives how many were read, how many sent, and the sent ones."""
    waiting, sent = list(messages), []

    async def receive() -> Message:
        return waiting.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"content-type", b"application/json"), *([(b"content-length", length.encode())] if length else [])]
    scope = {
        "type": "http",
        "method": "POST",
        "path": EVENTS,
        "raw_path": EVENTS.encode(),
        "query_string": b"",
        "headers": headers,
    }
    await app(scope, receive, send)  # type: ignore[operator]
    return len(messages) - len(waiting), len(sent), sent


def _chunk(body: bytes, *, more: bool) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


def test_t3_endless_body_is_cut_off_at_the_limit() -> None:
    app = rest_client(FakeDispatch(), RestSettings(max_body_bytes=100)).app
    read, _, sent = asyncio.run(_request(app, [_chunk(b"x" * 60, more=True)] * 1000))
    assert (read, sent[0]["status"]) == (2, 413)


def test_declared_length_over_the_limit_is_refused_unread() -> None:
    app = rest_client(FakeDispatch(), RestSettings(max_body_bytes=100)).app
    read, _, sent = asyncio.run(_request(app, [_chunk(b"{}", more=False)], length="9" * 30))
    assert (read, sent[0]["status"]) == (0, 413)


def test_client_that_leaves_is_not_answered_and_changes_nothing() -> None:
    dispatch = FakeDispatch()
    messages: list[Message] = [_chunk(b"{", more=True), {"type": "http.disconnect"}]
    _, sent, _ = asyncio.run(_request(rest_client(dispatch).app, messages))
    assert (sent, dispatch.calls) == (0, [])


def test_n1_answer_that_takes_too_long_is_unavailable() -> None:
    client = rest_client(FakeDispatch(hangs=True), RestSettings(request_timeout_seconds=0))
    response = client.post(EVENTS, json={})
    assert (response.status_code, response.json()["reason"]) == (503, "UNAVAILABLE")
    assert "retry-after" in response.headers


def test_liveness_and_readiness() -> None:
    ready = [True]
    client = rest_client(FakeDispatch(), readiness=lambda: ready[0])
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").status_code == 200
    ready[0] = False
    assert client.get("/readyz").status_code == 503
    assert client.get("/healthz").status_code == 200
    assert client.post("/healthz").headers["allow"] == "GET, HEAD, OPTIONS"
    assert client.request("HEAD", "/readyz").content == b""


@pytest.mark.parametrize("url", ["/healthz", "/api/v1/tasks/t", "/nope", "/api/v1/tasks/%FF"])
def test_every_reply_carries_the_security_headers(url: str) -> None:
    headers = rest_client(FakeDispatch()).get(url).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]


def test_cors_allows_the_listed_origin_only() -> None:
    client = rest_client(FakeDispatch(), RestSettings(cors_origins=("https://board.test",)))
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,idempotency-key"}
    allowed = client.request("OPTIONS", EVENTS, headers={"Origin": "https://board.test", **asked})
    assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (200, "https://board.test")
    other = client.request("OPTIONS", EVENTS, headers={"Origin": "https://evil.test", **asked})
    assert "access-control-allow-origin" not in other.headers


def test_cors_headers_stand_on_problems_too() -> None:
    client = rest_client(FakeDispatch(error=ValueError("x")), RestSettings(cors_origins=("https://board.test",)))
    response = client.get("/api/v1/tasks/t", headers={"Origin": "https://board.test"})
    assert (response.status_code, response.headers["access-control-allow-origin"]) == (500, "https://board.test")
    assert "Retry-After" in response.headers["access-control-expose-headers"]


def test_n4_log_holds_the_route_and_no_credential_or_id(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "taskstatus.rest"):
        rest_client(FakeDispatch()).post(
            "/internal/v1/tasks/task-77/events",
            json={"eventId": "e", "executionToken": "secret-execution", "executionHandle": "exh_secret"},
            headers={"Authorization": "Bearer secret-bearer"},
        )
    (record,) = caplog.records
    fields = vars(record)
    assert (fields["route"], fields["status"], fields["httpMethod"]) == (
        "/internal/v1/tasks/{task_id}/events",
        200,
        "POST",
    )
    assert "secret" not in str(fields)
    assert "task-77" not in str(fields)


@pytest.mark.parametrize("size", [LARGE_BYTES, LARGE_BYTES + 1])
def test_n1_large_conversion_leaves_the_event_loop_free(size: int) -> None:
    loop_thread = threading.get_ident()
    used = asyncio.run(beside_the_loop(size, threading.get_ident))
    assert (used == loop_thread) == (size <= LARGE_BYTES)


def test_large_body_is_taken_like_a_small_one() -> None:
    dispatch = FakeDispatch()
    response = rest_client(dispatch).post(EVENTS, content=_event_of(LARGE_BYTES * 2), headers=JSON)
    assert (response.status_code, len(dispatch.calls)) == (200, 1)
