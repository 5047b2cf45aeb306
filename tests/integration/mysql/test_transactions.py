"""A transaction among failures: conflicts, lost connections, lost replies, cancellation, a demoted server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import make_url

from taskstatus.adapters.clock import SystemClock, SystemRandomness
from taskstatus.adapters.mysql.engine import Database, PoolLimits, open_database
from taskstatus.adapters.mysql.errors import DatabaseError
from taskstatus.adapters.mysql.session import Session
from taskstatus.adapters.mysql.transactions import MySqlTaskStore, RetryLimits
from taskstatus.adapters.mysql.write_transaction import MySqlWriteTransaction
from taskstatus.application.ports_store import (
    StoreRefusedError,
    StoreUnavailableError,
    TransactionAttempt,
    WriteTransaction,
)
from taskstatus.domain.ids import TaskId, WorkflowId
from taskstatus.domain.records import ChangeSet
from tests.contract import records
from tests.support.commit_cutter import CommitCutter
from tests.support.databases import emptied_database

QUICK = RetryLimits(conflict_pause_seconds=0.001, outage_pause_seconds=0.001)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """The schema, empty, with few connections."""
    async with emptied_database(database_url, PoolLimits(writers=3)) as opened:
        yield opened


@pytest.fixture
def store(database: Database) -> MySqlTaskStore:
    """A store that retries without noticeable pauses."""
    return store_on(database)


def store_on(database: Database, limits: RetryLimits = QUICK) -> MySqlTaskStore:
    """A store on other pools or limits."""
    return MySqlTaskStore(database.writer, SystemClock(), SystemRandomness(), limits)


def session_of(transaction: WriteTransaction) -> Session:
    """The session behind the port, to disturb it."""
    assert isinstance(transaction, MySqlWriteTransaction)
    return transaction._session


async def two_tasks(store: MySqlTaskStore) -> list[TaskId]:
    """Two committed tasks."""
    workflow = records.workflow()
    tasks = [records.task(workflow.workflow_id, key) for key in ("one", "two")]
    await write(store, records.creation(workflow, *((task, []) for task in tasks)))
    return [task.envelope.task_id for task in tasks]


async def write(store: MySqlTaskStore, changes: ChangeSet) -> None:
    """Commit a change set."""

    async def body(transaction: WriteTransaction, _attempt: TransactionAttempt) -> None:
        await transaction.write(changes)

    await store.transact(body)


async def exists(store: MySqlTaskStore, workflow_id: WorkflowId) -> bool:
    """Whether a workflow is committed."""

    async def body(transaction: WriteTransaction, _attempt: TransactionAttempt) -> bool:
        return await transaction.lock_workflow(workflow_id) is not None

    return await store.transact(body)


async def side(database: Database, statement: str) -> None:
    """A statement on a connection of its own."""
    async with database.reader.connect() as connection:
        await connection.exec_driver_sql(statement)


async def connection_id(transaction: WriteTransaction) -> int:
    """The server's number of the connection."""
    return int((await session_of(transaction).rows("SELECT CONNECTION_ID() AS id"))[0][0])


async def test_n1_deadlock_runs_the_whole_body_again(store: MySqlTaskStore) -> None:
    ids = await two_tasks(store)
    both_hold_one = asyncio.Barrier(2)

    async def crossing(first: TaskId, second: TaskId) -> int:
        async def body(transaction: WriteTransaction, attempt: TransactionAttempt) -> int:
            await transaction.lock_tasks([first])
            if attempt.number == 1:
                await both_hold_one.wait()
            await transaction.lock_tasks([second])
            assert not attempt.settling
            return attempt.number

        return await store.transact(body)

    attempts = await asyncio.gather(crossing(ids[0], ids[1]), crossing(ids[1], ids[0]))

    assert sorted(attempts) == [1, 2]


async def test_n1_lock_wait_timeout_leaves_nothing_of_the_first_half(database: Database, store: MySqlTaskStore) -> None:
    task_id, _ = await two_tasks(store)
    half = records.workflow("half")

    async def body(transaction: WriteTransaction, attempt: TransactionAttempt) -> None:
        if attempt.number == 2:
            return
        await session_of(transaction).change("SET SESSION innodb_lock_wait_timeout=1")
        await transaction.write(records.creation(half))
        await transaction.lock_tasks([task_id])

    async def holding(transaction: WriteTransaction, _attempt: TransactionAttempt) -> None:
        await transaction.lock_tasks([task_id])
        await store.transact(body)

    await store.transact(holding)

    assert not await exists(store, half.workflow_id)


