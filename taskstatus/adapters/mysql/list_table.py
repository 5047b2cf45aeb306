"""Reads over many tasks (port ``TaskListReader``), on the reader's pool, each in one consistent view.

A page is made in looks: keys in the list's order by one index, which of them fulfil the filter, then the rows of those
shown. A filter that few tasks fulfil ends a page early, with the position of the last task looked at: a task that the
reader may see, so that a position never names another.

A person's list is a merge of branches, one for each way to a task. A look reads a few keys of each, and is complete as
far as the branch that ended soonest at its limit: beyond that place the branch may hold more, so the next look begins
there. What is read is so about what is looked at, be it one branch or hundreds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from taskstatus.adapters.mysql import hot_sql, list_sql, read_sql, rows_task
from taskstatus.adapters.mysql.list_sql import MAX_BRANCHES, Source
from taskstatus.adapters.mysql.reader import MySqlTaskReader
from taskstatus.adapters.mysql.session import Row, Session
from taskstatus.adapters.mysql.statements import MAX_KEYS, Parameters, cut_keys, flatten
from taskstatus.adapters.mysql.values import text
from taskstatus.application.identity import UserIdentity
from taskstatus.application.ports_lists import (
    NotificationState,
    RecordedEvent,
    TaskListPage,
    TaskListQuery,
    TaskPosition,
    TaskStates,
    WorkflowAccess,
)
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import ExecutionId, TaskId, WorkflowId, bucket_of_id
from taskstatus.domain.records import Projection
from taskstatus.domain.state import ExternalRef, Grant, TaskState
from taskstatus.domain.task_filter import TaskFilter

LOOKED_AT_ONCE = MAX_KEYS
LOOKS = 5
"""Tasks per look, and looks per page: what is looked at whatever the filter lets through."""
FEWEST_PER_BRANCH = 8
"""Keys of a branch in the first look; twice as many in the next when a look gave too little. Five looks give 248 tasks
at least, more than a page without a filter needs."""

_FIRST, _LAST = datetime(1970, 1, 1), datetime.max
_BEFORE_ALL, _AFTER_ALL = b"", b"\xff" * 16

Key = tuple[datetime, bytes]


class ListTable:
    """Lists and look-ups; nothing is locked."""

    def __init__(self, reader: MySqlTaskReader) -> None:
        self._reader = reader

    async def page(self, query: TaskListQuery) -> TaskListPage:
        """See the port."""
        return await self._reader.view(lambda session: _Page(session, query).read())

    async def workflow_access(self, workflow_id: WorkflowId) -> WorkflowAccess | None:
        """See the port."""
        key = (workflow_id, bucket_of_id(workflow_id))

        async def access(session: Session) -> WorkflowAccess | None:
            owners = await session.rows(list_sql.WORKFLOW_OWNER, key)
            if not owners:
                return None
            grants = await session.rows(hot_sql.WORKFLOW_GRANTS, key)
            tenant_id, authority_scope, owner_id = map(text, owners[0])
            return WorkflowAccess(tenant_id, authority_scope, owner_id, tuple(map(rows_task.grant_from_row, grants)))

        return await self._reader.view(access)

    async def states(self, task_ids: Sequence[TaskId], *, with_grants: bool) -> TaskStates:
        """See the port."""
        ids = sorted(set(task_ids))

        async def states(session: Session) -> TaskStates:
            as_of = await _now(session)
            tasks: dict[TaskId, TaskState] = {}
            grants: defaultdict[TaskId, list[Grant]] = defaultdict(list)
            for group in cut_keys(ids):
                tasks |= await _tasks(session, group)
                for row in await session.rows(hot_sql.task_grants(len(group)), _keys(group)) if with_grants else ():
                    grants[TaskId(row[0])].append(rows_task.grant_from_row(row))
            return TaskStates(tasks, {task_id: tuple(given) for task_id, given in grants.items()}, as_of)

        return await self._reader.view(states)

    async def referenced(self, tenant_id: str, authority_scope: str | None, ref: ExternalRef) -> Sequence[TaskId]:
        """See the port."""
        key = (tenant_id, ref.ref_type, ref.ref_value)
        if authority_scope is None:
            rows = await self._reader.read(lambda session: session.rows(list_sql.REFERENCED_ANYWHERE, key))
        else:
            scoped = (*key, authority_scope)
            rows = await self._reader.read(lambda session: session.rows(list_sql.REFERENCED_IN_SCOPE, scoped))
        return [TaskId(row[0]) for row in rows]

    async def events_by_id(
        self, tenant_id: str, authority_scope: str, event_id: str, limit: int
    ) -> Sequence[RecordedEvent]:
        """See the port."""
        return await self._events(list_sql.EVENTS_BY_ID, (event_id, tenant_id, authority_scope, limit))

    async def events_of_trace(
        self, tenant_id: str, authority_scope: str, trace_id: bytes, limit: int
    ) -> Sequence[RecordedEvent]:
        """See the port."""
        return await self._events(list_sql.EVENTS_OF_TRACE, (trace_id, tenant_id, authority_scope, limit))

    async def _events(self, statement: str, parameters: Parameters) -> Sequence[RecordedEvent]:
        async def events(session: Session) -> Sequence[RecordedEvent]:
            found = [_event(row) for row in await session.rows(statement, parameters)]
            told: dict[tuple[TaskId, int], tuple[NotificationState, ...]] = {}
            for group in cut_keys([(event.task_id, event.task_version) for event in found]):
                told |= await _notifications(session, group)
            return [replace(event, notifications=told.get((event.task_id, event.task_version), ())) for event in found]

        return await self._reader.view(events)


class _Page:
    """One page in the making."""

    def __init__(self, session: Session, query: TaskListQuery) -> None:
        self._session = session
        self._query = query
        self._judges = _is_judged(query.filter)
        self._size = LOOKED_AT_ONCE if self._judges else query.limit + 1
        self._per_branch = self._size
        if _source(query) is None and query.reader is not None:
            branches = 1 + _count_grantees(query.reader)
            self._per_branch = min(self._size, max(FEWEST_PER_BRANCH, 2 * self._size // branches))

    async def read(self) -> TaskListPage:
        as_of = await _now(self._session)
        shown, following = await self._choose()
        tasks = await _tasks(self._session, [TaskId(key[1]) for key in shown])
        return TaskListPage(tuple(tasks[TaskId(key[1])] for key in shown), following, as_of)

    async def _choose(self) -> tuple[list[Key], TaskPosition | None]:
        """The keys of the tasks to show, and where to go on."""
        shown: list[Key] = []
        position = self._start()
        for _ in range(LOOKS):
            keys, ends_here = await self._next_keys(position)
            admitted = await self._admitted([TaskId(key[1]) for key in keys])
            for key in keys:
                if key[1] in admitted:
                    shown.append(key)
                if len(shown) == self._query.limit:
                    return shown, None if ends_here and key == keys[-1] else TaskPosition(*key)
            if ends_here:
                return shown, None
            position = keys[-1]
        return shown, TaskPosition(*position)

    def _start(self) -> Key:
        """The later of the position and the near end of the asked time, in the list's order."""
        chosen, after = self._query.filter, self._query.after
        if self._query.oldest_first:
            first = (max(chosen.created_from or _FIRST, _FIRST), _BEFORE_ALL)
            return first if after is None else max(first, (after.created_at, after.task_id))
        last = (_LAST, _AFTER_ALL) if chosen.created_before is None else (chosen.created_before, _BEFORE_ALL)
        return last if after is None else min(last, (after.created_at, after.task_id))

    def _range(self, position: Key) -> Parameters:
        """The parameters of ``list_sql``'s ranges."""
        chosen = self._query.filter
        far = (chosen.created_before or _LAST) if self._query.oldest_first else (chosen.created_from or _FIRST)
        return (max(far, _FIRST), max(position[0], _FIRST), max(position[0], _FIRST), position[1])

    async def _next_keys(self, position: Key) -> tuple[Sequence[Key], bool]:
        """The next keys of the list in order, each once; and whether it ends with them."""
        branches = [branch async for branch in self._branches(self._range(position))]
        cut = [branch[-1] for branch in branches if len(branch) == self._per_branch]
        keys = {key for branch in branches for key in branch}
        if self._query.oldest_first:
            whole = sorted(key for key in keys if not cut or key <= min(cut))
        else:
            whole = sorted((key for key in keys if not cut or key >= max(cut)), reverse=True)
        if len(whole) < self._size:
            self._per_branch = min(self._size, 2 * self._per_branch)
        return whole[: self._size], not cut and len(whole) <= self._size

    async def _branches(self, within: Parameters) -> AsyncIterator[Sequence[Key]]:
        source, reader = _source(self._query), self._query.reader
        if source is not None:
            statements = [self._of_source(*source, within)]
        else:
            assert reader is not None, "a list of no person is one workflow's"
            statements = list(_own(reader, within, self._per_branch))
        for statement, parameters in statements:
            branches: defaultdict[int, list[Key]] = defaultdict(list)
            for row in await self._session.rows(statement, parameters):
                branches[row[2]].append((row[0], row[1]))
            for branch in branches.values():
                yield branch

    def _of_source(self, source: Source, key: Parameters, within: Parameters) -> tuple[str, Parameters]:
        reader, oldest_first = self._query.reader, self._query.oldest_first
        if reader is None:
            statement = list_sql.keys_of(source, oldest_first=oldest_first, projects=0, roles=0, everything=True)
            return statement, (*key, *within, self._size)
        projects, roles = sorted(reader.projects), sorted(reader.roles)
        statement = list_sql.keys_of(
            source, oldest_first=oldest_first, projects=len(projects), roles=len(roles), everything=False
        )
        person = (reader.tenant_id, reader.user_id, reader.user_id, *projects, *roles)
        return statement, (*key, *within, *person, self._size)

    async def _admitted(self, ids: Sequence[TaskId]) -> set[bytes]:
        if not self._judges or not ids:
            return set(ids)
        chosen = self._query.filter
        lifecycles = sorted(lifecycle.value for lifecycle in chosen.lifecycles)
        statement = list_sql.matching(
            len(ids),
            len(lifecycles),
            task_type=bool(chosen.task_type),
            batch=bool(chosen.batch_id),
            parent=chosen.parent_task_id is not None,
        )
        given = [value for value in (chosen.task_type, chosen.batch_id, chosen.parent_task_id) if value]
        rows = await self._session.rows(statement, (*_keys(ids), *lifecycles, *given))
        return {row[0] for row in rows if chosen.admits_title(row[1])}


