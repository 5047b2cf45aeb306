"""Publishing: versions immutable and rising, schemas only gain optional fields (L-5)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskstatus.adapters.definitions import publishing
from taskstatus.adapters.definitions.publishing import plan
from taskstatus.adapters.definitions.versions import PublishedVersion
from tests.unit.factories import SCOPE, START, TENANT

from .building import SCHEMA, operation, published, status, statuses, stored


@pytest.mark.parametrize("item", [operation(), statuses()])
def test_l5_the_same_content_in_another_order_is_unchanged(item: dict[str, Any]) -> None:
    found = plan(stored(dict(reversed(item.items()))), published(item))
    assert (found.new, found.unchanged, found.problems, found.differences) == ((), 1, (), ())


@pytest.mark.parametrize(
    ("before", "after"),
    [(operation(), operation(idempotent=True)), (statuses(), statuses(1, status("OTHER")))],
)
def test_l5_a_published_version_never_changes(before: dict[str, Any], after: dict[str, Any]) -> None:
    found = plan(stored(after), published(before))
    assert found.new == ()
    assert "cannot change; publish version 2" in found.problems[0]


@pytest.mark.parametrize("make", [operation, statuses])
def test_l5_a_version_rises_above_the_newest_one(make: Any) -> None:
    found = plan(stored(make(2)), published(make(3)))
    assert found.new == ()
    assert "is older than the published version 3" in found.problems[0]


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (SCHEMA | {"properties": SCHEMA["properties"] | {"language": {"type": "string"}}}, None),  # type: ignore[operator]
        (SCHEMA | {"properties": {"pages": {"type": "integer"}}, "required": []}, "pageCount was removed"),
        (SCHEMA | {"properties": {"pageCount": {"type": "string"}}}, "pageCount changed"),
        (
            SCHEMA | {"properties": SCHEMA["properties"] | {"l": {"type": "string"}}, "required": ["pageCount", "l"]},  # type: ignore[operator]
            "l became required",
        ),
        (SCHEMA | {"additionalProperties": False}, "changed in more than its properties"),
    ],
)
def test_l5_a_schema_may_only_gain_optional_fields(schema: dict[str, Any], problem: str | None) -> None:
    found = plan(stored(operation(2, schema)), published(operation()))
    if problem is None:
        assert (len(found.new), found.problems) == (1, ())
    else:
        assert problem in found.problems[0]


def test_l5_a_schema_that_comes_back_is_compared_with_the_last_of_its_name() -> None:
    gone = published(operation(1), operation(2, schemas=[]))
    assert plan(stored(operation(3)), gone).problems == ()
    other = plan(stored(operation(3, SCHEMA | {"properties": {"pageCount": {"type": "string"}}})), gone)
    assert "pageCount changed" in other.problems[0]


def test_l5_versions_of_one_request_follow_each_other() -> None:
    broken = operation(2, SCHEMA | {"properties": {"pageCount": {"type": "string"}}})
    found = plan(stored(broken, operation(1)), ())
    assert [item.key.version for item in found.new] == [1, 2]
    assert "pageCount changed" in found.problems[0]


def test_l5_another_task_type_has_versions_of_its_own() -> None:
    wanted = stored(operation(1, taskType="VIDEO"), statuses(1, task_type="VIDEO"))
    found = plan(wanted, published(operation(5), statuses(5)))
    assert (len(found.new), found.problems) == (2, ())


def test_l4_a_new_version_may_drop_and_remap_statuses() -> None:
    """Running tasks are bound to theirs for good."""
    found = plan(stored(statuses(2, status("PARSING", "PENDING"))), published(statuses(1)))
    assert (len(found.new), found.problems) == (1, ())


def test_l5_the_difference_is_shown_against_the_newest_version() -> None:
    found = plan(stored(operation(2, producers=["document-*"]), statuses(1)), published(operation()))
    by_statuses, by_operation = sorted(found.differences, key=lambda text: "DOCUMENT.PARSE" in text)
    assert '+    "document-*"' in by_operation
    assert "version 1" in by_operation
    assert "the statuses of DOCUMENT_PROCESS version 0" in by_statuses


def test_l5_a_scope_holds_a_bounded_number_of_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "MAX_VERSIONS", 2)
    assert plan(stored(statuses(1), statuses(2)), ()).problems == ()
    assert "at most 2" in plan(stored(statuses(3)), published(statuses(1), statuses(2))).problems[0]


def test_l5_a_scope_holds_a_bounded_amount_of_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "MAX_CHARACTERS", len(stored(statuses(1))[0].body))
    assert plan(stored(statuses(1)), ()).problems == ()
    assert "characters" in plan(stored(statuses(2)), published(statuses(1))).problems[0]


REQUESTS = st.lists(
    st.lists(
        st.builds(
            lambda version, codes: statuses(version, *(status(code) for code in codes)),
            st.integers(1, 4),
            st.lists(st.sampled_from(["A", "B"]), min_size=1, unique=True),
        ),
        min_size=1,
        max_size=2,
        unique_by=lambda item: item["version"],
    ),
    max_size=6,
)


@given(REQUESTS)
def test_l5_whatever_is_sent_versions_rise_and_none_is_ever_replaced(requests: list[list[dict[str, Any]]]) -> None:
    table: dict[int, PublishedVersion] = {}
    for request in requests:
        found = plan(stored(*request), list(table.values()))
        if found.problems:
            continue
        for new in found.new:
            assert new.key.version > max(table, default=0)
            table[new.key.version] = PublishedVersion(TENANT, SCOPE, new.key, new.body, START, None, START)
        again = plan(stored(*request), list(table.values()))
        assert (again.new, again.unchanged) == ((), len(request))