async def test_n1_connection_killed_in_the_middle_runs_again_on_another(
    database: Database, store: MySqlTaskStore
) -> None:
    workflow = records.workflow()
    used: list[int] = []

    async def body(transaction: WriteTransaction, attempt: TransactionAttempt) -> TransactionAttempt:
        used.append(await connection_id(transaction))
        if attempt.number == 1:
            await side(database, f"KILL {used[0]}")
        await transaction.write(records.creation(workflow))
        return attempt

    assert await store.transact(body) == TransactionAttempt(number=2, settling=False)
    assert used[0] != used[1]
    assert await exists(store, workflow.workflow_id)


async def test_n1_pool_of_dead_connections_costs_one_attempt(database: Database, store: MySqlTaskStore) -> None:
    all_inside = asyncio.Barrier(3)

    async def open_and_note(transaction: WriteTransaction, _attempt: TransactionAttempt) -> int:
        await all_inside.wait()
        return await connection_id(transaction)

    for number in await asyncio.gather(*(store.transact(open_and_note) for _ in range(3))):
        await side(database, f"KILL {number}")
    numbers = []

    async def body(_transaction: WriteTransaction, attempt: TransactionAttempt) -> None:
        numbers.append(attempt.number)

    for _ in range(3):
        await store.transact(body)
    assert numbers == [2, 1, 1]


async def test_n1_lost_reply_of_a_commit_is_told_to_the_next_run(database_url: str, database: Database) -> None:
    workflow = records.workflow()
    seen: list[tuple[TransactionAttempt, bool]] = []

    async def body(transaction: WriteTransaction, attempt: TransactionAttempt) -> None:
        found = await transaction.lock_workflow(workflow.workflow_id)
        seen.append((attempt, found is not None))
        if found is None:
            await transaction.write(records.creation(workflow))

    async with through_cutter(database_url) as (cutter, disturbed):
        cutter.cut_next_commit_reply()
        await store_on(disturbed).transact(body)

    assert seen == [(TransactionAttempt(1, settling=False), False), (TransactionAttempt(2, settling=True), True)]


async def test_n1_commit_that_stays_unknown_is_unavailable_and_settling_stays_set(
    database_url: str, database: Database
) -> None:
    seen: list[TransactionAttempt] = []

    async def body(_transaction: WriteTransaction, attempt: TransactionAttempt) -> None:
        seen.append(attempt)

    async with through_cutter(database_url) as (cutter, disturbed):
        for _ in range(3):
            cutter.cut_next_commit_reply()
        with pytest.raises(StoreUnavailableError):
            await store_on(disturbed, replace(QUICK, attempts=3)).transact(body)

    assert [(attempt.number, attempt.settling) for attempt in seen] == [(1, False), (2, True), (3, True)]


async def test_cancelled_transaction_gives_up_its_connection_and_its_locks(
    database: Database, store: MySqlTaskStore
) -> None:
    task_id, _ = await two_tasks(store)
    locked, used = asyncio.Event(), []

    async def stuck(transaction: WriteTransaction, _attempt: TransactionAttempt) -> None:
        used.append(await connection_id(transaction))
        await transaction.lock_tasks([task_id])
        locked.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(store.transact(stuck))
    await locked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    async def after(transaction: WriteTransaction, _attempt: TransactionAttempt) -> int:
        await transaction.lock_tasks([task_id])
        return await connection_id(transaction)

    assert await store.transact(after) not in used
    assert _checked_out(database) == 0


async def test_cancelled_statement_never_answers_the_next_user(database: Database, store: MySqlTaskStore) -> None:
    task_id, _ = await two_tasks(store)
    waiting = asyncio.Event()

    async def holder(transaction: WriteTransaction, _attempt: TransactionAttempt) -> None:
        await transaction.lock_tasks([task_id])

        async def blocked(inner: WriteTransaction, _inner_attempt: TransactionAttempt) -> None:
            waiting.set()
            await inner.lock_tasks([task_id])

        running = asyncio.create_task(store.transact(blocked))
        await waiting.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    await store.transact(holder)

    async def read(transaction: WriteTransaction, _attempt: TransactionAttempt) -> Any:
        return (await session_of(transaction).rows("SELECT 42 AS answer"))[0][0]

    assert [await store.transact(read) for _ in range(4)] == [42] * 4