def _is_judged(chosen: TaskFilter) -> bool:
    """Whether keys alone do not say which tasks the filter admits."""
    return chosen != TaskFilter(
        workflow_id=chosen.workflow_id, created_from=chosen.created_from, created_before=chosen.created_before
    )


def _source(query: TaskListQuery) -> tuple[Source, Parameters] | None:
    """The narrowest list that holds all that is asked for; None: all that the reader may see."""
    chosen = query.filter
    if chosen.workflow_id is not None:
        return Source.WORKFLOW, (chosen.workflow_id, bucket_of_id(chosen.workflow_id))
    if chosen.parent_task_id is not None:
        return Source.PARENT, (chosen.parent_task_id,)
    if chosen.batch_id and query.reader is not None:
        return Source.BATCH, (query.reader.tenant_id, chosen.batch_id)
    return None


def _own(reader: UserIdentity, within: Parameters, size: int) -> Iterator[tuple[str, Parameters]]:
    """The statements that give the first keys of every branch of a person's own list."""
    grantees = [("USER", reader.user_id), *(("PROJECT", name) for name in sorted(reader.projects))]
    grantees += [("ROLE", name) for name in sorted(reader.roles)]
    for start in range(0, len(grantees), MAX_BRANCHES):
        group, owned = grantees[start : start + MAX_BRANCHES], start == 0
        parameters: list[Parameters] = [(reader.tenant_id, reader.user_id, *within, size)] if owned else []
        parameters += [(reader.tenant_id, *grantee, *within, size) for grantee in group]
        yield list_sql.own_keys(owned=owned, grantees=len(group)), flatten(parameters)


