"""The stream as a way in: executions are bound when they are activated, as workers do, and reported by number."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack

import grpc.aio
from taskstatus_pb.v1 import bind_execution_service_pb2 as pb
from taskstatus_pb.v1 import common_pb2, report_service_pb2

from tests.parity.outcome import Outcome, answered, as_document, item_refused
from tests.support.clients import Caller
from tests.support.streams import StreamClient

MICROSECONDS = 1_000_000


class StreamLines:
    """One stream for each caller, open until the end of the module."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel
        self._open = AsyncExitStack()
        self._clients: dict[str, StreamClient] = {}
        self._bound: dict[tuple[str, str], pb.StreamBoundResult] = {}
        self._opening = asyncio.Lock()

    async def bind(self, token: str, handle: str) -> pb.StreamBoundResult:
        """Bind an execution, once. Raises AioRpcError when the caller may not have a stream."""
        client = await self._client(token)
        if (token, handle) not in self._bound:
            wanted = pb.StreamBind(executions=[pb.BindExecutionRequest(execution_handle=handle)])
            (result,) = (await client.ask(bind=wanted)).bound.results
            self._bound[token, handle] = result
        return self._bound[token, handle]

    async def report(
        self, token: str, handles: Sequence[str], events: Sequence[report_service_pb2.CompactEvent]
    ) -> list[Outcome]:
        """Report events in one frame; what cannot be bound is answered with that."""
        bound = [await self.bind(token, handle) for handle in handles]
        sent = [event for event, result in zip(events, bound, strict=True) if result.HasField("response")]
        for event, result in zip(events, bound, strict=True):
            event.ClearField("execution_handle")
            event.stream_execution_key = result.stream_execution_key
        client = await self._client(token)
        results = iter(await client.report(*sent) if sent else [])
        return [
            _outcome(next(results), result.response.context)
            if result.HasField("response")
            else item_refused(result.error)
            for result in bound
        ]

    async def close(self) -> None:
        """End every stream."""
        await self._open.aclose()

    async def _client(self, token: str) -> StreamClient:
        async with self._opening:
            if token not in self._clients:
                self._clients[token] = await self._open.enter_async_context(StreamClient(Caller(self._channel, token)))
        return self._clients[token]


def _outcome(result: pb.CompactEventResult, context: common_pb2.ExecutionContext) -> Outcome:
    """The outcome of one event; what the client knows by its binding is not said again."""
    if result.HasField("error"):
        return item_refused(result.error)
    response = report_service_pb2.ReportEventResponse(
        accepted=result.accepted,
        duplicate=result.duplicate,
        stale=result.stale,
        reason=result.reason,
        task_id=context.task_id,
        step_id=context.step_id,
        operation_code=context.operation_code,
        task_version=result.task_version,
        step_version=result.step_version,
        lifecycle_status=result.lifecycle_status,
        business_status=result.business_status,
        changed=result.changed,
        coalesced=result.coalesced,
        cancel_requested=result.cancel_requested,
    )
    if result.committed_at_us:
        seconds, micros = divmod(result.committed_at_us, MICROSECONDS)
        response.committed_at.seconds, response.committed_at.nanos = seconds, micros * 1_000
    return answered(as_document(response))
