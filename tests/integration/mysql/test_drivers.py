"""What either driver must keep, on connections that live long: own answers, own values, and an end."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import pytest
import uvloop
from asyncmy.connection import Connection
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import make_url

from taskstatus.adapters.clock import SystemClock, SystemRandomness
from taskstatus.adapters.mysql import engine as engine_module
from taskstatus.adapters.mysql import session as session_module
from taskstatus.adapters.mysql.engine import Database, PoolLimits, open_database
from taskstatus.adapters.mysql.errors import Cause, DatabaseError
from taskstatus.adapters.mysql.session import Session, open_session
from taskstatus.adapters.mysql.statements import flatten
from taskstatus.adapters.mysql.transactions import MySqlTaskStore, RetryLimits
from taskstatus.application.ports_store import TransactionAttempt
from tests.support.garbage import living, nothing_collected

STEPS = 40
"""Of the event loop; a transaction of the test takes about half as many."""
SMALL = "SELECT %s AS asked"
LARGE = "SELECT %s AS asked,REPEAT('x',100000) AS padding"
HANG_UPS = 100
"""About a quarter of them come before the driver has looked at its socket."""
KEYS = (b"a" * 16, b"b" * 16, b"c" * 16)
TABLE = "CREATE TABLE values_given (id VARBINARY(16) PRIMARY KEY, moment DATETIME(6) NULL, number BIGINT UNSIGNED NULL)"
CASES = "CASE id WHEN %s THEN %s WHEN %s THEN %s WHEN %s THEN %s END"
CHANGE = f"UPDATE values_given SET moment={CASES},number={CASES}"
EPOCH = datetime(2026, 1, 1)

moments = st.none() | st.integers(0, 10**13).map(lambda micros: EPOCH + timedelta(microseconds=micros))
whole_seconds = st.integers(0, 10**6).map(lambda seconds: EPOCH + timedelta(seconds=seconds))
numbers = st.none() | st.integers(0, 2**64 - 1)
triples = st.tuples(*[st.tuples(moments | whole_seconds, numbers)] * len(KEYS))


@pytest.fixture(params=["asyncmy", "aiomysql"])
def url(request: pytest.FixtureRequest, database_url: str) -> str:
    """The schema by each driver."""
    return make_url(database_url).set(drivername=f"mysql+{request.param}").render_as_string(hide_password=False)


@pytest.fixture
async def database(url: str) -> AsyncIterator[Database]:
    """One connection for writing."""
    opened = open_database(url, PoolLimits(writers=1))
    yield opened
    await opened.dispose()


async def test_cancelled_at_any_step_a_statement_never_answers_the_next_user(database: Database) -> None:
    async def ask(number: int) -> list[Any]:
        answers = []
        async with open_session(database.writer) as session:
            await session.begin()
            for statement in (SMALL, LARGE):
                answers += [row[0] for row in await session.rows(statement, (number,))]
            await session.commit()
        return answers

    for steps in range(STEPS):
        running = asyncio.create_task(ask(-steps))
        for _ in range(steps):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert await ask(steps) == [steps, steps]


@pytest.mark.parametrize("end", ["closed", "invalidated"])
async def test_n1_a_connection_goes_with_its_end_and_waits_for_no_collector(database: Database, end: str) -> None:
    with nothing_collected():
        async with open_session(database.writer) as session:
            await session.begin()
            assert [row[0] for row in await session.rows(SMALL, (1,))] == [1]
            await session.commit()
        async with database.writer.connect() as connection:
            kind = type((await connection.get_raw_connection()).driver_connection)
            if end == "invalidated":
                await connection.invalidate()
        assert living(kind) == (1 if end == "closed" else 0)
        await database.writer.dispose()
        await until_gone(kind)


async def until_gone(kind: type[object]) -> None:
    """The loop holds a connection until its socket is closed."""
    async with asyncio.timeout(20):
        while living(kind):
            await asyncio.sleep(0.001)


async def test_answer_that_cannot_be_read_costs_its_connection(database: Database) -> None:
    store = MySqlTaskStore(database.writer, SystemClock(), SystemRandomness(), RetryLimits(attempts=1))
    used = []

    async def spell(session: Session, _attempt: TransactionAttempt) -> None:
        used.append((await session.rows("SELECT CONNECTION_ID() AS id"))[0][0])
        await session.change("SET SESSION character_set_results=latin1")
        for letter in ("61", "FF"):
            await session.rows("SELECT CONVERT(UNHEX(%s) USING latin1) AS letter", (letter,))

    for _ in range(2):
        with pytest.raises(UnicodeDecodeError):
            await store.run(spell)

    assert used[0] != used[1]


async def test_statement_known_to_the_connection_sees_a_changed_table(database: Database) -> None:
    async def seen() -> Any:
        async with open_session(database.writer) as session:
            return tuple((await session.rows("SELECT v FROM changing WHERE k=%s", (1,)))[0])

    async def change(*statements: str) -> None:
        async with database.reader.connect() as connection:
            for statement in statements:
                await connection.exec_driver_sql(statement)

    await change("DROP TABLE IF EXISTS changing", "CREATE TABLE changing (k INT PRIMARY KEY,v INT)")
    await change("INSERT INTO changing VALUES (1,2)")
    assert await seen() == (2,)
    await change("ALTER TABLE changing MODIFY v BIGINT UNSIGNED", f"UPDATE changing SET v={2**64 - 1}")
    assert await seen() == (2**64 - 1,)
    await change("ALTER TABLE changing MODIFY v VARBINARY(40)")
    assert await seen() == (str(2**64 - 1).encode(),)
    await change("DROP TABLE changing")


def test_values_are_stored_as_given_whatever_was_given_to_the_statement_before(url: str) -> None:
    with asyncio.Runner() as runner:
        database = open_database(url, PoolLimits(writers=1))

        async def change(statement: str, parameters: tuple[Any, ...] = ()) -> None:
            async with open_session(database.writer) as session:
                await session.change(statement, parameters)

        async def stored() -> list[Any]:
            async with open_session(database.writer) as session:
                rows = await session.rows("SELECT moment,number FROM values_given ORDER BY id")
                return [tuple(row) for row in rows]

        @settings(max_examples=60, deadline=None)
        @given(triples)
        def check(values: tuple[tuple[datetime | None, int | None], ...]) -> None:
            by_column = [list(zip(KEYS, column, strict=True)) for column in zip(*values, strict=True)]
            runner.run(change(CHANGE, flatten([*by_column[0], *by_column[1]])))
            assert runner.run(stored()) == list(values)

        runner.run(change("DROP TABLE IF EXISTS values_given"))
        runner.run(change(TABLE))
        runner.run(change("INSERT INTO values_given (id) VALUES (%s),(%s),(%s)", KEYS))
        check()
        runner.run(change("DROP TABLE values_given"))
        runner.run(database.dispose())


async def test_n1_server_that_accepts_and_says_nothing_is_lost(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "CLIENT_LIMIT_SECONDS", 0.05)
    open_ends: list[asyncio.StreamWriter] = []
    silent = await asyncio.start_server(lambda _, writer: open_ends.append(writer), "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    database = open_database(make_url(url).set(port=port).render_as_string(hide_password=False))

    with pytest.raises(DatabaseError) as caught:
        async with open_session(database.writer):
            raise AssertionError("nobody said anything")

    assert caught.value.cause is Cause.LOST
    await database.dispose()
    silent.close()
    for writer in open_ends:
        writer.close()
        await writer.wait_closed()


def test_n1_server_that_accepts_and_hangs_up_is_lost(url: str) -> None:
    """As a proxy before a database that was killed; on uvloop, as the service runs."""
    with socket.socket() as listening, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]

        async def connect() -> Cause:
            database = open_database(make_url(url).set(port=port).render_as_string(hide_password=False))
            try:
                with pytest.raises(DatabaseError) as caught:
                    async with open_session(database.writer):
                        raise AssertionError("nobody said anything")
                return caught.value.cause
            finally:
                await database.dispose()

        def hang_up() -> None:
            for _ in range(HANG_UPS):
                client, _ = listening.accept()
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                client.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        assert {runner.run(connect()) for _ in range(HANG_UPS)} == {Cause.LOST}
        thread.join()


async def test_connection_whose_end_never_comes_is_let_go(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of TLS with a silent server; the pool has one place."""

    async def ever(_connection: Connection) -> None:
        await asyncio.Event().wait()

    database = open_database(database_url, PoolLimits(writers=1))
    ids = []

    async def transaction(then: Exception | None = None) -> None:
        async with open_session(database.writer) as session:
            await session.begin()
            ids.append((await session.rows("SELECT CONNECTION_ID() AS id"))[0][0])
            if then is not None:
                raise then
            await session.commit()

    with monkeypatch.context() as patch:
        patch.setattr(session_module, "CLOSE_LIMIT_SECONDS", 0.05)
        patch.setattr(Connection, "ensure_closed", ever)
        with pytest.raises(ValueError, match="of the body"):
            await transaction(ValueError("of the body"))
    await transaction()

    assert ids[0] != ids[1]
    await database.dispose()


async def test_pool_whose_end_never_comes_is_let_go(
    database_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def ever(_connection: Connection) -> None:
        kept.append(_connection)
        await asyncio.Event().wait()

    kept: list[Connection] = []
    monkeypatch.setattr(engine_module, "DISPOSE_LIMIT_SECONDS", 0.05)
    database = open_database(database_url)
    async with open_session(database.writer) as session:
        await session.rows("SELECT 1 AS one")
    with monkeypatch.context() as patch:
        patch.setattr(Connection, "ensure_closed", ever)
        await database.dispose()

    assert len(kept) == 1
    assert "closing connection" in caplog.text
    await kept[0].ensure_closed()
