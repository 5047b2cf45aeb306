"""Which version applies: the newest that is not retired, of the type within the task's bound, else of any (L-5)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskstatus.adapters.definitions.shelf import DefinitionShelf
from taskstatus.application.ports_definitions import PublishedOperation, PublishedStatuses
from taskstatus.domain.business_status import BusinessStatus, StatusDefinition
from taskstatus.domain.definitions import ANY_TASK_TYPE
from taskstatus.domain.lifecycle import Lifecycle
from tests.unit.factories import SCOPE, START, TENANT, an_operation

DOCUMENT, CODE = "DOCUMENT_PROCESS", "DOCUMENT.PARSE"
publications = st.dictionaries(
    st.tuples(st.sampled_from([DOCUMENT, ANY_TASK_TYPE, "VIDEO"]), st.sampled_from([CODE, "OTHER"]), st.integers(1, 4)),
    st.booleans(),
)
"""(task type, operation, version) → whether it is retired."""


def shelf_of(published: dict[tuple[str, str, int], bool]) -> DefinitionShelf:
    """A shelf with these."""
    shelf = DefinitionShelf()
    for (task_type, code, version), is_retired in published.items():
        definition = an_operation(code, version, task_type=task_type)
        shelf.put_operation(TENANT, SCOPE, PublishedOperation(definition, START, START if is_retired else None))
    return shelf


@given(publications, st.sampled_from([DOCUMENT, ""]), st.none() | st.integers(0, 5))
def test_l5_latest_is_the_newest_open_version_of_the_type_else_of_any(
    published: dict[tuple[str, str, int], bool], task_type: str, up_to: int | None
) -> None:
    found = shelf_of(published).latest(TENANT, SCOPE, task_type, CODE, up_to)

    def open_versions(kind: str) -> list[int]:
        keys = (key for key, is_retired in published.items() if not is_retired)
        return [version for type_, code, version in keys if (type_, code) == (kind, CODE)]

    own = [v for v in open_versions(task_type) if up_to is None or v <= up_to] if task_type else []
    expected = (DOCUMENT, max(own)) if own else (ANY_TASK_TYPE, max(open_versions(ANY_TASK_TYPE), default=0))
    assert (found.task_type, found.version) == expected


@given(publications)
def test_l5_a_version_of_a_type_is_open_while_any_operation_of_it_is(
    published: dict[tuple[str, str, int], bool],
) -> None:
    versions = shelf_of(published).type_versions(TENANT, SCOPE, DOCUMENT).operations
    own = [(version, is_retired) for (kind, _, version), is_retired in published.items() if kind == DOCUMENT]
    assert versions == {
        version: not all(is_retired for each, is_retired in own if each == version) for version, _ in own
    }


@given(publications)
def test_l5_every_version_stays_readable(published: dict[tuple[str, str, int], bool]) -> None:
    shelf = shelf_of(published)
    for task_type, code, version in published:
        found = shelf.operation(TENANT, SCOPE, task_type, code, version)
        assert found is not None
        assert (found.definition.operation_code, found.definition.version) == (code, version)
    assert shelf.operation(TENANT, SCOPE, DOCUMENT, CODE, 9) is None


@pytest.mark.parametrize("order", ["amz", "zma"])
def test_l5_of_several_scopes_the_first_to_publish_is_shown_to_people(order: str) -> None:
    shelf = DefinitionShelf()
    seconds = {"a": 1, "m": 0, "z": 2}
    for scope in order:
        definition = StatusDefinition(DOCUMENT, 1, (BusinessStatus(f"OF_{scope}", Lifecycle.RUNNING),))
        at = START + timedelta(seconds=seconds[scope])
        shelf.put_statuses(TENANT, scope, PublishedStatuses(definition, at, None))
    found = shelf.first_statuses(TENANT, DOCUMENT, 1)
    assert found is not None
    assert found.definition.status("OF_m") is not None
    assert shelf.first_statuses("another", DOCUMENT, 1) is None
    assert shelf.first_statuses(TENANT, DOCUMENT, 2) is None
