"""Whether an event costs more where there is more: rows in the tables, steps of a task, executions of a stream.

Each axis is measured in interleaved rounds of its own, every size under the same load: so many events in flight, in
frames of the same width. What counts is time per event, at the largest size over the smallest.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from bench import fill, loads, verify
from bench.loads import BuildResult, Entry
from bench.plan import STREAM, Build, Plan, build
from bench.plots import Plot, lines
from bench.prepare import Order, prepare
from bench.section import Aim, SectionResult, bound_by, figures, table
from bench.stack import DATABASE, SERVE, BenchServers, BenchStack
from bench.verify import Check
from bench.workload import STEPS_PER_TASK, Task
from scripts.stack.progress import Progress

TITLE = "Growth"
AIM = 1.15
TEMPLATE_TASKS = 100
SENDERS, WIDTH = 4, 25
"""A hundred tasks at a time, wherever tasks have many steps."""
MOST_EXECUTIONS = 10
"""Of each of these tasks in one round."""
STEPS = (3, 30, 300)
PER_STREAM = (1, 100, 1_000)
IN_FLIGHT = 1_000
TASKS_AT_WORK = SENDERS * WIDTH


@dataclass(frozen=True, slots=True)
class Axis:
    """One quantity that grows: its sizes, and what was measured at each."""

    name: str
    sizes: Sequence[int]
    results: Sequence[BuildResult]

    def growth(self) -> float:
        """Time per event at the largest size, over that at the smallest."""
        return self.results[0].per_second / self.results[-1].per_second

    def cpu_growth(self) -> float:
        """CPU time of service and database per event, likewise."""
        first, last = self.results[0], self.results[-1]
        return last.cpu_us(SERVE, DATABASE) / first.cpu_us(SERVE, DATABASE)


def run(servers: BenchServers, plan: Plan, progress: Progress) -> SectionResult:
    """Table sizes with a service each, then the rest on one schema."""
    tables, checks = _table_sizes(servers, plan, progress)
    with servers.site() as site:
        with progress.step("executions for every round"):
            by_steps, hot, tasks = _step_entries(site, plan)
            by_stream = _stream_entries(site, plan)
        results = loads.compare([*by_steps, hot], plan, progress)
        steps = Axis("steps per task", STEPS, results[:-1])
        streams = Axis("executions at work per stream", PER_STREAM, loads.compare(by_stream, plan, progress))
        outcomes = loads.outcomes_of([*results, *streams.results])
        tasks += sum(len(pool) for entry in by_stream for pool in entry.pools)
        expected = verify.Expected(f"{TITLE}: steps and streams", tasks, sum(o.acknowledged for o in outcomes))
        with progress.step("rows"):
            checks += verify.check_rows(site.database_url, expected)
    axes = [tables, steps, streams]
    everything = [*tables.results, *results, *streams.results]
    return SectionResult(
        TITLE,
        _lines(axes, results[0], results[-1]),
        [_aim(axis) for axis in axes],
        [_plot(axes)],
        checks,
        figures(everything),
        loads.outcomes_of(everything),
    )


def _table_sizes(servers: BenchServers, plan: Plan, progress: Progress) -> tuple[Axis, list[Check]]:
    """A schema and a service for each size, loaded in turn."""
    with ExitStack() as stack:
        entries, filled = [], []
        for size in plan.table_sizes:
            site = stack.enter_context(servers.site())
            with progress.step(f"{size:,} tasks in the tables"):
                prepare(site.database_url, site.keys.execution_keys_file, [Order("old", TEMPLATE_TASKS)])
                filled.append(TEMPLATE_TASKS + fill.fill_tasks(site.database_url, TEMPLATE_TASKS, size))
                entries += loads.pools(site, [replace(build("stream-100"), name=f"tables-{size}")], plan)
        results = loads.compare(entries, plan, progress)
        checks = []
        with progress.step("rows"):
            for entry, result, old in zip(entries, results, filled, strict=True):
                acknowledged = sum(outcome.acknowledged for outcome in result.outcomes)
                tasks = old + sum(map(len, entry.pools))
                expected = verify.Expected(f"{TITLE}: {result.build.name}", tasks, acknowledged)
                checks += verify.check_rows(entry.site.database_url, expected, filled=old - TEMPLATE_TASKS)
    return Axis("tasks in the tables", plan.table_sizes, results), checks


def _step_entries(site: BenchStack, plan: Plan) -> tuple[list[Entry], Entry, int]:
    """An entry for each number of steps, one for a hot task, and how many tasks were prepared."""
    per_position = min(MOST_EXECUTIONS, STEPS[1] // plan.rounds)
    few = TASKS_AT_WORK * -(-per_position // STEPS_PER_TASK)
    orders = [
        *(Order(f"steps-3-{number}", few) for number in range(plan.rounds)),
        *(Order(f"steps-{steps}", TASKS_AT_WORK, steps=steps) for steps in STEPS[1:]),
        *(Order(f"hot-{number}", 1, steps=TASKS_AT_WORK * per_position) for number in range(plan.rounds)),
    ]
    made = prepare(site.database_url, site.keys.execution_keys_file, orders)
    small, many, hot = made[: plan.rounds], made[plan.rounds : -plan.rounds], made[-plan.rounds :]
    entries = [Entry(_steps(STEPS[0]), site, small)]
    for steps, pool in zip(STEPS[1:], many, strict=True):
        entries.append(Entry(_steps(steps), site, [_part(pool, n, per_position) for n in range(plan.rounds)]))
    split: list[list[Task]] = [[[execution] for task in pool for execution in task] for pool in hot]
    return entries, Entry(replace(_steps(0), name="hot task"), site, split), sum(map(len, made))


def _part(pool: Sequence[Task], number: int, per_position: int) -> list[Task]:
    """Executions of the tasks that no other round takes."""
    return [task[number * per_position : (number + 1) * per_position] for task in pool]


def _steps(steps: int) -> Build:
    return Build(f"steps-{steps}", "", STREAM, SENDERS, WIDTH, 0)


def _stream_entries(site: BenchStack, plan: Plan) -> list[Entry]:
    """The same number of events in flight, one per frame, over fewer and fewer streams; a task for each."""
    orders = [Order(f"per-stream-{size}-{n}", IN_FLIGHT) for size in PER_STREAM for n in range(plan.rounds)]
    made = iter(prepare(site.database_url, site.keys.execution_keys_file, orders))
    return [
        Entry(
            Build(f"per-stream-{size}", "", STREAM, IN_FLIGHT, 1, 0, streams=IN_FLIGHT // size),
            site,
            [next(made) for _ in range(plan.rounds)],
        )
        for size in PER_STREAM
    ]


def _lines(axes: Sequence[Axis], hundred: BuildResult, hot: BuildResult) -> list[str]:
    body = []
    for axis in axes:
        for size, result in zip(axis.sizes, axis.results, strict=True):
            body.append(_row(axis.name, f"{size:,}", axis.results[0], result))
    body.append(_row("tasks at work", f"{TASKS_AT_WORK:,} of 3 steps", hundred, hundred))
    body.append(_row("", "one hot task", hundred, hot))
    head = ("axis", "size", "events/s", "time per event", "CPU µs: service / database", "its growth", "others, cores")
    note = (
        "Time per event and CPU (service and database) over those of the axis' first size. Table sizes: frames of 100,"
        f" 800 events in flight. Steps and the hot task: frames of {WIDTH}, {TASKS_AT_WORK} in flight. Streams: frames"
        f" of one, {IN_FLIGHT:,} in flight over 1,000, 10 and 1 streams. The hot task's events are of different"
        " executions, so that none is absorbed."
    )
    return [*table(head, body), note]


def _row(axis: str, size: str, first: BuildResult, result: BuildResult) -> list[str]:
    growth = first.per_second / result.per_second
    cpu_growth = result.cpu_us(SERVE, DATABASE) / first.cpu_us(SERVE, DATABASE)
    return [
        axis,
        size,
        f"{result.per_second:,.0f}",
        f"{growth:.2f} ×",
        f"{result.cpu_us(SERVE):.0f} / {result.cpu_us(DATABASE):.0f}",
        f"{cpu_growth:.2f} ×",
        f"{result.foreign_cores():.2f}",
    ]


def _aim(axis: Axis) -> Aim:
    return Aim(
        f"growth per event: {axis.name}, {axis.sizes[0]:,} → {axis.sizes[-1]:,}",
        f"≤ {AIM:g} ×",
        f"{axis.growth():.2f} ×",
        axis.growth() <= AIM,
        f"CPU of service and database {axis.cpu_growth():.2f} ×; {bound_by(axis.results[-1])}",
    )


def _plot(axes: Sequence[Axis]) -> Plot:
    series = [
        (
            axis.name.partition(" ")[0],
            [(float(size), 1e6 / result.per_second) for size, result in zip(axis.sizes, axis.results, strict=True)],
        )
        for axis in axes
    ]
    return lines("growth", "Microseconds per event", series, ("size of the axis", "µs"))
