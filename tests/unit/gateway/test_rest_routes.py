"""Routes come from the protos (T-3): each reaches its method, and nothing else does."""

from __future__ import annotations

import pytest
from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor

from gateway_rest.paths import parse_template
from gateway_rest.routes import Binding, RouteTable, load_bindings, stub_files

from .support import JSON, FakeDispatch, rest_client

BINDINGS = load_bindings(stub_files())

# names.md, *Services, methods, routes*: written out once more, so that a route cannot vanish with its option.
PROMISED = {
    ("POST", "/internal/v1/workflows", "RegisterService/CreateWorkflow"),
    ("POST", "/internal/v1/workflows/{workflow_id}/tasks", "RegisterService/CreateTask"),
    ("POST", "/internal/v1/tasks/{task_id}/steps/{step_id}:activate", "RegisterService/ActivateStep"),
    ("POST", "/internal/v1/tasks/{task_id}/executions:register", "RegisterService/RegisterExecution"),
    ("POST", "/internal/v1/executions/{execution_id}:renew", "RegisterService/RenewExecution"),
    ("POST", "/internal/v1/executions/{execution_id}:revoke", "RegisterService/RevokeExecution"),
    ("PATCH", "/internal/v1/tasks/{task_id}/classification", "RegisterService/ClassifyTask"),
    ("PATCH", "/internal/v1/tasks/{task_id}/metadata", "RegisterService/UpdateTaskMetadata"),
    ("POST", "/internal/v1/tasks/{task_id}/external-refs", "RegisterService/AttachExternalRef"),
    ("POST", "/internal/v1/tasks/{task_id}:cancel", "RegisterService/RequestCancel"),
    ("POST", "/api/v1/tasks/{task_id}:cancel", "RegisterService/RequestCancel"),
    ("POST", "/internal/v1/tasks/{task_id}:rerun", "RegisterService/RerunTask"),
    ("POST", "/api/v1/tasks/{task_id}:rerun", "RegisterService/RerunTask"),
    ("POST", "/api/v1/task/{task_id}/replay", "RegisterService/RerunTask"),
    ("PATCH", "/internal/v1/workflows/{workflow_id}", "RegisterService/UpdateWorkflow"),
    ("POST", "/api/v1/tasks/status:batchGet", "QueryService/BatchGetTaskStatus"),
    ("GET", "/api/v1/me/tasks", "QueryService/ListMyTasks"),
    ("GET", "/api/v1/workflows/{workflow_id}", "QueryService/GetWorkflow"),
    ("GET", "/api/v1/workflows/{workflow_id}/tasks", "QueryService/ListWorkflowTasks"),
    ("GET", "/api/v1/external-refs/{ref_type}/{ref_value}", "QueryService/LookupExternalRef"),
    ("GET", "/internal/v1/events/{event_id}", "QueryService/LookupEvent"),
    ("GET", "/internal/v1/traces/{trace_id}", "QueryService/ListTraceEvents"),
    ("POST", "/internal/v1/task-events", "ReportService/ReportEvent"),
    ("POST", "/internal/v1/tasks/{task_id}/events", "ReportService/ReportEvent"),
    ("POST", "/internal/v1/task-events:batch", "ReportService/BatchReportEvents"),
    ("POST", "/internal/v1/executions:bind", "BindExecutionService/BindExecution"),
    ("GET", "/api/v1/tasks/{task_id}", "QueryService/GetTask"),
    ("GET", "/internal/v1/tasks/{task_id}", "QueryService/GetTask"),
    ("GET", "/api/v1/tasks/{task_id}/events", "QueryService/ListTaskEvents"),
    ("GET", "/api/v1/realtime/session", "RealtimeService/GetSession"),
    ("POST", "/api/v1/realtime/subscription-token", "RealtimeService/CreateSubscriptionToken"),
}


def _id(binding: Binding) -> str:
    return f"{binding.http_method} {binding.template.text}"


NUMBER = 7


def _value(field: FieldDescriptor) -> str | int:
    """A value for a field of a path."""
    return f"{field.name}-1" if field.type == FieldDescriptor.TYPE_STRING else NUMBER


def _path(binding: Binding) -> str:
    path = binding.template.text
    for variable, chain in zip(binding.template.variables, binding.path_fields, strict=True):
        path = path.replace("{" + variable + "}", str(_value(chain[-1])))
    return path


def _options(binding: Binding) -> dict[str, object]:
    return {"content": b"{}", "headers": JSON} if binding.body else {}


