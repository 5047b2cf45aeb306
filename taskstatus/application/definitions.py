"""The definitions of a tenant and scope for administrators, and its statuses for whoever shows tasks (L-4, L-5)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from taskstatus.application.identity import Identity, ServiceIdentity
from taskstatus.application.ports_definitions import (
    DefinitionCatalogue,
    DefinitionKey,
    DefinitionListing,
    DefinitionRegistry,
    Publication,
    PublishedStatuses,
)
from taskstatus.domain.business_status import GENERIC_STATUS_VERSION, generic_statuses
from taskstatus.domain.definitions import Json
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.reasons import Reason


class Definitions:
    """The definition methods of AdminService and QueryService."""

    def __init__(self, catalogue: DefinitionCatalogue, registry: DefinitionRegistry) -> None:
        self._catalogue = catalogue
        self._registry = registry

    async def publish(self, caller: ServiceIdentity, document: Mapping[str, Json], *, dry_run: bool) -> Publication:
        """Publish all of a document or nothing; this replica knows it when the answer is given.

        Raises RefusedError INVALID_ARGUMENT, DEFINITION_INCOMPATIBLE.
        """
        publication = await self._catalogue.publish(
            caller.tenant_id, caller.authority_scope, document, f"service:{caller.producer_id}", dry_run=dry_run
        )
        if publication.published and not dry_run:
            await self._registry.refresh()
        return publication

    async def listing(self, caller: ServiceIdentity, task_type: str, operation_code: str) -> DefinitionListing:
        """What is published in the caller's scope. Raises RefusedError INVALID_ARGUMENT."""
        return await self._catalogue.listing(caller.tenant_id, caller.authority_scope, task_type, operation_code)

    async def retire(self, caller: ServiceIdentity, key: DefinitionKey) -> datetime:
        """Let nothing new bind a version; the time since when. Raises RefusedError DEFINITION_NOT_FOUND."""
        retired_at = await self._catalogue.retire(caller.tenant_id, caller.authority_scope, key)
        if retired_at is None:
            raise _not_found()
        await self._registry.refresh()
        return retired_at

    async def statuses(self, identity: Identity, task_type: str, version: int) -> PublishedStatuses:
        """The statuses that tasks of this type and version show; version 0 are the generic ones, whatever the type.

        A service asks for its own scope. A person has none: they get the definition of the scope that published this
        type and version first. Raises RefusedError DEFINITION_NOT_FOUND.
        """
        if version == GENERIC_STATUS_VERSION:
            return PublishedStatuses(generic_statuses(task_type), None, None)
        scope = identity.authority_scope if isinstance(identity, ServiceIdentity) else None
        found = self._registry.published_statuses(identity.tenant_id, scope, task_type, version)
        if found is None:
            await self._registry.refresh()
            found = self._registry.published_statuses(identity.tenant_id, scope, task_type, version)
        if found is None:
            raise _not_found()
        return found


def _not_found() -> RefusedError:
    return RefusedError(Reason.DEFINITION_NOT_FOUND, "no such definition")
