"""What the codec asks of message descriptors."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import cast

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

JSON_VALUE_TYPES = frozenset({"google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"})
"""Messages that hold any JSON."""

WELL_KNOWN_PREFIX = "google.protobuf."


class BadValueError(Exception):
    """A value does not fit its field; the text is a violation's description, safe to show."""


@cache
def fields_by_any_name(descriptor: Descriptor) -> Mapping[str, FieldDescriptor]:
    """The fields under both their names, lowerCamelCase and as in the proto."""
    names = {field.name: field for field in descriptor.fields}
    names.update({field.json_name: field for field in descriptor.fields})
    return MappingProxyType(names)


def type_of(message: Message) -> Descriptor:
    """The message's type."""
    # The stubs also allow for the descriptor of the C implementation, which has the same interface.
    return cast("Descriptor", message.DESCRIPTOR)


def message_type_of(field: FieldDescriptor) -> Descriptor:
    """The type of a field known to hold messages; TypeError for any other."""
    if field.message_type is None:
        raise TypeError(f"{field.full_name} holds no message")
    return field.message_type


def enum_type_of(field: FieldDescriptor) -> EnumDescriptor:
    """The type of a field known to hold enum values; TypeError for any other."""
    if field.enum_type is None:
        raise TypeError(f"{field.full_name} holds no enum value")
    return field.enum_type


def is_map(field: FieldDescriptor) -> bool:
    """Whether the field is a ``map<…>``."""
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def resolve_path(descriptor: Descriptor, dotted: str) -> tuple[FieldDescriptor, ...]:
    """The fields that a dotted path such as ``progress.current`` passes, in either name form.

    Raises KeyError when a part is no field, or when it goes on below something that is no single message.
    """
    parts = dotted.split(".")
    chain: list[FieldDescriptor] = []
    for position, part in enumerate(parts):
        field = fields_by_any_name(descriptor)[part]
        chain.append(field)
        if position < len(parts) - 1:
            if field.message_type is None or field.is_repeated or is_well_known(field.message_type):
                raise KeyError(dotted)
            descriptor = field.message_type
    return tuple(chain)


def is_well_known(descriptor: Descriptor) -> bool:
    """Whether the message has a JSON form of its own, such as Timestamp."""
    return descriptor.full_name.startswith(WELL_KNOWN_PREFIX)


def json_path(chain: tuple[FieldDescriptor, ...]) -> str:
    """The chain in the JSON form of the request, such as ``progress.current``."""
    return ".".join(field.json_name for field in chain)


def descend(message: Message, chain: tuple[FieldDescriptor, ...]) -> Message:
    """The message that holds the last field of the chain."""
    for field in chain[:-1]:
        message = getattr(message, field.name)
    return message


def is_given(message: Message, field: FieldDescriptor) -> bool:
    """Whether the field was set, as far as the message knows: a field without presence is given unless default."""
    if field.has_presence:
        return message.HasField(field.name)
    return bool(getattr(message, field.name))


def check_oneof(message: Message, field: FieldDescriptor) -> None:
    """Raises BadValueError when another field of the same ``oneof`` is set already."""
    group = field.containing_oneof
    if group is None:
        return
    chosen = message.WhichOneof(group.name)
    if chosen is not None and chosen != field.name:
        other = message.DESCRIPTOR.fields_by_name[chosen].json_name
        raise BadValueError(f"cannot be given together with {other}")