def test_t3_every_promised_route_exists() -> None:
    served = {(each.http_method, each.template.text, each.method) for each in BINDINGS}
    assert {(verb, path, f"taskstatus.v1.{method}") for verb, path, method in PROMISED} <= served


@pytest.mark.parametrize("binding", BINDINGS, ids=_id)
def test_t3_route_reaches_its_method_with_its_path_fields(binding: Binding) -> None:
    dispatch = FakeDispatch()
    response = rest_client(dispatch).request(binding.http_method, _path(binding), **_options(binding))
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert [method for method, _, _ in dispatch.calls] == [binding.method]
    expected = {chain[-1].name: _value(chain[-1]) for chain in binding.path_fields}
    assert json_format.MessageToDict(dispatch.request, preserving_proto_field_name=True) == expected


@pytest.mark.parametrize("binding", BINDINGS, ids=_id)
def test_route_with_another_method_is_405_with_allow(binding: Binding) -> None:
    dispatch = FakeDispatch()
    response = rest_client(dispatch).request("TRACE", _path(binding))
    assert response.status_code == 405
    assert binding.http_method in response.headers["allow"].split(", ")
    assert response.headers["content-type"] == "application/problem+json"
    assert dispatch.calls == []


@pytest.mark.parametrize("binding", BINDINGS, ids=_id)
def test_options_names_the_methods_and_calls_nothing(binding: Binding) -> None:
    dispatch = FakeDispatch()
    response = rest_client(dispatch).request("OPTIONS", _path(binding))
    assert response.status_code == 204
    assert {binding.http_method, "OPTIONS"} <= set(response.headers["allow"].split(", "))
    assert dispatch.calls == []


@pytest.mark.parametrize("binding", [each for each in BINDINGS if each.http_method == "GET"], ids=_id)
def test_head_is_get_without_a_body(binding: Binding) -> None:
    got = rest_client(FakeDispatch()).get(_path(binding))
    head = rest_client(FakeDispatch()).request("HEAD", _path(binding))
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == got.headers["content-length"]


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/api/v1",
        "/api/v1/tasks/",
        "/api/v1/tasks/t/",
        "/api/v1//tasks/t",
        "/api/v1/tasks/t:unknown",
        "/API/v1/tasks/t",
        "/api/v1/tasks/a%2Fevents%2Fb/c",
        "/internal/v1/tasks/t/steps/:activate",
    ],
)
def test_unknown_path_is_404(path: str) -> None:
    dispatch = FakeDispatch()
    response = rest_client(dispatch).get(path)
    assert (response.status_code, response.json()["type"]) == (404, "about:blank")
    assert dispatch.calls == []


def test_id4_encoded_separators_stay_inside_the_id() -> None:
    dispatch = FakeDispatch()
    rest_client(dispatch).get("/api/v1/tasks/a%2Fevents%3Ab%20%C3%A9")
    ((method, request, _),) = dispatch.calls
    assert method == "taskstatus.v1.QueryService/GetTask"
    assert json_format.MessageToDict(request) == {"taskId": "a/events:b é"}


def test_path_that_is_no_utf8_is_refused() -> None:
    response = rest_client(FakeDispatch()).get("/api/v1/tasks/%FF")
    assert response.status_code == 400
    assert response.json()["violations"][0]["field"] == "taskId"


def test_path_and_body_may_agree() -> None:
    dispatch = FakeDispatch()
    response = rest_client(dispatch).post("/internal/v1/tasks/t-1/events", json={"taskId": "t-1", "eventId": "e"})
    assert response.status_code == 200
    assert json_format.MessageToDict(dispatch.request) == {"taskId": "t-1", "eventId": "e"}


def test_path_that_contradicts_the_body_is_refused() -> None:
    dispatch = FakeDispatch()
    response = rest_client(dispatch).post("/internal/v1/tasks/t-1/events", json={"taskId": "t-2"})
    assert response.status_code == 400
    assert response.json()["violations"] == [{"field": "taskId", "description": "differs from the value in the path"}]
    assert dispatch.calls == []


def test_two_methods_on_one_route_are_refused_at_the_start() -> None:
    with pytest.raises(ValueError, match="two methods claim"):
        RouteTable([*BINDINGS, BINDINGS[0]])


@pytest.mark.parametrize("text", ["tasks", "/tasks/{a=**}", "/tasks/{a=x/*}", "/tasks/*", "/t/{a}/{a}", "/a b", "/{A}"])
def test_unsupported_template_is_refused_at_the_start(text: str) -> None:
    with pytest.raises(ValueError, match="unsupported path template"):
        parse_template(text)
