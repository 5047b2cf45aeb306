"""The figures of one run: which builds, how many senders, how long."""

from __future__ import annotations

from dataclasses import dataclass

from taskstatus.adapters.mysql.engine import DEFAULT_DRIVER

NAIVE, RAW, UNARY, BATCH, STREAM = "naive", "raw", "unary", "batch", "stream"
BEATS_UNARY, BEATS_STREAM = "beats-unary", "beats-stream"
SUBSCRIBER = "subscriber"
"""Kinds of load."""

AIOMYSQL, ASYNCMY = "aiomysql", "asyncmy"
DRIVERS = (AIOMYSQL, ASYNCMY)
PRODUCT_DRIVER = DEFAULT_DRIVER.partition("+")[2]
"""What the product takes when its URL names none."""
UVLOOP, ASYNCIO = "uvloop", "asyncio"
LOOPS = (UVLOOP, ASYNCIO)


@dataclass(frozen=True, slots=True)
class Build:
    """One build under load: ``senders`` at work at once, each with ``width`` items per call, frame or transaction."""

    name: str
    title: str
    kind: str
    senders: int
    width: int
    most_per_second: int
    """More items per second than it will ever take; sizes the pool of executions."""
    streams: int = 4
    """Over which the senders of a stream load are spread."""


BUILDS = (
    Build("naive", "naive: one SQLAlchemy transaction per event, 8 connections, no RPC", NAIVE, 8, 1, 1_500),
    Build("raw-1", "raw driver, one transaction per event, 8 connections, no RPC, no decisions", RAW, 8, 1, 3_500),
    Build("raw-100", "ceiling: raw driver, 100 events per transaction, 4 connections", RAW, 4, 100, 15_000),
    Build("unary", "product, ReportEvent, 64 in flight", UNARY, 64, 1, 4_000),
    Build("batch-1", "product, BatchReportEvents of 1, 64 in flight", BATCH, 64, 1, 4_000),
    Build("batch-10", "product, BatchReportEvents of 10, 64 in flight", BATCH, 64, 10, 10_000),
    Build("batch-100", "product, BatchReportEvents of 100, 8 in flight", BATCH, 8, 100, 12_000),
    Build("stream-1", "product, StreamExecutions, frames of 1, 256 in flight on 4 streams", STREAM, 256, 1, 10_000),
    Build("stream-10", "product, StreamExecutions, frames of 10, 64 in flight on 4 streams", STREAM, 64, 10, 13_000),
    Build("stream-100", "product, StreamExecutions, frames of 100, 8 in flight on 4 streams", STREAM, 8, 100, 15_000),
)

BEATS = (
    Build("unary-1", "BatchHeartbeat of 1, 64 in flight", BEATS_UNARY, 64, 1, 0),
    Build("unary-10", "BatchHeartbeat of 10, 64 in flight", BEATS_UNARY, 64, 10, 0),
    Build("unary-100", "BatchHeartbeat of 100, 16 in flight", BEATS_UNARY, 16, 100, 0),
    Build("stream-1", "StreamExecutions, frames of 1, 256 in flight on 4 streams", BEATS_STREAM, 256, 1, 0),
    Build("stream-10", "StreamExecutions, frames of 10, 64 in flight on 4 streams", BEATS_STREAM, 64, 10, 0),
    Build("stream-100", "StreamExecutions, frames of 100, 16 in flight on 4 streams", BEATS_STREAM, 16, 100, 0),
)


def build(name: str) -> Build:
    """The build of events with this name."""
    return next(known for known in BUILDS if known.name == name)


@dataclass(frozen=True, slots=True)
class Rate:
    """Events offered per second, in frames of ``per_call``."""

    per_second: int
    per_call: int


@dataclass(frozen=True)
class Plan:
    """How long, how often and how much; times in seconds."""

    seconds: float = 3.0
    """Measured time of one build in one round."""
    rounds: int = 3
    warm_up_seconds: float = 1.0
    rates: tuple[Rate, ...] = (Rate(200, 1), Rate(1_000, 10), Rate(3_000, 10))
    paced_senders: int = 64
    summary_rows: int = 200_000
    detail_rows: int = 20_000
    table_sizes: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    """Tasks that are in the tables beforehand."""

    def __post_init__(self) -> None:
        """Raise ValueError for figures that measure nothing."""
        if self.seconds <= 0 or self.rounds < 1:
            raise ValueError("seconds must be above 0 and rounds at least 1")

    @property
    def loaded_seconds(self) -> float:
        """How long one round lasts, warm-up included."""
        return self.warm_up_seconds + self.seconds


QUICK = Plan(
    seconds=1.5,
    rounds=1,
    warm_up_seconds=0.5,
    summary_rows=4_000,
    detail_rows=1_000,
    table_sizes=(1_000, 5_000, 20_000),
)
"""To see that everything works; its figures mean little."""
