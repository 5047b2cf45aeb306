"""Whether a fault happens now: drawn from the seed, counted and traced; none once the run shall converge."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from random import Random

from taskstatus.adapters.memory.clock import MemoryDatabaseClock
from taskstatus.domain.ids import TaskId
from taskstatus.domain.records import ChangeSet
from tests.history.model import Window
from tests.simulation.loop import SimulatedLoop
from tests.simulation.options import TIMEOUT_SECONDS, Fault, Options, stream

START = datetime(2026, 11, 30, 8, 0, 0)
START_UNIX_SECONDS = 1_796_025_600.0
DISBELIEF_SECONDS = TIMEOUT_SECONDS + 1.0
"""For so long a process that could not hear believes no silence: its workers' timeout, or its grace."""
LONGEST_RETRY_SECONDS = 1.0
DISTURBING = frozenset({Fault.REPLICA_KILLED, Fault.LEASES_LOST})
SUSPENDING_SHARE = 0.5
"""Of the crossings of a process's border."""


class Trace:
    """What happened, when; kept only when somebody will read it."""

    def __init__(self, loop: SimulatedLoop, *, wanted: bool) -> None:
        self._loop = loop
        self.wanted = wanted
        self.lines: list[str] = []

    def add(self, who: str, what: str) -> None:
        """Note one happening at the present virtual time."""
        if self.wanted:
            self.lines.append(f"{self._loop.time():9.4f}  {who:<14} {what}")


class DatabaseClock(MemoryDatabaseClock):
    """The database's clock on virtual time; a fault sets it back."""

    def __init__(self, loop: SimulatedLoop) -> None:
        super().__init__(START)
        self._loop = loop
        self._last = START
        self._offset_seconds = 0.0

    def read(self) -> datetime:
        """The time, later than at the last reading unless the clock was set back in between."""
        now = START + timedelta(seconds=self._loop.time() + self._offset_seconds)
        self._last = max(now, self._last + timedelta(microseconds=1))
        return self._last

    def step_back(self, seconds: float) -> None:
        """What a failover to a server with another clock does."""
        self._offset_seconds -= seconds
        self._last -= timedelta(seconds=seconds)


class Faults:
    """The one source of faults of a run."""

    def __init__(self, options: Options, trace: Trace, now: Callable[[], float]) -> None:
        self._rates = dict(options.fault_rates)
        self._loop_time = now
        self._trace = trace
        self.random: Random = stream(options.seed, "faults")
        self.counts: Counter[Fault] = Counter()
        self.publisher_is_down = False
        self.poisonous_events: set[str] = set()
        self.unreadable_tasks: set[TaskId] = set()
        self.disturbed: list[Window] = []
        """While beats may be lost or kept back, and health changes not recorded."""

    def disturb(self, begin: float, end: float) -> None:
        """Beats and health changes are hindered so long, and what waited is tried again soon after."""
        self.disturbed.append(Window(begin, end + LONGEST_RETRY_SECONDS))

    def happens(self, fault: Fault, who: str = "") -> bool:
        """Whether it happens at this call."""
        rate = self._rates.get(fault, 0.0)
        if rate == 0.0 or self.random.random() >= rate:
            return False
        self.note(fault, who)
        return True

    def chosen(self, *faults: Fault) -> list[Fault]:
        """Those of them that this seed injects."""
        return [fault for fault in faults if fault in self._rates]

    def note(self, fault: Fault, who: str = "") -> None:
        """Count it and tell the trace."""
        self.counts[fault] += 1
        if fault in DISTURBING:
            self.disturb(self._loop_time(), self._loop_time())
        self._trace.add("FAULT", f"{fault.value} {who}")

    def refuses(self, changes: ChangeSet) -> bool:
        """Whether the database refuses these rows: the port ``MemoryTaskStore.refuse``."""
        return any(row.event_id in self.poisonous_events for row in changes.dedups)

    def end(self) -> None:
        """From now on nothing fails."""
        self._rates.clear()
        self.publisher_is_down = False
        self.poisonous_events.clear()
        self.unreadable_tasks.clear()


class ProcessKilledError(Exception):
    """Raised out of every port of a process that was killed: it can do nothing more."""


class Process:
    """One operating system process: its ports suspend for their latency, and stand still while it is stopped."""

    def __init__(self, name: str, loop: SimulatedLoop, random: Random, latency_seconds: float) -> None:
        self.name = name
        self._loop = loop
        self._random = random
        self._latency_seconds = latency_seconds
        self._stopped_until = 0.0
        self.killed = False

    async def enter(self) -> None:
        """Cross the border of the process once, to a port or back. Raises ProcessKilledError.

        Every other crossing takes no time, on average: where others come in between must differ from run to run.
        """
        if self.killed or self._random.random() < SUSPENDING_SHARE:
            await asyncio.sleep(self._latency_seconds * self._random.random())
        while self._stopped_until > self._loop.time():
            await asyncio.sleep(self._stopped_until - self._loop.time())
        if self.killed:
            raise ProcessKilledError(self.name)

    def stop_for(self, seconds: float) -> None:
        """SIGSTOP now, SIGCONT later."""
        self._stopped_until = self._loop.time() + seconds
