"""Reads outside write transactions (port ``TaskReader``), from the writer database.

What spans several statements runs in one consistent, read-only snapshot; a single statement is consistent by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TypeVar

from sqlalchemy.ext.asyncio import AsyncEngine

from taskstatus.adapters.mysql import (
    hot_sql,
    read_sql,
    rows_command,
    rows_event,
    rows_run,
    rows_step,
    rows_task,
    workflow_sql,
)
from taskstatus.adapters.mysql.errors import Cause, DatabaseError
from taskstatus.adapters.mysql.rows_terms import terms_from_json
from taskstatus.adapters.mysql.session import BEGIN_VIEW, Row, Session, open_session
from taskstatus.adapters.mysql.statements import cut_keys
from taskstatus.adapters.mysql.values import text
from taskstatus.application.identity import ExecutionBinding
from taskstatus.application.ports_store import StoreUnavailableError
from taskstatus.domain.ids import ExecutionId, TaskId, WorkflowId, bucket_of_id
from taskstatus.domain.records import EventRecord, RunView, TaskView, TimelinePage
from taskstatus.domain.state import ExternalRef, Grant, StepState, TaskState

T = TypeVar("T")
ATTEMPTS = 2
"""The first failure empties the pool of stale connections; a fresh one that fails too is an outage."""
_PASSING = (Cause.LOST, Cause.READ_ONLY, Cause.CONFLICT)


class MySqlTaskReader:
    """Consistent reads on the reader pool (REPEATABLE READ)."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def execution_bindings(self, ids: Sequence[ExecutionId]) -> Mapping[ExecutionId, ExecutionBinding]:
        """See the port."""
        if not ids:
            return {}

        async def read(session: Session) -> list[Row]:
            rows: list[Row] = []
            for group in cut_keys(ids):
                rows.extend(await session.rows(read_sql.execution_bindings(len(group)), _keys(group)))
            return rows

        return {ExecutionId(row[-1]): _binding(row) for row in await self.read(read)}

    async def execution_state(self, execution_id: ExecutionId) -> tuple[TaskState, StepState] | None:
        """See the port."""
        parameters = _execution_key(execution_id)
        rows = await self.read(lambda session: session.rows(read_sql.EXECUTION_STATE, parameters))
        if not rows:
            return None
        columns = len(rows_task.COLUMNS)
        return rows_task.from_row(rows[0]), rows_step.from_row(rows[0][columns:])

    async def execution_states(
        self, execution_ids: Sequence[ExecutionId]
    ) -> Mapping[ExecutionId, tuple[TaskState, StepState]]:
        """See the port."""
        ids, columns = sorted(set(execution_ids)), len(rows_task.COLUMNS)
        states: dict[ExecutionId, tuple[TaskState, StepState]] = {}
        for group in cut_keys(ids):
            rows = await self.read(partial(_rows_of_states, group))
            for row in rows:
                task, step = rows_task.from_row(row), rows_step.from_row(row[columns:])
                if step.terms is not None:
                    states[step.terms.execution_id] = task, step
        return states

    async def task_views(self, task_ids: Sequence[TaskId], *, with_trigger: bool) -> Mapping[TaskId, TaskView]:
        """See the port."""
        ids = sorted(set(task_ids))

        async def view(session: Session) -> Mapping[TaskId, TaskView]:
            views: dict[TaskId, TaskView] = {}
            for group in cut_keys(ids):
                views.update(await _views(session, group, with_trigger))
            return views

        return await self.view(view) if ids else {}

    async def timeline(self, task_id: TaskId, after_version: int, limit: int) -> TimelinePage:
        """See the port."""
        bucket = bucket_of_id(task_id)

        async def page(session: Session) -> TimelinePage:
            position = await session.rows(read_sql.TIMELINE_POSITION, (task_id, bucket, task_id, bucket))
            rows = await session.rows(read_sql.TIMELINE_PAGE, (task_id, bucket, after_version, limit + 1))
            version, oldest = position[0] if position else (0, None)
            events = tuple(map(rows_event.from_row, rows[:limit]))
            return TimelinePage(events, version, len(rows) > limit, oldest or 0)

        return await self.view(page)

    async def task_grants(self, task_ids: Sequence[TaskId]) -> Mapping[TaskId, tuple[Grant, ...]]:
        """See the port."""
        ids = sorted(set(task_ids))

        async def grants(session: Session) -> Mapping[TaskId, tuple[Grant, ...]]:
            found: defaultdict[TaskId, list[Grant]] = defaultdict(list)
            for group in cut_keys(ids):
                for row in await session.rows(hot_sql.task_grants(len(group)), _keys(group)):
                    found[TaskId(row[0])].append(rows_task.grant_from_row(row))
            return {task_id: tuple(given) for task_id, given in found.items()}

        return await self.view(grants) if ids else {}

    async def workflow_grants(self, workflow_ids: Sequence[WorkflowId]) -> Mapping[WorkflowId, tuple[Grant, ...]]:
        """See the port."""
        found: defaultdict[WorkflowId, list[Grant]] = defaultdict(list)
        for group in cut_keys(sorted(set(workflow_ids))):
            for row in await self.read(partial(_rows_of_grants, group)):
                found[WorkflowId(row[0])].append(rows_task.grant_from_row(row))
        return {workflow_id: tuple(given) for workflow_id, given in found.items()}

    async def view(self, body: Callable[[Session], Awaitable[T]]) -> T:
        """As ``read``, with all statements in one consistent, read-only view."""

        async def in_snapshot(session: Session) -> T:
            await session.begin(BEGIN_VIEW)
            value = await body(session)
            await session.commit()
            return value

        return await self.read(in_snapshot)

    async def read(self, body: Callable[[Session], Awaitable[T]]) -> T:
        """Run reads on one session, and once more on a fresh connection. Raises StoreUnavailableError."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                async with open_session(self._engine) as session:
                    return await body(session)
            except DatabaseError as error:
                if attempt == ATTEMPTS or error.cause not in _PASSING:
                    raise StoreUnavailableError(str(error)) from error
        raise AssertionError("unreachable: the last attempt returns or raises")


async def _views(session: Session, ids: Sequence[TaskId], with_trigger: bool) -> Mapping[TaskId, TaskView]:
    keys = _keys(ids)
    found: dict[TaskId, tuple[TaskState, datetime]] = {}
    for row in await session.rows(read_sql.tasks(len(ids)), keys):
        found[TaskId(row[1])] = (rows_task.from_row(row), row[-1])
    steps: defaultdict[TaskId, list[StepState]] = defaultdict(list)
    for row in await session.rows(read_sql.steps_of_current_runs(len(ids)), keys):
        step = rows_step.from_row(row)
        steps[step.task_id].append(step)
    triggers = await _triggers(session, ids) if with_trigger else {}
    runs = await _runs(session, keys, len(ids))
    refs = await _external_refs(session, keys, len(ids))
    return {
        task_id: TaskView(
            task,
            tuple(sorted(steps[task_id], key=_display_order)),
            as_of,
            triggers.get(task_id),
            tuple(runs[task_id]),
            tuple(refs[task_id]),
        )
        for task_id, (task, as_of) in found.items()
    }


async def _runs(session: Session, keys: tuple[bytes | int, ...], count: int) -> Mapping[TaskId, list[RunView]]:
    runs: defaultdict[TaskId, list[RunView]] = defaultdict(list)
    found = map(rows_run.from_row, await session.rows(read_sql.runs_of_tasks(count), keys))
    for view in sorted(found, key=lambda view: view.run.task_attempt):
        runs[view.run.task_id].append(view)
    return runs


async def _external_refs(
    session: Session, keys: tuple[bytes | int, ...], count: int
) -> Mapping[TaskId, list[ExternalRef]]:
    refs: defaultdict[TaskId, list[ExternalRef]] = defaultdict(list)
    for row in await session.rows(read_sql.refs_of_tasks(count), keys):
        record = rows_command.ref_from_row(row)
        refs[record.task_id].append(record.ref)
    return refs


async def _triggers(session: Session, ids: Sequence[TaskId]) -> Mapping[TaskId, EventRecord]:
    rows = await session.rows(read_sql.events_of_current_versions(len(ids)), _keys(ids))
    return {event.task_id: event for event in map(rows_event.from_row, rows)}


def _display_order(step: StepState) -> tuple[int, str, int]:
    return (step.definition.order, step.definition.step_id, step.attempt)


async def _rows_of_states(ids: Sequence[ExecutionId], session: Session) -> Sequence[Row]:
    return await session.rows(read_sql.execution_states(len(ids)), _keys(ids))


async def _rows_of_grants(ids: Sequence[WorkflowId], session: Session) -> Sequence[Row]:
    return await session.rows(workflow_sql.workflow_grants(len(ids)), _keys(ids))


def _keys(ids: Sequence[bytes]) -> tuple[bytes | int, ...]:
    return (*ids, *map(bucket_of_id, ids))


def _execution_key(execution_id: ExecutionId) -> tuple[bytes, int]:
    return (execution_id, bucket_of_id(execution_id))


def _binding(row: Row) -> ExecutionBinding:
    tenant_id, scope, workflow_id, task_id, task_attempt, step_id, attempt, operation, producer = row[:9]
    definition_version, definition_task_type, terms, execution_id = row[9:]
    return ExecutionBinding(
        tenant_id=text(tenant_id),
        authority_scope=text(scope),
        workflow_id=WorkflowId(workflow_id),
        task_id=TaskId(task_id),
        task_attempt=task_attempt,
        step_id=text(step_id),
        step_attempt=attempt,
        operation_code=text(operation),
        execution_id=ExecutionId(execution_id),
        producer_id=text(producer),
        definition_version=definition_version,
        definition_task_type=text(definition_task_type),
        may_register_children=terms_from_json(terms).dynamic.admits_parent(text(operation)),
    )
