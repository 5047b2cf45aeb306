"""Statements and row reads of a batch: the same at 3 and at 300 steps per task."""

from __future__ import annotations

import asyncio
from dataclasses import asdict

from bench.counting import Cost, costs
from bench.plan import Plan
from bench.section import Aim, SectionResult, table
from bench.stack import BenchServers
from bench.verify import Check
from scripts.stack.progress import Progress

TITLE = "Statements and row reads per event"
STEPS = (3, 300)
TASKS = 20
NOTE = (
    f"Batches of {TASKS} events, one of each of {TASKS} tasks, by the session counters of their connection; a test in"
    " `tests/integration/mysql` asserts that they are equal."
)


def run(servers: BenchServers, _plan: Plan, progress: Progress) -> SectionResult:
    """Count at both sizes."""
    found: dict[int, list[Cost]] = {}
    with servers.site(serving=False) as site:
        for steps in STEPS:
            with progress.step(f"{steps} steps per task"):
                found[steps] = asyncio.run(costs(site.database_url, site.keys.execution_keys_file, steps, TASKS))
    few, many = (found[steps] for steps in STEPS)
    checks = [
        Check(TITLE, f"{small.kind}: counters that differ between 3 and 300 steps", _differing(small, large), 0)
        for small, large in zip(few, many, strict=True)
    ]
    equal = all(check.holds for check in checks)
    aim = Aim("statements and row reads per event at 3 and 300 steps", "equal", "equal" if equal else "differ", equal)
    data = {str(steps): [asdict(cost) for cost in found[steps]] for steps in STEPS}
    return SectionResult(TITLE, [*_table(found), NOTE], [aim], checks=checks, data=data)


def _differing(small: Cost, large: Cost) -> int:
    return sum(small.counters[name] != large.counters[name] for name in small.counters)


def _table(found: dict[int, list[Cost]]) -> list[str]:
    body = [
        [
            cost.kind,
            str(steps),
            f"{cost.statements}",
            f"{cost.statements / cost.events:.2f}",
            f"{cost.rows_read / cost.events:.2f}",
            ", ".join(
                f"{name.removeprefix('Handler_')} {value / cost.events:g}"
                for name, value in sorted(cost.counters.items())
                if value and name.startswith("Handler_")
            ),
        ]
        for place in range(len(found[STEPS[0]]))
        for steps in STEPS
        for cost in (found[steps][place],)
    ]
    head = (
        "event",
        "steps per task",
        "statements of a batch",
        "per event",
        "rows read per event",
        "by handler, per event",
    )
    return table(head, body)
