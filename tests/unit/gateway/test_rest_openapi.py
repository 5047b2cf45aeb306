"""The committed OpenAPI document is what the runtime descriptors give (T-3)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from http import HTTPStatus
from typing import Any

import orjson
from google.protobuf import descriptor_pb2

from gateway_rest.openapi_comments import comments_of
from gateway_rest.openapi_document import build_document
from gateway_rest.openapi_errors import reasons_named
from gateway_rest.problems import HTTP_MAPPINGS
from gateway_rest.routes import stub_files
from taskstatus.domain.reasons import Reason

from .support import FakeDispatch, rest_client


@cache
def served() -> dict[str, Any]:
    document: dict[str, Any] = orjson.loads(rest_client(FakeDispatch()).get("/openapi.json").content)
    return document


def _operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path in document["paths"].values():
        yield from path.values()


def _bare(value: Any) -> Any:
    """Without what comes from comments: descriptions, summaries and the error responses that comments name."""
    if isinstance(value, dict):
        dropped = {"description", "summary", *(str(int(status)) for status in HTTPStatus if status >= 400)}
        return {name: _bare(member) for name, member in value.items() if name not in dropped}
    return [_bare(element) for element in value] if isinstance(value, list) else value


def test_t3_document_has_every_route_and_field_of_the_descriptors() -> None:
    assert _bare(served()) == _bare(build_document(stub_files(), {}))


def test_t3_everything_is_described() -> None:
    schemas = served()["components"]["schemas"]
    fields = [
        (name, field)
        for name, schema in schemas.items()
        if name != "Problem"
        for field, shape in schema.get("properties", {}).items()
        if not shape.get("description")
    ]
    assert fields == []
    assert [name for name, schema in schemas.items() if not schema.get("description")] == []
    assert [each["operationId"] for each in _operations(served()) if not each.get("summary")] == []


def test_t3_error_responses_are_those_of_the_methods_comment() -> None:
    for operation in _operations(served()):
        named = {str(HTTP_MAPPINGS[reason].status) for reason in reasons_named(operation["description"])}
        assert named <= set(operation["responses"]), operation["operationId"]


def test_answers_are_no_error_responses() -> None:
    comment = "Late facts are answered with STALE_SEQUENCE.\n\nReasons: TASK_NOT_FOUND, TOKEN_EXPIRED (renew)."
    assert reasons_named(comment) == {Reason.TASK_NOT_FOUND, Reason.TOKEN_EXPIRED}


def test_document_is_well_formed_openapi_3_1() -> None:
    document = served()
    assert document["openapi"] == "3.1.0"
    ids = [each["operationId"] for each in _operations(document)]
    assert len(ids) == len(set(ids))
    for path, operations in document["paths"].items():
        for operation in operations.values():
            declared = {each["name"] for each in operation.get("parameters", []) if each["in"] == "path"}
            assert declared == set(re.findall(r"\{([^}]+)\}", path))
            assert "200" in operation["responses"]
            assert all(each["description"] for each in operation["responses"].values())


def test_every_reference_leads_somewhere() -> None:
    schemas = served()["components"]["schemas"]
    found = set(re.findall(r'"#/components/schemas/([^"]+)"', orjson.dumps(served()).decode()))
    assert found <= set(schemas)
    # Whatever is listed is used, but for Problem's own parts.
    assert set(schemas) - found <= {"GetTaskResponse"}


def test_64_bit_integers_are_text_and_requests_are_closed() -> None:
    event = served()["components"]["schemas"]["ReportEventRequest"]
    assert event["properties"]["sourceSeq"]["type"] == "string"
    assert event["additionalProperties"] is False
    response = served()["components"]["schemas"]["ReportEventResponse"]
    assert "accepted" in response["required"]
    assert "committedAt" not in response["required"]


def test_response_body_is_the_schema_of_its_field() -> None:
    operation = served()["paths"]["/api/v1/tasks/{taskId}"]["get"]
    schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
    assert schema["$ref"] == "#/components/schemas/TaskSnapshot"


def test_comments_are_read_by_full_name() -> None:
    file = descriptor_pb2.FileDescriptorProto(package="p")
    message = file.message_type.add(name="M")
    message.field.add(name="f")
    message.nested_type.add(name="N").field.add(name="g")
    message.enum_type.add(name="E").value.add(name="V")
    file.service.add(name="S").method.add(name="Do")
    for path in ([4, 0], [4, 0, 2, 0], [4, 0, 3, 0, 2, 0], [4, 0, 4, 0, 2, 0], [6, 0], [6, 0, 2, 0]):
        file.source_code_info.location.add(path=path, leading_comments=f" {path}\n  goes on.\n\n Then.\n")
    found = comments_of(descriptor_pb2.FileDescriptorSet(file=[file]))
    assert set(found) == {"p.M", "p.M.f", "p.M.N.g", "p.M.E.V", "p.S", "p.S.Do"}
    assert found["p.M"] == "[4, 0] goes on.\n\nThen."
