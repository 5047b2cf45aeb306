"""Beats in the background while an execution is open (H-1, W-1): the service says how often, and when to stop.

A beat is sent once and not again: the next one makes up for it. Nothing that happens here reaches the work but by what
it asks for itself (W-3): ``cancel_requested``, and ``over`` once the execution is no longer wanted.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from taskstatus_pb.v1 import common_pb2, heartbeat_service_pb2

from taskstatus.sdk.connection import Connection
from taskstatus.sdk.context import ExecutionContext
from taskstatus.sdk.credential import ExecutionCredential
from taskstatus.sdk.errors import TaskStatusError

logger = logging.getLogger(__name__)

EARLIEST: Final = 0.8
"""Each beat comes after this share of the interval or a bit more, so that workers do not beat together."""
_OVER: Final = frozenset(
    {
        *(common_pb2.STALE_ATTEMPT, common_pb2.STALE_EXECUTION, common_pb2.TERMINAL),
        *(common_pb2.TOKEN_REVOKED, common_pb2.EXECUTION_NOT_FOUND),
    }
)
_FIRST_LEAP: Final = 1024


class Heartbeats:
    """The beats of one execution; started and stopped by :class:`~taskstatus.sdk.worker.Worker`."""

    def __init__(self, connection: Connection, context: ExecutionContext, credential: ExecutionCredential) -> None:
        self._connection = connection
        self._credential = credential
        self._execution_id = context.execution_id
        self._interval_seconds = context.heartbeat_interval_seconds
        # Milliseconds of the wall clock: a restarted worker's beats go on above those of the one before.
        self._seq = int(connection.timing.now().timestamp() * 1000)
        self._leap = _FIRST_LEAP
        self._round_trip_ms = 0.0
        self._task: asyncio.Task[None] | None = None
        self._cancel_requested = False
        self._over = ""

    @property
    def cancel_requested(self) -> bool:
        """Whether a beat's answer said that somebody asked for the task's cancellation."""
        return self._cancel_requested

    @property
    def over(self) -> str:
        """Why the execution is no longer wanted: STALE_ATTEMPT, TERMINAL, TOKEN_REVOKED …; empty while it is."""
        return self._over

    @property
    def interval_seconds(self) -> int:
        """How often to beat, as last told; 0 for never."""
        return self._interval_seconds

    def start(self) -> None:
        """Beat from now on, unless the context asks for none."""
        if self._interval_seconds and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Beat no more; may be called twice, and whether or not it was started."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def beat(self) -> None:
        """Send one beat and take in its answer; a beat that fails is only logged."""
        timing = self._connection.timing
        self._seq += 1
        request = heartbeat_service_pb2.BatchHeartbeatRequest(heartbeats=[self._next()])
        began_at = timing.monotonic()
        try:
            response = await self._connection.call_once(self._connection.heartbeat.BatchHeartbeat, request)
        except TaskStatusError as error:
            logger.warning("a heartbeat of %s failed: %s", self._execution_id, error)
            return
        self._round_trip_ms = (timing.monotonic() - began_at) * 1000
        for result in response.results:
            self._take(result)

    async def _run(self) -> None:
        timing = self._connection.timing
        while not self._over:
            await timing.sleep(timing.uniform(EARLIEST * self._interval_seconds, float(self._interval_seconds)))
            try:
                await self.beat()
            except Exception:
                # Such as a token provider's: the work goes on, and the next beat may succeed.
                logger.exception("a heartbeat of %s failed", self._execution_id)

    def _next(self) -> heartbeat_service_pb2.Heartbeat:
        beat = heartbeat_service_pb2.Heartbeat(heartbeat_seq=self._seq, round_trip_ms=self._round_trip_ms)
        beat.sent_at.FromDatetime(self._connection.timing.now())
        self._credential.put_into(beat)
        return beat

    def _take(self, result: heartbeat_service_pb2.HeartbeatResult) -> None:
        reason = result.reason
        if result.accepted:
            self._cancel_requested = self._cancel_requested or result.cancel_requested
            self._interval_seconds = result.interval_seconds or self._interval_seconds
            return
        logger.warning("a heartbeat of %s was not taken: %s", self._execution_id, common_pb2.Reason.Name(reason))
        if reason in _OVER:
            self._over = common_pb2.Reason.Name(reason)
        elif reason == common_pb2.STALE_SEQUENCE:
            # This machine's clock is behind the one of an earlier worker: leap ahead, further each time.
            self._seq += self._leap
            self._leap *= 2
