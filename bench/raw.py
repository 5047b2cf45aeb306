"""The ceiling: what the database takes in batches from the raw driver, without RPC, decisions or conversions.

A transaction takes a hundred events of as many tasks. It reads what the product reads (the tasks under their locks,
the steps, the dedup rows), counts the rows' versions up as they came, and writes the same rows to each table in
multi-row statements whose texts are the product's. Nothing is checked, and the summary message is one and the same
text each time; none of these rows is ever published.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any

import aiomysql  # type: ignore[import-untyped]
import orjson
from sqlalchemy import make_url

from bench import workload
from bench.plan import AIOMYSQL, ASYNCMY
from bench.workload import Event
from taskstatus.adapters.clock import SystemClock, SystemRandomness
from taskstatus.adapters.mysql import hot_sql, rows_event, rows_outbox, rows_step, rows_task
from taskstatus.adapters.mysql.engine import PREPARED_STATEMENTS
from taskstatus.adapters.mysql.statements import MultiRow, Parameters, cut_rows, flatten
from taskstatus.application.ids_factory import IdFactory
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import bucket_of_id
from taskstatus.domain.projections import render_summary
from taskstatus.domain.records import CANONICAL_VERSION

_TASK = {name: position for position, name in enumerate(rows_task.COLUMNS)}
_STEP = {name: position for position, name in enumerate(rows_step.COLUMNS)}
_RESULT = orjson.dumps(
    {
        "accepted": True,
        "task_version": 17,
        "lifecycle": "RUNNING",
        "business_status": "RUNNING",
        "changed": True,
        "step_id": "01_parse",
        "operation_code": workload.OPERATION,
        "step_version": 17,
        "committed_at": 1_700_000_000_000_000,
    }
)

_SHOWN = orjson.dumps(workload.DATA)
_EVENT_CONSTANTS: dict[str, Any] = {
    "task_attempt": 1,
    "step_attempt": 1,
    "superseded_execution_id": None,
    "operation_code": workload.OPERATION,
    "producer_id": workload.WORKER,
    "lifecycle_status": "RUNNING",
    "business_status": "RUNNING",
    "health": "HEALTHY",
    "error_code": "",
    "data_schema": workload.DATA_SCHEMA,
    "reason": "",
    "actor": f"service:{workload.WORKER}",
    "occurred_at": None,
    "duration_ms": None,
    "duration_source": None,
    "canonical_version": CANONICAL_VERSION,
    "canonical": bytes(420),
    "shown_data": _SHOWN,
}
"""``canonical`` is as long as that of a progress event."""

Row = list[Any]
ToRow = Callable[[Mapping[str, Any]], Parameters]
_UPDATED_TASK: Callable[[Row], Parameters] = itemgetter(*(_TASK[name] for name in hot_sql.UPDATE_TASKS.columns))
_UPDATED_STEP: Callable[[Row], Parameters] = itemgetter(*(_STEP[name] for name in hot_sql.UPDATE_STEPS.columns))
_PROGRESSED_TASK: Callable[[Row], Parameters] = itemgetter(*(_TASK[name] for name in hot_sql.PROGRESS_TASKS.columns))
_PROGRESSED_STEP: Callable[[Row], Parameters] = itemgetter(*(_STEP[name] for name in hot_sql.PROGRESS_STEPS.columns))
_DEDUP_ROW: ToRow = itemgetter(*rows_event.DEDUP_COLUMNS)
_EVENT_ROW: ToRow = itemgetter(*rows_event.COLUMNS)
_LEASE_ROW: ToRow = itemgetter(*rows_outbox.LEASE_COLUMNS)
_OUTBOX_ROW: ToRow = itemgetter(*rows_outbox.COLUMNS)


class _QuietCursor(aiomysql.Cursor):  # type: ignore[misc]
    async def _show_warnings(self, conn: aiomysql.Connection) -> None:
        """Nothing: the driver would ask for them after each upsert; SQLAlchemy's dialect leaves that out as well."""


async def _connect_aiomysql(**options: Any) -> Any:
    return await aiomysql.connect(cursorclass=_QuietCursor, **options)


async def _connect_asyncmy(**options: Any) -> Any:
    import asyncmy
    from asyncmy.cursors import Cursor

    class QuietCursor(Cursor):
        async def _show_warnings(self, conn: Any) -> None:
            """Nothing, as above."""

    return await asyncmy.connect(stmt_cache_size=PREPARED_STATEMENTS, cursor_cls=QuietCursor, **options)


_CONNECT = {AIOMYSQL: _connect_aiomysql, ASYNCMY: _connect_asyncmy}


