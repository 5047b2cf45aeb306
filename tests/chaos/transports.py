"""Calls to the running processes: gRPC to either replica, REST to the gateway; every failure is one TransportError."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

import grpc
import grpc.aio
import httpx
from google.protobuf import json_format
from google.protobuf.message import Message
from taskstatus_pb.v1 import (
    common_pb2,
    heartbeat_service_pb2,
    register_service_pb2,
    report_service_pb2,
    task_commands_pb2,
)

from taskstatus.application.identity import Role, ServiceIdentity
from tests.chaos.streams import LiveStream, StreamPool
from tests.chaos.wire import from_json, json_body
from tests.support.clients import Caller, Tokens, refusal_of

M = TypeVar("M", bound=Message)

REST_SHARE = 0.2
"""Of activations."""
SERVICE_ROLES = tuple(role for role in Role if role is not Role.USER)
CHANNEL_OPTIONS = (
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
)
"""A replica that comes back is found at once; by default it may take two minutes."""


@dataclass(frozen=True, slots=True)
class Route:
    """Where REST takes a command."""

    http_method: str
    path: str


ORDER_IDS = ("task_id", "execution_id")
ORDER_ROUTES = {
    "RequestCancel": Route("POST", "/internal/v1/tasks/{task_id}:cancel"),
    "RerunTask": Route("POST", "/internal/v1/tasks/{task_id}:rerun"),
    "UpdateTaskMetadata": Route("PATCH", "/internal/v1/tasks/{task_id}/metadata"),
    "AttachExternalRef": Route("POST", "/internal/v1/tasks/{task_id}/external-refs"),
    "RevokeExecution": Route("POST", "/internal/v1/executions/{execution_id}:revoke"),
    "CorrectTask": Route("POST", "/internal/v1/admin/tasks/{task_id}:correct"),
}

Method = Callable[[Caller], Callable[..., Awaitable[Any]]]
"""The method of a caller's stub."""


