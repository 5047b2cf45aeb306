"""Definitions as documents: YAML, JSON or a request, checked field by field, and their canonical stored form."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeGuard, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator, model_validator
from pydantic.alias_generators import to_camel

from taskstatus.adapters.definitions.schemas import SchemaError, compile_schema
from taskstatus.adapters.definitions.versions import StoredDefinition
from taskstatus.application.ports_definitions import DefinitionKey
from taskstatus.domain import text
from taskstatus.domain.business_status import (
    BusinessStatus,
    Severity,
    StatusDefinition,
    StatusPresentation,
    problems_of,
)
from taskstatus.domain.definitions import ANY_TASK_TYPE, DataSchema, OperationDefinition
from taskstatus.domain.errors import FieldViolation
from taskstatus.domain.events import EXECUTION_EVENTS, EventType
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.state import FailurePolicy

MAX_SCHEMA_BYTES = 32 * 1024
MAX_DATA_BYTES = 16 * 1024
MAX_OPERATIONS = 200
MAX_SCHEMAS = 500
"""Of one publication: each is compiled to see that it can be, while everything else waits."""
MAX_STATUS_DEFINITIONS = 100
MAX_STATUSES = 100
MAX_SORT_ORDER = 1_000_000
MAX_VERSION = 2**31 - 1

Code = Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]+$", max_length=text.CODE_MAX)]
TypeName = Annotated[str, StringConstraints(pattern=r"^[\x21-\x29\x2b-\x7e]+$", max_length=text.CODE_MAX)]
"""A task type of its own; ``*`` stands for any and has no statuses."""
StatusCode = Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]+$", max_length=text.BUSINESS_STATUS_MAX)]
Pattern = Annotated[str, StringConstraints(pattern=r"^[\x21-\x29\x2b-\x3e\x40-\x5a\x5c-\x7e*]+$", max_length=255)]
"""Visible ASCII with ``*`` as the only wildcard."""
Label = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f-\x9f]*$", max_length=text.LABEL_MAX)]
Token = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]*$", max_length=text.CODE_MAX)]
"""A name that a page resolves, which can never be markup."""
Version = Annotated[int, Field(ge=1, le=MAX_VERSION, strict=True)]


class DefinitionsError(ValueError):
    """The document cannot be used; the text names each field and what is wrong with it."""

    def __init__(self, name: str, violations: Sequence[FieldViolation]) -> None:
        super().__init__("\n".join([f"{name}:", *(f"  {each.field}: {each.description}" for each in violations)]))
        self.violations = tuple(violations)
        """Paths as in ``operations[0].schemas[1].name``."""


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

    @field_validator("schema_")
    @classmethod
    def _can_be_compiled(cls, schema: dict[str, Any]) -> dict[str, Any]:
        try:
            canonical = canonical_json(schema)
        except TypeError as error:
            raise ValueError(f"the schema is no JSON: {error}") from None
        if len(canonical) > MAX_SCHEMA_BYTES:
            raise ValueError(f"the schema has {len(canonical)} bytes, at most {MAX_SCHEMA_BYTES} are allowed")
        if schema.get("type") != "object":
            raise ValueError("the schema must be of type object")
        try:
            compile_schema(canonical)
        except SchemaError as error:
            raise ValueError(str(error)) from None
        return schema

    @model_validator(mode="after")
    def _shows_what_it_declares(self) -> SchemaDocument:
        properties = self.schema_.get("properties", {})
        unknown = [name for name in (*self.detail, *self.summary) if name not in properties]
        if unknown:
            raise ValueError(f"detail and summary name fields that the schema does not declare: {', '.join(unknown)}")
        return self


class OperationDocument(_Document):
    """One version of one operation."""

    operation: Code
    version: Version
    task_type: Code = ANY_TASK_TYPE
    display_name: Label = ""
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

    @property
    def key(self) -> DefinitionKey:
        """What names it within its scope."""
        return DefinitionKey(self.operation, self.task_type, self.version)

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


class PresentationDocument(_Document):
    """How a page shows a status."""

    color_token: Token = ""
    icon_key: Token = ""
    title_key: Token = ""
    description_key: Token = ""


class StatusDocument(_Document):
    """One business status."""

    code: StatusCode
    lifecycle_status: Lifecycle
    allowed_from: frozenset[StatusCode] | None = Field(default=None, min_length=1, max_length=2 * MAX_STATUSES)
    display_name: Label = ""
    severity: Severity = Severity.INFO
    sort_order: int = Field(default=0, ge=-MAX_SORT_ORDER, le=MAX_SORT_ORDER, strict=True)
    presentation: PresentationDocument = PresentationDocument()

    def status(self) -> BusinessStatus:
        """The domain's form."""
        shown = self.presentation
        return BusinessStatus(
            code=self.code,
            lifecycle=self.lifecycle_status,
            allowed_from=self.allowed_from,
            display_name=self.display_name,
            severity=self.severity,
            sort_order=self.sort_order,
            presentation=StatusPresentation(shown.color_token, shown.icon_key, shown.title_key, shown.description_key),
        )


