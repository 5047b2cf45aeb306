"""How soon after its commit a summary is published, at a fixed rate of events, with the real relay and Centrifugo.

Seen from two sides: by subscribers on the owners' channels, exactly, each message's time of receipt against its
``committedAt`` (one machine, one clock); and by the relay's own histogram of Centrifugo's answers, as a bound.
``committedAt`` is read before the transaction ends, so both include the commit itself.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

import grpc
from prometheus_client.parser import text_string_to_metric_families
from taskstatus_pb.v1 import realtime_service_pb2, realtime_service_pb2_grpc

from bench.drive import Outcome, percentile
from bench.plan import PACED, Plan, Rate
from bench.prepare import Order as PoolOrder
from bench.prepare import Preparer
from bench.rounds import WORKER_COMMAND, WorkerFailedError, run_worker
from bench.stack import RELAY, SERVE, BenchStack
from bench.subscriber import READY_LINE
from bench.worker import SUBSCRIBER, Order, packed
from bench.workload import EVENTS_PER_TASK, Task
from scripts.stack import processes
from scripts.stack.progress import Progress

HISTOGRAM = "state_commit_to_publish_seconds"
OWNERS = 4
DRAIN_SECONDS = 20.0
QUIET_SECONDS = 0.5
"""The relay counts as drained once it has published nothing for so long."""


@dataclass(slots=True)
class PublishRound:
    """One round at one rate; latencies in milliseconds."""

    outcome: Outcome
    received: int
    """Messages of the whole round, warm-up included; one per event unless newer ones stood for older ones."""
    receive_p50_ms: float
    receive_p99_ms: float
    acknowledged_p99_bound_ms: float
    """Upper bound of the histogram's bucket with the 99th percentile of publish acknowledgements."""


@dataclass(slots=True)
class RateResult:
    """All rounds at one rate."""

    rate: Rate
    rounds: list[PublishRound] = field(default_factory=list)

    def received_ms(self) -> tuple[float, float]:
        """Medians of the rounds' p50 and p99 from commit to receipt."""
        return median(r.receive_p50_ms for r in self.rounds), median(r.receive_p99_ms for r in self.rounds)

    def acknowledged_p99_bound_ms(self) -> float:
        """Median of the rounds' bounds."""
        return median(r.acknowledged_p99_bound_ms for r in self.rounds)

    def offered_and_reached(self) -> tuple[int, float]:
        """Events per second: offered, and accepted in the median round."""
        return self.rate.per_second, median(r.outcome.per_second for r in self.rounds)


PoolKey = tuple[int, int]
"""(round, events per second)."""


def prepare_pools(stack: BenchStack, plan: Plan) -> dict[PoolKey, list[Task]]:
    """Tasks for every rate in every round."""

    async def prepare() -> dict[PoolKey, list[Task]]:
        preparer = Preparer(stack.database_url, stack.keys.execution_keys_file)
        try:
            return {
                (number, rate.per_second): await preparer.pool(_pool_order(number, rate, plan))
                for number in range(plan.rounds)
                for rate in plan.rates
            }
        finally:
            await preparer.close()

    return asyncio.run(prepare())


def _pool_order(number: int, rate: Rate, plan: Plan) -> PoolOrder:
    tasks = max(int(2 * rate.per_second * plan.loaded_seconds / EVENTS_PER_TASK), plan.paced_senders * rate.per_call)
    return PoolOrder(_pool_name(number, rate), 2 * tasks, OWNERS)


def _pool_name(number: int, rate: Rate) -> str:
    return f"publish-{number}-{rate.per_second}"


def measure(stack: BenchStack, plan: Plan, pools: dict[PoolKey, list[Task]], progress: Progress) -> list[RateResult]:
    """All rounds of all rates; the relay must run and have nothing to do."""
    results = {rate.per_second: RateResult(rate) for rate in plan.rates}
    for number in range(plan.rounds):
        for rate in plan.rates:
            tasks = pools[number, rate.per_second]
            done = _one_round(stack, plan, rate, _pool_name(number, rate), tasks)
            results[rate.per_second].rounds.append(done)
            progress.say(
                f"  round {number + 1}  {rate.per_second:5} events/s: received after"
                f" {done.receive_p50_ms:.1f} ms (p50), {done.receive_p99_ms:.1f} ms (p99)"
            )
    return list(results.values())


