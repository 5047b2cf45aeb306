"""ReportService and BindExecutionService of the fake."""

from __future__ import annotations

from collections.abc import AsyncIterator

import grpc
from taskstatus_pb.v1 import (
    bind_execution_service_pb2,
    bind_execution_service_pb2_grpc,
    report_service_pb2,
    report_service_pb2_grpc,
)

from taskstatus.sdk.testing.activation import context_of
from taskstatus.sdk.testing.errors import item_error
from taskstatus.sdk.testing.model import FakeRefusal
from taskstatus.sdk.testing.reports import report
from taskstatus.sdk.testing.serving import Context, Serve
from taskstatus.sdk.testing.state import FakeState
from taskstatus.sdk.testing.stream import FakeStreams


class FakeReport(report_service_pb2_grpc.ReportServiceServicer):
    """Events by call."""

    def __init__(self, serve: Serve, state: FakeState) -> None:
        self._serve = serve
        self._state = state

    async def ReportEvent(  # noqa: N802
        self, request: report_service_pb2.ReportEventRequest, context: Context
    ) -> report_service_pb2.ReportEventResponse:
        """One event."""
        return await self._serve(request, context, self._report)

    async def BatchReportEvents(  # noqa: N802
        self, request: report_service_pb2.BatchReportEventsRequest, context: Context
    ) -> report_service_pb2.BatchReportEventsResponse:
        """Many, each with an answer of its own."""
        return await self._serve(request, context, self._report_all)

    async def BatchReportCompactEvents(  # noqa: N802
        self, request: report_service_pb2.BatchReportCompactEventsRequest, context: Context
    ) -> report_service_pb2.BatchReportCompactEventsResponse:
        """The SDK reports in the full form only."""
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "the fake server takes events in the full form")

    def _report(
        self, producer: str, event: report_service_pb2.ReportEventRequest
    ) -> report_service_pb2.ReportEventResponse:
        return report(self._state, producer, event)

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
            result.response.CopyFrom(report(self._state, producer, event))
        except FakeRefusal as refusal:
            result.error.CopyFrom(item_error(refusal))
        return result


class FakeBind(bind_execution_service_pb2_grpc.BindExecutionServiceServicer):
    """Where an execution stands, by call or on a stream."""

    def __init__(self, serve: Serve, state: FakeState, streams: FakeStreams) -> None:
        self._serve = serve
        self._state = state
        self._streams = streams

    async def BindExecution(  # noqa: N802
        self, request: bind_execution_service_pb2.BindExecutionRequest, context: Context
    ) -> bind_execution_service_pb2.BindExecutionResponse:
        """Where an execution stands."""
        return await self._serve(request, context, self._bind)

    async def StreamExecutions(  # type: ignore[override]  # noqa: N802 - grpc.aio takes a coroutine that writes too
        self, requests: AsyncIterator[bind_execution_service_pb2.StreamExecutionsRequest], context: Context
    ) -> None:
        """A stream."""
        await self._streams.serve(requests, context)

    def _bind(
        self, producer: str, request: bind_execution_service_pb2.BindExecutionRequest
    ) -> bind_execution_service_pb2.BindExecutionResponse:
        return bound(self._state, producer, request)


def bound(
    state: FakeState, producer: str, request: bind_execution_service_pb2.BindExecutionRequest
) -> bind_execution_service_pb2.BindExecutionResponse:
    """What binding answers. Raises FakeRefusal."""
    held = state.live(producer, request.execution_token, request.execution_handle)
    return bind_execution_service_pb2.BindExecutionResponse(
        execution_handle=held.attempt.handle,
        context=context_of(held.task, held.attempt, created=False),
        next_source_seq=held.attempt.source_seq + 1,
    )
