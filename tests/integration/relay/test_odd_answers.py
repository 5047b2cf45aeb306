"""Answers that a real Centrifugo cannot be made to give, on both publishers (O-2)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import grpc
import pytest

from relay.publisher import OutageError, Permanent, Publication, Published, Publisher, Retryable
from tests.integration.relay.scripted import Script, scripted_grpc, scripted_http

Connect = Callable[[Script], AbstractAsyncContextManager[Publisher]]

BOTH = pytest.mark.parametrize("connect", [scripted_grpc, scripted_http], ids=["grpc", "http"])


def batch(count: int) -> list[Publication]:
    """Messages to channels ``c0``, ``c1``, …"""
    return [Publication((f"c{number}",), b"{}", f"k{number}") for number in range(count)]


@BOTH
@pytest.mark.parametrize("replies", [0, 3])
async def test_o2_a_short_reply_list_is_never_a_success(connect: Connect, replies: int) -> None:
    async with connect(Script(replies=replies)) as publisher:
        outcomes = await publisher.publish(batch(5))

    missing = Retryable(f"{replies} replies for 5 commands")
    assert outcomes == [Published()] * replies + [missing] * (5 - replies)


@BOTH
async def test_o2_a_reply_without_a_result_is_never_a_success(connect: Connect) -> None:
    async with connect(Script(empty=True)) as publisher:
        assert await publisher.publish(batch(2)) == [Retryable("a reply without a result")] * 2


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500, 502, 503, 504])
async def test_o2_http_statuses_of_the_server_are_outages(status: int) -> None:
    async with scripted_http(Script(http_status=status)) as publisher:
        with pytest.raises(OutageError, match=str(status)):
            await publisher.publish(batch(2))


@pytest.mark.parametrize("status", [400, 413])
async def test_o2_a_message_that_spoils_its_http_request_fails_alone(status: int) -> None:
    script = Script(http_status=status, poison="c5")
    async with scripted_http(script) as publisher:
        outcomes = await publisher.publish(batch(8))

    assert outcomes == [Published()] * 5 + [Permanent(f"HTTP {status}")] + [Published()] * 2
    assert script.calls == 7


@pytest.mark.parametrize(
    "status",
    [
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNIMPLEMENTED,
    ],
)
async def test_o2_grpc_statuses_of_the_server_are_outages(status: grpc.StatusCode) -> None:
    async with scripted_grpc(Script(grpc_status=status)) as publisher:
        with pytest.raises(OutageError, match=status.name):
            await publisher.publish(batch(2))


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, Permanent),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, Retryable),
        (grpc.StatusCode.INTERNAL, Retryable),
    ],
)
async def test_o2_a_message_that_spoils_its_grpc_request_fails_alone(
    status: grpc.StatusCode, kind: type[Permanent | Retryable]
) -> None:
    script = Script(grpc_status=status, poison="c0")
    async with scripted_grpc(script) as publisher:
        outcomes = await publisher.publish(batch(4))

    assert [type(outcome) for outcome in outcomes] == [kind, Published, Published, Published]
