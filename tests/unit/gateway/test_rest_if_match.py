"""The If-Match header stands for the version that a command expects (R-8, L-7)."""

from __future__ import annotations

import pytest

from gateway_rest.request_message import version_field
from gateway_rest.routes import Binding, load_bindings, stub_files

from .support import FakeDispatch, rest_client

BINDINGS = load_bindings(stub_files())
CONDITIONAL = [binding for binding in BINDINGS if version_field(binding) is not None]
METADATA = "/internal/v1/tasks/task_1/metadata"
WORKFLOW = "/internal/v1/workflows/wf_1"


def _path(binding: Binding) -> str:
    return binding.template.text.replace("{", "").replace("}", "")


def _word(binding: Binding) -> str:
    field = version_field(binding)
    assert field is not None
    return "workflow" if field.name == "expected_workflow_version" else "task"


def test_r8_commands_that_take_a_condition_are_those_that_change_a_version_seen() -> None:
    names = {binding.descriptor.name for binding in CONDITIONAL}
    assert names == {"ClassifyTask", "UpdateTaskMetadata", "CorrectTask", "UpdateWorkflow"}


@pytest.mark.parametrize("binding", CONDITIONAL, ids=lambda each: each.template.text)
def test_r8_expected_version_is_taken_from_the_header(binding: Binding) -> None:
    dispatch = FakeDispatch()
    headers = {"if-match": f'"{_word(binding)}-version-4"'}

    response = rest_client(dispatch).request(binding.http_method, _path(binding), headers=headers)

    field = version_field(binding)
    assert field is not None
    assert (response.status_code, getattr(dispatch.request, field.name)) == (200, 4)


def test_r8_star_asks_for_any_version_and_so_does_no_header() -> None:
    for headers in ({"if-match": "*"}, {"if-match": " * "}, {}):
        dispatch = FakeDispatch()
        rest_client(dispatch).request("PATCH", METADATA, headers=headers)
        assert getattr(dispatch.request, "expected_task_version") == 0  # noqa: B009


@pytest.mark.parametrize(
    ("path", "tags"),
    [
        (METADATA, ['W/"task-version-4"']),
        (METADATA, ["task-version-4"]),
        (METADATA, ['"task-version-4", "task-version-5"']),
        (METADATA, ['"task-version-4"', '"task-version-4"']),
        (METADATA, ['"workflow-version-4"']),
        (WORKFLOW, ['"task-version-4"']),
        (METADATA, ['"task-version-0"']),
        (METADATA, ['"task-version-04"']),
        (METADATA, ['"task-version-x"']),
        (METADATA, ['"task-version-99999999999999999999"']),
        (METADATA, ['"4"']),
        (METADATA, ['"*"']),
        (METADATA, [""]),
    ],
)
def test_r8_other_tags_are_refused_by_the_name_of_the_header(path: str, tags: list[str]) -> None:
    dispatch = FakeDispatch()

    response = rest_client(dispatch).request("PATCH", path, headers=[("if-match", tag) for tag in tags])

    assert response.status_code == 400
    assert [violation["field"] for violation in response.json()["violations"]] == ["If-Match"]
    assert dispatch.calls == []


def test_r8_version_in_both_places_is_the_same_one() -> None:
    dispatch = FakeDispatch()
    client = rest_client(dispatch)
    headers = {"if-match": '"task-version-4"'}

    refused = client.request("PATCH", METADATA, json={"expectedTaskVersion": "5"}, headers=headers)
    calls_refused = list(dispatch.calls)
    client.request("PATCH", METADATA, json={"expectedTaskVersion": "4"}, headers=headers)

    assert [violation["field"] for violation in refused.json()["violations"]] == ["expectedTaskVersion"]
    assert calls_refused == []
    assert getattr(dispatch.request, "expected_task_version") == 4  # noqa: B009


def test_r8_condition_of_a_route_that_takes_none_is_ignored() -> None:
    dispatch = FakeDispatch()
    response = rest_client(dispatch).post("/internal/v1/tasks/task_1:cancel", headers={"if-match": '"task-version-4"'})
    assert response.status_code == 200
    assert len(dispatch.calls) == 1
