"""Definitions on every store: published whole or not at all, retired for good, and followed by every replica (L-5)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pytest

from taskstatus.adapters.definitions.catalogue import Catalogue, DefinitionRows
from taskstatus.adapters.definitions.publishing import Plan
from taskstatus.adapters.definitions.registry import READ_AT_ONCE, CachedRegistry
from taskstatus.adapters.definitions.versions import DefinitionChange, PublishedVersion
from taskstatus.adapters.memory.clock import MemoryDatabaseClock
from taskstatus.adapters.memory.definitions import MemoryDefinitionTable
from taskstatus.adapters.mysql.definition_table import DefinitionTable
from taskstatus.adapters.mysql.engine import open_database
from taskstatus.application.ports_definitions import DefinitionKey
from taskstatus.application.ports_store import StoreUnavailableError
from taskstatus.domain.definitions import GENERIC_VERSION
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.reasons import Reason
from tests.support.clients import unique
from tests.support.definitions import table_of
from tests.unit.definitions.building import DOCUMENT, SCHEMA, document, operation, status, statuses

CODE = "DOCUMENT.PARSE"
TableOf = Callable[[], DefinitionTable | MemoryDefinitionTable]


@dataclass
class Place:
    """A tenant and scope of its own in one store."""

    table: DefinitionTable | MemoryDefinitionTable
    tenant: str
    scope: str = "documents"

    @property
    def catalogue(self) -> Catalogue:
        """What publishes."""
        return Catalogue(self.table)

    async def publish(self, *items: dict[str, Any], scope: str = "", dry_run: bool = False) -> tuple[int, int]:
        """(published, unchanged)."""
        done = await self.catalogue.publish(self.tenant, scope or self.scope, document(*items), "test", dry_run=dry_run)
        return done.published, done.unchanged

    async def retire(self, version: int, operation_code: str = "", task_type: str = DOCUMENT) -> Any:
        """The time of retirement."""
        key = DefinitionKey(operation_code, task_type, version)
        return await self.catalogue.retire(self.tenant, self.scope, key)

    async def registry(self) -> CachedRegistry:
        """What a replica that starts now knows."""
        registry = CachedRegistry(self.table)
        await registry.run_once()
        return registry

    async def rows(self, scope: str = "") -> list[PublishedVersion]:
        """Everything published."""
        return list(await self.table.of_scope(self.tenant, scope or self.scope))

    def newest(self, registry: CachedRegistry, up_to: int | None = None, task_type: str = DOCUMENT) -> tuple[str, int]:
        """(task type, version) of the operation's definition that a new execution binds."""
        found = registry.latest(self.tenant, self.scope, task_type, CODE, up_to)
        return found.task_type, found.version


@pytest.fixture
async def place(implementation_url: str | None) -> AsyncIterator[Place]:
    """Nothing is published there yet."""
    if implementation_url is None:
        yield Place(MemoryDefinitionTable(MemoryDatabaseClock()), unique("t"))
        return
    database = open_database(implementation_url)
    yield Place(table_of(database), unique("t"))
    await database.dispose()


async def refused(call: Awaitable[Any]) -> RefusedError:
    """The refusal of a call."""
    with pytest.raises(RefusedError) as raised:
        await call
    return raised.value


async def test_l5_what_is_published_is_found_again_and_known_to_a_new_replica(place: Place) -> None:
    assert await place.publish(operation(taskType=DOCUMENT), operation(2, taskType=DOCUMENT), statuses(3)) == (3, 0)

    keys = {(row.key.operation_code, row.key.task_type, row.key.version) for row in await place.rows()}
    registry = await place.registry()

    assert keys == {(CODE, DOCUMENT, 1), (CODE, DOCUMENT, 2), ("", DOCUMENT, 3)}
    assert place.newest(registry) == (DOCUMENT, 2)
    versions = registry.type_versions(place.tenant, place.scope, DOCUMENT)
    assert (versions.statuses, versions.operations) == ({3: True}, {1: True, 2: True})
    known = registry.known_statuses(place.tenant, place.scope, DOCUMENT, 3)
    assert known is not None
    assert known.status("PARSING") is not None


