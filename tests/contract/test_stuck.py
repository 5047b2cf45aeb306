"""Stuck work: executions and tasks beyond their time, listed and counted, on every implementation (H-8)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from taskstatus.application.ports_health import StuckCause
from taskstatus.domain.ids import ExecutionId, least_id_of
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.records import ChangeSet
from taskstatus.domain.registration_terms import RegistrationTerms
from taskstatus.domain.state import StepState, TaskState

from . import records
from .backends import Backend
from .leases import AGO, change, database_now, running, stuck


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