def _count_grantees(reader: UserIdentity) -> int:
    return 1 + len(reader.projects) + len(reader.roles)


async def _now(session: Session) -> datetime:
    ((now,),) = await session.rows(hot_sql.NOW)
    moment: datetime = now
    return moment


async def _tasks(session: Session, ids: Sequence[TaskId]) -> dict[TaskId, TaskState]:
    if not ids:
        return {}
    rows = await session.rows(read_sql.tasks(len(ids)), _keys(ids))
    return {rows_task.id_of(row): rows_task.from_row(row) for row in rows}


async def _notifications(
    session: Session, versions: Sequence[tuple[TaskId, int]]
) -> Mapping[tuple[TaskId, int], tuple[NotificationState, ...]]:
    keys = [value for version in versions for value in version]
    buckets = [bucket_of_id(task_id) for task_id, _ in versions]
    told: defaultdict[tuple[TaskId, int], list[NotificationState]] = defaultdict(list)
    for row in await session.rows(list_sql.notifications(len(versions)), (*keys, *buckets)):
        told[(TaskId(row[0]), row[1])].append(_notification(row[2:]))
    return {key: tuple(sorted(states, key=lambda state: state.outbox_id)) for key, states in told.items()}


def _notification(row: Row) -> NotificationState:
    outbox_id, projection, status, attempts, last_error, published_at = row
    return NotificationState(
        outbox_id, Projection(text(projection)), text(status), attempts, text(last_error or ""), published_at
    )


def _event(row: Row) -> RecordedEvent:
    workflow_id, task_id, event_id, version, event_type, step_id, execution_id, actor, trace_id, committed_at = row
    return RecordedEvent(
        workflow_id=WorkflowId(workflow_id),
        task_id=TaskId(task_id),
        event_id=text(event_id),
        task_version=version,
        event_type=EventType(text(event_type)),
        step_id=text(step_id),
        execution_id=None if execution_id is None else ExecutionId(execution_id),
        actor=text(actor),
        trace_id=trace_id,
        committed_at=committed_at,
    )


def _keys(ids: Sequence[bytes]) -> Parameters:
    return (*ids, *map(bucket_of_id, ids))
