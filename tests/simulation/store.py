"""The store port of one replica: the in-memory store behind a connection that can break at every point of a commit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from taskstatus.adapters.memory.health import MemoryOverdueLeases
from taskstatus.adapters.memory.lease_store import MemoryLeaseStore
from taskstatus.adapters.memory.reader import MemoryTaskReader
from taskstatus.adapters.memory.store import MemoryTaskStore
from taskstatus.adapters.memory.workflows import MemoryAggregateTriggers
from taskstatus.application.ports_health import HealthCandidate, LeasePosition
from taskstatus.application.ports_heartbeats import Beat
from taskstatus.application.ports_store import StoreUnavailableError, TransactionAttempt, WriteTransaction
from taskstatus.application.ports_workflows import AggregateTrigger, TriggerPosition
from taskstatus.domain.ids import ExecutionId, TaskId, WorkflowId
from taskstatus.domain.records import TaskView
from taskstatus.domain.standing import ExecutionStanding
from taskstatus.domain.state import Grant
from tests.simulation.faults import Faults, Process
from tests.simulation.options import Fault

T = TypeVar("T")

MOST_RUNS = 4
"""Of one transaction; then it is given up, whatever became of it."""
LONGEST_PAUSE_SECONDS = 0.2


class _ConnectionBrokenError(Exception):
    """Rolls the transaction back, or stands for a reply that never came."""

    def __init__(self, *, in_commit: bool) -> None:
        super().__init__("the connection broke")
        self.in_commit = in_commit


class SimulatedStore:
    """Port ``TaskStore`` as MySQL's adapter keeps it: broken runs run again, an ambiguous COMMIT with ``settling``.

    Other transactions may come between two runs, on the same rows too; ``MemoryTaskStore`` alone never lets them.
    """

    def __init__(self, inner: MemoryTaskStore, process: Process, faults: Faults) -> None:
        self._inner = inner
        self._process = process
        self._faults = faults

    async def transact(self, body: Callable[[WriteTransaction, TransactionAttempt], Awaitable[T]]) -> T:
        """See ``TaskStore.transact``."""
        settling = False
        for number in range(1, MOST_RUNS + 1):
            await self._process.enter()
            try:
                return await self._run(body, TransactionAttempt(number, settling))
            except _ConnectionBrokenError as broken:
                settling = settling or broken.in_commit
            except StoreUnavailableError:
                pass
            await asyncio.sleep(self._faults.random.random() * LONGEST_PAUSE_SECONDS)
        now = asyncio.get_running_loop().time()
        self._faults.disturb(now, now)
        raise StoreUnavailableError(f"gave up after {MOST_RUNS} runs")

    async def _run(
        self, body: Callable[[WriteTransaction, TransactionAttempt], Awaitable[T]], attempt: TransactionAttempt
    ) -> T:
        async def until_commit(transaction: WriteTransaction, inner: TransactionAttempt) -> T:
            # The in-memory store runs again by itself when a unique key is taken.
            value = await body(transaction, replace(attempt, number=attempt.number + inner.number - 1))
            await self._process.enter()
            if self._faults.happens(Fault.DEADLOCK, self._process.name):
                raise _ConnectionBrokenError(in_commit=False)
            if self._faults.happens(Fault.COMMIT_UNDONE_REPLY_LOST, self._process.name):
                raise _ConnectionBrokenError(in_commit=True)
            return value

        value = await self._inner.transact(until_commit)
        await self._process.enter()
        if self._faults.happens(Fault.COMMIT_DONE_REPLY_LOST, self._process.name):
            raise _ConnectionBrokenError(in_commit=True)
        return value


class SimulatedLeases:
    """Ports ``LeaseStore`` and ``OverdueLeases`` of one replica; a call may fail before it was done, or after."""

    def __init__(self, inner: MemoryTaskStore, process: Process, faults: Faults) -> None:
        self._table = MemoryLeaseStore(inner)
        self._overdue = MemoryOverdueLeases(inner)
        self._process = process
        self._faults = faults

    async def standings(self, execution_ids: Sequence[ExecutionId]) -> Mapping[ExecutionId, ExecutionStanding]:
        """See ``LeaseStore``."""
        return await self._cross(lambda: self._table.standings(execution_ids))

    async def persist(
        self, beats: Sequence[Beat], monotonic_now: Callable[[], float]
    ) -> Mapping[ExecutionId, ExecutionStanding]:
        """See ``LeaseStore``."""
        return await self._cross(lambda: self._table.persist(beats, monotonic_now))

    async def overdue(self, limit: int, after: LeasePosition | None) -> Sequence[HealthCandidate]:
        """See ``OverdueLeases``."""
        return await self._cross(lambda: self._overdue.overdue(limit, after))

    async def candidates(self, execution_ids: Sequence[ExecutionId]) -> Sequence[HealthCandidate]:
        """See ``OverdueLeases``."""
        return await self._cross(lambda: self._overdue.candidates(execution_ids))

    async def _cross(self, call: Callable[[], Awaitable[T]]) -> T:
        await self._process.enter()
        self._break("before")
        value = await call()
        await self._process.enter()
        self._break("after")
        return value

    def _break(self, moment: str) -> None:
        if self._faults.happens(Fault.LEASES_LOST, f"{self._process.name}, {moment}"):
            raise StoreUnavailableError("the connection broke")


class SimulatedTriggers:
    """Port ``AggregateTriggers`` of one replica; a call may fail before it was done, or after."""

    def __init__(self, inner: MemoryTaskStore, process: Process, faults: Faults) -> None:
        self._triggers = MemoryAggregateTriggers(inner)
        self._process = process
        self._faults = faults

    async def due(self, limit: int, after: TriggerPosition | None) -> Sequence[AggregateTrigger]:
        """See ``AggregateTriggers``."""
        await self._process.enter()
        found = await self._triggers.due(limit, after)
        await self._process.enter()
        if self._faults.happens(Fault.LEASES_LOST, f"{self._process.name}, triggers"):
            raise StoreUnavailableError("the connection broke")
        return found


class UndecodableRowError(Exception):
    """What a reader raises for a row that holds nonsense."""


class RelayReader:
    """Port ``RenderReader`` of one relay; for a task whose rows are unreadable it fails as a decoder does."""

    def __init__(self, inner: MemoryTaskReader, process: Process, faults: Faults) -> None:
        self._inner = inner
        self._process = process
        self._faults = faults

    async def task_views(self, task_ids: Sequence[TaskId], *, with_trigger: bool) -> Mapping[TaskId, TaskView]:
        """See ``RenderReader``."""
        await self._process.enter()
        for task_id in task_ids:
            if task_id in self._faults.unreadable_tasks or self._faults.happens(Fault.VIEW_UNREADABLE):
                self._faults.unreadable_tasks.add(task_id)
                raise UndecodableRowError(task_id.hex())
        views = await self._inner.task_views(task_ids, with_trigger=with_trigger)
        await self._process.enter()
        return views

    async def task_grants(self, task_ids: Sequence[TaskId]) -> Mapping[TaskId, tuple[Grant, ...]]:
        """See ``RenderReader``."""
        await self._process.enter()
        return await self._inner.task_grants(task_ids)

    async def workflow_grants(self, workflow_ids: Sequence[WorkflowId]) -> Mapping[WorkflowId, tuple[Grant, ...]]:
        """See ``RenderReader``."""
        await self._process.enter()
        return await self._inner.workflow_grants(workflow_ids)
