"""Durations from one clock each, never across machines (Q-2)."""

from __future__ import annotations

from datetime import datetime, timedelta

_MILLISECOND = timedelta(milliseconds=1)


def milliseconds_between(start: datetime, end: datetime) -> int:
    """Whole milliseconds from start to end, truncated; 0 when the clock stepped back."""
    return max(0, (end - start) // _MILLISECOND)


def json_time(at: datetime) -> str:
    """RFC 3339 in UTC with 0, 3 or 6 fractional digits: protobuf's JSON form of a Timestamp."""
    if at.microsecond == 0:
        return f"{at.isoformat(timespec='seconds')}Z"
    return f"{at.isoformat(timespec='microseconds' if at.microsecond % 1000 else 'milliseconds')}Z"
