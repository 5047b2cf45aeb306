"""Operation definitions: what one function may report and which of its data each projection may show (L-5, P-2).

A definition version is immutable once published; an execution is bound to one version for life. An operation without a
definition runs under the generic profile: its own lifecycle, free phases, and ``generic.progress.v1`` as its only data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from taskstatus.domain.events import EXECUTION_EVENTS, EventType
from taskstatus.domain.quick_dataclasses import dataclass
from taskstatus.domain.state import FailurePolicy

GENERIC_VERSION = 0
"""The version number of the generic profile; published definitions begin at 1."""
ANY_TASK_TYPE = "*"

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]
JsonObject = Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class DataSchema:
    """One version of the data of one operation."""

    name: str
    """With its version, such as ``document.parse.completed.v2``."""
    events: frozenset[EventType]
    """The events that may carry it."""
    json_schema: str
    """JSON Schema as canonical JSON text."""
    detail_fields: tuple[str, ...]
    """Top-level fields that ``task.detail`` may show."""
    summary_fields: tuple[str, ...]
    """Top-level fields that ``task.summary`` may show."""
    max_bytes: int


@dataclass(frozen=True, slots=True)
class OperationDefinition:
    """One published version of one operation of a tenant and scope."""

    operation_code: str
    version: int
    task_type: str
    """A task type, or ``*``."""
    display_name: str
    producers: tuple[str, ...]
    """Patterns of the producers that may run it; ``*`` within a pattern matches anything."""
    events: frozenset[EventType]
    failure_policy: FailurePolicy | None
    """The policy of steps that name none."""
    is_idempotent: bool
    schemas: tuple[DataSchema, ...]

    def admits_producer(self, producer_id: str) -> bool:
        """Whether the producer may run the operation; the comparison is by bytes, with ``*`` as wildcard."""
        return any(_pattern(pattern).fullmatch(producer_id) for pattern in self.producers)

    def schema(self, name: str) -> DataSchema | None:
        """The schema of that name."""
        return next((schema for schema in self.schemas if schema.name == name), None)


@lru_cache(maxsize=4_096)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in text.split("*")), re.DOTALL)


GENERIC_PROGRESS_SCHEMA = DataSchema(
    name="generic.progress.v1",
    events=frozenset({EventType.STEP_PROGRESS}),
    json_schema=json.dumps(
        {
            "type": "object",
            "properties": {"message": {"type": "string", "maxLength": 200}, "items": {"type": "number"}},
            "additionalProperties": False,
        },
        sort_keys=True,
    ),
    detail_fields=("message", "items"),
    summary_fields=("message",),
    max_bytes=1024,
)


@lru_cache(maxsize=4_096)
def generic_profile(operation_code: str) -> OperationDefinition:
    """The profile of an operation that has no definition; it can never end a task."""
    return OperationDefinition(
        operation_code=operation_code,
        version=GENERIC_VERSION,
        task_type=ANY_TASK_TYPE,
        display_name="",
        producers=("*",),
        events=EXECUTION_EVENTS,
        failure_policy=None,
        is_idempotent=False,
        schemas=(GENERIC_PROGRESS_SCHEMA,),
    )


def shown_fields(value: JsonObject, fields: Sequence[str]) -> dict[str, Json]:
    """The whitelisted top-level fields of a value, in the order of the whitelist; what is not named cannot leak."""
    return {name: value[name] for name in fields if name in value}


def incompatibilities(old: DataSchema, new: DataSchema) -> list[str]:
    """Why ``new`` may not bear the name of ``old``: a schema of the same name may only gain optional fields (L-5)."""
    if old.json_schema == new.json_schema:
        return []
    before, after = json.loads(old.json_schema), json.loads(new.json_schema)
    return [f"{old.name}: {problem}" for problem in _object_problems("", before, after)]


def _object_problems(path: str, before: Mapping[str, Json], after: Mapping[str, Json]) -> list[str]:
    old_fields, new_fields = _fields(before), _fields(after)
    problems = [f"{path}{name} was removed" for name in old_fields if name not in new_fields]
    added_required = set(_required(after)) - set(_required(before))
    problems += [f"{path}{name} became required" for name in sorted(added_required)]
    rest_before = {key: value for key, value in before.items() if key not in ("properties", "required")}
    rest_after = {key: value for key, value in after.items() if key not in ("properties", "required")}
    if rest_before != rest_after:
        problems.append(f"{path or 'the object'} changed in more than its properties")
    for name in old_fields.keys() & new_fields.keys():
        problems += _field_problems(f"{path}{name}", old_fields[name], new_fields[name])
    return problems


def _field_problems(path: str, before: Json, after: Json) -> list[str]:
    if before == after:
        return []
    if isinstance(before, Mapping) and isinstance(after, Mapping) and "properties" in before and "properties" in after:
        return _object_problems(f"{path}.", before, after)
    return [f"{path} changed"]


def _fields(schema: Mapping[str, Json]) -> Mapping[str, Json]:
    properties = schema.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def _required(schema: Mapping[str, Json]) -> list[str]:
    required = schema.get("required")
    return [str(name) for name in required] if isinstance(required, Sequence) and not isinstance(required, str) else []
