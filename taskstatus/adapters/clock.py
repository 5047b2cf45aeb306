"""The one module that reads clocks and randomness; everything else gets them through the ports (style.md 9)."""

from __future__ import annotations

import os
import random
import time


class SystemClock:
    """This machine's clocks (port ``Clock``)."""

    def unix_seconds(self) -> float:
        """Wall clock in Unix seconds."""
        return time.time()

    def monotonic_seconds(self) -> float:
        """Monotonic clock in seconds since an arbitrary start."""
        return time.monotonic()


class SystemRandomness:
    """The operating system's generator (port ``Randomness``): good enough for ids and for keys, safe after a fork."""

    def __init__(self) -> None:
        self._source = random.SystemRandom()

    def bits(self, count: int) -> int:
        """A non-negative integer of ``count`` random bits."""
        size = (count + 7) // 8
        return int.from_bytes(os.urandom(size), "big") >> (size * 8 - count)

    def fraction(self) -> float:
        """A number in [0, 1)."""
        return self._source.random()
