"""The port through which messages leave the relay, and what its adapters share (O-2).

An adapter sends one batch in one request and tells the fate of each item. The three kinds of failure never mix: an item
that may succeed later (``Retryable``), an item that never will (``Permanent``), and a server that took nothing
(``OutageError``).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, assert_never

UNKNOWN_CHANNEL: Final = 102
BAD_REQUEST: Final = 107
PERMANENT_CODES: Final = frozenset({UNKNOWN_CHANNEL, BAD_REQUEST})
"""Centrifugo's errors that the same request will always meet; 100 (internal), 108 (not available) and others pass."""

BATCH_BYTES: Final = 700 * 1024
"""Payload of one request. Centrifugo's gRPC API refuses requests over 4 MiB; base64 adds a third on HTTP, where bodies
over 1 MiB would block the event loop while they are written."""


@dataclass(frozen=True, slots=True)
class Publication:
    """One message for one or more channels."""

    channels: tuple[str, ...]
    data: bytes
    """JSON, delivered byte for byte."""
    idempotency_key: str
    version: int | None = None
    """Only on channels that carry one object's states; then on every publication there, with ``version_epoch``."""
    version_epoch: str | None = None


@dataclass(frozen=True, slots=True)
class Published:
    """Every channel took the message (or had it already)."""


@dataclass(frozen=True, slots=True)
class Retryable:
    """The message may be taken later."""

    cause: str


@dataclass(frozen=True, slots=True)
class Permanent:
    """The message will never be taken as it is."""

    cause: str


Outcome = Published | Retryable | Permanent


class OutageError(Exception):
    """The server took nothing, or nobody knows: refused connection, time-out of the whole request, wrong key, 5xx."""


class RequestRefusedError(Exception):
    """The server refused the request as a whole, so that one item may be the cause. Stays inside the adapters."""

    def __init__(self, cause: str, *, permanent: bool) -> None:
        super().__init__(cause)
        self.outcome: Outcome = Permanent(cause) if permanent else Retryable(cause)


class Publisher(Protocol):
    """Sends messages to Centrifugo."""

    async def publish(self, batch: Sequence[Publication]) -> list[Outcome]:
        """Send all items in their order, in one request; one outcome per item, at the same place.

        The caller keeps a request within ``BATCH_BYTES`` (``bounded_requests``).
        A missing reply is never a success. Raises OutageError when nothing can be sent.
        """
        ...

    async def close(self) -> None:
        """Give the connections back."""
        ...


Send = Callable[[Sequence[Publication]], Awaitable[list[Outcome]]]


async def publish_isolating(send: Send, batch: Sequence[Publication]) -> list[Outcome]:
    """Send the batch; when the server refuses the request as a whole, halve it until the item at fault stands alone."""
    if not batch:
        return []
    try:
        return await send(batch)
    except RequestRefusedError as refused:
        if len(batch) == 1:
            return [refused.outcome]
    middle = len(batch) // 2
    first = await publish_isolating(send, batch[:middle])
    return first + await publish_isolating(send, batch[middle:])


def bounded_requests(batch: Sequence[Publication], max_bytes: int = BATCH_BYTES) -> Iterator[Sequence[Publication]]:
    """Cut a batch into runs of at most ``max_bytes`` of payload, each of at least one item, keeping the order."""
    start, size = 0, 0
    for place, publication in enumerate(batch):
        if place > start and size + len(publication.data) > max_bytes:
            yield batch[start:place]
            start, size = place, 0
        size += len(publication.data)
    if start < len(batch):
        yield batch[start:]


def outcome_of_error(code: int, message: str) -> Outcome:
    """The outcome for one of Centrifugo's error codes."""
    cause = f"centrifugo error {code}: {message}"
    return Permanent(cause) if code in PERMANENT_CODES else Retryable(cause)


def outcome_of_channels(channels: Sequence[str], outcomes: Sequence[Outcome]) -> Outcome:
    """One outcome for a broadcast: retryable while any channel may still take it, then permanent, then published."""
    if len(outcomes) < len(channels):
        return Retryable(f"{len(outcomes)} replies for {len(channels)} channels")
    permanent: Permanent | None = None
    for channel, outcome in zip(channels, outcomes, strict=False):
        match outcome:
            case Retryable(cause):
                return Retryable(f"{channel}: {cause}")
            case Permanent(cause):
                permanent = permanent or Permanent(f"{channel}: {cause}")
            case Published():
                pass
            case _:
                assert_never(outcome)
    return permanent or Published()


def padded(outcomes: list[Outcome], expected: int) -> list[Outcome]:
    """The outcomes of a reply list, with a retryable one for each reply that is missing."""
    missing = Retryable(f"{len(outcomes)} replies for {expected} commands")
    return (outcomes + [missing] * (expected - len(outcomes)))[:expected]
