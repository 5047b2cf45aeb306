"""Lists of tasks and the statuses of many: people see their own and what is granted to them (Q-1, P-4).

Rights are judged for every page and every id anew, by the rows of that moment.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from taskstatus.application.cursors import Query, from_micros, read_cursor, to_micros, write_cursor
from taskstatus.application.identity import Identity, ServiceIdentity, UserIdentity
from taskstatus.application.ports_lists import TaskListPage, TaskListQuery, TaskListReader, TaskPosition, TaskStates
from taskstatus.application.query import may_view
from taskstatus.application.workflows import workflow_not_found
from taskstatus.domain import text
from taskstatus.domain.errors import invalid
from taskstatus.domain.ids import TaskId, WorkflowId, parse_task_id, parse_workflow_id
from taskstatus.domain.permissions import VIEW, permits
from taskstatus.domain.state import TaskState
from taskstatus.domain.task_filter import TaskFilter

PAGE_LIMIT_DEFAULT = 50
PAGE_LIMIT_MAX = 200
STATUSES_MAX = 100
TASK_ID_TEXT_MAX = 64
MEMBERSHIPS_MAX = 500
"""Projects and roles of one person whose lists can be made: each is a branch of the list. A credential that names more
is refused, loudly, since a list without some of them would be wrong."""

_POSITION = struct.Struct(">q16s")


@dataclass(frozen=True, slots=True)
class TaskListing:
    """One page; it may be short, and even empty, while ``next_cursor`` goes on. Empty at the end."""

    tasks: tuple[TaskState, ...]
    next_cursor: str
    as_of: datetime


@dataclass(frozen=True, slots=True)
class TaskStatuses:
    """Every id that was asked for is in exactly one of the three."""

    tasks: tuple[TaskState, ...]
    """Of which the caller does not have the current version."""
    unchanged: tuple[str, ...]
    """As the caller wrote them."""
    missing: tuple[str, ...]
    as_of: datetime


class TaskLists:
    """ListMyTasks, ListWorkflowTasks and BatchGetTaskStatus."""

    def __init__(self, lists: TaskListReader) -> None:
        self._lists = lists

    async def my_tasks(self, person: UserIdentity, chosen: TaskFilter, limit: int, cursor: str) -> TaskListing:
        """What a person may see, the newest first. Raises RefusedError INVALID_ARGUMENT."""
        _check_memberships(person)
        bound = ("ListMyTasks", person.tenant_id, person.user_id, *_parts(chosen))
        asked = TaskListQuery(person, chosen, _page_limit(limit), _position(bound, cursor))
        return _listing(bound, await self._lists.page(asked))

    async def workflow_tasks(
        self, identity: Identity, workflow_id_text: str, chosen: TaskFilter, limit: int, cursor: str
    ) -> TaskListing:
        """The tasks of a workflow that the caller may see, the oldest first.

        Raises RefusedError WORKFLOW_NOT_FOUND, when the caller may see neither the workflow nor any task of it, and
        INVALID_ARGUMENT.
        """
        if chosen.workflow_id is not None:
            raise invalid("filter.workflowId", "must be empty: the workflow is named already")
        reader = None if isinstance(identity, ServiceIdentity) else identity
        if reader is not None:
            _check_memberships(reader)
        page_limit = _page_limit(limit)
        workflow_id = _parse_workflow(workflow_id_text)
        chosen = replace(chosen, workflow_id=workflow_id)
        bound = ("ListWorkflowTasks", *_caller_parts(identity), *_parts(chosen))
        after = _position(bound, cursor)
        await self._check_visible(identity, workflow_id)
        return _listing(bound, await self._lists.page(TaskListQuery(reader, chosen, page_limit, after, True)))

    async def statuses(self, identity: Identity, asked: Sequence[str], known: Mapping[str, int]) -> TaskStatuses:
        """The states of up to ``STATUSES_MAX`` tasks; ``known``: versions by id as written in ``asked``.

        A version that differs counts as old even when it is greater: the database may have been restored. Raises
        RefusedError INVALID_ARGUMENT.
        """
        ids = _parse_asked(asked, known)
        for_person = isinstance(identity, UserIdentity)
        states = await self._lists.states([i for i in ids.values() if i is not None], with_grants=for_person)
        changed: list[TaskState] = []
        unchanged: list[str] = []
        missing: list[str] = []
        for as_written, task_id in ids.items():
            task = states.tasks.get(task_id) if task_id is not None else None
            if task is None or not _sees(identity, task, states):
                missing.append(as_written)
            elif known.get(as_written) == task.version:
                unchanged.append(as_written)
            else:
                changed.append(task)
        return TaskStatuses(tuple(changed), tuple(unchanged), tuple(missing), states.as_of)

    async def _check_visible(self, identity: Identity, workflow_id: WorkflowId) -> None:
        access = await self._lists.workflow_access(workflow_id)
        if access is None or access.tenant_id != identity.tenant_id:
            raise workflow_not_found()
        if isinstance(identity, ServiceIdentity):
            if access.authority_scope != identity.authority_scope:
                raise workflow_not_found()
        elif access.owner_id != identity.user_id and not permits(access.grants, identity, VIEW):
            any_task = TaskListQuery(identity, TaskFilter(workflow_id=workflow_id), limit=1, oldest_first=True)
            if not (await self._lists.page(any_task)).tasks:
                raise workflow_not_found()


def _parse_workflow(written: str) -> WorkflowId:
    workflow_id = parse_workflow_id(written)
    if workflow_id is None:
        raise workflow_not_found()
    return workflow_id


def _sees(identity: Identity, task: TaskState, states: TaskStates) -> bool:
    return may_view(identity, task.envelope, states.grants.get(task.envelope.task_id, ()))


def _check_memberships(person: UserIdentity) -> None:
    count = len(person.projects) + len(person.roles)
    if count > MEMBERSHIPS_MAX:
        raise invalid("authorization", f"names {count} projects and roles, lists are made for {MEMBERSHIPS_MAX}")


def _page_limit(limit: int) -> int:
    if not 0 <= limit <= PAGE_LIMIT_MAX:
        raise invalid("limit", f"must be 1 to {PAGE_LIMIT_MAX}")
    return limit or PAGE_LIMIT_DEFAULT


def _parse_asked(asked: Sequence[str], known: Mapping[str, int]) -> dict[str, TaskId | None]:
    """The ids by how they were written; None for one that no task can have."""
    if not 1 <= len(asked) <= STATUSES_MAX:
        raise invalid("taskIds", f"must hold 1 to {STATUSES_MAX} ids")
    ids: dict[str, TaskId | None] = {}
    seen: set[TaskId | str] = set()
    for index, written in enumerate(asked):
        path = f"taskIds[{index}]"
        task_id = parse_task_id(text.check_id(path, written, TASK_ID_TEXT_MAX))
        if (task_id or written) in seen:
            raise invalid(path, "is given more than once")
        seen.add(task_id or written)
        ids[written] = task_id
    if any(written not in ids for written in known):
        raise invalid("knownVersions", "names an id that is not among taskIds, as it is written there")
    return ids


def _caller_parts(identity: Identity) -> Query:
    if isinstance(identity, ServiceIdentity):
        return ("service", identity.tenant_id, identity.authority_scope)
    return ("person", identity.tenant_id, identity.user_id)


def _parts(chosen: TaskFilter) -> Query:
    """Every condition, as plain values in a fixed order."""
    return (
        tuple(sorted(lifecycle.value for lifecycle in chosen.lifecycles)),
        chosen.task_type,
        chosen.workflow_id,
        chosen.created_from,
        chosen.created_before,
        chosen.title_contains,
        chosen.batch_id,
        chosen.parent_task_id,
    )


def _position(bound: Query, cursor: str) -> TaskPosition | None:
    if not cursor:
        return None
    micros, task_id = _POSITION.unpack(read_cursor(bound, cursor, _POSITION.size))
    return TaskPosition(from_micros(micros), task_id)


def _listing(bound: Query, page: TaskListPage) -> TaskListing:
    following = page.next_position
    cursor = "" if following is None else write_cursor(bound, _packed(following))
    return TaskListing(page.tasks, cursor, page.as_of)


def _packed(position: TaskPosition) -> bytes:
    return _POSITION.pack(to_micros(position.created_at), position.task_id)
