"""Heartbeats by unary batch and by stream, at 1, 10 and 100 per call or frame."""

from __future__ import annotations

from collections.abc import Sequence

from bench import loads, verify
from bench.loads import BuildResult
from bench.plan import BEATS, Plan
from bench.plots import bars
from bench.section import CPU_HEAD, Aim, SectionResult, bound_by, cpu_per_thousand, figures, table
from bench.stack import BenchServers
from bench.verify import Check
from scripts.stack.progress import Progress

TITLE = "Heartbeats by unary batch and stream"
BEST = "stream-100"
AIM = 150_000.0
PERSIST_SECONDS = 60.0
"""How long the last beats may take to the table: the persist period, and a slow machine."""
NOTE = (
    "p50 and p99 are of one call or frame. CPU seconds per 1,000 beats. Persisting goes on meanwhile, at the default"
    " period; afterwards the leases hold the last number of every execution, and no event was written (H-2)."
)


def run(servers: BenchServers, plan: Plan, progress: Progress) -> SectionResult:
    """Every load in every round, then a look at leases and events."""
    with servers.site() as site:
        with progress.step("executions for every round"):
            entries = loads.pools(site, BEATS, plan)
        results = loads.compare(entries, plan, progress)
        outcomes = loads.outcomes_of(results)
        beats = sum(outcome.acknowledged for outcome in outcomes)
        with progress.step("the last beats, persisted"):
            found = _persisted(site.database_url, beats)
        tasks = sum(len(pool) for entry in entries for pool in entry.pools)
        started = plan.rounds * sum(build.senders * build.width for build in BEATS)
        checks = [
            Check(TITLE, "sum of heartbeat_seq over the leases = beats acknowledged", found, beats),
            *verify.check_rows(site.database_url, verify.Expected(TITLE, tasks, started)),
        ]
    return SectionResult(
        TITLE,
        [*_table(results), NOTE],
        _aims(results),
        [bars("heartbeats", "Heartbeats per second", [(r.build.name, r.per_second) for r in results])],
        checks,
        figures(results),
        outcomes,
    )


def _persisted(database_url: str, beats: int) -> int:
    verify.becomes_zero(database_url, f"SELECT ({verify.BEATS}) < {beats}", PERSIST_SECONDS)
    return verify.number(database_url, verify.BEATS)


def _table(results: Sequence[BuildResult]) -> list[str]:
    body = []
    for result in results:
        p50, p99 = result.latency_ms()
        body.append(
            [
                result.build.title,
                f"{result.per_second:,.0f}",
                ", ".join(f"{outcome.per_second:,.0f}" for outcome in result.outcomes),
                f"{p50:.1f} / {p99:.1f}",
                *cpu_per_thousand(result),
                f"{result.foreign_cores():.2f}",
            ]
        )
    return table(("load", "beats/s", "rounds", "p50 / p99 ms", *CPU_HEAD, "others, cores"), body)


def _aims(results: Sequence[BuildResult]) -> list[Aim]:
    best = next(result for result in results if result.build.name == BEST)
    return [
        Aim(
            "heartbeats, frames of 100",
            f"≥ {AIM:,.0f}/s",
            f"{best.per_second:,.0f}/s",
            best.per_second >= AIM,
            bound_by(best),
        )
    ]
