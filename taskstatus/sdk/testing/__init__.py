"""A fake taskstatus for the tests of workers and coordinators: a real gRPC server on a free port, all in memory.

::

    async with FakeTaskStatus() as fake:
        async with connect(fake.target, lambda: "document-service") as connection:   # the token is the producer's id
            ...
        assert fake.lifecycle(task_id) == "SUCCEEDED"

``fail_next`` injects what a real service can answer, with or without having acted before. It has the rules that a
worker or a coordinator can run into, and none of the rest: no tenants, grants, definitions, bounds of registration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import grpc.aio
from google.protobuf.message import Message
from taskstatus_pb.v1 import (
    bind_execution_service_pb2,
    bind_execution_service_pb2_grpc,
    common_pb2,
    heartbeat_service_pb2_grpc,
    query_service_pb2_grpc,
    register_service_pb2_grpc,
    report_service_pb2_grpc,
)

from taskstatus.sdk.testing.errors import item_error, status_of
from taskstatus.sdk.testing.heartbeats import FakeHeartbeats
from taskstatus.sdk.testing.model import FakeRefusal
from taskstatus.sdk.testing.query import FakeQuery
from taskstatus.sdk.testing.register import FakeRegister
from taskstatus.sdk.testing.reporting import FakeBind, FakeReport, bound
from taskstatus.sdk.testing.serving import Context, Request, Response
from taskstatus.sdk.testing.state import FakeState
from taskstatus.sdk.testing.stream import FakeFault, FakeStreams

__all__ = ["Call", "FakeRefusal", "FakeState", "FakeTaskStatus"]


@dataclass(frozen=True, slots=True)
class Call:
    """One call as it arrived."""

    method: str
    request: Message
    metadata: dict[str, str]


@dataclass(slots=True)
class _Fault:
    refusal: FakeRefusal
    times: int
    after_acting: bool
    retry_after_seconds: float | None


@dataclass
class FakeTaskStatus:
    """The server; ``calls`` lists what arrived, ``state`` what it knows."""

    state: FakeState = field(default_factory=FakeState)
    calls: list[Call] = field(default_factory=list)
    target: str = ""
    _faults: dict[str, list[_Fault]] = field(default_factory=dict)
    _server: grpc.aio.Server | None = None

    def __post_init__(self) -> None:
        self.streams = FakeStreams(self.state, self._bind_for_stream, item_error, self._next_item_fault)

    async def __aenter__(self) -> Self:
        server = self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        register_service_pb2_grpc.add_RegisterServiceServicer_to_server(
            FakeRegister(self.serve, self.state, self.streams), server
        )
        report_service_pb2_grpc.add_ReportServiceServicer_to_server(FakeReport(self.serve, self.state), server)
        heartbeat_service_pb2_grpc.add_HeartbeatServiceServicer_to_server(
            FakeHeartbeats(self.serve, self.state), server
        )
        bind_execution_service_pb2_grpc.add_BindExecutionServiceServicer_to_server(
            FakeBind(self.serve, self.state, self.streams), server
        )
        query_service_pb2_grpc.add_QueryServiceServicer_to_server(FakeQuery(self.serve, self.state), server)
        self.target = f"127.0.0.1:{server.add_insecure_port(self.target or '127.0.0.1:0')}"
        await server.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        await self._server.stop(None)

    def fail_next(
        self,
        method: str,
        reason: str,
        message: str = "injected",
        *,
        times: int = 1,
        violations: dict[str, str] | None = None,
        after_acting: bool = False,
        retry_after_seconds: float | None = None,
    ) -> None:
        """Refuse the next calls of a method. ``after_acting``: do the work first, so that only the answer is lost.

        ``StreamBind`` and ``StreamReport`` are the items of a stream.
        """
        fault = _Fault(FakeRefusal(reason, message, violations), times, after_acting, retry_after_seconds)
        self._faults.setdefault(method, []).append(fault)

    def heal(self) -> None:
        """Forget the failures that have not happened yet."""
        self._faults.clear()

    def lifecycle(self, task_id: str, step_id: str = "") -> str:
        """Where a task, or the latest attempt of a step, stands."""
        task = self.state.task(task_id)
        return task.current(step_id).lifecycle if step_id else task.lifecycle

    def reported(self, task_id: str) -> list[str]:
        """The types of the committed events, in order."""
        return [common_pb2.EventType.Name(event.event_type) for event in self.state.task(task_id).events]

    def calls_of(self, method: str) -> list[Call]:
        """The calls of one method, in order of arrival."""
        return [call for call in self.calls if call.method == method]

    async def serve(self, request: Request, context: Context, work: Callable[[str, Request], Response]) -> Response:
        """Note the call, apply the next fault, and answer with ``work(producer, request)``."""
        metadata = {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
        method = type(request).__name__.removesuffix("Request")
        self.calls.append(Call(method, request, metadata))
        fault = self._next_fault(method)
        refusal = fault.refusal if fault else None
        response: Response | None = None
        if fault is None or fault.after_acting:
            self.state.traceparent = metadata.get("traceparent", "")
            try:
                response = work(metadata.get("authorization", "").removeprefix("Bearer "), request)
            except FakeRefusal as error:
                refusal = refusal or error
            finally:
                self.state.traceparent = ""
        if refusal is not None:
            await context.abort_with_status(status_of(refusal, fault.retry_after_seconds if fault else None))
        assert response is not None
        return response

    def _bind_for_stream(
        self, producer: str, request: bind_execution_service_pb2.BindExecutionRequest
    ) -> bind_execution_service_pb2.BindExecutionResponse:
        return bound(self.state, producer, request)

    def _next_item_fault(self, method: str) -> FakeFault | None:
        fault = self._next_fault(method)
        return FakeFault(fault.refusal, fault.after_acting) if fault is not None else None

    def _next_fault(self, method: str) -> _Fault | None:
        queue = self._faults.get(method, [])
        if not queue:
            return None
        queue[0].times -= 1
        return queue[0] if queue[0].times > 0 else queue.pop(0)
