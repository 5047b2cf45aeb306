"""One seed on the running processes: load with faults, then none until all is answered and told, then the judge."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import grpc.aio
import httpx

from taskstatus.domain.ids import TaskId, WorkflowId
from tests.chaos import tables, terms
from tests.chaos.coordinators import Coordinator
from tests.chaos.line import Line
from tests.chaos.nemesis import Nemesis
from tests.chaos.options import Fault, Options, stream
from tests.chaos.stack import ChaosStack
from tests.chaos.streams import StreamPool
from tests.chaos.transports import CHANNEL_OPTIONS, Transports
from tests.chaos.watcher import Watcher, watching
from tests.chaos.workers import WorkerHost
from tests.history.model import FinalTables, HealthWatch, History, Invocation, Outcome, Publication
from tests.history.rules_health import health_figures
from tests.history.validators import Violation, check
from tests.simulation.items import Assignment
from tests.support.clients import Tokens

TENANTS = ("t-01", "t-02")
LAST_CALLS_SECONDS = 30.0
"""How long calls that were on their way may take once no fault is left."""
SETTLE_SECONDS = 30.0
DRAIN_SECONDS = 30.0
POLL_SECONDS = 0.1
MOST_LOOKS = 5
"""At the tables, until nothing is committed while they and the channels are read."""
MARGIN_SECONDS = 1.5
"""What a busy machine may take beyond the times that are configured."""
COLUMNS = {
    "lost": ("acknowledged_exists_once_with_its_version",),
    "doubled": ("one_effect_per_event_id", "unknown_is_there_once_or_not_at_all", "one_execution_per_attempt"),
    "gaps": ("versions_are_gapless",),
    "reversals": ("terminal_never_reverts", "detail_never_goes_back"),
}
"""The validators behind each figure of the report; all others count as ``other``."""


@dataclass(frozen=True, slots=True)
class Report:
    """What one seed showed."""

    options: Options
    history: History
    violations: tuple[Violation, ...]
    faults: Counter[Fault]
    forms: Counter[str]
    internal_faults: int
    """Answers INTERNAL: a defect behind each."""
    errors: tuple[str, ...]
    """What the processes logged as errors."""
    settle_seconds: float
    drain_seconds: float
    figures: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        """Count."""
        object.__setattr__(self, "figures", _figures(self.history, self.violations))

    @property
    def line(self) -> str:
        """The figures in one line."""
        figures = " ".join(f"{name} {count}" for name, count in self.figures.items())
        times = f"settled {self.settle_seconds:.1f} s, drained {self.drain_seconds:.1f} s"
        return f"seed {self.options.seed}: {figures} | {times} | INTERNAL {self.internal_faults}"


def _figures(history: History, violations: Sequence[Violation]) -> dict[str, int]:
    events: dict[tuple[TaskId, str], set[Outcome]] = {}
    for call in history.invocations:
        events.setdefault((call.task_id, call.event_id), set()).add(call.outcome)
    by_validator = Counter(violation.validator for violation in violations)
    named = {name: sum(by_validator.pop(rule, 0) for rule in rules) for name, rules in COLUMNS.items()}
    return {
        "calls": len({call.call for call in history.invocations}),
        "acknowledged": sum(bool(outcomes & {Outcome.OK, Outcome.ABSORBED}) for outcomes in events.values()),
        "unknown": sum(Outcome.UNKNOWN in outcomes for outcomes in events.values()),
        "versions": len(history.tables.events),
        "published": len(history.publications),
        **health_figures(history),
        **named,
        "other": sum(by_validator.values()),
    }


async def run_seed(stack: ChaosStack, options: Options) -> Report:
    """Empty the schema, run, judge."""
    await tables.empty(stack.database.url)
    log_sizes = stack.log_sizes()
    async with _clients(stack, options) as crowd:
        nemesis = Nemesis(options, stack, crowd.hosts)
        history, settled, drained = await crowd.run(nemesis)
    violations = await asyncio.to_thread(check, history)
    errors = tuple(stack.errors_since(log_sizes))
    return Report(
        options,
        history,
        tuple(violations),
        nemesis.done,
        crowd.line.forms,
        crowd.line.internal_faults,
        errors,
        settled,
        drained,
    )


class _Crowd:
    """Every client of a run, and who watches."""

    def __init__(self, stack: ChaosStack, options: Options, transports: Transports, watcher: Watcher) -> None:
        self._stack = stack
        self._options = options
        self._watcher = watcher
        self._random = stream(options.seed, "crowd")
        self._notes: list[str] = []
        self.line = Line(options, transports)
        self.hosts = [WorkerHost(number + 1, options, self.line) for number in range(options.hosts)]
        # Channels keep what an earlier run told the same people.
        run_id = uuid4().hex[:12]
        self._people = (f"auth0|ada.{run_id}", f"bob.{run_id}")
        self._coordinators = [
            Coordinator(number, tenant_id, self._people, options, self.line, self._assign, self._announce)
            for tenant_id in TENANTS
            for number in range(1, options.coordinators + 1)
        ]

    async def run(self, nemesis: Nemesis) -> tuple[History, float, float]:
        """The history, and the seconds that settling and draining took."""
        for tenant_id in TENANTS:
            for user_id in self._people:
                self._watcher.watch_user(tenant_id, user_id)
        stopped = asyncio.Event()
        clients: list[Coordinator | WorkerHost] = [*self._coordinators, *self.hosts]
        beating = [asyncio.ensure_future(host.beat()) for host in self.hosts]
        working = [asyncio.ensure_future(client.run(stopped)) for client in clients]
        faults = asyncio.ensure_future(nemesis.run())
        await asyncio.sleep(self._options.seconds)
        await faults
        stopped.set()
        self.line.hurried = False
        await nemesis.heal()
        loop = asyncio.get_running_loop()
        began = loop.time()
        converged = await self._finish(working, LAST_CALLS_SECONDS, "at work")
        settling = [asyncio.ensure_future(client.settle()) for client in clients]
        converged = await self._finish(settling, SETTLE_SECONDS, "settling") and converged
        settled = loop.time()
        converged = await self._drain() and converged
        drained = loop.time()
        history = await self._history(converged, nemesis)
        self._end_beating(beating)
        return history, settled - began, drained - settled

    def _end_beating(self, beating: Sequence[asyncio.Task[None]]) -> None:
        for task in beating:
            if task.done() and not task.cancelled():
                self._notes.append(f"a client beating met {task.exception()!r}")
            task.cancel()

    async def _finish(self, tasks: Sequence[asyncio.Task[None]], seconds: float, doing: str) -> bool:
        done, unfinished = await asyncio.wait(tasks, timeout=seconds)
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)
        for task in done:
            if (error := task.exception()) is not None:
                self._notes.append(f"a client {doing} met {error!r}")
        if unfinished:
            self._notes.append(f"{len(unfinished)} clients were still {doing} after {seconds} s")
        return not unfinished

    async def _drain(self) -> bool:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + DRAIN_SECONDS
        url = self._stack.database.url
        while any(left := (await tables.stale(url), await tables.unpublished(url))):
            if loop.time() > deadline:
                what = f"{left[0]} executions were STALE and {left[1]} rows of the outbox were not published"
                self._notes.append(f"{what} after {DRAIN_SECONDS} s")
                return False
            await asyncio.sleep(POLL_SECONDS)
        return True

    async def _history(self, converged: bool, nemesis: Nemesis) -> History:
        ended_at, final, publications = await self._still_moment()
        return History(
            invocations=tuple(sorted(self.line.invocations, key=_number)),
            creations=tuple(self.line.creations),
            publications=publications,
            tables=final,
            health=self._watch(ended_at, nemesis),
            faultless=self._options.faultless,
            converged=converged,
            notes=tuple(self._notes),
        )

    async def _still_moment(self) -> tuple[float, FinalTables, tuple[Publication, ...]]:
        """Tables and messages between which nothing was committed; what comes last says so when there is none."""
        url = self._stack.database.url
        for _ in range(MOST_LOOKS):
            ended_at = asyncio.get_running_loop().time()
            final = await tables.read_tables(url)
            publications = tuple(await self._watcher.publications())
            is_drained = all(row.status == "PUBLISHED" for row in final.outbox)
            if is_drained and await tables.committed_events(url) == len(final.events):
                break
            await self._drain()
        return ended_at, final, publications

    def _watch(self, ended_at: float, nemesis: Nemesis) -> HealthWatch:
        now = asyncio.get_running_loop().time()
        return HealthWatch(
            # The database runs on this machine.
            origin=datetime.now(UTC).replace(tzinfo=None) - timedelta(seconds=now),
            ended_at=ended_at,
            beats=tuple(self.line.beats),
            disturbed=tuple(nemesis.hindered),
            persist_seconds=terms.PERSIST_SECONDS + MARGIN_SECONDS,
            detect_seconds=terms.LOOK_SECONDS + MARGIN_SECONDS,
            recover_seconds=terms.PERSIST_SECONDS + 2 * MARGIN_SECONDS,
            disbelief_seconds=terms.TIMEOUT_SECONDS + terms.GRACE_SECONDS,
            lost_after_seconds=terms.LOST_AFTER_SECONDS,
        )

    def _assign(self, assignment: Assignment) -> None:
        self._random.choice(self.hosts).assign(assignment)

    def _announce(self, tenant_id: str, workflow_id: WorkflowId, task_id: TaskId) -> None:
        self._watcher.watch_task(tenant_id, workflow_id, task_id)


def _number(call: Invocation) -> int:
    return call.number


@asynccontextmanager
async def _clients(stack: ChaosStack, options: Options) -> AsyncIterator[_Crowd]:
    async with AsyncExitStack() as opened:
        channels = [
            await opened.enter_async_context(grpc.aio.insecure_channel(target, options=CHANNEL_OPTIONS))
            for target in stack.grpc_targets
        ]
        rest = await opened.enter_async_context(httpx.AsyncClient(base_url=stack.rest_url, trust_env=False))
        watcher = await opened.enter_async_context(watching(stack.centrifugo, stack.keys))
        tokens = Tokens(stack.keys.identity_file)
        stream_channels = [
            await opened.enter_async_context(grpc.aio.insecure_channel(target, options=CHANNEL_OPTIONS))
            for target in stack.stream_targets
        ]
        streams = StreamPool(stream_channels, stream(options.seed, "streams"))
        opened.push_async_callback(streams.close)
        transports = Transports(channels, rest, tokens, stream(options.seed, "transports"), streams)
        yield _Crowd(stack, options, transports, watcher)
