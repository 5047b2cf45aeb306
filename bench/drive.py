"""Runs a load against the clock: warm-up, measured time, and an orderly end in which every call is answered."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from bench import yardsticks
from bench.cpu import CpuMeter

Send = Callable[[Sequence[Any]], Awaitable[int]]
"""Sends one call and returns, once it is committed, how many events were absorbed; raises for any other answer."""


class Calls(Protocol):
    """What one sender has to send."""

    def next_call(self) -> Sequence[Any]:
        """The items of the next call; empty once there are no more."""
        ...


@dataclass(slots=True)
class Outcome:
    """What one load did in one round; times in seconds, latencies of one call in milliseconds."""

    events: int = 0
    """Within the measured time."""
    seconds: float = 0.0
    acknowledged: int = 0
    """In all, warm-up and end included."""
    absorbed: int = 0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    used_up: bool = False
    """The executions did not last: the round was ended early."""
    cpu_seconds: dict[str, float] = field(default_factory=dict)
    began_unix: float = 0.0
    ended_unix: float = 0.0
    loop_ms: float = 0.0
    """See ``yardsticks``; taken before the load, as the next one."""
    round_trip_us: float = 0.0
    late_calls: int = 0
    """Paced load only: calls that had to wait for a free sender."""
    reconnects: int = 0
    """Streams that were cut and opened again."""
    repeats: int = 0
    """Events sent again that turned out to be committed already."""
    refusals: int = 0
    """Items refused in passing, which were sent again."""

    @property
    def per_second(self) -> float:
        """Events per second."""
        return self.events / self.seconds


def percentile(values: Sequence[float], percent: int) -> float:
    """The percentile of some values; 0.0 of none."""
    if len(values) < 2:
        return values[0] if values else 0.0
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


class Driver:
    """One round of one load."""

    def __init__(self, meter: CpuMeter, warm_up_seconds: float, seconds: float) -> None:
        self._meter = meter
        self._warm_up = warm_up_seconds
        self._seconds = seconds
        self._outcome = Outcome(loop_ms=yardsticks.loop_ms(), round_trip_us=yardsticks.round_trip_us())
        self._stopped = asyncio.Event()
        self._warm = asyncio.Event()
        self._cold_senders = 0
        self._measuring = False
        self._latencies: list[float] = []

    async def closed(self, sends: Sequence[Send], windows: Sequence[Calls]) -> Outcome:
        """Every sender sends its next call as soon as the last one was answered."""
        self._cold_senders = len(sends)
        async with asyncio.TaskGroup() as group:
            for send, window in zip(sends, windows, strict=True):
                group.create_task(self._send_all(send, window))
            await self._measure()
        return self._outcome

    async def paced(self, sends: Sequence[Send], windows: Sequence[Calls], calls_per_second: float) -> Outcome:
        """Calls begin at a fixed rate, whatever the answers do, as long as a sender is free."""
        free: asyncio.Queue[tuple[Send, Calls]] = asyncio.Queue()
        for pair in zip(sends, windows, strict=True):
            free.put_nowait(pair)
        self._warm.set()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._begin_calls(group, free, calls_per_second))
            await self._measure()
        return self._outcome

    async def _begin_calls(
        self, group: asyncio.TaskGroup, free: asyncio.Queue[tuple[Send, Calls]], calls_per_second: float
    ) -> None:
        due = time.monotonic()
        while not self._stopped.is_set():
            due += 1.0 / calls_per_second
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            self._outcome.late_calls += free.empty() and self._measuring
            group.create_task(self._send_and_free(free, *await free.get()))

    async def _send_and_free(self, free: asyncio.Queue[tuple[Send, Calls]], send: Send, window: Calls) -> None:
        await self._send_next(send, window)
        free.put_nowait((send, window))

    async def _send_all(self, send: Send, window: Calls) -> None:
        await self._send_next(send, window)
        self._cold_senders -= 1
        if not self._cold_senders:
            self._warm.set()
        while not self._stopped.is_set():
            await self._send_next(send, window)

    async def _send_next(self, send: Send, window: Calls) -> None:
        call = window.next_call()
        if not call:
            self._outcome.used_up = True
            self._stopped.set()
            return
        began = time.monotonic()
        absorbed = await send(call)
        # Not in one statement: it would read the sum before it waits, and other senders add to it meanwhile.
        self._outcome.absorbed += absorbed
        self._outcome.acknowledged += len(call)
        if self._measuring:
            self._outcome.events += len(call)
            self._latencies.append((time.monotonic() - began) * 1000)

    async def _measure(self) -> None:
        """From the end of the warm-up on, and not before every sender of a closed load has had an answer."""
        outcome = self._outcome
        await asyncio.sleep(self._warm_up)
        await self._warm.wait()
        self._meter.start()
        outcome.began_unix, began, self._measuring = time.time(), time.monotonic(), True
        try:
            async with asyncio.timeout(self._seconds):
                await self._stopped.wait()
        except TimeoutError:
            self._stopped.set()
        self._measuring = False
        outcome.seconds, outcome.ended_unix = time.monotonic() - began, time.time()
        outcome.cpu_seconds = self._meter.read()
        outcome.p50_ms, outcome.p99_ms = percentile(self._latencies, 50), percentile(self._latencies, 99)
