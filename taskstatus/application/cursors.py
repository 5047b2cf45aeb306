"""Cursors: where the next page of a list begins, as one opaque word that is safe in a URL and good for that list only.

A cursor holds a position and a check over the position and the whole query: the kind of list, the caller's tenant and
scope or person, and every condition. One that was cut, changed or made for another query is refused. The check is a
plain digest, not a MAC, on purpose: a position is a time and the id of an object that its reader has just been shown,
so it tells nothing, and it grants nothing, since rights are judged anew for every page. Who forges one only chooses
where a page of their own list begins. So no key has to be shared between replicas, rotated or kept.
"""

from __future__ import annotations

import base64
import hashlib
from datetime import datetime, timedelta

from taskstatus.domain.errors import RefusedError, invalid

Query = tuple[object, ...]
"""What a cursor is bound to: the name of the list, then plain values whose ``repr`` is the same in every process."""

CHECK_BYTES = 12

_EPOCH = datetime(1970, 1, 1)
_ALL_MICROSECONDS = (datetime.max - _EPOCH) // timedelta(microseconds=1)


def write_cursor(query: Query, position: bytes) -> str:
    """The position as one opaque word."""
    return base64.urlsafe_b64encode(position + _check(query, position)).decode().rstrip("=")


def read_cursor(query: Query, cursor: str, size: int) -> bytes:
    """The ``size`` bytes of a position. Raises RefusedError INVALID_ARGUMENT for a word that this query never gave."""
    try:
        packed = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except ValueError:
        raise no_cursor() from None
    position = packed[:size]
    if len(packed) != size + CHECK_BYTES or write_cursor(query, position) != cursor:
        raise no_cursor()
    return position


def to_micros(moment: datetime) -> int:
    """A naive UTC time as microseconds since 1970."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def from_micros(micros: int) -> datetime:
    """The naive UTC time. Raises RefusedError INVALID_ARGUMENT when there is no such time after 1970."""
    if not 0 <= micros <= _ALL_MICROSECONDS:
        raise no_cursor()
    return _EPOCH + timedelta(microseconds=micros)


def no_cursor() -> RefusedError:
    """The one answer for every word that is no cursor of the query."""
    return invalid("cursor", "must be the next_cursor of an earlier page of the same query")


def _check(query: Query, position: bytes) -> bytes:
    return hashlib.sha256(repr(query).encode() + position).digest()[:CHECK_BYTES]
