"""Ports of the definitions: which version applies, publishing a new one, and whether a value fits its schema (L-5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from taskstatus.domain.business_status import StatusDefinition
from taskstatus.domain.classification import TypeVersions
from taskstatus.domain.definitions import DataSchema, Json, JsonObject, OperationDefinition


@dataclass(frozen=True, slots=True)
class PublishedOperation:
    """One published version of an operation."""

    definition: OperationDefinition
    published_at: datetime
    retired_at: datetime | None
    """Since when nothing new binds it; None while it may be bound."""


@dataclass(frozen=True, slots=True)
class PublishedStatuses:
    """One published version of the statuses of a task type."""

    definition: StatusDefinition
    published_at: datetime | None
    """None for the generic statuses, which nobody published."""
    retired_at: datetime | None


@dataclass(frozen=True, slots=True)
class DefinitionKey:
    """Names one published version within a tenant and scope."""

    operation_code: str
    """Empty: the status definition of the task type."""
    task_type: str
    version: int


@dataclass(frozen=True, slots=True)
class Publication:
    """What publishing did, or would do."""

    published: int
    """Versions that were new."""
    unchanged: int
    """Versions that existed just so."""
    differences: tuple[str, ...]
    """Unified differences against the newest published versions, for people."""


@dataclass(frozen=True, slots=True)
class DefinitionListing:
    """Published versions, retired ones too."""

    operations: tuple[PublishedOperation, ...]
    """By operation, task type and version."""
    statuses: tuple[PublishedStatuses, ...]
    """By task type and version."""


class StatusDefinitions(Protocol):
    """The status definitions that tasks are bound to."""

    def known_statuses(
        self, tenant_id: str, authority_scope: str, task_type: str, version: int
    ) -> StatusDefinition | None:
        """The version, retired or not, from memory; None when this process has not read it."""
        ...

    async def bound_statuses(
        self, tenant_id: str, authority_scope: str, task_type: str, version: int
    ) -> StatusDefinition:
        """The same, read now where it is not known.

        Raises StoreUnavailableError when it cannot be read, LookupError when the store does not hold it.
        """
        ...


class DefinitionRegistry(StatusDefinitions, Protocol):
    """Published definitions, from memory; what is new reaches every replica within seconds.

    Every method raises StoreUnavailableError rather than guess while the definitions have never been read.
    """

    def latest(
        self,
        tenant_id: str,
        authority_scope: str,
        task_type: str,
        operation_code: str,
        up_to: int | None = None,
    ) -> OperationDefinition:
        """The newest version for the task type, else for any type, else the generic profile; never a retired one.

        ``up_to``: of the type's own versions none above it; None: no bound.
        """
        ...

    async def bound(
        self, tenant_id: str, authority_scope: str, task_type: str, operation_code: str, version: int
    ) -> OperationDefinition:
        """The version that an execution was bound to, retired or not; one that is not known is read now."""
        ...

    def type_versions(self, tenant_id: str, authority_scope: str, task_type: str) -> TypeVersions:
        """What is published of a task type itself."""
        ...

    def published_statuses(
        self, tenant_id: str, authority_scope: str | None, task_type: str, version: int
    ) -> PublishedStatuses | None:
        """The version, retired or not; without a scope that of the tenant's scope that published it first."""
        ...

    async def refresh(self) -> None:
        """Read now what is new. Raises StoreUnavailableError."""
        ...


class DefinitionCatalogue(Protocol):
    """Publishes, lists and retires; every method raises StoreUnavailableError."""

    async def publish(
        self, tenant_id: str, authority_scope: str, document: Mapping[str, Json], published_by: str, *, dry_run: bool
    ) -> Publication:
        """Publish a document (``operations``, ``statuses``) as a whole or not at all; safe to send again.

        Raises RefusedError INVALID_ARGUMENT with a violation for each field of the document, and
        DEFINITION_INCOMPATIBLE where it would change or break what is published.
        """
        ...

    async def listing(
        self, tenant_id: str, authority_scope: str, task_type: str, operation_code: str
    ) -> DefinitionListing:
        """What is published; empty texts leave a condition out, an operation leaves the statuses out.

        Raises RefusedError INVALID_ARGUMENT when it is too much for one answer.
        """
        ...

    async def retire(self, tenant_id: str, authority_scope: str, key: DefinitionKey) -> datetime | None:
        """Let nothing new bind a version; the time since when, also when it was retired before. None: no such one."""
        ...


class SchemaValidator(Protocol):
    """Validates values against compiled JSON Schemas; no remote reference is ever followed."""

    def violation(self, schema: DataSchema, value: JsonObject) -> str | None:
        """What is wrong with the value, as a path and a sentence that does not repeat it; None when it fits."""
        ...
