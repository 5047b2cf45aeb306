"""Connection pools: which driver, how each session is set up, and which connections are thrown away.

Transactions are ours alone: the driver runs in autocommit, and ``Session`` sends BEGIN, COMMIT and ROLLBACK. There is
no ping at checkout: the BEGIN is the ping, and its failure empties the pool.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy import URL, event, make_url
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from taskstatus.adapters.mysql.errors import Cause, cause_of

DEFAULT_DRIVER = "mysql+asyncmy"
AIOMYSQL = "mysql+aiomysql"
DRIVERS = ("mysql", DEFAULT_DRIVER, AIOMYSQL)
STRICT_MODES = (
    "STRICT_TRANS_TABLES",
    "NO_ZERO_IN_DATE",
    "NO_ZERO_DATE",
    "ERROR_FOR_DIVISION_BY_ZERO",
    "NO_ENGINE_SUBSTITUTION",
)
PREPARED_STATEMENTS = 192
"""Kept by each asyncmy connection, the least recently used go; above the server's 16,382 statements run as text."""
LOCK_WAIT_SECONDS = 5
STATEMENT_LIMIT_SECONDS = 8
"""Server side; longer than a lock wait, so that a wait ends as 1205."""
DISPOSE_LIMIT_SECONDS = 5.0
"""For each pool: asyncmy waits for the end of TLS, which a silent server never sends."""

# asyncmy logs the text of every server warning, and those repeat values of rows.
logging.getLogger("asyncmy").setLevel(logging.ERROR)


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """How many connections one process opens, and for how long it uses each."""

    writers: int = 8
    readers: int = 4
    checkout_seconds: float = 5.0
    connect_seconds: int = 5
    recycle_seconds: int = 240
    """Below the idle limits of common proxies, which drop connections without a word."""


@dataclass(frozen=True, slots=True)
class Database:
    """One server, seen through a pool for writing (READ COMMITTED) and one for consistent views (REPEATABLE READ)."""

    writer: AsyncEngine
    reader: AsyncEngine

    async def dispose(self) -> None:
        """Close every pooled connection; those of a silent server are left to the end of the process."""
        for engine in (self.writer, self.reader):
            with suppress(TimeoutError):
                async with asyncio.timeout(DISPOSE_LIMIT_SECONDS):
                    await engine.dispose()


def open_database(url: str, limits: PoolLimits | None = None) -> Database:
    """The pools of one database; nothing is connected yet. Raises ValueError for a URL that is not MySQL's."""
    chosen = limits or PoolLimits()
    return Database(
        writer=_engine(url, "READ COMMITTED", chosen.writers, chosen),
        reader=_engine(url, "REPEATABLE READ", chosen.readers, chosen),
    )


def driver_url(url: str) -> URL:
    """The URL with its driver: asyncmy unless it names aiomysql."""
    parsed = make_url(url)
    if parsed.drivername not in DRIVERS:
        raise ValueError(f"the database URL must begin with one of {', '.join(DRIVERS)}")
    named = parsed if "+" in parsed.drivername else parsed.set(drivername=DEFAULT_DRIVER)
    return named.update_query_dict({"charset": "utf8mb4"})


def _engine(url: str, isolation: str, size: int, limits: PoolLimits) -> AsyncEngine:
    engine = create_async_engine(
        driver_url(url),
        isolation_level="AUTOCOMMIT",
        skip_autocommit_rollback=True,
        pool_size=size,
        max_overflow=0,
        pool_timeout=limits.checkout_seconds,
        pool_recycle=limits.recycle_seconds,
        # Few connections are used most of the time, so that those know the statements already.
        pool_use_lifo=True,
        pool_reset_on_return=None,
        hide_parameters=True,
        connect_args={"connect_timeout": limits.connect_seconds, "autocommit": True, **_driver_options(url)},
    )

    def on_connect(connection: DBAPIConnection, _record: Any) -> None:
        _set_up_session(connection, isolation)

    event.listen(engine.sync_engine, "connect", on_connect)
    event.listen(engine.sync_engine, "close", _forget_statements)
    event.listen(engine.sync_engine, "handle_error", _invalidate_demoted)
    return engine


def _driver_options(url: str) -> dict[str, int]:
    """asyncmy runs statements with parameters as prepared ones: nothing is escaped, nothing parsed again."""
    return {} if driver_url(url).drivername == AIOMYSQL else {"stmt_cache_size": PREPARED_STATEMENTS}


def _set_up_session(connection: DBAPIConnection, isolation: str) -> None:
    cursor = connection.cursor()
    try:
        cursor.execute("SELECT VERSION() AS version")
        row = cursor.fetchone()
        cursor.execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {isolation}")
        cursor.execute(f"SET SESSION {', '.join(session_settings(is_mariadb(row[0] if row else '')))}")
    finally:
        cursor.close()


def _forget_statements(connection: DBAPIConnection, _record: Any) -> None:
    """Let a closed asyncmy connection go: its statements keep it alive, and the collector may be an hour away."""
    statements: dict[str, Any] = getattr(connection.driver_connection, "_stmt_cache", {})
    statements.clear()


def is_mariadb(version: str | bytes) -> bool:
    """Which dialect a server speaks, by its VERSION() and never by its program's name."""
    text = version.decode() if isinstance(version, bytes) else version
    return "mariadb" in text.lower()


def session_settings(mariadb: bool) -> tuple[str, ...]:
    """What every session is set to; the two products limit a statement's time in different units."""
    limit = f"max_statement_time={STATEMENT_LIMIT_SECONDS}"
    if not mariadb:
        limit = f"max_execution_time={STATEMENT_LIMIT_SECONDS * 1000}"
    return (
        "time_zone='+00:00'",
        f"sql_mode='{','.join(STRICT_MODES)}'",
        f"innodb_lock_wait_timeout={LOCK_WAIT_SECONDS}",
        limit,
    )


def _invalidate_demoted(context: ExceptionContext) -> None:
    """Treat lost connections and a read-only server as a disconnect, which replaces every pooled connection."""
    cause = cause_of(context.sqlalchemy_exception or context.original_exception)
    if cause in (Cause.LOST, Cause.READ_ONLY):
        context.is_disconnect = True
        context.invalidate_pool_on_disconnect = True
