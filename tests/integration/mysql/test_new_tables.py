"""A new deployment: plans must not depend on statistics that do not exist yet."""

from __future__ import annotations

from typing import Any

import pytest

from taskstatus.adapters.mysql.engine import Database
from tests.contract import records

from .filling import lookups, write

FORCED = (
    "lock_tasks",
    "executions",
    "step_attempts",
    "seen_events",
    "cancel_unfinished_steps",
    "close_leases",
    "lock_leases",
    "change_leases",
)


@pytest.mark.parametrize("name", FORCED)
async def test_statement_is_no_scan_on_a_nearly_empty_table(database: Database, name: str) -> None:
    workflow = records.workflow()
    tasks = [records.task(workflow.workflow_id, f"t{number}") for number in range(3)]
    members = [(task, [records.step(task, number) for number in (1, 2)]) for task in tasks]
    await write(database, records.creation(workflow, *members))
    statement, parameters = lookups(members)[name]

    plans = await _explain(database, statement, parameters)

    assert [plan["type"] for plan in plans] == ["range"]


async def _explain(database: Database, statement: str, parameters: tuple[Any, ...]) -> Any:
    async with database.writer.connect() as connection:
        result = await connection.exec_driver_sql(f"EXPLAIN FORMAT=TRADITIONAL {statement}", parameters)
        return result.mappings().all()
