"""Refusals that pass: every transport names the same reason and tells when to send the same again (T-3, N-1)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, cast

import grpc.aio
import httpx
import pytest
from google.protobuf.message import Message
from taskstatus_pb.v1 import common_pb2

from gateway_rest.app import RestSettings, create_app
from scripts.stack.devkeys import DevKeys
from taskstatus.adapters.clock import SystemClock
from taskstatus.application.identity import Identity, Role
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.reasons import Reason
from taskstatus.entrypoints.grpc.server import GrpcConfig, GrpcServer
from taskstatus.entrypoints.grpc.stream_config import StreamConfig, StreamParts
from taskstatus.entrypoints.grpc.stream_server import StreamServer
from taskstatus.entrypoints.wire.call import CallInfo
from tests.parity.outcome import Outcome
from tests.parity.stream_line import StreamLines
from tests.parity.transports import TRANSPORTS, Lines, Request
from tests.support.clients import WORKER, Tokens

RETRY_SECONDS = 1.5
FAULTS: Mapping[str, tuple[Exception, Reason, float | None]] = {
    "full queue": (
        RefusedError(Reason.RATE_LIMITED, "too much is waiting", retry_after_seconds=RETRY_SECONDS),
        Reason.RATE_LIMITED,
        RETRY_SECONDS,
    ),
    "store away": (
        RefusedError(Reason.UNAVAILABLE, "the store is away", retry_after_seconds=RETRY_SECONDS),
        Reason.UNAVAILABLE,
        RETRY_SECONDS,
    ),
    "fault of the service": (RuntimeError("secret detail"), Reason.INTERNAL, None),
}


@dataclass
class Failing:
    """A dispatch, and an authentication of streams, that fail as they are told."""

    error: Exception

    async def __call__(self, method: str, request: Message, call: CallInfo) -> Message:
        raise self.error

    async def authenticate(self, method: str, call: CallInfo) -> Identity:
        raise self.error

    def call_ended(self, transport: str, method: str, status: str, seconds: float) -> None:
        """Of no interest here."""

    def streams_open(self, streams: int, executions: int) -> None:
        """Of no interest here."""


@pytest.fixture
async def failing_lines() -> AsyncIterator[tuple[Failing, Lines]]:
    """Both transports over a dispatch that fails."""
    failing = Failing(RuntimeError())
    async with AsyncExitStack() as stack:
        clock = SystemClock()
        parts = StreamParts(*(cast(Any, None) for _ in range(5)), clock, StreamConfig())
        streams = StreamServer(parts, failing.authenticate, failing)
        server = GrpcServer(GrpcConfig("127.0.0.1:0", drain_grace_seconds=1.0), failing, clock, streams)
        port = await server.start()
        stack.push_async_callback(server.stop)
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(f"127.0.0.1:{port}"))
        app = create_app(failing, clock, lambda: True, RestSettings())
        transport = httpx.ASGITransport(app)
        rest = await stack.enter_async_context(httpx.AsyncClient(transport=transport, base_url="http://rest.test"))
        yield failing, Lines(channel, rest, StreamLines(channel))


@pytest.mark.parametrize("name", FAULTS)
async def test_n1_passing_refusals_are_told_alike_with_their_pause(
    failing_lines: tuple[Failing, Lines], dev_keys: DevKeys, name: str
) -> None:
    failing, lines = failing_lines
    failing.error, reason, pause = FAULTS[name]
    token = Tokens(dev_keys.identity_file).service(WORKER, Role.WORKER)
    event = Request(event_id="0" * 32, event_type=common_pb2.STEP_STARTED, source_seq=1)
    outcomes: dict[str, Outcome] = {way: (await send(lines, token, [event]))[0] for way, send in TRANSPORTS.items()}
    assert {outcome.reason for outcome in outcomes.values()} == {reason}
    assert {outcome.retryable for outcome in outcomes.values()} == {True}
    assert len({outcome.code for outcome in outcomes.values()}) == 1
    pauses: dict[str, Any] = {way: outcome.retry_after for way, outcome in outcomes.items()}
    assert {pauses[way] for way in TRANSPORTS if way.startswith("gRPC")} == {pause}
    # Whole seconds, at least one, where HTTP tells it.
    assert {pauses[way] for way in TRANSPORTS if way.startswith("REST")} == {2.0 if pause else 1.0}
    assert not any("secret" in outcome.message for outcome in outcomes.values())
