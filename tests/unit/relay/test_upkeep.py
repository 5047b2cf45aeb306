"""Counting and cleaning (O-4)."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from relay.config import UpkeepConfig
from relay.metrics import RelayMetrics
from relay.upkeep import UpkeepLoop

from .support import FakeOutbox, VirtualTime, summary_row


class Upkeep:
    """A loop of housekeeping over a fake outbox."""

    def __init__(self) -> None:
        self.time = VirtualTime()
        self.outbox = FakeOutbox(self.time, [summary_row(1), summary_row(2)])
        self.registry = CollectorRegistry()
        self.config = UpkeepConfig()
        self.loop = UpkeepLoop(self.outbox, self.time, self.config, RelayMetrics(self.registry))

    def metric(self, name: str, **labels: str) -> float | None:
        """A metric's value."""
        return self.registry.get_sample_value(name, labels)


async def test_o4_the_backlog_is_shown() -> None:
    upkeep = Upkeep()
    upkeep.time.now = 12.0

    await upkeep.loop.run_once()

    assert upkeep.metric("relay_outbox_oldest_age_seconds") == 12.0
    assert upkeep.metric("relay_outbox_rows", state="READY") == 2
    assert upkeep.metric("relay_outbox_rows", state="DEAD") == 0


async def test_o4_cleaning_goes_on_to_the_end_in_batches_and_then_rests() -> None:
    upkeep = Upkeep()
    upkeep.outbox.clean_answers = [(1000, b"a"), (998, b"b"), (3, None)]

    assert await upkeep.loop.run_once() == 2001
    assert await upkeep.loop.run_once() == 0

    retention, rows = upkeep.config.published_retention_seconds, upkeep.config.clean_batch_rows
    assert upkeep.outbox.cleaned == [(b"", retention, rows), (b"a", retention, rows), (b"b", retention, rows)]
    assert upkeep.metric("relay_cleaned_total") == 2001
    upkeep.time.now += upkeep.config.clean_interval_seconds
    await upkeep.loop.run_once()
    assert len(upkeep.outbox.cleaned) == 4


async def test_an_outage_of_the_database_skips_a_turn() -> None:
    upkeep = Upkeep()
    upkeep.outbox.failing["backlog"] = 1

    assert await upkeep.loop.run_once() == 0
    upkeep.outbox.clean_answers = [(5, None)]
    assert await upkeep.loop.run_once() == 5


async def test_stop_is_idempotent_and_ends_a_resting_loop() -> None:
    upkeep = Upkeep()
    task = await upkeep.loop.start()
    await asyncio.wait_for(upkeep.loop.stop(), timeout=10)
    await upkeep.loop.stop()
    assert task.done()


@pytest.mark.parametrize(
    "figures", [{"gauge_interval_seconds": 0}, {"clean_batch_rows": 0}, {"published_retention_seconds": 599}]
)
def test_figures_that_cannot_work_are_refused(figures: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be"):
        UpkeepConfig(**figures)
