"""The system's clock and randomness."""

from __future__ import annotations

from taskstatus.adapters.clock import SystemClock, SystemRandomness


def test_clocks_do_not_go_back() -> None:
    clock = SystemClock()
    first = clock.monotonic_seconds()
    assert clock.monotonic_seconds() >= first
    assert clock.unix_seconds() > 1_700_000_000


def test_randomness_stays_within_its_range() -> None:
    randomness = SystemRandomness()
    assert all(0 <= randomness.bits(62) < 2**62 for _ in range(100))
    assert all(0 <= randomness.fraction() < 1 for _ in range(100))
    assert len({randomness.bits(62) for _ in range(100)}) == 100
