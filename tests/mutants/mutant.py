"""One mutant, and what became of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

NAMES = "names"
"""The spec id of the tables of names.md; their tests are called ``test_names_…``."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change of one rule, applied to the running process."""

    group: str
    name: str
    """Unique within the group."""
    spec: str
    """The spec id that the test which notices must bear in its name: ``E-2``, ``R-11``, or ``names``."""
    apply: Callable[[], None]
    """Makes the change; only ever called in a process that ends with the mutant."""
    cell: tuple[str, ...] = ()
    """What the name of a test of this very cell holds; such tests are tried first."""

    @property
    def label(self) -> str:
        """Group and name."""
        return f"{self.group}: {self.name}"


class Outcome(StrEnum):
    """What became of a mutant."""

    KILLED = "killed"
    SURVIVED = "survived"
    UNTESTED = "no test names the spec id"
    BROKEN = "could not be applied or run"


@dataclass(frozen=True, slots=True)
class Fate:
    """The outcome of one mutant: ``detail`` is the test that killed it, or what went wrong."""

    mutant: Mutant
    outcome: Outcome
    detail: str = ""


def name_prefix(spec: str) -> str:
    """How the names of the tests of a spec id begin: ``R-11`` → ``test_r11_``."""
    return f"test_{spec.replace('-', '').lower()}_"
