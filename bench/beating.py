"""Load of heartbeats: executions that have started, each beating once per call or frame.

A sender's beats carry the numbers 1, 2, 3, … without a gap, so that afterwards the sum of ``heartbeat_seq`` over the
leases is the number of beats that were acknowledged.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import chain
from typing import Any

import grpc.aio
from taskstatus_pb.v1 import common_pb2, heartbeat_service_pb2

from bench import frames
from bench.drive import Send
from bench.product import DEADLINE_SECONDS, OWN_CONNECTION, ProductClient, UnexpectedAnswerError
from bench.workload import Execution, Task, Window

METHOD = "/taskstatus.v1.HeartbeatService/BatchHeartbeat"
START_ITEMS = 100

Response = heartbeat_service_pb2.BatchHeartbeatResponse


class BeatWindow:
    """What one sender beats for, as the driver asks for it: a call is the number of the next beat, ``width`` times."""

    def __init__(self, executions: Sequence[Execution]) -> None:
        self.executions = executions
        self._seq = 0

    def next_call(self) -> Sequence[int]:
        """The next number, once for each beat."""
        self._seq += 1
        return [self._seq] * len(self.executions)


def deal_beats(tasks: Sequence[Task], senders: int, width: int) -> list[BeatWindow]:
    """Windows over disjoint executions, one per sender; the executions of a task beat side by side."""
    executions = list(chain.from_iterable(tasks))
    return [BeatWindow(executions[sender * width : (sender + 1) * width]) for sender in range(senders)]


async def start(client: ProductClient, windows: Sequence[BeatWindow]) -> None:
    """Report the start of every execution: only what runs holds a lease."""
    executions = [execution for window in windows for execution in window.executions]
    for at in range(0, len(executions), START_ITEMS):
        group = executions[at : at + START_ITEMS]
        await client.send_batch(Window([[execution] for execution in group], len(group)).next_call())


class UnaryBeats:
    """One connection for BatchHeartbeat."""

    def __init__(self, target: str, bearer: str) -> None:
        self._channel = grpc.aio.insecure_channel(target, options=OWN_CONNECTION)
        self._call: Any = self._channel.unary_unary(
            METHOD, request_serializer=None, response_deserializer=Response.FromString
        )
        self._metadata = (("authorization", f"Bearer {bearer}"),)

    async def beat(self, executions: Sequence[Execution], seq: int) -> int:
        """Beat once for each execution. Raises UnexpectedAnswerError when a beat was not taken."""
        request = frames.beats_request(executions, seq)
        answer = await self._call(request, metadata=self._metadata, timeout=DEADLINE_SECONDS)
        for result in answer.results:
            if not result.accepted:
                raise UnexpectedAnswerError(common_pb2.Reason.Name(result.reason))
        return 0

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close()


def sender(beat: Callable[[int], Awaitable[int]]) -> Send:
    """What the driver calls with the next number."""

    async def send(call: Sequence[Any]) -> int:
        return await beat(call[0])

    return send
