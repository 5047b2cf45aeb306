"""StreamExecutions as a transport of the run: one stream for each caller and replica, opened again when it breaks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from random import Random
from typing import Any

import grpc.aio
from taskstatus_pb.v1 import bind_execution_service_pb2 as pb
from taskstatus_pb.v1 import common_pb2, report_service_pb2

from tests.chaos.wire import compact_event
from tests.simulation.items import Item, Pulse
from tests.support.clients import Caller
from tests.support.streams import StreamClient

OPEN_SECONDS = 2.5
_BROKEN = (grpc.aio.AioRpcError, asyncio.InvalidStateError, grpc.aio.UsageError, asyncio.CancelledError, TimeoutError)


class BrokenStreamError(Exception):
    """The stream broke or did not answer in time: what became of the frame is unknown."""


class LiveStream:
    """One stream with what is bound on it."""

    def __init__(self, client: StreamClient, closing: AsyncExitStack) -> None:
        self._client = client
        self._closing = closing
        self._keys: dict[str, int] = {}

    @property
    def is_over(self) -> bool:
        """Whether another must be opened for what comes next."""
        return self._client.going_away.is_set() or bool(self._client.call.done())

    async def bind(self, handles: Sequence[str], timeout: float) -> dict[str, str]:
        """Bind what is not bound yet; why the others could not be, by handle."""
        missing = [handle for handle in dict.fromkeys(handles) if handle not in self._keys]
        if not missing:
            return {}
        wanted = [pb.BindExecutionRequest(execution_handle=handle) for handle in missing]
        results = (await self._ask(timeout, bind=pb.StreamBind(executions=wanted))).bound.results
        refused = {}
        for handle, result in zip(missing, results, strict=True):
            if result.HasField("response"):
                self._keys[handle] = result.stream_execution_key
            else:
                refused[handle] = common_pb2.Reason.Name(result.error.reason)
        return refused

    async def report(self, items: Sequence[Item], timeout: float) -> Sequence[pb.CompactEventResult]:
        """Report events of bound executions in one frame."""
        events = [self._event(item) for item in items]
        return (await self._ask(timeout, report=pb.StreamReport(events=events))).reported.results

    def _event(self, item: Item) -> report_service_pb2.CompactEvent:
        event = compact_event(item)
        event.ClearField("execution_handle")
        event.stream_execution_key = self._keys[item.handle]
        return event

    async def beat(self, pulses: Sequence[Pulse], timeout: float) -> list[str]:
        """Beat for bound executions in one frame; why each was not accepted, or nothing."""
        keys = [self._keys[pulse.assignment.handle] for pulse in pulses]
        beats = [
            pb.StreamBeat(stream_execution_key=key, heartbeat_seq=pulse.heartbeat_seq)
            for key, pulse in zip(keys, pulses, strict=True)
        ]
        answer = (await self._ask(timeout, heartbeat=pb.StreamHeartbeat(beats=beats))).beaten
        refused = {one.stream_execution_key: common_pb2.Reason.Name(one.reason) for one in answer.refused}
        return [refused.get(key, "") for key in keys]

    async def close(self) -> None:
        """Cancel it."""
        await self._closing.aclose()

    async def _ask(self, timeout: float, **frame: Any) -> pb.StreamExecutionsResponse:
        try:
            async with asyncio.timeout(timeout):
                answer = await self._client.send(**frame)
                # Not cancelled by the timeout: its answer may still come, and must find its place.
                return await asyncio.shield(answer)
        except _BROKEN as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            raise BrokenStreamError(repr(error)) from error


class StreamPool:
    """Opens streams over any of the channels and hands them out."""

    def __init__(self, channels: Sequence[grpc.aio.Channel], random: Random) -> None:
        self._channels = channels
        self._random = random
        self._streams: dict[tuple[str, int], LiveStream] = {}
        self._opening: dict[tuple[str, int], asyncio.Lock] = {}

    async def one(self, token: str) -> LiveStream:
        """A stream of the caller with this JWT to any replica. Raises BrokenStreamError."""
        key = (token, self._random.randrange(len(self._channels)))
        async with self._opening.setdefault(key, asyncio.Lock()):
            stream = self._streams.get(key)
            if stream is None or stream.is_over:
                if stream is not None:
                    await stream.close()
                stream = self._streams[key] = await self._open(Caller(self._channels[key[1]], token))
        return stream

    async def close(self) -> None:
        """End every stream."""
        for stream in self._streams.values():
            await stream.close()

    async def _open(self, caller: Caller) -> LiveStream:
        closing = AsyncExitStack()
        client = StreamClient(caller)
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                await closing.enter_async_context(client)
        except (grpc.aio.AioRpcError, TimeoutError) as error:
            client.call.cancel()
            raise BrokenStreamError(repr(error)) from error
        return LiveStream(client, closing)


def response_of(result: pb.CompactEventResult) -> report_service_pb2.ReportEventResponse:
    """The answer of one event as the other transports give it, as far as the run asks for it."""
    response = report_service_pb2.ReportEventResponse(
        accepted=result.accepted,
        duplicate=result.duplicate,
        stale=result.stale,
        reason=result.reason,
        task_version=result.task_version,
        changed=result.changed,
        coalesced=result.coalesced,
    )
    if result.committed_at_us:
        response.committed_at.FromMicroseconds(result.committed_at_us)
    return response
