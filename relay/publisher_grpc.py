"""Centrifugo's gRPC server API as a publisher: the hot path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import grpc
import grpc.aio
from taskstatus_pb.centrifugo import api_pb2, api_pb2_grpc

from relay.publisher import (
    OutageError,
    Outcome,
    Publication,
    Published,
    RequestRefusedError,
    Retryable,
    outcome_of_channels,
    outcome_of_error,
    padded,
    publish_isolating,
)

if TYPE_CHECKING:
    from taskstatus_pb.centrifugo.api_pb2_grpc import CentrifugoApiAsyncStub

CHANNEL_OPTIONS: Final = (
    # gRPC's own backoff grows to two minutes: a relay that found Centrifugo down would sleep through its return.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # Retries are the outbox's; a hidden one could send a batch twice.
    ("grpc.enable_retries", 0),
)

REFUSED_FOR_GOOD: Final = frozenset(
    {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.OUT_OF_RANGE, grpc.StatusCode.FAILED_PRECONDITION}
)
REFUSED_FOR_NOW: Final = frozenset(
    {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.DATA_LOSS}
)
"""Statuses that one message may have caused; every other status is an outage, of the server or of the configuration."""


class GrpcPublisher:
    """Port ``Publisher`` over ``CentrifugoApi.Batch``; create it inside a running event loop."""

    def __init__(self, target: str, api_key: str, *, timeout_seconds: float) -> None:
        self._channel = grpc.aio.insecure_channel(target, options=CHANNEL_OPTIONS)
        self._stub: CentrifugoApiAsyncStub = api_pb2_grpc.CentrifugoApiStub(self._channel)
        self._metadata = (("authorization", f"apikey {api_key}"),)
        self._timeout_seconds = timeout_seconds

    async def publish(self, batch: Sequence[Publication]) -> list[Outcome]:
        """See ``Publisher.publish``."""
        return await publish_isolating(self._send, batch)

    async def close(self) -> None:
        """Close the channel."""
        await self._channel.close()

    async def _send(self, batch: Sequence[Publication]) -> list[Outcome]:
        request = api_pb2.BatchRequest(commands=[_command(item) for item in batch], parallel=False)
        try:
            response = await self._stub.Batch(request, metadata=self._metadata, timeout=self._timeout_seconds)
        except grpc.aio.AioRpcError as error:
            raise _failure(error.code(), error.details() or "") from error
        outcomes = [_outcome(item, reply) for item, reply in zip(batch, response.replies, strict=False)]
        return padded(outcomes, len(batch))


def _command(item: Publication) -> api_pb2.Command:
    if len(item.channels) == 1:
        publish = api_pb2.PublishRequest(
            channel=item.channels[0],
            data=item.data,
            idempotency_key=item.idempotency_key,
            version=item.version or 0,
            version_epoch=item.version_epoch or "",
        )
        return api_pb2.Command(publish=publish)
    broadcast = api_pb2.BroadcastRequest(
        channels=item.channels,
        data=item.data,
        idempotency_key=item.idempotency_key,
        version=item.version or 0,
        version_epoch=item.version_epoch or "",
    )
    return api_pb2.Command(broadcast=broadcast)


def _outcome(item: Publication, reply: api_pb2.Reply) -> Outcome:
    if reply.HasField("error"):
        return outcome_of_error(reply.error.code, reply.error.message)
    if reply.HasField("publish"):
        return Published()
    if reply.HasField("broadcast"):
        return outcome_of_channels(item.channels, [_channel_outcome(one) for one in reply.broadcast.responses])
    return Retryable("a reply without a result")


def _channel_outcome(response: api_pb2.PublishResponse) -> Outcome:
    if response.HasField("error"):
        return outcome_of_error(response.error.code, response.error.message)
    return Published() if response.HasField("result") else Retryable("a reply without a result")


def _failure(code: grpc.StatusCode, details: str) -> OutageError | RequestRefusedError:
    cause = f"gRPC {code.name}: {details}"
    if code in REFUSED_FOR_GOOD:
        return RequestRefusedError(cause, permanent=True)
    if code in REFUSED_FOR_NOW:
        return RequestRefusedError(cause, permanent=False)
    return OutageError(cause)
