"""A seed's number is its whole plan: it can be had again, and it stays within the run."""

from __future__ import annotations

from collections import Counter

from tests.chaos.options import MOST_DATABASE_KILLS, TARGETS, Fault, options_of

SECONDS = 12.0
SEEDS = range(1, 201)


def test_c1_the_same_seed_gives_the_same_plan() -> None:
    assert all(options_of(seed, SECONDS) == options_of(seed, SECONDS) for seed in SEEDS)


def test_c1_faults_begin_within_the_load_and_fit_their_targets() -> None:
    for seed in SEEDS:
        options = options_of(seed, SECONDS)
        assert all(0 < planned.at < SECONDS for planned in options.plan)
        assert all(planned.target in TARGETS[planned.fault] for planned in options.plan)
        assert sum(planned.fault is Fault.KILL_DATABASE for planned in options.plan) <= MOST_DATABASE_KILLS


def test_c1_every_fault_and_its_absence_is_drawn() -> None:
    drawn = Counter(planned.fault for seed in SEEDS for planned in options_of(seed, SECONDS).plan)

    assert set(drawn) == set(Fault)
    assert any(options_of(seed, SECONDS).faultless for seed in SEEDS)
