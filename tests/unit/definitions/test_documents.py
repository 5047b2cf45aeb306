"""Documents of definitions: what is refused, field by field, and what is stored (L-4, L-5)."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from taskstatus.adapters.definitions.documents import (
    DefinitionsError,
    operation_of,
    parse_file,
    read_definitions,
    statuses_of,
)
from taskstatus.adapters.definitions.schemas import CompiledSchemas
from taskstatus.domain.business_status import Severity
from taskstatus.domain.definitions import GENERIC_PROGRESS_SCHEMA, generic_profile
from taskstatus.domain.events import EXECUTION_EVENTS, TASK_EVENTS
from taskstatus.domain.lifecycle import Lifecycle

from .building import STATUSES, document, operation, status, statuses, stored


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        ({"version": 0}, "operations[0].version", "greater than or equal to 1"),
        ({"version": True}, "operations[0].version", "integer"),
        ({"producers": []}, "operations[0].producers", "at least 1 item"),
        ({"producers": ["a b"]}, "operations[0].producers[0]", "pattern"),
        ({"producers": ["a?"]}, "operations[0].producers[0]", "pattern"),
        ({"displayName": "a\nb"}, "operations[0].displayName", "pattern"),
        ({"events": ["TASK_COMPLETED"]}, "operations[0].events", "may never report TASK_COMPLETED"),
        ({"events": ["STEP_STARTED"]}, "operations[0]", "events that the operation does not allow"),
        ({"unknown": 1}, "operations[0].unknown", "not permitted"),
        ({"schema": {"type": "array"}}, "operations[0].schemas[0].schema", "must be of type object"),
        (
            {"schema": {"type": "object", "properties": {"a": {"$ref": "http://x.test/s"}}}},
            "operations[0].schemas[0].schema",
            "not within the schema",
        ),
        ({"schema": {"type": "object", "properties": {"a": {"pattern": "("}}}}, "operations[0].schemas[0].schema", "("),
        ({"schema": {"type": "object", "const": float("nan")}}, "operations[0].schemas[0].schema", "JSON"),
    ],
)
def test_l5_an_operation_that_cannot_be_used_names_the_field(changes: dict[str, Any], path: str, words: str) -> None:
    refuses([operation(**changes)], path, words)


def refuses(items: list[dict[str, Any]], path: str, words: str) -> None:
    """The document is refused for this field, with a sentence that holds these words."""
    with pytest.raises(DefinitionsError) as raised:
        stored(*items)
    found = {violation.field: violation.description for violation in raised.value.violations}
    assert path in found, found
    assert words in found[path]


@pytest.mark.parametrize(
    ("listed", "path", "words"),
    [
        ([], "statuses[0].statuses", "at least 1 item"),
        ([status("A"), status("B"), status("A")], "statuses[0].statuses[2].code", "A stands twice"),
        ([status("RETRY_WAIT", "FAILED")], "statuses[0].statuses[0].lifecycleStatus", "always means RUNNING"),
        ([status("A", allowedFrom=["B"])], "statuses[0].statuses[0].allowedFrom", "B is no status"),
        ([status("A", allowedFrom=[])], "statuses[0].statuses[0].allowedFrom", "at least 1 item"),
        ([status("A", "DONE")], "statuses[0].statuses[0].lifecycleStatus", "PENDING"),
        ([status("A b")], "statuses[0].statuses[0].code", "pattern"),
        ([status("A" * 65)], "statuses[0].statuses[0].code", "64"),
        ([status("A", terminal=True)], "statuses[0].statuses[0].terminal", "not permitted"),
        (
            [status("A", presentation={"titleKey": "<b>A</b>"})],
            "statuses[0].statuses[0].presentation.titleKey",
            "pattern",
        ),
        ([status("A", severity="LOUD")], "statuses[0].statuses[0].severity", "INFO"),
    ],
)
def test_l4_statuses_that_are_no_definition_name_the_field(listed: list[dict[str, Any]], path: str, words: str) -> None:
    refuses([{"taskType": "DOCUMENT_PROCESS", "version": 1, "statuses": listed}], path, words)


@pytest.mark.parametrize("task_type", ["*", "", "A B"])
def test_l4_statuses_belong_to_one_task_type(task_type: str) -> None:
    refuses([statuses(1, task_type=task_type)], "statuses[0].taskType", "pattern")


@pytest.mark.parametrize(("item", "path"), [(operation(), "operations[1]"), (statuses(), "statuses[1]")])
def test_l5_the_same_version_may_stand_once(item: dict[str, Any], path: str) -> None:
    refuses([item, item], f"{path}.version", "stands twice")


def test_l5_one_publication_compiles_a_bounded_number_of_schemas() -> None:
    schemas = [{"name": f"s{n}.v1", "events": ["STEP_COMPLETED"], "schema": {"type": "object"}} for n in range(50)]
    refuses([operation(schemas=schemas, operation=f"OP.{n}") for n in range(11)], "operations", "550 schemas in all")
    assert len(stored(*(operation(schemas=schemas, operation=f"OP.{n}") for n in range(10)))) == 10


def test_p2_a_whitelist_names_declared_fields_only() -> None:
    item = operation()
    item["schemas"][0] = item["schemas"][0] | {"detail": ["secret"]}
    refuses([item], "operations[0].schemas[0]", "secret")


def test_l4_what_is_stored_gives_the_same_definition_again() -> None:
    (kept,) = stored(statuses())
    definition = statuses_of(kept.body)
    assert (definition.task_type, definition.version) == ("DOCUMENT_PROCESS", 1)
    assert len(definition.statuses) == len(STATUSES)
    review = definition.status("WAITING_REVIEW")
    assert review is not None
    assert (review.lifecycle, review.severity) == (Lifecycle.RUNNING, Severity.WARNING)
    assert review.allowed_from == frozenset({"PARSING"})
    assert review.presentation.color_token == "warning"
    assert definition.status("RUNNING") is None


def test_l5_equal_content_is_stored_as_equal_text() -> None:
    turned = statuses(1, status("B", allowedFrom=["A", "PENDING"]), status("A"))
    again = json.loads(json.dumps(turned))
    again["statuses"][0]["allowedFrom"].reverse()
    assert stored(turned) == stored(dict(reversed(again.items())))
    assert operation_of(stored(operation())[0].body).events == EXECUTION_EVENTS


def test_l5_a_file_names_whose_definitions_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "definitions.yaml"
    path.write_text(json.dumps({"tenant": "t", "scope": "s", **document(operation(), statuses())}))
    found = read_definitions(path)
    assert (found.tenant_id, found.authority_scope) == ("t", "s")
    assert found.definitions == stored(operation(), statuses())


@pytest.mark.parametrize(
    ("text", "words"),
    [("a: [", "neither YAML nor JSON"), ("- 1", "the document"), ("tenant: t", "scope"), ("{}", "tenant")],
)
def test_l5_a_file_that_cannot_be_read_says_why(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "definitions.yaml"
    path.write_text(text)
    with pytest.raises(DefinitionsError, match=words):
        read_definitions(path)


def test_l5_dates_of_yaml_are_no_json() -> None:
    raw = {"tenant": "t", "scope": "s", **document(operation(schema={"type": "object", "const": date(2026, 11, 30)}))}
    with pytest.raises(DefinitionsError, match="the schema is no JSON"):
        parse_file(raw, "file")


def test_l5_the_generic_profile_never_ends_a_task() -> None:
    profile = generic_profile("ANY")
    assert profile.events == EXECUTION_EVENTS
    assert not profile.events & TASK_EVENTS
    assert profile.admits_producer("anyone")


def test_e12_a_violation_names_the_path_and_not_the_value() -> None:
    violation = CompiledSchemas().violation(GENERIC_PROGRESS_SCHEMA, {"message": 7, "items": 1})
    assert violation == "data.value.message breaks the rule «type» of generic.progress.v1"
