"""The stream of the fake service: bound executions by number, answers in the order of the frames, faults on request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
from taskstatus_pb.v1 import bind_execution_service_pb2 as pb
from taskstatus_pb.v1 import common_pb2, report_service_pb2

from taskstatus.sdk.stream_events import to_full_form
from taskstatus.sdk.testing.errors import RETRYABLE
from taskstatus.sdk.testing.model import FakeRefusal
from taskstatus.sdk.testing.reports import report
from taskstatus.sdk.testing.state import FakeState

Context = grpc.aio.ServicerContext[Any, Any]
Bind = Callable[[str, pb.BindExecutionRequest], pb.BindExecutionResponse]
ItemError = Callable[[FakeRefusal], common_pb2.ItemError]


@dataclass
class FakeFault:
    """What the next item of a kind meets."""

    refusal: FakeRefusal
    after_acting: bool
    """Do the work, then cut the stream, so that only the answer is lost."""


class _CutError(Exception):
    """The stream is to end without a word."""


@dataclass
class FakeStreams:
    """The open streams of the fake; ``seen`` lists the frames that arrived."""

    state: FakeState
    bind: Bind
    item_error: ItemError
    next_fault: Callable[[str], FakeFault | None]
    window_items: int = 2_000
    opened: int = 0
    """How many streams were opened so far."""
    seen: list[pb.StreamExecutionsRequest] = field(default_factory=list)
    beats: list[pb.StreamBeat] = field(default_factory=list)
    _open: list[_FakeStream] = field(default_factory=list)

    async def serve(self, requests: AsyncIterator[pb.StreamExecutionsRequest], context: Context) -> None:
        """Serve one stream."""
        metadata = dict(context.invocation_metadata() or ())
        producer = str(metadata.get("authorization", "")).removeprefix("Bearer ")
        stream = _FakeStream(self, producer, context)
        self._open.append(stream)
        self.opened += 1
        try:
            await stream.run(requests)
        except _CutError:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "cut")
        finally:
            self._open.remove(stream)

    def cut(self) -> None:
        """End every open stream without a word."""
        for stream in self._open:
            stream.cut.set()

    async def go_away(self) -> None:
        """Ask every client to open another stream."""
        for stream in list(self._open):
            await stream.write(pb.StreamExecutionsResponse(notice=pb.StreamNotice(going_away=True)))

    async def notify(self, execution_id: str, **notice: Any) -> None:
        """Tell whoever has bound the execution something unasked."""
        for stream in list(self._open):
            for key, handle in stream.handles.items():
                if execution_id and handle.startswith(f"exh_{execution_id}-"):
                    told = pb.StreamExecutionNotice(stream_execution_key=key, **notice)
                    await stream.write(pb.StreamExecutionsResponse(notice=pb.StreamNotice(executions=[told])))


class _FakeStream:
    def __init__(self, streams: FakeStreams, producer: str, context: Context) -> None:
        self.handles: dict[int, str] = {}
        self.cut = asyncio.Event()
        self._streams = streams
        self._producer = producer
        self._context = context
        self._writing = asyncio.Lock()
        self._broken: dict[int, bytes] = {}

    async def run(self, requests: AsyncIterator[pb.StreamExecutionsRequest]) -> None:
        opened = pb.StreamOpened(window_items=self._streams.window_items, frame_items=500, bound_executions=10_000)
        await self.write(pb.StreamExecutionsResponse(opened=opened))
        loop = asyncio.get_running_loop()
        serving, cutting = loop.create_task(self._serve(requests)), loop.create_task(self.cut.wait())
        try:
            await asyncio.wait([serving, cutting], return_when=asyncio.FIRST_COMPLETED)
            if not serving.done():
                raise _CutError
            serving.result()
        finally:
            serving.cancel()
            cutting.cancel()

    async def write(self, frame: pb.StreamExecutionsResponse) -> None:
        async with self._writing:
            await self._context.write(frame)

    async def _serve(self, requests: AsyncIterator[pb.StreamExecutionsRequest]) -> None:
        async for frame in requests:
            self._streams.seen.append(frame)
            answer = pb.StreamExecutionsResponse(correlation=frame.correlation)
            match frame.WhichOneof("frame"):
                case "bind":
                    answer.bound.results.extend(map(self._bind, frame.bind.executions))
                case "report":
                    answer.reported.results.extend(map(self._report, frame.report.events))
                case "heartbeat":
                    self._streams.beats.extend(frame.heartbeat.beats)
                    answer.beaten.accepted = len(frame.heartbeat.beats)
                case "renew":
                    answer.renewed.results.extend(map(self._renew, frame.renew.stream_execution_keys))
                case "finish":
                    answer.finished.SetInParent()
            await self.write(answer)
            if answer.HasField("finished"):
                return

    def _bind(self, request: pb.BindExecutionRequest) -> pb.StreamBoundResult:
        fault = self._streams.next_fault("StreamBind")
        try:
            if fault is not None:
                raise fault.refusal
            response = self._streams.bind(self._producer, request)
        except FakeRefusal as refusal:
            return pb.StreamBoundResult(error=self._streams.item_error(refusal))
        known = [key for key, handle in self.handles.items() if handle == response.execution_handle]
        key = known[0] if known else len(self.handles) + 1
        self.handles[key] = response.execution_handle
        self._broken.pop(key, None)
        return pb.StreamBoundResult(stream_execution_key=key, response=response)

    def _report(self, event: report_service_pb2.CompactEvent) -> pb.CompactEventResult:
        key = event.stream_execution_key
        try:
            answer = self._judge(key, event)
        except FakeRefusal as refusal:
            if refusal.reason in RETRYABLE:
                self._broken.setdefault(key, event.event_id)
            return pb.CompactEventResult(error=self._streams.item_error(refusal))
        return _compact(answer)

    def _judge(self, key: int, event: report_service_pb2.CompactEvent) -> report_service_pb2.ReportEventResponse:
        if key not in self.handles:
            raise FakeRefusal("EXECUTION_NOT_FOUND", "no such execution")
        if self._broken.get(key) == event.event_id:
            del self._broken[key]
        if key in self._broken:
            raise FakeRefusal("UNAVAILABLE", "an earlier item of this execution must be sent again first")
        fault = self._streams.next_fault("StreamReport")
        if fault is not None and not fault.after_acting:
            raise fault.refusal
        answer = report(self._streams.state, self._producer, to_full_form(event, self.handles[key]))
        if fault is not None:
            raise _CutError
        return answer

    def _renew(self, key: int) -> pb.StreamRenewedResult:
        request = pb.BindExecutionRequest(execution_handle=self.handles.get(key, ""))
        try:
            context = self._streams.bind(self._producer, request).context
        except FakeRefusal as refusal:
            return pb.StreamRenewedResult(stream_execution_key=key, error=self._streams.item_error(refusal))
        renewal = common_pb2.ExecutionRenewal(
            execution_token=context.execution_token, execution_token_expire_time=context.execution_token_expire_time
        )
        return pb.StreamRenewedResult(stream_execution_key=key, renewal=renewal)


def _compact(answer: report_service_pb2.ReportEventResponse) -> pb.CompactEventResult:
    return pb.CompactEventResult(
        accepted=answer.accepted,
        duplicate=answer.duplicate,
        stale=answer.stale,
        reason=answer.reason,
        task_version=answer.task_version,
        step_version=answer.step_version,
        lifecycle_status=answer.lifecycle_status,
        business_status=answer.business_status,
        committed_at_us=answer.committed_at.ToMicroseconds() if answer.HasField("committed_at") else 0,
        changed=answer.changed,
        coalesced=answer.coalesced,
        cancel_requested=answer.cancel_requested,
    )
