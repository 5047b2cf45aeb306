"""Whatever the domain hands over comes back equal: texts, bytes, times and the difference between empty and absent."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taskstatus.adapters.mysql import rows_outbox
from taskstatus.adapters.mysql.engine import Database
from taskstatus.adapters.mysql.reader import MySqlTaskReader
from taskstatus.adapters.mysql.session import open_session
from taskstatus.adapters.mysql.write_transaction import MySqlWriteTransaction
from taskstatus.domain.evolve import PROGRESS_OF_STEP, PROGRESS_OF_TASK
from taskstatus.domain.ids import TaskId
from taskstatus.domain.records import ChangeSet, SeenEvent

from .filling import write
from .strategies import dedups, events, messages, steps, tasks

ON_A_SERVER = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
"""The fixture is only the connection; ids of examples never meet."""


@ON_A_SERVER
@given(data=st.data())
async def test_task_and_step_come_back_as_written(database: Database, data: st.DataObject) -> None:
    task = data.draw(tasks())
    step = data.draw(steps(task))

    await write(database, ChangeSet(new_tasks=[task], new_steps=[step]))

    (view,) = (await MySqlTaskReader(database.reader).task_views([task.envelope.task_id], with_trigger=False)).values()
    assert view.task == task
    assert view.steps == (step,)


@ON_A_SERVER
@given(data=st.data())
async def test_task_and_step_come_back_as_updated(database: Database, data: st.DataObject) -> None:
    task, later = data.draw(tasks()), data.draw(tasks())
    step, moved = data.draw(steps(task)), data.draw(steps(task))
    changed_task = replace(later, envelope=task.envelope, attempt=task.attempt, row_revision=task.row_revision ^ 1)
    changed_step = replace(moved, attempt=step.attempt, definition=step.definition, created_at=step.created_at)
    await write(database, ChangeSet(new_tasks=[task], new_steps=[step]))

    await write(database, ChangeSet(tasks=[changed_task], steps=[changed_step]))

    (view,) = (await MySqlTaskReader(database.reader).task_views([task.envelope.task_id], with_trigger=False)).values()
    assert view.task == changed_task
    assert view.steps == (changed_step,)


@ON_A_SERVER
@given(data=st.data())
async def test_e8_a_progress_leaves_every_column_but_its_own_generated_ones_too(
    database: Database, data: st.DataObject
) -> None:
    task, later = data.draw(tasks()), data.draw(tasks())
    step, moved = data.draw(steps(task)), data.draw(steps(task))
    await write(database, ChangeSet(new_tasks=[task], new_steps=[step]))
    before = await _generated(database, task.envelope.task_id)
    task_after = replace(task, **{name: getattr(later, name) for name in PROGRESS_OF_TASK})
    task_after = replace(task_after, row_revision=task.row_revision ^ 1)
    step_after = replace(step, **{name: getattr(moved, name) for name in PROGRESS_OF_STEP})
    progressed = {task.envelope.task_id}

    await write(database, ChangeSet(tasks=[task_after], steps=[step_after], progressed=progressed))

    (view,) = (await MySqlTaskReader(database.reader).task_views(list(progressed), with_trigger=False)).values()
    assert (view.task, view.steps) == (task_after, (step_after,))
    assert await _generated(database, task.envelope.task_id) == before


async def _generated(database: Database, task_id: TaskId) -> list[tuple[object, ...]]:
    """What the server computes from a task's row and its steps': the run's deadline and the waiting executions."""
    query = (
        "SELECT task.run_deadline_at,task_step.waiting_execution FROM task"
        " JOIN task_step ON task_step.task_id=task.id WHERE task.id=%s"
    )
    async with open_session(database.writer) as session:
        return [tuple(row) for row in await session.rows(query, (task_id,))]


@ON_A_SERVER
@given(data=st.data())
async def test_event_dedup_and_message_come_back_as_written(database: Database, data: st.DataObject) -> None:
    task = data.draw(tasks())
    event, dedup, message = data.draw(events(task)), data.draw(dedups(task)), data.draw(messages(task))

    await write(database, ChangeSet(new_tasks=[task], events=[event], dedups=[dedup], outbox=[message]))

    (view,) = (await MySqlTaskReader(database.reader).task_views([task.envelope.task_id], with_trigger=True)).values()
    assert view.trigger == event
    async with open_session(database.writer) as session:
        key = (task.envelope.task_id, dedup.event_id)
        assert await MySqlWriteTransaction(session).seen_events([key]) == {key: SeenEvent(dedup.digest, dedup.result)}
        columns = ",".join(rows_outbox.RECORD_COLUMNS)
        rows = await session.rows(f"SELECT {columns} FROM task_outbox WHERE id=%s", (message.outbox_id,))
        assert [rows_outbox.from_row(row) for row in rows] == [message]
