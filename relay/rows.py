"""What the relay knows of the outbox: claimed rows, the port that claims and marks them, and the port of its upkeep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


class OutboxUnavailableError(Exception):
    """The outbox cannot be reached, or did not answer in time; whether a write was done is not known."""


@dataclass(frozen=True, slots=True)
class ClaimedRow:
    """One row under this relay's lease. Codes are plain text: an unknown one must not stop other rows."""

    outbox_id: bytes
    bucket: int
    aggregate_type: str
    aggregate_id: bytes
    aggregate_version: int
    kind: str
    projection: str
    audience: str
    tenant_id: str
    owner_id: str
    payload: bytes | None
    traceparent: str
    age_seconds: float
    """From its commit to this claim, on the database's clock."""
    failures: int
    """Counted failures before this claim."""
    lease_expired: bool = False
    """Whether another claim of it ran out."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Rows claimed in one transaction, in the order in which they became due."""

    token: bytes
    rows: tuple[ClaimedRow, ...]


class Outbox(Protocol):
    """Claims rows and writes their fate.

    Every method raises OutboxUnavailableError. Every mark is fenced by the claim's token and returns how many rows were
    still ours; the others have been taken by another relay and are left alone.
    """

    async def claim(self, token: bytes, limit: int, lease_seconds: float) -> Claim:
        """Take up to ``limit`` due rows that nobody else is taking, for ``lease_seconds``."""
        ...

    async def mark_published(self, token: bytes, rows: Sequence[ClaimedRow]) -> int:
        """Nothing is left to do for these."""
        ...

    async def mark_failed(self, token: bytes, rows: Sequence[ClaimedRow], delay_seconds: float, cause: str) -> int:
        """Count a failure and make them due again after the delay."""
        ...

    async def mark_dead(self, token: bytes, rows: Sequence[ClaimedRow], cause: str) -> int:
        """Put them aside for a person (O-2)."""
        ...

    async def release(self, token: bytes, rows: Sequence[ClaimedRow], delay_seconds: float) -> int:
        """Give them back without counting a failure."""
        ...


@dataclass(frozen=True, slots=True)
class Backlog:
    """How the outbox stands."""

    oldest_age_seconds: float
    """Since the commit of the oldest row that is neither PUBLISHED nor DEAD; 0 when there is none."""
    rows: Mapping[str, int]
    """READY (due), WAITING (leased or backing off) and DEAD. PUBLISHED rows are not counted: there may be millions."""


class OutboxUpkeep(Protocol):
    """Counting and cleaning (O-4); every method raises OutboxUnavailableError."""

    async def backlog(self) -> Backlog:
        """Age and number of the rows that are left."""
        ...

    async def clean_batch(self, after: bytes, retention_seconds: int, limit: int) -> tuple[int, bytes | None]:
        """Delete rows PUBLISHED longer ago than the retention, among the next ``limit`` rows by id after ``after``.

        Returns how many were deleted, and the id to go on after; None at the end.
        """
        ...
