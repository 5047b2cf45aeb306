"""Time and randomness as ports: read in one adapter, replaced in tests and simulations."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """This process's clocks; facts are judged by the database's clock, never by these (E-6)."""

    def unix_seconds(self) -> float:
        """Wall clock, for the expiry of credentials and for the time part of ids."""
        ...

    def monotonic_seconds(self) -> float:
        """Monotonic clock, for time waited inside this process."""
        ...


class Randomness(Protocol):
    """Random bits for ids and jitter."""

    def bits(self, count: int) -> int:
        """A non-negative integer of ``count`` random bits."""
        ...

    def fraction(self) -> float:
        """A number in [0, 1)."""
        ...
