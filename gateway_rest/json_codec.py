"""JSON to message, strictly (T-3): every departure from the message's JSON form is named by its path, none is guessed.

``google.protobuf.json_format`` accepts more than the mapping allows (an array for a message, both forms of a name,
unknown enum numbers, any base64, integers in a Struct rounded to safe ones) and names no path, so that the fields are
read here. Messages with a JSON form of their own, such as Timestamp, are still read by it.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import json_format, struct_pb2
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from gateway_rest.fields import (
    JSON_VALUE_TYPES,
    BadValueError,
    check_oneof,
    fields_by_any_name,
    is_map,
    is_well_known,
    message_type_of,
    type_of,
)
from gateway_rest.json_text import (
    BODY,
    MAX_DEPTH,
    JsonNumber,
    JsonTree,
    RepeatedName,
    is_unicode,
    parse_json,
    refused_body,
    shown,
    too_deep,
)
from gateway_rest.scalars import Scalar, finite_number, scalar_from_json, scalar_from_text, text_of, unjudged_number
from taskstatus.domain.errors import FieldViolation, RefusedError
from taskstatus.domain.reasons import Reason

_WRAPPERS = "google/protobuf/wrappers.proto"

MAX_VIOLATIONS = 20
"""Violations named in one refusal; enough to mend a request, few enough to read."""


def decode_message(raw: bytes, target: Message) -> None:
    """Read a JSON object into the empty message ``target``.

    Raises RefusedError INVALID_ARGUMENT that names up to MAX_VIOLATIONS fields; ``target`` is useless after that.
    """
    tree = parse_json(raw)
    if not isinstance(tree, dict | RepeatedName):
        raise refused_body("must be a JSON object")
    reader = _Reader()
    reader.message(tree, target, "", 1)
    refuse_violations(reader.violations)


def refuse_violations(violations: list[FieldViolation]) -> None:
    """Raises RefusedError INVALID_ARGUMENT for the violations, when there are any."""
    if not violations:
        return
    first, others = violations[0], " (and others)" if len(violations) > 1 else ""
    message = f"{first.field}: {first.description}{others}"
    raise RefusedError(Reason.INVALID_ARGUMENT, message, tuple(violations[:MAX_VIOLATIONS]))


def well_known_from_json(tree: JsonTree, target: Message) -> None:
    """Read a message with a JSON form of its own, such as Timestamp; BadValueError when it does not fit."""
    if type_of(target).file.name == _WRAPPERS:
        value = type_of(target).fields_by_name["value"]
        setattr(target, value.name, scalar_from_json(value, tree))
        return
    try:
        json_format.ParseDict(_plain(tree), target)
    except (json_format.ParseError, ValueError, TypeError, AttributeError):
        raise BadValueError(f"is not the JSON form of {type_of(target).full_name}") from None


class _Reader:
    """One body; gathers the violations, so that a caller learns of all at once."""

    def __init__(self) -> None:
        self.violations: list[FieldViolation] = []

    def message(self, tree: JsonTree, target: Message, path: str, depth: int) -> None:
        """Read an object into the fields of a message; anything wrong is noted under its own path."""
        known = fields_by_any_name(type_of(target))
        given: set[int] = set()
        for name, value in self._members(tree, path, depth).items():
            field = known.get(name)
            if field is None:
                self._note(_join(path, shown(name)), f"is not a field of {type_of(target).name}")
            elif field.number in given:
                self._note(_join(path, field.json_name), f"is given as {field.json_name} and as {field.name}")
            else:
                given.add(field.number)
                self._field(value, target, field, _join(path, field.json_name), depth)

    def _field(self, tree: JsonTree, target: Message, field: FieldDescriptor, path: str, depth: int) -> None:
        if tree is None and not _takes_null(field):
            return
        try:
            check_oneof(target, field)
            if is_map(field):
                self._map(tree, target, field, path, depth + 1)
            elif field.is_repeated:
                self._list(tree, target, field, path, depth + 1)
            elif field.message_type is not None:
                child = getattr(target, field.name)
                child.SetInParent()
                self._submessage(tree, child, path, depth)
            else:
                setattr(target, field.name, scalar_from_json(field, tree))
        except BadValueError as error:
            self._note(path, str(error))

    def _submessage(self, tree: JsonTree, target: Message, path: str, depth: int) -> None:
        if type_of(target).full_name in JSON_VALUE_TYPES:
            self._any_json(tree, target, path, depth)
        elif is_well_known(type_of(target)):
            well_known_from_json(tree, target)
        else:
            self.message(tree, target, path, depth + 1)

    def _list(self, tree: JsonTree, target: Message, field: FieldDescriptor, path: str, depth: int) -> None:
        elements = getattr(target, field.name)
        for index, element in enumerate(_array(tree, depth)):
            here = f"{path}[{index}]"
            try:
                if element is None and not _takes_null(field):
                    raise BadValueError("must not be null")
                if field.message_type is None:
                    elements.append(scalar_from_json(field, element))
                else:
                    self._submessage(element, elements.add(), here, depth)
            except BadValueError as error:
                self._note(here, str(error))

    def _map(self, tree: JsonTree, target: Message, field: FieldDescriptor, path: str, depth: int) -> None:
        entry = message_type_of(field).fields_by_name
        key_field, value_field = entry["key"], entry["value"]
        entries: Any = getattr(target, field.name)
        keys: set[Scalar] = set()
        for name, value in self._members(tree, path, depth).items():
            here = _join(path, shown(name))
            try:
                key = scalar_from_text(key_field, text_of(name))
                if key in keys:
                    raise BadValueError("is given twice")
                keys.add(key)
                if value is None and not _takes_null(value_field):
                    raise BadValueError("must not be null")
                if value_field.message_type is None:
                    entries[key] = scalar_from_json(value_field, value)
                else:
                    self._submessage(value, entries[key], here, depth)
            except BadValueError as error:
                self._note(here, str(error))

    def _any_json(self, tree: JsonTree, target: Message, path: str, depth: int) -> None:
        """Read any JSON into a Struct, ListValue or Value."""
        if isinstance(target, struct_pb2.Struct):
            self._struct(tree, target, path, depth + 1)
        elif isinstance(target, struct_pb2.ListValue):
            for index, element in enumerate(_array(tree, depth + 1)):
                self._value(element, target.values.add(), f"{path}[{index}]", depth + 1)
        elif isinstance(target, struct_pb2.Value):
            self._value(tree, target, path, depth)

    def _struct(self, tree: JsonTree, target: struct_pb2.Struct, path: str, depth: int) -> None:
        for name, member in self._members(tree, path, depth).items():
            if is_unicode(name):
                self._value(member, target.fields[name], _join(path, shown(name)), depth)
            else:
                self._note(_join(path, shown(name)), "must not hold a lone surrogate")

    def _value(self, tree: JsonTree, target: struct_pb2.Value, path: str, depth: int) -> None:
        try:
            if tree is None:
                target.null_value = struct_pb2.NULL_VALUE
            elif isinstance(tree, bool):
                target.bool_value = tree
            elif isinstance(tree, JsonNumber):
                target.number_value = unjudged_number(tree.text)
            elif isinstance(tree, str):
                target.string_value = text_of(tree)
            elif isinstance(tree, list):
                target.list_value.SetInParent()
                self._any_json(tree, target.list_value, path, depth)
            else:
                target.struct_value.SetInParent()
                self._any_json(tree, target.struct_value, path, depth)
        except BadValueError as error:
            self._note(path, str(error))

    def _members(self, tree: JsonTree, path: str, depth: int) -> dict[str, JsonTree]:
        """The members of an object; none, and a violation, when it is no object that may be read."""
        if depth > MAX_DEPTH:
            self._note(path, too_deep())
        elif isinstance(tree, RepeatedName):
            self._note(_join(path, shown(tree.name)), "is given twice")
        elif not isinstance(tree, dict):
            self._note(path, "must be a JSON object")
        else:
            return tree
        return {}

    def _note(self, path: str, description: str) -> None:
        if len(self.violations) <= MAX_VIOLATIONS:
            self.violations.append(FieldViolation(path or BODY, description))


def _array(tree: JsonTree, depth: int) -> list[JsonTree]:
    if not isinstance(tree, list):
        raise BadValueError("must be a JSON array")
    if depth > MAX_DEPTH:
        raise BadValueError(too_deep())
    return tree


def _takes_null(field: FieldDescriptor) -> bool:
    """Whether ``null`` is a value of the field; for all others it means: not given."""
    if field.message_type is not None:
        return field.message_type.full_name == "google.protobuf.Value"
    return field.enum_type is not None and field.enum_type.full_name == "google.protobuf.NullValue"


def _plain(tree: JsonTree) -> Any:
    """The tree as ``json_format`` wants it."""
    if isinstance(tree, JsonNumber):
        value = finite_number(tree.text)
        return int(tree.text) if tree.text.lstrip("-").isdigit() else value
    if isinstance(tree, str):
        return text_of(tree)
    if isinstance(tree, RepeatedName):
        raise BadValueError("holds one name twice")
    if isinstance(tree, list):
        return [_plain(element) for element in tree]
    if isinstance(tree, dict):
        return {text_of(name): _plain(member) for name, member in tree.items()}
    return tree


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
