"""The outbox as relays see it: a view of the in-memory tables with claims, leases and fates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from relay.rows import Claim, ClaimedRow, OutboxUnavailableError
from taskstatus.adapters.memory.store import MemoryTaskStore
from taskstatus.domain.records import OutboxRecord
from tests.history.model import OutboxRow
from tests.simulation.faults import Faults, Process, Trace
from tests.simulation.options import Fault


@dataclass(slots=True)
class _Row:
    record: OutboxRecord
    due: float | None
    status: str = "PENDING"
    token: bytes | None = None
    failures: int = 0


class OutboxTable:
    """All rows with their state, as ``relay/claims.py`` keeps it in SQL; ``now`` is virtual time in seconds."""

    def __init__(self, store: MemoryTaskStore, now: Callable[[], float]) -> None:
        self._store = store
        self._now = now
        self._rows: dict[bytes, _Row] = {}

    def claim(self, token: bytes, limit: int, lease_seconds: float) -> Claim:
        """Take the rows that are due, the longest due first."""
        self._take_in()
        due = sorted(self._due(), key=lambda row: (row.due, row.record.outbox_id))[:limit]
        now = self._store.clock.read()
        claimed = tuple(_claimed_row(row, now) for row in due)
        for row in due:
            row.status, row.token, row.due = "PROCESSING", token, self._now() + lease_seconds
        return Claim(token, claimed)

    def mark(
        self, token: bytes, rows: Sequence[ClaimedRow], status: str, rest_seconds: float | None, failed: int
    ) -> int:
        """Write the fate of those that are still claimed under the token; how many they were."""
        ours = [self._rows[row.outbox_id] for row in rows if self._rows[row.outbox_id].token == token]
        for row in ours:
            row.status, row.token, row.failures = status, None, row.failures + failed
            row.due = None if rest_seconds is None else self._now() + rest_seconds
        return len(ours)

    def requeue_dead(self) -> int:
        """What an operator does with DEAD rows (O-2)."""
        dead = [row for row in self._rows.values() if row.status == "DEAD"]
        for row in dead:
            row.status, row.due, row.failures = "PENDING", self._now(), 0
        return len(dead)

    @property
    def is_drained(self) -> bool:
        """Whether every row is PUBLISHED or DEAD."""
        self._take_in()
        return all(row.due is None for row in self._rows.values())

    def final_rows(self) -> tuple[OutboxRow, ...]:
        """Every row and what became of it."""
        self._take_in()
        return tuple(OutboxRow(row.record, row.status) for row in self._rows.values())

    def _take_in(self) -> None:
        stored = self._store.tables.outbox
        for record in islice(stored.values(), len(self._rows), None):
            self._rows[record.outbox_id] = _Row(record, self._now())

    def _due(self) -> Iterator[_Row]:
        now = self._now()
        return (row for row in self._rows.values() if row.due is not None and row.due <= now)


class RelayOutbox:
    """Port ``Outbox`` of one relay process; a call may fail before it was done, or after."""

    def __init__(self, table: OutboxTable, process: Process, faults: Faults, trace: Trace) -> None:
        self._table = table
        self._process = process
        self._faults = faults
        self._trace = trace

    async def claim(self, token: bytes, limit: int, lease_seconds: float) -> Claim:
        """See ``Outbox``."""
        await self._before("claim")
        claim = self._table.claim(token, limit, lease_seconds)
        if claim.rows:
            self._trace.add(self._process.name, f"claims {[_brief(row) for row in claim.rows]}")
        await self._after("claim")
        return claim

    async def mark_published(self, token: bytes, rows: Sequence[ClaimedRow]) -> int:
        """See ``Outbox``."""
        return await self._mark(token, rows, "PUBLISHED", None, 0)

    async def mark_failed(self, token: bytes, rows: Sequence[ClaimedRow], delay_seconds: float, cause: str) -> int:
        """See ``Outbox``."""
        return await self._mark(token, rows, "PENDING", delay_seconds, 1)

    async def mark_dead(self, token: bytes, rows: Sequence[ClaimedRow], cause: str) -> int:
        """See ``Outbox``."""
        return await self._mark(token, rows, "DEAD", None, 1)

    async def release(self, token: bytes, rows: Sequence[ClaimedRow], delay_seconds: float) -> int:
        """See ``Outbox``."""
        return await self._mark(token, rows, "PENDING", delay_seconds, 0)

    async def _mark(
        self, token: bytes, rows: Sequence[ClaimedRow], status: str, rest_seconds: float | None, failed: int
    ) -> int:
        await self._before(status)
        count = self._table.mark(token, rows, status, rest_seconds, failed)
        self._trace.add(self._process.name, f"marks {count} of {[_brief(row) for row in rows]} {status}")
        await self._after(status)
        return count

    async def _before(self, operation: str) -> None:
        await self._process.enter()
        if self._faults.happens(Fault.OUTBOX_LOST, f"{self._process.name}, before {operation}"):
            raise OutboxUnavailableError("the connection broke before the statement")

    async def _after(self, operation: str) -> None:
        await self._process.enter()
        if self._faults.happens(Fault.OUTBOX_LOST, f"{self._process.name}, after {operation}"):
            raise OutboxUnavailableError("the reply was lost")


def _brief(row: ClaimedRow) -> str:
    return f"{row.aggregate_id.hex()[-4:]}:{row.aggregate_version}{row.projection[0]}"


def _claimed_row(row: _Row, now: datetime) -> ClaimedRow:
    record = row.record
    return ClaimedRow(
        outbox_id=record.outbox_id,
        bucket=record.bucket,
        aggregate_type=record.aggregate_type,
        aggregate_id=record.aggregate_id,
        aggregate_version=record.aggregate_version,
        kind=record.kind,
        projection=record.projection,
        audience=record.audience,
        tenant_id=record.tenant_id,
        owner_id=record.owner_id,
        payload=record.payload,
        traceparent=record.traceparent,
        age_seconds=(now - record.committed_at).total_seconds(),
        failures=row.failures,
        lease_expired=row.status == "PROCESSING",
    )
