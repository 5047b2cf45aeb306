"""Consistent views while others write (Q-2)."""

from __future__ import annotations

import pytest
from sqlalchemy import make_url

from taskstatus.adapters.mysql.engine import Database, PoolLimits, open_database
from taskstatus.adapters.mysql.reader import MySqlTaskReader
from taskstatus.adapters.mysql.session import Session
from taskstatus.application.ports_store import StoreUnavailableError
from taskstatus.domain.ids import TaskId
from tests.contract import records
from tests.support.commit_cutter import CommitCutter

from .filling import write


async def test_q2_view_does_not_mix_two_versions(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    workflow = records.workflow()
    task = records.task(workflow.workflow_id)
    step = records.step(task, 1)
    await write(database, records.creation(workflow, (task, [step])))
    _, _, changes = records.progress_of(task, step, "e-1")
    committed = False
    rows = Session.rows

    async def with_a_commit_after_the_first_query(
        session: Session, statement: str, parameters: tuple[object, ...] = ()
    ) -> object:
        nonlocal committed
        found = await rows(session, statement, parameters)
        if not committed:
            committed = True
            await write(database, changes)
        return found

    monkeypatch.setattr(Session, "rows", with_a_commit_after_the_first_query)
    reader = MySqlTaskReader(database.reader)
    (before,) = (await reader.task_views([task.envelope.task_id], with_trigger=True)).values()
    (after,) = (await reader.task_views([task.envelope.task_id], with_trigger=True)).values()

    assert (before.task.version, before.steps[0].version) == (1, 0)
    assert before.trigger is not None
    assert before.trigger.task_version == 1
    assert (after.task.version, after.steps[0].version) == (2, 1)


async def test_view_ends_its_snapshot_and_its_connection_is_used_again(database: Database) -> None:
    reader = MySqlTaskReader(database.reader)
    for _ in range(20):
        assert await reader.task_views([TaskId(records.new_id())], with_trigger=True) == {}
    async with database.reader.connect() as connection:
        open_views = await connection.exec_driver_sql(
            "SELECT COUNT(*) AS n FROM information_schema.innodb_trx WHERE trx_mysql_thread_id=CONNECTION_ID()"
        )
        assert open_views.scalar_one() == 0


async def test_read_on_a_killed_connection_is_repeated_once(database: Database) -> None:
    async with database.reader.connect() as connection:
        number = (await connection.exec_driver_sql("SELECT CONNECTION_ID() AS id")).scalar_one()
    async with database.writer.connect() as connection:
        await connection.exec_driver_sql(f"KILL {number}")

    page = await MySqlTaskReader(database.reader).timeline(TaskId(records.new_id()), 0, 10)

    assert page.events == ()


async def test_every_read_of_an_unreachable_server_is_unavailable(database_url: str) -> None:
    async with CommitCutter(1) as nobody:
        port = nobody.port
    url = make_url(database_url).set(port=port).render_as_string(hide_password=False)
    unreachable = open_database(url, PoolLimits(readers=1))
    reader, task_id = MySqlTaskReader(unreachable.reader), TaskId(records.new_id())
    for read in (
        lambda: reader.task_views([task_id], with_trigger=True),
        lambda: reader.timeline(task_id, 0, 10),
        lambda: reader.task_grants([task_id]),
    ):
        with pytest.raises(StoreUnavailableError):
            await read()
    await unreachable.dispose()
