"""Operation definitions in memory (port ``DefinitionRegistry``)."""

from __future__ import annotations

from taskstatus.application.ports_store import StoreUnavailableError
from taskstatus.domain.definitions import ANY_TASK_TYPE, GENERIC_VERSION, OperationDefinition, generic_profile


class MemoryRegistry:
    """One tenant's and scope's definitions, the same for all; more may be added while it is used."""

    def __init__(self, *definitions: OperationDefinition) -> None:
        self.definitions = list(definitions)
        self.unavailable = False

    def latest(self, tenant_id: str, authority_scope: str, task_type: str, operation_code: str) -> OperationDefinition:
        """See the port."""
        self._check_available()
        for kind in dict.fromkeys((task_type or ANY_TASK_TYPE, ANY_TASK_TYPE)):
            found = [d for d in self.definitions if (d.operation_code, d.task_type) == (operation_code, kind)]
            if found:
                return max(found, key=lambda definition: definition.version)
        return generic_profile(operation_code)

    async def bound(
        self, tenant_id: str, authority_scope: str, task_type: str, operation_code: str, version: int
    ) -> OperationDefinition:
        """See the port."""
        self._check_available()
        if version == GENERIC_VERSION:
            return generic_profile(operation_code)
        for definition in self.definitions:
            if (definition.operation_code, definition.task_type, definition.version) == (
                operation_code,
                task_type,
                version,
            ):
                return definition
        raise StoreUnavailableError(f"definition {operation_code} version {version} is not visible yet")

    def _check_available(self) -> None:
        if self.unavailable:
            raise StoreUnavailableError("the definitions have not been read yet")