def _one_round(stack: BenchStack, plan: Plan, rate: Rate, pool: str, tasks: list[Task]) -> PublishRound:
    before = _histogram(stack)
    with _subscribers(stack, pool) as watching:
        outcome = run_worker(_load_order(stack, plan, rate, tasks))
        wait_drained(stack)
        observations: list[tuple[float, float]] = json.loads(watching.communicate()[0])
    delays = [1000 * delay for at, delay in observations if outcome.began_unix <= at < outcome.ended_unix]
    return PublishRound(
        outcome=outcome,
        received=len(observations),
        receive_p50_ms=percentile(delays, 50),
        receive_p99_ms=percentile(delays, 99),
        acknowledged_p99_bound_ms=1000 * _quantile_bound(before, _histogram(stack), 0.99),
    )


def _load_order(stack: BenchStack, plan: Plan, rate: Rate, tasks: list[Task]) -> Order:
    return Order(
        kind=PACED,
        grpc_target=stack.grpc_target,
        bearer=stack.worker_token(),
        senders=plan.paced_senders,
        width=rate.per_call,
        calls_per_second=rate.per_second / rate.per_call,
        warm_up_seconds=plan.warm_up_seconds,
        seconds=plan.seconds,
        pids={name: stack.pids[name] for name in (SERVE, RELAY, "database", "centrifugo")},
        tasks=packed(tasks),
    )


def _subscribers(stack: BenchStack, pool: str) -> subprocess.Popen[str]:
    """A process with a subscribed connection for each owner of a pool."""
    sessions = [_session(stack, PoolOrder(pool, 0, OWNERS).owner(number)) for number in range(OWNERS)]
    order = Order(
        kind=SUBSCRIBER,
        websocket_url=sessions[0].url,
        realtime_tokens=[session.token for session in sessions],
    )
    process = subprocess.Popen(WORKER_COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(order.to_line())
    process.stdin.flush()
    if process.stdout.readline().strip() != READY_LINE:
        process.kill()
        raise WorkerFailedError("the subscribers could not connect")
    return process


def _session(stack: BenchStack, user_id: str) -> realtime_service_pb2.GetSessionResponse:
    with grpc.insecure_channel(stack.grpc_target) as channel:
        stub = realtime_service_pb2_grpc.RealtimeServiceStub(channel)
        metadata = (("authorization", f"Bearer {stack.person_token(user_id)}"),)
        return stub.GetSession(realtime_service_pb2.GetSessionRequest(), metadata=metadata)


def wait_drained(stack: BenchStack) -> None:
    """Wait until the relay publishes nothing any more. Raises WorkerFailedError when it does not come to that."""
    last, changed_at = -1.0, time.monotonic()

    def drained() -> bool:
        nonlocal last, changed_at
        count = _histogram(stack)[float("inf")]
        if count != last:
            last, changed_at = count, time.monotonic()
        return time.monotonic() - changed_at >= QUIET_SECONDS

    if not processes.wait_until(drained, DRAIN_SECONDS):
        raise WorkerFailedError("the relay did not drain the outbox")


def _histogram(stack: BenchStack) -> dict[float, float]:
    """Cumulative counts by upper bound, in seconds."""
    with urllib.request.urlopen(stack.relay_metrics_url, timeout=10) as answer:
        text = answer.read().decode()
    return {
        float(sample.labels["le"]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == f"{HISTOGRAM}_bucket"
    }


def _quantile_bound(before: Mapping[float, float], after: Mapping[float, float], quantile: float) -> float:
    """The upper bound of the bucket that holds the quantile of what was observed in between."""
    counts = {bound: after[bound] - before[bound] for bound in sorted(after)}
    total = counts[float("inf")]
    return next(bound for bound, count in counts.items() if count >= quantile * total)
