"""The one table of what an error means."""

from __future__ import annotations

import asyncio

import pytest
from pymysql import err  # type: ignore[import-untyped]
from sqlalchemy import exc

from taskstatus.adapters.mysql.errors import CAUSE_OF_CODE, Cause, DatabaseError, cause_of, code_of


def wrapped(error: Exception, *, invalidated: bool = False) -> exc.DBAPIError:
    """As the pool raises a driver's error."""
    return exc.DBAPIError("SELECT 1", (), error, connection_invalidated=invalidated)


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (err.OperationalError(1213, "Deadlock found"), Cause.CONFLICT),
        (err.OperationalError(1205, "Lock wait timeout exceeded"), Cause.CONFLICT),
        (err.OperationalError(1020, "Record has changed since last read"), Cause.CONFLICT),
        (err.IntegrityError(1062, "Duplicate entry"), Cause.DUPLICATE),
        (err.OperationalError(2013, "Lost connection to MySQL server during query"), Cause.LOST),
        (err.OperationalError(4031, "The client was disconnected by the server"), Cause.LOST),
        (err.InterfaceError(0, ""), Cause.LOST),
        (err.InterfaceError("Cancelled during execution"), Cause.LOST),
        (err.InternalError("Packet sequence number wrong"), Cause.LOST),
        (err.OperationalError(1290, "running with the --super-read-only option"), Cause.READ_ONLY),
        (err.InternalError(1792, "Cannot execute statement in a READ ONLY transaction"), Cause.READ_ONLY),
        (err.InternalError(1836, "Running in read-only mode"), Cause.READ_ONLY),
        (err.OperationalError(1040, "Too many connections"), Cause.BUSY),
        (err.OperationalError(3024, "maximum statement execution time exceeded"), Cause.BUSY),
        (err.DataError(1406, "Data too long"), Cause.REFUSED),
        (err.ProgrammingError(1146, "Table does not exist"), Cause.REFUSED),
        (err.ProgrammingError("nan can not be used with MySQL"), Cause.REFUSED),
    ],
)
def test_driver_error_means(error: Exception, cause: Cause) -> None:
    assert cause_of(wrapped(error)) is cause


def test_unknown_number_on_a_dropped_connection_is_lost() -> None:
    assert cause_of(wrapped(err.OperationalError(4999, "new"), invalidated=True)) is Cause.LOST


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (BrokenPipeError(), Cause.LOST),
        (TimeoutError(), Cause.LOST),
        (asyncio.IncompleteReadError(b"", 4), Cause.LOST),
        (exc.TimeoutError("QueuePool limit"), Cause.BUSY),
        (ValueError("a bug"), None),
        (KeyError("a bug"), None),
    ],
)
def test_error_outside_the_driver_means(error: Exception, cause: Cause | None) -> None:
    assert cause_of(error) is cause


def test_every_known_number_has_one_meaning() -> None:
    numbers = [code for code in CAUSE_OF_CODE if not isinstance(CAUSE_OF_CODE[code], Cause)]
    assert numbers == []
    assert Cause.REFUSED not in CAUSE_OF_CODE.values()


def test_text_of_an_error_has_the_number_and_never_the_servers_message() -> None:
    original = wrapped(err.IntegrityError(1062, "Duplicate entry 'secret-key' for key 'x'"))
    assert str(DatabaseError(Cause.DUPLICATE, code_of(original))) == "database error 1062"
