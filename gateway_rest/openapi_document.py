"""The OpenAPI 3.1 document of the routes, from the same descriptors that serve them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor

from gateway_rest.entity_tags import ETAG, tagged_part
from gateway_rest.fields import is_map, is_well_known, json_path, message_type_of
from gateway_rest.openapi_comments import Comments
from gateway_rest.openapi_errors import PROBLEM_SCHEMA, error_responses, problem_schema
from gateway_rest.openapi_schemas import Json, SchemaSet
from gateway_rest.request_message import (
    IDEMPOTENCY_KEY,
    IF_MATCH,
    VERSION_FIELDS,
    idempotency_field,
    version_field,
)
from gateway_rest.routes import WHOLE_BODY, Binding, load_bindings

PACKAGE: Final = "taskstatus.v1"
_INFO: Final[Json] = {
    "title": "taskstatus",
    "version": "v1",
    "description": (
        "Truthful status of asynchronous work. Paths under `/internal/v1` are for services, `/api/v1` for people. "
        "Every message is the JSON mapping of its protobuf message: lowerCamelCase names, 64-bit integers as decimal "
        "strings (compare versions as integers, never as text). A successful response means: committed."
    ),
    "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
}


def build_document(files: Sequence[FileDescriptor], comments: Comments) -> Json:
    """The whole document; without comments it lacks the descriptions and the methods' own error responses."""
    bindings = load_bindings(files)
    schemas = SchemaSet(PACKAGE, comments)
    paths: Json = defaultdict(dict)
    counts: dict[str, int] = defaultdict(int)
    for binding in bindings:
        counts[binding.method] += 1
        operation = _operation(binding, counts[binding.method], schemas, comments)
        paths[_path(binding)][binding.http_method.lower()] = operation
    components = schemas.components(
        (_body_type(binding) for binding in bindings if binding.body), (_response_type(each) for each in bindings)
    )
    return {
        "openapi": "3.1.0",
        "info": _INFO,
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}],
        "tags": list(_tags(files, schemas)),
        "paths": dict(paths),
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}},
            "schemas": {**components, PROBLEM_SCHEMA: problem_schema()},
        },
    }


def _tags(files: Sequence[FileDescriptor], schemas: SchemaSet) -> Iterator[Json]:
    for file in files:
        for service in file.services_by_name.values():
            yield {"name": service.name, **schemas.described(service.full_name)}


def _path(binding: Binding) -> str:
    path = binding.template.text
    for variable, chain in zip(binding.template.variables, binding.path_fields, strict=True):
        path = path.replace("{" + variable, "{" + json_path(chain))
    return path.replace("=*}", "}")


def _operation(binding: Binding, number: int, schemas: SchemaSet, comments: Comments) -> Json:
    method = binding.descriptor
    comment = comments.get(method.full_name, "")
    operation: Json = {
        "operationId": f"{method.name}{'' if number == 1 else number}",
        "tags": [method.containing_service.name],
    }
    if comment:
        operation["summary"] = comment.partition("\n\n")[0].partition(". ")[0].rstrip(".")
        operation["description"] = comment
    if parameters := [*_path_parameters(binding, schemas), *_query_parameters(binding, schemas), *_headers(binding)]:
        operation["parameters"] = parameters
    if binding.body:
        schema = schemas.reference(_body_type(binding))
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    success = {"description": "Done, and committed." if binding.mutating else "The state as committed."}
    content = {"application/json": {"schema": _response_schema(binding, schemas)}}
    answer = {**success, **_answer_headers(binding), "content": content}
    operation["responses"] = {"200": answer, **error_responses(binding, comment)}
    return operation


def _path_parameters(binding: Binding, schemas: SchemaSet) -> Iterator[Json]:
    for chain in binding.path_fields:
        yield {"in": "path", "required": True, **_parameter(chain, schemas)}


def _query_parameters(binding: Binding, schemas: SchemaSet) -> Iterator[Json]:
    if binding.body == WHOLE_BODY:
        return
    for chain in _query_chains(binding.descriptor.input_type, ()):
        if chain not in binding.path_fields and chain[0].name != binding.body:
            yield {"in": "query", **_parameter(chain, schemas)}


def _query_chains(message: Descriptor, above: tuple[FieldDescriptor, ...]) -> Iterator[tuple[FieldDescriptor, ...]]:
    """Every field that a query may name; a message inside itself is followed once only."""
    for field in message.fields:
        chain, kind = (*above, field), field.message_type
        if kind is None or (is_well_known(kind) and not field.is_repeated):
            yield chain
        elif not is_map(field) and not field.is_repeated and all(kind != each.message_type for each in above):
            yield from _query_chains(kind, chain)


def _parameter(chain: tuple[FieldDescriptor, ...], schemas: SchemaSet) -> Json:
    schema = schemas.field(chain[-1])
    description = schema.pop("description", None)
    return {"name": json_path(chain), **({"description": description} if description else {}), "schema": schema}


def _headers(binding: Binding) -> Iterator[Json]:
    field = idempotency_field(binding)
    if field is not None:
        yield _header(
            IDEMPOTENCY_KEY, f"Stands for `{field.json_name}` when the body lacks it; must equal it otherwise."
        )
    expected = version_field(binding)
    if expected is not None:
        tag = f'"{VERSION_FIELDS[expected.name]}-version-4"'
        yield _header(IF_MATCH, f"Stands for `{expected.json_name}`, as `{tag}`; `*` for any version.")


def _answer_headers(binding: Binding) -> Json:
    tagged = tagged_part(binding.descriptor.output_type)
    if tagged is None:
        return {}
    described = {"description": f'The version shown, as `"{tagged.word}-version-4"`; {IF_MATCH} takes it back.'}
    return {"headers": {ETAG: {**described, "schema": {"type": "string"}}}}


def _header(name: str, description: str) -> Json:
    return {"in": "header", "name": name, "description": description, "schema": {"type": "string"}}


def _body_type(binding: Binding) -> Descriptor:
    request = binding.descriptor.input_type
    if binding.body == WHOLE_BODY:
        return request
    return message_type_of(request.fields_by_name[binding.body])


def _response_field(binding: Binding) -> FieldDescriptor | None:
    return binding.descriptor.output_type.fields_by_name[binding.response_body] if binding.response_body else None


def _response_type(binding: Binding) -> Descriptor:
    field = _response_field(binding)
    return field.message_type if field is not None and field.message_type else binding.descriptor.output_type


def _response_schema(binding: Binding, schemas: SchemaSet) -> Json:
    field = _response_field(binding)
    return schemas.reference(binding.descriptor.output_type) if field is None else schemas.field(field)
