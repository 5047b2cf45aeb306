"""Events: naive, raw one by one, raw batched ceiling, and the product by unary call, batch and stream."""

from __future__ import annotations

from collections.abc import Sequence

from bench import loads, verify
from bench.loads import BuildResult
from bench.plan import BUILDS, Plan
from bench.plots import bars
from bench.section import CPU_HEAD, Aim, SectionResult, bound_by, cpu_per_thousand, figures, table
from bench.stack import BenchServers
from scripts.stack.progress import Progress

TITLE = "Events by unary call, batch and stream"
NAIVE, CEILING, UNARY, STREAM = "naive", "raw-100", "unary", "stream-100"
STREAM_AIM, CEILING_AIM, UNARY_AIM, P99_AIM_MS = 8_000.0, 0.7, 2_500.0, 100.0
NOTE = (
    "p50 and p99 are of one call, frame or transaction. CPU seconds per 1,000 events; for the builds without RPC the"
    " load is the build itself. The last column is the most that other processes used of the machine in any round."
)


def run(servers: BenchServers, plan: Plan, progress: Progress) -> SectionResult:
    """Every build in every round, then a look at the rows."""
    with servers.site() as site:
        with progress.step("executions for every round"):
            entries = loads.pools(site, BUILDS, plan)
        results = loads.compare(entries, plan, progress)
        outcomes = loads.outcomes_of(results)
        tasks = sum(len(pool) for entry in entries for pool in entry.pools)
        with progress.step("rows of the builds"):
            checks = verify.check_rows(
                site.database_url, verify.Expected(TITLE, tasks, sum(o.acknowledged for o in outcomes))
            )
    return SectionResult(
        TITLE,
        [*_table(results), NOTE],
        _aims(results),
        [bars("events", "Events per second", [(r.build.name, r.per_second) for r in results])],
        checks,
        figures(results),
        outcomes,
    )


def _table(results: Sequence[BuildResult]) -> list[str]:
    naive, ceiling = _named(results, NAIVE).per_second, _named(results, CEILING).per_second
    body = []
    for result in results:
        p50, p99 = result.latency_ms()
        body.append(
            [
                result.build.title,
                f"{result.per_second:,.0f}",
                ", ".join(f"{outcome.per_second:,.0f}" for outcome in result.outcomes),
                f"{result.per_second / naive:.1f}",
                f"{result.per_second / ceiling:.0%}",
                f"{p50:.1f} / {p99:.1f}",
                *cpu_per_thousand(result),
                f"{result.foreign_cores():.2f}",
            ]
        )
    head = ("build", "events/s", "rounds", "× naive", "of ceiling", "p50 / p99 ms", *CPU_HEAD, "others, cores")
    return table(head, body)


def _aims(results: Sequence[BuildResult]) -> list[Aim]:
    stream, unary = _named(results, STREAM), _named(results, UNARY)
    share = stream.per_second / _named(results, CEILING).per_second
    p99 = stream.latency_ms()[1]
    return [
        Aim(
            "stream, frames of 100",
            f"≥ {STREAM_AIM:,.0f} events/s",
            f"{stream.per_second:,.0f}/s",
            stream.per_second >= STREAM_AIM,
            bound_by(stream),
        ),
        Aim(
            "stream over the raw batched ceiling",
            f"≥ {CEILING_AIM:.0%}",
            f"{share:.0%}",
            share >= CEILING_AIM,
            bound_by(stream),
        ),
        Aim(
            "p99 of a frame at saturation", f"≤ {P99_AIM_MS:g} ms", f"{p99:.0f} ms", p99 <= P99_AIM_MS, bound_by(stream)
        ),
        Aim(
            "unary calls",
            f"≥ {UNARY_AIM:,.0f} events/s",
            f"{unary.per_second:,.0f}/s",
            unary.per_second >= UNARY_AIM,
            bound_by(unary),
        ),
    ]


def _named(results: Sequence[BuildResult], name: str) -> BuildResult:
    return next(result for result in results if result.build.name == name)
