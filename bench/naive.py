"""FROZEN: the naive build that the product is compared with; its figures stand in ``results/`` beside this file.

Do not improve it: a ratio means something only as long as its denominator stays what it was. It is the build that one
writes first, without its beginner's mistakes: SQLAlchemy Core with statements built once, one transaction per event
on one of eight connections, the rows locked, the decision taken by the product's own domain (hence the same checks,
the same answers, the same rows in every table), each row written by a statement of its own. There is no RPC, no
credential is opened, and nothing is cached; a conflict or a lost connection is not retried.

What it borrows from the product are the columns, their constants and the conversion of rows, so that it follows the
schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import orjson
from google.protobuf.struct_pb2 import Struct
from sqlalchemy import ColumnElement, Executable, bindparam, column, insert, literal_column, select, table, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from bench import workload
from bench.workload import Event
from taskstatus.adapters.canonical import canonicalize
from taskstatus.adapters.clock import SystemClock, SystemRandomness
from taskstatus.adapters.definitions.schemas import CompiledSchemas
from taskstatus.adapters.mysql import rows_event, rows_outbox, rows_step, rows_task
from taskstatus.adapters.mysql.engine import driver_url
from taskstatus.adapters.mysql.hot_sql import INSERT_DEDUPS, INSERT_LEASES, INSERT_OUTBOX
from taskstatus.adapters.mysql.statements import MultiRow
from taskstatus.application.ids_factory import IdFactory
from taskstatus.domain.batch import Arrival, WorkingSet, evaluate
from taskstatus.domain.commands import Caller, Credential, EventContent, EventData, StatedFields, TaskEventCommand
from taskstatus.domain.definitions import OperationDefinition, generic_profile, shown_fields
from taskstatus.domain.events import EXECUTION_EVENTS, EventType
from taskstatus.domain.ids import ExecutionId, TaskId, WorkflowId, bucket_of_id
from taskstatus.domain.notifications import OutboxTools
from taskstatus.domain.progress import Progress
from taskstatus.domain.records import ChangeSet
from taskstatus.domain.verdicts import Accepted

CONNECTIONS = 8
OLDEST_ACCEPTED = timedelta(days=7)


def _constant_names(statement: MultiRow) -> Iterable[str]:
    return (name for name, _ in statement.fixed)


def _constants(statement: MultiRow) -> dict[str, Any]:
    return {name: literal_column(value) for name, value in statement.fixed}


_TASK = table("task", *map(column, rows_task.COLUMNS))
_STEP = table("task_step", *map(column, (*rows_step.COLUMNS, "write_count")))
_DEDUP = table("task_event_dedup", *map(column, (*rows_event.DEDUP_COLUMNS, *_constant_names(INSERT_DEDUPS))))
_EVENT = table("task_event_log", *map(column, rows_event.COLUMNS))
_OUTBOX = table("task_outbox", *map(column, (*rows_outbox.COLUMNS, *_constant_names(INSERT_OUTBOX))))
_LEASE = table(
    "task_execution_lease",
    *map(column, (*rows_outbox.LEASE_COLUMNS, *_constant_names(INSERT_LEASES), "closed_at")),
)
_NOW: ColumnElement[datetime] = literal_column("SYSDATE(6)")


def _bound(columns: Iterable[str]) -> dict[str, Any]:
    return {name: bindparam(f"b_{name}") for name in columns}


_LOCK_TASK = (
    select(*(_TASK.c[name] for name in rows_task.COLUMNS), _NOW.label("now"))
    .where(_TASK.c.id == bindparam("b_id"), _TASK.c.bucket == bindparam("b_bucket"))
    .with_for_update()
)
_READ_STEP = select(*(_STEP.c[name] for name in rows_step.COLUMNS)).where(
    _STEP.c.execution_id == bindparam("b_execution_id"), _STEP.c.bucket == bindparam("b_bucket")
)
_READ_DEDUP = select(*(_DEDUP.c[name] for name in rows_event.SEEN_COLUMNS)).where(
    _DEDUP.c.task_id == bindparam("b_task_id"),
    _DEDUP.c.event_id == bindparam("b_event_id"),
    _DEDUP.c.bucket == bindparam("b_bucket"),
)
_UPDATE_TASK = (
    update(_TASK)
    .where(_TASK.c.id == bindparam("b_id"), _TASK.c.bucket == bindparam("b_bucket"))
    .values(_bound(rows_task.MUTABLE))
)
_UPDATE_STEP = (
    update(_STEP)
    .where(
        _STEP.c.task_id == bindparam("b_task_id"),
        _STEP.c.task_attempt == bindparam("b_task_attempt"),
        _STEP.c.step_id == bindparam("b_step_id"),
        _STEP.c.attempt == bindparam("b_attempt"),
        _STEP.c.bucket == bindparam("b_bucket"),
    )
    .values(_bound(rows_step.MUTABLE) | {"write_count": _STEP.c.write_count + 1})
)
_INSERT_LEASE = insert(_LEASE).values(_bound(rows_outbox.LEASE_COLUMNS) | _constants(INSERT_LEASES))
_CLOSE_LEASE = (
    update(_LEASE)
    .where(
        _LEASE.c.execution_id == bindparam("b_execution_id"),
        _LEASE.c.bucket == bindparam("b_bucket"),
        _LEASE.c.closed_at.is_(None),
    )
    .values(closed_at=_NOW, deadline_at=None)
)
_INSERT_DEDUP = insert(_DEDUP).values(_bound(rows_event.DEDUP_COLUMNS) | _constants(INSERT_DEDUPS))
_INSERT_EVENT = insert(_EVENT).values(_bound(rows_event.COLUMNS))
_INSERT_OUTBOX = insert(_OUTBOX).values(_bound(rows_outbox.COLUMNS) | _constants(INSERT_OUTBOX))


class NaiveBuild:
    """Records one event per transaction; as many calls at once as there are connections."""

    def __init__(self, database_url: str) -> None:
        self._engine: AsyncEngine = create_async_engine(
            driver_url(database_url),
            isolation_level="READ COMMITTED",
            pool_size=CONNECTIONS,
            max_overflow=0,
            connect_args={"init_command": "SET SESSION time_zone='+00:00'"},
        )
        self._tools = OutboxTools(IdFactory(SystemClock(), SystemRandomness()).new, orjson.dumps)
        self._schemas = CompiledSchemas()

    async def send(self, events: Sequence[Event]) -> int:
        """Record the events one by one; none is ever absorbed. Raises AssertionError for any other answer."""
        for event in events:
            command = _command(event, self._content(event))
            async with self._engine.begin() as connection:
                await self._record(connection, command)
        return 0

    async def close(self) -> None:
        """Close the connections."""
        await self._engine.dispose()

    def _content(self, event: Event) -> EventContent:
        content = EventContent(event_id=event.event_id, event_type=event.event_type, source_seq=event.source_seq)
        if event.event_type is EventType.STEP_COMPLETED:
            return replace(content, duration_ms=event.number * 1000)
        if event.event_type is EventType.STEP_STARTED:
            return content
        return replace(
            content,
            progress=Progress(float(event.number), float(workload.PROGRESS_EVENTS), workload.PROGRESS_UNIT),
            progress_seq=event.number,
            phase_code=workload.PHASE,
            data=self._data(generic_profile(workload.OPERATION)),
        )

    def _data(self, definition: OperationDefinition) -> EventData:
        schema = definition.schema(workload.DATA_SCHEMA)
        assert schema is not None
        assert self._schemas.violation(schema, workload.DATA) is None
        wire = Struct()
        wire.update(workload.DATA)
        return EventData(
            schema=schema.name,
            wire=wire.SerializeToString(deterministic=True),
            value=workload.DATA,
            shown=orjson.dumps(shown_fields(workload.DATA, schema.detail_fields)),
            summary=orjson.dumps(shown_fields(workload.DATA, schema.summary_fields)),
        )

    async def _record(self, connection: AsyncConnection, command: TaskEventCommand) -> None:
        rows = await _read(connection, command)
        verdicts, changes = evaluate([Arrival(command, 0.0)], rows, self._tools, OLDEST_ACCEPTED)
        assert isinstance(verdicts[0], Accepted), verdicts[0]
        await _write(connection, changes)


async def _read(connection: AsyncConnection, command: TaskEventCommand) -> WorkingSet:
    task_id, event_id = command.task_id, command.content.event_id
    key = {"b_bucket": bucket_of_id(task_id)}
    task_row = (await connection.execute(_LOCK_TASK, key | {"b_id": task_id})).one()
    step_row = (await connection.execute(_READ_STEP, key | {"b_execution_id": command.execution_id})).one()
    seen = (await connection.execute(_READ_DEDUP, key | {"b_task_id": task_id, "b_event_id": event_id})).all()
    step = rows_step.from_row(step_row)
    now: datetime = task_row[-1]
    return WorkingSet(
        tasks={task_id: rows_task.from_row(task_row)},
        steps={step.key: step},
        seen=dict(map(rows_event.seen_from_row, seen)),
        now={task_id: now},
    )


async def _write(connection: AsyncConnection, changes: ChangeSet) -> None:
    """In the product's lock order, one statement per row."""
    for task in changes.tasks:
        await _execute(connection, _UPDATE_TASK, rows_task.COLUMNS, rows_task.to_row(task))
    for step in changes.steps:
        await _execute(connection, _UPDATE_STEP, rows_step.COLUMNS, rows_step.to_row(step))
    for lease in changes.opened_leases:
        await _execute(connection, _INSERT_LEASE, rows_outbox.LEASE_COLUMNS, rows_outbox.lease_to_row(lease))
    for closed in changes.closed_leases:
        await _execute(connection, _CLOSE_LEASE, ("bucket", "execution_id"), closed)
    for dedup in changes.dedups:
        await _execute(connection, _INSERT_DEDUP, rows_event.DEDUP_COLUMNS, rows_event.dedup_to_row(dedup))
    for event in changes.events:
        await _execute(connection, _INSERT_EVENT, rows_event.COLUMNS, rows_event.to_row(event))
    for message in changes.outbox:
        await _execute(connection, _INSERT_OUTBOX, rows_outbox.COLUMNS, rows_outbox.to_row(message))


async def _execute(
    connection: AsyncConnection, statement: Executable, columns: Sequence[str], row: Sequence[Any]
) -> None:
    parameters: Mapping[str, Any] = {f"b_{name}": value for name, value in zip(columns, row, strict=True)}
    await connection.execute(statement, parameters)


def _command(event: Event, content: EventContent) -> TaskEventCommand:
    execution = event.execution
    caller = Caller(workload.TENANT, workload.SCOPE, workload.WORKER)
    command = TaskEventCommand(
        caller=caller,
        content=content,
        workflow_id=WorkflowId(execution.workflow_id),
        task_id=TaskId(execution.task_id),
        task_attempt=1,
        step_id=execution.step_id,
        step_attempt=1,
        execution_id=ExecutionId(execution.execution_id),
        operation_code=workload.OPERATION,
        bound=caller,
        credential=Credential(generation=1, expires_at=None, allowed_events=EXECUTION_EVENTS),
        stated=StatedFields(),
        canonical=b"",
        digest=b"",
        received_monotonic=0.0,
        received_unix=0.0,
        trace_id=event.trace_id,
        traceparent=event.traceparent,
    )
    canonical, digest = canonicalize(command)
    return replace(command, canonical=canonical, digest=digest)
