"""A few hundred fixed schedules, and the proof that the simulation sees a product that is broken (pitfalls.md C1, C2).

The long run is ``python -m tests.simulation --seeds 5000``.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.simulation.breaks import BREAKS, Break
from tests.simulation.loop import Ordering, SimulatedLoop, StuckError
from tests.simulation.options import Fault, options_of, stream
from tests.simulation.run import run_seed

CHUNKS, SEEDS_PER_CHUNK = 8, 25


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_c2_fixed_seeds_keep_every_rule(chunk: int) -> None:
    first = chunk * SEEDS_PER_CHUNK + 1
    broken = {seed: run_seed(seed).violations for seed in range(first, first + SEEDS_PER_CHUNK)}

    assert {seed: violations[:3] for seed, violations in broken.items() if violations} == {}


def test_c1_the_same_seed_gives_the_same_run() -> None:
    for seed in (3, 4, 5):
        once, again = run_seed(seed, trace_wanted=True), run_seed(seed, trace_wanted=True)
        assert once.trace == again.trace
        assert once.fingerprint == again.fingerprint


def test_c1_seeds_differ_in_order_faults_and_sizes() -> None:
    options = [options_of(seed) for seed in range(1, 101)]

    assert {one.ordering for one in options} == set(Ordering)
    assert {fault for one in options for fault in one.fault_rates} == set(Fault)
    assert {one.faultless for one in options} == {True, False}
    assert {one.replicas for one in options} == {one.relays for one in options} == {1, 2}


def test_c1_every_option_is_printed() -> None:
    text = options_of(7).describe()

    assert all(name in text for name in ("seed = 7", "ordering", "lanes = LaneConfig", "relay = RelayConfig", "fault_"))


def test_c1_time_jumps_to_the_next_timer() -> None:
    loop = SimulatedLoop(stream(1, "schedule"), Ordering.RANDOM, most_callbacks=1_000)

    async def wait() -> list[float]:
        await asyncio.gather(*(asyncio.sleep(seconds) for seconds in (3_600, 5, 60)))
        return [loop.time()]

    assert loop.run_until_complete(wait()) == [3_600]
    loop.close()


def test_c1_waiting_for_nothing_is_told() -> None:
    loop = SimulatedLoop(stream(1, "schedule"), Ordering.FIFO, most_callbacks=1_000)
    never = loop.create_future()

    with pytest.raises(StuckError, match="everybody waits"):
        loop.run_until_complete(never)
    never.cancel()
    loop.close()


@pytest.mark.parametrize("broken", BREAKS, ids=[f"{broken.damage.__name__}-{broken.validator}" for broken in BREAKS])
def test_c2_a_broken_product_is_found_within_a_few_seeds(broken: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    broken.damage(monkeypatch)

    seeds = range(1, broken.seeds + 1)
    found = (violation.validator for seed in seeds for violation in run_seed(seed).violations)
    assert broken.validator in found
