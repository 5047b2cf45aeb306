"""Small conversions between protobuf values and the domain's, used by every converter."""

from __future__ import annotations

import hashlib
import math
from datetime import UTC, datetime

from google.protobuf import struct_pb2, timestamp_pb2
from google.protobuf.descriptor import EnumDescriptor
from google.protobuf.message import Message

from taskstatus.domain.definitions import Json
from taskstatus.domain.errors import RefusedError, invalid
from taskstatus.domain.reasons import Reason
from taskstatus.domain.records import CANONICAL_VERSION

SAFE_INTEGER = 2**53
EVENT_DATA_MAX_BYTES = 16 * 1024
PATH_MAX = 200
DATA_MAX_DEPTH = 16
"""JSON levels of ``data.value``; protobuf's own parsers end at about 33."""


def to_timestamp(at: datetime) -> timestamp_pb2.Timestamp:
    """A Timestamp of a naive UTC time."""
    stamp = timestamp_pb2.Timestamp()
    stamp.FromDatetime(at)
    return stamp


def unix_to_timestamp(seconds: float) -> timestamp_pb2.Timestamp:
    """A Timestamp of whole Unix seconds."""
    return timestamp_pb2.Timestamp(seconds=int(seconds))


def from_timestamp(path: str, stamp: timestamp_pb2.Timestamp) -> datetime:
    """A naive UTC time, truncated to microseconds; INVALID_ARGUMENT outside years 1…9999."""
    try:
        return stamp.ToDatetime(tzinfo=UTC).replace(tzinfo=None)
    except (ValueError, OverflowError) as error:
        raise invalid(path, "is not a time between the years 1 and 9999") from error


def whole_milliseconds(path: str, value: float) -> int:
    """A duration in whole milliseconds; INVALID_ARGUMENT when it is negative, broken or not finite."""
    if not math.isfinite(value) or value < 0 or value > SAFE_INTEGER or value != int(value):
        raise invalid(path, "must be a whole, non-negative number of milliseconds")
    return int(value)


def enum_name(path: str, enum: EnumDescriptor, number: int) -> str:
    """The name of an enum number; INVALID_ARGUMENT for one that this version does not know."""
    value = enum.values_by_number.get(number)
    if value is None:
        raise invalid(path, "is not a known value")
    return str(value.name)


def canonical_request(message: Message, *, without: tuple[str, ...]) -> tuple[bytes, bytes]:
    """(deterministic form, digest) of a request without its command id and the ids that are keys already (ID-3)."""
    copy = type(message)()
    copy.CopyFrom(message)
    for name in without:
        copy.ClearField(name)
    return canonical_message(copy)


def canonical_command(message: Message, *, without: tuple[str, ...]) -> tuple[bytes, bytes]:
    """As ``canonical_request``, with the request's name: equal content of two methods is not the same command (R-6)."""
    known = tuple(name for name in without if name in message.DESCRIPTOR.fields_by_name)
    content, _ = canonical_request(message, without=known)
    canonical = message.DESCRIPTOR.name.encode() + b"\x1f" + content
    return canonical, digest_of(canonical)


def canonical_message(message: Message) -> tuple[bytes, bytes]:
    """(deterministic form, SHA-256 over the version byte and the form)."""
    canonical = message.SerializeToString(deterministic=True)
    return canonical, digest_of(canonical)


def digest_of(canonical: bytes) -> bytes:
    """SHA-256 over the canonical version byte and the bytes (E-3)."""
    return hashlib.sha256(bytes([CANONICAL_VERSION]) + canonical).digest()


def find_data_fault(value: struct_pb2.Struct, wire_size: int) -> RefusedError | None:
    """What is wrong with ``data.value``: too large, too deep, not finite, or an integer beyond ±2⁵³ (E-13)."""
    if wire_size > EVENT_DATA_MAX_BYTES:
        return RefusedError(
            Reason.PAYLOAD_TOO_LARGE,
            f"data has {wire_size} bytes, at most {EVENT_DATA_MAX_BYTES} are allowed",
            metadata={"limitBytes": str(EVENT_DATA_MAX_BYTES)},
        )
    return _fault_in_struct(value, "data.value", 1)


def struct_to_json(struct: struct_pb2.Struct) -> dict[str, Json]:
    """The value as plain JSON; whole numbers become integers, as people wrote them."""
    return {name: _value_to_json(value) for name, value in struct.fields.items()}


def _value_to_json(value: struct_pb2.Value) -> Json:
    match value.WhichOneof("kind"):
        case "number_value":
            number = value.number_value
            return int(number) if number.is_integer() else number
        case "string_value":
            return value.string_value
        case "bool_value":
            return value.bool_value
        case "struct_value":
            return struct_to_json(value.struct_value)
        case "list_value":
            return [_value_to_json(item) for item in value.list_value.values]
        case _:
            return None


def _fault_in_struct(struct: struct_pb2.Struct, path: str, depth: int) -> RefusedError | None:
    if depth > DATA_MAX_DEPTH:
        return _invalid_at(path, f"is nested deeper than {DATA_MAX_DEPTH} levels")
    for name, value in struct.fields.items():
        fault = _fault_in_value(value, f"{path}.{name}", depth)
        if fault is not None:
            return fault
    return None


def _fault_in_value(value: struct_pb2.Value, path: str, depth: int) -> RefusedError | None:
    kind = value.WhichOneof("kind")
    if kind == "number_value":
        return _fault_in_number(value.number_value, path)
    if kind == "struct_value":
        return _fault_in_struct(value.struct_value, path, depth + 1)
    if kind == "list_value":
        if depth >= DATA_MAX_DEPTH:
            return _invalid_at(path, f"is nested deeper than {DATA_MAX_DEPTH} levels")
        for index, item in enumerate(value.list_value.values):
            fault = _fault_in_value(item, f"{path}[{index}]", depth + 1)
            if fault is not None:
                return fault
    return _invalid_at(path, "holds no value") if kind is None else None


def _fault_in_number(number: float, path: str) -> RefusedError | None:
    if not math.isfinite(number):
        return _invalid_at(path, "is not a finite number")
    if abs(number) > SAFE_INTEGER and number == int(number):
        return _invalid_at(path, "is an integer beyond ±2⁵³, which JSON readers would round")
    return None


def _invalid_at(path: str, description: str) -> RefusedError:
    """An INVALID_ARGUMENT whose path stays short whatever the caller called its fields."""
    return invalid(path if len(path) <= PATH_MAX else path[:PATH_MAX] + "…", description)
