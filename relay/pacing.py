"""How long the relay waits: between polls, after failures, during an outage. No I/O; jitter is an argument."""

from __future__ import annotations

from relay.config import RelayConfig
from taskstatus.application.ports_clock import Randomness


def exponential(first: float, most: float, times: int) -> float:
    """``first`` doubled ``times`` times, at most ``most``."""
    return min(most, first * 2.0 ** min(times, 60))


def jittered(seconds: float, randomness: Randomness) -> float:
    """Between half and the whole of a delay, so that replicas do not come back together."""
    return seconds * (0.5 + 0.5 * randomness.fraction())


class Pacing:
    """Chooses the wait before the next claim from how the last turns went."""

    def __init__(self, config: RelayConfig, randomness: Randomness) -> None:
        self._config = config
        self._randomness = randomness
        self._empty_rounds = 0
        self._outages = 0
        self._wait_seconds = 0.0
        self._empty_before = 0
        self._rows = 0
        self._met_outage = False

    @property
    def wait_seconds(self) -> float:
        """The wait before the next claim."""
        return self._wait_seconds

    @property
    def in_outage(self) -> bool:
        """Whether a turn of the last round met an outage: then a wake-up hint is no reason to hurry."""
        return self._outages > 0

    def begin_round(self) -> None:
        """One turn follows, or several side by side, which are judged together: an outage of one is one of all."""
        self._rows, self._met_outage, self._empty_before = 0, False, self._empty_rounds

    def worked(self, rows: int) -> None:
        """A turn went through: at once again after a full batch, soon after a part of one, ever later when idle."""
        if self._met_outage:
            return
        self._rows += rows
        self._outages = 0
        self._empty_rounds = 0 if self._rows else self._empty_before + 1
        if rows >= self._config.batch_rows:
            self._wait_seconds = 0.0
        else:
            busy, idle = self._config.poll_busy_seconds, self._config.poll_idle_seconds
            self._wait_seconds = exponential(busy, idle, self._empty_rounds)

    def outage(self) -> float:
        """A turn met an outage; the wait, which is also how long its rows should rest."""
        if self._met_outage:
            return self._wait_seconds
        self._met_outage = True
        first, most = self._config.outage_first_seconds, self._config.outage_most_seconds
        self._wait_seconds = jittered(exponential(first, most, self._outages), self._randomness)
        self._outages += 1
        return self._wait_seconds

    def backoff(self, failures: int) -> float:
        """How long a row rests after its ``failures``-th failure, from 1."""
        first, most = self._config.backoff_first_seconds, self._config.backoff_most_seconds
        return jittered(exponential(first, most, failures - 1), self._randomness)
