"""Query parameters to request fields (T-3)."""

from __future__ import annotations

import pytest
from google.protobuf import json_format
from google.protobuf.message import Message
from taskstatus_pb.v1 import query_service_pb2

from gateway_rest.query import MAX_PARAMETERS, read_query
from taskstatus.domain.errors import RefusedError

from .support import FakeDispatch, kinds_class, rest_client


def read_kinds(query: str, body: str = "") -> Message:
    kinds = kinds_class()()
    read_query(query.encode(), kinds, body)
    return kinds


@pytest.mark.parametrize(
    "query", ["afterTaskVersion=18446744073709551615&limit=5", "after_task_version=18446744073709551615&limit=5"]
)
def test_q1_timeline_window_in_both_name_forms(query: str) -> None:
    dispatch = FakeDispatch()
    response = rest_client(dispatch).get(f"/api/v1/tasks/t/events?{query}")
    assert response.status_code == 200
    assert dispatch.request == query_service_pb2.ListTaskEventsRequest(
        task_id="t", after_task_version=2**64 - 1, limit=5
    )


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("numbers=1&numbers=-2", {"numbers": [1, -2]}),
        ("colour=RED", {"colour": "RED"}),
        ("colour=3", {"colour": "RED"}),
        ("aBool=true", {"aBool": True}),
        ("aString=", {}),
        ("aString=a%2Bb+c%C3%A9", {"aString": "a+b cé"}),
        ("child.aString=x&child.child.a_int32=5", {"child": {"aString": "x", "child": {"aInt32": 5}}}),
        ("timestamp=2026-01-31T08:00:00Z", {"timestamp": "2026-01-31T08:00:00Z"}),
        ("wrapped=5", {"wrapped": "5"}),
        ("aBytes=AQI", {"aBytes": "AQI="}),
        ("", {}),
    ],
)
def test_t3_query_sets_fields(query: str, expected: dict[str, object]) -> None:
    assert json_format.MessageToDict(read_kinds(query)) == expected


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("nope=1", "nope"),
        ("child.nope=1", "child.nope"),
        ("aString.x=1", "aString.x"),
        ("children.aString=x", "children.aString"),
        ("timestamp.seconds=1", "timestamp.seconds"),
        ("aInt32=1&aInt32=1", "aInt32"),
        ("aInt32=1&a_int32=2", "aInt32"),
        ("aInt32=", "aInt32"),
        ("aInt32=x", "aInt32"),
        ("aUint64=18446744073709551616", "aUint64"),
        ("aDouble=NaN", "aDouble"),
        ("aBool=1", "aBool"),
        ("colour=GREEN", "colour"),
        ("colour=4", "colour"),
        ("left=a&right=b", "right"),
        ("child=x", "child"),
        ("children=x", "children"),
        ("versions=x", "versions"),
        ("struct=x", "struct"),
        ("values=x", "values"),
        ("timestamp=x", "timestamp"),
        ("aString=%FF", "query"),
        ("&".join(["numbers=1"] * (MAX_PARAMETERS + 1)), "query"),
    ],
)
def test_t3_malformed_query_is_refused(query: str, field: str) -> None:
    with pytest.raises(RefusedError) as caught:
        read_kinds(query)
    assert [each.field for each in caught.value.violations] == [field]


@pytest.mark.parametrize(("body", "query"), [("*", "aString=x"), ("child", "child.aString=x")])
def test_field_of_the_body_is_not_taken_from_the_query(body: str, query: str) -> None:
    with pytest.raises(RefusedError, match="is not a query parameter"):
        read_kinds(query, body)


def test_query_may_repeat_the_path_but_not_contradict_it() -> None:
    client = rest_client(FakeDispatch())
    assert client.get("/api/v1/tasks/t?taskId=t").status_code == 200
    assert client.get("/api/v1/tasks/t?taskId=u").status_code == 400


def test_body_on_a_route_without_one_is_refused() -> None:
    response = rest_client(FakeDispatch()).request("GET", "/api/v1/tasks/t", json={"taskId": "t"})
    assert (response.status_code, response.json()["violations"][0]["field"]) == (400, "body")
