"""Load on the product: gRPC clients that report by unary call or by batch, in the compact form (handle + event)."""

from __future__ import annotations

from collections.abc import Sequence

import grpc
import grpc.aio
from taskstatus_pb.v1 import common_pb2, report_service_pb2, report_service_pb2_grpc

from bench import workload
from bench.workload import Event
from taskstatus.domain.events import EventType

DEADLINE_SECONDS = 30.0

Request = report_service_pb2.ReportEventRequest
OWN_CONNECTION = (("grpc.use_local_subchannel_pool", 1),)


class UnexpectedAnswerError(Exception):
    """The service answered an event otherwise than with a new version."""


class ProductClient:
    """One connection to the service; ``bearer`` is the worker's JWT."""

    def __init__(self, target: str, bearer: str) -> None:
        self._channel = grpc.aio.insecure_channel(target, options=OWN_CONNECTION)
        self._stub = report_service_pb2_grpc.ReportServiceStub(self._channel)
        self._metadata = (("authorization", f"Bearer {bearer}"),)
        self._templates = {kind: _template(kind) for kind in _WIRE_TYPES}

    async def send_unary(self, events: Sequence[Event]) -> int:
        """Report the events one after the other; how many were absorbed."""
        absorbed = 0
        for event in events:
            answer = await self._stub.ReportEvent(
                self._request(event), metadata=self._metadata, timeout=DEADLINE_SECONDS
            )
            absorbed += _check(answer)
        return absorbed

    async def send_batch(self, events: Sequence[Event]) -> int:
        """Report the events in one call; how many were absorbed."""
        request = report_service_pb2.BatchReportEventsRequest(events=map(self._request, events))
        answer = await self._stub.BatchReportEvents(request, metadata=self._metadata, timeout=DEADLINE_SECONDS)
        return sum(_check_item(result) for result in answer.results)

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close()

    def _request(self, event: Event) -> Request:
        request = Request()
        request.CopyFrom(self._templates[event.event_type])
        request.event_id = event.event_id
        request.source_seq = event.source_seq
        request.execution_handle = event.execution.handle
        if event.event_type is EventType.STEP_PROGRESS:
            request.progress.current = event.number
            request.progress_seq = event.number
        return request


_WIRE_TYPES = {
    EventType.STEP_STARTED: common_pb2.STEP_STARTED,
    EventType.STEP_PROGRESS: common_pb2.STEP_PROGRESS,
    EventType.STEP_COMPLETED: common_pb2.STEP_COMPLETED,
}


def _template(kind: EventType) -> Request:
    """What is the same in every event of a kind; made once, since the client shares the machine with the service."""
    request = Request(event_type=_WIRE_TYPES[kind])
    if kind is EventType.STEP_COMPLETED:
        request.duration_ms = workload.PROGRESS_EVENTS * 1000
    elif kind is EventType.STEP_PROGRESS:
        request.progress.total = workload.PROGRESS_EVENTS
        request.progress.unit = workload.PROGRESS_UNIT
        request.phase_code = workload.PHASE
        request.data.schema = workload.DATA_SCHEMA
        request.data.value.update(workload.DATA)
    return request


def _check_item(result: report_service_pb2.BatchReportEventsResult) -> bool:
    if not result.HasField("response"):
        raise UnexpectedAnswerError(f"{common_pb2.Reason.Name(result.error.reason)}: {result.error.message}")
    return _check(result.response)


def _check(answer: report_service_pb2.ReportEventResponse) -> bool:
    if not (answer.accepted and answer.changed) or answer.duplicate:
        raise UnexpectedAnswerError(common_pb2.Reason.Name(answer.reason))
    return answer.coalesced
