"""Leases as health changes read and write them, overdue leases and stuck work, on every implementation (H-4, H-8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from taskstatus.application.ports_health import HealthCandidate, LeasePosition
from taskstatus.application.ports_store import StoreRefusedError, TransactionAttempt, WriteTransaction
from taskstatus.domain.health_changes import HealthSign
from taskstatus.domain.ids import ExecutionId
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.records import ChangeSet, EndedRun

from . import records
from .backends import Backend
from .leases import AGO, change, database_now, running, states, stuck


async def overdue(backend: Backend, limit: int = 100, after: LeasePosition | None = None) -> Sequence[HealthCandidate]:
    return await backend.overdue.overdue(limit, after)


def executions(found: Sequence[HealthCandidate]) -> list[ExecutionId]:
    return [candidate.execution_id for candidate in found]


async def test_h4_leases_are_read_in_the_transaction_and_unknown_ones_are_absent(backend: Backend) -> None:
    _, steps = await running(backend, 3)
    ids = [records.execution_of(step) for step in steps]

    async def body(transaction: WriteTransaction, _attempt: TransactionAttempt) -> None:
        found = await transaction.leases([ids[2], ids[0], ExecutionId(records.new_id())])
        assert dict(found) == {i: s for i, s in (await states(backend)).items() if i in (ids[0], ids[2])}
        assert dict(await transaction.leases([])) == {}

    await backend.store.transact(body)


async def test_h4_health_change_writes_what_is_healths_and_leaves_beats_and_terms(backend: Backend) -> None:
    _, steps = await running(backend, 2)
    before = await states(backend)
    now = (await database_now(backend)).replace(microsecond=123456)

    expected = await change(
        backend,
        steps[0],
        stale_since=now,
        lost_at=now + timedelta(seconds=1),
        deadline_at=now + timedelta(seconds=2),
        stuck_at=now + timedelta(seconds=3),
        recoveries=4,
    )

    after = await states(backend)
    assert after == {**before, records.execution_of(steps[0]): expected}


async def test_h4_many_leases_change_in_one_statement_each_to_its_own_values(backend: Backend) -> None:
    _, steps = await running(backend, 5)
    before = await states(backend)
    changed = [
        replace(lease, recoveries=number, stale_since=None if number % 2 else lease.opened_at, deadline_at=None)
        for number, lease in enumerate(before.values())
    ]

    await backend.write(ChangeSet(leases=changed))

    assert await states(backend) == {lease.execution_id: lease for lease in changed}
    assert len(steps) == len(changed)


async def test_h4_change_of_a_closed_lease_is_refused_and_writes_nothing(backend: Backend) -> None:
    _, steps = await running(backend, 2)
    open_lease, closed = (await states(backend)).values()
    await backend.write(ChangeSet(closed_leases=[(closed.bucket, closed.execution_id)]))
    before = await states(backend)

    with pytest.raises(StoreRefusedError):
        await backend.write(ChangeSet(leases=[replace(open_lease, recoveries=1), replace(closed, recoveries=1)]))

    assert await states(backend) == before
    assert len(steps) == 2


async def test_l1_end_in_the_same_transaction_closes_a_changed_lease(backend: Backend) -> None:
    _, (step,) = await running(backend)
    (lease,) = (await states(backend)).values()
    now = await database_now(backend)
    silent = replace(lease, stale_since=now, deadline_at=now, stuck_at=now)

    await backend.write(ChangeSet(leases=[silent], closed_leases=[(step.bucket, lease.execution_id)]))

    (after,) = (await states(backend)).values()
    assert after.closed_at is not None
    assert (after.deadline_at, after.stuck_at, after.stale_since) == (None, None, now)


async def test_l1_end_of_the_run_leaves_nothing_overdue_and_nothing_stuck(backend: Backend) -> None:
    task, steps = await running(backend, 2)
    await change(backend, steps[0], stuck_at=records.START)
    final = records.next_version(task, lifecycle=Lifecycle.FAILED)

    await backend.write(ChangeSet(tasks=[final], ended_runs=[EndedRun(final, records.START)]))

    assert await overdue(backend) == []
    assert (await stuck(backend)).executions == ()


async def test_h4_candidate_says_all_that_a_health_change_needs(backend: Backend) -> None:
    task, (step,) = await running(backend)
    (lease,) = (await states(backend)).values()

    (candidate,) = await overdue(backend)

    assert (candidate.tenant_id, candidate.authority_scope) == (records.TENANT, records.SCOPE)
    assert (candidate.workflow_id, candidate.task_id) == (task.envelope.workflow_id, task.envelope.task_id)
    assert (candidate.task_attempt, candidate.step_id, candidate.step_attempt) == (1, step.definition.step_id, 1)
    assert (candidate.execution_id, candidate.timeout_seconds) == (records.execution_of(step), 60)
    assert (candidate.heartbeat_seq, candidate.last_sign_at) == (0, lease.opened_at)
    assert (candidate.deadline_at, candidate.stale_since) == (lease.deadline_at, None)
    assert candidate.as_of >= lease.opened_at + AGO
    assert candidate.sign is HealthSign.SILENT


async def test_h4_overdue_leases_come_by_deadline_and_only_when_it_has_passed(backend: Backend) -> None:
    _, steps = await running(backend, 4)
    now = await database_now(backend)
    for step, seconds in zip(steps, (-10, 3600, -30, -20), strict=True):
        await change(backend, step, deadline_at=now + timedelta(seconds=seconds))

    found = executions(await overdue(backend))

    assert found == [records.execution_of(steps[number]) for number in (2, 3, 0)]
    assert executions(await overdue(backend, limit=2)) == found[:2]


async def test_h4_leases_of_one_deadline_are_walked_through_page_by_page(backend: Backend) -> None:
    _, steps = await running(backend, 5)
    same = (await database_now(backend)).replace(microsecond=500000) - AGO
    for step in steps:
        await change(backend, step, deadline_at=same)
    walked: list[ExecutionId] = []
    position: LeasePosition | None = None
    for _ in range(3):
        page = await overdue(backend, 2, position)
        walked += executions(page)
        position = LeasePosition(same, page[-1].execution_id)

    assert walked == sorted(records.execution_of(step) for step in steps)
    assert await overdue(backend, 2, position) == []


async def test_h6_leases_near_their_deadline_are_found_before_it(backend: Backend) -> None:
    _, steps = await running(backend, 5)
    now = await database_now(backend)
    for step, seconds in zip(steps, (-10, 3600, 600, 900, 700), strict=True):
        await change(backend, step, deadline_at=now + timedelta(seconds=seconds))
    await change(backend, steps[4], stale_since=now)

    found = await backend.overdue.nearly(100, 1200.0, None)

    ids = [records.execution_of(steps[number]) for number in (2, 4, 3)]
    assert executions(found) == ids
    assert [candidate.stale_since for candidate in found] == [None, now, None]
    assert executions(await backend.overdue.nearly(2, 1200.0, None)) == ids[:2]
    assert executions(await backend.overdue.nearly(100, 650.0, None)) == ids[:1]
    position = LeasePosition(now + timedelta(seconds=600), ids[0])
    assert executions(await backend.overdue.nearly(100, 1200.0, position)) == ids[1:]
    assert await backend.overdue.nearly(100, 0.5, None) == []


async def test_h4_closed_and_lost_leases_are_never_overdue(backend: Backend) -> None:
    _, steps = await running(backend, 2)
    now = await database_now(backend)
    await change(backend, steps[0], stale_since=now - AGO, lost_at=now, deadline_at=None)
    await backend.write(ChangeSet(closed_leases=[(steps[1].bucket, records.execution_of(steps[1]))]))

    assert await overdue(backend) == []


async def test_h4_candidates_are_found_by_their_executions_while_open(backend: Backend) -> None:
    _, steps = await running(backend, 3)
    now = await database_now(backend)
    await change(backend, steps[0], stale_since=now - AGO, lost_at=now, deadline_at=None)
    await backend.write(ChangeSet(closed_leases=[(steps[1].bucket, records.execution_of(steps[1]))]))
    ids = [records.execution_of(step) for step in steps]

    found = await backend.overdue.candidates([ids[0], ids[1], ExecutionId(records.new_id())])

    assert executions(found) == [ids[0]]
    assert (found[0].stale_since, found[0].sign) == (now - AGO, HealthSign.LOST)
    assert list(await backend.overdue.candidates([])) == []
