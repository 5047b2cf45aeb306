"""The ways in: each takes the same full requests and gives one outcome for each."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import grpc.aio
import httpx
from google.protobuf import json_format
from google.protobuf.message import Message
from taskstatus_pb.v1 import report_service_pb2

from gateway_rest.problems import HTTP_MAPPINGS, PROBLEM_MEDIA_TYPE
from taskstatus.domain.reasons import RETRYABLE_REASONS, Reason
from tests.parity.outcome import OK, Outcome, answered, as_document, item_refused, json_item_refused, sentence
from tests.parity.stream_line import StreamLines
from tests.support.clients import Caller, refusal_of

Request = report_service_pb2.ReportEventRequest
Requests = Sequence[Request]


@dataclass(frozen=True)
class Lines:
    """Connections to one service."""

    channel: grpc.aio.Channel
    rest: httpx.AsyncClient
    streams: StreamLines


Transport = Callable[[Lines, str, Requests], Awaitable[list[Outcome]]]
"""(connections, the caller's JWT, events) → their outcomes, in order."""


async def grpc_unary(lines: Lines, token: str, events: Requests) -> list[Outcome]:
    """ReportEvent, one call after the other."""
    caller = Caller(lines.channel, token)
    return [await grpc_call(caller, caller.report_service.ReportEvent, event) for event in events]


async def grpc_batch(lines: Lines, token: str, events: Requests) -> list[Outcome]:
    """BatchReportEvents."""
    request = report_service_pb2.BatchReportEventsRequest(events=events)
    caller = Caller(lines.channel, token)
    return await _batch(caller, caller.report_service.BatchReportEvents, request, len(events))


async def grpc_compact(lines: Lines, token: str, events: Requests) -> list[Outcome]:
    """BatchReportCompactEvents."""
    request = report_service_pb2.BatchReportCompactEventsRequest(events=[compact_of(event) for event in events])
    caller = Caller(lines.channel, token)
    return await _batch(caller, caller.report_service.BatchReportCompactEvents, request, len(events))


async def grpc_stream(lines: Lines, token: str, events: Requests) -> list[Outcome]:
    """StreamExecutions, in one frame."""
    handles, compact = [event.execution_handle for event in events], [compact_of(event) for event in events]
    try:
        return await lines.streams.report(token, handles, compact)
    except grpc.aio.AioRpcError as error:
        return [refused_by_grpc(error)] * len(events)


async def rest_single(lines: Lines, token: str, events: Requests) -> list[Outcome]:
    """``POST /internal/v1/task-events``, one request after the other."""
    return [await rest_call(lines.rest, token, "/internal/v1/task-events", json_of(event)) for event in events]


async def rest_batch(lines: Lines, token: str, events: Requests) -> list[Outcome]:
    """``POST /internal/v1/task-events:batch``."""
    body = {"events": [json_of(event) for event in events]}
    response = await rest_post(lines.rest, token, "/internal/v1/task-events:batch", body)
    if response.status_code != httpx.codes.OK:
        return [refused_by_rest(response)] * len(events)
    return [
        answered(item["response"]) if "response" in item else json_item_refused(item["error"])
        for item in response.json()["results"]
    ]


TRANSPORTS: Mapping[str, Transport] = {
    "gRPC": grpc_unary,
    "gRPC batch": grpc_batch,
    "gRPC compact batch": grpc_compact,
    "gRPC stream": grpc_stream,
    "REST": rest_single,
    "REST batch": rest_batch,
}


async def grpc_call(caller: Caller, method: Any, request: Message) -> Outcome:
    """One unary call."""
    try:
        response = await caller.call(method, request)
    except grpc.aio.AioRpcError as error:
        return refused_by_grpc(error)
    return answered(as_document(response)) if isinstance(response, report_service_pb2.ReportEventResponse) else DONE


DONE = Outcome(OK)
"""A command was carried out; its response is compared elsewhere."""


def refused_by_grpc(error: grpc.aio.AioRpcError) -> Outcome:
    """The outcome behind a failed call; RetryInfo stands only on what may be sent again."""
    refusal = refusal_of(error)
    retryable = Reason(refusal.reason) in RETRYABLE_REASONS
    assert retryable or refusal.retry_after is None
    return Outcome(
        refusal.code.name,
        refusal.reason,
        message=sentence(refusal.message),
        fields=refusal.fields,
        retryable=retryable,
        retry_after=refusal.retry_after,
    )


async def _batch(caller: Caller, method: Any, request: Message, size: int) -> list[Outcome]:
    try:
        response = await caller.call(method, request)
    except grpc.aio.AioRpcError as error:
        return [refused_by_grpc(error)] * size
    return [
        answered(as_document(item.response)) if item.HasField("response") else item_refused(item.error)
        for item in response.results
    ]


async def rest_post(rest: httpx.AsyncClient, token: str, path: str, body: Mapping[str, Any]) -> httpx.Response:
    """One request as the bearer of a JWT; an empty one is not sent."""
    return await rest.post(path, json=body, headers={"authorization": f"Bearer {token}"} if token else {})


async def rest_call(rest: httpx.AsyncClient, token: str, path: str, body: Mapping[str, Any]) -> Outcome:
    """One event or command by REST."""
    response = await rest_post(rest, token, path, body)
    if response.status_code != httpx.codes.OK:
        return refused_by_rest(response)
    return answered(response.json()) if "accepted" in response.json() else DONE


def refused_by_rest(response: httpx.Response) -> Outcome:
    """The outcome behind a problem document; its HTTP status and Retry-After must be those of the reason."""
    problem = response.json()
    reason = Reason(problem["reason"])
    assert response.headers["content-type"] == PROBLEM_MEDIA_TYPE
    assert response.status_code == problem["status"] == HTTP_MAPPINGS[reason].status
    assert ("retry-after" in response.headers) == (reason in RETRYABLE_REASONS)
    retry_after = response.headers.get("retry-after")
    return Outcome(
        problem["code"],
        reason.value,
        message=sentence(problem["detail"]),
        fields=tuple(violation["field"] for violation in problem["violations"]),
        retryable=problem["retryable"],
        retry_after=float(retry_after) if retry_after else None,
    )


def json_of(message: Message) -> dict[str, Any]:
    """The JSON form as a caller would write it."""
    return json_format.MessageToDict(message)


_COMPACT = {field.name for field in report_service_pb2.CompactEvent.DESCRIPTOR.fields}
_MICROSECONDS, _NANOS = 1_000_000, 1_000


def is_compact(event: Request) -> bool:
    """Whether the compact message has a place for all that the event says."""
    return all(field.name in _COMPACT or field.name == "occurred_at" for field, _ in event.ListFields())


def compact_of(event: Request) -> report_service_pb2.CompactEvent:
    """The same event in the compact message."""
    compact = report_service_pb2.CompactEvent(
        event_id=bytes.fromhex(event.event_id), execution_handle=_handle_bytes(event.execution_handle)
    )
    for field, value in event.ListFields():
        match field.name:
            case "event_id" | "execution_handle":
                continue
            case "occurred_at":
                compact.occurred_at_us = value.seconds * _MICROSECONDS + value.nanos // _NANOS
            case "duration_ms":
                compact.duration_ms = int(value)
            case name if field.message_type is not None:
                getattr(compact, name).CopyFrom(value)
            case name:
                setattr(compact, name, value)
    return compact


def _handle_bytes(handle: str) -> bytes:
    text = handle.removeprefix("exh_")
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