class RawBuild:
    """One connection with its batches; not for concurrent use."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._new_id = IdFactory(SystemClock(), SystemRandomness()).new
        self._summary = b""

    @classmethod
    async def connect(cls, database_url: str, driver: str = AIOMYSQL) -> RawBuild:
        """A build on a new connection with the session settings of the product's writers, on the product's driver."""
        url = make_url(database_url)
        where = {"host": url.host, "port": url.port, "user": url.username, "db": url.database}
        build = cls(await _CONNECT[driver](autocommit=True, charset="utf8mb4", **where))
        await build._run("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        await build._run("SET SESSION time_zone='+00:00'")
        return build

    async def send(self, events: Sequence[Event]) -> int:
        """Write the events in one transaction; none is ever absorbed."""
        await self._run("BEGIN")
        tasks = await self._lock_tasks(events)
        steps = await self._read_steps(events)
        await self._read_dedups(events)
        ordered = sorted(events, key=lambda event: event.execution.task_id)
        for event in ordered:
            _count_up(event, tasks[event.execution.task_id], steps[event.execution.execution_id])
        await self._write(ordered, tasks, steps)
        await self._run("COMMIT")
        return 0

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.ensure_closed()

    async def _lock_tasks(self, events: Sequence[Event]) -> dict[bytes, Row]:
        ids = sorted(event.execution.task_id for event in events)
        found = await self._run(hot_sql.lock_tasks(len(ids)), (*ids, *map(bucket_of_id, ids)))
        return {row[_TASK["id"]]: list(row) for row in found}

    async def _read_steps(self, events: Sequence[Event]) -> dict[bytes, Row]:
        ids = sorted(event.execution.execution_id for event in events)
        found = await self._run(hot_sql.executions(len(ids)), (*ids, *map(bucket_of_id, ids)))
        return {row[_STEP["execution_id"]]: list(row) for row in found}

    async def _read_dedups(self, events: Sequence[Event]) -> None:
        keys = sorted((event.execution.task_id, event.event_id) for event in events)
        buckets = [bucket_of_id(task_id) for task_id, _ in keys]
        await self._run(hot_sql.seen_events(len(keys)), (*flatten(keys), *buckets))

    async def _write(self, events: Sequence[Event], tasks: dict[bytes, Row], steps: dict[bytes, Row]) -> None:
        pairs = [(event, tasks[event.execution.task_id], steps[event.execution.execution_id]) for event in events]
        moved = [pair for pair in pairs if pair[0].event_type is not EventType.STEP_PROGRESS]
        progressed = [pair for pair in pairs if pair[0].event_type is EventType.STEP_PROGRESS]
        await self._change(hot_sql.UPDATE_TASKS, [_UPDATED_TASK(task) for _, task, _ in moved])
        await self._change(hot_sql.PROGRESS_TASKS, [_PROGRESSED_TASK(task) for _, task, _ in progressed])
        await self._change(hot_sql.UPDATE_STEPS, [_UPDATED_STEP(step) for _, _, step in moved])
        await self._change(hot_sql.PROGRESS_STEPS, [_PROGRESSED_STEP(step) for _, _, step in progressed])
        started = [(task, step) for event, task, step in pairs if event.event_type is EventType.STEP_STARTED]
        await self._change(hot_sql.INSERT_LEASES, [_lease_row(task, step) for task, step in started])
        await self._close_leases([event for event in events if event.event_type is EventType.STEP_COMPLETED])
        await self._change(hot_sql.INSERT_DEDUPS, [_dedup_row(event, task) for event, task, _ in pairs])
        await self._change(hot_sql.INSERT_EVENTS, [_event_row(*pair) for pair in pairs])
        outbox = [row for event, task, step in pairs for row in self._outbox_rows(event, task, step)]
        await self._change(hot_sql.INSERT_OUTBOX, sorted(outbox, key=lambda row: row[1]))

    async def _close_leases(self, ended: Sequence[Event]) -> None:
        if ended:
            ids = sorted(event.execution.execution_id for event in ended)
            await self._run(hot_sql.close_leases(len(ids)), (*ids, *map(bucket_of_id, ids)))

    def _outbox_rows(self, event: Event, task: Row, step: Row) -> list[Parameters]:
        if not self._summary:
            state, step_state = rows_task.from_row(task), rows_step.from_row(step)
            message = render_summary(state, step_state, event.event_type, state.committed_at, None)
            self._summary = orjson.dumps(message)
        summary = self._outbox_row(event, task, "USER_SUMMARY", "OWNER", self._summary)
        return [summary, self._outbox_row(event, task, "TASK_DETAIL", "VIEWERS", None)]

    def _outbox_row(self, event: Event, task: Row, projection: str, audience: str, payload: bytes | None) -> Parameters:
        bucket, committed_at = task[_TASK["bucket"]], task[_TASK["committed_at"]]
        return _OUTBOX_ROW(
            {
                "bucket": bucket,
                "id": self._new_id(bucket),
                "aggregate_type": "TASK",
                "aggregate_id": task[_TASK["id"]],
                "aggregate_version": task[_TASK["version"]],
                "kind": "PUBLISH",
                "projection": projection,
                "audience": audience,
                "tenant_id": task[_TASK["tenant_id"]],
                "owner_id": task[_TASK["owner_id"]],
                "workflow_id": task[_TASK["workflow_id"]],
                "event_type": event.event_type.value,
                "protected": event.event_type is EventType.STEP_COMPLETED,
                "payload": payload,
                "traceparent": event.traceparent,
                "committed_at": committed_at,
                "due_at": committed_at,
                "for_projector": False,
            }
        )

    async def _change(self, statement: MultiRow, rows: Sequence[Parameters]) -> None:
        for group in cut_rows(rows):
            await self._run(statement.text(len(group), row_alias=bool(statement.updated)), flatten(group))

    async def _run(self, statement: str, parameters: Parameters = ()) -> Sequence[Parameters]:
        async with self._connection.cursor() as cursor:
            await cursor.execute(statement, parameters or None)
            found: Sequence[Parameters] = await cursor.fetchall()
            return found


def _count_up(event: Event, task: Row, step: Row) -> None:
    """The rows after the event: versions, sequence, lifecycle and progress."""
    now: datetime = task[-1]
    task[_TASK["version"]] += 1
    task[_TASK["row_revision"]] += 1
    task[_TASK["committed_at"]] = max(now, task[_TASK["committed_at"]])
    task[_TASK["lifecycle_status"]] = task[_TASK["business_status"]] = "RUNNING"
    step[_STEP["version"]] += 1
    step[_STEP["source_seq"]] = event.source_seq
    if event.event_type is EventType.STEP_STARTED:
        step[_STEP["lifecycle_status"]], step[_STEP["started_at"]] = "RUNNING", now
    elif event.event_type is EventType.STEP_COMPLETED:
        step[_STEP["lifecycle_status"]], step[_STEP["finished_at"]] = "SUCCEEDED", now
        task[_TASK["open_steps"]] -= 1
    else:
        step[_STEP["progress_current"]], step[_STEP["progress_total"]] = event.number, workload.PROGRESS_EVENTS
        step[_STEP["progress_unit"]], step[_STEP["progress_seq"]] = workload.PROGRESS_UNIT, event.number
        step[_STEP["phase_code"]], step[_STEP["data_schema"]] = workload.PHASE, workload.DATA_SCHEMA
        step[_STEP["shown_data"]] = task[_TASK["summary_data"]] = _SHOWN
        task[_TASK["summary_schema"]] = workload.DATA_SCHEMA


def _lease_row(task: Row, step: Row) -> Parameters:
    now: datetime = task[_TASK["committed_at"]]
    timeout = step[_STEP["heartbeat_timeout_seconds"]]
    return _LEASE_ROW(
        {
            "bucket": step[_STEP["bucket"]],
            "execution_id": step[_STEP["execution_id"]],
            "task_id": step[_STEP["task_id"]],
            "task_attempt": step[_STEP["task_attempt"]],
            "step_id": step[_STEP["step_id"]],
            "step_attempt": step[_STEP["attempt"]],
            "producer_id": workload.WORKER,
            "interval_seconds": step[_STEP["heartbeat_interval_seconds"]],
            "timeout_seconds": timeout,
            "opened_at": now,
            "deadline_at": now + timedelta(seconds=timeout),
            "stuck_at": None,
        }
    )


def _dedup_row(event: Event, task: Row) -> Parameters:
    return _DEDUP_ROW(
        {
            "bucket": task[_TASK["bucket"]],
            "task_id": event.execution.task_id,
            "event_id": event.event_id,
            "digest": hashlib.sha256(event.event_id.encode()).digest(),
            "canonical_version": CANONICAL_VERSION,
            "result": _RESULT,
        }
    )


def _event_row(event: Event, task: Row, step: Row) -> Parameters:
    now, execution = task[_TASK["committed_at"]], event.execution
    return _EVENT_ROW(
        _EVENT_CONSTANTS
        | {
            "bucket": task[_TASK["bucket"]],
            "task_id": execution.task_id,
            "task_version": task[_TASK["version"]],
            "event_id": event.event_id,
            "workflow_id": execution.workflow_id,
            "event_type": event.event_type.value,
            "step_id": execution.step_id,
            "execution_id": execution.execution_id,
            "step_version": step[_STEP["version"]],
            "source_seq": event.source_seq,
            "trace_id": event.trace_id,
            "received_at": now,
            "committed_at": now,
            "digest": hashlib.sha256(event.event_id.encode()).digest(),
        }
    )
