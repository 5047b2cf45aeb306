"""Plans and costs of the lists: one index each, no sort of more than the branches gave, whatever the tables hold."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from taskstatus.adapters.mysql import list_sql, list_table, read_sql
from taskstatus.adapters.mysql.engine import Database, open_database
from taskstatus.adapters.mysql.list_sql import Source
from taskstatus.adapters.mysql.list_table import ListTable
from taskstatus.adapters.mysql.reader import MySqlTaskReader
from taskstatus.adapters.mysql.session import Session
from taskstatus.application.identity import UserIdentity
from taskstatus.application.ports_lists import TaskListQuery, TaskPosition
from taskstatus.application.task_lists import PAGE_LIMIT_MAX
from taskstatus.domain.ids import TaskId, bucket_of_id
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.records import ChangeSet, Projection
from taskstatus.domain.state import Grant
from taskstatus.domain.task_filter import TaskFilter
from tests.contract import records
from tests.support.databases import emptied_database

from .filling import Filled, fill, write

INDEXED = {"const", "eq_ref", "ref", "range"}
FIRST, LAST = datetime(1970, 1, 1), datetime.max
NEWEST_FIRST, OLDEST_FIRST = (FIRST, LAST, LAST, b"\xff" * 16), (LAST, FIRST, FIRST, b"")
GRANTEE = UserIdentity(records.TENANT, "u-99", frozenset({"p-1", "p-2"}), frozenset({"audit"}), 0.0)
LIMIT = 51
TRACE = bytes(range(16))


@pytest.fixture(scope="module", params=["filled", "nearly empty"])
def stocked(request: pytest.FixtureRequest, database_url: str) -> Filled:
    """A thousand tasks granted to a person who owns none, or a single one: no plan may depend on that."""

    async def run() -> Filled:
        async with emptied_database(database_url) as opened:
            if request.param == "filled":
                return await fill(opened)
            workflow = records.workflow()
            task = records.task(workflow.workflow_id)
            creation = records.creation(workflow, (task, [records.step(task, 1)]))
            creation.new_task_grants.append((task, Grant("USER", "u-99", "VIEW")))
            await write(opened, creation)
            return [(task, [])]

    return asyncio.run(run())


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """The schema as it stands."""
    opened = open_database(database_url)
    yield opened
    await opened.dispose()


def lookups(stocked: Filled) -> Iterator[tuple[str, str, tuple[Any, ...], str]]:
    """(name, statement, parameters, the index that it goes by)."""
    envelope = stocked[0][0].envelope
    ids = [task.envelope.task_id for task, _ in stocked[:100]]
    keys = (*ids, *map(bucket_of_id, ids))
    person = (records.TENANT, "u-99", "u-99", "p-1", "p-2", "audit")
    granted = (records.TENANT, "USER", "u-99", *NEWEST_FIRST, LIMIT)
    owned = (records.TENANT, records.OWNER, *NEWEST_FIRST, LIMIT)
    yield "own", list_sql.own_keys(owned=True, grantees=3), (*owned, *granted * 3), "task_owner"
    yield "granted", list_sql.own_keys(owned=False, grantees=2), granted * 2, "task_acl_principal"
    sources: dict[Source, tuple[tuple[Any, ...], str]] = {
        Source.WORKFLOW: ((envelope.workflow_id, envelope.bucket), "task_workflow"),
        Source.BATCH: ((records.TENANT, "b-1"), "task_batch"),
        Source.PARENT: ((envelope.task_id,), "task_parent"),
    }
    for source, (key, index) in sources.items():
        for oldest_first, within in ((True, OLDEST_FIRST), (False, NEWEST_FIRST)):
            text = list_sql.keys_of(source, oldest_first=oldest_first, projects=2, roles=1, everything=False)
            yield f"{source} {oldest_first}", text, (*key, *within, *person, LIMIT), index
    whole = list_sql.keys_of(Source.WORKFLOW, oldest_first=True, projects=0, roles=0, everything=True)
    yield "whole", whole, (envelope.workflow_id, envelope.bucket, *OLDEST_FIRST, LIMIT), "task_workflow"
    text = list_sql.matching(len(ids), 2, task_type=True, batch=True, parent=True)
    yield "matching", text, (*keys, "PENDING", "RUNNING", "document.import", "b", ids[0]), "PRIMARY"
    versions = tuple(value for task_id in ids for value in (task_id, 1))
    yield "notifications", list_sql.notifications(len(ids)), (*versions, *keys[len(ids) :]), "outbox_message"
    yield "workflow", list_sql.WORKFLOW_OWNER, (envelope.workflow_id, envelope.bucket), "PRIMARY"
    number = (records.TENANT, "ORDER_ID", "4711")
    yield "referenced", list_sql.REFERENCED_ANYWHERE, number, "PRIMARY"
    yield "referenced in scope", list_sql.REFERENCED_IN_SCOPE, (*number, records.SCOPE), "PRIMARY"
    scope = (records.TENANT, records.SCOPE, LIMIT)
    yield "events", list_sql.EVENTS_BY_ID, ("create-t-1", *scope), "task_event_log_event"
    yield "trace", list_sql.EVENTS_OF_TRACE, (TRACE, *scope), "task_event_log_trace"
    yield "runs", read_sql.runs_of_tasks(len(ids)), keys, "PRIMARY"


async def test_q1_lists_read_indexes_without_sorting(database: Database, stocked: Filled) -> None:
    for name, statement, parameters, index in lookups(stocked):
        plans = await explain(database, statement, parameters)
        assert index in {plan["key"] for plan in plans} or all(plan["table"] is None for plan in plans), (name, plans)
        for plan in plans:
            context = (name, plan)
            if plan["table"] is None or str(plan["table"]).startswith("<"):
                # The rows that the branches gave, no more; or a table that cannot hold what is asked for.
                continue
            assert plan["type"] in INDEXED, context
            assert "filesort" not in (plan["Extra"] or ""), context
            assert "temporary" not in (plan["Extra"] or ""), context


@pytest.mark.parametrize("stocked", ["filled"], indirect=True)
@pytest.mark.parametrize("reader", [GRANTEE, replace(GRANTEE, user_id=records.OWNER)], ids=["granted", "own"])
async def test_q1_page_of_a_long_list_reads_no_more_than_it_shows(
    database: Database, stocked: Filled, reader: UserIdentity
) -> None:
    middle = sorted((task.envelope.created_at, task.envelope.task_id) for task, _ in stocked)[500]
    query = TaskListQuery(reader, TaskFilter(), 50, TaskPosition(*middle))

    read = await rows_read(database, query)

    # All tasks of the filling were created at once, so that the index is read from that moment's end to the position.
    assert read["Handler_read_rnd_next"] <= 4 * LIMIT, "a scan, or the rows of a sort"
    assert read["Handler_read_prev"] + read["Handler_read_next"] <= 500 + 4 * LIMIT


@pytest.mark.parametrize("stocked", ["filled"], indirect=True)
async def test_q1_filter_that_nothing_fulfils_looks_at_a_bounded_number_of_tasks(
    database: Database, stocked: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_table, "LOOKED_AT_ONCE", 100)
    query = TaskListQuery(replace(GRANTEE, user_id=records.OWNER), TaskFilter(title_contains="nothing"), 50)
    lists = ListTable(MySqlTaskReader(database.reader))
    looks, pages = 0, 0
    rows = Session.rows

    async def counting(session: Session, statement: str, parameters: tuple[Any, ...] = ()) -> Any:
        nonlocal looks
        looks += "UNION" in statement
        return await rows(session, statement, parameters)

    monkeypatch.setattr(Session, "rows", counting)
    while True:
        page = await lists.page(query)
        pages += 1
        assert page.tasks == ()
        assert looks <= list_table.LOOKS * pages
        if page.next_position is None:
            break
        assert page.next_position.task_id in {task.envelope.task_id for task, _ in stocked}
        query = replace(query, after=page.next_position)

    # Five branches: 40 of the only one that gives any, then 80, then as many as a look may hold.
    assert (pages, looks) == (3, 5 + 5 + 3)


@pytest.mark.parametrize("stocked", ["filled"], indirect=True)
async def test_q1_page_without_a_filter_is_full_however_uneven_the_branches(
    database: Database, stocked: Filled
) -> None:
    member = replace(GRANTEE, projects=frozenset(f"p-{number}" for number in range(150)))
    lists = ListTable(MySqlTaskReader(database.reader))

    page = await lists.page(TaskListQuery(member, TaskFilter(), PAGE_LIMIT_MAX))

    newest = sorted((task.envelope.task_id for task, _ in stocked), reverse=True)[:PAGE_LIMIT_MAX]
    assert [task.envelope.task_id for task in page.tasks] == newest


@pytest.mark.parametrize("stocked", ["filled"], indirect=True)
@pytest.mark.parametrize("count", [1, 100])
async def test_q1_statuses_cost_one_statement_for_each_table_and_no_step_is_read(
    database: Database, stocked: Filled, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    statements: list[str] = []
    rows = Session.rows

    async def noting(session: Session, statement: str, parameters: tuple[Any, ...] = ()) -> Any:
        statements.append(statement)
        return await rows(session, statement, parameters)

    monkeypatch.setattr(Session, "rows", noting)
    lists = ListTable(MySqlTaskReader(database.reader))

    found = await lists.states([task.envelope.task_id for task, _ in stocked[:count]], with_grants=True)

    assert (len(found.tasks), len(found.grants)) == (count, count)
    assert [re.findall(r"FROM (\w+)", statement) for statement in statements] == [[], ["task"], ["task_acl"]]


@pytest.mark.parametrize("stocked", ["filled"], indirect=True)
async def test_q1_rare_tasks_of_a_long_list_are_found_over_its_pages(
    database: Database, stocked: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_table, "LOOKED_AT_ONCE", 30)
    rare = [task for task, _ in stocked[::170]]
    await write(database, ChangeSet(tasks=[records.next_version(task, lifecycle=Lifecycle.FAILED) for task in rare]))
    lists, found = ListTable(MySqlTaskReader(database.reader)), list[TaskId]()
    query = TaskListQuery(GRANTEE, TaskFilter(lifecycles=frozenset({Lifecycle.FAILED})), 2)
    while True:
        page = await lists.page(query)
        found += [task.envelope.task_id for task in page.tasks]
        if page.next_position is None:
            break
        query = replace(query, after=page.next_position)

    assert found == sorted((task.envelope.task_id for task in rare), reverse=True)


@pytest.mark.parametrize("stocked", ["nearly empty"], indirect=True)
async def test_q3_notification_says_what_became_of_it(database: Database, stocked: Filled) -> None:
    task = records.next_version(stocked[0][0])
    published, dead = (records.outbox(task, part) for part in (Projection.USER_SUMMARY, Projection.TASK_DETAIL))
    await write(database, ChangeSet(tasks=[task], events=[records.event(task, "evt-q3")], outbox=[published, dead]))
    at = datetime(2026, 11, 30, 9, 0, 0, 5)
    async with database.writer.connect() as connection:
        for statement, parameters in (
            ("status='PUBLISHED',attempts=2,published_at=%s WHERE id=%s", (at, published.outbox_id)),
            ("status='DEAD',attempts=3,last_error=%s WHERE id=%s", ("refused", dead.outbox_id)),
        ):
            await connection.exec_driver_sql(f"UPDATE task_outbox SET {statement}", parameters)
    lists = ListTable(MySqlTaskReader(database.reader))

    (event,) = await lists.events_by_id(records.TENANT, records.SCOPE, "evt-q3", 10)

    assert [(n.outbox_id, n.status, n.attempts, n.last_error, n.published_at) for n in event.notifications] == [
        (published.outbox_id, "PUBLISHED", 2, "", at),
        (dead.outbox_id, "DEAD", 3, "refused", None),
    ]


async def rows_read(database: Database, query: TaskListQuery) -> dict[str, int]:
    """What the server read for the keys of one page."""
    session_of_page, counted = Session, dict[str, int]()
    rows = session_of_page.rows

    async def counting(session: Session, statement: str, parameters: tuple[Any, ...] = ()) -> Any:
        if "UNION" not in statement:
            return await rows(session, statement, parameters)
        before = dict(await rows(session, "SHOW SESSION STATUS LIKE %s", ("Handler_read%",)))
        found = await rows(session, statement, parameters)
        after = dict(await rows(session, "SHOW SESSION STATUS LIKE %s", ("Handler_read%",)))
        counted.update({name: int(after[name]) - int(before[name]) for name in after})
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Session, "rows", counting)
        assert len((await ListTable(MySqlTaskReader(database.reader)).page(query)).tasks) == 50
    return counted


async def explain(database: Database, statement: str, parameters: tuple[Any, ...]) -> Sequence[Any]:
    async with database.writer.connect() as connection:
        result = await connection.exec_driver_sql(f"EXPLAIN FORMAT=TRADITIONAL {statement}", parameters)
        return result.mappings().all()
