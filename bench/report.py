"""The results of one run, as a page for people and as JSON; nothing in them names a host or a path."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median

import psutil

from bench.plan import BATCH, NAIVE, RAW, UNARY, Plan
from bench.publishing import RateResult
from bench.rounds import BuildResult
from bench.verify import Check

BATCH_OVER_NAIVE_AIM = 8.0
UNARY_AIM = 2_000.0
PUBLISH_P99_AIM_MS = 50.0
METHOD = "docs/decisions/bench-method.md"
PACKAGES = ("grpcio", "protobuf", "SQLAlchemy", "aiomysql", "PyMySQL", "uvloop")


@dataclass(frozen=True, slots=True)
class RunResult:
    """Everything that one run found."""

    plan: Plan
    builds: Sequence[BuildResult]
    rates: Sequence[RateResult]
    checks: Sequence[Check]
    servers: Sequence[str]

    def per_second(self, name: str) -> float:
        """Median events per second of a build."""
        return next(result.per_second for result in self.builds if result.build.name == name)

    def ratio(self, name: str, to: str) -> float:
        """How many times a build's rate is that of another."""
        return self.per_second(name) / self.per_second(to)


def write(result: RunResult, folder: Path, name: str) -> str:
    """Write ``name.md`` and ``name.json`` to a folder; the page's text."""
    folder.mkdir(parents=True, exist_ok=True)
    made_at = datetime.now(UTC)
    text = _page(result, made_at)
    (folder / f"{name}.md").write_text(text)
    document = {"date": made_at.isoformat(timespec="seconds"), "machine": _machine(), "versions": _versions(result)}
    (folder / f"{name}.json").write_text(json.dumps(document | _data(result), indent=2) + "\n")
    return text


def _data(result: RunResult) -> dict[str, object]:
    return {
        "plan": asdict(result.plan),
        "builds": {build.build.name: [asdict(outcome) for outcome in build.outcomes] for build in result.builds},
        "publishing": {rate.rate.per_second: [asdict(done) for done in rate.rounds] for rate in result.rates},
        "checks": [asdict(check) for check in result.checks],
    }


def _page(result: RunResult, made_at: datetime) -> str:
    machine = _machine()
    used = ", ".join(_versions(result))
    return "\n".join(
        [
            "# Bench of issue 3",
            "",
            f"{made_at:%Y-%m-%d %H:%M} UTC, {machine['cores']} cores and {machine['memory_gib']} GiB for servers,"
            f" service and load together. {used}. Medians of {result.plan.rounds} interleaved rounds of"
            f" {result.plan.seconds:g} s. The machine during the run: {_yardsticks(result)}."
            f" Made by `make bench`; what is measured, and how: `{METHOD}`.",
            "",
            *_aims(result),
            "",
            *_builds(result),
            "",
            *_publishing(result),
            "",
            *_checks(result),
            "",
        ]
    )


def _aims(result: RunResult) -> list[str]:
    over_naive, unary = result.ratio(BATCH, NAIVE), result.per_second(UNARY)
    rows = [
        (
            "batch call over naive build",
            f"≥ {BATCH_OVER_NAIVE_AIM:g} ×",
            f"{over_naive:.1f} ×",
            over_naive >= BATCH_OVER_NAIVE_AIM,
        ),
        ("unary calls", f"≥ {UNARY_AIM:,.0f}/s", f"{unary:,.0f}/s", unary >= UNARY_AIM),
    ]
    for rate in result.rates:
        p99 = rate.received_ms()[1]
        name = f"commit → received, p99, at {rate.rate.per_second:,} events/s"
        rows.append((name, f"≤ {PUBLISH_P99_AIM_MS:g} ms", f"{p99:.1f} ms", p99 <= PUBLISH_P99_AIM_MS))
    body = [(name, aim, reached, "yes" if met else "**no**") for name, aim, reached, met in rows]
    return ["## Aims", "", *_table(("what", "aim", "reached", "met"), body)]


def _builds(result: RunResult) -> list[str]:
    head = ("build", "events/s", "rounds", "× naive", "of ceiling", "p50 / p99 ms", "CPU µs per event", "others, cores")
    body = []
    for build in result.builds:
        p50, p99 = build.latency_ms()
        name = build.build.name
        body.append(
            (
                build.build.title,
                f"{build.per_second:,.0f}",
                ", ".join(f"{outcome.per_second:,.0f}" for outcome in build.outcomes),
                f"{result.ratio(name, NAIVE):.1f}",
                f"{result.ratio(name, RAW):.0%}",
                f"{p50:.1f} / {p99:.1f}",
                _cpu(build),
                f"{build.foreign_cores():.2f}",
            )
        )
    note = (
        "p50 and p99 are of one call or transaction. CPU: load (for the builds without RPC it is the build itself) /"
        " service / database. The last column is the most that other processes used of the machine in any round."
    )
    return ["## Builds", "", *_table(head, body), "", note]


def _cpu(build: BuildResult) -> str:
    return " / ".join(f"{build.cpu_us_per_event(name):.0f}" for name in ("client", "serve", "database"))


def _publishing(result: RunResult) -> list[str]:
    head = (
        "offered",
        "accepted",
        "commit → received p50 / p99 ms",
        "rounds' p99",
        "publish acknowledged, p99",
        "received",
        "calls begun late",
    )
    body = []
    for rate in result.rates:
        offered, reached = rate.offered_and_reached()
        p50, p99 = rate.received_ms()
        received = sum(done.received for done in rate.rounds)
        acknowledged = sum(done.outcome.acknowledged for done in rate.rounds)
        body.append(
            (
                f"{offered:,}/s in calls of {rate.rate.per_call}",
                f"{reached:,.0f}/s",
                f"{p50:.1f} / {p99:.1f}",
                ", ".join(f"{done.receive_p99_ms:.1f}" for done in rate.rounds),
                f"≤ {rate.acknowledged_p99_bound_ms():g} ms",
                f"{received:,} of {acknowledged:,}",
                f"{sum(done.outcome.late_calls for done in rate.rounds)}",
            )
        )
    return ["## Commit to publish", "", *_table(head, body)]


def _checks(result: RunResult) -> list[str]:
    body = [(c.stage, c.name, f"{c.found:,}", f"{c.wanted:,}", "yes" if c.holds else "**NO**") for c in result.checks]
    return ["## Rows afterwards", "", *_table(("when", "check", "found", "must be", "holds"), body)]


def _table(head: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *body]]


def _machine() -> dict[str, object]:
    memory = psutil.virtual_memory().total / 2**30
    return {"cores": os.cpu_count(), "memory_gib": round(memory), "system": platform.system()}


def _versions(result: RunResult) -> list[str]:
    packages = [f"{package} {version(package)}" for package in PACKAGES]
    return [*result.servers, f"Python {platform.python_version()}", *packages]


def _yardsticks(result: RunResult) -> str:
    outcomes = [outcome for build in result.builds for outcome in build.outcomes]
    loops, trips = [o.loop_ms for o in outcomes], [o.round_trip_us for o in outcomes]
    return (
        f"the fixed loop took {median(loops):.0f} ms (at most {max(loops):.0f}),"
        f" a round trip between threads over TCP {median(trips):.0f} µs (at most {max(trips):.0f})"
    )
