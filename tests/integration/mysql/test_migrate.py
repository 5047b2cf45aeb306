"""The schema: made by several replicas at once, again after a cut-off run, and ready for a router by bucket."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import make_url
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from taskstatus.adapters.mysql import migrate as migrations
from taskstatus.adapters.mysql.engine import driver_url
from taskstatus.adapters.mysql.migrate import MigrationLockError, head_revision, migrate
from taskstatus.application.ports_store import StoreUnavailableError
from tests.support.databases import TABLES, drop_schema, schema_url

PRODUCTS = ("mysql", "mariadb")
REGISTRIES = {"task_operation_definition", "task_status_definition", "report_audit"}
"""Tables whose rows belong to no task or workflow: they carry no bucket and are copied to every shard."""
ALL_TABLES = {*TABLES, *REGISTRIES, "alembic_version"}


@pytest.fixture(params=PRODUCTS)
def new_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A schema that does not exist yet."""
    url = schema_url(request.getfixturevalue(f"{request.param}_url"), "migrate")
    drop_schema(url)
    yield url
    drop_schema(url)


async def query(url: str, statement: str, parameters: tuple[Any, ...] = ()) -> Sequence[Any]:
    """Rows of a statement on a connection of its own."""
    engine = create_async_engine(driver_url(url), poolclass=NullPool, isolation_level="AUTOCOMMIT")
    async with engine.connect() as connection:
        result = await connection.exec_driver_sql(statement, parameters)
        rows = result.all() if result.returns_rows else []
    await engine.dispose()
    return rows


async def test_replicas_that_migrate_at_once_make_one_schema(new_url: str) -> None:
    await asyncio.gather(*(migrate(new_url) for _ in range(3)))

    tables = {row[0] for row in await query(new_url, "SHOW TABLES")}
    assert tables == ALL_TABLES
    assert [row[0] for row in await query(new_url, "SELECT version_num FROM alembic_version")] == [head_revision()]


async def test_migration_is_idempotent_and_goes_on_after_a_cut_off_run(new_url: str) -> None:
    await migrate(new_url)
    # As a run leaves it that was killed between a CREATE TABLE and the note that it is done.
    await query(new_url, "UPDATE alembic_version SET version_num='0003'")
    await query(new_url, "DROP TABLE task_acl")

    await migrate(new_url)
    await migrate(new_url)

    assert {row[0] for row in await query(new_url, "SHOW TABLES")} == ALL_TABLES


async def test_migration_waits_for_the_lock_of_another_run(new_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await migrate(new_url)
    monkeypatch.setattr(migrations, "LOCK_WAIT_SECONDS", 0)
    engine = create_async_engine(driver_url(new_url), poolclass=NullPool)
    async with engine.connect() as connection:
        lock = migrations.lock_name(str(make_url(new_url).database))
        await connection.exec_driver_sql("SELECT GET_LOCK(%s,0) AS taken", (lock,))
        with pytest.raises(MigrationLockError):
            await migrate(new_url)
    await engine.dispose()
    await migrate(new_url)


async def test_wrong_account_is_unavailable_and_not_a_missing_database(new_url: str) -> None:
    stranger = make_url(new_url).set(username="nobody", password="wrong").render_as_string(hide_password=False)
    with pytest.raises(StoreUnavailableError, match="1045"):
        await migrate(stranger)


async def test_s2_every_table_is_ready_for_a_router_by_bucket(new_url: str) -> None:
    await migrate(new_url)
    columns = await query(
        new_url,
        "SELECT table_name,data_type,column_type,is_nullable FROM information_schema.columns "
        "WHERE table_schema=DATABASE() AND column_name='bucket'",
    )
    assert {row[0] for row in columns} == set(TABLES) - REGISTRIES
    assert {(row[1], row[2].partition("(")[0].split()[0], row[3]) for row in columns} == {
        ("smallint", "smallint", "NO")
    }
    assert all("unsigned" in row[2] for row in columns)
    automatic = "SELECT COUNT(*) AS n FROM information_schema.columns WHERE table_schema=DATABASE() AND extra LIKE %s"
    assert (await query(new_url, automatic, ("%auto_increment%",)))[0][0] == 0
    foreign = (
        "SELECT COUNT(*) AS n FROM information_schema.table_constraints "
        "WHERE table_schema=DATABASE() AND constraint_type='FOREIGN KEY'"
    )
    assert (await query(new_url, foreign))[0][0] == 0


async def test_id4_ids_are_bytes_and_tables_are_innodb(new_url: str) -> None:
    await migrate(new_url)
    texts = await query(
        new_url,
        "SELECT table_name,column_name FROM information_schema.columns "
        "WHERE table_schema=DATABASE() AND table_name<>'alembic_version' AND data_type IN ('varchar','char','text')",
    )
    free = {"title", "input_ref", "display_name", "phase_code", "phase_label", "progress_unit", "reason", "last_error"}
    free |= {"ruling_reason", "skip_reason"}
    free |= {"failure_message", "failure_category", "error_category", "error_message", "error_diagnostics_ref"}
    assert {row[1] for row in texts} == free
    engines = (
        "SELECT DISTINCT engine FROM information_schema.tables WHERE table_schema=DATABASE() AND engine IS NOT NULL"
    )
    assert [row[0] for row in await query(new_url, engines)] == ["InnoDB"]


def test_every_revision_is_one_restartable_statement_in_one_line_of_history() -> None:
    scripts = ScriptDirectory(str(migrations.SCRIPTS))
    revisions = list(scripts.walk_revisions())[::-1]
    assert [revision.revision for revision in revisions] == [f"{n:04d}" for n in range(1, len(revisions) + 1)]
    for revision in revisions:
        assert revision.module.DDL.strip().startswith("CREATE TABLE IF NOT EXISTS")
        assert ";" not in revision.module.DDL
