"""The results of one run, as a page for people, as JSON and as pictures; nothing in them names a host or a path."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median

import psutil

from bench.plan import Plan
from bench.section import SectionResult, table
from bench.stack import Engine

METHOD = "docs/decisions/bench-method.md"
PROFILE = "Where a part's own time goes, by the profiler: `docs/decisions/write-path-profile.md`."
PACKAGES = ("grpcio", "protobuf", "SQLAlchemy", "aiomysql", "PyMySQL", "asyncmy", "uvloop")


@dataclass(frozen=True, slots=True)
class RunResult:
    """Everything that one run found; ``sections`` by the names that ``--only`` takes."""

    plan: Plan
    engine: Engine
    sections: Mapping[str, SectionResult]
    servers: Sequence[str]
    minutes: float

    @property
    def holds(self) -> bool:
        """Whether every check of the rows holds."""
        return all(check.holds for section in self.sections.values() for check in section.checks)


def write(result: RunResult, folder: Path, name: str) -> str:
    """Write ``name.md``, ``name.json`` and the plots ``name-….svg`` to a folder; the page's text."""
    folder.mkdir(parents=True, exist_ok=True)
    made_at = datetime.now(UTC)
    text = _page(result, made_at, name)
    (folder / f"{name}.md").write_text(text)
    document = {"date": made_at.isoformat(timespec="seconds"), "machine": _machine(), "versions": _versions(result)}
    (folder / f"{name}.json").write_text(json.dumps(document | _data(result), indent=1) + "\n")
    for section in result.sections.values():
        for plot in section.plots:
            (folder / f"{name}-{plot.name}.svg").write_text(plot.svg)
    return text


def _data(result: RunResult) -> dict[str, object]:
    return {
        "plan": asdict(result.plan),
        "engine": asdict(result.engine),
        "sections": {
            key: {
                "aims": [asdict(aim) for aim in section.aims],
                "checks": [asdict(check) for check in section.checks],
                "figures": section.data,
            }
            for key, section in result.sections.items()
        },
    }


def _page(result: RunResult, made_at: datetime, name: str) -> str:
    machine, plan = _machine(), result.plan
    lines = [
        "# Bench of issue 5",
        "",
        f"{made_at:%Y-%m-%d %H:%M} UTC, {machine['cores']} cores and {machine['memory_gib']} GiB for servers, service"
        f" and load together. {', '.join(_versions(result))}. Medians of {plan.rounds} interleaved rounds of"
        f" {plan.seconds:g} s; {result.minutes:.0f} minutes in all. The service runs on {result.engine.driver} and"
        f" {result.engine.loop}. The machine during the run: {_yardsticks(result)}. Made by `make bench`; what is"
        f" measured, and how: `{METHOD}`.",
        "",
        *_aims(result),
    ]
    for section in result.sections.values():
        lines += [f"## {section.title}", "", *section.lines, ""]
        lines += [f"![{plot.title}]({name}-{plot.name}.svg)\n" for plot in section.plots]
    return "\n".join([*lines, *_checks(result)])


def _aims(result: RunResult) -> list[str]:
    aims = [aim for section in result.sections.values() for aim in section.aims]
    if not aims:
        return []
    body = [(aim.what, aim.aim, aim.reached, "yes" if aim.met else "**no**", aim.bound_by) for aim in aims]
    return ["## Aims", "", *table(("what", "aim", "reached", "met", "what bounds it"), body), PROFILE, ""]


def _checks(result: RunResult) -> list[str]:
    checks = [check for section in result.sections.values() for check in section.checks]
    body = [(c.stage, c.name, f"{c.found:,}", f"{c.wanted:,}", "yes" if c.holds else "**NO**") for c in checks]
    return ["## Rows afterwards", "", *table(("where", "check", "found", "must be", "holds"), body)]


def _machine() -> dict[str, object]:
    memory = psutil.virtual_memory().total / 2**30
    return {"cores": os.cpu_count(), "memory_gib": round(memory), "system": platform.system()}


def _versions(result: RunResult) -> list[str]:
    packages = [f"{package} {found}" for package in PACKAGES if (found := _version(package))]
    return [*result.servers, f"Python {platform.python_version()}", *packages]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _yardsticks(result: RunResult) -> str:
    outcomes = [outcome for section in result.sections.values() for outcome in section.outcomes]
    if not outcomes:
        return "no load was run"
    loops, trips = [o.loop_ms for o in outcomes], [o.round_trip_us for o in outcomes]
    return (
        f"the fixed loop took {median(loops):.0f} ms (at most {max(loops):.0f}),"
        f" a round trip between threads over TCP {median(trips):.0f} µs (at most {max(trips):.0f})"
    )
