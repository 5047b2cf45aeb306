"""Reads outside write transactions, on every implementation."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from taskstatus.application.identity import ExecutionBinding
from taskstatus.domain.ids import ExecutionId, TaskId
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.records import RUNS_SHOWN, ChangeSet, EndedRun
from taskstatus.domain.state import Grant

from . import records
from .backends import Backend


async def test_r4_binding_of_an_activated_execution(backend: Backend) -> None:
    workflow = records.workflow()
    task = records.task(workflow.workflow_id)
    step = records.step(task, 1)
    await backend.write(records.creation(workflow, (task, [step, records.step(task, 2, active=False)])))

    execution_id = records.execution_of(step)
    binding = (await backend.reader.execution_bindings([execution_id])).get(execution_id)

    assert binding == ExecutionBinding(
        tenant_id=records.TENANT,
        authority_scope=records.SCOPE,
        workflow_id=workflow.workflow_id,
        task_id=task.envelope.task_id,
        task_attempt=1,
        step_id="01_parse",
        step_attempt=1,
        operation_code="document.parse",
        execution_id=records.execution_of(step),
        producer_id="parser",
    )
    unknown = ExecutionId(records.new_id())
    assert await backend.reader.execution_bindings([unknown]) == {}
    assert await backend.reader.execution_state(unknown) is None


async def test_q2_view_holds_every_attempt_of_the_current_run_in_display_order(backend: Backend) -> None:
    workflow = records.workflow()
    task = records.task(workflow.workflow_id, attempt=2)
    old_run = records.step(replace(task, attempt=1), 1)
    steps = [records.step(task, 1), records.step(task, 1, attempt=2), records.step(task, 2), records.step(task, 10)]
    await backend.write(records.creation(workflow, (task, [steps[3], steps[1], old_run, steps[0], steps[2]])))
    unknown = TaskId(records.new_id())

    views = await backend.reader.task_views([unknown, task.envelope.task_id], with_trigger=False)

    assert set(views) == {task.envelope.task_id}
    assert views[task.envelope.task_id].steps == tuple(steps)
    assert views[task.envelope.task_id].trigger is None
    assert await backend.reader.task_views([], with_trigger=True) == {}


async def test_r7_view_holds_the_last_runs_with_how_they_ended(backend: Backend) -> None:
    workflow, last = records.workflow(), RUNS_SHOWN + 5
    task, other = records.task(workflow.workflow_id), records.task(workflow.workflow_id, "task-2")
    await backend.write(records.creation(workflow, (task, []), (other, [])))
    for attempt in range(1, last):
        ended = records.next_version(task, lifecycle=Lifecycle.FAILED, finished_at=task.committed_at)
        task = records.next_version(ended, attempt=attempt + 1, lifecycle=Lifecycle.PENDING, finished_at=None)
        await backend.write(
            ChangeSet(tasks=[ended], ended_runs=[EndedRun(ended, ended.committed_at)]),
            ChangeSet(tasks=[task], new_runs=[replace(records.run(task), reason=f"rerun {attempt}")]),
        )

    views = await backend.reader.task_views([task.envelope.task_id, other.envelope.task_id], with_trigger=False)

    runs = views[task.envelope.task_id].runs
    assert [view.run.task_attempt for view in runs] == list(range(last - RUNS_SHOWN + 1, last + 1))
    assert [view.outcome.lifecycle if view.outcome else None for view in runs] == [
        *([Lifecycle.FAILED] * (RUNS_SHOWN - 1)),
        None,
    ]
    assert runs[-1].run.reason == f"rerun {last - 1}"
    assert [view.run.task_attempt for view in views[other.envelope.task_id].runs] == [1]


async def test_q1_timeline_pages_by_version_and_says_what_is_there(backend: Backend) -> None:
    workflow = records.workflow()
    task, step = records.task(workflow.workflow_id), None
    step = records.step(task, 1)
    await backend.write(records.creation(workflow, (task, [step])))
    for number in range(2, 7):
        task, step, changes = records.progress_of(task, step, f"e-{number}")
        await backend.write(changes)
    task_id = task.envelope.task_id

    first = await backend.reader.timeline(task_id, 0, 4)
    rest = await backend.reader.timeline(task_id, 4, 4)
    unknown = await backend.reader.timeline(TaskId(records.new_id()), 0, 4)

    assert [event.task_version for event in first.events] == [1, 2, 3, 4]
    assert (first.task_version, first.has_more, first.oldest_task_version) == (6, True, 1)
    assert [event.event_id for event in rest.events] == ["e-5", "e-6"]
    assert (rest.task_version, rest.has_more) == (6, False)
    assert (unknown.events, unknown.task_version, unknown.has_more, unknown.oldest_task_version) == ((), 0, False, 0)


async def test_p4_grants_in_force_by_task(backend: Backend) -> None:
    workflow = records.workflow()
    shared, private = (records.task(workflow.workflow_id, key) for key in ("shared", "private"))
    grants = [Grant("PROJECT", "p-7", "VIEW"), Grant("USER", "u-99", "OPERATE")]
    creation = records.creation(workflow, (shared, []), (private, []))
    creation.new_task_grants += [(shared, grant) for grant in reversed(grants)]
    await backend.write(creation)

    found = await backend.reader.task_grants([private.envelope.task_id, shared.envelope.task_id])

    assert {task_id: set(given) for task_id, given in found.items()} == {shared.envelope.task_id: set(grants)}
    assert await backend.reader.task_grants([]) == {}


async def test_q2_as_of_is_not_before_the_commit_it_shows(backend: Backend) -> None:
    workflow = records.workflow()
    task = records.task(workflow.workflow_id)

    async def now() -> datetime:
        return await backend.store.transact(lambda transaction, _attempt: transaction.now())

    before = await now()
    await backend.write(records.creation(workflow, (task, [])), ChangeSet())
    views = await backend.reader.task_views([task.envelope.task_id], with_trigger=False)
    assert views[task.envelope.task_id].as_of >= before


async def test_t2_states_of_many_executions_come_in_one_answer(backend: Backend) -> None:
    workflow = records.workflow()
    task, other = records.task(workflow.workflow_id), records.task(workflow.workflow_id, "task-2")
    steps = [records.step(task, 1), records.step(task, 2), records.step(other, 1)]
    await backend.write(records.creation(workflow, (task, steps[:2]), (other, steps[2:])))
    ids = [records.execution_of(step) for step in steps]
    unknown = ExecutionId(records.new_id())

    states = await backend.reader.execution_states([*ids, unknown, ids[0]])

    assert states.keys() == set(ids)
    for execution_id, step in zip(ids, steps, strict=True):
        assert states[execution_id] == await backend.reader.execution_state(execution_id)
        assert states[execution_id][1] == step
    assert await backend.reader.execution_states([]) == {}
