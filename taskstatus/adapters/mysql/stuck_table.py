"""Stuck work (port ``StuckWork``), by an index for each part: ``lease_stuck`` for executions that run too long,
``task_step_waiting`` for those that wait, ``task_run_deadline`` for tasks.

All go by time over all tenants, since stuck work is rare: a page looks at a bounded number of their entries,
keeps its tenant's, and says where to go on. An execution's id begins with the time of its activation, and only an
activated one that has neither started nor ended is in ``task_step_waiting``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache

from taskstatus.adapters.mysql.reader import MySqlTaskReader
from taskstatus.adapters.mysql.session import BEGIN_VIEW, Row, Session
from taskstatus.adapters.mysql.statements import marks
from taskstatus.adapters.mysql.values import text
from taskstatus.application.ports_health import (
    NOT_TAKEN_UP_SECONDS,
    StuckCause,
    StuckExecution,
    StuckPage,
    StuckPart,
    StuckPosition,
)
from taskstatus.domain.ids import ExecutionId, TaskId, WorkflowId, bucket_of_id, least_id_of, moment_of_id

LOOKED_AT_ONCE = 200
LOOKS = 5
"""Index entries per statement, and statements per page: what is looked at whatever is found."""
COUNTED = 10_000
"""What a count stops at."""

_CACHED_TEXTS = 64
_LEASE_KEY = "task_execution_lease.execution_id,task_execution_lease.stuck_at"
_EXECUTION = (
    "task.workflow_id,task_step.task_id,task.title,task_step.task_attempt,task_step.step_id,task_step.attempt,"
    "task_step.operation_code,task_step.expected_producer,task_step.execution_id,task_step.max_run_seconds"
)
_TASK = "STRAIGHT_JOIN task FORCE INDEX (PRIMARY) ON task.id=task_step.task_id AND task.bucket=task_step.bucket"
_OF_TENANT = "task.tenant_id=%s AND task.authority_scope=%s"

NOW = "SELECT NOW(6) AS now"

LATE_LEASES = (
    f"SELECT {_LEASE_KEY} FROM task_execution_lease FORCE INDEX (lease_stuck) "
    "WHERE task_execution_lease.stuck_at>=%s AND task_execution_lease.stuck_at<=%s "
    "AND (task_execution_lease.stuck_at>%s OR task_execution_lease.execution_id>%s) "
    "ORDER BY task_execution_lease.stuck_at,task_execution_lease.execution_id LIMIT %s"
)
"""Parameters: time of the position, now, time and execution of the position, number of entries."""

WAITING = (
    "SELECT task_step.waiting_execution FROM task_step FORCE INDEX (task_step_waiting) "
    "WHERE task_step.waiting_execution>%s AND task_step.waiting_execution<%s "
    "ORDER BY task_step.waiting_execution LIMIT %s"
)
"""Parameters: position, the least id of an activation that is young enough, number of entries."""

COUNT_LATE = (
    "SELECT SUM(late.lost),SUM(late.stale),SUM(late.running) FROM ("
    "SELECT task_execution_lease.lost_at IS NOT NULL AS lost,"
    "task_execution_lease.lost_at IS NULL AND task_execution_lease.stale_since IS NOT NULL AS stale,"
    "task_execution_lease.stale_since IS NULL AS running "
    "FROM task_execution_lease FORCE INDEX (lease_stuck) "
    f"WHERE task_execution_lease.stuck_at<=NOW(6) LIMIT {COUNTED}) AS late"
)
COUNT_WAITING = (
    "SELECT COUNT(*) AS waiting FROM ("
    "SELECT task_step.waiting_execution FROM task_step FORCE INDEX (task_step_waiting) "
    f"WHERE task_step.waiting_execution<%s LIMIT {COUNTED}) AS waiting"
)

LATE_TASKS = (
    "SELECT task.id,task.run_deadline_at FROM task FORCE INDEX (task_run_deadline) "
    "WHERE task.run_deadline_at>=%s AND task.run_deadline_at<=%s "
    "AND (task.run_deadline_at>%s OR task.id>%s) ORDER BY task.run_deadline_at,task.id LIMIT %s"
)
"""Parameters: time of the position, now, time and task of the position, number of entries."""
COUNT_TASKS = (
    "SELECT COUNT(late.bucket) AS late FROM (SELECT task.bucket FROM task FORCE INDEX (task_run_deadline) "
    f"WHERE task.run_deadline_at<=NOW(6) LIMIT {COUNTED}) AS late"
)
"""A column beyond the index keeps MySQL from scanning all of it, most of which are tasks without a deadline."""


@lru_cache(maxsize=_CACHED_TEXTS)
def late_tasks(count: int) -> str:
    """Parameters: ``count`` task ids, as many buckets, tenant, scope."""
    return (
        "SELECT task.workflow_id,task.id,task.title,task.attempt,task.coordinator_producer,task.run_deadline_at "
        f"FROM task FORCE INDEX (PRIMARY) WHERE task.id IN ({marks(count)}) AND task.bucket IN ({marks(count)}) "
        f"AND task.run_deadline_at IS NOT NULL AND {_OF_TENANT}"
    )


@lru_cache(maxsize=_CACHED_TEXTS)
def late_executions(count: int) -> str:
    """Parameters: ``count`` execution ids, as many buckets, tenant, scope."""
    return (
        f"SELECT {_EXECUTION},task_execution_lease.opened_at,task_execution_lease.stale_since,"
        "task_execution_lease.lost_at,task_execution_lease.stuck_at "
        "FROM task_execution_lease FORCE INDEX (PRIMARY) STRAIGHT_JOIN task_step FORCE INDEX (task_step_execution) "
        "ON task_step.execution_id=task_execution_lease.execution_id "
        f"AND task_step.bucket=task_execution_lease.bucket {_TASK} "
        f"WHERE task_execution_lease.execution_id IN ({marks(count)}) "
        f"AND task_execution_lease.bucket IN ({marks(count)}) AND task_execution_lease.stuck_at IS NOT NULL "
        f"AND {_OF_TENANT}"
    )


@lru_cache(maxsize=_CACHED_TEXTS)
def waiting_executions(count: int) -> str:
    """Parameters: ``count`` execution ids, as many buckets, tenant, scope."""
    return (
        f"SELECT {_EXECUTION} FROM task_step FORCE INDEX (task_step_execution) {_TASK} "
        f"WHERE task_step.execution_id IN ({marks(count)}) AND task_step.bucket IN ({marks(count)}) AND {_OF_TENANT}"
    )


class StuckTable:
    """Reads on the reader's pool, each page and each count in one view."""

    def __init__(self, reader: MySqlTaskReader) -> None:
        self._reader = reader

    async def page(self, tenant_id: str, authority_scope: str, after: StuckPosition | None, limit: int) -> StuckPage:
        """See the port."""

        async def read(session: Session) -> StuckPage:
            await session.begin(BEGIN_VIEW)
            page = await _Look(session, (tenant_id, authority_scope), await _now(session), limit).page(after)
            await session.commit()
            return page

        return await self._reader.read(read)

    async def counts(self) -> Mapping[StuckCause, int]:
        """See the port; one cause for each execution, the weightiest."""

        async def read(session: Session) -> Mapping[StuckCause, int]:
            await session.begin(BEGIN_VIEW)
            ((lost, stale, running),) = await session.rows(COUNT_LATE)
            ((waiting,),) = await session.rows(COUNT_WAITING, (_waiting_before(await _now(session)),))
            ((tasks,),) = await session.rows(COUNT_TASKS)
            await session.commit()
            return {
                StuckCause.OVER_RUN_TIME: int(running or 0),
                StuckCause.NOT_TAKEN_UP: waiting,
                StuckCause.LONG_STALE: int(stale or 0),
                StuckCause.LOST_WORKER: int(lost or 0),
                StuckCause.TASK_OVER_RUN_TIME: tasks,
            }

        return await self._reader.read(read)


