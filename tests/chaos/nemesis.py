"""Carries out the plan of faults on the running processes, and takes every fault back."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence

from sqlalchemy.exc import SQLAlchemyError

from tests.chaos import locks
from tests.chaos.options import (
    DATABASE,
    OF_STREAMS,
    SERVICES,
    STEPPED_REPLICA,
    WORKERS,
    Fault,
    Options,
    Planned,
    stream,
)
from tests.chaos.proxy import Fate
from tests.chaos.stack import ChaosStack
from tests.chaos.workers import WorkerHost
from tests.history.model import Window

HEARING = frozenset({*SERVICES, DATABASE})
"""Who is needed for a heartbeat to be kept, and for silence to be told."""
LASTING = frozenset({Fault.LOSE_COMMIT, Fault.LOSE_COMMIT_REPLY})
"""Begun at once, and in force until so many COMMITs have come."""
AFTER_SECONDS = 2.0
"""How long what was hindered may take to be caught up with."""
Deed = Callable[[Planned], Awaitable[None]]


class Nemesis:
    """One run's faults; those on the same target never overlap."""

    def __init__(self, options: Options, stack: ChaosStack, hosts: Sequence[WorkerHost]) -> None:
        self._hosts = hosts
        self._options = options
        self._stack = stack
        self._random = stream(options.seed, "nemesis")
        self._busy: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._under_way: list[asyncio.Task[None]] = []
        self.done: Counter[Fault] = Counter()
        self.hindered: list[Window] = []
        """While heartbeats may have been lost, or kept in memory, and health changes not written."""
        self._deeds: dict[Fault, Deed] = {
            Fault.KILL_SERVICE: self._kill,
            Fault.KILL_RELAY: self._kill,
            Fault.KILL_DATABASE: self._kill,
            Fault.DRAIN_SERVICE: self._drain,
            Fault.PAUSE: self._pause,
            Fault.LOSE_COMMIT_REPLY: self._lose_commit_reply,
            Fault.LOSE_COMMIT: self._lose_commit,
            Fault.CUT: self._cut,
            Fault.DELAY: self._delay,
            Fault.THROTTLE: self._throttle,
            Fault.HOLD: self._hold,
            Fault.KILL_SESSIONS: self._kill_sessions,
            Fault.DEADLOCK: self._deadlock,
            Fault.LOCK_WAIT: self._lock_wait,
            Fault.STEP_CLOCK: self._step_clock,
            Fault.CUT_STREAM: self._cut_stream,
            Fault.PAUSE_WORKER: self._pause_worker,
            Fault.STORM: self._storm,
        }

    async def run(self) -> None:
        """Begin each fault at its time; return when the last one has begun."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        for planned in self._options.plan:
            await asyncio.sleep(max(0.0, began + planned.at - loop.time()))
            self._under_way.append(asyncio.ensure_future(self._do(planned)))

    async def heal(self) -> None:
        """End every fault: wait for those under way, forward everything, start what is dead, set the clock right."""
        for proxy in self._stack.proxies.values():
            proxy.heal()
        await asyncio.gather(*self._under_way)
        for proxy in self._stack.proxies.values():
            proxy.heal()
        await asyncio.to_thread(self._stack.mend)
        self._stack.step_clock(STEPPED_REPLICA, 0.0)

    async def _do(self, planned: Planned) -> None:
        lock = self._busy[planned.target]
        if lock.locked():
            return
        async with lock:
            self.done[planned.fault] += 1
            began = asyncio.get_running_loop().time()
            await self._deeds[planned.fault](planned)
            if planned.target in HEARING and planned.fault not in OF_STREAMS:
                after = planned.seconds if planned.fault in LASTING else 0.0
                end = asyncio.get_running_loop().time() + after + AFTER_SECONDS
                self.hindered.append(Window(began, end))

    async def _kill(self, planned: Planned) -> None:
        part = self._stack.parts[planned.target]
        await asyncio.to_thread(part.kill9)
        await asyncio.sleep(planned.seconds)
        await asyncio.to_thread(part.restart)

    async def _drain(self, planned: Planned) -> None:
        await asyncio.to_thread(self._stack.parts[planned.target].restart)

    async def _pause(self, planned: Planned) -> None:
        part = self._stack.parts[planned.target]
        part.pause()
        await asyncio.sleep(planned.seconds)
        part.resume()

    async def _cut_stream(self, planned: Planned) -> None:
        self._stack.stream_proxies[planned.target].cut()

    async def _pause_worker(self, planned: Planned) -> None:
        busiest = sorted(self._hosts, key=lambda host: -host.running)
        host = busiest[WORKERS.index(planned.target)]
        host.pause(planned.seconds)
        await asyncio.sleep(planned.seconds)

    async def _storm(self, planned: Planned) -> None:
        for host in self._hosts:
            host.storm(planned.seconds)
        await asyncio.sleep(planned.seconds)

    async def _lose_commit_reply(self, planned: Planned) -> None:
        self._stack.proxies[planned.target].spoil_commits(Fate.REPLY_LOST, planned.figure)

    async def _lose_commit(self, planned: Planned) -> None:
        self._stack.proxies[planned.target].spoil_commits(Fate.LOST, planned.figure)

    async def _cut(self, planned: Planned) -> None:
        self._stack.proxies[planned.target].cut()

    async def _delay(self, planned: Planned) -> None:
        await self._slow(planned, planned.figure / 1_000, 0.0)

    async def _throttle(self, planned: Planned) -> None:
        await self._slow(planned, 0.0, planned.figure)

    async def _slow(self, planned: Planned, delay_seconds: float, bytes_per_second: float) -> None:
        proxy = self._stack.proxies[planned.target]
        proxy.slow_down(delay_seconds, bytes_per_second)
        await asyncio.sleep(planned.seconds)
        proxy.slow_down(0.0, 0.0)

    async def _hold(self, planned: Planned) -> None:
        proxy = self._stack.proxies[planned.target]
        proxy.hold()
        await asyncio.sleep(planned.seconds)
        proxy.release()

    async def _kill_sessions(self, _: Planned) -> None:
        with contextlib.suppress(SQLAlchemyError, OSError):
            await locks.kill_sessions(self._stack.database.url, self._random, self._random.choice((0.2, 1.0)))

    async def _deadlock(self, planned: Planned) -> None:
        with contextlib.suppress(SQLAlchemyError, OSError):
            await locks.provoke_deadlocks(self._stack.database.url, planned.seconds, self._random)

    async def _lock_wait(self, planned: Planned) -> None:
        with contextlib.suppress(SQLAlchemyError, OSError):
            await locks.lock_for(self._stack.database.url, planned.seconds, self._random)

    async def _step_clock(self, planned: Planned) -> None:
        self._stack.step_clock(planned.target, float(planned.figure))
