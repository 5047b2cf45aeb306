"""A gRPC proxy before the real Centrifugo that counts what relays publish, and lets a test act in mid-flight."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

import grpc
import grpc.aio
from taskstatus_pb.centrifugo import api_pb2, api_pb2_grpc

from scripts.stack.servers import RunningCentrifugo

OnBatch = Callable[[int], Awaitable[None]]


async def _nothing(_seen: int) -> None:
    """No fault."""


class CountingProxy(api_pb2_grpc.CentrifugoApiServicer):
    """Forwards every batch and counts each message that Centrifugo took, by its channel and key."""

    def __init__(self, upstream: api_pb2_grpc.CentrifugoApiAsyncStub) -> None:
        self._upstream = upstream
        self.taken: Counter[tuple[str, str]] = Counter()
        self.on_batch: OnBatch = _nothing
        """Called with the number of messages taken so far, between a batch's arrival and its answer."""
        self.target = ""
        self._forwarding: set[asyncio.Task[api_pb2.BatchResponse]] = set()

    async def Batch(
        self, request: api_pb2.BatchRequest, context: grpc.aio.ServicerContext[object, object]
    ) -> api_pb2.BatchResponse:
        """See CentrifugoApi. A relay that dies cancels this call, which must not end the count or the fault itself."""
        metadata = tuple((key, value) for key, value in context.invocation_metadata() or () if key == "authorization")
        forwarding = asyncio.create_task(self._forward(request, metadata))
        self._forwarding.add(forwarding)
        return await asyncio.shield(forwarding)

    async def settled(self) -> None:
        """Wait for what is being forwarded; raises what went wrong in any of it."""
        await asyncio.gather(*self._forwarding)

    async def _forward(
        self, request: api_pb2.BatchRequest, metadata: tuple[tuple[str, str | bytes], ...]
    ) -> api_pb2.BatchResponse:
        response = await self._upstream.Batch(request, metadata=metadata, timeout=10)
        for command, reply in zip(request.commands, response.replies, strict=True):
            assert not reply.HasField("error"), reply.error
            self.taken.update(_sent(command))
        await self.on_batch(self.taken.total())
        return response

    def summary_duplicates(self) -> int:
        """How many publish calls of summaries repeated an earlier one."""
        return sum(times - 1 for (_, key), times in self.taken.items() if ":USER_SUMMARY:" in key)

    def summaries(self) -> int:
        """How many different summaries were taken."""
        return sum(":USER_SUMMARY:" in key for _, key in self.taken)


def _sent(command: api_pb2.Command) -> Iterator[tuple[str, str]]:
    if command.HasField("publish"):
        yield command.publish.channel, command.publish.idempotency_key
    else:
        for channel in command.broadcast.channels:
            yield channel, command.broadcast.idempotency_key


@asynccontextmanager
async def counting_proxy(server: RunningCentrifugo) -> AsyncIterator[CountingProxy]:
    """A proxy before a server; ``target`` is its address."""
    async with grpc.aio.insecure_channel(server.ports.grpc_target) as channel:
        proxy = CountingProxy(api_pb2_grpc.CentrifugoApiStub(channel))
        listener = grpc.aio.server()
        api_pb2_grpc.add_CentrifugoApiServicer_to_server(proxy, listener)
        proxy.target = f"127.0.0.1:{listener.add_insecure_port('127.0.0.1:0')}"
        await listener.start()
        try:
            yield proxy
        finally:
            await listener.stop(None)
