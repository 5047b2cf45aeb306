"""One gRPC channel to the service, with the caller's identity, deadlines and re-sending."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message
from taskstatus_pb.v1 import (
    bind_execution_service_pb2_grpc,
    heartbeat_service_pb2_grpc,
    query_service_pb2_grpc,
    register_service_pb2_grpc,
    report_service_pb2_grpc,
)

from taskstatus.sdk.errors import from_call
from taskstatus.sdk.retry import Retrier, RetryPolicy, Timing

TokenProvider = Callable[[], str | Awaitable[str]]
"""Gives the service's own JWT. Asked before every attempt, so it should keep one and renew it in time."""
TraceProvider = Callable[[], str | None]
"""Gives the W3C ``traceparent`` of the caller's current span, if there is one."""

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)

CHANNEL_OPTIONS: Final[tuple[tuple[str, int | str], ...]] = (
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    # A restarted service is found within seconds, not after the default back-off of up to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # Only Retrier knows which refusals may be sent again.
    ("grpc.enable_retries", 0),
    ("grpc.service_config", json.dumps({"loadBalancingConfig": [{"round_robin": {}}]})),
)


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM material. All empty: the machine's own roots and no client certificate."""

    root_certificates: bytes | None = None
    private_key: bytes | None = None
    certificate_chain: bytes | None = None


class Connection:
    """A channel that may be shared by any number of workers and coordinators of one loop. Made by :func:`connect`."""

    def __init__(
        self,
        channel: grpc.aio.Channel,
        token_provider: TokenProvider,
        traceparent: TraceProvider | None,
        retrier: Retrier,
        timing: Timing,
    ) -> None:
        self._channel = channel
        self._token_provider = token_provider
        self._traceparent = traceparent
        self._retrier = retrier
        self.timing = timing
        self.policy = retrier.policy
        self.register = register_service_pb2_grpc.RegisterServiceStub(channel)
        self.report = report_service_pb2_grpc.ReportServiceStub(channel)
        self.bind = bind_execution_service_pb2_grpc.BindExecutionServiceStub(channel)
        self.heartbeat = heartbeat_service_pb2_grpc.HeartbeatServiceStub(channel)
        self.query = query_service_pb2_grpc.QueryServiceStub(channel)

    async def call(
        self,
        method: grpc.aio.UnaryUnaryMultiCallable[Request, Response],
        request: Request,
        *,
        patience_seconds: float | None = None,
    ) -> Response:
        """Call a method of one of the stubs, and send the very same message again while that may help.

        Raises TaskStatusError: a refusal at once, a passing fault after ``patience_seconds`` (missing: the policy's).
        """

        async def attempt(timeout_seconds: float) -> Response:
            return await self._attempt(method, request, timeout_seconds)

        what = type(request).__name__.removesuffix("Request")
        return await self._retrier.run(attempt, what=what, patience_seconds=patience_seconds)

    async def call_once(
        self, method: grpc.aio.UnaryUnaryMultiCallable[Request, Response], request: Request
    ) -> Response:
        """Call a method and do not send the message again, whatever happens. Raises TaskStatusError."""
        return await self._attempt(method, request, self.policy.attempt_timeout_seconds)

    async def _attempt(
        self, method: grpc.aio.UnaryUnaryMultiCallable[Request, Response], request: Request, timeout_seconds: float
    ) -> Response:
        metadata = await self.metadata()
        try:
            return await method(request, timeout=timeout_seconds, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            raise from_call(error) from error

    async def close(self) -> None:
        """Close the channel; calls in flight are cancelled."""
        await self._channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def metadata(self) -> tuple[tuple[str, str], ...]:
        """Who calls, and in which trace; for a call that is not made by :meth:`call`."""
        given = self._token_provider()
        token = await given if inspect.isawaitable(given) else given
        metadata = [("authorization", f"Bearer {token}")]
        if self._traceparent is not None and (traceparent := self._traceparent()):
            metadata.append(("traceparent", traceparent))
        return tuple(metadata)


def connect(
    target: str,
    token_provider: TokenProvider,
    *,
    tls: Tls | None = None,
    traceparent: TraceProvider | None = None,
    retry: RetryPolicy | None = None,
    timing: Timing | None = None,
) -> Connection:
    """Open a connection to ``host:port`` or ``dns:///host:port`` (all its addresses in turn).

    Without ``tls`` the channel is plain text. Call it inside the running loop; nothing is sent before the first call.
    """
    clock = timing or Timing()
    retrier = Retrier(retry or RetryPolicy(), clock)
    return Connection(_channel(target, tls), token_provider, traceparent, retrier, clock)


def _channel(target: str, tls: Tls | None) -> grpc.aio.Channel:
    if tls is None:
        return grpc.aio.insecure_channel(target, options=CHANNEL_OPTIONS)
    credentials = grpc.ssl_channel_credentials(tls.root_certificates, tls.private_key, tls.certificate_chain)
    return grpc.aio.secure_channel(target, credentials, options=CHANNEL_OPTIONS)
