"""Single values between columns and domain types; every conversion is total and loses nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum
from operator import attrgetter
from typing import Any, TypeVar

import orjson

_EPOCH = datetime(1970, 1, 1)

E = TypeVar("E", bound=StrEnum)


def text(value: bytes | str) -> str:
    """A VARBINARY column's text: ids, keys and codes."""
    return value.decode() if isinstance(value, bytes) else value


def optional_enum(kind: type[E], value: bytes | str | None) -> E | None:
    """The member of a closed vocabulary, or None for NULL."""
    return None if value is None else kind(text(value))


plain: Callable[[StrEnum], str] = attrgetter("_value_")
"""The plain text of a member, since drivers choose the encoding by the exact type.

``.value`` is the same by two calls in Python; a row has half a dozen.
"""


def value_or_null(member: StrEnum | None) -> str | None:
    """The plain text of a member, or NULL."""
    return None if member is None else plain(member)


def to_json(value: Any) -> bytes:
    """Compact JSON of strings, integers, lists and mappings; kept as bytes, never in a JSON column."""
    return orjson.dumps(value)


def from_json(value: bytes | str) -> Any:
    """The value of ``to_json``."""
    return orjson.loads(value)


def epoch_micros(moment: datetime) -> int:
    """A naive UTC time as microseconds since 1970, exactly."""
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def from_epoch_micros(micros: int) -> datetime:
    """The naive UTC time of microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=micros)
