"""One pooled connection with explicit transactions, and the rule for when it must not be used again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from sqlalchemy import CursorResult
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from taskstatus.adapters.mysql.errors import Cause, DatabaseError, cause_of, code_of

BEGIN = "BEGIN"
BEGIN_VIEW = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"
CLIENT_LIMIT_SECONDS = 9.0
"""A server that does not answer within its own limit (engine.STATEMENT_LIMIT_SECONDS) and a bit is lost.

New connections too: the drivers' own limit ends with TCP's handshake, which a stopped server's system still answers.
"""
CLOSE_LIMIT_SECONDS = 2.0
"""For a connection that is thrown away: asyncmy waits for the end of TLS, which a silent server never sends."""

_AS_TEXT = {"no_parameters": True}
"""BEGIN and COMMIT are sent as they are: asyncmy would prepare them first, and the server refuses to prepare BEGIN."""

Row = Sequence[Any]


class Session:
    """Runs statements on one connection; not for concurrent use."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self._in_transaction = False
        self._failure: Exception | None = None
        self._is_half_read = False

    @property
    def has_row_alias(self) -> bool:
        """Whether an upsert names its row (MySQL, which warns of ``VALUES()``) or has ``VALUES()`` only (MariaDB)."""
        # Found out by the dialect when the pool connected first.
        return not getattr(self._connection.dialect, "is_mariadb", False)

    @property
    def is_reusable(self) -> bool:
        """Whether the connection may go back to the pool: idle, and with no answer outstanding."""
        return not self._in_transaction and not self._is_half_read

    async def begin(self, statement: str = BEGIN) -> None:
        """Open a transaction."""
        self._in_transaction = True
        await self._run(statement, ())

    async def rows(self, statement: str, parameters: tuple[Any, ...] = ()) -> Sequence[Row]:
        """The result of a query."""
        return (await self._run(statement, parameters)).all()

    async def change(self, statement: str, parameters: tuple[Any, ...] = ()) -> int:
        """Run a DML statement; the number of rows as the server counts them (matched rows for an UPDATE)."""
        return (await self._run(statement, parameters)).rowcount

    async def commit(self) -> None:
        """End the transaction. Every failure of it is ambiguous: ``in_commit``.

        A failure that the body swallowed is raised here again: what it wrote is not whole.
        """
        if self._failure is not None:
            raise self._failure
        try:
            await self._run("COMMIT", ())
        except DatabaseError as error:
            raise DatabaseError(error.cause, error.code, in_commit=True) from error
        self._in_transaction = False

    async def rollback(self) -> None:
        """Undo everything, where the connection still works; after 1205 the server has undone the statement only."""
        if self._connection.invalidated or self._is_half_read:
            return
        try:
            await self._run("ROLLBACK", ())
        except DatabaseError:
            return
        self._in_transaction = False

    async def _run(self, statement: str, parameters: tuple[Any, ...]) -> CursorResult[Any]:
        try:
            async with asyncio.timeout(CLIENT_LIMIT_SECONDS):
                if not parameters:
                    return await self._connection.exec_driver_sql(statement, None, _AS_TEXT)
                return await self._connection.exec_driver_sql(statement, parameters)
        except Exception as error:
            cause = cause_of(error)
            if cause is None:
                # The driver stumbled, perhaps over the answer: the rest would be taken for the next one's.
                self._failure, self._is_half_read = error, True
                raise
            self._failure = DatabaseError(cause, code_of(error))
            raise self._failure from error


@asynccontextmanager
async def open_session(engine: AsyncEngine) -> AsyncIterator[Session]:
    """A session on a connection of the pool. Raises DatabaseError when none can be had.

    A connection whose transaction did not end, or whose call was cancelled, is closed: its late answer would be read
    by the next user.
    """
    connection = await _connect(engine)
    session = Session(connection)
    try:
        yield session
    finally:
        await asyncio.shield(_give_back(connection, session.is_reusable))


async def _connect(engine: AsyncEngine) -> AsyncConnection:
    try:
        async with asyncio.timeout(CLIENT_LIMIT_SECONDS):
            return await engine.connect()
    except Exception as error:
        # A server that hangs up at once leaves a transport without a socket, on uvloop; both drivers trip over that.
        cause = Cause.LOST if isinstance(error, RuntimeError) else cause_of(error)
        if cause is None:
            raise
        raise DatabaseError(cause, code_of(error)) from error


async def _give_back(connection: AsyncConnection, reusable: bool) -> None:
    if not reusable and not connection.invalidated:
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_LIMIT_SECONDS):
                await connection.invalidate()
    await connection.close()
