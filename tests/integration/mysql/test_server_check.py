"""What a session is set to, and which servers are refused."""

from __future__ import annotations

from typing import Any

import pytest

from taskstatus.adapters.mysql.engine import STRICT_MODES, Database, driver_url, open_database
from taskstatus.adapters.mysql.server_check import check_server, faults_of, warnings_of
from taskstatus.application.ports_store import StoreUnavailableError
from tests.support.commit_cutter import CommitCutter

GOOD: dict[str, Any] = {
    "autocommit": 1,
    "isolation": "READ-COMMITTED",
    "time_zone": "+00:00",
    "sql_mode": ",".join(STRICT_MODES),
    "clock_moves": True,
    "default_storage_engine": "InnoDB",
    "character_set_connection": "utf8mb4",
    "max_allowed_packet": 16 * 1024 * 1024,
    "innodb_flush_log_at_trx_commit": 1,
    "sync_binlog": 1,
    "log_bin": 1,
    "read_only": 0,
}


async def test_sessions_on_both_products_pass_the_check(database: Database) -> None:
    report = await check_server(database.writer)
    assert report.product in report.version or report.product == "MySQL"
    assert report.warnings == ()


async def test_reader_sessions_are_repeatable_read_and_in_utc(database: Database) -> None:
    async with database.reader.connect() as connection:
        statement = "SHOW VARIABLES WHERE Variable_name IN ('tx_isolation','transaction_isolation','time_zone')"
        found = (await connection.exec_driver_sql(statement)).mappings()
        values = {str(row["Variable_name"]): str(row["Value"]) for row in found}
    assert values.pop("time_zone") == "+00:00"
    assert set(values.values()) == {"REPEATABLE-READ"}


async def test_unreachable_server_is_unavailable() -> None:
    async with CommitCutter(1) as nobody:
        port = nobody.port
    unreachable = open_database(f"mysql://root@127.0.0.1:{port}/none")
    with pytest.raises(StoreUnavailableError):
        await check_server(unreachable.writer)
    await unreachable.dispose()


def test_good_server_has_no_fault_and_no_warning() -> None:
    assert faults_of(GOOD) == []
    assert warnings_of(GOOD) == []


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("autocommit", 0, "autocommit"),
        ("isolation", "REPEATABLE-READ", "isolation"),
        ("time_zone", "SYSTEM", "time_zone"),
        ("sql_mode", "NO_ENGINE_SUBSTITUTION", "sql_mode"),
        ("clock_moves", False, "SYSDATE"),
        ("default_storage_engine", "MyISAM", "InnoDB"),
        ("character_set_connection", "latin1", "utf8mb4"),
        ("max_allowed_packet", 1024 * 1024, "max_allowed_packet"),
    ],
)
def test_server_that_would_lose_or_change_data_is_refused(name: str, value: Any, word: str) -> None:
    (fault,) = faults_of({**GOOD, name: value})
    assert word in fault


@pytest.mark.parametrize(
    ("name", "value"), [("innodb_flush_log_at_trx_commit", 2), ("sync_binlog", 0), ("read_only", 1)]
)
def test_weaker_durability_is_a_warning(name: str, value: int) -> None:
    (warning,) = warnings_of({**GOOD, name: value})
    assert name.replace("_", "-") in warning.replace("_", "-")
    assert faults_of({**GOOD, name: value}) == []


@pytest.mark.parametrize("url", ["postgresql://db/x", "mysql+pymysql://db/x", "sqlite://"])
def test_url_of_another_database_or_driver_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="must begin with"):
        open_database(url)


def test_driver_is_ours_unless_the_url_names_aiomysql() -> None:
    assert driver_url("mysql://root@db/x").drivername == "mysql+asyncmy"
    assert driver_url("mysql+aiomysql://root@db/x").drivername == "mysql+aiomysql"
