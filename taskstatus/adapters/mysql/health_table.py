"""Overdue leases (port ``OverdueLeases``): by the index of deadlines, without locks.

What is found is only a reason to look: the lanes judge it again under the locks. ``NOW(6)`` is fixed for a statement,
so that the index can be used, which ``SYSDATE(6)`` would forbid. One statement names no bucket: it goes by time, on
each shard for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache

from taskstatus.adapters.mysql.reader import MySqlTaskReader
from taskstatus.adapters.mysql.session import Row, Session
from taskstatus.adapters.mysql.statements import cut_keys, marks
from taskstatus.adapters.mysql.values import text
from taskstatus.application.ports_health import HealthCandidate, LeasePosition
from taskstatus.domain.ids import ExecutionId, TaskId, WorkflowId, bucket_of_id

_CACHED_TEXTS = 64
_BEGINNING = LeasePosition(datetime(1970, 1, 1), ExecutionId(b""))
_CANDIDATE = (
    "task.tenant_id,task.authority_scope,task.workflow_id,task_execution_lease.task_id,"
    "task_execution_lease.task_attempt,task_execution_lease.step_id,task_execution_lease.step_attempt,"
    "task_execution_lease.execution_id,task_execution_lease.timeout_seconds,task_execution_lease.heartbeat_seq,"
    "COALESCE(task_execution_lease.last_heartbeat_at,task_execution_lease.opened_at) AS last_sign_at,"
    "task_execution_lease.deadline_at,task_execution_lease.stale_since,NOW(6) AS as_of"
)
_TASK = (
    "STRAIGHT_JOIN task FORCE INDEX (PRIMARY) "
    "ON task.id=task_execution_lease.task_id AND task.bucket=task_execution_lease.bucket"
)

OVERDUE = (
    f"SELECT {_CANDIDATE} FROM task_execution_lease FORCE INDEX (lease_deadline) {_TASK} "
    "WHERE task_execution_lease.deadline_at>=%s AND task_execution_lease.deadline_at<=NOW(6) "
    "AND (task_execution_lease.deadline_at>%s OR task_execution_lease.execution_id>%s) "
    "ORDER BY task_execution_lease.deadline_at,task_execution_lease.execution_id LIMIT %s"
)
"""Parameters: deadline, deadline and execution of the position, number of rows."""

NEARLY = (
    f"SELECT {_CANDIDATE} FROM task_execution_lease FORCE INDEX (lease_deadline) {_TASK} "
    "WHERE task_execution_lease.deadline_at>NOW(6) AND task_execution_lease.deadline_at>=%s "
    "AND task_execution_lease.deadline_at<=NOW(6)+INTERVAL %s MICROSECOND "
    "AND (task_execution_lease.deadline_at>%s OR task_execution_lease.execution_id>%s) "
    "ORDER BY task_execution_lease.deadline_at,task_execution_lease.execution_id LIMIT %s"
)
"""Parameters: deadline of the position, microseconds, deadline and execution of the position, number of rows."""


@lru_cache(maxsize=_CACHED_TEXTS)
def candidates(count: int) -> str:
    """Parameters: ``count`` execution ids, as many buckets."""
    return (
        f"SELECT {_CANDIDATE} FROM task_execution_lease FORCE INDEX (PRIMARY) {_TASK} "
        f"WHERE task_execution_lease.execution_id IN ({marks(count)}) "
        f"AND task_execution_lease.bucket IN ({marks(count)}) AND task_execution_lease.closed_at IS NULL"
    )


class HealthTable:
    """Reads on the reader's pool."""

    def __init__(self, reader: MySqlTaskReader) -> None:
        self._reader = reader

    async def overdue(self, limit: int, after: LeasePosition | None) -> Sequence[HealthCandidate]:
        """See the port."""
        position = after or _BEGINNING
        parameters = (position.deadline_at, position.deadline_at, position.execution_id, limit)
        return [_candidate(row) for row in await self._reader.read(lambda session: session.rows(OVERDUE, parameters))]

    async def nearly(self, limit: int, within_seconds: float, after: LeasePosition | None) -> Sequence[HealthCandidate]:
        """See the port."""
        position, within = after or _BEGINNING, round(within_seconds * 1_000_000)
        parameters = (position.deadline_at, within, position.deadline_at, position.execution_id, limit)
        return [_candidate(row) for row in await self._reader.read(lambda session: session.rows(NEARLY, parameters))]

    async def candidates(self, execution_ids: Sequence[ExecutionId]) -> Sequence[HealthCandidate]:
        """See the port."""
        ids = sorted(set(execution_ids))

        async def read(session: Session) -> list[Row]:
            rows: list[Row] = []
            for group in cut_keys(ids):
                parameters = (*group, *map(bucket_of_id, group))
                rows.extend(await session.rows(candidates(len(group)), parameters))
            return rows

        return [_candidate(row) for row in await self._reader.read(read)] if ids else []


def _candidate(row: Row) -> HealthCandidate:
    tenant_id, scope, workflow_id, task_id, task_attempt, step_id, step_attempt, execution_id, timeout = row[:9]
    heartbeat_seq, last_sign_at, deadline_at, stale_since, as_of = row[9:14]
    return HealthCandidate(
        tenant_id=text(tenant_id),
        authority_scope=text(scope),
        workflow_id=WorkflowId(workflow_id),
        task_id=TaskId(task_id),
        task_attempt=task_attempt,
        step_id=text(step_id),
        step_attempt=step_attempt,
        execution_id=ExecutionId(execution_id),
        timeout_seconds=timeout,
        heartbeat_seq=heartbeat_seq,
        last_sign_at=last_sign_at,
        deadline_at=deadline_at,
        stale_since=stale_since,
        as_of=as_of,
    )
