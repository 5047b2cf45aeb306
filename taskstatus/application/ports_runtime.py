"""Ports between the service and the loops and helpers around it."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from taskstatus.application.call_group import CallGroup
from taskstatus.domain.commands import TaskEventCommand
from taskstatus.domain.verdicts import Verdict


class EventWriter(Protocol):
    """Takes commands into the lanes and answers each after its commit."""

    def submit(self, command: TaskEventCommand, group: CallGroup) -> Awaitable[Verdict]:
        """Enqueue at once, in call order, and return what gives the verdict once it is committed.

        A passing failure is a Refused verdict too: RATE_LIMITED when the lane is full, UNAVAILABLE when the store is or
        an earlier item of the same execution failed (E-10), INTERNAL when the database refuses this command's rows.
        """
        ...


class WakeUp(Protocol):
    """Tells the relay that there is something to publish; a hint, never needed for correctness (B-2)."""

    def hint(self) -> None:
        """Give the hint without waiting; never raises."""
        ...


class ShardMap(Protocol):
    """Which shard holds a bucket; a batch never mixes shards (S-2)."""

    def shard_of(self, bucket: int) -> str:
        """The shard's name; one for everything until the store is sharded."""
        ...


class Canonicalizer(Protocol):
    """Builds the canonical bytes and digest of a resolved event (E-3)."""

    def __call__(self, command: TaskEventCommand) -> tuple[bytes, bytes]:
        """(canonical bytes, SHA-256 over the version byte and them); the command's own ``canonical`` is not read."""
        ...


class ServiceObserver(Protocol):
    """What the service tells about itself: bounded labels only, never an id (N-3)."""

    def event_judged(self, transport: str, verdict: Verdict) -> None:
        """One event was answered."""
        ...

    def batch_committed(self, commands: int, commit_seconds: float) -> None:
        """A lane committed a batch."""
        ...

    def rows_locked(self, seconds: float) -> None:
        """A lane's transaction has its tasks' rows locked; how long that took."""
        ...

    def lane_depth(self, queued: int) -> None:
        """How many commands wait in all lanes together."""
        ...
