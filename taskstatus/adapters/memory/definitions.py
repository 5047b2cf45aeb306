"""Definitions in memory: a table of published versions, and a registry whose definitions a test gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from taskstatus.adapters.definitions.catalogue import Planner
from taskstatus.adapters.definitions.publishing import Plan
from taskstatus.adapters.definitions.shelf import DefinitionShelf
from taskstatus.adapters.definitions.versions import DefinitionChange, PublishedVersion
from taskstatus.adapters.memory.clock import MemoryDatabaseClock
from taskstatus.application.ports_definitions import DefinitionKey, PublishedOperation, PublishedStatuses
from taskstatus.application.ports_store import StoreUnavailableError
from taskstatus.domain.business_status import StatusDefinition
from taskstatus.domain.classification import TypeVersions
from taskstatus.domain.definitions import GENERIC_VERSION, OperationDefinition, generic_profile

_ANYONE = ("", "")
"""Tenant and scope of definitions that are the same for all."""


class MemoryDefinitionTable:
    """Published versions, as the real tables keep them (``DefinitionRows``, ``PublishedDefinitions``)."""

    def __init__(self, clock: MemoryDatabaseClock) -> None:
        self._clock = clock
        self._rows: dict[tuple[str, str, DefinitionKey], PublishedVersion] = {}
        self.unavailable = False

    async def changes_since(self, at: datetime) -> Sequence[DefinitionChange]:
        """See ``PublishedDefinitions``."""
        self._check_available()
        changes = [row.change for row in self._rows.values() if row.changed_at >= at]
        return sorted(changes, key=lambda change: change.changed_at)

    async def versions(self, changes: Sequence[DefinitionChange]) -> Sequence[PublishedVersion]:
        """See ``PublishedDefinitions``."""
        self._check_available()
        return [self._rows[(change.tenant_id, change.authority_scope, change.key)] for change in changes]

    async def of_scope(self, tenant_id: str, authority_scope: str) -> Sequence[PublishedVersion]:
        """See ``DefinitionRows``."""
        self._check_available()
        scope = (tenant_id, authority_scope)
        return [row for row in self._rows.values() if (row.tenant_id, row.authority_scope) == scope]

    async def publish(self, tenant_id: str, authority_scope: str, planner: Planner, published_by: str) -> Plan:
        """See ``DefinitionRows``."""
        found = planner(await self.of_scope(tenant_id, authority_scope))
        if not found.problems:
            now = self._clock.read()
            for new in found.new:
                row = PublishedVersion(tenant_id, authority_scope, new.key, new.body, now, None, now)
                self._rows[(tenant_id, authority_scope, new.key)] = row
        return found

    async def retire(self, tenant_id: str, authority_scope: str, key: DefinitionKey) -> datetime | None:
        """See ``DefinitionRows``."""
        self._check_available()
        row = self._rows.get((tenant_id, authority_scope, key))
        if row is None or row.retired_at is not None:
            return None if row is None else row.retired_at
        now = self._clock.read()
        self._rows[(tenant_id, authority_scope, key)] = replace(row, retired_at=now, changed_at=now)
        return now

    def _check_available(self) -> None:
        if self.unavailable:
            raise StoreUnavailableError("the in-memory table was told to be unavailable")


class MemoryRegistry:
    """Port ``DefinitionRegistry`` over given definitions, the same for every tenant and scope; more may be added."""

    def __init__(self, *definitions: OperationDefinition | StatusDefinition) -> None:
        self._shelf = DefinitionShelf()
        self.unavailable = False
        self.add(*definitions)

    def add(self, *definitions: OperationDefinition | StatusDefinition, retired_at: datetime | None = None) -> None:
        """Publish definitions, or with ``retired_at`` retire them."""
        for definition in definitions:
            if isinstance(definition, StatusDefinition):
                self._shelf.put_statuses(*_ANYONE, PublishedStatuses(definition, datetime.min, retired_at))
            else:
                self._shelf.put_operation(*_ANYONE, PublishedOperation(definition, datetime.min, retired_at))

    def latest(
        self,
        tenant_id: str,
        authority_scope: str,
        task_type: str,
        operation_code: str,
        up_to: int | None = None,
    ) -> OperationDefinition:
        """See the port."""
        self._check_available()
        return self._shelf.latest(*_ANYONE, task_type, operation_code, up_to)

    async def bound(
        self, tenant_id: str, authority_scope: str, task_type: str, operation_code: str, version: int
    ) -> OperationDefinition:
        """See the port."""
        self._check_available()
        if version == GENERIC_VERSION:
            return generic_profile(operation_code)
        found = self._shelf.operation(*_ANYONE, task_type, operation_code, version)
        if found is None:
            raise StoreUnavailableError(f"definition {operation_code} version {version} is not visible yet")
        return found.definition

    def type_versions(self, tenant_id: str, authority_scope: str, task_type: str) -> TypeVersions:
        """See the port."""
        self._check_available()
        return self._shelf.type_versions(*_ANYONE, task_type)

    def known_statuses(
        self, tenant_id: str, authority_scope: str, task_type: str, version: int
    ) -> StatusDefinition | None:
        """See the port."""
        return self._shelf.known_statuses(*_ANYONE, task_type, version)

    async def bound_statuses(
        self, tenant_id: str, authority_scope: str, task_type: str, version: int
    ) -> StatusDefinition:
        """See the port."""
        self._check_available()
        found = self._shelf.known_statuses(*_ANYONE, task_type, version)
        if found is None:
            raise LookupError(f"statuses of {task_type} version {version} are not published")
        return found

    def published_statuses(
        self, tenant_id: str, authority_scope: str | None, task_type: str, version: int
    ) -> PublishedStatuses | None:
        """See the port."""
        self._check_available()
        return self._shelf.statuses(*_ANYONE, task_type, version)

    async def refresh(self) -> None:
        """See the port: everything is known already."""
        self._check_available()

    def _check_available(self) -> None:
        if self.unavailable:
            raise StoreUnavailableError("the definitions have not been read yet")
