"""Plans and locks of the workflow axis: index reads, no lock on any task, no waiting for who holds a workflow (L-7)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any

import orjson
import pytest

from taskstatus.adapters.clock import SystemClock, SystemRandomness
from taskstatus.adapters.mysql import workflow_sql
from taskstatus.adapters.mysql.engine import Database, open_database
from taskstatus.adapters.mysql.reader import MySqlTaskReader
from taskstatus.adapters.mysql.session import Session
from taskstatus.adapters.mysql.transactions import MySqlTaskStore
from taskstatus.adapters.mysql.workflow_table import WorkflowTable
from taskstatus.adapters.mysql.write_transaction import MySqlWriteTransaction
from taskstatus.application.workflow_projection import WorkflowProjections
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import WorkflowId
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.notifications import OutboxTools, aggregate_trigger
from taskstatus.domain.records import ChangeSet, OutboxRecord
from taskstatus.domain.state import TaskState
from tests.contract import records
from tests.support.databases import emptied_database

from .filling import Filled, fill, write

INDEXED = {"const", "eq_ref", "ref", "range"}
EARLY = datetime(1970, 1, 1)
LIMIT = 100
TOOLS = OutboxTools(new_id=records.new_id, to_json=orjson.dumps)


@pytest.fixture(scope="module")
def filled(database_url: str) -> Filled:
    """A thousand tasks in forty workflows, each with a trigger among as many rows of the relay."""

    async def run() -> Filled:
        async with emptied_database(database_url) as opened:
            tasks = await fill(opened)
            await write(opened, ChangeSet(outbox=[a_trigger(task) for task, _ in tasks]))
            async with opened.writer.connect() as connection:
                await connection.exec_driver_sql("ANALYZE TABLE task_outbox")
            return tasks

    return asyncio.run(run())


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """The schema as it stands."""
    opened = open_database(database_url)
    yield opened
    await opened.dispose()


def a_trigger(task: TaskState) -> OutboxRecord:
    """Of the task's next version, in which it runs."""
    after = records.next_version(task, lifecycle=Lifecycle.RUNNING)
    trigger = aggregate_trigger(TOOLS, task, after, EventType.TASK_STARTED)
    assert trigger is not None
    return trigger


def lookups(filled: Filled, count: int) -> dict[str, tuple[str, tuple[Any, ...]]]:
    """Every statement with parameters for ``count`` workflows or rows."""
    workflows = sorted({task.envelope.workflow_id for task, _ in filled})[:count]
    keys = (*workflows, *[records.BUCKET] * len(workflows))
    rows = [records.new_id() for _ in range(count)]
    one = (workflows[0], records.BUCKET)
    return {
        "due_triggers": (workflow_sql.DUE_TRIGGERS, (EARLY, EARLY, b"", LIMIT)),
        "event_of_command": (workflow_sql.EVENT_OF_COMMAND, (workflows[0], "create-w-0", records.BUCKET)),
        "workflow": (workflow_sql.WORKFLOW, one),
        "lock_free_workflows": (workflow_sql.lock_free_workflows(len(workflows)), keys),
        "existing_workflows": (workflow_sql.existing_workflows(len(workflows)), keys),
        "existing_triggers": (workflow_sql.existing_triggers(count), (*rows, *[records.BUCKET] * count)),
        "delete_triggers": (workflow_sql.delete_triggers(count), (*rows, *[records.BUCKET] * count)),
        "count_members": (workflow_sql.count_members(len(workflows)), keys),
        "count_seen_members": (workflow_sql.count_seen_members(2, 1), (*one, "u-99", "p-7", "p-8", "audit")),
        "workflow_grants": (workflow_sql.workflow_grants(len(workflows)), keys),
    }


@pytest.mark.parametrize("count", [1, 3, 40])
async def test_l7_every_statement_goes_by_an_index(database: Database, filled: Filled, count: int) -> None:
    for name, (statement, parameters) in lookups(filled, count).items():
        for plan in await explain(database, statement, parameters):
            context = (name, plan)
            # A row that does not exist is found out while the plan is made.
            assert plan["type"] in INDEXED or plan["table"] is None, context
            grouped = name.startswith("count_")
            assert grouped or "filesort" not in (plan["Extra"] or ""), context
            assert grouped or "temporary" not in (plan["Extra"] or ""), context


