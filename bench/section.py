"""What a section of the report is made of: aims, tables, plots, checks of the rows, figures for the JSON document."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from bench.drive import Outcome
from bench.loads import BuildResult
from bench.plan import Plan
from bench.plots import Plot
from bench.stack import DATABASE, SERVE, BenchServers
from bench.verify import Check
from scripts.stack.progress import Progress


@dataclass(frozen=True, slots=True)
class Aim:
    """One aim of issue 5."""

    what: str
    aim: str
    reached: str
    met: bool
    bound_by: str = ""
    """What bounds it, from the CPU times of the same run."""


@dataclass(slots=True)
class SectionResult:
    """What one section found."""

    title: str
    lines: list[str] = field(default_factory=list)
    """Markdown."""
    aims: list[Aim] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    data: Mapping[str, Any] = field(default_factory=dict)
    outcomes: list[Outcome] = field(default_factory=list)
    """For the yardsticks."""


Section = Callable[[BenchServers, Plan, Progress], SectionResult]


def table(head: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table and the empty line after it."""
    return [*(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *body]), ""]


def bound_by(result: BuildResult) -> str:
    """Which part of the machine a closed load filled, in cores."""
    cores = {name: result.cpu_us(name) * result.per_second / 1e6 for name in ("client", SERVE, DATABASE)}
    named = ", ".join(f"{title} {cores[name]:.2f}" for name, title in PART_TITLES.items() if name in cores)
    return f"cores in use: {named}; others at most {result.foreign_cores():.2f}"


PART_TITLES = {
    "client": "load",
    SERVE: "service",
    DATABASE: "database",
    "relay": "relay",
    "centrifugo": "Centrifugo",
}


def cpu_per_thousand(result: BuildResult) -> list[str]:
    """CPU seconds per 1,000 items: load, service, database, and all of them."""
    parts = [result.cpu_us(name) / 1000 for name in ("client", SERVE, DATABASE)]
    return [f"{seconds:.3f}" for seconds in (*parts, sum(parts))]


CPU_HEAD = ("load", "service", "database", "all")


def figures(results: Sequence[BuildResult]) -> dict[str, Any]:
    """Every round of every build, for the JSON document."""
    return {result.build.name: [asdict(outcome) for outcome in result.outcomes] for result in results}
