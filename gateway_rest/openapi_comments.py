"""The protos' comments by full name, from a descriptor set with source information."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from google.protobuf import descriptor_pb2

Comments: TypeAlias = Mapping[str, str]
"""Full name of a service, method, message, field, enum or value → its comment, lines joined into paragraphs."""

_Path: TypeAlias = tuple[int, ...]
# Field numbers of descriptor.proto, of which the paths of source locations are made.
_FILE_MESSAGES, _FILE_ENUMS, _FILE_SERVICES = 4, 5, 6
_MESSAGE_FIELDS, _MESSAGE_MESSAGES, _MESSAGE_ENUMS = 2, 3, 4
_ENUM_VALUES = _SERVICE_METHODS = 2


def comments_of(descriptors: descriptor_pb2.FileDescriptorSet) -> Comments:
    """The leading comments of everything in the set."""
    return dict(entry for file in descriptors.file for entry in _file_comments(file))


def paragraphs(comment: str) -> str:
    """A comment with the line breaks inside its paragraphs taken out."""
    blocks = comment.strip().split("\n\n")
    return "\n\n".join(" ".join(line.strip() for line in block.splitlines()) for block in blocks)


def _file_comments(file: descriptor_pb2.FileDescriptorProto) -> Iterator[tuple[str, str]]:
    texts = {
        tuple(location.path): paragraphs("\n".join(line.strip() for line in location.leading_comments.splitlines()))
        for location in file.source_code_info.location
        if location.leading_comments
    }
    for path, name in _file_names(file):
        if path in texts:
            yield name, texts[path]


def _file_names(file: descriptor_pb2.FileDescriptorProto) -> Iterator[tuple[_Path, str]]:
    for index, message in enumerate(file.message_type):
        yield from _message_names(message, (_FILE_MESSAGES, index), file.package)
    yield from _enum_names(file.enum_type, (_FILE_ENUMS,), file.package)
    for index, service in enumerate(file.service):
        path, name = (_FILE_SERVICES, index), f"{file.package}.{service.name}"
        yield path, name
        for number, method in enumerate(service.method):
            yield (*path, _SERVICE_METHODS, number), f"{name}.{method.name}"


def _message_names(message: descriptor_pb2.DescriptorProto, path: _Path, scope: str) -> Iterator[tuple[_Path, str]]:
    name = f"{scope}.{message.name}"
    yield path, name
    for index, field in enumerate(message.field):
        yield (*path, _MESSAGE_FIELDS, index), f"{name}.{field.name}"
    for index, nested in enumerate(message.nested_type):
        yield from _message_names(nested, (*path, _MESSAGE_MESSAGES, index), name)
    yield from _enum_names(message.enum_type, (*path, _MESSAGE_ENUMS), name)


def _enum_names(
    enums: Sequence[descriptor_pb2.EnumDescriptorProto], path: _Path, scope: str
) -> Iterator[tuple[_Path, str]]:
    for index, enum in enumerate(enums):
        yield (*path, index), f"{scope}.{enum.name}"
        # The scope of a value is that of its enum (descriptor.proto), so that its own full name lacks the enum's.
        for number, value in enumerate(enum.value):
            yield (*path, index, _ENUM_VALUES, number), f"{scope}.{enum.name}.{value.name}"
