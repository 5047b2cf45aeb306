"""Definitions in memory: read whole at start, then what changed every few seconds, in every replica (L-5)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

from taskstatus.adapters.definitions.documents import operation_of, statuses_of
from taskstatus.adapters.definitions.shelf import DefinitionShelf
from taskstatus.adapters.definitions.versions import DefinitionChange, PublishedVersion
from taskstatus.application.ports_definitions import PublishedOperation, PublishedStatuses
from taskstatus.application.ports_store import StoreUnavailableError
from taskstatus.domain.business_status import StatusDefinition
from taskstatus.domain.classification import TypeVersions
from taskstatus.domain.definitions import GENERIC_VERSION, OperationDefinition, generic_profile

logger = logging.getLogger(__name__)

REFRESH_SECONDS = 2.0
OVERLAP = timedelta(seconds=60)
"""A change's time is taken before its commit, so that one may become visible after a later one."""
READ_AT_ONCE = 50
_BEGINNING = datetime(1970, 1, 1)


class PublishedDefinitions(Protocol):
    """Where published versions are read; both methods raise StoreUnavailableError."""

    async def changes_since(self, at: datetime) -> Sequence[DefinitionChange]:
        """What was published or retired at or after a time, by that time."""
        ...

    async def versions(self, changes: Sequence[DefinitionChange]) -> Sequence[PublishedVersion]:
        """These versions as they are now."""
        ...


class CachedRegistry:
    """The port DefinitionRegistry; ``start`` begins to follow, ``run_once`` reads once, ``stop`` ends."""

    def __init__(self, table: PublishedDefinitions) -> None:
        self._table = table
        self._shelf = DefinitionShelf()
        self._seen: set[DefinitionChange] = set()
        self._newest = _BEGINNING
        self._loaded = False
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    def latest(
        self,
        tenant_id: str,
        authority_scope: str,
        task_type: str,
        operation_code: str,
        up_to: int | None = None,
    ) -> OperationDefinition:
        """See the port."""
        self._check_loaded()
        return self._shelf.latest(tenant_id, authority_scope, task_type, operation_code, up_to)

    async def bound(
        self, tenant_id: str, authority_scope: str, task_type: str, operation_code: str, version: int
    ) -> OperationDefinition:
        """See the port."""
        if version == GENERIC_VERSION:
            return generic_profile(operation_code)
        found = self._shelf.operation(tenant_id, authority_scope, task_type, operation_code, version)
        if found is None:
            await self.run_once()
            found = self._shelf.operation(tenant_id, authority_scope, task_type, operation_code, version)
        if found is None:
            raise StoreUnavailableError(f"definition {operation_code} version {version} is not visible yet")
        return found.definition

    def type_versions(self, tenant_id: str, authority_scope: str, task_type: str) -> TypeVersions:
        """See the port."""
        self._check_loaded()
        return self._shelf.type_versions(tenant_id, authority_scope, task_type)

    def known_statuses(
        self, tenant_id: str, authority_scope: str, task_type: str, version: int
    ) -> StatusDefinition | None:
        """See the port."""
        return self._shelf.known_statuses(tenant_id, authority_scope, task_type, version)

    async def bound_statuses(
        self, tenant_id: str, authority_scope: str, task_type: str, version: int
    ) -> StatusDefinition:
        """See the port."""
        found = self.known_statuses(tenant_id, authority_scope, task_type, version)
        if found is None:
            await self.run_once()
            found = self.known_statuses(tenant_id, authority_scope, task_type, version)
        if found is None:
            raise LookupError(f"statuses of {task_type} version {version} are not published")
        return found

    def published_statuses(
        self, tenant_id: str, authority_scope: str | None, task_type: str, version: int
    ) -> PublishedStatuses | None:
        """See the port."""
        self._check_loaded()
        if authority_scope is None:
            return self._shelf.first_statuses(tenant_id, task_type, version)
        return self._shelf.statuses(tenant_id, authority_scope, task_type, version)

    async def refresh(self) -> None:
        """See the port."""
        await self.run_once()

    async def run_once(self) -> int:
        """Read what changed; the number of versions learnt or newly retired. Raises StoreUnavailableError."""
        since = self._newest - OVERLAP if self._newest > _BEGINNING else _BEGINNING
        new = [change for change in await self._table.changes_since(since) if change not in self._seen]
        learnt = 0
        for first in range(0, len(new), READ_AT_ONCE):
            for row in await self._table.versions(new[first : first + READ_AT_ONCE]):
                learnt += self._learn(row)
        self._loaded = True
        return learnt

    def _learn(self, row: PublishedVersion) -> int:
        if row.change in self._seen:
            return 0
        told = {
            "operationCode": row.key.operation_code,
            "taskType": row.key.task_type,
            "definitionVersion": row.key.version,
        }
        self._seen.add(row.change)
        self._newest = max(self._newest, row.changed_at)
        try:
            self._put(row)
        except ValueError:
            # Of a later release, most likely. All else goes on; what is bound to it is for the newer replicas.
            logger.exception("a published definition is not understood", extra=told)
            return 0
        logger.info("definition learnt", extra=told)
        return 1

    def _put(self, row: PublishedVersion) -> None:
        if row.key.operation_code:
            operation = PublishedOperation(operation_of(row.body), row.published_at, row.retired_at)
            self._shelf.put_operation(row.tenant_id, row.authority_scope, operation)
        else:
            statuses = PublishedStatuses(statuses_of(row.body), row.published_at, row.retired_at)
            self._shelf.put_statuses(row.tenant_id, row.authority_scope, statuses)

    def _check_loaded(self) -> None:
        if not self._loaded:
            raise StoreUnavailableError("the definitions have not been read yet")

    async def start(self) -> None:
        """Read once, if the database answers, and go on reading in the background."""
        await self._try_once()
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """End; may be called twice."""
        self._stopping.set()
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                async with asyncio.timeout(REFRESH_SECONDS):
                    await self._stopping.wait()
            except TimeoutError:
                await self._try_once()

    async def _try_once(self) -> None:
        try:
            await self.run_once()
        except StoreUnavailableError as error:
            logger.warning("definitions could not be read: %s", error)
