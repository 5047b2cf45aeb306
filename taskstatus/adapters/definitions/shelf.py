"""Published definitions in memory, and which of them applies (L-5)."""

from __future__ import annotations

from datetime import datetime

from taskstatus.application.ports_definitions import PublishedOperation, PublishedStatuses
from taskstatus.domain.business_status import StatusDefinition
from taskstatus.domain.classification import TypeVersions
from taskstatus.domain.definitions import ANY_TASK_TYPE, OperationDefinition, generic_profile

TypeKey = tuple[str, str, str]
"""(tenant, scope, task type)."""


class DefinitionShelf:
    """Grows by ``put_…`` only: published versions stay readable for good, retired ones are not chosen any more."""

    def __init__(self) -> None:
        self._operations: dict[TypeKey, dict[str, dict[int, PublishedOperation]]] = {}
        self._statuses: dict[TypeKey, dict[int, PublishedStatuses]] = {}
        self._scopes: dict[tuple[str, str, int], dict[str, PublishedStatuses]] = {}
        """(tenant, task type, version) → scope → the definition."""

    def put_operation(self, tenant_id: str, authority_scope: str, published: PublishedOperation) -> None:
        """Keep a version, or what has become of it."""
        definition = published.definition
        of_type = self._operations.setdefault((tenant_id, authority_scope, definition.task_type), {})
        of_type.setdefault(definition.operation_code, {})[definition.version] = published

    def put_statuses(self, tenant_id: str, authority_scope: str, published: PublishedStatuses) -> None:
        """Keep a version, or what has become of it."""
        definition = published.definition
        task_type, version = definition.task_type, definition.version
        self._statuses.setdefault((tenant_id, authority_scope, task_type), {})[version] = published
        self._scopes.setdefault((tenant_id, task_type, version), {})[authority_scope] = published

    def latest(
        self, tenant_id: str, authority_scope: str, task_type: str, operation_code: str, up_to: int | None
    ) -> OperationDefinition:
        """The newest version for the type that is not above ``up_to``, else for any type, else the generic profile."""
        for kind in dict.fromkeys((task_type or ANY_TASK_TYPE, ANY_TASK_TYPE)):
            bound = None if kind == ANY_TASK_TYPE else up_to
            found = self._newest((tenant_id, authority_scope, kind), operation_code, bound)
            if found is not None:
                return found
        return generic_profile(operation_code)

    def _newest(self, key: TypeKey, operation_code: str, up_to: int | None) -> OperationDefinition | None:
        versions = self._operations.get(key, {}).get(operation_code, {})
        open_versions = (
            version
            for version, published in versions.items()
            if published.retired_at is None and (up_to is None or version <= up_to)
        )
        newest = max(open_versions, default=None)
        return None if newest is None else versions[newest].definition

    def operation(
        self, tenant_id: str, authority_scope: str, task_type: str, operation_code: str, version: int
    ) -> PublishedOperation | None:
        """One version, retired or not."""
        of_type = self._operations.get((tenant_id, authority_scope, task_type), {})
        return of_type.get(operation_code, {}).get(version)

    def statuses(self, tenant_id: str, authority_scope: str, task_type: str, version: int) -> PublishedStatuses | None:
        """One version, retired or not."""
        return self._statuses.get((tenant_id, authority_scope, task_type), {}).get(version)

    def known_statuses(
        self, tenant_id: str, authority_scope: str, task_type: str, version: int
    ) -> StatusDefinition | None:
        """The definition alone."""
        published = self.statuses(tenant_id, authority_scope, task_type, version)
        return None if published is None else published.definition

    def first_statuses(self, tenant_id: str, task_type: str, version: int) -> PublishedStatuses | None:
        """Of several scopes of the tenant the one that published first: a later one never changes the answer."""
        by_scope = self._scopes.get((tenant_id, task_type, version), {})
        first = min(by_scope, key=lambda scope: (by_scope[scope].published_at or datetime.min, scope), default=None)
        return None if first is None else by_scope[first]

    def type_versions(self, tenant_id: str, authority_scope: str, task_type: str) -> TypeVersions:
        """What is published of a type itself, without what holds for any type."""
        key = (tenant_id, authority_scope, task_type)
        operations: dict[int, bool] = {}
        for versions in self._operations.get(key, {}).values():
            for version, published in versions.items():
                operations[version] = operations.get(version, False) or published.retired_at is None
        statuses = {version: each.retired_at is None for version, each in self._statuses.get(key, {}).items()}
        return TypeVersions(task_type, statuses, operations)
