"""The process of one load: ``python -m bench.worker`` reads its order as a line of JSON and prints what it did."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain

import uvloop
from sqlalchemy import make_url

from bench.beating import BeatWindow, UnaryBeats, deal_beats, sender, start
from bench.cpu import CpuMeter
from bench.drive import Calls, Driver, Outcome, Send
from bench.naive import NaiveBuild
from bench.plan import AIOMYSQL, BATCH, BEATS_STREAM, BEATS_UNARY, NAIVE, RAW, STREAM, SUBSCRIBER, UNARY
from bench.product import ProductClient
from bench.raw import RawBuild
from bench.streaming import StreamClient, open_channel
from bench.subscriber import watch
from bench.workload import PROGRESS_EVENTS, Execution, Task, Window, deal

CONNECTIONS = 4
"""gRPC connections of one load."""
MOST_CONNECTIONS = 16
"""More streams share connections."""


@dataclass(slots=True)
class Order:
    """What a worker process shall do; times in seconds."""

    kind: str
    database_url: str = ""
    grpc_target: str = ""
    grpc_targets: list[str] = field(default_factory=list)
    """Replicas over which the streams are spread; empty: ``grpc_target`` alone."""
    bearer: str = ""
    driver: str = AIOMYSQL
    """Of the raw builds."""
    senders: int = 0
    width: int = 0
    streams: int = 4
    progress_events: int = PROGRESS_EVENTS
    burst: int = 1
    """Events of one execution in a call."""
    cut_seconds: float = 0.0
    """How often every stream is cut; 0: never, and no event may be answered otherwise than with a new version."""
    calls_per_second: float = 0.0
    warm_up_seconds: float = 0.0
    seconds: float = 0.0
    pids: dict[str, int] = field(default_factory=dict)
    """The processes whose CPU time is measured, by name."""
    tasks: list[list[list[str]]] = field(default_factory=list)
    websocket_url: str = ""
    realtime_tokens: list[str] = field(default_factory=list)

    def to_line(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self)) + "\n"

    def unpacked_tasks(self) -> list[Task]:
        """The tasks with their executions."""
        return [[_unpacked(fields) for fields in task] for task in self.tasks]


def packed(tasks: Sequence[Task]) -> list[list[list[str]]]:
    """Tasks as an order carries them."""
    return [
        [[e.workflow_id.hex(), e.task_id.hex(), e.execution_id.hex(), e.step_id, e.handle] for e in task]
        for task in tasks
    ]


def _unpacked(fields: Sequence[str]) -> Execution:
    workflow_id, task_id, execution_id = map(bytes.fromhex, fields[:3])
    return Execution(workflow_id, task_id, execution_id, *fields[3:])


async def run(order: Order) -> Outcome:
    """Carry out an order for a load."""
    driver = Driver(CpuMeter(order.pids), order.warm_up_seconds, order.seconds)
    async with AsyncExitStack() as stack:
        load = await _OPENERS[order.kind](order, stack)
        if order.calls_per_second:
            outcome = await driver.paced(load.sends, load.calls, order.calls_per_second)
        else:
            outcome = await driver.closed(load.sends, load.calls)
        for client in load.streams:
            outcome.reconnects += client.reconnects
            outcome.repeats += client.repeats
            outcome.refusals += client.refusals
    return outcome


@dataclass(slots=True)
class _Load:
    """A send function for each sender, and what it sends."""

    sends: Sequence[Send]
    calls: Sequence[Calls]
    streams: list[StreamClient] = field(default_factory=list)


Opener = Callable[[Order, AsyncExitStack], Awaitable[_Load]]


async def _naive(order: Order, stack: AsyncExitStack) -> _Load:
    # Frozen with its driver, whichever the product takes by then.
    url = make_url(order.database_url).set(drivername=f"mysql+{AIOMYSQL}")
    naive = NaiveBuild(url.render_as_string(hide_password=False))
    stack.push_async_callback(naive.close)
    return _Load([naive.send] * order.senders, _windows(order))


async def _raw(order: Order, stack: AsyncExitStack) -> _Load:
    builds = [await RawBuild.connect(order.database_url, order.driver) for _ in range(order.senders)]
    for build in builds:
        stack.push_async_callback(build.close)
    return _Load([build.send for build in builds], _windows(order))


async def _calls(order: Order, stack: AsyncExitStack) -> _Load:
    clients = [ProductClient(order.grpc_target, order.bearer) for _ in range(CONNECTIONS)]
    for client in clients:
        stack.push_async_callback(client.close)
    sends: list[Send] = [c.send_unary if order.kind == UNARY else c.send_batch for c in clients]
    return _Load([sends[number % CONNECTIONS] for number in range(order.senders)], _windows(order))


async def _streams(order: Order, stack: AsyncExitStack) -> _Load:
    """Every execution is bound before the load begins, on the stream of its sender; in a soak when it begins."""
    windows = _windows(order)
    bound = [[] if order.cut_seconds else window.executions for window in windows]
    clients = await _open_streams(order, stack, bound)
    if order.cut_seconds:
        cutting = asyncio.create_task(_cut_again_and_again(clients, order.cut_seconds))
        stack.callback(cutting.cancel)
    sends: list[Send] = [
        client.send_until_accepted if order.cut_seconds else client.send
        for client in (clients[number % len(clients)] for number in range(order.senders))
    ]
    return _Load(sends, windows, clients)


async def _open_streams(
    order: Order, stack: AsyncExitStack, executions: Sequence[Sequence[Execution]]
) -> list[StreamClient]:
    """The order's streams; each binds the executions of its senders."""
    count = min(order.streams, order.senders)
    targets = order.grpc_targets or [order.grpc_target]
    channels = [open_channel(targets[number % len(targets)]) for number in range(min(count, MOST_CONNECTIONS))]
    for channel in channels:
        stack.push_async_callback(channel.close)
    clients = [StreamClient(channels[number % len(channels)], order.bearer) for number in range(count)]
    for number, client in enumerate(clients):
        await client.open(chain.from_iterable(executions[number::count]))
        stack.push_async_callback(client.close)
    return clients


