"""Centrifugo's HTTP API through its own client library ``cent``: slower than gRPC, and one port less to open."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, cast

from cent import AsyncClient, BatchRequest, BroadcastRequest, CentRequest, PublishRequest
from cent.dto import BatchResult, Response
from cent.exceptions import (
    CentDecodeError,
    CentNetworkError,
    CentTimeoutError,
    CentTransportError,
    CentUnauthorizedError,
)

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

REFUSED_STATUSES: Final = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE})
"""Statuses that one message may have caused; every other status is an outage, of the server or of the configuration."""


class HttpPublisher:
    """Port ``Publisher`` over ``POST …/batch``; create it inside a running event loop."""

    def __init__(self, api_url: str, api_key: str, *, timeout_seconds: float) -> None:
        self._client = AsyncClient(api_url, api_key, timeout=timeout_seconds)

    async def publish(self, batch: Sequence[Publication]) -> list[Outcome]:
        """See ``Publisher.publish``."""
        return await publish_isolating(self._send, batch)

    async def close(self) -> None:
        """Close the session."""
        await self._client.close()

    async def _send(self, batch: Sequence[Publication]) -> list[Outcome]:
        try:
            result = await self._client.batch(_SafeBatch(requests=[_request(item) for item in batch], parallel=False))
        except CentTransportError as error:
            raise _failure(error) from error
        except CentUnauthorizedError as error:
            raise OutageError("HTTP 401: the API key is not accepted") from error
        except (CentNetworkError, CentTimeoutError, CentDecodeError) as error:
            raise OutageError(str(error) or "the answer is not JSON") from error
        replies = cast("list[Mapping[str, Any]]", result.replies)
        outcomes = [_outcome(item, reply) for item, reply in zip(batch, replies, strict=False)]
        return padded(outcomes, len(batch))


class _SafeBatch(BatchRequest):
    """``cent``'s own parsing raises KeyError for the whole batch when one command fails: hand the replies on raw."""

    def parse_response(self, content: str) -> Response[Any]:
        """The replies as the server wrote them; anything but a list of objects, or none, is a decoding error."""
        try:
            raw = [dict(reply) for reply in json.loads(content).get("replies") or ()]
        except (ValueError, AttributeError, TypeError) as error:
            raise CentDecodeError from error
        return Response[BatchResult](result=BatchResult.model_construct(replies=raw))


def _request(item: Publication) -> CentRequest[Any]:
    # base64, so that Centrifugo checks and delivers the very bytes. cent 5.2 does not know the version fields, but
    # sends what it is given.
    fields: dict[str, Any] = {
        "data": None,
        "b64data": base64.b64encode(item.data).decode(),
        "idempotency_key": item.idempotency_key,
    }
    if item.version is not None:
        fields |= {"version": item.version, "version_epoch": item.version_epoch or ""}
    if len(item.channels) == 1:
        return PublishRequest(channel=item.channels[0], **fields)
    return BroadcastRequest(channels=list(item.channels), **fields)


def _outcome(item: Publication, reply: Mapping[str, Any]) -> Outcome:
    if error := reply.get("error"):
        return outcome_of_error(error.get("code", 0), error.get("message", ""))
    if reply.get("publish") is not None:
        return Published()
    broadcast = reply.get("broadcast")
    if broadcast is not None:
        return outcome_of_channels(item.channels, [_channel_outcome(one) for one in broadcast.get("responses") or ()])
    return Retryable("a reply without a result")


def _channel_outcome(response: Mapping[str, Any]) -> Outcome:
    if error := response.get("error"):
        return outcome_of_error(error.get("code", 0), error.get("message", ""))
    return Published() if response.get("result") is not None else Retryable("a reply without a result")


def _failure(error: CentTransportError) -> OutageError | RequestRefusedError:
    cause = f"HTTP {error.status_code}"
    if error.status_code in REFUSED_STATUSES:
        return RequestRefusedError(cause, permanent=True)
    return OutageError(cause)
