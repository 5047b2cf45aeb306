"""Compares the builds: every build once per round, each on tasks of its own, in a process of its own."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from dataclasses import dataclass, field
from statistics import median

from bench.cpu import FOREIGN
from bench.drive import Outcome
from bench.plan import BUILDS, Build, Plan
from bench.prepare import Order as PoolOrder
from bench.prepare import Preparer
from bench.stack import BenchStack
from bench.worker import Order, packed
from bench.workload import EVENTS_PER_TASK, Task
from scripts.stack.progress import Progress

WORKER_COMMAND = (sys.executable, "-m", "bench.worker")

PoolKey = tuple[int, str]
"""(round, build)."""


class WorkerFailedError(Exception):
    """A load ended with an error; its own message is on stderr."""


@dataclass(slots=True)
class BuildResult:
    """What one build did in all rounds."""

    build: Build
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def per_second(self) -> float:
        """Median events per second over the rounds."""
        return median(outcome.per_second for outcome in self.outcomes)

    def latency_ms(self) -> tuple[float, float]:
        """Medians of the rounds' p50 and p99 of one call or transaction."""
        return median(o.p50_ms for o in self.outcomes), median(o.p99_ms for o in self.outcomes)

    def cpu_us_per_event(self, name: str) -> float:
        """Median CPU time of a process per event, in microseconds."""
        return median(outcome.cpu_seconds.get(name, 0.0) / outcome.events for outcome in self.outcomes) * 1e6

    def foreign_cores(self) -> float:
        """The most that others used of the machine in any round, in cores."""
        return max(outcome.cpu_seconds[FOREIGN] / outcome.seconds for outcome in self.outcomes)


def prepare_pools(stack: BenchStack, plan: Plan) -> dict[PoolKey, list[Task]]:
    """Tasks enough for every build in every round."""

    async def prepare() -> dict[PoolKey, list[Task]]:
        preparer = Preparer(stack.database_url, stack.keys.execution_keys_file)
        try:
            return {(number, b.name): await preparer.pool(_pool_order(number, b, plan)) for number, b in plan.turns()}
        finally:
            await preparer.close()

    return asyncio.run(prepare())


def _pool_order(number: int, build: Build, plan: Plan) -> PoolOrder:
    events = build.most_per_second * plan.loaded_seconds
    tasks = max(int(events / EVENTS_PER_TASK), 2 * build.senders * build.width)
    return PoolOrder(f"{build.name}-{number}", tasks)


def compare(stack: BenchStack, plan: Plan, pools: dict[PoolKey, list[Task]], progress: Progress) -> list[BuildResult]:
    """All rounds of all builds, in the order of BUILDS."""
    results = {build.name: BuildResult(build) for build in BUILDS}
    bearer = stack.worker_token()
    for number, build in plan.turns():
        order = Order(
            kind=build.name,
            database_url=stack.database_url,
            grpc_target=stack.grpc_target,
            bearer=bearer,
            senders=build.senders,
            width=build.width,
            warm_up_seconds=plan.warm_up_seconds,
            seconds=plan.seconds,
            pids=stack.pids,
            tasks=packed(pools[number, build.name]),
        )
        outcome = run_worker(order)
        results[build.name].outcomes.append(outcome)
        progress.say(f"  round {number + 1}  {build.name:6} {outcome.per_second:8.0f} events/s")
    return list(results.values())


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
