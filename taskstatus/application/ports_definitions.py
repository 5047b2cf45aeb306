"""Ports of the definition registry: which version applies, and whether a value fits its schema (L-5)."""

from __future__ import annotations

from typing import Protocol

from taskstatus.domain.definitions import DataSchema, JsonObject, OperationDefinition


class DefinitionRegistry(Protocol):
    """Published operation definitions, from memory; a new version reaches every replica within seconds.

    Both methods raise StoreUnavailableError rather than guess while the definitions have never been read.
    """

    def latest(self, tenant_id: str, authority_scope: str, task_type: str, operation_code: str) -> OperationDefinition:
        """The newest version for the task type, else for any type, else the generic profile."""
        ...

    async def bound(
        self, tenant_id: str, authority_scope: str, task_type: str, operation_code: str, version: int
    ) -> OperationDefinition:
        """The version that an execution was bound to; one that this replica has not seen yet is read now."""
        ...


class SchemaValidator(Protocol):
    """Validates values against compiled JSON Schemas; no remote reference is ever followed."""

    def violation(self, schema: DataSchema, value: JsonObject) -> str | None:
        """What is wrong with the value, as a path and a sentence that does not repeat it; None when it fits."""
        ...