class StatusDefinitionDocument(_Document):
    """One version of the statuses of a task type."""

    task_type: TypeName
    version: Version
    statuses: tuple[StatusDocument, ...] = Field(min_length=1, max_length=MAX_STATUSES)

    @property
    def key(self) -> DefinitionKey:
        """What names it within its scope."""
        return DefinitionKey("", self.task_type, self.version)

    def definition(self) -> StatusDefinition:
        """The domain's form."""
        return StatusDefinition(self.task_type, self.version, tuple(each.status() for each in self.statuses))

    def body(self) -> str:
        """The canonical text that is stored; equal content gives equal text."""
        document = self.model_dump(mode="json", by_alias=True)
        for status in document["statuses"]:
            if status["allowedFrom"] is not None:
                status["allowedFrom"] = sorted(status["allowedFrom"])
        return canonical_json(document)


class DefinitionsDocument(_Document):
    """What is published at once."""

    operations: tuple[OperationDocument, ...] = Field(default=(), max_length=MAX_OPERATIONS)
    statuses: tuple[StatusDefinitionDocument, ...] = Field(default=(), max_length=MAX_STATUS_DEFINITIONS)

    @field_validator("operations", mode="before")
    @classmethod
    def _have_few_schemas(cls, operations: object) -> object:
        lists = [item.get("schemas") for item in operations if isinstance(item, dict)] if _is_list(operations) else []
        count = sum(len(schemas) for schemas in lists if _is_list(schemas))
        if count > MAX_SCHEMAS:
            raise ValueError(f"have {count} schemas in all, at most {MAX_SCHEMAS} are allowed at once")
        return operations


class DefinitionsFile(DefinitionsDocument):
    """The file: definitions of one tenant and scope."""

    tenant: Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]+$", max_length=text.TENANT_MAX)]
    scope: Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]+$", max_length=text.SCOPE_MAX)]


@dataclass(frozen=True, slots=True)
class DefinitionsToPublish:
    """A file: whose definitions it holds, and which."""

    tenant_id: str
    authority_scope: str
    definitions: tuple[StoredDefinition, ...]


def read_definitions(path: Path) -> DefinitionsToPublish:
    """The definitions of a file. Raises DefinitionsError naming file and fields, OSError when it cannot be read."""
    try:
        raw = yaml.safe_load(path.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise DefinitionsError(str(path), [FieldViolation("the file", f"is neither YAML nor JSON: {error}")]) from None
    return parse_file(raw, str(path))


def parse_file(raw: object, name: str) -> DefinitionsToPublish:
    """The definitions of a parsed file called ``name``. Raises DefinitionsError."""
    document = _validated(DefinitionsFile, raw, name)
    return DefinitionsToPublish(document.tenant, document.scope, _stored(document))


def parse_document(raw: Mapping[str, Any], name: str) -> tuple[StoredDefinition, ...]:
    """The definitions of a request called ``name``. Raises DefinitionsError."""
    return _stored(_validated(DefinitionsDocument, raw, name))


D = TypeVar("D", bound=DefinitionsDocument)


def _validated(kind: type[D], raw: object, name: str) -> D:
    try:
        document = kind.model_validate(raw)
    except ValidationError as error:
        found = [FieldViolation(_path(item["loc"]), _sentence(item["msg"])) for item in error.errors()]
        raise DefinitionsError(name, found) from None
    violations = [*_twice(document), *_status_violations(document.statuses)]
    if violations:
        raise DefinitionsError(name, violations)
    return document


def _twice(document: DefinitionsDocument) -> Iterable[FieldViolation]:
    items: Iterable[tuple[str, DefinitionKey]] = (
        *((f"operations[{i}]", item.key) for i, item in enumerate(document.operations)),
        *((f"statuses[{i}]", item.key) for i, item in enumerate(document.statuses)),
    )
    seen: set[DefinitionKey] = set()
    for path, key in items:
        if key in seen:
            yield FieldViolation(f"{path}.version", "the same version stands twice")
        seen.add(key)


def _status_violations(documents: Sequence[StatusDefinitionDocument]) -> Iterable[FieldViolation]:
    for number, document in enumerate(documents):
        for problem in problems_of(document.definition().statuses):
            field = _STATUS_FIELDS[problem.field]
            yield FieldViolation(f"statuses[{number}].statuses[{problem.index}].{field}", problem.message)


_STATUS_FIELDS = {"code": "code", "lifecycle": "lifecycleStatus", "allowed_from": "allowedFrom"}


def _stored(document: DefinitionsDocument) -> tuple[StoredDefinition, ...]:
    operations = (StoredDefinition(item.key, item.body()) for item in document.operations)
    statuses = (StoredDefinition(item.key, item.body()) for item in document.statuses)
    return (*operations, *statuses)


def operation_of(body: str) -> OperationDefinition:
    """The definition of a stored text. Raises ValueError for one that this release does not understand."""
    return OperationDocument.model_validate_json(body).definition()


def statuses_of(body: str) -> StatusDefinition:
    """The definition of a stored text. Raises ValueError for one that this release does not understand."""
    return StatusDefinitionDocument.model_validate_json(body).definition()


def canonical_json(value: object) -> str:
    """JSON text with sorted keys and no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _is_list(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, list | tuple)


def _sentence(message: str) -> str:
    return message.removeprefix("Value error, ")


def _path(location: tuple[int | str, ...]) -> str:
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path or "the document"
