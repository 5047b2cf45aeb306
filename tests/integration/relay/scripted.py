"""Servers that speak Centrifugo's two APIs and give the answers that a real one cannot be made to give."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import grpc
import grpc.aio
from aiohttp import web
from taskstatus_pb.centrifugo import api_pb2, api_pb2_grpc

from relay.publisher import Publisher
from relay.publisher_grpc import GrpcPublisher
from relay.publisher_http import HttpPublisher


@dataclass(slots=True)
class Script:
    """How to answer a batch."""

    replies: int | None = None
    """So many successes, instead of one for each command."""
    empty: bool = False
    """Replies without a result."""
    http_status: int = 200
    grpc_status: grpc.StatusCode = grpc.StatusCode.OK
    poison: str = ""
    """Fail only batches that hold a message to this channel."""
    calls: int = 0

    def count(self, channels: list[str]) -> int:
        """How many replies to give."""
        return len(channels) if self.replies is None else self.replies

    def fails(self, channels: list[str]) -> bool:
        """Whether this call fails as a whole."""
        self.calls += 1
        return not self.poison or self.poison in channels


class _Servicer(api_pb2_grpc.CentrifugoApiServicer):
    def __init__(self, script: Script) -> None:
        self._script = script

    async def Batch(
        self, request: api_pb2.BatchRequest, context: grpc.aio.ServicerContext[object, object]
    ) -> api_pb2.BatchResponse:
        channels = [command.publish.channel for command in request.commands]
        if self._script.fails(channels) and self._script.grpc_status is not grpc.StatusCode.OK:
            await context.abort(self._script.grpc_status, "scripted")
        reply = api_pb2.Reply() if self._script.empty else api_pb2.Reply(publish=api_pb2.PublishResult(offset=1))
        return api_pb2.BatchResponse(replies=[reply] * self._script.count(channels))


@asynccontextmanager
async def scripted_grpc(script: Script) -> AsyncIterator[Publisher]:
    """A publisher connected to a scripted gRPC server."""
    server = grpc.aio.server()
    api_pb2_grpc.add_CentrifugoApiServicer_to_server(_Servicer(script), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    publisher = GrpcPublisher(f"127.0.0.1:{port}", "key", timeout_seconds=5)
    try:
        yield publisher
    finally:
        await publisher.close()
        await server.stop(None)


@asynccontextmanager
async def scripted_http(script: Script) -> AsyncIterator[Publisher]:
    """A publisher connected to a scripted HTTP server."""

    async def batch(request: web.Request) -> web.Response:
        body = await request.json()
        channels = [command["publish"]["channel"] for command in body["commands"]]
        if script.fails(channels) and script.http_status != 200:
            return web.Response(status=script.http_status, text="scripted")
        reply: dict[str, object] = {} if script.empty else {"publish": {"offset": 1}}
        return web.json_response({"replies": [reply] * script.count(channels)})

    application = web.Application()
    application.router.add_post("/api/batch", batch)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    publisher = HttpPublisher(f"http://{host}:{port}/api", "key", timeout_seconds=5)
    try:
        yield publisher
    finally:
        await publisher.close()
        await runner.cleanup()
