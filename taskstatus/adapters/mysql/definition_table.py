"""``task_operation_definition`` and ``task_status_definition``: inserted once, retired perhaps, never changed (L-5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from taskstatus.adapters.definitions.catalogue import Planner
from taskstatus.adapters.definitions.publishing import Plan
from taskstatus.adapters.definitions.versions import DefinitionChange, PublishedVersion, StoredDefinition
from taskstatus.adapters.mysql.errors import Cause, DatabaseError
from taskstatus.adapters.mysql.reader import MySqlTaskReader
from taskstatus.adapters.mysql.session import Row, Session
from taskstatus.adapters.mysql.statements import Parameters, flatten
from taskstatus.adapters.mysql.transactions import MySqlTaskStore
from taskstatus.adapters.mysql.values import text
from taskstatus.application.ports_definitions import DefinitionKey
from taskstatus.application.ports_store import TransactionAttempt

_NOW = "SELECT SYSDATE(6) AS moment"
_VALUES = ("body", "published_at", "retired_at", "changed_at")
_INSERTED = ("body", "digest", "published_by", "published_at", "changed_at")


@dataclass(frozen=True, slots=True)
class Table:
    """One of the two tables; a status definition has no operation in its key."""

    name: str
    key: tuple[str, ...]

    @property
    def changes(self) -> str:
        """What changed at or after a time, from the index alone."""
        return f"{self._select(f'{self.name}_changed', 'changed_at')} WHERE {self.name}.changed_at>=%s"

    def versions(self, count: int) -> str:
        """So many versions by their keys."""
        columns = ",".join(f"{self.name}.{column}" for column in self.key)
        marks = ",".join([f"({','.join(['%s'] * len(self.key))})"] * count)
        return f"{self._select('PRIMARY', *_VALUES)} WHERE ({columns}) IN ({marks})"

    @property
    def of_scope(self) -> str:
        """Every version of a tenant and scope."""
        return f"{self._select('PRIMARY', *_VALUES)} WHERE {self._is(*_SCOPE)}"

    @property
    def locked_keys(self) -> str:
        """The keys of every version of a tenant and scope, locked."""
        return f"{self._select('PRIMARY')} WHERE {self._is(*_SCOPE)} FOR UPDATE"

    @property
    def locked_retirement(self) -> str:
        """When one version was retired; locked."""
        return f"{self._select('PRIMARY', 'retired_at')} WHERE {self._is(*self.key)} FOR UPDATE"

    @property
    def retire(self) -> str:
        """Set the time of retirement of one version."""
        return f"UPDATE {self.name} SET retired_at=%s,changed_at=%s WHERE {self._is(*self.key)}"

    @property
    def insert(self) -> str:
        """One version."""
        columns = (*self.key, *_INSERTED)
        return f"INSERT INTO {self.name} ({','.join(columns)}) VALUES ({','.join(['%s'] * len(columns))})"

    def _select(self, index: str, *columns: str) -> str:
        """The key and ``columns``, with an empty operation where there is none."""
        code = "operation_code" if "operation_code" in self.key else "'' AS operation_code"
        names = ("tenant_id", "authority_scope", code, "task_type", "definition_version", *columns)
        return f"SELECT {','.join(names)} FROM {self.name} FORCE INDEX ({index})"

    def _is(self, *columns: str) -> str:
        return " AND ".join(f"{self.name}.{column}=%s" for column in columns)

    def key_values(self, tenant_id: str, authority_scope: str, key: DefinitionKey) -> Parameters:
        """The values of ``key``."""
        operation = (key.operation_code,) if "operation_code" in self.key else ()
        return (tenant_id, authority_scope, *operation, key.task_type, key.version)


_SCOPE = ("tenant_id", "authority_scope")
_OPERATIONS = Table("task_operation_definition", (*_SCOPE, "operation_code", "task_type", "definition_version"))
_STATUSES = Table("task_status_definition", (*_SCOPE, "task_type", "definition_version"))
TABLES = (_OPERATIONS, _STATUSES)
"""In the order in which publishers lock them."""


class DefinitionTable:
    """Reads by the reader in one consistent view, publishing and retiring by the store's transactions.

    Every method raises StoreUnavailableError, the writing ones StoreRefusedError too.
    """

    def __init__(self, store: MySqlTaskStore, reader: MySqlTaskReader) -> None:
        self._store = store
        self._reader = reader

    async def changes_since(self, at: datetime) -> list[DefinitionChange]:
        """What was published or retired at or after a time of the database's clock, by that time."""

        async def read(session: Session) -> list[DefinitionChange]:
            found: list[DefinitionChange] = []
            for table in TABLES:
                rows = await session.rows(table.changes, (at,))
                found += [DefinitionChange(text(row[0]), text(row[1]), _key(row), row[5]) for row in rows]
            return found

        return sorted(await self._reader.view(read), key=lambda change: change.changed_at)

    async def versions(self, changes: Sequence[DefinitionChange]) -> list[PublishedVersion]:
        """These versions as they are now."""

        async def read(session: Session) -> list[PublishedVersion]:
            found: list[PublishedVersion] = []
            for table in TABLES:
                keys = [
                    table.key_values(each.tenant_id, each.authority_scope, each.key)
                    for each in changes
                    if _table(each.key) is table
                ]
                if keys:
                    found += map(_version, await session.rows(table.versions(len(keys)), flatten(keys)))
            return found

        return await self._reader.view(read)

    async def of_scope(self, tenant_id: str, authority_scope: str) -> list[PublishedVersion]:
        """Every version of a tenant and scope, retired ones too."""

        async def read(session: Session) -> list[PublishedVersion]:
            return await _of_scope(session, tenant_id, authority_scope)

        return await self._reader.view(read)

    async def publish(self, tenant_id: str, authority_scope: str, planner: Planner, published_by: str) -> Plan:
        """Insert what the planner finds new, all of it or none.

        The locks on the scope's rows make publishers wait for each other. Where there is no row yet that both could
        lock, each looks again after its inserts: the one who sees the other's starts again, or the server ends one of
        the two that wait for each other, which then starts again.
        """

        async def write(session: Session, _attempt: TransactionAttempt) -> Plan:
            before = await _of_scope(session, tenant_id, authority_scope, " FOR UPDATE")
            found = planner(before)
            if found.problems or not found.new:
                return found
            now = (await session.rows(_NOW))[0][0]
            for new in found.new:
                await _insert(session, tenant_id, authority_scope, new, published_by, now)
            after = await _locked_keys(session, tenant_id, authority_scope)
            if after != {row.key for row in before} | {new.key for new in found.new}:
                raise DatabaseError(Cause.CONFLICT, None)
            return found

        return await self._store.run(write)

    async def retire(self, tenant_id: str, authority_scope: str, key: DefinitionKey) -> datetime | None:
        """Set a version's time of retirement, unless it is set; the time. None: no such version."""
        table = _table(key)
        values = table.key_values(tenant_id, authority_scope, key)

        async def write(session: Session, _attempt: TransactionAttempt) -> datetime | None:
            rows = await session.rows(table.locked_retirement, values)
            if not rows:
                return None
            retired_at: datetime | None = rows[0][5]
            if retired_at is not None:
                return retired_at
            now: datetime = (await session.rows(_NOW))[0][0]
            await session.change(table.retire, (now, now, *values))
            return now

        return await self._store.run(write)


