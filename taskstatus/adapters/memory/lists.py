"""Reads over many tasks in memory (port ``TaskListReader``); every page is as long as it may be."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime

from taskstatus.adapters.memory.store import MemoryTaskStore
from taskstatus.application.ports_lists import (
    NotificationState,
    RecordedEvent,
    TaskListPage,
    TaskListQuery,
    TaskPosition,
    TaskStates,
    WorkflowAccess,
)
from taskstatus.application.ports_store import StoreUnavailableError
from taskstatus.domain.ids import TaskId, WorkflowId
from taskstatus.domain.permissions import VIEW, may
from taskstatus.domain.records import EventRecord, OutboxKind, OutboxRecord
from taskstatus.domain.state import ExternalRef, TaskState


class MemoryTaskLists:
    """What a ``MemoryTaskStore`` has committed."""

    def __init__(self, store: MemoryTaskStore) -> None:
        self._store = store
        self._tables = store.tables

    async def page(self, query: TaskListQuery) -> TaskListPage:
        """See the port."""
        now = await self._arrive()
        listed = [task for task in self._tables.tasks.values() if self._is_listed(task, query)]
        listed.sort(key=_key, reverse=not query.oldest_first)
        if query.after is not None:
            after = (query.after.created_at, query.after.task_id)
            listed = [task for task in listed if (_key(task) > after if query.oldest_first else _key(task) < after)]
        shown = tuple(listed[: query.limit])
        following = TaskPosition(*_key(shown[-1])) if len(listed) > query.limit else None
        return TaskListPage(shown, following, now)

    async def workflow_access(self, workflow_id: WorkflowId) -> WorkflowAccess | None:
        """See the port."""
        await self._arrive()
        state = self._tables.workflows.get(workflow_id)
        if state is None:
            return None
        return WorkflowAccess(state.tenant_id, state.authority_scope, state.owner_id, state.grants)

    async def states(self, task_ids: Sequence[TaskId], *, with_grants: bool) -> TaskStates:
        """See the port."""
        now = await self._arrive()
        tasks = {task_id: self._tables.tasks[task_id] for task_id in task_ids if task_id in self._tables.tasks}
        return TaskStates(tasks, self._tables.grants_of(task_ids) if with_grants else {}, now)

    async def referenced(self, tenant_id: str, authority_scope: str | None, ref: ExternalRef) -> Sequence[TaskId]:
        """See the port."""
        await self._arrive()
        found = sorted(key for key in self._tables.external_refs if (key[0], key[2]) == (tenant_id, ref))
        return [self._tables.external_refs[key].task_id for key in found if authority_scope in (None, key[1])]

    async def events_by_id(
        self, tenant_id: str, authority_scope: str, event_id: str, limit: int
    ) -> Sequence[RecordedEvent]:
        """See the port."""
        await self._arrive()
        own = self._own_events(tenant_id, authority_scope)
        found = [event for event in own if event.event_id == event_id]
        found.sort(key=lambda event: event.task_id, reverse=True)
        return [self._recorded(event) for event in found[:limit]]

    async def events_of_trace(
        self, tenant_id: str, authority_scope: str, trace_id: bytes, limit: int
    ) -> Sequence[RecordedEvent]:
        """See the port."""
        await self._arrive()
        own = self._own_events(tenant_id, authority_scope)
        found = [event for event in own if event.trace_id == trace_id]
        found.sort(key=lambda event: (event.committed_at, event.task_id, event.task_version))
        return [self._recorded(event) for event in found[:limit]]

    async def _arrive(self) -> datetime:
        # A real database always suspends the caller; code that relies on not being suspended must fail here.
        await asyncio.sleep(0)
        if self._store.unavailable:
            raise StoreUnavailableError("the in-memory store was told to be unavailable")
        return self._store.clock.read()

    def _is_listed(self, task: TaskState, query: TaskListQuery) -> bool:
        if not query.filter.admits(task):
            return False
        task_id = task.envelope.task_id
        grants = self._tables.grants_of([task_id]).get(task_id, ())
        return query.reader is None or may(task.envelope, grants, query.reader, VIEW)

    def _own_events(self, tenant_id: str, authority_scope: str) -> Iterable[EventRecord]:
        for event in self._tables.events.values():
            envelope = self._tables.tasks[event.task_id].envelope
            if (envelope.tenant_id, envelope.authority_scope) == (tenant_id, authority_scope):
                yield event

    def _recorded(self, event: EventRecord) -> RecordedEvent:
        rows = [row for row in self._tables.outbox.values() if _tells_of(row, event)]
        return RecordedEvent(
            workflow_id=event.workflow_id,
            task_id=event.task_id,
            event_id=event.event_id,
            task_version=event.task_version,
            event_type=event.event_type,
            step_id=event.step_id,
            execution_id=event.execution_id,
            actor=event.actor,
            trace_id=event.trace_id,
            committed_at=event.committed_at,
            notifications=tuple(
                NotificationState(row.outbox_id, row.projection, "PENDING", 0, "", None)
                for row in sorted(rows, key=lambda row: row.outbox_id)
            ),
        )


def _key(task: TaskState) -> tuple[datetime, bytes]:
    return task.envelope.created_at, task.envelope.task_id


def _tells_of(row: OutboxRecord, event: EventRecord) -> bool:
    """Whether a notification is of the event's version, and not for the service itself."""
    is_of_version = (row.aggregate_id, row.aggregate_version) == (event.task_id, event.task_version)
    return is_of_version and row.kind is not OutboxKind.AGGREGATE
