"""``task_operation_definition``: published versions are inserted once and never changed (L-5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncEngine

from taskstatus.adapters.mysql.errors import DatabaseError
from taskstatus.adapters.mysql.session import Row, open_session
from taskstatus.adapters.mysql.values import text
from taskstatus.application.ports_store import StoreUnavailableError

_COLUMNS = "tenant_id,authority_scope,task_type,operation_code,definition_version,body,published_at"
_SINCE = (
    f"SELECT {_COLUMNS} FROM task_operation_definition WHERE task_operation_definition.published_at>=%s"
    " ORDER BY task_operation_definition.published_at"
)
_OF_SCOPE = (
    f"SELECT {_COLUMNS} FROM task_operation_definition"
    " WHERE task_operation_definition.tenant_id=%s AND task_operation_definition.authority_scope=%s"
    " ORDER BY operation_code,task_type,definition_version"
)
_INSERT = (
    "INSERT INTO task_operation_definition"
    "(tenant_id,authority_scope,task_type,operation_code,definition_version,body,digest,published_by,published_at)"
    " VALUES (%s,%s,%s,%s,%s,%s,%s,%s,SYSDATE(6))"
)


@dataclass(frozen=True, slots=True)
class DefinitionRow:
    """One published version."""

    tenant_id: str
    authority_scope: str
    task_type: str
    operation_code: str
    version: int
    body: str
    published_at: datetime


@dataclass(frozen=True, slots=True)
class NewDefinition:
    """One version to publish."""

    tenant_id: str
    authority_scope: str
    task_type: str
    operation_code: str
    version: int
    body: str
    digest: bytes
    published_by: str


class DefinitionTable:
    """Reads on the reader pool, publishing on the writer pool."""

    def __init__(self, reader: AsyncEngine, writer: AsyncEngine) -> None:
        self._reader = reader
        self._writer = writer

    async def published_since(self, at: datetime) -> list[DefinitionRow]:
        """Versions published at or after a time of the database's clock. Raises StoreUnavailableError."""
        try:
            return await self._rows(self._reader, _SINCE, (at,))
        except DatabaseError as error:
            raise StoreUnavailableError(str(error)) from error

    async def of_scope(self, tenant_id: str, authority_scope: str) -> list[DefinitionRow]:
        """Every version of a tenant and scope. Raises DatabaseError."""
        return await self._rows(self._writer, _OF_SCOPE, (tenant_id, authority_scope))

    async def publish(self, definitions: Sequence[NewDefinition]) -> None:
        """Insert all or none. Raises DatabaseError, also for a version that exists already."""
        async with open_session(self._writer) as session:
            await session.begin()
            for new in definitions:
                await session.change(
                    _INSERT,
                    (
                        new.tenant_id,
                        new.authority_scope,
                        new.task_type,
                        new.operation_code,
                        new.version,
                        new.body.encode(),
                        new.digest,
                        new.published_by,
                    ),
                )
            await session.commit()

    async def _rows(self, engine: AsyncEngine, statement: str, parameters: tuple[object, ...]) -> list[DefinitionRow]:
        """In a transaction, so that a connection with an answer outstanding never returns to the pool."""
        async with open_session(engine) as session:
            await session.begin()
            rows = await session.rows(statement, parameters)
            await session.commit()
            return [_row(row) for row in rows]


def _row(row: Row) -> DefinitionRow:
    tenant_id, scope, task_type, operation, version, body, published_at = row
    return DefinitionRow(
        text(tenant_id), text(scope), text(task_type), text(operation), version, text(body), published_at
    )
