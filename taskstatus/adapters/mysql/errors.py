"""What a database error means, in one table: run the transaction again, on which connection, or give up."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from sqlalchemy import exc


class Cause(StrEnum):
    """Why a statement failed, by what helps."""

    CONFLICT = "CONFLICT"
    """Another transaction was in the way: roll back and run all of it again."""
    DUPLICATE = "DUPLICATE"
    """A unique key is taken: running again finds the row that took it."""
    LOST = "LOST"
    """The connection is gone or silent; a fresh one may work."""
    READ_ONLY = "READ_ONLY"
    """The server was demoted: every pooled connection leads to it."""
    BUSY = "BUSY"
    """The server cannot serve this now: overloaded, full, starting, or closed to us."""
    REFUSED = "REFUSED"
    """The rows or the statement themselves; running again cannot help."""


_CODES: Mapping[Cause, frozenset[int]] = {
    # Lock wait time-out (undoes the statement only), deadlock, MariaDB's changed-since-read.
    Cause.CONFLICT: frozenset({1205, 1213, 1020}),
    Cause.DUPLICATE: frozenset({1062, 1586}),
    # Shutdown, aborted or broken packets, killed connections, cannot connect, gone away, idle time-out.
    Cause.LOST: frozenset(
        {0, 1053, 1152, 1158, 1159, 1160, 1161, 1184, 1927, 2002, 2003, 2005, 2006, 2013, 2014, 2027, 2055, 3169, 4031}
    ),
    Cause.READ_ONLY: frozenset({1290, 1792, 1836}),
    # Disk or memory full, too many connections, killed or timed-out queries, not (yet) allowed in.
    Cause.BUSY: frozenset(
        {1021, 1037, 1038, 1040, 1044, 1045, 1047, 1049, 1114, 1129, 1135, 1203, 1206, 1226, 1317, 1698, 1969, 3024}
    ),
}

CAUSE_OF_CODE: Mapping[int, Cause] = {code: cause for cause, codes in _CODES.items() for code in codes}
"""Every known error number; any other is REFUSED."""

_DRIVER_TROUBLE = ("InterfaceError", "OperationalError", "InternalError")
"""Errors that a driver raises without a number when the conversation with the server broke down."""


class DatabaseError(Exception):
    """A statement failed. ``in_commit`` means that the COMMIT may or may not have happened.

    The text carries the number only: server messages repeat values of the row.
    """

    def __init__(self, cause: Cause, code: int | None, *, in_commit: bool = False) -> None:
        super().__init__(f"database error {code}" if code is not None else "database connection failed")
        self.cause = cause
        self.code = code
        self.in_commit = in_commit


def code_of(error: BaseException) -> int | None:
    """The server's or driver's error number; None when there is none."""
    original = getattr(error, "orig", None) or error
    args = getattr(original, "args", ())
    return args[0] if args and isinstance(args[0], int) else None


def cause_of(error: BaseException) -> Cause | None:
    """What an error of the driver means; None when it is not one of the database."""
    if isinstance(error, exc.TimeoutError):
        return Cause.BUSY
    if isinstance(error, exc.DBAPIError):
        return _cause_of_dbapi(error)
    if isinstance(error, OSError | EOFError):
        return Cause.LOST
    return None


def _cause_of_dbapi(error: exc.DBAPIError) -> Cause:
    code = code_of(error)
    if code is not None:
        return CAUSE_OF_CODE.get(code, Cause.LOST if error.connection_invalidated else Cause.REFUSED)
    # A value that the driver itself cannot send is a ProgrammingError or DataError without a number.
    broken = type(error.orig).__name__ in _DRIVER_TROUBLE
    return Cause.LOST if broken else Cause.REFUSED