async def test_l5_the_same_request_again_changes_nothing(place: Place) -> None:
    items = (operation(), statuses())
    await place.publish(*items)
    before = await place.rows()
    assert await place.publish(*items) == (0, 2)
    assert await place.publish(*items, operation(2)) == (1, 2)
    assert [row for row in await place.rows() if row.key.version == 1] == before


async def test_l5_a_request_with_one_problem_publishes_nothing_of_it(place: Place) -> None:
    await place.publish(operation(1), statuses(1))
    before = await place.rows()
    breaking = operation(2, SCHEMA | {"properties": {"pageCount": {"type": "string"}}})

    refusal = await refused(place.publish(breaking, statuses(2), operation(7, operation="OTHER")))

    assert refusal.reason is Reason.DEFINITION_INCOMPATIBLE
    assert "pageCount changed" in refusal.message
    assert await place.rows() == before


@pytest.mark.parametrize(
    ("items", "field"),
    [
        ([operation(0)], "operations[0].version"),
        ([statuses(1, status("A"), status("A"))], "statuses[0].statuses[1].code"),
        ([], "operations"),
    ],
)
async def test_l5_a_malformed_request_names_its_fields(place: Place, items: list[Any], field: str) -> None:
    refusal = await refused(place.publish(*items))
    assert (refusal.reason, refusal.violations[0].field) == (Reason.INVALID_ARGUMENT, field)
    assert await place.rows() == []


async def test_l5_a_dry_run_tells_and_publishes_nothing(place: Place) -> None:
    assert await place.publish(operation(), statuses(), dry_run=True) == (2, 0)
    assert await place.rows() == []
    await place.publish(operation())
    refusal = await refused(place.publish(operation(idempotent=True), dry_run=True))
    assert refusal.reason is Reason.DEFINITION_INCOMPATIBLE


@pytest.mark.parametrize("is_first", [True, False])
async def test_l5_of_two_publishers_at_once_one_wins_and_the_other_is_told(place: Place, is_first: bool) -> None:
    """Also where neither finds a row that it could lock."""
    if not is_first:
        await place.publish(statuses(1, status("BEFORE")))
    requests = [statuses(2, status(name)) for name in ("A", "B", "C", "D")]

    answers = await asyncio.gather(*(place.publish(item) for item in requests), return_exceptions=True)

    refusals = [answer for answer in answers if isinstance(answer, RefusedError)]
    assert [answer for answer in answers if not isinstance(answer, RefusedError)] == [(1, 0)]
    assert {refusal.reason for refusal in refusals} == {Reason.DEFINITION_INCOMPATIBLE}
    assert len([row for row in await place.rows() if row.key.version == 2]) == 1


async def test_l5_publishers_of_the_same_content_at_once_all_succeed(place: Place) -> None:
    answers = await asyncio.gather(*(place.publish(operation(), statuses()) for _ in range(4)))
    assert sorted(answers) == [(0, 2), (0, 2), (0, 2), (2, 0)]


async def test_l5_versions_rise_whoever_publishes_at_once(place: Place) -> None:
    versions = (4, 2, 5, 1, 3)
    answers = await asyncio.gather(
        *(place.publish(operation(version, schemas=[])) for version in versions), return_exceptions=True
    )
    accepted = [version for version, answer in zip(versions, answers, strict=True) if answer == (1, 0)]
    rows = sorted(await place.rows(), key=lambda row: row.published_at)
    assert sorted(accepted) == [row.key.version for row in rows]
    assert all(isinstance(answer, RefusedError) or answer == (1, 0) for answer in answers)