class _Look:
    """One page in the making."""

    def __init__(self, session: Session, owner: tuple[str, str], now: datetime, limit: int) -> None:
        self._session = session
        self._owner = owner
        self._now = now
        self._limit = limit
        self._looks_left = LOOKS
        self._found: list[StuckExecution] = []

    async def page(self, after: StuckPosition | None) -> StuckPage:
        position = after or _first_of(StuckPart.RUNNING)
        parts = {StuckPart.RUNNING: self._late, StuckPart.WAITING: self._waiting, StuckPart.TASKS: self._tasks}
        for part in list(StuckPart)[position.part :]:
            following = await parts[part](position if part is position.part else _first_of(part))
            if following is not None:
                return StuckPage(tuple(self._found), following, self._now)
        return StuckPage(tuple(self._found), None, self._now)

    async def _late(self, position: StuckPosition) -> StuckPosition | None:
        """Add executions that run too long or are silent; where to go on, None when all have been looked at."""
        while self._looks_left:
            self._looks_left -= 1
            since, execution_id = position.since, position.id
            keys = await self._session.rows(LATE_LEASES, (since, self._now, since, execution_id, LOOKED_AT_ONCE))
            for execution in await self._own_late([ExecutionId(key[0]) for key in keys]):
                self._found.append(execution)
                if len(self._found) == self._limit:
                    return StuckPosition(StuckPart.RUNNING, execution.since, _id_of(execution))
            if len(keys) < LOOKED_AT_ONCE:
                return None
            position = StuckPosition(StuckPart.RUNNING, keys[-1][1], keys[-1][0])
        return StuckPosition(StuckPart.RUNNING, position.since, b"")

    async def _own_late(self, ids: Sequence[ExecutionId]) -> list[StuckExecution]:
        rows = await self._details(late_executions(len(ids)), ids) if ids else []
        found = [_late_execution(row, self._now) for row in rows]
        return sorted(found, key=lambda execution: (execution.since, _id_of(execution)))

    async def _waiting(self, position: StuckPosition) -> StuckPosition | None:
        """Add executions that nobody took up; where to go on, None when all have been looked at."""
        before = _waiting_before(self._now)
        after = position.id
        while self._looks_left:
            self._looks_left -= 1
            keys = [ExecutionId(row[0]) for row in await self._session.rows(WAITING, (after, before, LOOKED_AT_ONCE))]
            rows = await self._details(waiting_executions(len(keys)), keys) if keys else []
            for execution in sorted(map(_waiting_execution, rows), key=_id_of):
                self._found.append(execution)
                if len(self._found) == self._limit:
                    return StuckPosition(StuckPart.WAITING, execution.since, _id_of(execution))
            if len(keys) < LOOKED_AT_ONCE:
                return None
            after = keys[-1]
        return StuckPosition(StuckPart.WAITING, moment_of_id(after), after[:6] + bytes(10))

    async def _tasks(self, position: StuckPosition) -> StuckPosition | None:
        """Add tasks whose run takes too long; where to go on, None when all have been looked at."""
        while self._looks_left:
            self._looks_left -= 1
            since, task_id = position.since, position.id
            keys = await self._session.rows(LATE_TASKS, (since, self._now, since, task_id, LOOKED_AT_ONCE))
            ids = [TaskId(key[0]) for key in keys]
            rows = await self._details(late_tasks(len(ids)), ids) if ids else []
            for task in sorted(map(_late_task, rows), key=lambda task: (task.since, task.task_id)):
                self._found.append(task)
                if len(self._found) == self._limit:
                    return StuckPosition(StuckPart.TASKS, task.since, task.task_id)
            if len(keys) < LOOKED_AT_ONCE:
                return None
            position = StuckPosition(StuckPart.TASKS, keys[-1][1], keys[-1][0])
        return StuckPosition(StuckPart.TASKS, position.since, b"")

    async def _details(self, statement: str, ids: Sequence[ExecutionId] | Sequence[TaskId]) -> Sequence[Row]:
        return await self._session.rows(statement, (*ids, *map(bucket_of_id, ids), *self._owner))


