"""The figures of one run: which builds, how many senders, how long."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

NAIVE, RAW, UNARY, BATCH = "naive", "raw", "unary", "batch"
PACED = "paced"


@dataclass(frozen=True, slots=True)
class Build:
    """One build under load: ``senders`` at work at once, each with ``width`` events per call or transaction."""

    name: str
    title: str
    senders: int
    width: int
    most_per_second: int
    """More events per second than it will ever take; sizes the pool of executions."""


BUILDS = (
    Build(NAIVE, "naive: one SQLAlchemy transaction per event, 8 connections, no RPC", 8, 1, 1_500),
    Build(UNARY, "product, ReportEvent, 64 in flight", 64, 1, 4_000),
    Build(BATCH, "product, BatchReportEvents of 100, 8 in flight", 8, 100, 12_000),
    Build(RAW, "ceiling: 100 events per transaction, raw driver, 4 connections, no RPC, no decisions", 4, 100, 15_000),
)


@dataclass(frozen=True, slots=True)
class Rate:
    """Events offered per second, in calls of ``per_call``."""

    per_second: int
    per_call: int


@dataclass(frozen=True)
class Plan:
    """How long and how often; times in seconds."""

    seconds: float = 5.0
    """Measured time of one build in one round."""
    rounds: int = 3
    warm_up_seconds: float = 1.0
    rates: tuple[Rate, ...] = (Rate(200, 1), Rate(1_000, 10))
    paced_senders: int = 64

    def __post_init__(self) -> None:
        """Raise ValueError for figures that measure nothing."""
        if self.seconds <= 0 or self.rounds < 1:
            raise ValueError("seconds must be above 0 and rounds at least 1")

    @property
    def loaded_seconds(self) -> float:
        """How long one round lasts, warm-up included."""
        return self.warm_up_seconds + self.seconds

    def turns(self) -> Iterator[tuple[int, Build]]:
        """Every build once per round, each round beginning with another one."""
        for number in range(self.rounds):
            first = number % len(BUILDS)
            for build in BUILDS[first:] + BUILDS[:first]:
                yield number, build
