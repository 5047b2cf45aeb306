"""Leases as health changes read and write them, overdue leases and stuck work, on every implementation (H-4, H-8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from taskstatus.application.ports_health import HealthCandidate, LeasePosition, StuckCause, StuckPage
from taskstatus.application.ports_store import StoreRefusedError, TransactionAttempt, WriteTransaction
from taskstatus.domain.health_changes import HealthSign
from taskstatus.domain.ids import ExecutionId, least_id_of
from taskstatus.domain.lease import LeaseState
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.records import ChangeSet, EndedRun
from taskstatus.domain.registration_terms import RegistrationTerms
from taskstatus.domain.state import StepState, TaskState

from . import records
from .backends import Backend

AGO = timedelta(seconds=600)
"""Far more than a statement takes on a busy machine."""


async def database_now(backend: Backend) -> datetime:
    async def body(transaction: WriteTransaction, _attempt: TransactionAttempt) -> datetime:
        return await transaction.now()

    return await backend.store.transact(body)


async def running(backend: Backend, count: int = 1, **changes: object) -> tuple[TaskState, list[StepState]]:
    """A task whose steps have started ten minutes ago, with open leases of one minute."""
    workflow = records.workflow()
    task = records.task(workflow.workflow_id, steps=count, lifecycle=Lifecycle.RUNNING)
    now = await database_now(backend)
    started: dict[str, object] = {"lifecycle": Lifecycle.RUNNING, "started_at": now - AGO, **changes}
    steps = [records.step(task, n + 1, **started) for n in range(count)]  # type: ignore[arg-type]
    creation = records.creation(workflow, (task, steps))
    creation.opened_leases += [records.lease(step, now - AGO) for step in steps]
    await backend.write(creation)
    return task, steps


async def states(backend: Backend) -> dict[ExecutionId, LeaseState]:
    return await backend.lease_states()


async def change(backend: Backend, step: StepState, **changes: object) -> LeaseState:
    """Write a lease as a health change does."""
    before = (await states(backend))[records.execution_of(step)]
    after = replace(before, **changes)  # type: ignore[arg-type]
    await backend.write(ChangeSet(leases=[after]))
    return after


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


async def stuck(backend: Backend, limit: int = 100) -> StuckPage:
    return await backend.stuck.page(records.TENANT, records.SCOPE, None, limit)


async def waiting(backend: Backend, *seconds_ago: int, tenant: str = records.TENANT) -> list[StepState]:
    """Steps that were activated so long ago and have not started, of a task of their own."""
    workflow = records.workflow(f"waiting of {tenant} {records.new_id().hex()}", tenant_id=tenant)
    task = records.task(workflow.workflow_id, steps=len(seconds_ago))
    task = replace(task, envelope=replace(task.envelope, tenant_id=tenant))
    now = await database_now(backend)
    steps = []
    for number, seconds in enumerate(seconds_ago, start=1):
        step = records.step(task, number)
        assert step.terms is not None
        activated = least_id_of(now - timedelta(seconds=seconds))[:6] + step.terms.execution_id[6:]
        steps.append(replace(step, terms=replace(step.terms, execution_id=ExecutionId(activated))))
    await backend.write(records.creation(workflow, (task, steps)))
    return steps


async def test_h8_work_beyond_its_time_is_listed_with_every_cause(backend: Backend) -> None:
    task, steps = await running(backend, 3)
    now = await database_now(backend)
    opened_at = now - AGO
    await change(backend, steps[0], stuck_at=now - timedelta(seconds=20), stale_since=opened_at)
    await change(backend, steps[1], stuck_at=now - timedelta(seconds=10), stale_since=opened_at, lost_at=now)
    await change(backend, steps[2], stuck_at=now + AGO)

    page = await stuck(backend)

    assert [execution.execution_id for execution in page.executions] == [records.execution_of(s) for s in steps[:2]]
    first, second = page.executions
    assert (first.workflow_id, first.task_id) == (task.envelope.workflow_id, task.envelope.task_id)
    assert (first.title, first.task_attempt) == (task.envelope.title, 1)
    assert (first.step_id, first.step_attempt) == (steps[0].definition.step_id, 1)
    assert (first.operation_code, first.producer_id) == ("document.parse", "parser")
    assert first.since == now - timedelta(seconds=20)
    assert first.causes == (StuckCause.OVER_RUN_TIME, StuckCause.LONG_STALE)
    assert second.causes == (StuckCause.OVER_RUN_TIME, StuckCause.LOST_WORKER)
    assert page.next_position is None


async def test_h8_work_that_nobody_takes_up_is_listed_after_thirty_seconds(backend: Backend) -> None:
    late, _ = await waiting(backend, 40, 10)

    (execution,) = (await stuck(backend)).executions

    assert execution.execution_id == records.execution_of(late)
    assert execution.causes == (StuckCause.NOT_TAKEN_UP,)


@pytest.mark.parametrize(
    "change",
    [
        {"started_at": records.START, "lifecycle": Lifecycle.RUNNING},
        {"finished_at": records.START, "lifecycle": Lifecycle.CANCELLED},
        {"superseded": True},
    ],
)
async def test_h8_work_that_was_taken_up_or_ended_is_not_waiting(backend: Backend, change: dict[str, object]) -> None:
    (step,) = await waiting(backend, 40)
    await backend.write(ChangeSet(steps=[replace(step, **change)]))  # type: ignore[arg-type]

    assert (await stuck(backend)).executions == ()


async def test_h8_pages_show_each_once_and_own_tenants_only(backend: Backend) -> None:
    _, steps = await running(backend, 3)
    now = await database_now(backend)
    for number, step in enumerate(steps):
        await change(backend, step, stuck_at=now - timedelta(seconds=number))
    own = [records.execution_of(step) for step in [*reversed(steps), *await waiting(backend, 50, 40)]]
    await waiting(backend, 60, 45, tenant="t-02")

    listed: list[ExecutionId] = []
    page = await stuck(backend, 2)
    for _ in range(4):
        listed += [execution.execution_id for execution in page.executions]
        if page.next_position is None:
            break
        page = await backend.stuck.page(records.TENANT, records.SCOPE, page.next_position, 2)

    assert listed == own
    assert page.next_position is None
    other = await backend.stuck.page("t-02", records.SCOPE, None, 100)
    assert len(other.executions) == 2
    assert (await backend.stuck.page(records.TENANT, "another", None, 100)).executions == ()


async def limited(backend: Backend, *seconds_over: int, tenant: str = records.TENANT) -> list[TaskState]:
    """Running tasks, so far beyond their run time of ten minutes."""
    workflow = records.workflow(f"limited of {tenant} {records.new_id().hex()}", tenant_id=tenant)
    now = await database_now(backend)
    tasks = []
    for number, seconds in enumerate(seconds_over):
        task = records.task(workflow.workflow_id, f"t-{number}", steps=1, lifecycle=Lifecycle.RUNNING)
        envelope = replace(task.envelope, tenant_id=tenant, terms=RegistrationTerms(max_run_seconds=600))
        tasks.append(replace(task, envelope=envelope, started_at=now - AGO - timedelta(seconds=seconds)))
    await backend.write(records.creation(workflow, *((task, []) for task in tasks)))
    return tasks


async def test_h8_task_beyond_its_run_time_is_listed_as_a_whole(backend: Backend) -> None:
    over, _ = await limited(backend, 5, -60)

    (entry,) = (await stuck(backend)).executions

    assert (entry.workflow_id, entry.task_id) == (over.envelope.workflow_id, over.envelope.task_id)
    assert (entry.title, entry.task_attempt) == (over.envelope.title, over.attempt)
    assert (entry.step_id, entry.step_attempt, entry.operation_code, entry.execution_id) == ("", 0, "", None)
    assert entry.producer_id == over.envelope.coordinator_producer
    assert entry.causes == (StuckCause.TASK_OVER_RUN_TIME,)
    assert over.started_at is not None
    assert entry.since == over.started_at + timedelta(seconds=600)


@pytest.mark.parametrize(
    "change",
    [
        {"finished_at": records.START, "lifecycle": Lifecycle.FAILED},
        {"started_at": None, "lifecycle": Lifecycle.PENDING, "attempt": 2},
    ],
    ids=["ended", "runs again"],
)
async def test_h8_task_whose_run_has_ended_or_not_begun_is_not_listed(
    backend: Backend, change: dict[str, object]
) -> None:
    (task,) = await limited(backend, 5)
    await backend.write(ChangeSet(tasks=[records.next_version(task, **change)]))
    assert (await stuck(backend)).executions == ()


async def test_h8_run_time_of_a_task_goes_by_each_run(backend: Backend) -> None:
    (task,) = await limited(backend, 5)
    now = await database_now(backend)
    again = records.next_version(task, attempt=2, started_at=now)
    await backend.write(ChangeSet(tasks=[again]))
    assert (await stuck(backend)).executions == ()
    late = records.next_version(again, started_at=now - AGO - AGO)
    await backend.write(ChangeSet(tasks=[late]))
    (entry,) = (await stuck(backend)).executions
    assert entry.task_attempt == 2


async def test_h8_run_time_is_read_back_with_the_task(backend: Backend) -> None:
    (task,) = await limited(backend, 5)
    task_id = task.envelope.task_id
    view = (await backend.reader.task_views([task_id], with_trigger=False))[task_id]
    assert view.task.envelope.terms == RegistrationTerms(max_run_seconds=600)


async def test_h8_pages_of_tasks_follow_those_of_executions_and_show_own_tenants_only(backend: Backend) -> None:
    _, (step,) = await running(backend)
    await change(backend, step, stuck_at=await database_now(backend))
    tasks = await limited(backend, 30, 20, 10)
    (other,) = await limited(backend, 40, tenant="t-02")

    listed: list[bytes] = []
    page = await stuck(backend, 1)
    for _ in range(5):
        listed += [entry.execution_id or entry.task_id for entry in page.executions]
        if page.next_position is None:
            break
        page = await backend.stuck.page(records.TENANT, records.SCOPE, page.next_position, 1)

    assert listed == [records.execution_of(step), *(task.envelope.task_id for task in tasks)]
    (foreign,) = (await backend.stuck.page("t-02", records.SCOPE, None, 100)).executions
    assert foreign.task_id == other.envelope.task_id


async def test_h8_counts_are_of_all_tenants_by_the_weightiest_cause(backend: Backend) -> None:
    await limited(backend, 5, 6, tenant="t-02")
    _, steps = await running(backend, 3)
    now = await database_now(backend)
    await change(backend, steps[0], stuck_at=now)
    await change(backend, steps[1], stuck_at=now, stale_since=now - AGO)
    await change(backend, steps[2], stuck_at=now, stale_since=now - AGO, lost_at=now)
    await waiting(backend, 40, 41, tenant="t-02")

    assert await backend.stuck.counts() == {
        StuckCause.OVER_RUN_TIME: 1,
        StuckCause.NOT_TAKEN_UP: 2,
        StuckCause.LONG_STALE: 1,
        StuckCause.LOST_WORKER: 1,
        StuckCause.TASK_OVER_RUN_TIME: 2,
    }
