"""How many executions and streams one process carries, and what a client that never reads costs it; run by hand.

``python -m bench.stream_scale`` starts its own MySQL and service, and prints the service's RSS after each part: 10,000
executions on one stream, 1,000 streams with three executions each, 1,000 streams whose clients write and never read.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import grpc.aio
import psutil
from taskstatus_pb.v1 import bind_execution_service_pb2 as pb
from taskstatus_pb.v1 import bind_execution_service_pb2_grpc, common_pb2, report_service_pb2

from bench import workload
from bench.prepare import Order, Preparer
from bench.stack import SERVE, BenchStack, running_stack
from bench.workload import Execution
from scripts.stack.progress import Progress

T = TypeVar("T")
UNLIMITED = {
    f"TASKSTATUS_{name}": "1e9"
    for name in ("EVENTS_PER_SECOND", "BURST_EVENTS", "HEARTBEATS_PER_SECOND", "BURST_HEARTBEATS")
}
METHOD = "/taskstatus.v1.BindExecutionService/StreamExecutions"
PATIENCE_SECONDS = 240
CHANNELS = 16
BIND_ITEMS, REPORT_ITEMS, BEAT_ITEMS = 500, 100, 500
BEAT_ROUNDS = 10
SMALL_WINDOW = (("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 16_384))
"""Of clients that never read: their own receive buffers are not what is measured."""


class Meter:
    """RSS and streams of the service, printed line by line."""

    def __init__(self, bench: BenchStack) -> None:
        self._process = psutil.Process(bench.pids[SERVE])
        self._metrics = f"http://{bench.address(SERVE, 'TASKSTATUS_METRICS_LISTEN')}/metrics"
        self._began = time.perf_counter()
        self._cpu = 0.0

    def lap(self) -> float:
        """Seconds since the last lap."""
        now = time.perf_counter()
        seconds, self._began = now - self._began, now
        return seconds

    def say(self, what: str) -> None:
        """One line with the service's RSS, and the CPU time that it took since the last line."""
        times = self._process.cpu_times()
        cpu, self._cpu = times.user + times.system - self._cpu, times.user + times.system
        print(f"{what:<72} RSS {self._process.memory_info().rss / 2**20:5.0f} MiB, CPU {cpu:5.1f} s", flush=True)

    def ended(self, status: str) -> int:
        """How many streams have ended with a status."""
        with urllib.request.urlopen(self._metrics, timeout=60) as page:
            lines = page.read().decode().splitlines()
        wanted = ("taskstatus_report_duration_seconds_count", "StreamExecutions", f'status="{status}"')
        return sum(int(float(line.split()[-1])) for line in lines if all(part in line for part in wanted))


class Client:
    """One stream: frames out, answers in, in lock step but for the window."""

    def __init__(self, channel: grpc.aio.Channel, token: str) -> None:
        stub = bind_execution_service_pb2_grpc.BindExecutionServiceStub(channel)
        self.call: Any = stub.StreamExecutions(metadata=(("authorization", f"Bearer {token}"),))
        self._correlations = itertools.count(1)

    async def open(self) -> None:
        """Wait for the first frame."""
        await self.call.read()

    async def send(self, **frame: Any) -> None:
        """One frame."""
        await self.call.write(pb.StreamExecutionsRequest(correlation=next(self._correlations), **frame))

    async def ask_all(self, frames: Sequence[dict[str, Any]], ahead: int) -> list[pb.StreamExecutionsResponse]:
        """Send frames, ``ahead`` of them before their answers; notices are passed over."""
        may_send = asyncio.Semaphore(ahead)
        answers: list[pb.StreamExecutionsResponse] = []

        async def write() -> None:
            for frame in frames:
                await may_send.acquire()
                await self.send(**frame)

        writing = asyncio.create_task(write())
        while len(answers) < len(frames):
            answer = await self.call.read()
            if answer.correlation:
                answers.append(answer)
                may_send.release()
        await writing
        return answers

    async def bind(self, executions: Sequence[Execution]) -> list[int]:
        """The numbers of executions."""
        groups = cut([pb.BindExecutionRequest(execution_handle=each.handle) for each in executions], BIND_ITEMS)
        answers = await self.ask_all([{"bind": pb.StreamBind(executions=group)} for group in groups], 1)
        return [result.stream_execution_key for answer in answers for result in answer.bound.results]

    async def report(self, events: Sequence[report_service_pb2.CompactEvent]) -> Counter[str]:
        """How many events were accepted, and how many refused for each reason."""
        groups = cut(events, REPORT_ITEMS)
        answers = await self.ask_all([{"report": pb.StreamReport(events=group)} for group in groups], 10)
        return Counter(
            common_pb2.Reason.Name(result.error.reason) if result.HasField("error") else "accepted"
            for answer in answers
            for result in answer.reported.results
        )

    async def beat(self, beats: Sequence[pb.StreamBeat]) -> int:
        """How many beats were accepted."""
        groups = cut(beats, BEAT_ITEMS)
        answers = await self.ask_all([{"heartbeat": pb.StreamHeartbeat(beats=group)} for group in groups], 3)
        return sum(answer.beaten.accepted for answer in answers)


def cut(items: Sequence[T], size: int) -> list[Sequence[T]]:
    """Slices of at most ``size``."""
    return [items[start : start + size] for start in range(0, len(items), size)]


