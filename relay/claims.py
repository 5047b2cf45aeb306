"""The relay's only SQL: claiming rows of ``task_outbox``, writing their fate, counting and cleaning (O-1, O-2, O-4).

Three properties are worth their price here:

- The claim reads the index ``outbox_due (for_projector, due_at, id)`` in its own order, so that it locks ``limit``
  rows, not the table, and a second relay skips them to a full batch of its own. ``UTC_TIMESTAMP`` is constant within a
  statement; ``SYSDATE`` is not, and would keep the optimizer from using the index. Rows for the workflow projector are
  never read here.
- The claim is an explicit transaction. With autocommit off and no BEGIN, ``FOR UPDATE SKIP LOCKED`` in a
  shard-targeted Vitess session holds no lock.
- Marks repeat the claim's token and name the buckets of their rows.

The engine is the service's writer engine: READ COMMITTED, since SKIP LOCKED under REPEATABLE READ takes gap locks that
block whoever writes new rows.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from sqlalchemy.ext.asyncio import AsyncEngine

from relay.rows import Backlog, Claim, ClaimedRow, OutboxUnavailableError
from taskstatus.adapters.mysql.errors import Cause, DatabaseError
from taskstatus.adapters.mysql.session import Session, open_session
from taskstatus.adapters.mysql.statements import filled_up, marks
from taskstatus.domain.ids import make_id

LAST_ERROR_MAX: Final = 1024
# Five codes in one column, and an age instead of two times: a driver in Python spends its time per column and row.
CLAIM_SELECT: Final = """
SELECT id, bucket, CONCAT_WS(' ', aggregate_type, kind, projection, audience, status), aggregate_id, aggregate_version,
       tenant_id, owner_id, payload, traceparent, TIMESTAMPDIFF(MICROSECOND, committed_at, UTC_TIMESTAMP(6)), failures
FROM task_outbox FORCE INDEX (outbox_due)
WHERE task_outbox.for_projector = 0 AND task_outbox.due_at <= UTC_TIMESTAMP(6)
ORDER BY task_outbox.due_at, task_outbox.id
LIMIT %s
FOR UPDATE SKIP LOCKED
"""

CLAIM_UPDATE: Final = """
UPDATE task_outbox
SET status = 'PROCESSING', attempts = attempts + 1, claim_token = %s, claimed_by = %s,
    due_at = UTC_TIMESTAMP(6) + INTERVAL %s MICROSECOND
WHERE id IN ({ids}) AND bucket IN ({buckets})
"""

MARK_PUBLISHED: Final = """
UPDATE task_outbox
SET status = 'PUBLISHED', due_at = NULL, claim_token = NULL, published_at = UTC_TIMESTAMP(6)
WHERE id IN ({ids}) AND bucket IN ({buckets}) AND claim_token = %s AND status = 'PROCESSING'
"""
MARK_FAILED: Final = """
UPDATE task_outbox
SET status = 'PENDING', claim_token = NULL, failures = failures + 1, last_error = %s,
    due_at = UTC_TIMESTAMP(6) + INTERVAL %s MICROSECOND
WHERE id IN ({ids}) AND bucket IN ({buckets}) AND claim_token = %s AND status = 'PROCESSING'
"""
MARK_DEAD: Final = """
UPDATE task_outbox
SET status = 'DEAD', claim_token = NULL, failures = failures + 1, last_error = %s, due_at = NULL,
    dead_at = UTC_TIMESTAMP(6)
