"""Runs loads, each in a process of its own, and compares builds in interleaved rounds."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median

from bench import prepare
from bench.cpu import FOREIGN, SELF
from bench.drive import Outcome
from bench.plan import Build, Plan
from bench.stack import DATABASE, SERVE, BenchStack
from bench.worker import Order, packed
from bench.workload import EVENTS_PER_TASK, STEPS_PER_TASK, Task
from scripts.stack.progress import Progress

WORKER_COMMAND = (sys.executable, "-m", "bench.worker")
PARTS = (SELF, SERVE, DATABASE)
"""Whose CPU time an event costs while nothing is published: load, service, database."""


class WorkerFailedError(Exception):
    """A load ended with an error; its own message is on stderr."""


@dataclass(slots=True)
class BuildResult:
    """What one build did in all rounds."""

    build: Build
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def per_second(self) -> float:
        """Median items per second over the rounds."""
        return median(outcome.per_second for outcome in self.outcomes)

    def latency_ms(self) -> tuple[float, float]:
        """Medians of the rounds' p50 and p99 of one call, frame or transaction."""
        return median(o.p50_ms for o in self.outcomes), median(o.p99_ms for o in self.outcomes)

    def cpu_us(self, *names: str) -> float:
        """Median CPU time of some processes together per item, in microseconds."""
        return 1e6 * median(
            sum(outcome.cpu_seconds.get(name, 0.0) for name in names) / outcome.events for outcome in self.outcomes
        )

    def foreign_cores(self) -> float:
        """The most that others used of the machine in any round, in cores."""
        return max(outcome.cpu_seconds[FOREIGN] / outcome.seconds for outcome in self.outcomes)


@dataclass(slots=True)
class Entry:
    """One build in a comparison: where it runs, and its tasks of each round."""

    build: Build
    site: BenchStack
    pools: Sequence[Sequence[Task]]


def pools(site: BenchStack, builds: Sequence[Build], plan: Plan) -> list[Entry]:
    """Entries with fresh tasks, enough for every build in every round."""
    orders = [_pool_order(build, number, plan) for build in builds for number in range(plan.rounds)]
    made = prepare.prepare(site.database_url, site.keys.execution_keys_file, orders)
    return [
        Entry(build, site, made[place * plan.rounds : (place + 1) * plan.rounds]) for place, build in enumerate(builds)
    ]


def _pool_order(build: Build, number: int, plan: Plan) -> prepare.Order:
    if not build.most_per_second:
        # Heartbeats use no execution up, and those of a task beat side by side.
        return prepare.Order(f"{build.name}-{number}", -(-build.senders * build.width // STEPS_PER_TASK))
    events = build.most_per_second * plan.loaded_seconds
    tasks = max(int(events / EVENTS_PER_TASK), 2 * build.senders * build.width)
    return prepare.Order(f"{build.name}-{number}", tasks)


def compare(entries: Sequence[Entry], plan: Plan, progress: Progress) -> list[BuildResult]:
    """All rounds of all entries, each round beginning with another one; results in the order of the entries."""
    results = [BuildResult(entry.build) for entry in entries]
    for number, place in _turns(plan.rounds, len(entries)):
        outcome = run_worker(order_of(entries[place], number, plan))
        results[place].outcomes.append(outcome)
        progress.say(f"    round {number + 1}  {entries[place].build.name:16} {outcome.per_second:9,.0f}/s")
    return results


def _turns(rounds: int, entries: int) -> Iterator[tuple[int, int]]:
    for number in range(rounds):
        for place in range(entries):
            yield number, (number + place) % entries


def order_of(entry: Entry, number: int, plan: Plan) -> Order:
    """What the worker process of an entry does in one round."""
    build, site = entry.build, entry.site
    return Order(
        kind=build.kind,
        database_url=site.database_url,
        grpc_target=site.grpc_target,
        bearer=site.worker_token(),
        driver=site.engine.driver,
        senders=build.senders,
        width=build.width,
        streams=build.streams,
        warm_up_seconds=plan.warm_up_seconds,
        seconds=plan.seconds,
        pids=site.pids,
        tasks=packed(entry.pools[number]),
    )


def run_worker(order: Order) -> Outcome:
    """Run one load to its end. Raises WorkerFailedError."""
    done = subprocess.run(WORKER_COMMAND, input=order.to_line(), stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise WorkerFailedError(f"the load {order.kind} ended with {done.returncode}")
    outcome = Outcome(**json.loads(done.stdout))
    if not outcome.events:
        cause = "its executions were used up" if outcome.used_up else "no call was answered within the measured time"
        raise WorkerFailedError(f"the load {order.kind} measured nothing: {cause}")
    return outcome


def outcomes_of(results: Sequence[BuildResult]) -> list[Outcome]:
    """Every round of every build."""
    return [outcome for result in results for outcome in result.outcomes]
