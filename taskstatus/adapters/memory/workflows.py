"""Triggers and workflows of the in-memory store (ports ``AggregateTriggers`` and ``WorkflowReader``)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime

from taskstatus.adapters.memory.members import tally_of
from taskstatus.adapters.memory.store import MemoryTaskStore
from taskstatus.application.ports_store import StoreUnavailableError
from taskstatus.application.ports_workflows import AggregateTrigger, Principals, TriggerPosition, WorkflowReading
from taskstatus.domain.ids import WorkflowId
from taskstatus.domain.records import OutboxRecord
from taskstatus.domain.state import Grant
from taskstatus.domain.workflow_views import SeenMembers


class MemoryAggregateTriggers:
    """What a ``MemoryTaskStore`` has committed."""

    def __init__(self, store: MemoryTaskStore) -> None:
        self._store = store

    async def due(self, limit: int, after: TriggerPosition | None) -> Sequence[AggregateTrigger]:
        """See the port."""
        now = await _arrive(self._store)
        found = sorted(self._store.tables.triggers.values(), key=_position)
        beyond = [row for row in found if after is None or _position(row) > (after.due_at, after.trigger_id)]
        return [
            AggregateTrigger(row.outbox_id, row.workflow_id, row.committed_at, (now - row.committed_at).total_seconds())
            for row in beyond[:limit]
        ]


class MemoryWorkflowReader:
    """What a ``MemoryTaskStore`` has committed."""

    def __init__(self, store: MemoryTaskStore) -> None:
        self._store = store
        self._tables = store.tables

    async def workflow(self, workflow_id: WorkflowId, reader: Principals | None) -> WorkflowReading | None:
        """See the port."""
        now = await _arrive(self._store)
        workflow = self._tables.workflows.get(workflow_id)
        if workflow is None:
            return None
        return WorkflowReading(workflow, None if reader is None else self._seen(workflow_id, reader), now)

    def _seen(self, workflow_id: WorkflowId, reader: Principals) -> SeenMembers:
        members = {task.envelope.task_id: task for task in self._tables.members_of(workflow_id)}
        grants = self._tables.grants_of(members)
        seen = [members[task_id] for task_id, given in grants.items() if any(_names(grant, reader) for grant in given)]
        starts = [task.started_at for task in seen if task.started_at is not None]
        ends = [task.finished_at for task in seen if task.finished_at is not None]
        return SeenMembers(tally_of(seen).counts, min(starts, default=None), max(ends, default=None))


async def _arrive(store: MemoryTaskStore) -> datetime:
    # A real database always suspends the caller; code that relies on not being suspended must fail here.
    await asyncio.sleep(0)
    if store.unavailable:
        raise StoreUnavailableError("the in-memory store was told to be unavailable")
    return store.clock.read()


def _position(row: OutboxRecord) -> tuple[datetime, bytes]:
    return row.committed_at, row.outbox_id


def _names(grant: Grant, reader: Principals) -> bool:
    named = {"USER": (reader.user_id,), "PROJECT": reader.projects, "ROLE": reader.roles}
    return grant.principal_id in named.get(grant.principal_type, ())
