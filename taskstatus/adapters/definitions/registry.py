"""Definitions in memory: read whole at start, then what is new every few seconds, in every replica (L-5)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

from taskstatus.adapters.definitions.documents import OperationDocument
from taskstatus.application.ports_store import StoreUnavailableError
from taskstatus.domain.definitions import ANY_TASK_TYPE, GENERIC_VERSION, OperationDefinition, generic_profile

logger = logging.getLogger(__name__)

REFRESH_SECONDS = 2.0
OVERLAP = timedelta(seconds=60)
"""A version's time is taken before its commit, so that one may become visible after a later one."""
_BEGINNING = datetime(1970, 1, 1)

Key = tuple[str, str, str, str]
"""(tenant, scope, task type, operation)."""


class PublishedRow(Protocol):
    """One published version as the table gives it."""

    @property
    def tenant_id(self) -> str: ...
    @property
    def authority_scope(self) -> str: ...
    @property
    def task_type(self) -> str: ...
    @property
    def operation_code(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def body(self) -> str: ...
    @property
    def published_at(self) -> datetime: ...


class PublishedDefinitions(Protocol):
    """Where published versions are read."""

    async def published_since(self, at: datetime) -> Sequence[PublishedRow]:
        """Versions published at or after a time; raises StoreUnavailableError."""
        ...


class CachedRegistry:
    """The port DefinitionRegistry; ``start`` begins to follow, ``run_once`` reads once, ``stop`` ends."""

    def __init__(self, table: PublishedDefinitions) -> None:
        self._table = table
        self._versions: dict[Key, dict[int, OperationDefinition]] = {}
        self._newest = _BEGINNING
        self._loaded = False
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    def latest(self, tenant_id: str, authority_scope: str, task_type: str, operation_code: str) -> OperationDefinition:
        """See the port."""
        self._check_loaded()
        for kind in dict.fromkeys((task_type or ANY_TASK_TYPE, ANY_TASK_TYPE)):
            versions = self._versions.get((tenant_id, authority_scope, kind, operation_code))
            if versions:
                return versions[max(versions)]
        return generic_profile(operation_code)

    async def bound(
        self, tenant_id: str, authority_scope: str, task_type: str, operation_code: str, version: int
    ) -> OperationDefinition:
        """See the port."""
        if version == GENERIC_VERSION:
            return generic_profile(operation_code)
        key = (tenant_id, authority_scope, task_type, operation_code)
        found = self._versions.get(key, {}).get(version)
        if found is None:
            await self.run_once()
            found = self._versions.get(key, {}).get(version)
        if found is None:
            raise StoreUnavailableError(f"definition {operation_code} version {version} is not visible yet")
        return found

    async def run_once(self) -> int:
        """Read what is new; the number of versions learnt. Raises StoreUnavailableError."""
        since = self._newest - OVERLAP if self._newest > _BEGINNING else _BEGINNING
        learnt = 0
        for row in await self._table.published_since(since):
            learnt += self._learn(row)
            self._newest = max(self._newest, row.published_at)
        self._loaded = True
        return learnt

    def _learn(self, row: PublishedRow) -> int:
        versions = self._versions.setdefault(
            (row.tenant_id, row.authority_scope, row.task_type, row.operation_code), {}
        )
        if row.version in versions:
            return 0
        versions[row.version] = OperationDocument.model_validate_json(row.body).definition()
        logger.info("definition learnt", extra={"operationCode": row.operation_code, "definitionVersion": row.version})
        return 1

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
