"""Publishing, listing and retiring definitions over a table of published versions (L-5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from taskstatus.adapters.definitions.documents import DefinitionsError, operation_of, parse_document, statuses_of
from taskstatus.adapters.definitions.publishing import Plan, plan
from taskstatus.adapters.definitions.versions import PublishedVersion, StoredDefinition
from taskstatus.application.ports_definitions import (
    DefinitionKey,
    DefinitionListing,
    Publication,
    PublishedOperation,
    PublishedStatuses,
)
from taskstatus.domain.definitions import Json
from taskstatus.domain.errors import FieldViolation, RefusedError, invalid
from taskstatus.domain.reasons import Reason

LISTING_MAX_BYTES = 3 * 1024 * 1024
"""Of stored text in one listing: a gRPC client takes 4 MiB unless told otherwise."""
TOLD_PROBLEMS = 5
TOLD_VIOLATIONS, TOLD_CHARACTERS = 10, 200
"""Errors travel in headers, which have room for a few kilobytes."""
TOLD_DIFFERENCE_CHARACTERS = 20_000
"""Of each difference in an answer; a version may be far longer than anybody reads."""

Planner = Callable[[Sequence[PublishedVersion]], Plan]
"""What to publish beside everything that is published in the scope."""


class DefinitionRows(Protocol):
    """The table of published versions; every method raises StoreUnavailableError."""

    async def of_scope(self, tenant_id: str, authority_scope: str) -> Sequence[PublishedVersion]:
        """Every version of a tenant and scope."""
        ...

    async def publish(self, tenant_id: str, authority_scope: str, planner: Planner, published_by: str) -> Plan:
        """Insert what the planner finds new, all in one transaction; nothing while it finds problems.

        Publishers of one scope come one after the other: what the planner has seen is all there is at the commit.
        """
        ...

    async def retire(self, tenant_id: str, authority_scope: str, key: DefinitionKey) -> datetime | None:
        """Set a version's time of retirement, unless it is set; the time. None: no such version."""
        ...


class Catalogue:
    """The port DefinitionCatalogue."""

    def __init__(self, rows: DefinitionRows) -> None:
        self._rows = rows

    async def publish(
        self, tenant_id: str, authority_scope: str, document: Mapping[str, Json], published_by: str, *, dry_run: bool
    ) -> Publication:
        """See the port."""
        try:
            wanted = parse_document(document, "the request")
        except DefinitionsError as error:
            raise _invalid(error.violations) from None
        if not wanted:
            raise invalid("operations", "neither operations nor statuses are given")
        return await self.publish_all(tenant_id, authority_scope, wanted, published_by, dry_run=dry_run)

    async def publish_all(
        self,
        tenant_id: str,
        authority_scope: str,
        wanted: Sequence[StoredDefinition],
        published_by: str,
        *,
        dry_run: bool,
    ) -> Publication:
        """The same for definitions that were read already. Raises RefusedError DEFINITION_INCOMPATIBLE."""
        if dry_run:
            found = plan(wanted, await self._rows.of_scope(tenant_id, authority_scope))
        else:
            found = await self._rows.publish(
                tenant_id, authority_scope, lambda published: plan(wanted, published), published_by
            )
        if found.problems:
            raise _incompatible(found.problems)
        differences = tuple(each[:TOLD_DIFFERENCE_CHARACTERS] for each in found.differences)
        return Publication(len(found.new), found.unchanged, differences)

    async def listing(
        self, tenant_id: str, authority_scope: str, task_type: str, operation_code: str
    ) -> DefinitionListing:
        """See the port."""
        rows = [
            row
            for row in await self._rows.of_scope(tenant_id, authority_scope)
            if task_type in ("", row.key.task_type) and operation_code in ("", row.key.operation_code)
        ]
        if sum(len(row.body) for row in rows) > LISTING_MAX_BYTES:
            raise invalid("operationCode", "too much is published for one answer: name an operation, or a task type")
        return DefinitionListing(
            operations=tuple(
                PublishedOperation(operation_of(row.body), row.published_at, row.retired_at)
                for row in sorted(rows, key=_by_operation)
                if row.key.operation_code
            ),
            statuses=tuple(
                PublishedStatuses(statuses_of(row.body), row.published_at, row.retired_at)
                for row in sorted(rows, key=_by_operation)
                if not row.key.operation_code
            ),
        )

    async def retire(self, tenant_id: str, authority_scope: str, key: DefinitionKey) -> datetime | None:
        """See the port."""
        return await self._rows.retire(tenant_id, authority_scope, key)


def _by_operation(row: PublishedVersion) -> tuple[str, str, int]:
    return (row.key.operation_code, row.key.task_type, row.key.version)


def _invalid(violations: Sequence[FieldViolation]) -> RefusedError:
    told = tuple(
        FieldViolation(each.field[:TOLD_CHARACTERS], each.description[:TOLD_CHARACTERS])
        for each in violations[:TOLD_VIOLATIONS]
    )
    return RefusedError(Reason.INVALID_ARGUMENT, f"{told[0].field}: {told[0].description}", told)


def _incompatible(problems: Sequence[str]) -> RefusedError:
    told = "; ".join(problem[: 2 * TOLD_CHARACTERS] for problem in problems[:TOLD_PROBLEMS])
    more = len(problems) - TOLD_PROBLEMS
    return RefusedError(
        Reason.DEFINITION_INCOMPATIBLE,
        f"{told}; and {more} more" if more > 0 else told,
        metadata={"problems": str(len(problems))},
    )
