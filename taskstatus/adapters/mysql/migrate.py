"""``migrate``: brings the schema up to date; safe to run from several replicas at once and after a cut-off run."""

from __future__ import annotations

import hashlib
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, exc
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from taskstatus.adapters.mysql.engine import driver_url
from taskstatus.adapters.mysql.errors import code_of
from taskstatus.application.ports_store import StoreUnavailableError

SCRIPTS = Path(__file__).with_name("migrations")
LOCK_WAIT_SECONDS = 120
UNKNOWN_DATABASE = 1049


class MigrationLockError(Exception):
    """Another process held the migration lock for longer than ``LOCK_WAIT_SECONDS``."""


async def migrate(url: str) -> None:
    """Create the database when it is missing (and the account may) and apply every outstanding revision.

    Raises StoreUnavailableError when the server cannot be reached, MigrationLockError when another run does not end.
    """
    await _ensure_database(url)
    engine = _engine(url)
    try:
        async with engine.connect() as connection:
            await _upgrade_locked(connection, str(engine.url.database))
    except exc.DBAPIError as error:
        raise StoreUnavailableError(f"migration failed with database error {code_of(error)}") from error
    finally:
        await engine.dispose()


def head_revision() -> str:
    """The newest revision that this program knows."""
    from alembic.script import ScriptDirectory

    return str(ScriptDirectory.from_config(_config()).get_current_head())


def lock_name(database: str) -> str:
    """The server-wide lock of a database's migrations; within the 64 characters that a lock's name may have."""
    return f"taskstatus.migrate.{hashlib.sha256(database.encode()).hexdigest()[:16]}"


async def _upgrade_locked(connection: AsyncConnection, database: str) -> None:
    lock = lock_name(database)
    taken = await connection.exec_driver_sql("SELECT GET_LOCK(%s, %s) AS taken", (lock, LOCK_WAIT_SECONDS))
    if taken.scalar() != 1:
        raise MigrationLockError(f"another migration of {database} has not ended after {LOCK_WAIT_SECONDS} s")
    try:
        await connection.run_sync(_upgrade)
    finally:
        await connection.exec_driver_sql("SELECT RELEASE_LOCK(%s) AS released", (lock,))


def _upgrade(connection: Connection) -> None:
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


async def _ensure_database(url: str) -> None:
    target = driver_url(url)
    engine = _engine(url)
    try:
        async with engine.connect():
            return
    except exc.DBAPIError as error:
        if code_of(error) != UNKNOWN_DATABASE or not target.database:
            raise StoreUnavailableError(f"the database answers with error {code_of(error)}") from error
    finally:
        await engine.dispose()
    await _create_database(url, target.database)


async def _create_database(url: str, name: str) -> None:
    server = create_async_engine(driver_url(url).set(database=""), poolclass=NullPool, isolation_level="AUTOCOMMIT")
    quoted = name.replace("`", "``").replace("%", "%%")
    try:
        async with server.connect() as connection:
            await connection.exec_driver_sql(
                f"CREATE DATABASE IF NOT EXISTS `{quoted}` CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
            )
    except exc.DBAPIError as error:
        raise StoreUnavailableError(f"cannot create the database: error {code_of(error)}") from error
    finally:
        await server.dispose()


def _engine(url: str) -> AsyncEngine:
    return create_async_engine(driver_url(url), poolclass=NullPool, isolation_level="AUTOCOMMIT", hide_parameters=True)
