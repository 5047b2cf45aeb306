"""The lease table as heartbeats use it, on every implementation (H-1, H-2, H-3)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from taskstatus.application.ports_heartbeats import MAX_PERSISTED_BEATS, Beat
from taskstatus.application.ports_store import TransactionAttempt, WriteTransaction
from taskstatus.domain.health import Health
from taskstatus.domain.ids import ExecutionId
from taskstatus.domain.lease import LeaseState
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.records import ChangeSet
from taskstatus.domain.state import StepState, TaskState

from . import records
from .backends import Backend

NOW = 5_000.0
"""The process's monotonic clock, in seconds."""
SLACK = timedelta(seconds=20)
"""Far more than a statement takes on a busy machine, far less than what the tests tell apart."""


def clock() -> float:
    return NOW


def beat(of: StepState, seq: int = 1, *, waited: float = 0.0, interval: int = 15, timeout: int = 60) -> Beat:
    return Beat(records.execution_of(of), seq, NOW - waited, interval, timeout)


async def running(backend: Backend, count: int = 1, **changes: object) -> tuple[TaskState, list[StepState]]:
    """A task whose steps have started, with their leases."""
    workflow = records.workflow()
    task = records.task(workflow.workflow_id, steps=count, lifecycle=Lifecycle.RUNNING)
    steps = [records.step(task, n + 1, lifecycle=Lifecycle.RUNNING, **changes) for n in range(count)]
    creation = records.creation(workflow, (task, steps))
    opened_at = (await database_now(backend)).replace(microsecond=7)
    creation.opened_leases += [records.lease(step, opened_at) for step in steps]
    await backend.write(creation)
    return task, steps


async def database_now(backend: Backend) -> datetime:
    async def body(transaction: WriteTransaction, _attempt: TransactionAttempt) -> datetime:
        return await transaction.now()

    return await backend.store.transact(body)


async def lease_of(backend: Backend, step: StepState) -> LeaseState:
    return (await backend.lease_states())[records.execution_of(step)]


async def test_h1_beat_counts_from_its_receipt_and_moves_the_deadline(backend: Backend) -> None:
    _, (step,) = await running(backend)
    before = await database_now(backend)

    await backend.lease_store.persist([beat(step, 7, waited=600.0, interval=20, timeout=3_600)], clock)

    lease = await lease_of(backend, step)
    received = before - timedelta(seconds=600)
    assert lease.last_heartbeat_at is not None
    assert received - SLACK <= lease.last_heartbeat_at <= received + SLACK
    assert lease.deadline_at == lease.last_heartbeat_at + timedelta(seconds=3_600)
    assert (lease.heartbeat_seq, lease.interval_seconds, lease.timeout_seconds) == (7, 20, 3_600)


async def test_h2_waiting_is_measured_when_the_beat_is_written(backend: Backend) -> None:
    _, (step,) = await running(backend)
    before = await database_now(backend)

    await backend.lease_store.persist([beat(step)], lambda: NOW + 600.0)

    received = (await lease_of(backend, step)).last_heartbeat_at
    assert received is not None
    assert received <= before - timedelta(seconds=600) + SLACK


async def test_h2_older_beat_moves_nothing_back(backend: Backend) -> None:
    _, (step,) = await running(backend)
    await backend.lease_store.persist([beat(step, 9)], clock)
    young = await lease_of(backend, step)

    await backend.lease_store.persist([beat(step, 4, waited=600.0)], clock)

    assert await lease_of(backend, step) == young


async def test_h7_progress_renews_without_sequence_or_terms(backend: Backend) -> None:
    _, (step,) = await running(backend)
    await backend.lease_store.persist([beat(step, 9, waited=600.0, interval=30, timeout=700)], clock)
    old = await lease_of(backend, step)

    await backend.lease_store.persist([beat(step, 0, interval=0, timeout=0)], clock)

    lease = await lease_of(backend, step)
    assert (lease.heartbeat_seq, lease.interval_seconds, lease.timeout_seconds) == (9, 30, 700)
    assert lease.last_heartbeat_at is not None
    assert old.last_heartbeat_at is not None
    assert lease.last_heartbeat_at - old.last_heartbeat_at > timedelta(seconds=500)
    assert lease.deadline_at == lease.last_heartbeat_at + timedelta(seconds=700)


