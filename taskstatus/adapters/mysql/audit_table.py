"""``report_audit``: appended in batches, cleaned by the time in its ids (N-4)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy.ext.asyncio import AsyncEngine

from taskstatus.adapters.mysql.errors import DatabaseError
from taskstatus.adapters.mysql.session import open_session
from taskstatus.application.ids_factory import IdFactory
from taskstatus.application.ports_audit import RejectedReport
from taskstatus.application.ports_store import StoreUnavailableError
from taskstatus.domain.ids import make_id

_COLUMNS = (
    "id,tenant_id,authority_scope,producer_id,transport,reason,event_id,event_type,task_id,step_id,trace_id,received_at"
)
_ROW = "(%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s)"
_CLEAN = "DELETE FROM report_audit WHERE report_audit.id<%s LIMIT %s"


class AuditTable:
    """Writes on the writer pool, one statement per batch, outside every write transaction of events."""

    def __init__(self, engine: AsyncEngine, ids: IdFactory) -> None:
        self._engine = engine
        self._ids = ids

    async def append(self, reports: Sequence[RejectedReport]) -> None:
        """Insert all. Raises StoreUnavailableError."""
        parameters = tuple(value for report in reports for value in self._row(report))
        await self._change(
            f"INSERT INTO report_audit ({_COLUMNS}) VALUES {','.join([_ROW] * len(reports))}", parameters
        )

    async def clean(self, before_unix: float, limit: int) -> int:
        """Delete up to ``limit`` rows that are older; returns how many there were. Raises StoreUnavailableError."""
        return await self._change(_CLEAN, (make_id(int(before_unix * 1000), 0, 0), limit))

    async def _change(self, statement: str, parameters: tuple[object, ...]) -> int:
        try:
            async with open_session(self._engine) as session:
                await session.begin()
                changed = await session.change(statement, parameters)
                await session.commit()
                return changed
        except DatabaseError as error:
            raise StoreUnavailableError(str(error)) from error

    def _row(self, report: RejectedReport) -> tuple[object, ...]:
        return (
            self._ids.new(0),
            report.tenant_id,
            report.authority_scope,
            report.producer_id,
            report.transport,
            report.reason.value,
            report.event_id,
            report.event_type,
            report.task_id,
            report.step_id,
            report.trace_id,
            datetime.fromtimestamp(report.received_unix, UTC).replace(tzinfo=None),
        )
