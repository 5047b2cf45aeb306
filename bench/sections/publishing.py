"""How soon after its commit a summary is published, at a fixed rate of events by stream, with the real relay.

Seen from two sides: by subscribers on the owners' channels, exactly, each message's time of receipt against its
``committedAt`` (one machine, one clock); and by the relay's own histogram of Centrifugo's answers, as a bound.
``committedAt`` is read before the transaction ends, so both include the commit itself.
"""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median

import grpc
from prometheus_client.parser import text_string_to_metric_families
from taskstatus_pb.v1 import realtime_service_pb2, realtime_service_pb2_grpc

from bench import verify
from bench.drive import Outcome, percentile
from bench.loads import WORKER_COMMAND, WorkerFailedError, run_worker
from bench.plan import STREAM, SUBSCRIBER, Plan, Rate
from bench.plots import Plot, lines
from bench.prepare import Order as PoolOrder
from bench.prepare import prepare
from bench.section import PART_TITLES, Aim, SectionResult, table
from bench.stack import BenchServers, BenchStack
from bench.subscriber import READY_LINE
from bench.worker import Order, packed
from bench.workload import EVENTS_PER_TASK, Task
from scripts.stack import processes
from scripts.stack.progress import Progress

TITLE = "Commit to publish, commit to client"
ANSWER_AIM_MS, ANSWER_AT = 20.0, 1_000
HISTOGRAM = "state_commit_to_publish_seconds"
OWNERS = 4
DRAIN_SECONDS = 180.0
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
    published_p50_bound_ms: float
    """Upper bound of the histogram's bucket with the median of publish acknowledgements."""
    published_p99_bound_ms: float


@dataclass(slots=True)
class RateResult:
    """All rounds at one rate."""

    rate: Rate
    rounds: list[PublishRound] = field(default_factory=list)

    def median_of(self, name: str) -> float:
        """The median of the rounds' figures of this name."""
        return float(median(getattr(done, name) for done in self.rounds))

    @property
    def reached(self) -> float:
        """Events accepted per second in the median round."""
        return median(done.outcome.per_second for done in self.rounds)

    @property
    def answer_p99_ms(self) -> float:
        """The median round's p99 from a frame to its answer."""
        return median(done.outcome.p99_ms for done in self.rounds)

    def cpu_per_thousand(self, name: str) -> float:
        """CPU seconds of a process per 1,000 events, in the median round."""
        return 1000 * median(done.outcome.cpu_seconds.get(name, 0.0) / done.outcome.events for done in self.rounds)


def run(servers: BenchServers, plan: Plan, progress: Progress) -> SectionResult:
    """Every rate in every round, then a look at the rows."""
    with servers.site() as site:
        with progress.step("executions for every round"):
            pools = _prepare_pools(site, plan)
        # Their creation is not what is measured, and nobody waits for its messages.
        verify.change(site.database_url, "UPDATE task_outbox SET status='PUBLISHED', due_at=NULL")
        site.start_relay()
        rates = _measure(site, plan, pools, progress)
        outcomes = [done.outcome for rate in rates for done in rate.rounds]
        acknowledged = sum(outcome.acknowledged for outcome in outcomes)
        with progress.step("rows"):
            expected = verify.Expected(TITLE, sum(map(len, pools.values())), acknowledged)
            checks = verify.check_rows(site.database_url, expected)
            checks += verify.check_published(site.database_url, TITLE)
    data = {f"{rate.rate.per_second}": [asdict(done) for done in rate.rounds] for rate in rates}
    return SectionResult(TITLE, _lines(rates), _aims(rates), [_plot(rates)], checks, data, outcomes)


PoolKey = tuple[int, int]
"""(round, events per second)."""


def _prepare_pools(site: BenchStack, plan: Plan) -> dict[PoolKey, list[Task]]:
    keys = [(number, rate) for number in range(plan.rounds) for rate in plan.rates]
    orders = [_pool_order(number, rate, plan) for number, rate in keys]
    made = prepare(site.database_url, site.keys.execution_keys_file, orders)
    return {(number, rate.per_second): pool for (number, rate), pool in zip(keys, made, strict=True)}


