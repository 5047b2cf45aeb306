"""Ports of the reads over many tasks: pages, states by id, and look-ups by what a caller knows (Q-1, Q-3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from taskstatus.application.identity import UserIdentity
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import ExecutionId, TaskId, WorkflowId
from taskstatus.domain.records import Projection
from taskstatus.domain.state import ExternalRef, Grant, TaskState
from taskstatus.domain.task_filter import TaskFilter


@dataclass(frozen=True, slots=True)
class TaskPosition:
    """A place in the order of creation: neither part of a task's key ever changes."""

    created_at: datetime
    task_id: bytes


@dataclass(frozen=True, slots=True)
class TaskListQuery:
    """One page of one list."""

    reader: UserIdentity | None
    """Whose tasks: their own and those granted to them; None: every task of the filter's workflow."""
    filter: TaskFilter
    limit: int
    after: TaskPosition | None = None
    """Only what comes after it in the list's order."""
    oldest_first: bool = False


@dataclass(frozen=True, slots=True)
class TaskListPage:
    """A part of a list; it may be short, and even empty, with more to follow."""

    tasks: tuple[TaskState, ...]
    next_position: TaskPosition | None
    """Where the next page begins; None at the end."""
    as_of: datetime


@dataclass(frozen=True, slots=True)
class WorkflowAccess:
    """Who may see a workflow, besides the owners and grantees of its tasks."""

    tenant_id: str
    authority_scope: str
    owner_id: str
    grants: tuple[Grant, ...]


@dataclass(frozen=True, slots=True)
class TaskStates:
    """Tasks by id with their grants, in one consistent view; unknown ids are absent, and tasks without a grant."""

    tasks: Mapping[TaskId, TaskState]
    grants: Mapping[TaskId, tuple[Grant, ...]]
    as_of: datetime


@dataclass(frozen=True, slots=True)
class NotificationState:
    """What became of one notification of a version."""

    outbox_id: bytes
    projection: Projection
    status: str
    """PENDING, PROCESSING, PUBLISHED or DEAD."""
    attempts: int
    last_error: str
    published_at: datetime | None


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """A committed event, and what became of the notifications of its version."""

    workflow_id: WorkflowId
    task_id: TaskId
    event_id: str
    task_version: int
    event_type: EventType
    step_id: str
    execution_id: ExecutionId | None
    actor: str
    trace_id: bytes | None
    committed_at: datetime
    notifications: tuple[NotificationState, ...] = ()
    """Without those for the service itself; none once they have been cleaned away."""


class TaskListReader(Protocol):
    """Reads over many tasks from the writer database; each in one view, every method raises StoreUnavailableError."""

    async def page(self, query: TaskListQuery) -> TaskListPage:
        """A page in the order of (``created_at``, id); looks at a bounded number of the reader's tasks.

        A task that is in the list throughout is in exactly one page, whatever is written between the pages.
        """
        ...

    async def workflow_access(self, workflow_id: WorkflowId) -> WorkflowAccess | None:
        """Who may see a workflow; None when there is none."""
        ...

    async def states(self, task_ids: Sequence[TaskId], *, with_grants: bool) -> TaskStates:
        """Tasks by id; never their steps."""
        ...

    async def referenced(self, tenant_id: str, authority_scope: str | None, ref: ExternalRef) -> Sequence[TaskId]:
        """The tasks that a number names, by scope: at most one in a scope; None: in every scope, bounded."""
        ...

    async def events_by_id(
        self, tenant_id: str, authority_scope: str, event_id: str, limit: int
    ) -> Sequence[RecordedEvent]:
        """Events with this id, those of the newest tasks first; looks at a bounded number of them."""
        ...

    async def events_of_trace(
        self, tenant_id: str, authority_scope: str, trace_id: bytes, limit: int
    ) -> Sequence[RecordedEvent]:
        """Events of a trace by ``committed_at``, then task and version."""
        ...