class TransportError(Exception):
    """A call or item without a result; ``reason`` is empty when nobody gave one."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason


class Transports:
    """Which process serves a call is drawn from ``random``."""

    def __init__(
        self,
        channels: Sequence[grpc.aio.Channel],
        rest: httpx.AsyncClient,
        tokens: Tokens,
        random: Random,
        streams: StreamPool,
    ) -> None:
        self._streams = streams
        self._channels = channels
        self._rest = rest
        self._tokens = tokens
        self._random = random
        self._callers: dict[tuple[str, str, str], list[Caller]] = {}

    async def one(
        self,
        identity: ServiceIdentity,
        request: report_service_pb2.ReportEventRequest,
        timeout: float,
        *,
        by_rest: bool,
    ) -> report_service_pb2.ReportEventResponse:
        """ReportEvent."""
        if by_rest:
            answer = report_service_pb2.ReportEventResponse()
            return await self._post(identity, "/internal/v1/task-events", request, answer, timeout)
        method, kind = _method("report_service", "ReportEvent"), report_service_pb2.ReportEventResponse
        return await self._call(identity, method, request, kind, timeout)

    async def batch(
        self,
        identity: ServiceIdentity,
        requests: Sequence[report_service_pb2.ReportEventRequest],
        timeout: float,
        *,
        by_rest: bool,
    ) -> report_service_pb2.BatchReportEventsResponse:
        """BatchReportEvents."""
        request = report_service_pb2.BatchReportEventsRequest(events=requests)
        if by_rest:
            answer = report_service_pb2.BatchReportEventsResponse()
            return await self._post(identity, "/internal/v1/task-events:batch", request, answer, timeout)
        method, kind = _method("report_service", "BatchReportEvents"), report_service_pb2.BatchReportEventsResponse
        return await self._call(identity, method, request, kind, timeout)

    async def compact(
        self, identity: ServiceIdentity, events: Sequence[report_service_pb2.CompactEvent], timeout: float
    ) -> report_service_pb2.BatchReportCompactEventsResponse:
        """BatchReportCompactEvents."""
        request = report_service_pb2.BatchReportCompactEventsRequest(events=events)
        method = _method("report_service", "BatchReportCompactEvents")
        kind = report_service_pb2.BatchReportCompactEventsResponse
        return await self._call(identity, method, request, kind, timeout)

    async def beat(
        self,
        identity: ServiceIdentity,
        beats: Sequence[heartbeat_service_pb2.Heartbeat],
        timeout: float,
        *,
        by_rest: bool,
    ) -> heartbeat_service_pb2.BatchHeartbeatResponse:
        """BatchHeartbeat."""
        request = heartbeat_service_pb2.BatchHeartbeatRequest(heartbeats=beats)
        if by_rest:
            answer = heartbeat_service_pb2.BatchHeartbeatResponse()
            return await self._post(identity, "/internal/v1/task-heartbeats:batch", request, answer, timeout)
        method, kind = _method("heartbeats", "BatchHeartbeat"), heartbeat_service_pb2.BatchHeartbeatResponse
        return await self._call(identity, method, request, kind, timeout)

    async def stream(self, identity: ServiceIdentity) -> LiveStream:
        """A stream of this caller. Raises BrokenStreamError."""
        return await self._streams.one(self._callers_of(identity)[0].token)

    async def activate(
        self, identity: ServiceIdentity, request: register_service_pb2.ActivateStepRequest, timeout: float
    ) -> common_pb2.ExecutionContext:
        """ActivateStep."""
        if self._random.random() < REST_SHARE:
            path = f"/internal/v1/tasks/{request.task_id}/steps/{request.step_id}:activate"
            answer = register_service_pb2.ActivateStepResponse()
            return (await self._post(identity, path, request, answer, timeout)).context
        method, kind = _method("register", "ActivateStep"), register_service_pb2.ActivateStepResponse
        return (await self._call(identity, method, request, kind, timeout)).context

    async def register(
        self, identity: ServiceIdentity, request: register_service_pb2.RegisterExecutionRequest, timeout: float
    ) -> common_pb2.ExecutionContext:
        """RegisterExecution."""
        method, kind = _method("register", "RegisterExecution"), register_service_pb2.RegisterExecutionResponse
        return (await self._call(identity, method, request, kind, timeout)).context

    async def order(self, identity: ServiceIdentity, request: Any, timeout: float) -> task_commands_pb2.TaskChange:
        """A command on a task, by the type of its request."""
        name = request.DESCRIPTOR.name.removesuffix("Request")
        kind: type[Message] = getattr(task_commands_pb2, f"{name}Response")
        if self._random.random() < REST_SHARE:
            route = ORDER_ROUTES[name]
            named = {field.name: value for field, value in request.ListFields() if field.name in ORDER_IDS}
            path = route.path.format(**named)
            answer: Any = await self._post(identity, path, request, kind(), timeout, route.http_method)
        else:
            stub = "admin" if name == "CorrectTask" else "register"
            answer = await self._call(identity, _method(stub, name), request, kind, timeout)
        change: task_commands_pb2.TaskChange = answer.change
        return change

    async def create(self, identity: ServiceIdentity, request: Any, timeout: float) -> Any:
        """CreateWorkflow or CreateTask, by the type of the request."""
        if isinstance(request, register_service_pb2.CreateWorkflowRequest):
            method, kind = _method("register", "CreateWorkflow"), register_service_pb2.CreateWorkflowResponse
            return await self._call(identity, method, request, kind, timeout)
        method = _method("register", "CreateTask")
        return await self._call(identity, method, request, register_service_pb2.CreateTaskResponse, timeout)

    async def _call(
        self, identity: ServiceIdentity, method: Method, request: Message, kind: type[M], timeout: float
    ) -> M:
        caller = self._random.choice(self._callers_of(identity))
        try:
            answer = await method(caller)(request, metadata=caller.metadata, timeout=timeout)
        except grpc.aio.AioRpcError as error:
            raise TransportError(refusal_of(error).reason, f"{error.code().name} {error.details()}") from error
        assert isinstance(answer, kind)
        return answer

    async def _post(
        self,
        identity: ServiceIdentity,
        path: str,
        request: Message,
        answer: M,
        timeout: float,
        http_method: str = "POST",
    ) -> M:
        token = self._callers_of(identity)[0].token
        headers = {"authorization": f"Bearer {token}"}
        try:
            response = await self._rest.request(
                http_method, path, json=json_body(request), headers=headers, timeout=timeout
            )
            if response.is_success:
                return from_json(response.json(), answer)
        except (httpx.HTTPError, json_format.ParseError, ValueError) as error:
            raise TransportError("", repr(error)) from error
        raise TransportError(_problem_reason(response), response.text)

    def _callers_of(self, identity: ServiceIdentity) -> list[Caller]:
        key = (identity.tenant_id, identity.authority_scope, identity.producer_id)
        if key not in self._callers:
            tenant_id, scope, producer_id = key
            token = self._tokens.service(producer_id, *SERVICE_ROLES, tenant=tenant_id, scope=scope)
            self._callers[key] = [Caller(channel, token) for channel in self._channels]
        return self._callers[key]


def _method(stub: str, name: str) -> Method:
    return lambda caller: getattr(getattr(caller, stub), name)


def _problem_reason(response: httpx.Response) -> str:
    try:
        return str(response.json().get("reason", ""))
    except ValueError:
        return ""