async def _cut_again_and_again(clients: Sequence[StreamClient], seconds: float) -> None:
    """A reconnect storm: every stream at the same moment."""
    while True:
        await asyncio.sleep(seconds)
        for client in clients:
            client.cut()


async def _unary_beats(order: Order, stack: AsyncExitStack) -> _Load:
    windows = await _started(order)
    clients = [UnaryBeats(order.grpc_target, order.bearer) for _ in range(CONNECTIONS)]
    for client in clients:
        stack.push_async_callback(client.close)
    return _Load(
        [
            sender(partial(clients[number % CONNECTIONS].beat, window.executions))
            for number, window in enumerate(windows)
        ],
        windows,
    )


async def _stream_beats(order: Order, stack: AsyncExitStack) -> _Load:
    windows = await _started(order)
    clients = await _open_streams(order, stack, [window.executions for window in windows])
    dealt = [(clients[number % len(clients)], window) for number, window in enumerate(windows)]
    sends = [sender(partial(client.beat, client.keys_of(window.executions))) for client, window in dealt]
    return _Load(sends, windows, clients)


async def _started(order: Order) -> list[BeatWindow]:
    windows = deal_beats(order.unpacked_tasks(), order.senders, order.width)
    client = ProductClient(order.grpc_target, order.bearer)
    await start(client, windows)
    await client.close()
    return windows


def _windows(order: Order) -> list[Window]:
    return deal(order.unpacked_tasks(), order.senders, order.width, order.progress_events, order.burst)


_OPENERS: Mapping[str, Opener] = {
    NAIVE: _naive,
    RAW: _raw,
    UNARY: _calls,
    BATCH: _calls,
    STREAM: _streams,
    BEATS_UNARY: _unary_beats,
    BEATS_STREAM: _stream_beats,
}


def main() -> int:
    """The process."""
    order = Order(**json.loads(sys.stdin.readline()))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if order.kind == SUBSCRIBER:
            runner.run(watch(order.websocket_url, order.realtime_tokens))
        else:
            json.dump(asdict(runner.run(run(order))), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
