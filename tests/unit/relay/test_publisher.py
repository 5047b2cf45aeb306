"""What the publishers share: isolation of a refused message, request sizes, outcomes of replies (O-2)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.publisher import (
    OutageError,
    Outcome,
    Permanent,
    Publication,
    Published,
    RequestRefusedError,
    Retryable,
    bounded_requests,
    outcome_of_channels,
    outcome_of_error,
    padded,
    publish_isolating,
)


def batch(sizes: Sequence[int]) -> list[Publication]:
    """Messages with payloads of these sizes; the channel is the place."""
    return [Publication((str(place),), b"x" * size, str(place)) for place, size in enumerate(sizes)]


@given(poisoned=st.sets(st.integers(0, 29)), count=st.integers(0, 30))
async def test_o2_refused_requests_are_halved_until_each_message_at_fault_stands_alone(
    poisoned: set[int], count: int
) -> None:
    async def send(items: Sequence[Publication]) -> list[Outcome]:
        if any(int(item.channels[0]) in poisoned for item in items):
            raise RequestRefusedError("HTTP 400", permanent=True)
        return [Published()] * len(items)

    outcomes = await publish_isolating(send, batch([1] * count))

    assert outcomes == [Permanent("HTTP 400") if place in poisoned else Published() for place in range(count)]


async def test_an_outage_is_not_halved() -> None:
    calls = []

    async def send(items: Sequence[Publication]) -> list[Outcome]:
        calls.append(len(items))
        raise OutageError("down")

    with pytest.raises(OutageError):
        await publish_isolating(send, batch([1] * 8))
    assert calls == [8]


@given(sizes=st.lists(st.integers(0, 30)))
def test_requests_keep_every_message_in_order_and_within_the_limit(sizes: list[int]) -> None:
    messages = batch(sizes)

    requests = list(bounded_requests(messages, max_bytes=20))

    assert [item for request in requests for item in request] == messages
    for request in requests:
        assert len(request) == 1 or sum(len(item.data) for item in request) <= 20


@pytest.mark.parametrize(
    ("code", "kind"),
    [(100, Retryable), (102, Permanent), (104, Retryable), (107, Permanent), (108, Retryable), (9999, Retryable)],
)
def test_o2_error_codes_are_permanent_only_when_the_same_request_always_fails(code: int, kind: type[Outcome]) -> None:
    assert isinstance(outcome_of_error(code, "text"), kind)


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([Published(), Published()], Published()),
        ([Published(), Permanent("x")], Permanent("b: x")),
        ([Permanent("x"), Retryable("y")], Retryable("b: y")),
        ([Permanent("x"), Permanent("y")], Permanent("a: x")),
        ([Published()], Retryable("1 replies for 2 channels")),
    ],
)
def test_o2_a_broadcast_succeeds_only_when_every_channel_took_it(outcomes: list[Outcome], expected: Outcome) -> None:
    assert outcome_of_channels(["a", "b"], outcomes) == expected


def test_o2_missing_replies_are_never_successes_and_surplus_ones_are_dropped() -> None:
    assert padded([Published()], 2) == [Published(), Retryable("1 replies for 2 commands")]
    assert padded([Published()] * 3, 2) == [Published()] * 2
