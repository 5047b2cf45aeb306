"""JSON values and texts to scalar field values, strictly: nothing is rounded, wrapped around or guessed."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from types import MappingProxyType
from typing import Final, TypeAlias

from google.protobuf.descriptor import FieldDescriptor

from gateway_rest.fields import BadValueError, enum_type_of
from gateway_rest.json_text import JsonNumber, JsonTree, is_unicode, shown

Scalar: TypeAlias = bool | int | float | str | bytes

MAX_SAFE_INTEGER: Final = 2**53
"""The largest integer up to which every integer is a double (E-13)."""

MAX_NUMBER_CHARS: Final = 400
"""Longer than any double or 64-bit integer needs, short enough to be read exactly at no cost."""

_MAX_FLOAT32 = 3.4028234663852886e38
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_BASE64 = re.compile(r"([A-Za-z0-9+/]*|[A-Za-z0-9_-]*)={0,2}")

_UNSIGNED_32, _SIGNED_32 = (0, 2**32 - 1), (-(2**31), 2**31 - 1)
_UNSIGNED_64, _SIGNED_64 = (0, 2**64 - 1), (-(2**63), 2**63 - 1)
INTEGER_RANGES: Final[Mapping[int, tuple[int, int]]] = MappingProxyType(
    {
        FieldDescriptor.TYPE_INT32: _SIGNED_32,
        FieldDescriptor.TYPE_SINT32: _SIGNED_32,
        FieldDescriptor.TYPE_SFIXED32: _SIGNED_32,
        FieldDescriptor.TYPE_UINT32: _UNSIGNED_32,
        FieldDescriptor.TYPE_FIXED32: _UNSIGNED_32,
        FieldDescriptor.TYPE_INT64: _SIGNED_64,
        FieldDescriptor.TYPE_SINT64: _SIGNED_64,
        FieldDescriptor.TYPE_SFIXED64: _SIGNED_64,
        FieldDescriptor.TYPE_UINT64: _UNSIGNED_64,
        FieldDescriptor.TYPE_FIXED64: _UNSIGNED_64,
    }
)
"""Smallest and largest value of each integer type."""


def scalar_from_json(field: FieldDescriptor, tree: JsonTree) -> Scalar:
    """The value of a scalar or enum field (of one element, when repeated); BadValueError when it does not fit."""
    if field.type in INTEGER_RANGES:
        return _integer(field, tree)
    return _READERS[field.type](field, tree)


def scalar_from_text(field: FieldDescriptor, text: str) -> Scalar:
    """The same from a path or query parameter, which has no types of its own."""
    if field.type == FieldDescriptor.TYPE_BOOL:
        if text not in ("true", "false"):
            raise BadValueError("must be true or false")
        return text == "true"
    is_enum_number = field.type == FieldDescriptor.TYPE_ENUM and _NUMBER.fullmatch(text) is not None
    return scalar_from_json(field, JsonNumber(text) if is_enum_number else text)


def finite_number(text: str) -> float:
    """The double next to a JSON number; BadValueError for NaN, Infinity and what only infinity is next to."""
    if len(text) > MAX_NUMBER_CHARS or not math.isfinite(value := float(text)):
        raise BadValueError("must be a finite number")
    return value


def unjudged_number(text: str) -> float:
    """The double next to a number of ``data.value``, never nearer to zero than ±2⁵³ when the number lies beyond (E-13).

    Whether such a number is taken is for the guard *data is valid*, as on every transport: 9007199254740993 becomes the
    next double that the guard refuses, 1e400 infinity.
    """
    value = float(text)
    # Rounding never crosses 2⁵³, which is a double itself: only there can the text say more than the double.
    if abs(value) == MAX_SAFE_INTEGER and abs(Decimal(text)) > MAX_SAFE_INTEGER:
        return math.nextafter(value, math.copysign(math.inf, value))
    return value


def text_of(tree: JsonTree) -> str:
    """A string that can be stored; BadValueError for other types and for lone surrogates."""
    if not isinstance(tree, str):
        raise BadValueError("must be a string")
    if not is_unicode(tree):
        raise BadValueError("must not hold a lone surrogate")
    return tree


def _exact(text: str) -> Decimal | None:
    """A JSON number without any rounding; None for NaN, Infinity, and what is too long or large to be one of ours."""
    if len(text) > MAX_NUMBER_CHARS:
        return None
    try:
        exact = Decimal(text)
    except InvalidOperation:
        return None
    return exact if exact.is_finite() else None


def _number_text(tree: JsonTree) -> str:
    """The text of a number, or of a string that the JSON grammar would let pass as one."""
    if isinstance(tree, JsonNumber):
        return tree.text
    if isinstance(tree, str) and _NUMBER.fullmatch(tree):
        return tree
    raise BadValueError("must be a number")


def _integer(field: FieldDescriptor, tree: JsonTree) -> int:
    low, high = INTEGER_RANGES[field.type]
    exact = _exact(_number_text(tree))
    if exact is None or not low <= exact <= high:
        raise BadValueError(f"must be an integer from {low} to {high}")
    value = int(exact)
    if value != exact:
        raise BadValueError("must be an integer")
    return value


def _double(_: FieldDescriptor, tree: JsonTree) -> float:
    return finite_number(_number_text(tree))


def _float(_: FieldDescriptor, tree: JsonTree) -> float:
    value = finite_number(_number_text(tree))
    if abs(value) > _MAX_FLOAT32:
        raise BadValueError("must be a finite number")
    return value


def _bool(_: FieldDescriptor, tree: JsonTree) -> bool:
    if not isinstance(tree, bool):
        raise BadValueError("must be true or false")
    return tree


def _string(_: FieldDescriptor, tree: JsonTree) -> str:
    return text_of(tree)


def _bytes(_: FieldDescriptor, tree: JsonTree) -> bytes:
    text = text_of(tree)
    if not _BASE64.fullmatch(text):
        raise BadValueError("must be base64")
    bare = text.rstrip("=").replace("-", "+").replace("_", "/")
    padded = bare + "=" * (-len(bare) % 4)
    try:
        value = base64.b64decode(padded, validate=True)
    except binascii.Error:
        raise BadValueError("must be base64") from None
    # Bits that no byte uses, or half a padding, would make two texts of one value.
    if base64.b64encode(value).decode() != padded or text.count("=") not in (0, padded.count("=")):
        raise BadValueError("must be base64")
    return value


def _enum(field: FieldDescriptor, tree: JsonTree) -> int:
    enum = enum_type_of(field)
    if isinstance(tree, str):
        named = enum.values_by_name.get(tree)
        if named is None:
            raise BadValueError(f"{shown(tree)} is not a value of {enum.name}")
        return int(named.number)
    if not isinstance(tree, JsonNumber):
        raise BadValueError(f"must be the name of a value of {enum.name}")
    exact = _exact(tree.text)
    number = next((value.number for value in enum.values if value.number == exact), None)
    if number is None:
        raise BadValueError(f"must be the name or number of a value of {enum.name}")
    return int(number)


_READERS: Final[Mapping[int, Callable[[FieldDescriptor, JsonTree], Scalar]]] = MappingProxyType(
    {
        FieldDescriptor.TYPE_DOUBLE: _double,
        FieldDescriptor.TYPE_FLOAT: _float,
        FieldDescriptor.TYPE_BOOL: _bool,
        FieldDescriptor.TYPE_STRING: _string,
        FieldDescriptor.TYPE_BYTES: _bytes,
        FieldDescriptor.TYPE_ENUM: _enum,
    }
)
