"""The process of one load: ``python -m bench.worker`` reads its order as a line of JSON and prints what it did."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field

import uvloop

from bench.cpu import CpuMeter
from bench.drive import Driver, Outcome, Send
from bench.naive import NaiveBuild
from bench.plan import NAIVE, PACED, RAW
from bench.product import ProductClient
from bench.raw import RawBuild
from bench.subscriber import watch
from bench.workload import Execution, Task, deal

CONNECTIONS = 4
"""gRPC connections of one load."""

SUBSCRIBER = "subscriber"


@dataclass(slots=True)
class Order:
    """What a worker process shall do; times in seconds."""

    kind: str
    database_url: str = ""
    grpc_target: str = ""
    bearer: str = ""
    senders: int = 0
    width: int = 0
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
    windows = deal(order.unpacked_tasks(), order.senders, order.width)
    driver = Driver(CpuMeter(order.pids), order.warm_up_seconds, order.seconds)
    async with _sends(order) as sends:
        if order.kind == PACED:
            return await driver.paced(sends, windows, order.calls_per_second)
        return await driver.closed(sends, windows)


@asynccontextmanager
async def _sends(order: Order) -> AsyncIterator[list[Send]]:
    """A send function for each sender, and an orderly end of their connections."""
    async with AsyncExitStack() as stack:
        if order.kind == NAIVE:
            naive = NaiveBuild(order.database_url)
            stack.push_async_callback(naive.close)
            yield [naive.send] * order.senders
        elif order.kind == RAW:
            builds = [await RawBuild.connect(order.database_url) for _ in range(order.senders)]
            for build in builds:
                stack.push_async_callback(build.close)
            yield [build.send for build in builds]
        else:
            clients = [ProductClient(order.grpc_target, order.bearer) for _ in range(CONNECTIONS)]
            for client in clients:
                stack.push_async_callback(client.close)
            sends: list[Send] = [client.send_unary if order.width == 1 else client.send_batch for client in clients]
            yield [sends[number % CONNECTIONS] for number in range(order.senders)]


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