async def test_l7_looking_for_triggers_reads_no_more_than_its_limit(database: Database, filled: Filled) -> None:
    statement, parameters = lookups(filled, 1)["due_triggers"]
    async with database.writer.connect() as connection:
        before = await handler_reads(connection)
        rows = (await connection.exec_driver_sql(statement, parameters)).all()
        after = await handler_reads(connection)

    assert len(rows) == LIMIT
    read = {key: after[key] - before[key] for key in after}
    assert read["Handler_read_rnd_next"] <= 2, "a scan, or the rows of a sort"
    assert read["Handler_read_next"] <= LIMIT


def test_s1_statements_that_go_by_key_name_every_bucket(filled: Filled) -> None:
    for name, (statement, _) in lookups(filled, 2).items():
        for table in set(re.findall(r"(?:FROM|JOIN) (\w+)", statement)):
            named = re.search(rf"{table}\.bucket\s*(?:=|IN \()", statement) or f"={table}.bucket" in statement
            assert bool(named) or name == "due_triggers", (name, table)


async def test_l7_a_projection_waits_for_no_task_and_no_workflow_that_others_hold(
    database: Database, filled: Filled
) -> None:
    """Other transactions have every task of two workflows locked, and one of the two workflows."""
    held, free = two_workflows(filled)
    table = WorkflowTable(MySqlTaskReader(database.reader))
    store = MySqlTaskStore(database.writer, SystemClock(), SystemRandomness())
    projections = WorkflowProjections(store, TOOLS, _NoWakeUp())
    async with holding(database) as transaction:
        await transaction.lock_workflow(held)
        await transaction.lock_tasks([t.envelope.task_id for t, _ in filled if t.envelope.workflow_id in (held, free)])
        due = [trigger for trigger in await table.due(2_000, None) if trigger.workflow_id in (held, free)]

        projected = await asyncio.wait_for(projections.project(due), 4)

        left = {trigger.workflow_id for trigger in await table.due(2_000, None)}
    assert (projected.held, projected.changed + projected.unchanged) == (1, 1)
    assert held in left
    assert free not in left
    assert (await projections.project([t for t in due if t.workflow_id == held])).held == 0


async def test_l7_a_workflow_that_others_hold_has_its_last_committed_row_for_nobody(
    database: Database, filled: Filled
) -> None:
    held, free = two_workflows(filled)
    async with holding(database) as first, holding(database) as second:
        assert set(await first.lock_free_workflows([held])) == {held}
        assert set(await second.lock_free_workflows([held, free])) == {free}
        assert await second.existing_workflows([held, free]) == {held, free}


class _NoWakeUp:
    def hint(self) -> None:
        """Nothing to tell."""


class _Holding:
    """An open transaction that is rolled back at the end."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def __aenter__(self) -> MySqlWriteTransaction:
        self._connection = await self._database.writer.connect()
        self._session = Session(self._connection)
        await self._session.begin()
        return MySqlWriteTransaction(self._session)

    async def __aexit__(self, *_: object) -> None:
        await self._session.rollback()
        await self._connection.close()


def holding(database: Database) -> _Holding:
    """See ``_Holding``."""
    return _Holding(database)


def two_workflows(filled: Filled) -> tuple[WorkflowId, WorkflowId]:
    """The last two."""
    first, second = sorted({task.envelope.workflow_id for task, _ in filled})[-2:]
    return first, second


async def handler_reads(connection: Any) -> dict[str, int]:
    rows = (await connection.exec_driver_sql("SHOW SESSION STATUS LIKE %s", ("Handler_read%",))).all()
    return {str(name): int(value) for name, value in rows}


async def explain(database: Database, statement: str, parameters: tuple[Any, ...]) -> Sequence[Any]:
    async with database.writer.connect() as connection:
        result = await connection.exec_driver_sql(f"EXPLAIN FORMAT=TRADITIONAL {statement}", parameters)
        return result.mappings().all()