def _first_of(part: StuckPart) -> StuckPosition:
    return StuckPosition(part, datetime(1970, 1, 1), b"")


def _id_of(execution: StuckExecution) -> ExecutionId:
    assert execution.execution_id is not None
    return execution.execution_id


async def _now(session: Session) -> datetime:
    ((now,),) = await session.rows(NOW)
    moment: datetime = now
    return moment


def _late_execution(row: Row, now: datetime) -> StuckExecution:
    max_run_seconds, opened_at, stale_since, lost_at, stuck_at = row[9:14]
    causes = []
    if max_run_seconds and opened_at + timedelta(seconds=max_run_seconds) <= now:
        causes.append(StuckCause.OVER_RUN_TIME)
    if stale_since is not None:
        causes.append(StuckCause.LONG_STALE if lost_at is None else StuckCause.LOST_WORKER)
    return _execution(row, tuple(causes), stuck_at)


def _waiting_execution(row: Row) -> StuckExecution:
    return _execution(row, (StuckCause.NOT_TAKEN_UP,), moment_of_id(row[8]) + timedelta(seconds=NOT_TAKEN_UP_SECONDS))


def _late_task(row: Row) -> StuckExecution:
    workflow_id, task_id, title, task_attempt, coordinator, deadline_at = row
    return StuckExecution(
        workflow_id=WorkflowId(workflow_id),
        task_id=TaskId(task_id),
        title=title,
        task_attempt=task_attempt,
        step_id="",
        step_attempt=0,
        operation_code="",
        producer_id=text(coordinator),
        execution_id=None,
        causes=(StuckCause.TASK_OVER_RUN_TIME,),
        since=deadline_at,
    )


def _execution(row: Row, causes: tuple[StuckCause, ...], since: datetime) -> StuckExecution:
    workflow_id, task_id, title, task_attempt, step_id, attempt, operation, producer, execution_id = row[:9]
    return StuckExecution(
        workflow_id=WorkflowId(workflow_id),
        task_id=TaskId(task_id),
        title=title,
        task_attempt=task_attempt,
        step_id=text(step_id),
        step_attempt=attempt,
        operation_code=text(operation),
        producer_id=text(producer),
        execution_id=ExecutionId(execution_id),
        causes=causes,
        since=since,
    )


def _waiting_before(now: datetime) -> bytes:
    """The least id of an activation that is not stuck yet."""
    return least_id_of(now - timedelta(seconds=NOT_TAKEN_UP_SECONDS))
