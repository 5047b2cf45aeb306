"""The Idempotency-Key header stands for the event's or the command's id (R-6)."""

from __future__ import annotations

import pytest

from gateway_rest.request_message import idempotency_field, parse_idempotency_key
from gateway_rest.routes import Binding, load_bindings, stub_files
from taskstatus.domain.errors import RefusedError

from .support import FakeDispatch, rest_client

EVENTS = "/internal/v1/task-events"
BINDINGS = load_bindings(stub_files())
KEYED = [binding for binding in BINDINGS if idempotency_field(binding) is not None]


def _path(binding: Binding) -> str:
    return binding.template.text.replace("{", "").replace("}", "")


@pytest.mark.parametrize("binding", KEYED, ids=lambda each: each.template.text)
def test_r6_missing_id_is_taken_from_the_header(binding: Binding) -> None:
    dispatch = FakeDispatch()
    field = idempotency_field(binding)
    assert field is not None
    response = rest_client(dispatch).request(binding.http_method, _path(binding), headers={"Idempotency-Key": "k-1"})
    assert response.status_code == 200
    assert getattr(dispatch.request, field.name) == "k-1"


def test_r6_event_routes_mean_the_event_and_others_the_command() -> None:
    names = {binding.descriptor.name: field.name for binding in KEYED if (field := idempotency_field(binding))}
    assert names.pop("ReportEvent") == "event_id"
    assert names
    assert set(names.values()) == {"command_id"}


def test_r6_same_id_in_both_places_is_taken() -> None:
    dispatch = FakeDispatch()
    rest_client(dispatch).post(EVENTS, json={"eventId": "e"}, headers={"Idempotency-Key": '"e"'})
    assert getattr(dispatch.request, "event_id") == "e"  # noqa: B009


def test_r6_different_ids_are_refused() -> None:
    dispatch = FakeDispatch()
    response = rest_client(dispatch).post(EVENTS, json={"eventId": "e"}, headers={"Idempotency-Key": "f"})
    assert response.status_code == 400
    assert response.json()["violations"][0]["field"] == "eventId"
    assert dispatch.calls == []


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ("register:task-8a4d:tool-call-17:attempt-1", "register:task-8a4d:tool-call-17:attempt-1"),
        ('"quoted key"', "quoted key"),
        (r'"a\"b\\c"', r'a"b\c'),
        ('""', ""),
        ("  k  ", "k"),
    ],
)
def test_key_is_quoted_or_bare(value: str, key: str) -> None:
    assert parse_idempotency_key([value]) == key


@pytest.mark.parametrize(
    "values", [[""], ['"open'], ['a"b'], ["a b"], ['"a";p=1'], ['"a\\b"'], ["é"], ["a", "a"], ['"a", "b"']]
)
def test_other_forms_of_the_key_are_refused(values: list[str]) -> None:
    with pytest.raises(RefusedError) as caught:
        parse_idempotency_key(values)
    assert caught.value.violations[0].field == "Idempotency-Key"


def test_key_of_a_reading_route_is_ignored() -> None:
    response = rest_client(FakeDispatch()).get("/api/v1/tasks/t", headers={"Idempotency-Key": "a b"})
    assert response.status_code == 200
