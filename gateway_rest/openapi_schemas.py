"""Messages and enums as the schemas of their JSON form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from gateway_rest.fields import is_map, is_well_known
from gateway_rest.openapi_comments import Comments
from gateway_rest.scalars import INTEGER_RANGES

Json: TypeAlias = dict[str, Any]

_TEXT_INTEGERS = frozenset(kind for kind, (_, high) in INTEGER_RANGES.items() if high > 2**32)
_WELL_KNOWN: Final[Mapping[str, Json]] = MappingProxyType(
    {
        "google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
        "google.protobuf.Duration": {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]{1,9})?s$"},
        "google.protobuf.FieldMask": {"type": "string"},
        "google.protobuf.Struct": {"type": "object", "additionalProperties": True},
        "google.protobuf.ListValue": {"type": "array", "items": True},
        "google.protobuf.Value": {},
    }
)
_OTHER_SCALARS: Final[Mapping[int, Json]] = MappingProxyType(
    {
        FieldDescriptor.TYPE_DOUBLE: {"type": "number", "format": "double"},
        FieldDescriptor.TYPE_FLOAT: {"type": "number", "format": "float"},
        FieldDescriptor.TYPE_BOOL: {"type": "boolean"},
        FieldDescriptor.TYPE_STRING: {"type": "string"},
        FieldDescriptor.TYPE_BYTES: {"type": "string", "contentEncoding": "base64"},
    }
)


class SchemaSet:
    """The component schemas of the messages that the routes send and receive."""

    def __init__(self, package: str, comments: Comments) -> None:
        self._prefix = f"{package}."
        self._comments = comments

    def components(self, requests: Iterable[Descriptor], responses: Iterable[Descriptor]) -> Json:
        """Schemas by name of everything reachable.

        Unknown fields of a request are refused, so its schemas are closed. A response may gain fields, and always
        holds those without presence.
        """
        sent, received = _reachable(requests), _reachable(responses)
        schemas: Json = {}
        enums: dict[str, EnumDescriptor] = {}
        for message in {**sent, **received}.values():
            schemas[self.name(message)] = self._message(message, message.full_name in sent)
            enums.update({each.enum_type.full_name: each.enum_type for each in message.fields if each.enum_type})
        schemas.update({self.name(enum): self._enum(enum) for enum in enums.values()})
        return dict(sorted(schemas.items()))

    def name(self, descriptor: Descriptor | EnumDescriptor) -> str:
        """The component's name: the full name without the package."""
        return descriptor.full_name.removeprefix(self._prefix)

    def reference(self, descriptor: Descriptor | EnumDescriptor) -> Json:
        """The schema of any value of the type."""
        if isinstance(descriptor, Descriptor) and is_well_known(descriptor):
            return dict(_WELL_KNOWN.get(descriptor.full_name, {}))
        return {"$ref": f"#/components/schemas/{self.name(descriptor)}"}

    def field(self, field: FieldDescriptor) -> Json:
        """The schema of a field, with its comment."""
        return {**self._shape(field), **self.described(field.full_name)}

    def described(self, full_name: str) -> Json:
        """``description`` from the comment of the thing named; empty without one."""
        comment = self._comments.get(full_name)
        return {"description": comment} if comment else {}

    def _shape(self, field: FieldDescriptor) -> Json:
        if is_map(field) and field.message_type is not None:
            value = field.message_type.fields_by_name["value"]
            return {"type": "object", "additionalProperties": self._element(value)}
        if field.is_repeated:
            return {"type": "array", "items": self._element(field)}
        return self._element(field)

    def _element(self, field: FieldDescriptor) -> Json:
        if field.message_type is not None:
            return self.reference(field.message_type)
        if field.enum_type is not None:
            return self.reference(field.enum_type)
        if field.type in INTEGER_RANGES:
            return _integer(field)
        return dict(_OTHER_SCALARS[field.type])

    def _message(self, message: Descriptor, is_sent: bool) -> Json:
        schema: Json = {
            "type": "object",
            **self.described(message.full_name),
            "properties": {field.json_name: self.field(field) for field in message.fields},
        }
        if is_sent:
            schema["additionalProperties"] = False
        elif always := [field.json_name for field in message.fields if not field.has_presence]:
            schema["required"] = always
        return schema

    def _enum(self, enum: EnumDescriptor) -> Json:
        names = [value.name for value in enum.values]
        explained = [(name, self._comments.get(f"{enum.full_name}.{name}", "")) for name in names]
        lines = [f"- `{name}`: {comment}" for name, comment in explained if comment]
        text = "\n".join(filter(None, [self._comments.get(enum.full_name, ""), "", *lines])) if lines else ""
        return {"type": "string", **({"description": text} if text else {}), "enum": names}


def _integer(field: FieldDescriptor) -> Json:
    low, high = INTEGER_RANGES[field.type]
    if field.type in _TEXT_INTEGERS:
        sign = "" if low == 0 else "-?"
        return {"type": "string", "format": "uint64" if low == 0 else "int64", "pattern": f"^{sign}[0-9]+$"}
    return {"type": "integer", "minimum": low, "maximum": high}


def _reachable(roots: Iterable[Descriptor]) -> dict[str, Descriptor]:
    found: dict[str, Descriptor] = {}
    waiting = list(roots)
    while waiting:
        message = waiting.pop()
        if message.full_name in found or is_well_known(message):
            continue
        if not message.GetOptions().map_entry:
            found[message.full_name] = message
        waiting.extend(field.message_type for field in message.fields if field.message_type is not None)
    return found
