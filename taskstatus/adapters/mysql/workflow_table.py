"""Triggers for the projector, and workflows as they are read (ports ``AggregateTriggers`` and ``WorkflowReader``)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from taskstatus.adapters.mysql import hot_sql, rows_member, rows_task, rows_workflow, workflow_sql
from taskstatus.adapters.mysql.reader import MySqlTaskReader
from taskstatus.adapters.mysql.session import Session
from taskstatus.application.ports_workflows import AggregateTrigger, Principals, TriggerPosition, WorkflowReading
from taskstatus.domain.ids import WorkflowId, bucket_of_id
from taskstatus.domain.workflow_views import SeenMembers

_BEGINNING = TriggerPosition(datetime(1970, 1, 1), b"")


class WorkflowTable:
    """Reads on the reader's pool."""

    def __init__(self, reader: MySqlTaskReader) -> None:
        self._reader = reader

    async def due(self, limit: int, after: TriggerPosition | None) -> Sequence[AggregateTrigger]:
        """See the port."""
        position = after or _BEGINNING
        parameters = (position.due_at, position.due_at, position.trigger_id, limit)
        rows = await self._reader.read(lambda session: session.rows(workflow_sql.DUE_TRIGGERS, parameters))
        return [AggregateTrigger(row[0], WorkflowId(row[1]), row[2], row[3] / 1e6) for row in rows]

    async def workflow(self, workflow_id: WorkflowId, reader: Principals | None) -> WorkflowReading | None:
        """See the port."""
        key = (workflow_id, bucket_of_id(workflow_id))

        async def read(session: Session) -> WorkflowReading | None:
            rows = await session.rows(workflow_sql.WORKFLOW, key)
            grants = await session.rows(hot_sql.WORKFLOW_GRANTS, key)
            seen = await _seen(session, key, reader) if rows and reader else None
            if not rows:
                return None
            workflow = rows_workflow.from_row(rows[0], tuple(map(rows_task.grant_from_row, grants)))
            return WorkflowReading(workflow, seen, rows[0][-1])

        return await self._reader.view(read)


async def _seen(session: Session, key: tuple[bytes, int], reader: Principals) -> SeenMembers:
    statement = workflow_sql.count_seen_members(len(reader.projects), len(reader.roles))
    parameters = (*key, reader.user_id, *reader.projects, *reader.roles)
    return rows_member.seen_members(await session.rows(statement, parameters))
