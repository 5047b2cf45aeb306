"""Requests on definitions → documents in the form of the file, which are checked in one place for both (L-5)."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import EnumDescriptor
from taskstatus_pb.v1 import common_pb2, definitions_pb2, task_commands_pb2

from taskstatus.application.identity import Identity
from taskstatus.application.ports_definitions import DefinitionKey
from taskstatus.domain import text
from taskstatus.domain.classification import ClassifyTask
from taskstatus.domain.definitions import ANY_TASK_TYPE, Json
from taskstatus.domain.errors import FieldViolation, RefusedError, invalid
from taskstatus.domain.quick_dataclasses import replace
from taskstatus.entrypoints.wire.call import CallInfo
from taskstatus.entrypoints.wire.decode import known_task_id
from taskstatus.entrypoints.wire.decode_commands import head_of
from taskstatus.entrypoints.wire.values import enum_name, struct_to_json

Document = dict[str, Json]

_REQUEST_NAMES = {
    "operation": "operationCode",
    "schema": "jsonSchema",
    "detail": "detailFields",
    "summary": "summaryFields",
}
"""Fields that the request calls otherwise than the file does."""
MAX_VERSION = 2**31 - 1


def to_document(request: definitions_pb2.PublishDefinitionsRequest) -> Document:
    """What PublishDefinitions publishes; fields that are left out are missing in it too.

    Raises RefusedError INVALID_ARGUMENT for enum values that this release does not know.
    """
    return {
        "operations": [_operation(f"operations[{i}]", item) for i, item in enumerate(request.operations)],
        "statuses": [_statuses(f"statuses[{i}]", item) for i, item in enumerate(request.statuses)],
    }


def in_request_names(refusal: RefusedError) -> RefusedError:
    """A refusal of a document with its paths as the request's JSON form has them."""
    if not refusal.violations:
        return refusal
    violations = tuple(FieldViolation(_request_path(each.field), each.description) for each in refusal.violations)
    return replace(refusal, message=f"{violations[0].field}: {violations[0].description}", violations=violations)


def _request_path(path: str) -> str:
    parts = []
    for part in path.split("."):
        name, bracket, index = part.partition("[")
        parts.append(_REQUEST_NAMES.get(name, name) + bracket + index)
    return ".".join(parts)


def _operation(path: str, item: definitions_pb2.OperationDefinition) -> Document:
    document: dict[str, Any] = {
        "operation": item.operation_code,
        "version": item.version,
        "producers": list(item.producers),
        "displayName": item.display_name,
        "idempotent": item.idempotent,
        "schemas": [_schema(f"{path}.schemas[{i}]", schema) for i, schema in enumerate(item.schemas)],
    }
    if item.task_type:
        document["taskType"] = item.task_type
    if item.events:
        document["events"] = _event_types(f"{path}.events", item.events)
    if item.failure_policy:
        document["failurePolicy"] = enum_name(
            f"{path}.failurePolicy", common_pb2.FailurePolicy.DESCRIPTOR, item.failure_policy
        )
    return document


def _schema(path: str, schema: definitions_pb2.DataSchema) -> Document:
    document: dict[str, Any] = {
        "name": schema.name,
        "events": _event_types(f"{path}.events", schema.events),
        "schema": struct_to_json(schema.json_schema),
        "detail": list(schema.detail_fields),
        "summary": list(schema.summary_fields),
    }
    if schema.max_bytes:
        document["maxBytes"] = schema.max_bytes
    return document


def _event_types(path: str, numbers: Any) -> list[str]:
    return [_required(f"{path}[{i}]", common_pb2.EventType.DESCRIPTOR, number) for i, number in enumerate(numbers)]


def _statuses(path: str, item: definitions_pb2.StatusDefinition) -> Document:
    return {
        "taskType": item.task_type,
        "version": item.version,
        "statuses": [_status(f"{path}.statuses[{i}]", status) for i, status in enumerate(item.statuses)],
    }


def _status(path: str, status: definitions_pb2.BusinessStatus) -> Document:
    document: dict[str, Any] = {
        "code": status.code,
        "lifecycleStatus": _required(
            f"{path}.lifecycleStatus", common_pb2.LifecycleStatus.DESCRIPTOR, status.lifecycle_status
        ),
        "displayName": status.display_name,
        "sortOrder": status.sort_order,
        "presentation": {
            "colorToken": status.presentation.color_token,
            "iconKey": status.presentation.icon_key,
            "titleKey": status.presentation.title_key,
            "descriptionKey": status.presentation.description_key,
        },
    }
    if status.allowed_from:
        document["allowedFrom"] = list(status.allowed_from)
    if status.severity:
        document["severity"] = enum_name(f"{path}.severity", definitions_pb2.Severity.DESCRIPTOR, status.severity)
    return document


def _required(path: str, enum: EnumDescriptor, number: int) -> str:
    if number == 0:
        raise invalid(path, "is required")
    return enum_name(path, enum, number)


def to_definition_key(request: definitions_pb2.RetireDefinitionRequest) -> DefinitionKey:
    """What RetireDefinition names."""
    operation = text.check_optional_id("operationCode", request.operation_code, text.CODE_MAX)
    task_type = text.check_optional_id("taskType", request.task_type, text.CODE_MAX)
    if not operation and not task_type:
        raise invalid("taskType", "is required for a status definition")
    return DefinitionKey(operation, task_type or ANY_TASK_TYPE, _version("version", request.version))


def to_asked_statuses(request: definitions_pb2.GetStatusDefinitionRequest) -> tuple[str, int]:
    """(task type, version) that GetStatusDefinition names; version 0 are the generic statuses."""
    return text.check_id("taskType", request.task_type, text.CODE_MAX), request.version


def to_classify(request: task_commands_pb2.ClassifyTaskRequest, identity: Identity, call: CallInfo) -> ClassifyTask:
    """The command of ClassifyTask."""
    task_id = known_task_id(request.task_id)
    product_id = text.check_optional_id("productId", request.product_id, text.PRODUCT_MAX)
    return ClassifyTask(
        head_of(request, request.command_id, task_id, identity, call, request.expected_task_version),
        task_type=_own_type("taskType", request.task_type),
        status_definition_version=request.status_definition_version,
        operation_definition_version=request.operation_definition_version,
        product_id=product_id if request.HasField("product_id") else None,
    )


def _own_type(path: str, value: str) -> str:
    if value == ANY_TASK_TYPE:
        raise invalid(path, "* stands for any type, so that no task can be of it")
    return text.check_id(path, value, text.CODE_MAX)


def _version(path: str, number: int) -> int:
    if not 1 <= number <= MAX_VERSION:
        raise invalid(path, f"must be 1 to {MAX_VERSION}")
    return number
