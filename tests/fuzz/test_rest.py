"""Generated requests to every REST route: nothing undocumented, never a 5xx, each operation answers well once (T-3)."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from google.protobuf import json_format
from google.protobuf.descriptor import MethodDescriptor
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.conftest import Target
from tests.fuzz.live import GOOD, Live, caller_for
from tests.fuzz.openapi import DOCUMENT, Operation, operations, undocumented, values
from tests.fuzz.secrets import SHAPES, issues, secrets_in
from tests.fuzz.values import BURST, NASTY_TEXT, PROFILE, texts

OPERATIONS = operations()
FIRST_FAULT = 500
PATH_FIELDS = {
    "taskId": "task_id",
    "stepId": "step_id",
    "workflowId": "workflow_id",
    "executionId": "execution_id",
    "refType": "ref_type",
    "refValue": "ref_value",
    "eventId": "event_id",
    "traceId": "trace_id",
    "taskType": "task_type",
    "version": "version",
}


@dataclass(frozen=True)
class RestRequest:
    """One request of an operation."""

    path: Mapping[str, str]
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None


def test_every_operation_of_the_document_has_a_route() -> None:
    documented = [each["operationId"] for path in DOCUMENT["paths"].values() for each in path.values()]
    assert sorted(documented) == sorted(OPERATIONS)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", OPERATIONS)
async def test_t3_no_request_gets_an_undocumented_answer(
    target: Target, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    operation, live = OPERATIONS[name], await target.live()
    with caplog.at_level(logging.DEBUG, "taskstatus"):
        response = await send(target, operation, good_request(operation, live))
        assert (response.status_code, undocumented(operation, response)) == (httpx.codes.OK, ""), response.text
        for burst in drawn(operation, live):
            responses = await asyncio.gather(*(send(target, operation, request) for request in burst))
            for request, response in zip(burst, responses, strict=True):
                assert response.status_code < FIRST_FAULT, request
                assert undocumented(operation, response) == "", request
                assert issues(method_of(operation)) or not SHAPES.search(response.text), request
    assert secrets_in(caplog.records, target.secrets(live)) == []


def method_of(operation: Operation) -> MethodDescriptor:
    """The method that an operation serves."""
    return operation.binding.descriptor


def good_request(operation: Operation, live: Live) -> RestRequest:
    """The good request of the operation's method, laid out for this route."""
    document = json_format.MessageToDict(GOOD[operation.binding.method](live))
    path = {name: str(document.pop(name, live.known[PATH_FIELDS[name]][0])) for name in operation.names("path")}
    if operation.body_schema is None:
        return RestRequest(path, {name: str(value) for name, value in document.items()})
    return RestRequest(path, body=document)


def drawn(operation: Operation, live: Live) -> list[list[RestRequest]]:
    """Bursts of requests: by the schema, or good ones with some parts replaced."""
    good = good_request(operation, live)
    paths = st.fixed_dictionaries(
        {name: texts(PATH_FIELDS[name], live.known).filter(bool) for name in operation.names("path")}
    )
    queries = st.fixed_dictionaries(
        {}, optional={name: st.sampled_from(NASTY_TEXT) for name in operation.names("query")}
    )
    headers = st.fixed_dictionaries({}, optional={name: _header_values() for name in operation.names("header")})
    bodies = _bodies(operation, good.body, live)
    requests = st.builds(RestRequest, st.just(good.path) | paths, queries, headers, bodies)
    bursts: list[list[RestRequest]] = []

    @PROFILE
    @given(st.lists(requests, min_size=BURST, max_size=BURST))
    def collect(burst: list[RestRequest]) -> None:
        bursts.append(burst)

    collect()
    return bursts


def _header_values() -> st.SearchStrategy[str]:
    return st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=80)


def _bodies(operation: Operation, good: Any, live: Live) -> st.SearchStrategy[Any]:
    schema = operation.body_schema
    if schema is None:
        return st.none()
    generated = values(schema, "", live.known)
    overlaid = generated.map(lambda odd: {**good, **odd} if isinstance(odd, dict) else odd)
    return generated | overlaid


async def send(target: Target, operation: Operation, request: RestRequest) -> httpx.Response:
    """The response to a request of somebody who may call the method."""
    path = operation.path
    for name, value in request.path.items():
        path = path.replace(f"{{{name}}}", quote(value, safe=""))
    token = caller_for(operation.binding.method, target.callers).token
    headers = {"authorization": f"Bearer {token}", **request.headers}
    content = None
    if operation.body_schema is not None:
        content = json.dumps(request.body).encode()
        headers["content-type"] = "application/json"
    return await target.rest.request(
        operation.http_method, path, params=request.query, headers=headers, content=content
    )