async def test_id3_two_creations_under_one_key_end_with_one_workflow(store: MySqlTaskStore) -> None:
    both_looked = asyncio.Barrier(2)

    async def create(number: int) -> WorkflowId:
        async def body(transaction: WriteTransaction, attempt: TransactionAttempt) -> WorkflowId:
            found = await transaction.find_workflow_by_key(records.TENANT, records.SCOPE, "order-1")
            if attempt.number == 1:
                await both_looked.wait()
            if found is not None:
                return found.workflow_id
            workflow = records.workflow("order-1", title=f"from {number}")
            await transaction.write(records.creation(workflow))
            return workflow.workflow_id

        return await store.transact(body)

    first, second = await asyncio.gather(create(1), create(2))

    assert first == second


async def test_n1_read_only_answer_replaces_every_pooled_connection(database: Database, store: MySqlTaskStore) -> None:
    used: list[int] = []
    workflow = records.workflow()

    async def body(transaction: WriteTransaction, attempt: TransactionAttempt) -> int:
        used.append(await connection_id(transaction))
        if attempt.number == 1:
            await session_of(transaction).change("START TRANSACTION READ ONLY")
        await transaction.write(records.creation(workflow))
        return attempt.number

    assert await store.transact(body) == 2
    assert used[0] != used[1]
    assert await exists(store, workflow.workflow_id)


async def test_failure_that_the_body_swallows_is_not_committed(store: MySqlTaskStore) -> None:
    workflow = records.workflow()
    await write(store, records.creation(workflow))
    half = records.workflow("half")

    async def body(transaction: WriteTransaction, _attempt: TransactionAttempt) -> None:
        await transaction.write(records.creation(half))
        with pytest.raises(DatabaseError):
            await transaction.write(records.creation(workflow))

    with pytest.raises(StoreRefusedError):
        await store.transact(body)
    assert not await exists(store, half.workflow_id)


async def test_value_that_the_table_cannot_hold_is_refused_without_being_repeated(store: MySqlTaskStore) -> None:
    with pytest.raises(StoreRefusedError) as refusal:
        await write(store, records.creation(records.workflow(title="secret" * 100)))
    assert str(refusal.value) == "database error 1406"


async def test_unreachable_server_is_unavailable(database_url: str) -> None:
    async with CommitCutter(1) as nobody:
        port = nobody.port
    unreachable = open_database(make_url(database_url).set(port=port).render_as_string(hide_password=False))
    with pytest.raises(StoreUnavailableError):
        await write(store_on(unreachable), ChangeSet())
    await unreachable.dispose()


async def test_budget_ends_the_attempts_before_their_number_does(database_url: str) -> None:
    async with CommitCutter(1) as nobody:
        port = nobody.port
    unreachable = open_database(make_url(database_url).set(port=port).render_as_string(hide_password=False))
    limits = RetryLimits(budget_seconds=0.0)
    with pytest.raises(StoreUnavailableError, match="after 1 attempts"):
        await write(store_on(unreachable, limits), ChangeSet())
    await unreachable.dispose()


class through_cutter:
    """Pools of the schema behind a proxy that loses replies."""

    def __init__(self, url: str) -> None:
        self._url = make_url(url)
        self._cutter = CommitCutter(self._url.port or 3306)

    async def __aenter__(self) -> tuple[CommitCutter, Database]:
        await self._cutter.__aenter__()
        behind = self._url.set(port=self._cutter.port).render_as_string(hide_password=False)
        self._database = open_database(behind, PoolLimits(writers=2))
        return self._cutter, self._database

    async def __aexit__(self, *error: Any) -> None:
        await self._database.dispose()
        await self._cutter.__aexit__(None, None, None)


def _checked_out(database: Database) -> int:
    pool: Any = database.writer.pool
    return int(pool.checkedout())
