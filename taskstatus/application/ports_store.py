"""Ports of the store: one kind of write transaction, and consistent reads.

Every transaction locks in the order of ``LOCK_ORDER`` and writes in it. Times come from the database's clock.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Protocol, TypeVar

from taskstatus.application.identity import ExecutionBinding
from taskstatus.domain.ids import ExecutionId, TaskId, WorkflowId
from taskstatus.domain.lease import LeaseState
from taskstatus.domain.records import (
    ChangeSet,
    EventRecord,
    ExternalRefRecord,
    RunView,
    SeenEvent,
    TaskView,
    TimelinePage,
    WorkflowEventRecord,
)
from taskstatus.domain.state import ExternalRef, Grant, StepState, TaskState, WorkflowState
from taskstatus.domain.workflow_aggregate import MemberTally

T = TypeVar("T")

LOCK_ORDER = ("workflow", "task", "step", "lease", "acl", "dedup", "event", "outbox")
"""The order in which every transaction of every process takes its locks; within a group sorted by key."""

NOTHING_KNOWN: Mapping[TaskId, TaskState] = MappingProxyType({})

StepKey = tuple[TaskId, int, str]
"""(task, run, step id)."""
RunKey = tuple[TaskId, int]
"""(task, run)."""


class StoreUnavailableError(Exception):
    """The database cannot be reached, or kept refusing for a passing cause; the same command may be sent again."""


class StoreRefusedError(Exception):
    """The database refused the rows themselves; sending them again cannot help."""


@dataclass(frozen=True, slots=True)
class LockedTask:
    """A task row under this transaction's lock, with the database's time after the lock was obtained."""

    state: TaskState
    now: datetime


@dataclass(frozen=True, slots=True)
class LockedWorkflow:
    """A workflow row under this transaction's lock, with the database's time after the lock was obtained."""

    state: WorkflowState
    now: datetime


@dataclass(frozen=True, slots=True)
class TransactionAttempt:
    """Which run of the closure this is."""

    number: int
    """From 1."""
    settling: bool
    """True when the COMMIT of an earlier run may or may not have happened: what is found committed is our own."""


class WriteTransaction(Protocol):
    """Reads under locks, then one ``write``; nothing is visible to others before the commit."""

    async def now(self) -> datetime:
        """The database's clock, now."""
        ...

    async def find_workflow_by_key(self, tenant_id: str, authority_scope: str, key: str) -> WorkflowState | None:
        """The workflow created under a client key, not locked (ID-3)."""
        ...

    async def lock_workflow(self, workflow_id: WorkflowId) -> LockedWorkflow | None:
        """The workflow's row, locked, with its grants."""
        ...

    async def lock_free_workflows(self, workflow_ids: Sequence[WorkflowId]) -> Mapping[WorkflowId, LockedWorkflow]:
        """The rows of these workflows, locked in the order of their ids, without their grants.

        Unknown ones are absent, and so are those that another transaction holds: nothing is waited for.
        """
        ...

    async def existing_workflows(self, workflow_ids: Sequence[WorkflowId]) -> Set[WorkflowId]:
        """Those of the ids that are workflows; not locked."""
        ...

    async def existing_triggers(self, trigger_ids: Sequence[bytes]) -> Set[bytes]:
        """Those of these AGGREGATE rows that are still there; under the locks of their workflows."""
        ...

    async def count_members(self, workflow_ids: Sequence[WorkflowId]) -> Mapping[WorkflowId, MemberTally]:
        """The members of these workflows as committed now, not locked; workflows without any are absent (L-7)."""
        ...

    async def workflow_event(self, workflow_id: WorkflowId, event_id: str) -> WorkflowEventRecord | None:
        """The first event of a workflow with this id, which is a command's; under the workflow's lock."""
        ...

    async def tasks_of_workflow(self, workflow_id: WorkflowId, keys: Sequence[str]) -> Mapping[str, TaskState]:
        """The workflow's tasks with these client task keys, not locked."""
        ...

    async def lock_tasks(
        self, task_ids: Sequence[TaskId], known: Mapping[TaskId, TaskState] = NOTHING_KNOWN
    ) -> Mapping[TaskId, LockedTask]:
        """The rows of these tasks, locked in the order of their ids; unknown ids are absent.

        ``known``: states from earlier transactions; one whose ``row_revision`` is still the row's is given back itself.
        """
        ...

    async def executions(self, execution_ids: Sequence[ExecutionId]) -> Mapping[ExecutionId, StepState]:
        """The attempts that these executions are; call under the locks of their tasks."""
        ...

    async def step_attempts(self, keys: Sequence[StepKey]) -> Mapping[StepKey, tuple[StepState, ...]]:
        """All attempts of these steps by rising attempt; unknown steps are absent. Under the locks of their tasks."""
        ...

    async def steps_of_run(self, task_id: TaskId, task_attempt: int) -> tuple[StepState, ...]:
        """Every attempt of every step of one run, in no order; under the task's lock. For reruns, never for events."""
        ...

    async def last_step_version(self, task_id: TaskId, step_id: str) -> int:
        """The highest version of a step over all runs; 0 for a step that never was. Under the task's lock."""
        ...

    async def runs(self, keys: Sequence[RunKey]) -> Mapping[RunKey, RunView]:
        """These runs; unknown ones are absent. Under the locks of their tasks."""
        ...

    async def peek_tasks(self, task_ids: Sequence[TaskId]) -> Mapping[TaskId, TaskState]:
        """These tasks, not locked; unknown ids are absent."""
        ...

    async def task_grants(self, task_ids: Sequence[TaskId]) -> Mapping[TaskId, tuple[Grant, ...]]:
        """The grants in force, not locked; tasks without one are absent."""
        ...

    async def committed_event(self, task_id: TaskId, event_id: str) -> EventRecord | None:
        """The event of a task with this id; None when there is none, or it has been cleaned away."""
        ...

    async def external_ref(self, tenant_id: str, authority_scope: str, ref: ExternalRef) -> ExternalRefRecord | None:
        """Which task a number names; not locked, its unique key is the guard (ID-5)."""
        ...

    async def external_refs_of(self, task_id: TaskId) -> tuple[ExternalRef, ...]:
        """The numbers that name a task, by type and value."""
        ...

    async def leases(self, execution_ids: Sequence[ExecutionId]) -> Mapping[ExecutionId, LeaseState]:
        """The leases of these executions, locked in the order of their ids; unknown ids are absent.

        Call under the locks of their tasks. What beats wrote before the lock was obtained is seen.
        """
        ...

    async def seen_events(self, keys: Sequence[tuple[TaskId, str]]) -> Mapping[tuple[TaskId, str], SeenEvent]:
        """The dedup rows of these (task, event id) pairs that exist."""
        ...

    async def write(self, changes: ChangeSet) -> None:
        """Write all rows, in ``LOCK_ORDER``. Raises StoreRefusedError when the database refuses one."""
        ...


