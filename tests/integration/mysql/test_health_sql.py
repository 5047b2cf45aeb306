"""Plans of the statements that look for silence and for stuck work: index reads, no sort, whatever the tables hold."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any

import pytest

from taskstatus.adapters.mysql import health_table, stuck_table
from taskstatus.adapters.mysql.engine import Database, open_database
from taskstatus.domain.ids import bucket_of_id, least_id_of
from tests.contract import records
from tests.support.databases import emptied_database

from .filling import Filled, fill

INDEXED = {"const", "eq_ref", "ref", "range"}
EARLY, NOW = datetime(1970, 1, 1), datetime(2026, 12, 1)
LIMIT = 100
MANY_YEARS = 100 * 365 * 86_400 * 1_000_000


@pytest.fixture(scope="module")
def filled(database_url: str) -> Filled:
    """A thousand open leases of which all are overdue and some stuck, and thousands of waiting steps."""

    async def run() -> Filled:
        async with emptied_database(database_url) as opened:
            tasks = await fill(opened)
            async with opened.writer.connect() as connection:
                await connection.exec_driver_sql("UPDATE task_execution_lease SET stuck_at=opened_at WHERE bucket>=0")
                # Half of the tasks have no limit: nothing that looks for the others may read them.
                limited = "UPDATE task SET max_run_seconds=60,started_at=created_at WHERE ORD(RIGHT(id,1)) & 1"
                await connection.exec_driver_sql(limited)
                await connection.exec_driver_sql("ANALYZE TABLE task_execution_lease,task_step,task")
            return tasks

    return asyncio.run(run())


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """The schema as it stands."""
    opened = open_database(database_url)
    yield opened
    await opened.dispose()


def lookups(filled: Filled, count: int) -> dict[str, tuple[str, tuple[Any, ...]]]:
    """Every statement with parameters."""
    leased = [records.execution_of(steps[0]) for _, steps in filled[:count]]
    keys = (*leased, *map(bucket_of_id, leased))
    owner = (records.TENANT, records.SCOPE)
    tasks = [task.envelope.task_id for task, _ in filled if task.envelope.task_id[-1] & 1][:count]
    return {
        "overdue": (health_table.OVERDUE, (EARLY, EARLY, b"", LIMIT)),
        "nearly": (health_table.NEARLY, (EARLY, MANY_YEARS, EARLY, b"", LIMIT)),
        "candidates": (health_table.candidates(count), keys),
        "late_leases": (stuck_table.LATE_LEASES, (EARLY, NOW, EARLY, b"", LIMIT)),
        "late_executions": (stuck_table.late_executions(count), (*keys, *owner)),
        "waiting": (stuck_table.WAITING, (b"", least_id_of(NOW), LIMIT)),
        "waiting_executions": (stuck_table.waiting_executions(count), (*keys, *owner)),
        "late_tasks_by_time": (stuck_table.LATE_TASKS, (EARLY, NOW, EARLY, b"", LIMIT)),
        "late_tasks": (stuck_table.late_tasks(count), (*tasks, *map(bucket_of_id, tasks), *owner)),
    }


@pytest.mark.parametrize("count", [1, 3, 100])
async def test_h4_looking_reads_indexes_without_sorting(database: Database, filled: Filled, count: int) -> None:
    for name, (statement, parameters) in lookups(filled, count).items():
        for plan in await explain(database, statement, parameters):
            context = (name, plan)
            assert plan["type"] in INDEXED, context
            assert "filesort" not in (plan["Extra"] or ""), context
            assert "temporary" not in (plan["Extra"] or ""), context


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("overdue", "lease_deadline"),
        ("late_leases", "lease_stuck"),
        ("waiting", "task_step_waiting"),
        ("late_tasks_by_time", "task_run_deadline"),
    ],
)
async def test_h4_looking_goes_by_its_index_and_reads_no_more_than_its_limit(
    database: Database, filled: Filled, name: str, index: str
) -> None:
    statement, parameters = lookups(filled, 1)[name]
    first, *_ = await explain(database, statement, parameters)
    assert (first["type"], first["key"]) == ("range", index)

    async with database.writer.connect() as connection:
        before = await handler_reads(connection)
        rows = (await connection.exec_driver_sql(statement, parameters)).all()
        after = await handler_reads(connection)

    assert len(rows) == LIMIT
    read = {key: after[key] - before[key] for key in after}
    assert read["Handler_read_rnd_next"] <= 2, "a scan, or the rows of a sort"
    assert read["Handler_read_next"] <= LIMIT


@pytest.mark.parametrize("name", ["COUNT_LATE", "COUNT_WAITING", "COUNT_TASKS"])
async def test_h8_counting_goes_by_an_index(database: Database, filled: Filled, name: str) -> None:
    parameters = (least_id_of(NOW),) if name == "COUNT_WAITING" else ()

    plans = await explain(database, getattr(stuck_table, name), parameters)

    inner = [plan for plan in plans if not str(plan["table"]).startswith("<derived")]
    assert [plan["type"] for plan in inner] == ["range"]


def test_s1_statements_that_go_by_key_name_every_bucket(filled: Filled) -> None:
    by_time = {"overdue", "nearly", "late_leases", "waiting", "late_tasks_by_time"}
    for name, (statement, _) in lookups(filled, 2).items():
        tables = set(re.findall(r"(?:FROM|JOIN) (\w+)", statement))
        for table in tables:
            named = re.search(rf"{table}\.bucket\s*(?:=|IN \()", statement) or f"={table}.bucket" in statement
            assert bool(named) or name in by_time, (name, table)


async def handler_reads(connection: Any) -> dict[str, int]:
    rows = (await connection.exec_driver_sql("SHOW SESSION STATUS LIKE %s", ("Handler_read%",))).all()
    return {str(name): int(value) for name, value in rows}


async def explain(database: Database, statement: str, parameters: tuple[Any, ...]) -> Sequence[Any]:
    async with database.writer.connect() as connection:
        result = await connection.exec_driver_sql(f"EXPLAIN FORMAT=TRADITIONAL {statement}", parameters)
        return result.mappings().all()
