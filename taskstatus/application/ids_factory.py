"""New ids of our own: UUIDv7 with the bucket inside (S-1)."""

from __future__ import annotations

from taskstatus.application.ports_clock import Clock, Randomness
from taskstatus.domain.ids import make_id


class IdFactory:
    """Makes ids whose time part never goes back within this process."""

    def __init__(self, clock: Clock, randomness: Randomness) -> None:
        self._clock = clock
        self._randomness = randomness
        self._last_ms = 0

    def new(self, bucket: int) -> bytes:
        """A new id in the bucket."""
        self._last_ms = max(self._last_ms, int(self._clock.unix_seconds() * 1000))
        return make_id(self._last_ms, bucket, self._randomness.bits(62))
