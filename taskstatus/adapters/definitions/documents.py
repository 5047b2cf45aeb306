"""The file of operation definitions: YAML or JSON, checked field by field, and its canonical stored form."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator, model_validator
from pydantic.alias_generators import to_camel

from taskstatus.adapters.definitions.schemas import SchemaError, compile_schema
from taskstatus.domain import text
from taskstatus.domain.definitions import ANY_TASK_TYPE, DataSchema, OperationDefinition
from taskstatus.domain.events import EXECUTION_EVENTS, EventType
from taskstatus.domain.state import FailurePolicy

MAX_SCHEMA_BYTES = 32 * 1024
MAX_DATA_BYTES = 16 * 1024

Code = Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]+$", max_length=text.CODE_MAX)]
Pattern = Annotated[str, StringConstraints(pattern=r"^[\x21-\x29\x2b-\x3e\x40-\x5a\x5c-\x7e*]+$", max_length=255)]
"""Visible ASCII with ``*`` as the only wildcard."""


class DefinitionsError(ValueError):
    """The file cannot be used; the text names each field and what is wrong with it."""


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=False)


class SchemaDocument(_Document):
    """One data schema."""

    name: Code
    events: frozenset[EventType] = Field(min_length=1)
    schema_: dict[str, Any] = Field(alias="schema")
    detail: tuple[str, ...] = ()
    summary: tuple[str, ...] = ()
    max_bytes: int = Field(default=MAX_DATA_BYTES, ge=2, le=MAX_DATA_BYTES)

    @model_validator(mode="after")
    def _can_be_used(self) -> SchemaDocument:
        canonical = canonical_json(self.schema_)
        if len(canonical) > MAX_SCHEMA_BYTES:
            raise ValueError(f"the schema has {len(canonical)} bytes, at most {MAX_SCHEMA_BYTES} are allowed")
        if self.schema_.get("type") != "object":
            raise ValueError("the schema must be of type object")
        try:
            compile_schema(canonical)
        except SchemaError as error:
            raise ValueError(str(error)) from None
        properties = self.schema_.get("properties", {})
        unknown = [name for name in (*self.detail, *self.summary) if name not in properties]
        if unknown:
            raise ValueError(f"detail and summary name fields that the schema does not declare: {', '.join(unknown)}")
        return self


class OperationDocument(_Document):
    """One version of one operation."""

    operation: Code
    version: int = Field(ge=1, le=2**31 - 1)
    task_type: Code = ANY_TASK_TYPE
    display_name: str = Field(default="", max_length=text.LABEL_MAX)
    producers: tuple[Pattern, ...] = Field(min_length=1, max_length=50)
    events: frozenset[EventType] = EXECUTION_EVENTS
    failure_policy: FailurePolicy | None = None
    idempotent: bool = False
    schemas: tuple[SchemaDocument, ...] = Field(default=(), max_length=50)

    @field_validator("events")
    @classmethod
    def _are_executions_own(cls, events: frozenset[EventType]) -> frozenset[EventType]:
        foreign = sorted(events - EXECUTION_EVENTS)
        if foreign:
            raise ValueError(f"an execution may never report {', '.join(foreign)}")
        return events

    @model_validator(mode="after")
    def _is_consistent(self) -> OperationDocument:
        names = [schema.name for schema in self.schemas]
        if len(set(names)) != len(names):
            raise ValueError("the same schema name stands twice")
        for schema in self.schemas:
            if not schema.events <= self.events:
                raise ValueError(f"{schema.name} is for events that the operation does not allow")
        return self

    def definition(self) -> OperationDefinition:
        """The domain's form."""
        return OperationDefinition(
            operation_code=self.operation,
            version=self.version,
            task_type=self.task_type,
            display_name=self.display_name,
            producers=self.producers,
            events=self.events,
            failure_policy=self.failure_policy,
            is_idempotent=self.idempotent,
            schemas=tuple(
                DataSchema(
                    name=schema.name,
                    events=schema.events,
                    json_schema=canonical_json(schema.schema_),
                    detail_fields=schema.detail,
                    summary_fields=schema.summary,
                    max_bytes=schema.max_bytes,
                )
                for schema in self.schemas
            ),
        )

    def body(self) -> str:
        """The canonical text that is stored; equal content gives equal text."""
        document = self.model_dump(mode="json", by_alias=True)
        document["events"] = sorted(document["events"])
        for schema in document["schemas"]:
            schema["events"] = sorted(schema["events"])
        return canonical_json(document)


class DefinitionsDocument(_Document):
    """The file: definitions of one tenant and scope."""

    tenant: Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]+$", max_length=text.TENANT_MAX)]
    scope: Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]+$", max_length=text.SCOPE_MAX)]
    operations: tuple[OperationDocument, ...]

    @model_validator(mode="after")
    def _names_each_version_once(self) -> DefinitionsDocument:
        keys = [(item.task_type, item.operation, item.version) for item in self.operations]
        if len(set(keys)) != len(keys):
            raise ValueError("the same version of an operation stands twice")
        return self


@dataclass(frozen=True, slots=True)
class StoredDefinition:
    """One published version as it is kept: key, canonical text and its digest."""

    tenant_id: str
    authority_scope: str
    task_type: str
    operation_code: str
    version: int
    body: str

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        """(tenant, scope, task type, operation, version)."""
        return (self.tenant_id, self.authority_scope, self.task_type, self.operation_code, self.version)

    @property
    def digest(self) -> bytes:
        """SHA-256 of the canonical text."""
        return hashlib.sha256(self.body.encode()).digest()

    def definition(self) -> OperationDefinition:
        """The domain's form."""
        return OperationDocument.model_validate_json(self.body).definition()


def read_definitions(path: Path) -> list[StoredDefinition]:
    """The definitions of a file. Raises DefinitionsError naming file and fields, OSError when it cannot be read."""
    try:
        raw = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise DefinitionsError(f"{path}: is neither YAML nor JSON: {error}") from None
    return parse_definitions(raw, str(path))


def parse_definitions(raw: object, name: str) -> list[StoredDefinition]:
    """The definitions of a parsed file called ``name``. Raises DefinitionsError."""
    try:
        document = DefinitionsDocument.model_validate(raw, strict=False)
    except ValidationError as error:
        problems = "\n".join(f"  {_path(item['loc'])}: {item['msg']}" for item in error.errors())
        raise DefinitionsError(f"{name}:\n{problems}") from None
    return [
        StoredDefinition(document.tenant, document.scope, item.task_type, item.operation, item.version, item.body())
        for item in document.operations
    ]


def canonical_json(value: object) -> str:
    """JSON text with sorted keys and no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _path(location: tuple[int | str, ...]) -> str:
    return ".".join(map(str, location)) or "the file"
