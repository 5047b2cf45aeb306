"""Readiness forgives a blip, tells each change once, and is over when the process stops (N-6)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from taskstatus.runtime.readiness import Readiness, ReadinessConfig
from tests.unit.service_kit import FakeClock


@dataclass
class Probe:
    """Answers what it is told to."""

    answer: bool = True
    error: Exception | None = None
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    gate: asyncio.Event | None = None

    async def __call__(self) -> bool:
        self.begun.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        return self.answer


class Watched:
    """A readiness with everything around it."""

    def __init__(self, config: ReadinessConfig | None = None) -> None:
        self.clock, self.probe = FakeClock(), Probe()
        self.told: list[bool] = []
        self.readiness = Readiness(self.probe, self._tell, self.clock, config or ReadinessConfig())

    async def _tell(self, ready: bool) -> None:
        self.told.append(ready)


@pytest.fixture
async def watched() -> Watched:
    """A readiness that has not looked yet."""
    return Watched()


async def test_n6_unready_until_the_store_answers(watched: Watched) -> None:
    watched.probe.answer = False
    assert not await watched.readiness.run_once()
    assert not watched.readiness.is_ready
    assert watched.told == []

    watched.probe.answer = True
    assert await watched.readiness.run_once()
    assert watched.told == [True]


async def test_n6_blip_is_forgiven_and_an_outage_is_not(watched: Watched) -> None:
    await watched.readiness.run_once()
    watched.probe.answer = False

    seen = []
    for _ in range(4):
        watched.clock.advance(5)
        seen.append(await watched.readiness.run_once())

    assert seen == [True, True, True, False]
    assert watched.told == [True, False]


async def test_n6_recovery_is_told_at_once(watched: Watched) -> None:
    await watched.readiness.run_once()
    watched.probe.answer = False
    watched.clock.advance(60)
    await watched.readiness.run_once()
    watched.probe.answer = True

    assert await watched.readiness.run_once()
    assert watched.told == [True, False, True]


async def test_n1_stopped_process_is_unready(watched: Watched) -> None:
    await watched.readiness.run_once()
    watched.readiness.start()
    await watched.probe.begun.wait()

    await watched.readiness.stop()
    await watched.readiness.stop()

    assert not watched.readiness.is_ready
    assert watched.told == [True, False]


async def test_n6_loop_looks_again_and_again() -> None:
    watched = Watched(ReadinessConfig(check_every_seconds=0.0))
    watched.probe.answer = False
    watched.readiness.start()
    await watched.probe.begun.wait()
    watched.probe.answer = True
    while not watched.told:
        await asyncio.sleep(0)

    await watched.readiness.stop()

    assert watched.told == [True, False]


async def test_n1_answer_of_the_store_after_the_stop_makes_nothing_ready(watched: Watched) -> None:
    watched.probe.gate = asyncio.Event()
    watched.readiness.start()
    await watched.probe.begun.wait()
    stopping = asyncio.ensure_future(watched.readiness.stop())
    await asyncio.sleep(0)

    watched.probe.gate.set()
    await stopping

    assert watched.told[-1] is False


async def test_n6_probe_that_breaks_is_a_store_that_does_not_answer(watched: Watched) -> None:
    await watched.readiness.run_once()
    watched.probe.error = OSError("the server is not the one that it was")
    watched.clock.advance(60)

    assert not await watched.readiness.run_once()
    assert watched.told == [True, False]
