"""The world of the documents: clocks that stand, chance that repeats itself, and ports that keep what they get."""

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

from relay.publisher import Outcome, Publication, Published
from relay.rows import Claim, ClaimedRow
from taskstatus.adapters.memory.store import MemoryTaskStore
from taskstatus.adapters.mysql.session import BEGIN, Session
from taskstatus.adapters.mysql.write_transaction import MySqlWriteTransaction
from taskstatus.application.ports_store import TransactionAttempt, WriteTransaction
from taskstatus.domain.records import OutboxRecord
from taskstatus.domain.verdicts import Verdict

T = TypeVar("T")
START = datetime(2026, 11, 30, 9, 0, 0)
"""Of the database's clock and of the process's."""


@dataclass
class StandingClock:
    """Port ``Clock``: moves only when told."""

    elapsed: float = 0.0

    def unix_seconds(self) -> float:
        """The wall clock."""
        return START.replace(tzinfo=UTC).timestamp() + self.elapsed

    def monotonic_seconds(self) -> float:
        """Seconds since the start."""
        return self.elapsed


class SeededRandomness:
    """Port ``Randomness``: the same numbers in every run."""

    def __init__(self) -> None:
        self._source = random.Random(2026)

    def bits(self, count: int) -> int:
        """The next bits."""
        return self._source.getrandbits(count)

    def fraction(self) -> float:
        """The next fraction."""
        return self._source.random()


class SilentObserver:
    """Ports ``ServiceObserver`` and ``CallObserver`` that measure nothing."""

    def event_judged(self, transport: str, verdict: Verdict) -> None:
        """Nothing."""

    def batch_committed(self, commands: int, commit_seconds: float) -> None:
        """Nothing."""

    def rows_locked(self, seconds: float) -> None:
        """Nothing."""

    def lane_depth(self, queued: int) -> None:
        """Nothing."""

    def call_ended(self, transport: str, method: str, status: str, seconds: float) -> None:
        """Nothing."""


@dataclass
class CountingWakeUp:
    """Port ``WakeUp`` that counts."""

    hints: int = 0

    def hint(self) -> None:
        """One more."""
        self.hints += 1


class RecordingStore:
    """Port ``TaskStore`` over the in-memory store that also asks the MySQL adapter what it would send."""

    def __init__(self, store: MemoryTaskStore) -> None:
        self._store = store
        self.statements: list[str] = []

    async def transact(self, body: Callable[[WriteTransaction, TransactionAttempt], Awaitable[T]]) -> T:
        """See the port; ``statements`` holds those of the last transaction."""

        async def recorded(memory: WriteTransaction, attempt: TransactionAttempt) -> T:
            mysql = MySqlWriteTransaction(cast(Session, _StatementList(self.statements)))
            return await body(cast(WriteTransaction, _Both(mysql, memory)), attempt)

        self.statements[:] = [BEGIN]
        value = await self._store.transact(recorded)
        self.statements.append("COMMIT")
        return value


class _Both:
    """Calls the MySQL adapter for its statements, and the in-memory transaction for its rows."""

    def __init__(self, mysql: MySqlWriteTransaction, memory: WriteTransaction) -> None:
        self._mysql = mysql
        self._memory = memory

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def both(*arguments: Any) -> Any:
            await getattr(self._mysql, name)(*arguments)
            return await getattr(self._memory, name)(*arguments)

        return both


class _StatementList:
    """A session without a server: finds no row, and updates every row that it is told to."""

    has_row_alias = True

    def __init__(self, statements: list[str]) -> None:
        self._statements = statements

    async def rows(self, statement: str, _parameters: tuple[Any, ...] = ()) -> Sequence[Any]:
        self._statements.append(statement)
        return []

    async def change(self, statement: str, _parameters: tuple[Any, ...] = ()) -> int:
        self._statements.append(statement)
        return 2 * (statement.count("),(") + 1)


@dataclass
class MemoryOutbox:
    """The relay's port ``Outbox`` over rows in memory."""

    records: list[OutboxRecord]
    published: list[bytes] = field(default_factory=list)

    async def claim(self, token: bytes, limit: int, lease_seconds: float) -> Claim:
        """Everything that is not published."""
        due = [record for record in self.records if record.outbox_id not in self.published]
        return Claim(token, tuple(map(_claimed, due[:limit])))

    async def mark_published(self, token: bytes, rows: Sequence[ClaimedRow]) -> int:
        """Note it."""
        self.published.extend(row.outbox_id for row in rows)
        return len(rows)

    async def mark_failed(self, token: bytes, rows: Sequence[ClaimedRow], delay_seconds: float, cause: str) -> int:
        """No message of the documents fails."""
        raise AssertionError(cause)

    async def mark_dead(self, token: bytes, rows: Sequence[ClaimedRow], cause: str) -> int:
        """No message of the documents fails."""
        raise AssertionError(cause)

    async def release(self, token: bytes, rows: Sequence[ClaimedRow], delay_seconds: float) -> int:
        """Nothing is released in the documents."""
        raise AssertionError("released")


def _claimed(record: OutboxRecord) -> ClaimedRow:
    """A claimed row keeps a part of the record's fields, under the same names."""
    same = {each.name: getattr(record, each.name) for each in fields(ClaimedRow) if hasattr(record, each.name)}
    return ClaimedRow(**same, age_seconds=0.0, failures=0)


@dataclass
class KeepingPublisher:
    """The relay's port ``Publisher`` that keeps what it is given."""

    publications: list[Publication] = field(default_factory=list)

    async def publish(self, batch: Sequence[Publication]) -> list[Outcome]:
        """Keep it."""
        self.publications.extend(batch)
        return [Published() for _ in batch]

    async def close(self) -> None:
        """Nothing to give back."""
