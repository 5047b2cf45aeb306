"""One suite for both publishers, on the real Centrifugo (O-1, O-2)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest

from relay.publisher import OutageError, Permanent, Publication, Published, Publisher, bounded_requests
from relay.publisher_grpc import GrpcPublisher
from relay.publisher_http import HttpPublisher
from scripts.stack.servers import RunningCentrifugo
from tests.integration.relay.history import History
from tests.integration.relay.waiting import until, until_suspended

Make = Callable[[RunningCentrifugo, str], Publisher]


def make_grpc(server: RunningCentrifugo, api_key: str) -> Publisher:
    """A publisher over gRPC."""
    return GrpcPublisher(server.ports.grpc_target, api_key, timeout_seconds=2)


def make_http(server: RunningCentrifugo, api_key: str) -> Publisher:
    """A publisher over HTTP."""
    return HttpPublisher(server.ports.api_url, api_key, timeout_seconds=2)


@pytest.fixture(params=[make_grpc, make_http], ids=["grpc", "http"])
def make(request: pytest.FixtureRequest) -> Make:
    """Which publisher."""
    chosen: Make = request.param
    return chosen


@pytest.fixture
async def publisher(make: Make, centrifugo: RunningCentrifugo) -> AsyncIterator[Publisher]:
    """A publisher on the shared server."""
    made = make(centrifugo, centrifugo.api_key)
    yield made
    await made.close()


@pytest.fixture
def channel(request: pytest.FixtureRequest) -> str:
    """A task_user channel of this test alone, with a name that percent-encoding made."""
    return f"task_user:acme/auth0%7C{abs(hash(request.node.nodeid))}"


def message(channel: str, number: int = 0, text: str = "") -> Publication:
    """A small publication."""
    data = json.dumps({"number": number, "text": text or f"message {number} ✓"}, ensure_ascii=False)
    return Publication((channel,), data.encode(), idempotency_key=f"key-{number}")


async def test_a_batch_arrives_whole_and_in_its_order(publisher: Publisher, history: History, channel: str) -> None:
    batch = [message(channel, number) for number in range(100)]

    assert await publisher.publish(batch) == [Published()] * 100

    assert [data["number"] for data in await history.of(channel)] == list(range(100))
    assert (await history.of(channel))[7]["text"] == "message 7 ✓"


async def test_an_empty_batch_is_nothing(publisher: Publisher) -> None:
    assert await publisher.publish([]) == []


async def test_o2_one_refused_message_does_not_fail_its_batch(
    publisher: Publisher, history: History, channel: str
) -> None:
    batch = [
        message(channel, 1),
        message("no_such_namespace:x", 2),
        replace(message(channel, 3), data=b"no json"),
        replace(message(channel, 4), data=b""),
        message(channel, 5),
    ]

    outcomes = await publisher.publish(batch)

    assert [type(outcome) for outcome in outcomes] == [Published, Permanent, Permanent, Permanent, Published]
    assert isinstance(outcomes[1], Permanent)
    assert outcomes[1].cause.startswith("centrifugo error 102: ")
    assert isinstance(outcomes[2], Permanent)
    assert outcomes[2].cause.startswith("centrifugo error 107: ")
    assert [data["number"] for data in await history.of(channel)] == [1, 5]


async def test_several_channels_take_the_same_bytes(publisher: Publisher, history: History, channel: str) -> None:
    channels = tuple(f"{channel}-{number}" for number in range(20))

    assert await publisher.publish([replace(message(channel, 1), channels=channels)]) == [Published()]

    for one in channels:
        assert [data["number"] for data in await history.of(one)] == [1]


async def test_one_refused_channel_fails_the_message_and_names_itself(
    publisher: Publisher, history: History, channel: str
) -> None:
    batch = [replace(message(channel, 1), channels=(channel, "nowhere:x")), message(channel, 2)]

    outcomes = await publisher.publish(batch)

    assert isinstance(outcomes[0], Permanent)
    assert outcomes[0].cause.startswith("nowhere:x: centrifugo error 102")
    assert outcomes[1] == Published()
    assert [data["number"] for data in await history.of(channel)] == [1, 2]


async def test_a_repeated_key_is_answered_as_published_and_dropped(
    publisher: Publisher, history: History, channel: str
) -> None:
    first, again = message(channel, 1), replace(message(channel, 1), channels=(channel, f"{channel}-b"))

    assert await publisher.publish([first, first]) == [Published(), Published()]
    assert await publisher.publish([again]) == [Published()]

    assert len(await history.of(channel)) == 1
    assert len(await history.of(f"{channel}-b")) == 1


async def test_an_older_version_is_answered_as_published_and_dropped(
    publisher: Publisher, history: History, channel: str
) -> None:
    detail = channel.replace("task_user:", "task_detail:")
    versions = (2, 1, 2, 2**53 - 1, 3)
    batch = [
        replace(message(detail, number), version=version, version_epoch="1") for number, version in enumerate(versions)
    ]

    assert await publisher.publish(batch) == [Published()] * 5

    assert [data["number"] for data in await history.of(detail)] == [0, 3]


async def test_another_version_epoch_starts_again(publisher: Publisher, history: History, channel: str) -> None:
    detail = channel.replace("task_user:", "task_detail:")
    old = replace(message(detail, 1), version=9, version_epoch="1")
    restored = replace(message(detail, 2), version=3, version_epoch="2")

    await publisher.publish([old, restored])

    assert [data["number"] for data in await history.of(detail)] == [1, 2]


async def test_large_messages_pass(publisher: Publisher, history: History, channel: str) -> None:
    large = message(channel, 1, text="x" * 250_000)
    batch = [replace(large, idempotency_key=f"k{number}") for number in range(11)]

    for request in bounded_requests(batch):
        assert await publisher.publish(request) == [Published()] * len(request)

    assert len(await history.of(channel)) == 11


async def test_o2_a_wrong_key_is_an_outage_of_the_configuration(
    make: Make, centrifugo: RunningCentrifugo, channel: str
) -> None:
    publisher = make(centrifugo, "wrong")
    with pytest.raises(OutageError, match=r"401|UNAUTHENTICATED"):
        await publisher.publish([message(channel)])
    await publisher.close()


async def test_o2_a_dead_server_is_an_outage_until_it_is_back(
    make: Make, own_centrifugo: RunningCentrifugo, channel: str
) -> None:
    publisher = make(own_centrifugo, own_centrifugo.api_key)
    assert await publisher.publish([message(channel, 1)]) == [Published()]

    own_centrifugo.kill9()
    with pytest.raises(OutageError):
        await publisher.publish([message(channel, 2)])
    own_centrifugo.restart()

    assert await until_taken(publisher, message(channel, 2)) == [Published()]
    await publisher.close()


async def test_o2_a_silent_server_is_an_outage_after_the_time_out(
    make: Make, own_centrifugo: RunningCentrifugo, channel: str
) -> None:
    publisher = make(own_centrifugo, own_centrifugo.api_key)
    assert await publisher.publish([message(channel, 1)]) == [Published()]

    own_centrifugo.pause()
    await until_suspended(own_centrifugo.pid)
    with pytest.raises(OutageError):
        await publisher.publish([message(channel, 2)])
    own_centrifugo.resume()

    assert await until_taken(publisher, message(channel, 2)) == [Published()]
    await publisher.close()


async def until_taken(publisher: Publisher, item: Publication) -> object:
    """The answer of a server that is coming back."""
    answers: list[object] = []

    async def taken() -> bool:
        try:
            answers.append(await publisher.publish([item]))
        except OutageError:
            return False
        return True

    await until(taken, "the server is back")
    return answers[0]