async def _of_scope(
    session: Session, tenant_id: str, authority_scope: str, locking: str = ""
) -> list[PublishedVersion]:
    scope, found = (tenant_id, authority_scope), list[PublishedVersion]()
    for table in TABLES:
        found += map(_version, await session.rows(table.of_scope + locking, scope))
    return found


async def _locked_keys(session: Session, tenant_id: str, authority_scope: str) -> set[DefinitionKey]:
    scope, keys = (tenant_id, authority_scope), set[DefinitionKey]()
    for table in TABLES:
        keys |= {_key(row) for row in await session.rows(table.locked_keys, scope)}
    return keys


async def _insert(
    session: Session, tenant_id: str, authority_scope: str, new: StoredDefinition, published_by: str, now: datetime
) -> None:
    table = _table(new.key)
    values = (new.body.encode(), new.digest, published_by, now, now)
    await session.change(table.insert, (*table.key_values(tenant_id, authority_scope, new.key), *values))


def _table(key: DefinitionKey) -> Table:
    return _OPERATIONS if key.operation_code else _STATUSES


def _key(row: Row) -> DefinitionKey:
    return DefinitionKey(text(row[2]), text(row[3]), row[4])


def _version(row: Row) -> PublishedVersion:
    body, published_at, retired_at, changed_at = row[5:]
    return PublishedVersion(text(row[0]), text(row[1]), _key(row), text(body), published_at, retired_at, changed_at)
