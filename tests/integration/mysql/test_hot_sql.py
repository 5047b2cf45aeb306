"""Plans and costs of the hot statements on filled tables: no scan, no sort, nothing that grows with a task's size."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from taskstatus.adapters.mysql import hot_sql, read_sql
from taskstatus.adapters.mysql.engine import Database, open_database
from taskstatus.adapters.mysql.session import Session
from taskstatus.adapters.mysql.statements import MAX_KEYS, flatten
from taskstatus.adapters.mysql.write_transaction import MySqlWriteTransaction
from taskstatus.application.ports_heartbeats import MAX_PERSISTED_BEATS
from taskstatus.domain.records import ChangeSet
from taskstatus.domain.state import StepState, TaskState
from tests.contract import records
from tests.support.databases import emptied_database

from .filling import Filled, fill, lookups, write

INDEXED = {"const", "eq_ref", "ref", "range"}
READ_STATEMENTS = {
    "execution_bindings": read_sql.execution_bindings(2),
    "execution_state": read_sql.EXECUTION_STATE,
    "timeline_position": read_sql.TIMELINE_POSITION,
    "timeline_page": read_sql.TIMELINE_PAGE,
    "view_tasks": read_sql.tasks(3),
    "view_steps": read_sql.steps_of_current_runs(3),
    "view_triggers": read_sql.events_of_current_versions(3),
}
HOT_TEXTS = {name: text(3) for name, text in hot_sql.HOT_STATEMENTS.items()}


@pytest.fixture(scope="module")
def filled(database_url: str) -> Filled:
    """A filled schema, shared by the tests of this module: they roll back, or add tasks of their own."""

    async def run() -> Filled:
        async with emptied_database(database_url) as opened:
            return await fill(opened)

    return asyncio.run(run())


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """The schema as it stands."""
    opened = open_database(database_url)
    yield opened
    await opened.dispose()


@pytest.mark.parametrize("name", [*HOT_TEXTS, *READ_STATEMENTS])
def test_every_hot_statement_names_bucket(name: str) -> None:
    statement = {**HOT_TEXTS, **READ_STATEMENTS}[name]
    if statement.startswith("INSERT"):
        assert re.match(r"INSERT INTO \w+ \(bucket,", statement)
        return
    tables = set(re.findall(r"(?:FROM|JOIN|UPDATE) (\w+)", statement))
    for table in tables:
        assert re.search(rf"{table}\.bucket\s*(?:=|IN \()", statement) or f"={table}.bucket" in statement


@pytest.mark.parametrize("name", HOT_TEXTS)
def test_every_hot_statement_never_updates_bucket_or_keys(name: str) -> None:
    _, _, update = HOT_TEXTS[name].partition("ON DUPLICATE KEY UPDATE ")
    changed = {assignment.partition("=")[0] for assignment in update.split(",")}
    assert not changed & {"bucket", "id", "task_id", "task_attempt", "step_id", "tenant_id"}


async def test_hot_statements_are_index_reads_without_sorting(database: Database, filled: Filled) -> None:
    for count in (1, 3, 100, MAX_KEYS):
        for name, (statement, parameters) in lookups(filled[:: len(filled) // count][:count]).items():
            for plan in await _explain(database, statement, parameters):
                context = (count, name, plan)
                assert plan["type"] in INDEXED, context
                assert "filesort" not in (plan["Extra"] or ""), context
                assert "temporary" not in (plan["Extra"] or ""), context
                assert int(plan["rows"]) <= 4 * count, context


async def test_view_reads_the_trigger_by_its_key_and_not_all_events(database: Database, filled: Filled) -> None:
    statement, parameters = lookups(filled[:3])["view_triggers"]

    plans = await _explain(database, statement, parameters)

    assert [(plan["table"], plan["key_len"]) for plan in plans] == [("task", "16"), ("task_event_log", "24")]


@pytest.mark.parametrize("count", [1, 3, MAX_PERSISTED_BEATS])
async def test_h2_beats_are_written_by_key_and_lock_their_leases_only(
    database: Database, filled: Filled, count: int
) -> None:
    sample = filled[:: len(filled) // count][:count]
    beats = [(steps[0].bucket, records.execution_of(steps[0]), 1, 5, 15, 60) for _, steps in sample]
    statement, parameters = hot_sql.persist_beats(count), flatten(sorted(beats, key=lambda beat: beat[1]))

    plans = await _explain(database, statement, parameters)

    (lease,) = [plan for plan in plans if plan["table"] == "task_execution_lease"]
    assert (lease["type"], lease["key"], lease["key_len"]) == ("const" if count == 1 else "eq_ref", "PRIMARY", "16")
    others = {plan["table"] for plan in plans} - {"task_execution_lease", None}
    assert all(str(table).startswith("<") or table == "beat" for table in others), plans
    assert count == 1 or plans.index(lease) > 0, "the beats drive, so that leases are locked in their order"


async def test_event_costs_the_same_row_reads_with_3_and_with_300_steps(database: Database, filled: Filled) -> None:
    workflow = records.workflow("small and large")
    small, large = (_task_of(workflow.workflow_id, steps) for steps in (3, 300))
    await write(database, records.creation(workflow, small, large))

    costs = [await _cost_of_one_event(database, task, steps) for task, steps in (small, large)]

    assert costs[0] == costs[1]


@pytest.mark.parametrize("count", [2, 100])
async def test_a_batch_of_a_usual_size_has_as_many_statements_as_one_event(
    database: Database, filled: Filled, count: int
) -> None:
    single, batch = [await _count_statements(database, sample) for sample in (filled[:1], filled[:count])]
    assert batch == single


def _task_of(workflow_id: bytes, steps: int) -> tuple[TaskState, list[StepState]]:
    task = records.task(workflow_id, f"with {steps}", steps=steps)
    return task, [records.step(task, number + 1) for number in range(steps)]


async def _cost_of_one_event(database: Database, task: TaskState, steps: Sequence[StepState]) -> dict[str, int]:
    async with database.writer.connect() as connection:
        session = Session(connection)
        before = await _handler_reads(session)
        await _one_batch(session, [(task, list(steps))])
        after = await _handler_reads(session)
    return {name: after[name] - before[name] for name in after}


async def _count_statements(database: Database, sample: Sequence[tuple[TaskState, list[StepState]]]) -> int:
    async with database.writer.connect() as connection:
        session = Session(connection)
        before = await _status(session, "Questions")
        await _one_batch(session, sample)
        after = await _status(session, "Questions")
    return after["Questions"] - before["Questions"]


async def _one_batch(session: Session, sample: Sequence[tuple[TaskState, list[StepState]]]) -> None:
    """The reads of a lane and the writes of one event per task, rolled back."""
    await session.begin()
    transaction = MySqlWriteTransaction(session)
    ids = [task.envelope.task_id for task, _ in sample]
    await transaction.lock_tasks(ids)
    await transaction.executions([records.execution_of(steps[1]) for _, steps in sample])
    await transaction.step_attempts([(task_id, 1, "02_parse") for task_id in ids])
    await transaction.seen_events([(task_id, "e-1") for task_id in ids])
    parts = [records.progress_of(task, steps[1], "e-1")[2] for task, steps in sample]
    closed = [(steps[1].bucket, records.execution_of(steps[1])) for _, steps in sample]
    await transaction.write(records.merged([*parts, ChangeSet(closed_leases=closed)]))
    await session.rollback()


async def _handler_reads(session: Session) -> dict[str, int]:
    return await _status(session, "Handler_read%")


async def _status(session: Session, pattern: str) -> dict[str, int]:
    rows = await session.rows("SHOW SESSION STATUS LIKE %s", (pattern,))
    return {str(name): int(value) for name, value in rows}


async def _explain(database: Database, statement: str, parameters: tuple[Any, ...]) -> Sequence[Any]:
    async with database.writer.connect() as connection:
        result = await connection.exec_driver_sql(f"EXPLAIN FORMAT=TRADITIONAL {statement}", parameters)
        return result.mappings().all()
