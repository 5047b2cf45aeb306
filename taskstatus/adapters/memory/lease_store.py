"""The lease table of the in-memory store (port ``LeaseStore``)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from taskstatus.adapters.memory.store import MemoryTaskStore
from taskstatus.application.ports_heartbeats import Beat
from taskstatus.application.ports_store import StoreUnavailableError
from taskstatus.domain.ids import ExecutionId
from taskstatus.domain.lease import patience_seconds
from taskstatus.domain.standing import ExecutionStanding


class MemoryLeaseStore:
    """The leases of a ``MemoryTaskStore``, unavailable when it is; ``reads`` and ``writes`` count calls that worked."""

    def __init__(self, store: MemoryTaskStore) -> None:
        self._store = store
        self._tables = store.tables
        self.reads = 0
        self.writes = 0

    async def standings(self, execution_ids: Sequence[ExecutionId]) -> Mapping[ExecutionId, ExecutionStanding]:
        """See the port."""
        await self._arrive()
        self.reads += 1
        known = [execution_id for execution_id in execution_ids if execution_id in self._tables.execution_keys]
        return {execution_id: self._standing(execution_id) for execution_id in known}

    async def persist(
        self, beats: Sequence[Beat], monotonic_now: Callable[[], float]
    ) -> Mapping[ExecutionId, ExecutionStanding]:
        """See the port."""
        await self._arrive()
        self.writes += 1
        for beat in beats:
            self._persist(beat, monotonic_now() - beat.received_monotonic)
        return {
            beat.execution_id: self._standing(beat.execution_id)
            for beat in beats
            if beat.execution_id in self._tables.execution_keys
        }

    async def _arrive(self) -> None:
        # A real database always suspends the caller; code that relies on not being suspended must fail here.
        await asyncio.sleep(0)
        if self._store.unavailable:
            raise StoreUnavailableError("the in-memory store was told to be unavailable")

    def _persist(self, beat: Beat, waited_seconds: float) -> None:
        row = self._tables.leases.get(beat.execution_id)
        if row is None or not row.state.is_open:
            return
        state = row.state
        at = self._store.clock.read() - timedelta(seconds=max(0.0, waited_seconds))
        timeout = beat.timeout_seconds or state.timeout_seconds
        deadline = at + timedelta(seconds=patience_seconds(timeout, state.recoveries))
        changed = replace(
            state,
            interval_seconds=beat.interval_seconds or state.interval_seconds,
            timeout_seconds=timeout,
            deadline_at=state.deadline_at if state.stale_since else max(state.deadline_at or deadline, deadline),
            heartbeat_seq=max(state.heartbeat_seq, beat.heartbeat_seq),
            last_heartbeat_at=max(state.last_heartbeat_at or at, at),
        )
        self._tables.leases[beat.execution_id] = replace(row, state=changed)

    def _standing(self, execution_id: ExecutionId) -> ExecutionStanding:
        step = self._tables.steps[self._tables.execution_keys[execution_id]]
        task, row = self._tables.tasks[step.task_id], self._tables.leases.get(execution_id)
        assert step.terms is not None
        terms = row.state if row is not None else None
        base_interval, base_timeout = step.terms.heartbeat_interval_seconds, step.terms.heartbeat_timeout_seconds
        return ExecutionStanding(
            execution_id=execution_id,
            bucket=step.bucket,
            task_id=step.task_id,
            producer_id=step.definition.expected_producer,
            generation=step.generation,
            is_current=not step.superseded and step.task_attempt == task.attempt,
            lifecycle=step.lifecycle,
            task_lifecycle=task.lifecycle,
            health=step.health,
            cancel_requested=task.cancel_requested,
            has_open_lease=terms is not None and terms.is_open,
            heartbeat_seq=terms.heartbeat_seq if terms else 0,
            interval_seconds=terms.interval_seconds if terms else base_interval,
            timeout_seconds=terms.timeout_seconds if terms else base_timeout,
            as_of=self._store.clock.read(),
            base_interval_seconds=base_interval,
            base_timeout_seconds=base_timeout,
            tenant_id=task.envelope.tenant_id,
            authority_scope=task.envelope.authority_scope,
        )
