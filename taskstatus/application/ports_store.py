"""Ports of the store: one kind of write transaction, and consistent reads.

Every transaction locks in the order of ``LOCK_ORDER`` and writes in it. Times come from the database's clock.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Protocol, TypeVar

from taskstatus.application.identity import ExecutionBinding
from taskstatus.domain.ids import ExecutionId, TaskId, WorkflowId
from taskstatus.domain.lease import LeaseState
from taskstatus.domain.records import ChangeSet, SeenEvent, TaskView, TimelinePage
from taskstatus.domain.state import Grant, StepState, TaskState, WorkflowState

T = TypeVar("T")

LOCK_ORDER = ("workflow", "task", "step", "lease", "acl", "dedup", "event", "outbox")
"""The order in which every transaction of every process takes its locks; within a group sorted by key."""

NOTHING_KNOWN: Mapping[TaskId, TaskState] = MappingProxyType({})

StepKey = tuple[TaskId, int, str]
"""(task, run, step id)."""


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