async def test_h3_closed_lease_never_comes_back_to_life(backend: Backend) -> None:
    _, (step,) = await running(backend)
    await backend.write(ChangeSet(closed_leases=[(step.bucket, records.execution_of(step))]))
    closed = await lease_of(backend, step)

    standings = await backend.lease_store.persist([beat(step, 5)], clock)

    assert await lease_of(backend, step) == closed
    assert closed.deadline_at is None
    assert not standings[records.execution_of(step)].has_open_lease


async def test_h3_closing_and_beating_at_once_leave_every_lease_closed(backend: Backend) -> None:
    """Both lock leases only, in the order of their ids; whatever deadlocks is run again by the store."""
    _, steps = await running(backend, 60)
    beats = [beat(step, 5) for step in steps]
    closings = [
        ChangeSet(closed_leases=[(step.bucket, records.execution_of(step)) for step in steps[n::6][::-1]])
        for n in range(6)
    ]

    await asyncio.gather(
        *(backend.lease_store.persist(beats, clock) for _ in range(4)), *(backend.write(part) for part in closings)
    )

    leases = await backend.lease_states()
    assert len(leases) == len(steps)
    assert all(lease.closed_at is not None and lease.deadline_at is None for lease in leases.values())
    await backend.lease_store.persist([beat(step, 9) for step in steps], clock)
    assert await backend.lease_states() == leases


async def test_h3_beat_of_an_execution_without_a_lease_opens_none(backend: Backend) -> None:
    workflow = records.workflow()
    task = records.task(workflow.workflow_id)
    step = records.step(task, 1)
    await backend.write(records.creation(workflow, (task, [step])))
    unknown = Beat(ExecutionId(records.new_id()), 1, NOW, 15, 60)

    standings = await backend.lease_store.persist([beat(step), unknown], clock)

    assert await backend.lease_states() == {}
    assert list(standings) == [records.execution_of(step)]


async def test_h4_while_stale_a_beat_is_kept_and_the_deadline_is_left(backend: Backend) -> None:
    _, (step,) = await running(backend, stale=True)
    now = await database_now(backend)
    stale = replace(await lease_of(backend, step), stale_since=now, deadline_at=now + timedelta(hours=9))
    await backend.write(ChangeSet(leases=[stale]))

    standings = await backend.lease_store.persist([beat(step, 3)], clock)

    lease = await lease_of(backend, step)
    assert (lease.stale_since, lease.deadline_at, lease.heartbeat_seq) == (now, now + timedelta(hours=9), 3)
    assert lease.last_heartbeat_at is not None
    standing = standings[records.execution_of(step)]
    assert (standing.health, standing.has_open_lease) == (Health.STALE, True)


async def test_h5_execution_that_came_back_before_has_more_patience(backend: Backend) -> None:
    _, (step,) = await running(backend)
    await backend.write(ChangeSet(leases=[replace(await lease_of(backend, step), recoveries=2)]))

    await backend.lease_store.persist([beat(step, timeout=100)], clock)

    lease = await lease_of(backend, step)
    assert lease.last_heartbeat_at is not None
    assert lease.deadline_at == lease.last_heartbeat_at + timedelta(seconds=300)


async def test_h2_more_beats_than_one_statement_takes_are_all_written(backend: Backend) -> None:
    _, steps = await running(backend, MAX_PERSISTED_BEATS + 5)
    beats = [beat(step, number + 1) for number, step in enumerate(steps)]

    standings = await backend.lease_store.persist(beats[::-1], clock)

    expected = {records.execution_of(step): number + 1 for number, step in enumerate(steps)}
    assert {key: lease.heartbeat_seq for key, lease in (await backend.lease_states()).items()} == expected
    assert {key: standing.heartbeat_seq for key, standing in standings.items()} == expected