def _pool_order(number: int, rate: Rate, plan: Plan) -> PoolOrder:
    tasks = int(2 * rate.per_second * plan.loaded_seconds / EVENTS_PER_TASK)
    return PoolOrder(_pool_name(number, rate), max(tasks, 2 * plan.paced_senders * rate.per_call), OWNERS)


def _pool_name(number: int, rate: Rate) -> str:
    return f"publish-{number}-{rate.per_second}"


def _measure(stack: BenchStack, plan: Plan, pools: dict[PoolKey, list[Task]], progress: Progress) -> list[RateResult]:
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
        _wait_drained(stack)
        observations: list[tuple[float, float]] = json.loads(watching.communicate()[0])
    after = _histogram(stack)
    delays = [1000 * delay for at, delay in observations if outcome.began_unix <= at < outcome.ended_unix]
    return PublishRound(
        outcome=outcome,
        received=len(observations),
        receive_p50_ms=percentile(delays, 50),
        receive_p99_ms=percentile(delays, 99),
        published_p50_bound_ms=1000 * _quantile_bound(before, after, 0.5),
        published_p99_bound_ms=1000 * _quantile_bound(before, after, 0.99),
    )


def _load_order(stack: BenchStack, plan: Plan, rate: Rate, tasks: list[Task]) -> Order:
    return Order(
        kind=STREAM,
        grpc_target=stack.grpc_target,
        bearer=stack.worker_token(),
        senders=plan.paced_senders,
        width=rate.per_call,
        calls_per_second=rate.per_second / rate.per_call,
        warm_up_seconds=plan.warm_up_seconds,
        seconds=plan.seconds,
        pids=stack.pids,
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


def _wait_drained(stack: BenchStack) -> None:
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


def _lines(rates: Sequence[RateResult]) -> list[str]:
    body = [
        [
            f"{rate.rate.per_second:,}/s in frames of {rate.rate.per_call}",
            f"{rate.reached:,.0f}/s",
            f"{median(done.outcome.p50_ms for done in rate.rounds):.1f} / {rate.answer_p99_ms:.1f}",
            f"≤ {rate.median_of('published_p50_bound_ms'):g} / ≤ {rate.median_of('published_p99_bound_ms'):g}",
            f"{rate.median_of('receive_p50_ms'):.1f} / {rate.median_of('receive_p99_ms'):.1f}",
            ", ".join(f"{done.receive_p99_ms:.0f}" for done in rate.rounds),
            f"{sum(r.received for r in rate.rounds):,} of {sum(r.outcome.acknowledged for r in rate.rounds):,}",
            str(sum(done.outcome.late_calls for done in rate.rounds)),
        ]
        for rate in rates
    ]
    head = (
        "offered",
        "accepted",
        "answer, ms",
        "commit → publish, ms",
        "commit → client, ms",
        "rounds' p99",
        "received",
        "frames begun late",
    )
    cpu = [
        [f"{rate.rate.per_second:,}/s", *(f"{rate.cpu_per_thousand(name):.3f}" for name in PART_TITLES)]
        for rate in rates
    ]
    return [
        *table(head, body),
        "p50 / p99 each. Commit → publish comes from the relay's histogram, known to its buckets only.",
        "",
        "CPU seconds per 1,000 events, everything included:",
        "",
        *table(("offered", *PART_TITLES.values()), cpu),
    ]


def _aims(rates: Sequence[RateResult]) -> list[Aim]:
    return [
        Aim(
            f"p99 of a frame at {ANSWER_AT:,} events/s, with relay and clients",
            f"≤ {ANSWER_AIM_MS:g} ms",
            f"{rate.answer_p99_ms:.1f} ms",
            rate.answer_p99_ms <= ANSWER_AIM_MS,
            f"accepted {rate.reached:,.0f}/s; CPU seconds per 1,000 events: "
            + ", ".join(f"{title} {rate.cpu_per_thousand(name):.2f}" for name, title in PART_TITLES.items()),
        )
        for rate in rates
        if rate.rate.per_second == ANSWER_AT
    ]


def _plot(rates: Sequence[RateResult]) -> Plot:
    def line(name: str) -> list[tuple[float, float]]:
        return [(float(rate.rate.per_second), rate.median_of(name)) for rate in rates]

    series = [("client p50", line("receive_p50_ms")), ("client p99", line("receive_p99_ms"))]
    return lines("publishing", "From commit to client, ms", series, ("events per second offered", "ms"))
