"""Pages of a list while others create tasks, grant, revoke and report: what must be seen, by a model of the rights.

The model keeps every task with its grants in plain dictionaries, and knows for each task whether it was in the list at
every moment since the first page.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random

from taskstatus.application.identity import UserIdentity
from taskstatus.application.task_lists import TaskListing, TaskLists
from taskstatus.domain.ids import TaskId, format_workflow_id
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.permissions import VIEW, may
from taskstatus.domain.records import ChangeSet
from taskstatus.domain.state import Grant, TaskState, WorkflowState
from taskstatus.domain.task_filter import TaskFilter

from . import records
from .backends import Backend

PERSON = UserIdentity(records.TENANT, records.OWNER, frozenset({"p-1", "p-2"}), frozenset({"audit"}), 0.0)
STRANGER = "u-1"
GRANTEES = (
    ("USER", records.OWNER),
    ("PROJECT", "p-1"),
    ("PROJECT", "p-2"),
    ("ROLE", "audit"),
    ("USER", "u-2"),
    ("PROJECT", "p-9"),
    ("ROLE", records.OWNER),
)
"""The last three are none of the person's."""

NextPage = Callable[[str], Awaitable[TaskListing]]
"""The page of a cursor."""


@dataclass
class ListStory:
    """One list read page by page, with random writes in between."""

    backend: Backend
    random: Random
    workflow: WorkflowState = field(
        default_factory=lambda: records.workflow(owner_id=STRANGER, grants=(Grant("USER", records.OWNER, "VIEW"),))
    )
    tasks: dict[TaskId, TaskState] = field(default_factory=dict)
    grants: dict[TaskId, set[Grant]] = field(default_factory=dict)
    throughout: set[TaskId] = field(default_factory=set)

    async def begin(self, count: int) -> None:
        """The workflow with its first tasks."""
        await self.backend.write(records.creation(self.workflow))
        for _ in range(count):
            await self.create()

    async def create(self) -> None:
        """A task, of the person or of a stranger, at a time that others may share or have passed already."""
        owner = self.random.choice((records.OWNER, STRANGER, STRANGER))
        created_at = records.START + timedelta(minutes=self.random.randrange(5))
        state = records.task(self.workflow.workflow_id, f"t-{len(self.tasks)}")
        state = replace(state, envelope=replace(state.envelope, owner_id=owner, created_at=created_at))
        task_id = state.envelope.task_id
        self.tasks[task_id], self.grants[task_id] = state, set()
        await self.backend.write(records.additional(state))
        for _ in range(self.random.randrange(3)):
            await self.grant(task_id)

    async def grant(self, task_id: TaskId) -> None:
        """A permission for a principal that has none and never had one."""
        principal_type, principal_id = self.random.choice(GRANTEES)
        grant = Grant(principal_type, principal_id, self.random.choice(("VIEW", "OPERATE", "ADMIN")))
        if (task_id, principal_type, principal_id) in self._ever_granted:
            return
        self._ever_granted.add((task_id, principal_type, principal_id))
        self.grants[task_id].add(grant)
        await self.backend.write(ChangeSet(new_task_grants=[(self.tasks[task_id], grant)]))

    async def revoke(self, task_id: TaskId) -> None:
        """Take one of the permissions back."""
        if self.grants[task_id]:
            grant = self.random.choice(sorted(self.grants[task_id], key=repr))
            self.grants[task_id].discard(grant)
            await self.backend.revoke(task_id, grant)

    async def report(self, task_id: TaskId) -> None:
        """A new version, which moves nothing in the list."""
        self.tasks[task_id] = records.next_version(self.tasks[task_id], lifecycle=Lifecycle.RUNNING)
        await self.backend.write(ChangeSet(tasks=[self.tasks[task_id]]))

    async def write(self) -> None:
        """One of all these."""
        task_id = self.random.choice(sorted(self.tasks))
        match self.random.randrange(4):
            case 0:
                await self.create()
            case 1:
                await self.grant(task_id)
            case 2:
                await self.revoke(task_id)
            case _:
                await self.report(task_id)
        self.throughout &= self.visible()

    def visible(self) -> set[TaskId]:
        """What the person may see now."""
        return {
            task_id for task_id, task in self.tasks.items() if may(task.envelope, self.grants[task_id], PERSON, VIEW)
        }

    async def read(self, next_page: NextPage) -> list[TaskState]:
        """Every page to the end, with writes in between; each must hold only what was visible when it was read."""
        self.throughout = self.visible()
        shown: list[TaskState] = []
        cursor = ""
        while True:
            page = await next_page(cursor)
            assert {task.envelope.task_id for task in page.tasks} <= self.visible()
            shown += page.tasks
            cursor = page.next_cursor
            if not cursor:
                return shown
            for _ in range(self.random.randrange(4)):
                await self.write()

    def my_tasks(self, limit: int, chosen: TaskFilter | None = None) -> NextPage:
        """ListMyTasks."""
        lists = TaskLists(self.backend.lists)
        return lambda cursor: lists.my_tasks(PERSON, chosen or TaskFilter(), limit, cursor)

    def workflow_tasks(self, limit: int) -> NextPage:
        """ListWorkflowTasks, of a workflow that is another's."""
        lists, workflow_id = TaskLists(self.backend.lists), format_workflow_id(self.workflow.workflow_id)
        return lambda cursor: lists.workflow_tasks(PERSON, workflow_id, TaskFilter(), limit, cursor)

    def check(self, shown: list[TaskState], *, oldest_first: bool) -> None:
        """Each task that was visible throughout is there once, none is there twice, all are in order."""
        ids = [task.envelope.task_id for task in shown]
        keys = [(task.envelope.created_at, task.envelope.task_id) for task in shown]
        assert len(set(ids)) == len(ids)
        assert self.throughout <= set(ids)
        assert keys == sorted(keys, reverse=not oldest_first)

    _ever_granted: set[tuple[TaskId, str, str]] = field(default_factory=set)