class TaskStore(Protocol):
    """Runs write transactions on the one writer endpoint."""

    async def transact(self, body: Callable[[WriteTransaction, TransactionAttempt], Awaitable[T]]) -> T:
        """Run ``body`` in one transaction and return its value once it is committed.

        ``body`` may run more than once: deadlocks (1213), lock time-outs (1205), 1020, lost connections and read-only
        answers run it again on a fresh connection, bounded and with jitter. After a COMMIT whose reply was lost it runs
        with ``settling=True``. Raises StoreUnavailableError when the attempts are used up, StoreRefusedError for rows
        that the database will never take; an exception of ``body`` itself rolls back and passes through.
        """
        ...


class TaskReader(Protocol):
    """Reads outside write transactions, from the writer database; every method raises StoreUnavailableError."""

    async def execution_bindings(self, ids: Sequence[ExecutionId]) -> Mapping[ExecutionId, ExecutionBinding]:
        """What activated executions are bound to; immutable, so it may be cached. Unknown ids are absent."""
        ...

    async def execution_state(self, execution_id: ExecutionId) -> tuple[TaskState, StepState] | None:
        """An activated execution with its task, in one consistent view."""
        ...

    async def execution_states(
        self, execution_ids: Sequence[ExecutionId]
    ) -> Mapping[ExecutionId, tuple[TaskState, StepState]]:
        """Activated executions with their tasks, each in one consistent view; unknown ids are absent."""
        ...

    async def task_views(self, task_ids: Sequence[TaskId], *, with_trigger: bool) -> Mapping[TaskId, TaskView]:
        """The tasks with every attempt of their current run, all in one consistent view; unknown ids are absent."""
        ...

    async def timeline(self, task_id: TaskId, after_version: int, limit: int) -> TimelinePage:
        """Up to ``limit`` events after a version, in one consistent view."""
        ...

    async def task_grants(self, task_ids: Sequence[TaskId]) -> Mapping[TaskId, tuple[Grant, ...]]:
        """The grants in force; tasks without one are absent."""
        ...

    async def workflow_grants(self, workflow_ids: Sequence[WorkflowId]) -> Mapping[WorkflowId, tuple[Grant, ...]]:
        """The grants in force; workflows without one are absent."""
        ...
