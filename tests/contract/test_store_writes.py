"""What one write transaction leaves behind, on every implementation of the store's ports."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from taskstatus.application.ports_store import StoreRefusedError, TransactionAttempt, WriteTransaction
from taskstatus.domain.evolve import end_with_task
from taskstatus.domain.ids import ExecutionId, TaskId, WorkflowId
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.progress import Progress
from taskstatus.domain.records import ChangeSet, EndedRun, Projection, SeenEvent
from taskstatus.domain.state import Grant

from . import records
from .backends import Backend


async def test_r1_workflow_with_tasks_steps_and_outbox_commits_as_one(backend: Backend) -> None:
    workflow = records.workflow()
    task = records.task(workflow.workflow_id)
    steps = [records.step(task, number) for number in (1, 2, 3)]
    changes = records.creation(workflow, (task, steps))

    await backend.write(changes)

    view = (await backend.reader.task_views([task.envelope.task_id], with_trigger=True))[task.envelope.task_id]
    assert view.task == task
    assert view.steps == tuple(steps)
    assert view.trigger == changes.events[0]
    assert await backend.outbox() == changes.outbox


async def test_locked_workflow_comes_with_grants_and_later_time(backend: Backend) -> None:
    grants = (Grant("PROJECT", "p-7", "VIEW"), Grant("USER", "u-99", "OPERATE"))
    workflow = records.workflow(grants=grants)
    await backend.write(records.creation(workflow))

    async def body(transaction: WriteTransaction, _attempt: TransactionAttempt) -> None:
        before = await transaction.now()
        locked = await transaction.lock_workflow(workflow.workflow_id)
        assert locked is not None
        assert locked.state == workflow
        assert locked.now >= before
        assert await transaction.lock_workflow(WorkflowId(records.new_id())) is None

    await backend.store.transact(body)


async def test_id3_workflow_is_found_by_tenant_scope_and_key_only(backend: Backend) -> None:
    workflow = records.workflow("order-1")
    await backend.write(records.creation(workflow))

    async def body(transaction: WriteTransaction, _attempt: TransactionAttempt) -> None:
        find = transaction.find_workflow_by_key
        assert await find(records.TENANT, records.SCOPE, "order-1") == workflow
        assert await find("t-02", records.SCOPE, "order-1") is None
        assert await find(records.TENANT, "other", "order-1") is None

    await backend.store.transact(body)


@pytest.mark.parametrize("other", ["Order-1", "order-1 ", "örder-1", "order-10"])
async def test_id4_keys_compare_byte_for_byte(backend: Backend, other: str) -> None:
    await backend.write(records.creation(records.workflow("order-1")))

    async def body(transaction: WriteTransaction, _attempt: TransactionAttempt) -> None:
        assert await transaction.find_workflow_by_key(records.TENANT, records.SCOPE, other) is None

    await backend.store.transact(body)
    await backend.write(records.creation(records.workflow(other)))


async def test_id3_second_workflow_under_a_taken_key_is_refused_whole(backend: Backend) -> None:
    await backend.write(records.creation(records.workflow("order-1")))
    second = records.workflow("order-1")
    task = records.task(second.workflow_id)

    with pytest.raises(StoreRefusedError):
        await backend.write(records.creation(second, (task, [])))

    assert await backend.reader.task_views([task.envelope.task_id], with_trigger=False) == {}
    assert await backend.outbox() == []


async def test_workflow_update_changes_version_count_and_title_only(backend: Backend) -> None:
    workflow = records.workflow(grants=(Grant("USER", "u-99", "VIEW"),))
    await backend.write(records.creation(workflow))
    later = replace(
        workflow, version=2, task_count=4, title="Renamed", committed_at=records.START + timedelta(seconds=1)
    )

    await backend.write(ChangeSet(workflows=[later], workflow_events=[records.workflow_event(later, "add")]))

    async def body(transaction: WriteTransaction, _attempt: TransactionAttempt) -> None:
        locked = await transaction.lock_workflow(workflow.workflow_id)
        assert locked is not None
        assert locked.state == later

    await backend.store.transact(body)


async def test_id3_tasks_of_workflow_are_found_by_their_keys(backend: Backend) -> None:
    workflow, other = records.workflow("a"), records.workflow("b")
    tasks = [records.task(workflow.workflow_id, key) for key in ("one", "two", "three")]
    stranger = records.task(other.workflow_id, "one")
    await backend.write(
        records.creation(workflow, *((task, []) for task in tasks)), records.creation(other, (stranger, []))
    )

    async def body(transaction: WriteTransaction, _attempt: TransactionAttempt) -> None:
        found = await transaction.tasks_of_workflow(workflow.workflow_id, ["three", "one", "none", "one"])
        assert found == {"one": tasks[0], "three": tasks[2]}
        assert await transaction.tasks_of_workflow(workflow.workflow_id, []) == {}

    await backend.store.transact(body)


async def test_e6_locked_tasks_come_with_their_state_and_unknown_ids_are_absent(backend: Backend) -> None:
    workflow = records.workflow()
    tasks = [records.task(workflow.workflow_id, f"t{number}") for number in range(5)]
    await backend.write(records.creation(workflow, *((task, []) for task in tasks)))
    ids = [task.envelope.task_id for task in tasks]

    async def body(transaction: WriteTransaction, _attempt: TransactionAttempt) -> None:
        before = await transaction.now()
        locked = await transaction.lock_tasks([*reversed(ids), TaskId(records.new_id()), ids[0]])
        assert {task_id: found.state for task_id, found in locked.items()} == dict(zip(ids, tasks, strict=True))
        assert all(found.now >= before for found in locked.values())
        assert await transaction.lock_tasks([]) == {}

    await backend.store.transact(body)


async def test_executions_and_attempts_are_read_by_their_own_keys(backend: Backend) -> None:
    workflow = records.workflow()
    task = records.task(workflow.workflow_id)
    first = records.step(task, 1, superseded=True, lifecycle=Lifecycle.FAILED)
    second, third = records.step(task, 1, attempt=2), records.step(task, 1, attempt=3)
    manifest = records.step(task, 2, active=False)
    await backend.write(records.creation(workflow, (task, [third, manifest, first, second])))
    task_id = task.envelope.task_id

    async def body(transaction: WriteTransaction, _attempt: TransactionAttempt) -> None:
        wanted = [records.execution_of(second), ExecutionId(records.new_id()), records.execution_of(first)]
        assert await transaction.executions(wanted) == {wanted[0]: second, wanted[2]: first}
        keys = [(task_id, 1, "01_parse"), (task_id, 1, "02_parse"), (task_id, 2, "01_parse"), (task_id, 1, "09_none")]
        assert await transaction.step_attempts(keys) == {keys[0]: (first, second, third), keys[1]: (manifest,)}
        assert await transaction.executions([]) == {}
        assert await transaction.step_attempts([]) == {}

    await backend.store.transact(body)


async def test_e3_seen_events_are_unique_within_their_task(backend: Backend) -> None:
    workflow = records.workflow()
    tasks = [records.task(workflow.workflow_id, key) for key in ("one", "two")]
    await backend.write(records.creation(workflow, *((task, []) for task in tasks)))
    one, two = (task.envelope.task_id for task in tasks)
    dedup = records.dedup(tasks[0], "create-one")

    async def body(transaction: WriteTransaction, _attempt: TransactionAttempt) -> None:
        keys = [(one, "create-one"), (two, "create-one"), (one, "Create-one"), (one, "create-one ")]
        assert await transaction.seen_events(keys) == {keys[0]: SeenEvent(dedup.digest, dedup.result)}
        assert await transaction.seen_events([]) == {}

    await backend.store.transact(body)


async def test_e6_event_updates_task_and_step_and_adds_log_dedup_and_outbox(backend: Backend) -> None:
    workflow = records.workflow()
    task = records.task(workflow.workflow_id)
    steps = [records.step(task, number) for number in (1, 2)]
    await backend.write(records.creation(workflow, (task, steps)))
    after, moved, changes = records.progress_of(task, steps[0], "e-1")

    await backend.write(changes)

    view = (await backend.reader.task_views([task.envelope.task_id], with_trigger=True))[task.envelope.task_id]
    assert (view.task, view.steps, view.trigger) == (after, (moved, steps[1]), changes.events[0])
    assert {row.projection for row in await backend.outbox()} == {Projection.USER_SUMMARY, Projection.TASK_DETAIL}


@pytest.mark.parametrize("taken", ["event", "dedup", "outbox", "execution", "step"])
async def test_e6_one_taken_key_writes_nothing(backend: Backend, taken: str) -> None:
    workflow = records.workflow()
    task = records.task(workflow.workflow_id)
    steps = [records.step(task, 1)]
    await backend.write(records.creation(workflow, (task, steps)))
    _, _, first = records.progress_of(task, steps[0], "e-1")
    await backend.write(first)
    _, _, second = records.progress_of(first.tasks[0], first.steps[0], "e-2")
    match taken:
        case "event":
            second.events[0] = replace(second.events[0], task_version=2)
        case "dedup":
            second.dedups[0] = replace(second.dedups[0], event_id="e-1")
        case "outbox":
            second.outbox[0] = replace(second.outbox[0], aggregate_version=2)
        case "execution":
            second.new_steps.append(replace(records.step(task, 2), terms=steps[0].terms))
        case "step":
            second.new_steps.append(records.step(task, 1))

    with pytest.raises(StoreRefusedError):
        await backend.write(second)

    view = (await backend.reader.task_views([task.envelope.task_id], with_trigger=False))[task.envelope.task_id]
    assert view.task == first.tasks[0]
    assert view.steps == tuple(first.steps)


async def test_e8_a_progress_writes_its_own_columns_and_leaves_the_others(backend: Backend) -> None:
    workflow = records.workflow()
    running = {"lifecycle": Lifecycle.RUNNING, "started_at": records.START}
    task = records.task(
        workflow.workflow_id,
        **running,
        cancel_requested=True,
        shared=True,
        stale_steps=1,
        degraded_steps=1,
        producer_seqs={"coordinator": 7},
        open_dynamic=2,
    )
    step = records.step(task, 1, **running, stale=True, degraded=True, generation=3)
    await backend.write(records.creation(workflow, (task, [step])))
    task_after = records.next_version(
        task,
        business_status="PARSING",
        progress_points=40,
        summary_schema="generic.progress.v1",
        summary_data=b'{"message":"page 3"}',
    )
    step_after = records.advanced(
        step,
        business_status="PARSING",
        progress=Progress(3.0, 12.0, "page"),
        progress_seq=3,
        credited_points=40,
        phase_code="PARSING",
        phase_label="Parsing",
        data_schema="generic.progress.v1",
        shown_data=b'{"message":"page 3"}',
    )

    await backend.write(ChangeSet(tasks=[task_after], steps=[step_after], progressed={task.envelope.task_id}))

    found = await backend.reader.execution_state(records.execution_of(step))
    assert found == (task_after, step_after)


@pytest.mark.parametrize("is_progress", [False, True])
@pytest.mark.parametrize("missing", ["task", "step", "workflow"])
async def test_update_of_a_row_that_is_not_there_is_refused_and_inserts_nothing(
    backend: Backend, missing: str, is_progress: bool
) -> None:
    workflow = records.workflow()
    task = records.task(workflow.workflow_id)
    step = records.step(task, 1)
    await backend.write(records.creation(workflow, (task, [step])))
    stranger = records.task(workflow.workflow_id, "stranger")
    changes = ChangeSet(tasks=[records.next_version(task)])
    match missing:
        case "task":
            changes.tasks.append(stranger)
        case "step":
            changes.steps.append(records.step(task, 7))
        case "workflow":
            changes.workflows.append(records.workflow("stranger"))
    if is_progress:
        changes.progressed = {task.envelope.task_id for task in changes.tasks}

    with pytest.raises(StoreRefusedError):
        await backend.write(changes)

    ids = [task.envelope.task_id, stranger.envelope.task_id]
    views = await backend.reader.task_views(ids, with_trigger=False)
    assert {task_id: (view.task, view.steps) for task_id, view in views.items()} == {ids[0]: (task, (step,))}


async def test_r10_activation_gives_a_manifest_step_its_execution(backend: Backend) -> None:
    workflow = records.workflow()
    task = records.task(workflow.workflow_id)
    manifest = records.step(task, 1, active=False)
    await backend.write(records.creation(workflow, (task, [manifest])))
    active = replace(manifest, terms=records.step(task, 1).terms)

    await backend.write(ChangeSet(tasks=[replace(task, row_revision=2)], steps=[active]))

    found = await backend.reader.execution_state(records.execution_of(active))
    assert found == (replace(task, row_revision=2), active)


async def test_h4_lease_opens_with_the_start_and_closes_with_the_end(backend: Backend) -> None:
    workflow = records.workflow()
    task = records.task(workflow.workflow_id)
    steps = [records.step(task, number) for number in (1, 2)]
    await backend.write(records.creation(workflow, (task, steps)))
    first, second = map(records.execution_of, steps)

    await backend.write(ChangeSet(opened_leases=[records.lease(step) for step in steps]))
    assert await backend.leases() == {first: None, second: None}

    await backend.write(ChangeSet(closed_leases=[(task.envelope.bucket, first)]))
    closed = await backend.leases()
    assert closed[first] is not None
    assert closed[second] is None

    await backend.write(ChangeSet(closed_leases=[(task.envelope.bucket, first)]))
    assert await backend.leases() == closed


async def test_l1_end_of_a_run_cancels_unfinished_steps_and_closes_its_leases(backend: Backend) -> None:
    workflow = records.workflow()
    task, other = (records.task(workflow.workflow_id, key) for key in ("ends", "goes on"))
    done = records.step(task, 1, lifecycle=Lifecycle.SUCCEEDED, finished_at=records.START, version=2)
    superseded = records.step(task, 2, superseded=True, lifecycle=Lifecycle.CANCELLED, end_reason="SUPERSEDED")
    running = records.step(task, 2, attempt=2, lifecycle=Lifecycle.RUNNING, stale=True, degraded=True, version=5)
    manifest = records.step(task, 3, active=False)
    bystander = records.step(other, 1, lifecycle=Lifecycle.RUNNING)
    creation = records.creation(workflow, (task, [done, superseded, running, manifest]), (other, [bystander]))
    creation.opened_leases += [records.lease(running), records.lease(bystander)]
    await backend.write(creation)
    ended_at = records.START + timedelta(minutes=5)
    final = records.next_version(task, lifecycle=Lifecycle.SUCCEEDED, finished_at=ended_at, open_steps=0)

    await backend.write(ChangeSet(tasks=[final], ended_runs=[EndedRun(final, ended_at)]))

    expected = (done, superseded, *(end_with_task(step, ended_at) for step in (running, manifest)))
    views = await backend.reader.task_views([task.envelope.task_id, other.envelope.task_id], with_trigger=False)
    assert views[task.envelope.task_id].steps == expected
    assert views[other.envelope.task_id].steps == (bystander,)
    leases = await backend.leases()
    assert leases == {records.execution_of(running): ended_at, records.execution_of(bystander): None}
    assert await backend.run_outcome(task.envelope.task_id, 1) is Lifecycle.SUCCEEDED
    assert await backend.run_outcome(other.envelope.task_id, 1) is None


async def test_l1_step_that_changes_in_the_version_that_ends_its_run_is_written_first(backend: Backend) -> None:
    workflow = records.workflow()
    task = records.task(workflow.workflow_id)
    step = records.step(task, 1)
    await backend.write(records.creation(workflow, (task, [step])))
    moved = records.advanced(step, source_seq=9)
    final = records.next_version(task, lifecycle=Lifecycle.FAILED)

    await backend.write(ChangeSet(tasks=[final], steps=[moved], ended_runs=[EndedRun(final, records.START)]))

    found = await backend.reader.execution_state(records.execution_of(step))
    assert found is not None
    assert (found[1].source_seq, found[1].version, found[1].lifecycle) == (9, 2, Lifecycle.CANCELLED)


async def test_empty_change_set_writes_nothing(backend: Backend) -> None:
    await backend.write(ChangeSet())
    assert await backend.outbox() == []
