"""Overdue leases and stuck work of the in-memory store (ports ``OverdueLeases`` and ``StuckWork``)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from taskstatus.adapters.memory.store import MemoryTaskStore
from taskstatus.adapters.memory.tables import LeaseRow
from taskstatus.application.ports_health import (
    NOT_TAKEN_UP_SECONDS,
    HealthCandidate,
    LeasePosition,
    StuckCause,
    StuckExecution,
    StuckPage,
    StuckPart,
    StuckPosition,
)
from taskstatus.application.ports_store import StoreUnavailableError
from taskstatus.domain.health_changes import run_deadline, task_deadline
from taskstatus.domain.ids import ExecutionId, moment_of_id
from taskstatus.domain.lease import LeaseState
from taskstatus.domain.state import StepState, TaskState


class MemoryOverdueLeases:
    """What a ``MemoryTaskStore`` has committed, judged by its clock."""

    def __init__(self, store: MemoryTaskStore) -> None:
        self._store = store
        self._tables = store.tables

    async def overdue(self, limit: int, after: LeasePosition | None) -> Sequence[HealthCandidate]:
        """See the port."""
        now = await self._arrive()
        return self._between(datetime.min, now, limit, after, now)

    async def nearly(self, limit: int, within_seconds: float, after: LeasePosition | None) -> Sequence[HealthCandidate]:
        """See the port."""
        now = await self._arrive()
        return self._between(now, now + timedelta(seconds=within_seconds), limit, after, now)

    def _between(
        self, begin: datetime, end: datetime, limit: int, after: LeasePosition | None, now: datetime
    ) -> Sequence[HealthCandidate]:
        within = [row for row in self._open() if row.state.deadline_at and begin < row.state.deadline_at <= end]
        found = sorted(within, key=_position)
        beyond = [row for row in found if after is None or _position(row) > (after.deadline_at, after.execution_id)]
        return [self._candidate(row, now) for row in beyond[:limit]]

    async def candidates(self, execution_ids: Sequence[ExecutionId]) -> Sequence[HealthCandidate]:
        """See the port."""
        now = await self._arrive()
        wanted = set(execution_ids)
        return [self._candidate(row, now) for row in self._open() if row.state.execution_id in wanted]

    async def _arrive(self) -> datetime:
        # A real database always suspends the caller; code that relies on not being suspended must fail here.
        await asyncio.sleep(0)
        if self._store.unavailable:
            raise StoreUnavailableError("the in-memory store was told to be unavailable")
        return self._store.clock.read()

    def _open(self) -> Iterable[LeaseRow]:
        return [row for row in self._tables.leases.values() if row.state.is_open]

    def _candidate(self, row: LeaseRow, now: datetime) -> HealthCandidate:
        lease, state = row.lease, row.state
        envelope = self._tables.tasks[lease.task_id].envelope
        return HealthCandidate(
            tenant_id=envelope.tenant_id,
            authority_scope=envelope.authority_scope,
            workflow_id=envelope.workflow_id,
            task_id=lease.task_id,
            task_attempt=lease.task_attempt,
            step_id=lease.step_id,
            step_attempt=lease.step_attempt,
            execution_id=lease.execution_id,
            timeout_seconds=state.timeout_seconds,
            heartbeat_seq=state.heartbeat_seq,
            last_sign_at=state.last_sign_at,
            deadline_at=state.deadline_at,
            stale_since=state.stale_since,
            as_of=now,
        )


def _position(row: LeaseRow) -> tuple[datetime, ExecutionId]:
    assert row.state.deadline_at is not None
    return row.state.deadline_at, row.state.execution_id


class MemoryStuckWork:
    """Stuck work of the in-memory store (port ``StuckWork``); every page is as long as it may be."""

    def __init__(self, store: MemoryTaskStore) -> None:
        self._store = store
        self._tables = store.tables

    async def page(self, tenant_id: str, authority_scope: str, after: StuckPosition | None, limit: int) -> StuckPage:
        """See the port."""
        now = self._arrive()
        owner = (tenant_id, authority_scope)
        entries = [entry for entry in self._entries(now) if self._owner_of(entry[1]) == owner]
        entries.sort(key=lambda entry: _key(entry[0]))
        beyond = [entry for entry in entries if after is None or _key(entry[0]) > _key(after)]
        shown = beyond[:limit]
        more = len(beyond) > limit
        return StuckPage(tuple(execution for _, execution in shown), shown[-1][0] if more else None, now)

    async def counts(self) -> Mapping[StuckCause, int]:
        """See the port."""
        counts = dict.fromkeys(StuckCause, 0)
        for _, execution in self._entries(self._arrive()):
            counts[execution.causes[-1]] += 1
        return counts

    def _arrive(self) -> datetime:
        if self._store.unavailable:
            raise StoreUnavailableError("the in-memory store was told to be unavailable")
        return self._store.clock.read()

    def _owner_of(self, execution: StuckExecution) -> tuple[str, str]:
        envelope = self._tables.tasks[execution.task_id].envelope
        return envelope.tenant_id, envelope.authority_scope

    def _entries(self, now: datetime) -> list[tuple[StuckPosition, StuckExecution]]:
        late = [
            (
                StuckPosition(StuckPart.RUNNING, state.stuck_at, state.execution_id),
                self._late(state, state.stuck_at, now),
            )
            for state in (row.state for row in self._tables.leases.values())
            if state.stuck_at is not None and state.stuck_at <= now
        ]
        patience = timedelta(seconds=NOT_TAKEN_UP_SECONDS)
        waiting = [
            (
                StuckPosition(StuckPart.WAITING, at, step.terms.execution_id),
                self._stuck(step, (StuckCause.NOT_TAKEN_UP,), at),
            )
            for step in self._tables.steps.values()
            if step.terms is not None and step.started_at is None and step.finished_at is None and not step.superseded
            if (at := moment_of_id(step.terms.execution_id) + patience) <= now
        ]
        tasks = [
            (StuckPosition(StuckPart.TASKS, until, task.envelope.task_id), _late_task(task, until))
            for task in self._tables.tasks.values()
            if (until := task_deadline(task)) is not None and until <= now
        ]
        return [*late, *waiting, *tasks]

    def _late(self, state: LeaseState, since: datetime, now: datetime) -> StuckExecution:
        step = self._tables.steps[self._tables.execution_keys[state.execution_id]]
        until = run_deadline(step, state.opened_at)
        causes = [StuckCause.OVER_RUN_TIME] if until is not None and until <= now else []
        if state.stale_since is not None:
            causes.append(StuckCause.LONG_STALE if state.lost_at is None else StuckCause.LOST_WORKER)
        return self._stuck(step, tuple(causes), since)

    def _stuck(self, step: StepState, causes: tuple[StuckCause, ...], since: datetime) -> StuckExecution:
        envelope, definition = self._tables.tasks[step.task_id].envelope, step.definition
        assert step.terms is not None
        return StuckExecution(
            workflow_id=envelope.workflow_id,
            task_id=step.task_id,
            title=envelope.title,
            task_attempt=step.task_attempt,
            step_id=definition.step_id,
            step_attempt=step.attempt,
            operation_code=definition.operation_code,
            producer_id=definition.expected_producer,
            execution_id=step.terms.execution_id,
            causes=causes,
            since=since,
        )


def _late_task(task: TaskState, since: datetime) -> StuckExecution:
    envelope = task.envelope
    return StuckExecution(
        workflow_id=envelope.workflow_id,
        task_id=envelope.task_id,
        title=envelope.title,
        task_attempt=task.attempt,
        step_id="",
        step_attempt=0,
        operation_code="",
        producer_id=envelope.coordinator_producer,
        execution_id=None,
        causes=(StuckCause.TASK_OVER_RUN_TIME,),
        since=since,
    )


def _key(position: StuckPosition) -> tuple[StuckPart, datetime, bytes]:
    """Waiting executions go by their id, which begins with their time."""
    since = datetime.min if position.part is StuckPart.WAITING else position.since
    return position.part, since, position.id
