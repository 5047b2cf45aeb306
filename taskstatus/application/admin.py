"""What operators look at: stuck work of their own tenant and scope (H-8)."""

from __future__ import annotations

import base64
import struct
from dataclasses import dataclass
from datetime import datetime, timedelta

from taskstatus.application.identity import ServiceIdentity
from taskstatus.application.ports_health import StuckExecution, StuckPosition, StuckWork
from taskstatus.domain.errors import RefusedError, invalid

STUCK_LIMIT_DEFAULT = 100
STUCK_LIMIT_MAX = 500

_EPOCH = datetime(1970, 1, 1)
_CURSOR = struct.Struct(">?q16s")
_ALL_MICROSECONDS = (datetime.max - _EPOCH) // timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class StuckListing:
    """One page; ``next_cursor`` is empty at the end."""

    executions: tuple[StuckExecution, ...]
    next_cursor: str
    as_of: datetime


class Administration:
    """The methods of AdminService."""

    def __init__(self, stuck: StuckWork) -> None:
        self._stuck = stuck

    async def stuck_tasks(self, caller: ServiceIdentity, limit: int, cursor: str) -> StuckListing:
        """Executions that somebody should look at. Raises RefusedError INVALID_ARGUMENT."""
        if not 0 <= limit <= STUCK_LIMIT_MAX:
            raise invalid("limit", f"must be 1 to {STUCK_LIMIT_MAX}")
        after = position_of(cursor) if cursor else None
        page = await self._stuck.page(caller.tenant_id, caller.authority_scope, after, limit or STUCK_LIMIT_DEFAULT)
        following = page.next_position
        return StuckListing(page.executions, "" if following is None else cursor_of(following), page.as_of)


def cursor_of(position: StuckPosition) -> str:
    """The position as one opaque word, safe in a URL."""
    micros = (position.since - _EPOCH) // timedelta(microseconds=1)
    packed = _CURSOR.pack(position.waiting, micros, position.execution_id)
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def position_of(cursor: str) -> StuckPosition:
    """The position of a cursor. Raises RefusedError INVALID_ARGUMENT for anything that is none."""
    try:
        packed = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        waiting, micros, execution_id = _CURSOR.unpack(packed)
    except (ValueError, struct.error):
        raise _no_cursor() from None
    if not 0 <= micros <= _ALL_MICROSECONDS:
        raise _no_cursor()
    return StuckPosition(waiting, _EPOCH + timedelta(microseconds=micros), execution_id)


def _no_cursor() -> RefusedError:
    return invalid("cursor", "must be the next_cursor of an earlier page")
