"""Beats for what runs on a stream, many in one frame (H-2, H-3)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from taskstatus_pb.v1 import bind_execution_service_pb2 as pb
from taskstatus_pb.v1 import common_pb2

from taskstatus.sdk.connection import Connection
from taskstatus.sdk.stream_execution import StreamExecution
from taskstatus.sdk.stream_link import StreamLink

logger = logging.getLogger(__name__)

TICK_SECONDS: Final = 1.0
AHEAD_OF_A_FASTER_CLOCK: Final = 3_600_000
"""Sequences are milliseconds of the wall clock, so that they rise over restarts; another machine's may be ahead."""
_STOPS: Final = frozenset({"TERMINAL", "STALE_ATTEMPT", "TOKEN_REVOKED"})


async def beat_forever(link: StreamLink, connection: Connection, by_key: Mapping[int, StreamExecution]) -> None:
    """Beat for every running execution at its interval. Raises UnavailableError when the stream ends."""
    while True:
        await connection.timing.sleep(TICK_SECONDS)
        await beat_once(link, connection, by_key)


async def beat_when_asked(
    link: StreamLink, connection: Connection, by_key: Mapping[int, StreamExecution], asked: asyncio.Event
) -> None:
    """Beat at once for whoever the service asks about (H-6). Raises UnavailableError when the stream ends."""
    while True:
        await asked.wait()
        asked.clear()
        await beat_once(link, connection, by_key)


async def beat_once(link: StreamLink, connection: Connection, by_key: Mapping[int, StreamExecution]) -> None:
    """Beat for those that are due, within the window."""
    now = connection.timing.monotonic()
    due = [execution for execution in by_key.values() if execution.beats and execution.next_beat_at <= now]
    size = link.opened.frame_items
    for start in range(0, len(due), size):
        group = due[start : start + size][: link.room]
        if group:
            await _beat(link, connection, group, now)


async def _beat(link: StreamLink, connection: Connection, group: list[StreamExecution], now: float) -> None:
    timing = connection.timing
    clock_ms = int(timing.now().timestamp() * 1000)
    beats = []
    for execution in group:
        execution.heartbeat_seq = max(execution.heartbeat_seq + 1, clock_ms)
        execution.next_beat_at = now + execution.interval_seconds * timing.uniform(0.8, 1.0)
        beats.append(
            pb.StreamBeat(
                stream_execution_key=execution.key,
                heartbeat_seq=execution.heartbeat_seq,
                round_trip_ms=link.round_trip_ms,
            )
        )
    answer = await link.ask(pb.StreamExecutionsRequest(heartbeat=pb.StreamHeartbeat(beats=beats)), len(beats))
    by_key = {execution.key: execution for execution in group}
    for refused in answer.beaten.refused:
        _refused(by_key[refused.stream_execution_key], common_pb2.Reason.Name(refused.reason))


def _refused(execution: StreamExecution, reason: str) -> None:
    if reason in _STOPS:
        execution.stop(reason)
    elif reason == "STALE_SEQUENCE":
        execution.heartbeat_seq += AHEAD_OF_A_FASTER_CLOCK
    else:
        logger.info("a heartbeat of %s was not taken: %s", execution.context.execution_id, reason)
    execution.next_beat_at = min(execution.next_beat_at, 0.0) if reason == "STALE_SEQUENCE" else execution.next_beat_at
