"""The database clock of the in-memory store."""

from __future__ import annotations

from datetime import datetime, timedelta

_START = datetime(2026, 1, 1)
_TICK = timedelta(microseconds=1)


class MemoryDatabaseClock:
    """A naive UTC clock that stands still but for one microsecond per reading, and moves when a test says so."""

    def __init__(self, start: datetime = _START) -> None:
        self._now = start

    def read(self) -> datetime:
        """The time, later than at the last reading."""
        self._now += _TICK
        return self._now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now += timedelta(seconds=seconds)
