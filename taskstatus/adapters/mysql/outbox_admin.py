"""DEAD outbox rows for an operator: list them, and give them another chance (O-2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine

from taskstatus.adapters.mysql.session import open_session
from taskstatus.adapters.mysql.values import text

_LIST = (
    "SELECT id,aggregate_type,aggregate_id,aggregate_version,projection,tenant_id,attempts,failures,"
    "last_error,committed_at,dead_at FROM task_outbox WHERE task_outbox.dead_at IS NOT NULL"
    " ORDER BY task_outbox.dead_at,task_outbox.id LIMIT %s"
)
_BUCKETS = "SELECT id,bucket FROM task_outbox WHERE id IN ({ids}) AND status='DEAD'"
_REQUEUE = (
    "UPDATE task_outbox SET status='PENDING',due_at=UTC_TIMESTAMP(6),dead_at=NULL,failures=0"
    " WHERE id IN ({ids}) AND bucket IN ({buckets}) AND status='DEAD'"
)


@dataclass(frozen=True, slots=True)
class DeadRow:
    """A notification that was given up, with its last, scrubbed cause."""

    outbox_id: bytes
    aggregate_type: str
    aggregate_id: bytes
    aggregate_version: int
    projection: str
    tenant_id: str
    attempts: int
    failures: int
    last_error: str
    committed_at: datetime
    dead_at: datetime


class OutboxAdmin:
    """Reads and requeues on the writer pool; raises DatabaseError when the server refuses or is gone."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def dead_rows(self, limit: int) -> list[DeadRow]:
        """Up to ``limit`` DEAD rows, those that died first at the front."""
        async with open_session(self._engine) as session:
            await session.begin()
            rows = await session.rows(_LIST, (limit,))
            await session.commit()
            return [_dead_row(row) for row in rows]

    async def requeue(self, outbox_ids: Sequence[bytes]) -> int:
        """Make DEAD rows due now with a fresh failure budget; returns how many of the ids were DEAD."""
        if not outbox_ids:
            return 0
        async with open_session(self._engine) as session:
            await session.begin()
            dead = await session.rows(_BUCKETS.format(ids=_marks(len(outbox_ids))), tuple(outbox_ids))
            changed = 0
            if dead:
                ids, buckets = sorted(row[0] for row in dead), sorted({row[1] for row in dead})
                statement = _REQUEUE.format(ids=_marks(len(ids)), buckets=_marks(len(buckets)))
                changed = await session.change(statement, (*ids, *buckets))
            await session.commit()
            return changed


def _marks(count: int) -> str:
    return ",".join(["%s"] * count)


def _dead_row(row: Sequence[Any]) -> DeadRow:
    return DeadRow(
        outbox_id=row[0],
        aggregate_type=text(row[1]),
        aggregate_id=row[2],
        aggregate_version=row[3],
        projection=text(row[4]),
        tenant_id=text(row[5]),
        attempts=row[6],
        failures=row[7],
        last_error=text(row[8] or b""),
        committed_at=row[9],
        dead_at=row[10],
    )
