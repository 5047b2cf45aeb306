"""What a server must be like before we write to it; asked once at start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine

from taskstatus.adapters.mysql.engine import STRICT_MODES, is_mariadb
from taskstatus.adapters.mysql.errors import DatabaseError
from taskstatus.adapters.mysql.session import Session, open_session
from taskstatus.adapters.mysql.statements import MAX_BYTES
from taskstatus.adapters.mysql.values import text
from taskstatus.application.ports_store import StoreUnavailableError

MIN_PACKET_BYTES = 4 * MAX_BYTES
_VARIABLES = (
    "autocommit",
    "time_zone",
    "sql_mode",
    "default_storage_engine",
    "max_allowed_packet",
    "innodb_flush_log_at_trx_commit",
    "sync_binlog",
    "log_bin",
    "read_only",
    "character_set_connection",
)
_PROBE_SECONDS = 0.002


class ServerNotUsableError(Exception):
    """The server answers, but must not be used as it is; the text lists every fault."""


@dataclass(frozen=True, slots=True)
class ServerReport:
    """A usable server; ``warnings`` are about durability or posture and do not stop us."""

    product: str
    """``MySQL`` or ``MariaDB``."""
    version: str
    warnings: tuple[str, ...]


async def check_server(writer: AsyncEngine) -> ServerReport:
    """The server behind the writer pool, judged as our sessions see it.

    Raises ServerNotUsableError with all faults, StoreUnavailableError when it cannot be reached.
    """
    try:
        async with open_session(writer) as session:
            version = text((await session.rows("SELECT VERSION() AS version"))[0][0])
            values = await _variables(session, version)
    except DatabaseError as error:
        raise StoreUnavailableError(str(error)) from error
    if faults := faults_of(values):
        raise ServerNotUsableError("; ".join(faults))
    product = "MariaDB" if is_mariadb(version) else "MySQL"
    return ServerReport(product, version, tuple(warnings_of(values)))


async def _variables(session: Session, version: str) -> Mapping[str, Any]:
    isolation = "tx_isolation" if is_mariadb(version) else "transaction_isolation"
    names = (*_VARIABLES, isolation)
    row = (await session.rows(f"SELECT {','.join(f'@@{name} AS v{at}' for at, name in enumerate(names))}"))[0]
    values = dict(zip((*_VARIABLES, "isolation"), row, strict=True))
    probe = f"SELECT SYSDATE(6) AS first,SLEEP({_PROBE_SECONDS}) AS pause,SYSDATE(6) AS second"
    first, _, second = (await session.rows(probe))[0]
    return {**values, "clock_moves": second > first}


def faults_of(values: Mapping[str, Any]) -> list[str]:
    """Why a server with these session variables must not be used."""
    modes = set(str(values["sql_mode"]).split(","))
    expected = {
        "autocommit must be on: transactions are begun explicitly": bool(values["autocommit"]),
        "isolation must be READ COMMITTED": values["isolation"] == "READ-COMMITTED",
        "time_zone must be +00:00": values["time_zone"] == "+00:00",
        "sql_mode must be strict": modes.issuperset(STRICT_MODES),
        "SYSDATE() must be the moment, not the statement's start (sysdate-is-now off)": values["clock_moves"],
        "default_storage_engine must be InnoDB": values["default_storage_engine"] == "InnoDB",
        "the connection's character set must be utf8mb4": values["character_set_connection"] == "utf8mb4",
        f"max_allowed_packet must be at least {MIN_PACKET_BYTES}": values["max_allowed_packet"] >= MIN_PACKET_BYTES,
    }
    return [fault for fault, holds in expected.items() if not holds]


def warnings_of(values: Mapping[str, Any]) -> list[str]:
    """What an operator should know about such a server."""
    expected = {
        "innodb_flush_log_at_trx_commit is not 1: a crash loses acknowledged events": (
            values["innodb_flush_log_at_trx_commit"] == 1
        ),
        "sync_binlog is not 1: a crash can lose acknowledged events on replicas": (
            not values["log_bin"] or values["sync_binlog"] == 1
        ),
        "the server is read-only (read_only)": not values["read_only"],
    }
    return [warning for warning, holds in expected.items() if not holds]
