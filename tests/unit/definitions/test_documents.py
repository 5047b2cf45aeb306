"""The file of definitions: what is refused, and how a new version is compared with the published ones (L-5)."""

from __future__ import annotations

from typing import Any

import pytest

from taskstatus.adapters.definitions.documents import DefinitionsError, StoredDefinition, parse_definitions
from taskstatus.adapters.definitions.publishing import plan
from taskstatus.adapters.definitions.schemas import CompiledSchemas
from taskstatus.domain.definitions import GENERIC_PROGRESS_SCHEMA, generic_profile
from taskstatus.domain.events import EXECUTION_EVENTS, TASK_EVENTS

SCHEMA = {"type": "object", "properties": {"pageCount": {"type": "integer"}}, "required": ["pageCount"]}


def operation(version: int = 1, schema: dict[str, Any] = SCHEMA, **changes: Any) -> dict[str, Any]:
    return {
        "operation": "DOCUMENT.PARSE",
        "version": version,
        "producers": ["document-parser"],
        "schemas": [{"name": "document.parse.completed.v2", "events": ["STEP_COMPLETED"], "schema": schema}],
        **changes,
    }


def stored(*operations: dict[str, Any]) -> list[StoredDefinition]:
    return parse_definitions({"tenant": "t", "scope": "s", "operations": list(operations)}, "file")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": 0}, "version"),
        ({"producers": []}, "producers"),
        ({"producers": ["a b"]}, "producers"),
        ({"producers": ["a?"]}, "producers"),
        ({"events": ["TASK_COMPLETED"]}, "may never report TASK_COMPLETED"),
        ({"events": ["STEP_STARTED"]}, "events that the operation does not allow"),
        ({"unknown": 1}, "unknown"),
        ({"schema": {"type": "array"}}, "must be of type object"),
        ({"schema": {"type": "object", "properties": {"a": {"$ref": "http://x.test/s"}}}}, "not within the schema"),
        ({"schema": {"type": "object", "properties": {"a": {"pattern": "("}}}}, "schemas"),
    ],
)
def test_l5_a_file_that_cannot_be_used_names_the_field(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(DefinitionsError, match=words):
        stored(operation(**changes))


def test_p2_a_whitelist_names_declared_fields_only() -> None:
    item = operation()
    item["schemas"][0] = item["schemas"][0] | {"detail": ["secret"]}
    with pytest.raises(DefinitionsError, match="secret"):
        stored(item)


def test_l5_the_same_content_in_another_order_is_unchanged() -> None:
    published = stored(operation())
    again = stored(dict(reversed(operation().items())))
    assert plan(again, published).unchanged == 1


def test_l5_a_published_version_never_changes() -> None:
    changes = plan(stored(operation(idempotent=True)), stored(operation()))
    assert changes.new == ()
    assert "cannot change; publish version 2" in changes.problems[0]


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (SCHEMA | {"properties": SCHEMA["properties"] | {"language": {"type": "string"}}}, None),
        (SCHEMA | {"properties": {"pages": {"type": "integer"}}, "required": []}, "pageCount was removed"),
        (SCHEMA | {"properties": {"pageCount": {"type": "string"}}}, "pageCount changed"),
        (
            SCHEMA | {"properties": SCHEMA["properties"] | {"l": {"type": "string"}}, "required": ["pageCount", "l"]},
            "l became required",
        ),
        (SCHEMA | {"additionalProperties": False}, "changed in more than its properties"),
    ],
)
def test_l5_a_schema_may_only_gain_optional_fields(schema: dict[str, Any], problem: str | None) -> None:
    changes = plan(stored(operation(2, schema)), stored(operation()))
    if problem is None:
        assert (len(changes.new), changes.problems) == (1, ())
    else:
        assert problem in changes.problems[0]


def test_l5_the_difference_is_shown_against_the_newest_version() -> None:
    changes = plan(stored(operation(2, producers=["document-*"])), stored(operation()))
    assert '+    "document-*"' in changes.differences[0]
    assert "version 1" in changes.differences[0]


def test_l5_the_generic_profile_never_ends_a_task() -> None:
    profile = generic_profile("ANY")
    assert profile.events == EXECUTION_EVENTS
    assert not profile.events & TASK_EVENTS
    assert profile.admits_producer("anyone")


def test_e12_a_violation_names_the_path_and_not_the_value() -> None:
    violation = CompiledSchemas().violation(GENERIC_PROGRESS_SCHEMA, {"message": 7, "items": 1})
    assert violation == "data.value.message breaks the rule «type» of generic.progress.v1"
