"""``make soak``: stream load at a fixed rate, a reconnect storm each minute; nothing lost or doubled, RSS flat.

Every minute all streams are cut at once, in the middle of whatever they send. Their client opens them again, binds its
executions again and sends what has no answer as it was. At the end the rows must hold exactly what was acknowledged.
With ``--burst`` an execution sends so many events in a frame, as a worker that tells of every page does: the service
may absorb all but the last (E-8), and has still to remember each.
The service's RSS is sampled all the while; its slope is that of a least-squares line over the last fifteen minutes, or
over the last three quarters of a shorter run.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil

from bench import loads, verify
from bench.__main__ import RESULTS, run_folder
from bench.drive import Outcome
from bench.plan import DRIVERS, LOOPS, PRODUCT_DRIVER, STREAM, UVLOOP
from bench.plots import Plot, lines
from bench.prepare import Order as PoolOrder
from bench.prepare import prepare
from bench.section import table
from bench.stack import SERVE, BenchStack, Engine, running_servers
from bench.verify import Check
from bench.worker import Order, packed
from bench.workload import PROGRESS_EVENTS, STEPS_PER_TASK
from scripts.stack.progress import Progress, StackError

SAMPLE_SECONDS = 5.0
SLOPE_SECONDS = 15 * 60.0
SLOPE_AIM_PERCENT = 1.0
JUDGED_SECONDS = 300.0
STREAMS, SENDERS, FRAME_ITEMS = 8, 64, 25
PURGE_SECONDS = 60.0
PURGE = "PURGE BINARY LOGS BEFORE NOW()"
"""Nobody replicates here, and the log of a soak would fill the disk."""
ROW_SECONDS = 60.0
STAGE = "soak"


@dataclass(slots=True)
class Samples:
    """RSS of a process over time: (seconds, MiB)."""

    points: list[tuple[float, float]] = field(default_factory=list)

    def late(self) -> list[tuple[float, float]]:
        """Those that the slope is taken of."""
        end = self.points[-1][0] if self.points else 0.0
        span = min(SLOPE_SECONDS, 0.75 * end)
        return [point for point in self.points if point[0] >= end - span]

    @property
    def is_long_enough(self) -> bool:
        """Whether the late part is long enough to be judged: a process still fills its caches in its first minutes."""
        late = self.late()
        return bool(late) and late[-1][0] - late[0][0] >= JUDGED_SECONDS

    def slope_percent(self) -> float:
        """How much RSS grew over the late part, in percent of its mean, by least squares; 0.0 of too few samples."""
        late = self.late()
        if len(late) < 2:
            return 0.0
        mean = sum(rss for _, rss in late) / len(late)
        return 100 * slope(late) * (late[-1][0] - late[0][0]) / mean


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Of the least-squares line through some points, not all at one x."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)


class Ticker:
    """Does something small again and again, from a thread of its own; ``run_once`` does it once."""

    def __init__(self, run_once: Callable[[], None], period_seconds: float) -> None:
        self.run_once = run_once
        self._period = period_seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin, at once."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait for it."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self.run_once()
            self._stopped.wait(self._period)


@dataclass(frozen=True, slots=True)
class SoakResult:
    """What a soak found; times in seconds."""

    seconds: float
    rate: int
    burst: int
    """Events of one execution in a frame."""
    replicas: int
    storm_seconds: float
    engine: Engine
    outcome: Outcome
    samples: Samples
    checks: Sequence[Check]
    lost: int
    doubled: int

    @property
    def slope_percent(self) -> float:
        """See ``Samples.slope_percent``."""
        return self.samples.slope_percent()

    @property
    def holds(self) -> bool:
        """Whether nothing was lost or doubled, and memory is flat as far as the run is long enough to tell."""
        is_flat = self.slope_percent <= SLOPE_AIM_PERCENT or not self.samples.is_long_enough
        return all(check.holds for check in self.checks) and is_flat


def soak(site: BenchStack, arguments: argparse.Namespace, progress: Progress) -> SoakResult:
    """Load, storms and samples, then a look at the rows."""
    seconds, rate = arguments.seconds, arguments.rate
    width = max(1, FRAME_ITEMS // arguments.burst)
    progress_events = _progress_events(seconds, rate, SENDERS * width)
    with progress.step("executions"):
        tasks = prepare(
            site.database_url, site.keys.execution_keys_file, [PoolOrder("soak", SENDERS * width, steps=STEPS_PER_TASK)]
        )[0]
    for number in range(1, arguments.replicas):
        site.start_service(f"{SERVE}-{number + 1}")
    if arguments.relay:
        site.start_relay()
    order = Order(
        kind=STREAM,
        grpc_targets=site.grpc_targets,
        bearer=site.worker_token(),
        senders=SENDERS,
        width=width,
        streams=STREAMS,
        calls_per_second=rate / (width * arguments.burst),
        progress_events=progress_events,
        burst=arguments.burst,
        cut_seconds=arguments.storm,
        seconds=seconds,
        pids=site.pids,
        tasks=packed(tasks[: SENDERS * width]),
    )
    replicas, samples, began = [psutil.Process(pid) for pid in site.service_pids], Samples(), time.monotonic()

    def sample() -> None:
        rss = sum(replica.memory_info().rss for replica in replicas)
        samples.points.append((time.monotonic() - began, rss / 2**20))

    def purge() -> None:
        verify.change(site.database_url, PURGE)

    with progress.step(f"{seconds:.0f} s at {rate:,}/s, a storm every {arguments.storm:g} s"), ExitStack() as stack:
        for ticker in (Ticker(sample, SAMPLE_SECONDS), Ticker(purge, PURGE_SECONDS)):
            ticker.start()
            stack.callback(ticker.stop)
        outcome = loads.run_worker(order)
    with progress.step("rows"):
        expected = verify.Expected(STAGE, len(tasks), outcome.acknowledged, absorbs=arguments.burst > 1)
        checks = verify.check_rows(site.database_url, expected)
        if arguments.relay:
            verify.becomes_zero(site.database_url, verify.NOT_PUBLISHED, ROW_SECONDS)
            checks += verify.check_published(site.database_url, STAGE)
        lost = outcome.acknowledged + len(tasks) - verify.number(site.database_url, verify.DEDUPS)
        doubled = verify.number(site.database_url, verify.DOUBLED)
    return SoakResult(
        seconds=seconds,
        rate=rate,
        burst=arguments.burst,
        replicas=arguments.replicas,
        storm_seconds=arguments.storm,
        engine=site.engine,
        outcome=outcome,
        samples=samples,
        checks=checks,
        lost=max(lost, 0),
        doubled=doubled,
    )


def _progress_events(seconds: float, rate: int, places: int) -> int:
    """So many per execution that the executions last: one task for each place in a frame, its steps one by one."""
    per_execution = rate * seconds / (places * STEPS_PER_TASK)
    # Places that began late in their first execution end early: half as much again.
    return max(PROGRESS_EVENTS, math.ceil(2 * per_execution))


def page(result: SoakResult, name: str) -> str:
    """The soak for people."""
    outcome = result.outcome
    late = result.samples.late()
    aim = f"at most {SLOPE_AIM_PERCENT:g} %" if result.samples.is_long_enough else "too short a run to judge"
    body = [
        ("offered, accepted", f"{result.rate:,}/s, {outcome.per_second:,.0f}/s"),
        ("events acknowledged", f"{outcome.acknowledged:,}"),
        ("of one execution in a frame; absorbed by later progress", f"{result.burst}; {outcome.absorbed:,}"),
        ("lost", f"{result.lost:,}"),
        ("doubled", f"{result.doubled:,}"),
        ("streams opened again", f"{outcome.reconnects:,}"),
        ("re-sent events that had been committed before", f"{outcome.repeats:,}"),
        ("items refused in passing and sent again", f"{outcome.refusals:,}"),
        ("p50 / p99 of a frame, storms included", f"{outcome.p50_ms:.1f} / {outcome.p99_ms:.1f} ms"),
        ("replicas of the service", f"{result.replicas}"),
        (
            "RSS of the service (all replicas), first and last",
            f"{result.samples.points[0][1]:.0f}, {late[-1][1]:.0f} MiB",
        ),
        (
            f"slope over the last {late[-1][0] - late[0][0]:.0f} s",
            f"{result.slope_percent:+.2f} % ({aim})",
        ),
    ]
    checks = [(c.name, f"{c.found:,}", f"{c.wanted:,}", "yes" if c.holds else "**NO**") for c in result.checks]
    return "\n".join(
        [
            "# Soak of issue 5",
            "",
            f"{result.seconds:.0f} s on {result.engine.driver} and {result.engine.loop}, every stream cut every"
            f" {result.storm_seconds:g} s. Made by `make soak`.",
            "",
            *table(("what", "found"), body),
            *table(("check", "found", "must be", "holds"), checks),
            f"![RSS of the service]({name}-rss.svg)",
            "",
        ]
    )


def _plot(result: SoakResult) -> Plot:
    series = [("RSS", result.samples.points)]
    return lines("rss", "RSS of the service, MiB", series, ("seconds", "MiB"))


def write(result: SoakResult, folder: Path, name: str) -> str:
    """Write ``name.md``, ``name.json`` and ``name-rss.svg``; the page's text."""
    folder.mkdir(parents=True, exist_ok=True)
    text = page(result, name)
    (folder / f"{name}.md").write_text(text)
    document = asdict(result) | {"slope_percent": result.slope_percent}
    (folder / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")
    plot = _plot(result)
    (folder / f"{name}-{plot.name}.svg").write_text(plot.svg)
    return text


def main() -> int:
    """The command; ends with 1 when something was lost or doubled, or memory grew."""
    arguments = _arguments()
    progress = Progress()
    try:
        engine = Engine(arguments.driver, arguments.loop)
        with run_folder() as folder, running_servers(folder, progress, engine) as servers, servers.site() as site:
            result = soak(site, arguments, progress)
    except (StackError, loads.WorkerFailedError, ValueError) as error:
        progress.say(f"soak: {error}")
        return 2
    progress.say(f"\n{write(result, arguments.results, arguments.name)}")
    return 0 if result.holds else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make soak", description="Stream load with a reconnect storm each minute.")
    parser.add_argument("--seconds", type=float, default=1200.0)
    parser.add_argument("--rate", type=int, default=3_000, help="events per second")
    parser.add_argument("--burst", type=int, default=1, help="events of one execution in a frame")
    parser.add_argument("--replicas", type=int, default=1, help="of the service")
    parser.add_argument("--storm", type=float, default=60.0, help="seconds between reconnect storms")
    parser.add_argument("--relay", action="store_true", help="publish meanwhile")
    parser.add_argument("--driver", choices=DRIVERS, default=PRODUCT_DRIVER)
    parser.add_argument("--loop", choices=LOOPS, default=UVLOOP)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--name", default="issue5-soak")
    arguments = parser.parse_args()
    if arguments.seconds <= 0 or arguments.storm <= 0 or min(arguments.rate, arguments.burst, arguments.replicas) < 1:
        parser.error("--seconds and --storm must be above 0, the others at least 1")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
