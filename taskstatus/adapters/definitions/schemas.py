"""JSON Schemas compiled once per definition version; nothing is ever fetched, and patterns run in linear time."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator

import jsonschema_rs

from taskstatus.domain.definitions import DataSchema, JsonObject

COMPILED_SCHEMAS = 2_000
MESSAGE_MAX = 300


class SchemaError(ValueError):
    """A JSON Schema that cannot be used; the text says where."""


class CompiledSchemas:
    """The port SchemaValidator."""

    def __init__(self, size: int = COMPILED_SCHEMAS) -> None:
        self._size = size
        self._compiled: OrderedDict[str, jsonschema_rs.Draft202012Validator] = OrderedDict()

    def violation(self, schema: DataSchema, value: JsonObject) -> str | None:
        """See the port; the text never repeats the value, which may be private."""
        validator = self._validator(schema.json_schema)
        if validator.is_valid(value):
            return None
        error = next(validator.iter_errors(value))
        path = ".".join(["data.value", *map(str, error.instance_path)])
        rule = str(error.schema_path[-1]) if error.schema_path else "schema"
        return f"{path} breaks the rule «{rule}» of {schema.name}"[:MESSAGE_MAX]

    def _validator(self, text: str) -> jsonschema_rs.Draft202012Validator:
        validator = self._compiled.get(text)
        if validator is None:
            validator = self._compiled[text] = compile_schema(text)
            if len(self._compiled) > self._size:
                self._compiled.popitem(last=False)
        else:
            self._compiled.move_to_end(text)
        return validator


def compile_schema(text: str) -> jsonschema_rs.Draft202012Validator:
    """A validator of a schema in JSON text. Raises SchemaError."""
    schema = json.loads(text)
    remote = next(_remote_references(schema), None)
    if remote is not None:
        raise SchemaError(f"$ref {remote!r} is not within the schema itself")
    try:
        # Linear-time regular expressions: a schema's pattern must not be a way to stop the service.
        return jsonschema_rs.Draft202012Validator(
            schema, offline=True, pattern_options=jsonschema_rs.RegexOptions(), validate_formats=False
        )
    except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as error:
        raise SchemaError(str(error).splitlines()[0]) from None


def _remote_references(schema: object) -> Iterator[str]:
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key in ("$ref", "$dynamicRef") and isinstance(value, str) and not value.startswith("#"):
                yield value
            yield from _remote_references(value)
    elif isinstance(schema, list):
        for item in schema:
            yield from _remote_references(item)
