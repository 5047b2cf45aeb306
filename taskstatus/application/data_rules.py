"""What an event's data may be, by its execution's definition, and which of its fields may be shown (P-2, L-5)."""

from __future__ import annotations

import orjson

from taskstatus.application.identity import ExecutionBinding
from taskstatus.application.ports_definitions import DefinitionRegistry, SchemaValidator
from taskstatus.domain.commands import EventContent, EventData
from taskstatus.domain.definitions import DataSchema, OperationDefinition, shown_fields
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.quick_dataclasses import replace
from taskstatus.domain.reasons import Reason

GENERIC = "*"
"""Stands for every operation without a published definition."""


class DataRules:
    """Judges data before the lanes; what it finds is answered at its place in the order of guards (E-2)."""

    def __init__(self, definitions: DefinitionRegistry, validator: SchemaValidator) -> None:
        self._definitions = definitions
        self._validator = validator

    async def definition(self, binding: ExecutionBinding) -> OperationDefinition:
        """The definition of an execution. Raises StoreUnavailableError while it cannot be read."""
        return await self._definitions.bound(
            binding.tenant_id,
            binding.authority_scope,
            binding.definition_task_type,
            binding.operation_code,
            binding.definition_version,
        )

    def judge(self, content: EventContent, definition: OperationDefinition | None) -> EventContent:
        """The content with its data judged; ``definition`` is None for events that belong to no operation."""
        data = content.data
        if data is None or data.fault is not None:
            return content
        return replace(content, data=self._judged(content, data, definition))

    def _judged(self, content: EventContent, data: EventData, definition: OperationDefinition | None) -> EventData:
        schema = definition.schema(data.schema) if definition else None
        if schema is None or content.event_type not in schema.events:
            return replace(data, fault=_not_allowed(content, data, definition))
        if len(data.wire) > schema.max_bytes:
            return replace(data, fault=_too_large(schema, len(data.wire)))
        violation = self._validator.violation(schema, data.value)
        if violation is not None:
            metadata = {"operation": _operation(definition)}
            return replace(data, fault=RefusedError(Reason.SCHEMA_VIOLATION, violation, metadata=metadata))
        return replace(data, shown=_shown(data, schema.detail_fields), summary=_shown(data, schema.summary_fields))


def _shown(data: EventData, fields: tuple[str, ...]) -> bytes:
    chosen = shown_fields(data.value, fields)
    return orjson.dumps(chosen) if chosen else b""


def _operation(definition: OperationDefinition | None) -> str:
    """A published operation's code; whatever else callers call theirs is the generic profile (bounded, for metrics)."""
    if definition is None:
        return ""
    return definition.operation_code if definition.version else GENERIC


def _not_allowed(content: EventContent, data: EventData, definition: OperationDefinition | None) -> RefusedError:
    return RefusedError(
        Reason.SCHEMA_NOT_ALLOWED,
        f"{data.schema} is not registered for {content.event_type} of this operation",
        metadata={"schema": data.schema, "eventType": content.event_type, "operation": _operation(definition)},
    )


def _too_large(schema: DataSchema, size: int) -> RefusedError:
    return RefusedError(
        Reason.PAYLOAD_TOO_LARGE,
        f"data has {size} bytes, at most {schema.max_bytes} are allowed for {schema.name}",
        metadata={"limitBytes": str(schema.max_bytes)},
    )