async def test_l5_a_retired_version_is_bound_no_more_and_stays_readable(place: Place) -> None:
    await place.publish(operation(taskType=DOCUMENT), operation(2, taskType=DOCUMENT), operation(9), statuses())
    registry = await place.registry()

    retired_at = await place.retire(2, CODE)
    assert await place.retire(1) is not None
    await registry.run_once()

    assert place.newest(registry) == (DOCUMENT, 1)
    assert (await registry.bound(place.tenant, place.scope, DOCUMENT, CODE, 2)).version == 2
    versions = registry.type_versions(place.tenant, place.scope, DOCUMENT)
    assert (versions.statuses, versions.operations) == ({1: False}, {1: True, 2: False})
    assert (await registry.bound_statuses(place.tenant, place.scope, DOCUMENT, 1)).version == 1
    await place.retire(1, CODE)
    await registry.run_once()
    assert place.newest(registry) == ("*", 9)
    assert await place.retire(2, CODE) == retired_at


async def test_l5_retiring_twice_gives_the_first_time_and_retiring_nothing_gives_none(place: Place) -> None:
    await place.publish(statuses())
    first = await place.retire(1)
    assert first is not None
    assert await place.retire(1) == first
    assert await place.retire(2) is None
    assert await place.retire(1, CODE) is None


async def test_l5_a_retired_version_still_counts_when_the_next_is_published(place: Place) -> None:
    await place.publish(operation(3))
    await place.retire(3, CODE, "*")
    refusal = await refused(place.publish(operation(2)))
    assert refusal.reason is Reason.DEFINITION_INCOMPATIBLE
    assert await place.publish(operation(3), operation(4)) == (1, 1)
    assert place.newest(await place.registry(), task_type="") == ("*", 4)


async def test_r8_a_bound_is_for_the_types_own_versions_only(place: Place) -> None:
    await place.publish(operation(2, taskType=DOCUMENT), operation(5, taskType=DOCUMENT), operation(8))
    registry = await place.registry()
    bounds = {up_to: place.newest(registry, up_to) for up_to in (None, 9, 5, 4, 2, 1, 0)}
    own = {None: 5, 9: 5, 5: 5, 4: 2, 2: 2}
    assert bounds == {up_to: (DOCUMENT, own[up_to]) if up_to in own else ("*", 8) for up_to in bounds}


async def test_l5_a_replica_follows_what_others_publish_and_retire(place: Place) -> None:
    registry = await place.registry()
    assert place.newest(registry) == ("*", GENERIC_VERSION)
    await place.publish(operation())
    assert await registry.run_once() == 1
    assert place.newest(registry) == ("*", 1)
    assert await registry.run_once() == 0
    await place.retire(1, CODE, "*")
    assert await registry.run_once() == 1
    assert place.newest(registry) == ("*", GENERIC_VERSION)


async def test_l4_a_bound_version_that_is_not_known_is_read_at_once(place: Place) -> None:
    registry = await place.registry()
    await place.publish(statuses(), operation(taskType=DOCUMENT))
    assert registry.known_statuses(place.tenant, place.scope, DOCUMENT, 1) is None
    assert (await registry.bound_statuses(place.tenant, place.scope, DOCUMENT, 1)).version == 1
    assert (await registry.bound(place.tenant, place.scope, DOCUMENT, CODE, 1)).version == 1
    with pytest.raises(LookupError):
        await registry.bound_statuses(place.tenant, place.scope, DOCUMENT, 2)


async def test_id1_another_scope_and_another_tenant_see_nothing_of_it(place: Place) -> None:
    await place.publish(operation(), statuses())
    assert await place.rows("other") == []
    registry = await place.registry()
    for tenant, scope in ((place.tenant, "other"), (unique("t"), place.scope)):
        assert registry.latest(tenant, scope, DOCUMENT, CODE).version == GENERIC_VERSION
        assert registry.type_versions(tenant, scope, DOCUMENT).statuses == {}
        assert registry.published_statuses(tenant, scope, DOCUMENT, 1) is None
        assert await place.catalogue.retire(tenant, scope, DefinitionKey("", DOCUMENT, 1)) is None