WHERE id IN ({ids}) AND bucket IN ({buckets}) AND claim_token = %s AND status = 'PROCESSING'
"""
RELEASE: Final = """
UPDATE task_outbox
SET status = 'PENDING', claim_token = NULL, due_at = UTC_TIMESTAMP(6) + INTERVAL %s MICROSECOND
WHERE id IN ({ids}) AND bucket IN ({buckets}) AND claim_token = %s AND status = 'PROCESSING'
"""

# The smallest id is the oldest row: ids begin with their time. So the whole count is read from the index alone.
BACKLOG_COUNT: Final = """
SELECT COUNT(*), COALESCE(SUM(due_at <= UTC_TIMESTAMP(6)), 0), MIN(id)
FROM task_outbox FORCE INDEX (outbox_due) WHERE for_projector = 0 AND due_at IS NOT NULL
"""
DEAD_COUNT: Final = "SELECT COUNT(*) FROM task_outbox WHERE dead_at IS NOT NULL"
AGE: Final = "SELECT TIMESTAMPDIFF(MICROSECOND, committed_at, UTC_TIMESTAMP(6)) FROM task_outbox WHERE id = %s"

CLEAN_PAGE: Final = "SELECT id FROM task_outbox WHERE id > %s AND id < %s ORDER BY id LIMIT %s"
CLEAN_DELETE: Final = """
DELETE FROM task_outbox
WHERE id BETWEEN %s AND %s AND status = 'PUBLISHED' AND published_at < UTC_TIMESTAMP(6) - INTERVAL %s SECOND
"""


class MysqlOutbox:
    """Ports ``Outbox`` and ``OutboxUpkeep`` on the writer engine. ``name`` is written to ``claimed_by``.

    A statement that the database refuses for good raises DatabaseError: a defect, which ends the process.
    """

    def __init__(self, engine: AsyncEngine, name: str) -> None:
        self._engine = engine
        self._name = name

    async def claim(self, token: bytes, limit: int, lease_seconds: float) -> Claim:
        """See ``Outbox.claim``."""
        async with self._transaction() as session:
            found = await session.rows(CLAIM_SELECT, (limit,))
            rows = tuple(_claimed_row(row) for row in found)
            if rows:
                lease = (token, self._name, _microseconds(lease_seconds))
                await session.change(*_for_rows(CLAIM_UPDATE, rows, before=lease))
        return Claim(token, rows)

    async def mark_published(self, token: bytes, rows: Sequence[ClaimedRow]) -> int:
        """See ``Outbox.mark_published``."""
        return await self._mark(MARK_PUBLISHED, rows, (), token)

    async def mark_failed(self, token: bytes, rows: Sequence[ClaimedRow], delay_seconds: float, cause: str) -> int:
        """See ``Outbox.mark_failed``."""
        return await self._mark(MARK_FAILED, rows, (cause[:LAST_ERROR_MAX], _microseconds(delay_seconds)), token)

    async def mark_dead(self, token: bytes, rows: Sequence[ClaimedRow], cause: str) -> int:
        """See ``Outbox.mark_dead``."""
        return await self._mark(MARK_DEAD, rows, (cause[:LAST_ERROR_MAX],), token)

    async def release(self, token: bytes, rows: Sequence[ClaimedRow], delay_seconds: float) -> int:
        """See ``Outbox.release``."""
        return await self._mark(RELEASE, rows, (_microseconds(delay_seconds),), token)

    async def backlog(self) -> Backlog:
        """See ``OutboxUpkeep.backlog``; two index scans."""
        async with self._transaction() as session:
            left, ready, oldest = (await session.rows(BACKLOG_COUNT))[0]
            dead = (await session.rows(DEAD_COUNT))[0][0]
            age = [] if oldest is None else await session.rows(AGE, (oldest,))
        counts = {"READY": int(ready), "WAITING": int(left) - int(ready), "DEAD": int(dead)}
        return Backlog(max(0.0, age[0][0] / 1e6) if age else 0.0, counts)

    async def clean_batch(self, after: bytes, retention_seconds: int, limit: int) -> tuple[int, bytes | None]:
        """See ``OutboxUpkeep.clean_batch``; DEAD rows and rows published late stay."""
        async with self._transaction() as session:
            now = (await session.rows("SELECT UNIX_TIMESTAMP()"))[0][0]
            before = make_id((int(now) - retention_seconds) * 1000, 0, 0)
            page = [row[0] for row in await session.rows(CLEAN_PAGE, (after, before, limit))]
            if not page:
                return 0, None
            deleted = await session.change(CLEAN_DELETE, (page[0], page[-1], retention_seconds))
        return deleted, page[-1] if len(page) == limit else None

    async def _mark(self, statement: str, rows: Sequence[ClaimedRow], before: tuple[Any, ...], token: bytes) -> int:
        if not rows:
            return 0
        async with self._transaction() as session:
            return await session.change(*_for_rows(statement, rows, before=before, after=(token,)))

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[Session]:
        try:
            async with open_session(self._engine) as session:
                await session.begin()
                yield session
                await session.commit()
        except DatabaseError as error:
            if error.cause is Cause.REFUSED:
                raise
            raise OutboxUnavailableError(f"{error.cause}: {error}") from error


def _for_rows(
    statement: str, rows: Sequence[ClaimedRow], *, before: tuple[Any, ...], after: tuple[Any, ...] = ()
) -> tuple[str, tuple[Any, ...]]:
    """The statement with its lists filled in, and all its parameters; ids sorted, so that two marks never cross."""
    keys = filled_up(sorted((row.outbox_id, row.bucket) for row in rows))
    places = marks(len(keys))
    parameters = (*before, *(key for key, _ in keys), *(bucket for _, bucket in keys), *after)
    return statement.format(ids=places, buckets=places), parameters


def _microseconds(seconds: float) -> int:
    return int(seconds * 1e6)


def _claimed_row(row: Sequence[Any]) -> ClaimedRow:
    aggregate_type, kind, projection, audience, status = _codes(row[2])
    return ClaimedRow(
        outbox_id=row[0],
        bucket=row[1],
        aggregate_type=aggregate_type,
        aggregate_id=row[3],
        aggregate_version=row[4],
        kind=kind,
        projection=projection,
        audience=audience,
        tenant_id=_text(row[5]),
        owner_id=_text(row[6]),
        payload=_payload(row[7]),
        traceparent=_text(row[8]),
        age_seconds=row[9] / 1e6,
        failures=row[10],
        lease_expired=status == "PROCESSING",
    )


def _codes(joined: bytes | str) -> tuple[str, str, str, str, str]:
    """The five codes; a row with a space in one of them has codes that nobody knows, and is put aside as such."""
    text = _text(joined)
    match text.split(" "):
        case [aggregate_type, kind, projection, audience, status]:
            return aggregate_type, kind, projection, audience, status
        case _:
            return text, "", "", "", ""


def _text(value: bytes | str | None) -> str:
    """Text of a binary column; bytes that are no UTF-8 become visible marks, so that the row can be put aside."""
    if value is None:
        return ""
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else value


def _payload(value: bytes | str | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
