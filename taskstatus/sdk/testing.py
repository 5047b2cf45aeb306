"""A fake taskstatus for the tests of workers and coordinators: a real gRPC server on a free port, all in memory.

::

    async with FakeTaskStatus() as fake:
        async with connect(fake.target, lambda: "document-service") as connection:   # the token is the producer's id
            ...
        assert fake.lifecycle(task_id) == "SUCCEEDED"

``fail_next`` injects what a real service can answer, with or without having acted before.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message
from taskstatus_pb.v1 import (
    bind_execution_service_pb2,
    bind_execution_service_pb2_grpc,
    common_pb2,
    heartbeat_service_pb2_grpc,
    query_service_pb2,
    query_service_pb2_grpc,
    register_service_pb2,
    register_service_pb2_grpc,
    report_service_pb2,
    report_service_pb2_grpc,
)

from taskstatus.sdk.testing_errors import item_error, status_of
from taskstatus.sdk.testing_heartbeats import FakeHeartbeats, timeout_of
from taskstatus.sdk.testing_state import FIRST_RUN, FakeAttempt, FakeRefusal, FakeState, FakeTask
from taskstatus.sdk.testing_stream import FakeFault, FakeStreams

TOKEN_LIFETIME: Final = timedelta(minutes=15)
Context = grpc.aio.ServicerContext[Any, Any]
Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


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
        register_service_pb2_grpc.add_RegisterServiceServicer_to_server(_Register(self), server)
        report_service_pb2_grpc.add_ReportServiceServicer_to_server(_Report(self), server)
        heartbeat_service_pb2_grpc.add_HeartbeatServiceServicer_to_server(
            FakeHeartbeats(self.serve, self.state), server
        )
        bind_execution_service_pb2_grpc.add_BindExecutionServiceServicer_to_server(_Bind(self), server)
        query_service_pb2_grpc.add_QueryServiceServicer_to_server(_Query(self), server)
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
            try:
                response = work(metadata.get("authorization", "").removeprefix("Bearer "), request)
            except FakeRefusal as error:
                refusal = refusal or error
        if refusal is not None:
            await context.abort_with_status(status_of(refusal, fault.retry_after_seconds if fault else None))
        assert response is not None
        return response

    def _bind_for_stream(
        self, producer: str, request: bind_execution_service_pb2.BindExecutionRequest
    ) -> bind_execution_service_pb2.BindExecutionResponse:
        return _bound(self.state, producer, request)

    def _next_item_fault(self, method: str) -> FakeFault | None:
        fault = self._next_fault(method)
        return FakeFault(fault.refusal, fault.after_acting) if fault is not None else None

    def _next_fault(self, method: str) -> _Fault | None:
        queue = self._faults.get(method, [])
        if not queue:
            return None
        queue[0].times -= 1
        return queue[0] if queue[0].times > 0 else queue.pop(0)


def _context(task: FakeTask, attempt: FakeAttempt, created: bool) -> common_pb2.ExecutionContext:
    context = common_pb2.ExecutionContext(
        workflow_id=task.workflow_id,
        task_id=task.task_id,
        task_attempt=FIRST_RUN,
        step_id=attempt.spec.step_id,
        step_attempt=attempt.number,
        execution_id=attempt.execution_id,
        operation_code=attempt.spec.operation_code,
        producer_id=attempt.spec.expected_producer,
        source_seq_start=attempt.source_seq + 1,
        input_ref=attempt.input_ref,
        heartbeat_interval_seconds=attempt.heartbeat_interval_seconds,
        heartbeat_timeout_seconds=timeout_of(attempt.heartbeat_interval_seconds),
        execution_token=f"token-{attempt.execution_id}-{attempt.token_serial}",
        execution_handle=attempt.handle,
        task_version=task.version,
        created=created,
        task_type=task.spec.task_type,
    )
    context.execution_token_expire_time.FromDatetime(datetime.now(UTC) + TOKEN_LIFETIME)
    return context


def _created(task: FakeTask) -> register_service_pb2.CreatedTask:
    key = task.spec.client_task_key
    return register_service_pb2.CreatedTask(client_task_key=key, task_id=task.task_id, task_version=task.version)


class _Servicer:
    def __init__(self, fake: FakeTaskStatus) -> None:
        self._serve = fake.serve
        self._state = fake.state
        self._streams = fake.streams


class _Register(_Servicer, register_service_pb2_grpc.RegisterServiceServicer):
    async def CreateWorkflow(  # noqa: N802 - the method's name on the wire
        self, request: register_service_pb2.CreateWorkflowRequest, context: Context
    ) -> register_service_pb2.CreateWorkflowResponse:
        return await self._serve(request, context, self._create_workflow)

    async def CreateTask(  # noqa: N802
        self, request: register_service_pb2.CreateTaskRequest, context: Context
    ) -> register_service_pb2.CreateTaskResponse:
        return await self._serve(request, context, self._create_task)

    async def ActivateStep(  # noqa: N802
        self, request: register_service_pb2.ActivateStepRequest, context: Context
    ) -> register_service_pb2.ActivateStepResponse:
        return await self._serve(request, context, self._activate)

    async def RegisterExecution(  # noqa: N802
        self, request: register_service_pb2.RegisterExecutionRequest, context: Context
    ) -> register_service_pb2.RegisterExecutionResponse:
        return await self._serve(request, context, self._register)

    async def RenewExecution(  # noqa: N802
        self, request: register_service_pb2.RenewExecutionRequest, context: Context
    ) -> register_service_pb2.RenewExecutionResponse:
        return await self._serve(request, context, self._renew)

    def _create_workflow(
        self, producer: str, request: register_service_pb2.CreateWorkflowRequest
    ) -> register_service_pb2.CreateWorkflowResponse:
        workflow_id, tasks, created = self._state.create_workflow(producer, request)
        return register_service_pb2.CreateWorkflowResponse(
            workflow_id=workflow_id, workflow_version=1, created=created, tasks=[_created(task) for task in tasks]
        )

    def _create_task(
        self, producer: str, request: register_service_pb2.CreateTaskRequest
    ) -> register_service_pb2.CreateTaskResponse:
        task, created = self._state.create_task(request)
        return register_service_pb2.CreateTaskResponse(
            workflow_id=task.workflow_id, task=_created(task), created=created
        )

    def _activate(
        self, producer: str, request: register_service_pb2.ActivateStepRequest
    ) -> register_service_pb2.ActivateStepResponse:
        found = self._state.activate(
            producer, request.task_id, request.step_id, request.step_attempt, request.input_ref
        )
        return register_service_pb2.ActivateStepResponse(context=_context(*found))

    def _register(
        self, producer: str, request: register_service_pb2.RegisterExecutionRequest
    ) -> register_service_pb2.RegisterExecutionResponse:
        return register_service_pb2.RegisterExecutionResponse(
            context=_context(*self._state.register(producer, request))
        )

    def _renew(
        self, producer: str, request: register_service_pb2.RenewExecutionRequest
    ) -> register_service_pb2.RenewExecutionResponse:
        task, attempt = self._state.live_execution(producer, request.execution_token, request.execution_handle)
        attempt.token_serial += 1
        context = _context(task, attempt, created=False)
        return register_service_pb2.RenewExecutionResponse(
            execution_token=context.execution_token,
            execution_token_expire_time=context.execution_token_expire_time,
            execution_handle=context.execution_handle,
        )


class _Report(_Servicer, report_service_pb2_grpc.ReportServiceServicer):
    async def ReportEvent(  # noqa: N802
        self, request: report_service_pb2.ReportEventRequest, context: Context
    ) -> report_service_pb2.ReportEventResponse:
        return await self._serve(request, context, self._state.report)

    async def BatchReportEvents(  # noqa: N802
        self, request: report_service_pb2.BatchReportEventsRequest, context: Context
    ) -> report_service_pb2.BatchReportEventsResponse:
        return await self._serve(request, context, self._report_all)

    async def BatchReportCompactEvents(  # noqa: N802
        self, request: report_service_pb2.BatchReportCompactEventsRequest, context: Context
    ) -> report_service_pb2.BatchReportCompactEventsResponse:
        """The SDK reports in the full form only."""
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "the fake server takes events in the full form")

    def _report_all(
        self, producer: str, request: report_service_pb2.BatchReportEventsRequest
    ) -> report_service_pb2.BatchReportEventsResponse:
        results = [self._report_one(producer, event) for event in request.events]
        return report_service_pb2.BatchReportEventsResponse(results=results)

    def _report_one(
        self, producer: str, event: report_service_pb2.ReportEventRequest
    ) -> report_service_pb2.BatchReportEventsResult:
        result = report_service_pb2.BatchReportEventsResult(event_id=event.event_id)
        try:
            result.response.CopyFrom(self._state.report(producer, event))
        except FakeRefusal as refusal:
            result.error.CopyFrom(item_error(refusal))
        return result


class _Bind(_Servicer, bind_execution_service_pb2_grpc.BindExecutionServiceServicer):
    async def BindExecution(  # noqa: N802
        self, request: bind_execution_service_pb2.BindExecutionRequest, context: Context
    ) -> bind_execution_service_pb2.BindExecutionResponse:
        return await self._serve(request, context, self._bind)

    async def StreamExecutions(  # type: ignore[override]  # noqa: N802 - grpc.aio takes a coroutine that writes too
        self, requests: AsyncIterator[bind_execution_service_pb2.StreamExecutionsRequest], context: Context
    ) -> None:
        await self._streams.serve(requests, context)

    def _bind(
        self, producer: str, request: bind_execution_service_pb2.BindExecutionRequest
    ) -> bind_execution_service_pb2.BindExecutionResponse:
        return _bound(self._state, producer, request)


def _bound(
    state: FakeState, producer: str, request: bind_execution_service_pb2.BindExecutionRequest
) -> bind_execution_service_pb2.BindExecutionResponse:
    task, attempt = state.live_execution(producer, request.execution_token, request.execution_handle)
    return bind_execution_service_pb2.BindExecutionResponse(
        execution_handle=attempt.handle,
        context=_context(task, attempt, created=False),
        next_source_seq=attempt.source_seq + 1,
    )


class _Query(_Servicer, query_service_pb2_grpc.QueryServiceServicer):
    async def GetTask(  # noqa: N802
        self, request: query_service_pb2.GetTaskRequest, context: Context
    ) -> query_service_pb2.GetTaskResponse:
        return await self._serve(request, context, self._get_task)

    async def ListTaskEvents(  # noqa: N802
        self, request: query_service_pb2.ListTaskEventsRequest, context: Context
    ) -> query_service_pb2.ListTaskEventsResponse:
        return await self._serve(request, context, self._list_events)

    def _get_task(self, producer: str, request: query_service_pb2.GetTaskRequest) -> query_service_pb2.GetTaskResponse:
        task = self._state.task(request.task_id)
        snapshot = query_service_pb2.TaskSnapshot(
            workflow_id=task.workflow_id,
            task_id=task.task_id,
            task_version=task.version,
            title=task.spec.title,
            lifecycle_status=common_pb2.LifecycleStatus.Value(task.lifecycle),
        )
        return query_service_pb2.GetTaskResponse(task=snapshot)

    def _list_events(
        self, producer: str, request: query_service_pb2.ListTaskEventsRequest
    ) -> query_service_pb2.ListTaskEventsResponse:
        task = self._state.task(request.task_id)
        later = [event for event in task.timeline if event.task_version > request.after_task_version]
        limit = request.limit or 100
        return query_service_pb2.ListTaskEventsResponse(
            events=later[:limit], task_version=task.version, has_more=len(later) > limit
        )