async def test_l5_people_get_the_statuses_of_the_scope_that_published_them_first(place: Place) -> None:
    await place.publish(statuses(1, status("OURS")))
    await place.publish(statuses(1, status("THEIRS")), scope="a-later-scope")
    registry = await place.registry()
    found = registry.published_statuses(place.tenant, None, DOCUMENT, 1)
    assert found is not None
    assert found.definition.status("OURS") is not None
    assert registry.published_statuses(place.tenant, None, DOCUMENT, 2) is None


async def test_l5_a_listing_holds_every_version_in_order_and_can_be_narrowed(place: Place) -> None:
    await place.publish(operation(2), operation(1), operation(1, operation="A.FIRST"), statuses(2), statuses(1))
    await place.retire(1)

    found = await place.catalogue.listing(place.tenant, place.scope, "", "")
    operations = [(item.definition.operation_code, item.definition.version) for item in found.operations]
    assert operations == [("A.FIRST", 1), (CODE, 1), (CODE, 2)]
    retired = [(item.definition.version, item.retired_at is not None) for item in found.statuses]
    assert retired == [(1, True), (2, False)]

    narrow = await place.catalogue.listing(place.tenant, place.scope, "*", CODE)
    assert ([item.definition.version for item in narrow.operations], narrow.statuses) == ([1, 2], ())
    typed = await place.catalogue.listing(place.tenant, place.scope, DOCUMENT, "")
    assert (typed.operations, len(typed.statuses)) == ((), 2)


async def test_l5_nothing_is_guessed_before_the_definitions_were_read(place: Place) -> None:
    registry = CachedRegistry(place.table)
    with pytest.raises(StoreUnavailableError):
        place.newest(registry)
    with pytest.raises(StoreUnavailableError):
        registry.type_versions(place.tenant, place.scope, DOCUMENT)
    await registry.start()
    assert place.newest(registry) == ("*", GENERIC_VERSION)
    await registry.stop()


def _rows_port(table: DefinitionTable | MemoryDefinitionTable) -> DefinitionRows:
    """Both tables are the port, by the type checker."""
    return table


async def test_l5_a_body_of_a_later_release_is_no_reason_to_know_nothing(place: Place) -> None:
    await place.publish(operation(1), operation(1, operation="OTHER"))
    rows = await place.rows()

    class Later:
        async def changes_since(self, _at: datetime) -> list[DefinitionChange]:
            return [row.change for row in rows]

        async def versions(self, _changes: Any) -> list[PublishedVersion]:
            return [replace(row, body='{"novel":1}') if row.key.operation_code == "OTHER" else row for row in rows]

    registry = CachedRegistry(Later())
    assert await registry.run_once() == 1
    assert place.newest(registry) == ("*", 1)
    with pytest.raises(StoreUnavailableError):
        await registry.bound(place.tenant, place.scope, "*", "OTHER", 1)


async def test_l5_what_is_known_is_never_read_again(place: Place) -> None:
    await place.publish(*(operation(version, schemas=[]) for version in range(1, 121)))
    reads: list[int] = []

    class Counted:
        changes_since = place.table.changes_since

        async def versions(self, changes: Any) -> Any:
            reads.append(len(changes))
            return await place.table.versions(changes)

    registry = CachedRegistry(Counted())
    first = await registry.run_once()
    assert max(reads) <= READ_AT_ONCE
    assert sum(reads) == first >= 120
    await place.retire(7, CODE, "*")
    assert (await registry.run_once(), reads[-1]) == (1, 1)
    assert await registry.run_once() == 0
    assert sum(reads) == first + 1


async def test_l5_a_plan_without_news_is_told_without_writing(place: Place) -> None:
    await place.publish(operation())
    nothing = Plan((), 1, (), ())
    found = await _rows_port(place.table).publish(place.tenant, place.scope, lambda _: nothing, "test")
    assert found == nothing
    assert len(await place.rows()) == 1