_event_ids = itertools.count(1)


def started(key: int) -> report_service_pb2.CompactEvent:
    """STEP_STARTED of a bound execution."""
    return report_service_pb2.CompactEvent(
        stream_execution_key=key,
        event_id=next(_event_ids).to_bytes(16, "big"),
        event_type=common_pb2.STEP_STARTED,
        source_seq=1,
    )


async def one_stream(meter: Meter, channel: grpc.aio.Channel, token: str, executions: Sequence[Execution]) -> Client:
    """Everything on one stream."""
    client = Client(channel, token)
    await client.open()
    meter.lap()
    keys = await client.bind(executions)
    meter.say(f"{len(set(keys))} executions bound on one stream in {meter.lap():.1f} s")
    outcomes = await client.report([started(key) for key in keys])
    meter.say(f"started: {dict(outcomes)}, {outcomes.total() / meter.lap():.0f} events/s")
    taken = 0
    for seq in range(1, BEAT_ROUNDS + 1):
        beats = [pb.StreamBeat(stream_execution_key=key, heartbeat_seq=seq, round_trip_ms=5) for key in keys]
        taken += await client.beat(beats)
    seconds = meter.lap()
    meter.say(f"{taken} beats accepted, {taken / seconds:.0f} beats/s")
    return client


async def many_streams(
    meter: Meter, channels: Iterator[grpc.aio.Channel], token: str, parts: Sequence[Sequence[Execution]]
) -> list[Client]:
    """A stream for each part."""
    meter.lap()

    async def run(part: Sequence[Execution]) -> tuple[Client, Counter[str]]:
        client = Client(next(channels), token)
        await client.open()
        keys = await client.bind(part)
        if not all(keys):
            return client, Counter({"not bound": len(keys)})
        return client, await client.report([started(key) for key in keys])

    done = await asyncio.gather(*map(run, parts))
    outcomes = sum((outcome for _, outcome in done), Counter[str]())
    meter.say(f"{len(done)} streams open, started on them: {dict(outcomes)} in {meter.lap():.1f} s")
    return [client for client, _ in done]


async def never_reading(meter: Meter, target: str, token: str, count: int) -> None:
    """Streams whose clients write on and on."""
    beats = [pb.StreamBeat(stream_execution_key=2**32 - 1, heartbeat_seq=1) for _ in range(BEAT_ITEMS)]
    before = meter.ended("WINDOW_EXCEEDED")
    meter.lap()
    channels = [grpc.aio.insecure_channel(target, options=(*OWN_CONNECTION, *SMALL_WINDOW)) for _ in range(CHANNELS)]

    frame = pb.StreamExecutionsRequest(correlation=1, heartbeat=pb.StreamHeartbeat(beats=beats)).SerializeToString()
    metadata = (("authorization", f"Bearer {token}"),)

    async def write_on(call: Any) -> None:
        while True:
            await call.write(frame)

    calls: list[Any] = [channels[number % CHANNELS].stream_stream(METHOD)(metadata=metadata) for number in range(count)]
    writing = [asyncio.create_task(write_on(call)) for call in calls]
    ended = 0
    for _ in range(PATIENCE_SECONDS):
        await asyncio.sleep(1)
        ended = meter.ended("WINDOW_EXCEEDED") - before
        if ended >= count:
            break
    meter.say(f"{ended} of {count} streams that never read were cut off in {meter.lap():.0f} s")
    for task, call in zip(writing, calls, strict=True):
        task.cancel()
        call.cancel()
    await asyncio.wait(writing)
    for channel in channels:
        await channel.close()
    meter.say("their clients are gone")


OWN_CONNECTION = (("grpc.use_local_subchannel_pool", 1),)


async def run(bench: BenchStack, executions_wanted: int, streams: int) -> None:
    """Every part, one after the other."""
    preparer = Preparer(bench.database_url, bench.keys.execution_keys_file)
    tasks = -(-(executions_wanted + 3 * streams) // workload.STEPS_PER_TASK)
    executions = [each for task in await preparer.pool(Order("scale", tasks)) for each in task]
    await preparer.close()
    token, target, meter = bench.worker_token(), bench.grpc_target, Meter(bench)
    meter.say("the service, idle")
    channels = [grpc.aio.insecure_channel(target, options=OWN_CONNECTION) for _ in range(CHANNELS)]
    one = await one_stream(meter, channels[0], token, executions[:executions_wanted])
    rest = executions[executions_wanted : executions_wanted + 3 * streams]
    many = await many_streams(meter, itertools.cycle(channels), token, cut(rest, 3))
    await never_reading(meter, target, token, streams)
    for client in (one, *many):
        await client.send(finish=pb.StreamFinish())
        while isinstance(await client.call.read(), pb.StreamExecutionsResponse):
            pass
    meter.say("every stream is finished")
    for channel in channels:
        await channel.close()


def main() -> None:
    """Parse the sizes and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--executions", type=int, default=10_000, help="on one stream")
    parser.add_argument("--streams", type=int, default=1_000, help="open at the same time, and as many never read")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, running_stack(Path(folder), Progress(), **UNLIMITED) as bench:
        asyncio.run(run(bench, arguments.executions, arguments.streams))


if __name__ == "__main__":
    main()
