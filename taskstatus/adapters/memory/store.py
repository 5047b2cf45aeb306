"""Write transactions in memory (port ``TaskStore``), with the faults that lanes must survive on request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from taskstatus.adapters.memory.clock import MemoryDatabaseClock
from taskstatus.adapters.memory.members import tally_of
from taskstatus.adapters.memory.tables import KeyTakenError, Tables
from taskstatus.application.ports_store import (
    NOTHING_KNOWN,
    LockedTask,
    LockedWorkflow,
    RunKey,
    StepKey,
    StoreRefusedError,
    StoreUnavailableError,
    TransactionAttempt,
    WriteTransaction,
)
from taskstatus.domain.ids import ExecutionId, TaskId, WorkflowId
from taskstatus.domain.lease import LeaseState
from taskstatus.domain.records import (
    ChangeSet,
    EventRecord,
    ExternalRefRecord,
    RunView,
    SeenEvent,
    WorkflowEventRecord,
)
from taskstatus.domain.state import ExternalRef, Grant, StepState, TaskState, WorkflowState
from taskstatus.domain.workflow_aggregate import MemberTally

T = TypeVar("T")
DUPLICATE_ATTEMPTS = 3
"""Runs of a transaction whose unique keys are taken: the next run may find the rows that took them."""


class MemoryTaskStore:
    """One transaction at a time; a transaction's changes become visible at its commit.

    ``refuse``: change sets for which it is true are refused, as a database refuses a poison row.
    ``unavailable``: while it is true no transaction runs. ``held_workflows``: as if other replicas had them locked.
    """

    def __init__(self, tables: Tables | None = None, clock: MemoryDatabaseClock | None = None) -> None:
        self.tables = tables or Tables()
        self.clock = clock or MemoryDatabaseClock()
        self.refuse: Callable[[ChangeSet], bool] = _never
        self.unavailable = False
        self.held_workflows: set[WorkflowId] = set()
        self._lost_replies: list[bool] = []
        self._lock = asyncio.Lock()

    def lose_next_commit_reply(self, *, committed: bool) -> None:
        """The next commit loses its reply, having happened or not; calls add up, and the body runs again each time."""
        self._lost_replies.append(committed)

    async def transact(self, body: Callable[[WriteTransaction, TransactionAttempt], Awaitable[T]]) -> T:
        """See ``TaskStore.transact``."""
        async with self._lock:
            number, settling = 1, False
            while True:
                # A real database always suspends the caller; code that relies on not being suspended must fail here.
                await asyncio.sleep(0)
                if self.unavailable:
                    raise StoreUnavailableError("the in-memory store was told to be unavailable")
                transaction = _MemoryTransaction(self)
                try:
                    value = await body(transaction, TransactionAttempt(number, settling))
                except KeyTakenError:
                    if number >= DUPLICATE_ATTEMPTS:
                        raise
                    number += 1
                    continue
                if self._commit(transaction.changes):
                    return value
                number, settling = number + 1, True

    def _commit(self, changes: Sequence[ChangeSet]) -> bool:
        """Whether the reply arrived."""
        committed = self._lost_replies.pop(0) if self._lost_replies else None
        if committed is not False:
            for part in changes:
                self.tables.apply(part, self.clock.read())
        return committed is None


class _MemoryTransaction:
    def __init__(self, store: MemoryTaskStore) -> None:
        self._store = store
        self._tables = store.tables
        self.changes: list[ChangeSet] = []

    async def now(self) -> datetime:
        return self._store.clock.read()

    async def find_workflow_by_key(self, tenant_id: str, authority_scope: str, key: str) -> WorkflowState | None:
        found = self._tables.workflow_keys.get((tenant_id, authority_scope, key))
        return None if found is None else self._tables.workflows[found]

    async def lock_workflow(self, workflow_id: WorkflowId) -> LockedWorkflow | None:
        state = self._tables.workflows.get(workflow_id)
        return None if state is None else LockedWorkflow(state, self._store.clock.read())

    async def lock_free_workflows(self, workflow_ids: Sequence[WorkflowId]) -> Mapping[WorkflowId, LockedWorkflow]:
        rows, clock = self._tables.workflows, self._store.clock
        found = sorted(workflow_id for workflow_id in set(workflow_ids) if workflow_id in rows)
        free = [replace(rows[key], grants=()) for key in found if key not in self._store.held_workflows]
        return {state.workflow_id: LockedWorkflow(state, clock.read()) for state in free}

    async def existing_workflows(self, workflow_ids: Sequence[WorkflowId]) -> Set[WorkflowId]:
        return set(workflow_ids) & self._tables.workflows.keys()

    async def existing_triggers(self, trigger_ids: Sequence[bytes]) -> Set[bytes]:
        return set(trigger_ids) & self._tables.triggers.keys()

    async def count_members(self, workflow_ids: Sequence[WorkflowId]) -> Mapping[WorkflowId, MemberTally]:
        members = {workflow_id: self._tables.members_of(workflow_id) for workflow_id in workflow_ids}
        return {workflow_id: tally_of(tasks) for workflow_id, tasks in members.items() if tasks}

    async def workflow_event(self, workflow_id: WorkflowId, event_id: str) -> WorkflowEventRecord | None:
        events = sorted(self._tables.workflow_events.items())
        return next((row for key, row in events if key[0] == workflow_id and row.event_id == event_id), None)

    async def tasks_of_workflow(self, workflow_id: WorkflowId, keys: Sequence[str]) -> Mapping[str, TaskState]:
        found = {key: self._tables.task_keys.get((workflow_id, key)) for key in keys}
        return {key: self._tables.tasks[task_id] for key, task_id in found.items() if task_id is not None}

    async def lock_tasks(
        self, task_ids: Sequence[TaskId], known: Mapping[TaskId, TaskState] = NOTHING_KNOWN
    ) -> Mapping[TaskId, LockedTask]:
        tasks, clock = self._tables.tasks, self._store.clock
        found = sorted(task_id for task_id in set(task_ids) if task_id in tasks)
        return {task_id: LockedTask(_current(tasks[task_id], known.get(task_id)), clock.read()) for task_id in found}

    async def executions(self, execution_ids: Sequence[ExecutionId]) -> Mapping[ExecutionId, StepState]:
        keys = self._tables.execution_keys
        known = [execution_id for execution_id in execution_ids if execution_id in keys]
        return {execution_id: self._tables.steps[keys[execution_id]] for execution_id in known}

    async def step_attempts(self, keys: Sequence[StepKey]) -> Mapping[StepKey, tuple[StepState, ...]]:
        found: dict[StepKey, tuple[StepState, ...]] = {}
        for task_id, task_attempt, step_id in keys:
            attempts = [s for s in self._tables.steps_in(task_id, task_attempt) if s.definition.step_id == step_id]
            if attempts:
                by_attempt = sorted(attempts, key=lambda step: step.attempt)
                found[(task_id, task_attempt, step_id)] = tuple(by_attempt)
        return found

    async def steps_of_run(self, task_id: TaskId, task_attempt: int) -> tuple[StepState, ...]:
        return tuple(self._tables.steps_in(task_id, task_attempt))

    async def last_step_version(self, task_id: TaskId, step_id: str) -> int:
        versions = [step.version for key, step in self._tables.steps.items() if key[0] == task_id and key[2] == step_id]
        return max(versions, default=0)

    async def runs(self, keys: Sequence[RunKey]) -> Mapping[RunKey, RunView]:
        rows = self._tables.runs
        return {key: rows[key].view() for key in keys if key in rows}

    async def peek_tasks(self, task_ids: Sequence[TaskId]) -> Mapping[TaskId, TaskState]:
        return {task_id: self._tables.tasks[task_id] for task_id in task_ids if task_id in self._tables.tasks}

    async def task_grants(self, task_ids: Sequence[TaskId]) -> Mapping[TaskId, tuple[Grant, ...]]:
        return self._tables.grants_of(task_ids)

    async def committed_event(self, task_id: TaskId, event_id: str) -> EventRecord | None:
        events = self._tables.events
        return next((row for key, row in events.items() if key[0] == task_id and row.event_id == event_id), None)

    async def external_ref(self, tenant_id: str, authority_scope: str, ref: ExternalRef) -> ExternalRefRecord | None:
        return self._tables.external_refs.get((tenant_id, authority_scope, ref))

    async def external_refs_of(self, task_id: TaskId) -> tuple[ExternalRef, ...]:
        return self._tables.refs_of(task_id)

    async def leases(self, execution_ids: Sequence[ExecutionId]) -> Mapping[ExecutionId, LeaseState]:
        rows = self._tables.leases
        return {execution_id: rows[execution_id].state for execution_id in execution_ids if execution_id in rows}

    async def seen_events(self, keys: Sequence[tuple[TaskId, str]]) -> Mapping[tuple[TaskId, str], SeenEvent]:
        rows = {key: self._tables.dedups[key] for key in keys if key in self._tables.dedups}
        return {key: SeenEvent(row.digest, row.result) for key, row in rows.items()}

    async def write(self, changes: ChangeSet) -> None:
        if self._store.refuse(changes):
            raise StoreRefusedError("the in-memory store was told to refuse these rows")
        self._tables.check(changes)
        self.changes.append(changes)


def _current(row: TaskState, known: TaskState | None) -> TaskState:
    return known if known is not None and known.row_revision == row.row_revision else row


def _never(_changes: ChangeSet) -> bool:
    return False
