"""A pytest plugin that takes the place of the test run: first the tests as they are, then each mutant in a fork."""

from __future__ import annotations

import gc
import select
from collections.abc import Callable, Iterator, Sequence

import pytest

from .mutant import Fate, Mutant, Outcome, name_prefix
from .trial import Trial, start_trial

BASELINE_PARTS = 2


class Hunt:
    """Collects once, then tries ``jobs`` mutants at a time; ``fates`` and ``problems`` hold what came of it."""

    def __init__(self, choose: Callable[[], Sequence[Mutant]], jobs: int, tell: Callable[[Fate], None]) -> None:
        self._choose = choose
        self._jobs = jobs
        self._tell = tell
        self.fates: list[Fate] = []
        self._killers: dict[str, list[str]] = {}
        self.problems: list[str] = []
        """Why no mutant could be judged: tests that cannot be collected, or fail without any mutant."""

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A module that cannot be imported hides its tests."""
        if report.failed:
            self.problems.append(f"{report.nodeid} cannot be collected:\n{report.longreprtext}")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """See the class."""
        mutants = self._choose()
        selections = {mutant.spec: tests_of(mutant.spec, session.items) for mutant in mutants}
        self._check_unchanged(session, selections)
        if not self.problems:
            gc.freeze()  # the children share these pages as long as no collection touches them
            self._try_all(session, mutants, selections)
        return True

    def _check_unchanged(self, session: pytest.Session, selections: dict[str, list[pytest.Item]]) -> None:
        named = {item.nodeid for items in selections.values() for item in items}
        items = [item for item in session.items if item.nodeid in named]
        middle = len(items) // BASELINE_PARTS
        halves = [half for half in (items[:middle], items[middle:]) if half]
        trials = [start_trial(session, half, _nothing, stop=False) for half in halves]
        unchanged = Mutant("tests", "unchanged", "", _nothing)
        for trial in trials:
            fate = trial.fate(unchanged)
            if fate.outcome is not Outcome.SURVIVED:
                self.problems.append(f"without any mutant:\n{fate.detail}")

    def _try_all(
        self, session: pytest.Session, mutants: Sequence[Mutant], selections: dict[str, list[pytest.Item]]
    ) -> None:
        running: list[tuple[Mutant, Trial]] = []
        for mutant in mutants:
            items = selections[mutant.spec]
            if not items:
                self._judged(Fate(mutant, Outcome.UNTESTED))
                continue
            if len(running) == self._jobs:
                self._collect(running)
            running.append((mutant, start_trial(session, self._likely_first(mutant, items), mutant.apply, stop=True)))
        while running:
            self._collect(running)

    def _likely_first(self, mutant: Mutant, items: Sequence[pytest.Item]) -> list[pytest.Item]:
        """Begin with tests of the very cell, and of those with the functions that killed others of the group."""
        ranks = {name: rank for rank, name in enumerate(self._killers.get(mutant.group, []))}

        def order(item: pytest.Item) -> tuple[int, int]:
            hits = sum(part in item.name for part in mutant.cell)
            return -hits, ranks.get(function_of(item.nodeid), len(ranks))

        return sorted(items, key=order)

    def _collect(self, running: list[tuple[Mutant, Trial]]) -> None:
        """Wait for whichever trial answers first."""
        ready, _, _ = select.select([trial.answers for _, trial in running], [], [])
        place = next(place for place, (_, trial) in enumerate(running) if trial.answers in ready)
        mutant, trial = running.pop(place)
        self._judged(trial.fate(mutant))

    def _judged(self, fate: Fate) -> None:
        self.fates.append(fate)
        if fate.outcome is Outcome.KILLED:
            killers = self._killers.setdefault(fate.mutant.group, [])
            name = function_of(fate.detail)
            killers[:] = [name, *(other for other in killers if other != name)]
        self._tell(fate)


def function_of(nodeid: str) -> str:
    """The test function of a node id, without its parameters."""
    return nodeid.partition("[")[0]


def tests_of(spec: str, items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The tests whose names carry the spec id, those that try many random examples last."""
    named = [item for item in items if item.name.startswith(name_prefix(spec))]
    return sorted(named, key=_tries_many_examples)


def _tries_many_examples(item: pytest.Item) -> bool:
    return bool(getattr(getattr(item, "obj", None), "is_hypothesis_test", False))


def _nothing() -> None:
    return None


def survivors(fates: Sequence[Fate]) -> Iterator[Fate]:
    """Those that no test named for their rule noticed."""
    return (fate for fate in fates if fate.outcome is not Outcome.KILLED)
