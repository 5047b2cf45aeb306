"""Reads for services and people; what the caller may not see does not exist (Q-1, P-4)."""

from __future__ import annotations

from collections.abc import Iterable

from taskstatus.application.identity import Identity, ServiceIdentity
from taskstatus.application.ports_store import TaskReader
from taskstatus.domain.errors import RefusedError, invalid
from taskstatus.domain.ids import TaskId, parse_task_id
from taskstatus.domain.permissions import VIEW, may
from taskstatus.domain.reasons import Reason
from taskstatus.domain.records import TaskView, TimelinePage
from taskstatus.domain.state import Grant, TaskEnvelope, TaskState

TIMELINE_LIMIT_DEFAULT = 100
TIMELINE_LIMIT_MAX = 500


class Queries:
    """The methods of QueryService."""

    def __init__(self, reader: TaskReader) -> None:
        self._reader = reader

    async def task(self, identity: Identity, task_id_text: str) -> TaskView:
        """One consistent view of a task that the caller may see. Raises RefusedError TASK_NOT_FOUND."""
        task_id = _parse(task_id_text)
        views = await self._reader.task_views([task_id], with_trigger=False)
        view = views.get(task_id)
        if view is None or not await self._may_view(identity, view.task):
            raise task_not_found()
        return view

    async def timeline(self, identity: Identity, task_id_text: str, after_version: int, limit: int) -> TimelinePage:
        """Events after a version. Raises RefusedError TASK_NOT_FOUND, INVALID_ARGUMENT."""
        if limit > TIMELINE_LIMIT_MAX:
            raise invalid("limit", f"must be 1 to {TIMELINE_LIMIT_MAX}")
        view = await self.task(identity, task_id_text)
        return await self._reader.timeline(view.task.envelope.task_id, after_version, limit or TIMELINE_LIMIT_DEFAULT)

    async def _may_view(self, identity: Identity, task: TaskState) -> bool:
        envelope = task.envelope
        if may_view(identity, envelope, ()):
            return True
        if isinstance(identity, ServiceIdentity) or envelope.tenant_id != identity.tenant_id:
            return False
        grants = await self._reader.task_grants([envelope.task_id])
        return may_view(identity, envelope, grants.get(envelope.task_id, ()))


def may_view(identity: Identity, envelope: TaskEnvelope, grants: Iterable[Grant]) -> bool:
    """Whether the caller may see a task: a service that of its tenant and scope, a person as ``permissions`` says."""
    if isinstance(identity, ServiceIdentity):
        return (envelope.tenant_id, envelope.authority_scope) == (identity.tenant_id, identity.authority_scope)
    return may(envelope, grants, identity, VIEW)


def task_not_found() -> RefusedError:
    """The one answer for an unknown task, another tenant's and one that the person may not see."""
    return RefusedError(Reason.TASK_NOT_FOUND, "no such task")


def _parse(text: str) -> TaskId:
    task_id = parse_task_id(text)
    if task_id is None:
        raise task_not_found()
    return task_id
