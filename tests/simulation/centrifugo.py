"""Centrifugo as the relay sees it: channels with a version gate and idempotency keys, and a line that breaks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from relay.publisher import OutageError, Outcome, Permanent, Published, Retryable, outcome_of_channels
from relay.publisher import Publication as Request
from tests.history.model import Publication
from tests.simulation.faults import Faults, Process, Trace
from tests.simulation.options import Fault

IDEMPOTENCY_SECONDS = 300.0
"""How long a channel remembers a key."""


@dataclass(slots=True)
class _Channel:
    keys: dict[str, float] = field(default_factory=dict)
    top_version: int = 0
    epoch: str = ""

    def takes(self, key: str, version: int, epoch: str, now: float) -> bool:
        """Whether subscribers get the message; a refused one is a success all the same, as the server answers it."""
        if self.keys.get(key, -1.0) >= now:
            return False
        self.keys[key] = now + IDEMPOTENCY_SECONDS
        is_stale = 0 < version <= self.top_version and epoch == self.epoch
        if is_stale:
            return False
        self.top_version, self.epoch = version, epoch
        return True


class Centrifugo:
    """The server: every publication that its subscribers receive, in order."""

    def __init__(self, now: Callable[[], float], read_clock: Callable[[], datetime], trace: Trace) -> None:
        self._now = now
        self._read_clock = read_clock
        self._trace = trace
        self._channels: dict[str, _Channel] = {}
        self.publications: list[Publication] = []

    def publish(self, channel: str, item: Request) -> None:
        """Take one message for one channel."""
        known = self._channels.setdefault(channel, _Channel())
        if known.takes(item.idempotency_key, item.version or 0, item.version_epoch or "", self._now()):
            self.publications.append(Publication(channel, item.data, self._read_clock(), item.version))
            self._trace.add("centrifugo", f"{channel[-24:]} shows {item.idempotency_key[-40:]}")


class SimulatedPublisher:
    """Port ``Publisher`` of one relay process, with the answers that adapters make of a broken line."""

    def __init__(self, server: Centrifugo, process: Process, faults: Faults) -> None:
        self._server = server
        self._process = process
        self._faults = faults

    async def publish(self, batch: Sequence[Request]) -> list[Outcome]:
        """See ``Publisher``."""
        await self._process.enter()
        if self._faults.publisher_is_down:
            raise OutageError("connection refused")
        taken = len(batch)
        is_lost = self._faults.happens(Fault.PUBLISH_LOST, self._process.name)
        if is_lost:
            taken = self._faults.random.randint(0, len(batch))
        outcomes = [await self._publish_item(item) for item in batch[:taken]]
        await self._process.enter()
        if is_lost:
            raise OutageError("no reply in time")
        return outcomes

    async def close(self) -> None:
        """Nothing to close."""

    async def _publish_item(self, item: Request) -> Outcome:
        outcomes = [self._publish_to(channel, item) for channel in item.channels]
        # Another relay's request may be served in between.
        await asyncio.sleep(0)
        return outcome_of_channels(item.channels, outcomes)

    def _publish_to(self, channel: str, item: Request) -> Outcome:
        if self._faults.happens(Fault.ITEM_RETRYABLE, channel):
            return Retryable("centrifugo error 100: internal")
        if self._faults.happens(Fault.ITEM_PERMANENT, channel):
            return Permanent("centrifugo error 102: unknown channel")
        self._server.publish(channel, item)
        if self._faults.happens(Fault.ITEM_REPLY_LOST, channel):
            return Retryable("a reply without a result")
        return Published()