async def test_h2_beats_touch_neither_task_nor_step(backend: Backend) -> None:
    task, steps = await running(backend, 2)
    task_id = task.envelope.task_id
    before = (await backend.reader.task_views([task_id], with_trigger=True))[task_id]

    await backend.lease_store.persist([beat(step) for step in steps], clock)

    after = (await backend.reader.task_views([task_id], with_trigger=True))[task_id]
    assert (after.task, after.steps, after.trigger) == (before.task, before.steps, before.trigger)


async def test_nothing_to_persist_or_to_read_asks_nothing(backend: Backend) -> None:
    assert await backend.lease_store.persist([], clock) == {}
    assert await backend.lease_store.standings([]) == {}


async def test_h3_standing_of_a_running_execution(backend: Backend) -> None:
    task, (step,) = await running(backend)
    execution_id = records.execution_of(step)
    await backend.lease_store.persist([beat(step, 11, interval=60, timeout=195)], clock)

    standing = (await backend.lease_store.standings([execution_id, execution_id]))[execution_id]

    assert (standing.execution_id, standing.task_id, standing.bucket) == (execution_id, step.task_id, step.bucket)
    assert (standing.tenant_id, standing.authority_scope, standing.producer_id) == (
        task.envelope.tenant_id,
        task.envelope.authority_scope,
        "parser",
    )
    assert (standing.lifecycle, standing.task_lifecycle) == (Lifecycle.RUNNING, Lifecycle.RUNNING)
    assert (standing.generation, standing.is_current, standing.cancel_requested) == (1, True, False)
    assert (standing.health, standing.has_open_lease, standing.heartbeat_seq) == (Health.HEALTHY, True, 11)
    assert (standing.interval_seconds, standing.timeout_seconds) == (60, 195)
    assert (standing.base_interval_seconds, standing.base_timeout_seconds) == (15, 60)
    assert abs(standing.as_of - await database_now(backend)) < SLACK


async def test_h3_standing_before_the_start_has_the_terms_of_the_activation(backend: Backend) -> None:
    workflow = records.workflow()
    task = records.task(workflow.workflow_id, cancel_requested=True)
    steps = [records.step(task, 1), records.step(task, 2, active=False)]
    await backend.write(records.creation(workflow, (task, steps)))
    execution_id = records.execution_of(steps[0])

    standings = await backend.lease_store.standings([execution_id, ExecutionId(records.new_id())])

    assert list(standings) == [execution_id]
    standing = standings[execution_id]
    assert (standing.lifecycle, standing.has_open_lease, standing.heartbeat_seq) == (Lifecycle.PENDING, False, 0)
    assert (standing.interval_seconds, standing.timeout_seconds) == (15, 60)
    assert standing.cancel_requested


def superseded(step: StepState) -> StepState:
    return replace(step, superseded=True, lifecycle=Lifecycle.CANCELLED)


def of_an_earlier_run(step: StepState) -> StepState:
    return replace(step, task_attempt=1)


def degraded(step: StepState) -> StepState:
    return replace(step, degraded=True, generation=3)


@pytest.mark.parametrize(
    ("change", "is_current", "health", "generation"),
    [
        (superseded, False, Health.HEALTHY, 1),
        (of_an_earlier_run, False, Health.HEALTHY, 1),
        (degraded, True, Health.DEGRADED, 3),
    ],
)
async def test_h3_standing_tells_what_ends_an_execution(
    backend: Backend, change: Callable[[StepState], StepState], is_current: bool, health: Health, generation: int
) -> None:
    workflow = records.workflow()
    task = records.task(workflow.workflow_id, attempt=2, lifecycle=Lifecycle.FAILED)
    step = change(records.step(task, 1, lifecycle=Lifecycle.RUNNING))
    await backend.write(records.creation(workflow, (task, [step])))

    standing = (await backend.lease_store.standings([records.execution_of(step)]))[records.execution_of(step)]

    assert (standing.is_current, standing.health, standing.generation) == (is_current, health, generation)
    assert (standing.lifecycle, standing.task_lifecycle) == (step.lifecycle, Lifecycle.FAILED)
