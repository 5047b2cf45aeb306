"""The two drivers and the two event loops beside one another, on the batch and on the stream path."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from bench import loads, verify
from bench.loads import BuildResult, Entry
from bench.plan import DRIVERS, LOOPS, Plan, build
from bench.plots import bars
from bench.section import CPU_HEAD, SectionResult, cpu_per_thousand, figures, table
from bench.stack import BenchServers, Engine
from scripts.stack.progress import Progress

TITLE = "Drivers and event loops"
PATHS = ("batch-100", "stream-100")


def run(servers: BenchServers, plan: Plan, progress: Progress) -> SectionResult:
    """A service for each pair, all idle but the one under load."""
    engines = [Engine(driver, loop) for driver in DRIVERS for loop in LOOPS]
    missing = sorted({engine.driver for engine in engines if not engine.is_installed})
    with ExitStack() as stack:
        entries: list[Entry] = []
        for engine in engines:
            if not engine.is_installed:
                continue
            site = stack.enter_context(servers.site(engine=engine))
            with progress.step(f"executions for {engine.driver} and {engine.loop}"):
                builds = [replace(build(p), name=f"{engine.driver} {engine.loop} {p}") for p in PATHS]
                entries += loads.pools(site, builds, plan)
        results = loads.compare(entries, plan, progress)
        checks = []
        with progress.step("rows"):
            for start in range(0, len(entries), len(PATHS)):
                part = slice(start, start + len(PATHS))
                tasks = sum(len(pool) for entry in entries[part] for pool in entry.pools)
                acknowledged = sum(outcome.acknowledged for outcome in loads.outcomes_of(results[part]))
                engine = entries[start].site.engine
                expected = verify.Expected(f"{TITLE}: {engine.driver}, {engine.loop}", tasks, acknowledged)
                checks += verify.check_rows(entries[start].site.database_url, expected)
    lines = _table(results)
    if missing:
        lines.append(f"Not installed here, and therefore not measured: {', '.join(missing)}.")
    return SectionResult(
        TITLE,
        lines,
        plots=[bars("drivers", "Events per second", [(result.build.name, result.per_second) for result in results])],
        checks=checks,
        data=figures(results),
        outcomes=loads.outcomes_of(results),
    )


def _table(results: Sequence[BuildResult]) -> list[str]:
    body = []
    for result in results:
        driver, loop, path = result.build.name.split()
        first = next(other for other in results if other.build.name.endswith(path))
        p50, p99 = result.latency_ms()
        body.append(
            [
                path,
                driver,
                loop,
                f"{result.per_second:,.0f}",
                f"{result.per_second / first.per_second:.2f} ×",
                f"{p50:.1f} / {p99:.1f}",
                *cpu_per_thousand(result),
                f"{result.foreign_cores():.2f}",
            ]
        )
    body.sort(key=lambda row: row[0])
    head = ("path", "driver", "loop", "events/s", "of the first", "p50 / p99 ms", *CPU_HEAD, "others, cores")
    return table(head, body)
