"""What operators look at: stuck work of their own tenant and scope (H-8)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from datetime import datetime

from taskstatus.application.cursors import Query, from_micros, no_cursor, read_cursor, to_micros, write_cursor
from taskstatus.application.identity import ServiceIdentity
from taskstatus.application.ports_health import StuckExecution, StuckPart, StuckPosition, StuckWork
from taskstatus.domain.errors import invalid

STUCK_LIMIT_DEFAULT = 100
STUCK_LIMIT_MAX = 500

_CURSOR = struct.Struct(">Bq16s")


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
        """Executions and tasks that somebody should look at. Raises RefusedError INVALID_ARGUMENT."""
        if not 0 <= limit <= STUCK_LIMIT_MAX:
            raise invalid("limit", f"must be 1 to {STUCK_LIMIT_MAX}")
        after = position_of(caller, cursor) if cursor else None
        page = await self._stuck.page(caller.tenant_id, caller.authority_scope, after, limit or STUCK_LIMIT_DEFAULT)
        following = page.next_position
        return StuckListing(page.executions, "" if following is None else cursor_of(caller, following), page.as_of)


def cursor_of(caller: ServiceIdentity, position: StuckPosition) -> str:
    """The position as one opaque word, good for this caller's tenant and scope."""
    packed = _CURSOR.pack(position.part, to_micros(position.since), position.id)
    return write_cursor(_query(caller), packed)


def position_of(caller: ServiceIdentity, cursor: str) -> StuckPosition:
    """The position of a cursor. Raises RefusedError INVALID_ARGUMENT for anything that is none of this caller's."""
    packed = read_cursor(_query(caller), cursor, _CURSOR.size)
    part, micros, last_id = _CURSOR.unpack(packed)
    if part > max(StuckPart):
        raise no_cursor()
    return StuckPosition(StuckPart(part), from_micros(micros), last_id)


def _query(caller: ServiceIdentity) -> Query:
    return ("ListStuckTasks", caller.tenant_id, caller.authority_scope)
