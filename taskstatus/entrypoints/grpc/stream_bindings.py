"""The executions that one stream has bound to numbers, how they stand, and what their client is told of it (T-2)."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

from taskstatus_pb.v1 import bind_execution_service_pb2 as pb

from taskstatus.application.identity import ExecutionGrant
from taskstatus.application.ports_heartbeats import BoundBeats, HeartbeatBinder
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import ExecutionId
from taskstatus.domain.lifecycle import TARGET_OF_EVENT, Lifecycle
from taskstatus.domain.reasons import Reason
from taskstatus.domain.standing import ExecutionStanding
from taskstatus.domain.verdicts import Accepted, Duplicate, NoOp, Refused, Verdict, result_or_raise
from taskstatus.entrypoints.grpc.stream_config import leaving
from taskstatus.entrypoints.grpc.stream_frames import execution_notice

_ENDS = {
    Reason.TERMINAL: Reason.TERMINAL,
    Reason.STALE_ATTEMPT: Reason.STALE_ATTEMPT,
    Reason.STALE_EXECUTION: Reason.STALE_ATTEMPT,
    Reason.TOKEN_REVOKED: Reason.TOKEN_REVOKED,
}
"""What a verdict says of its execution → the end that the client is told."""


@dataclass(eq=False, slots=True)
class Bound:
    """One execution on one stream."""

    key: int
    grant: ExecutionGrant
    standing: ExecutionStanding
    beats: BoundBeats | None = None
    """None once the execution or its stream has ended."""
    end: Reason | None = None
    in_flight: int = 0
    """Its events that are not answered yet."""
    answering: asyncio.Task[None] | None = None
    """Answers the latest frame with an event of it."""
    is_expiry_told: bool = False

    @property
    def execution_id(self) -> ExecutionId:
        """The execution."""
        return self.grant.binding.execution_id

    @property
    def started(self) -> bool:
        """Whether it is known to run."""
        return self.standing.has_open_lease

    def fall_silent(self) -> None:
        """It beats here no more."""
        if self.beats is not None:
            self.beats.close()
            self.beats = None


class StreamBindings:
    """Numbers rise and are never used twice, so that a late frame cannot mean another execution than its sender did.

    An execution that ended keeps its number for a while: a repeated event still gets its first result (E-3). At most
    ``limit`` executions are live, and as many ended ones are remembered.
    """

    def __init__(self, binder: HeartbeatBinder, limit: int, notify: Callable[[pb.StreamExecutionNotice], None]) -> None:
        self._binder = binder
        self._limit = limit
        self._notify = notify
        self._live: dict[int, Bound] = {}
        self._ended: OrderedDict[int, Bound] = OrderedDict()
        self._keys: dict[ExecutionId, int] = {}
        self._last_key = 0
        self._expiries: list[tuple[float, int]] = []
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._live)

    def get(self, key: int) -> Bound | None:
        """The execution behind a number."""
        return self._live.get(key) or self._ended.get(key)

    def add(self, grant: ExecutionGrant, standing: ExecutionStanding) -> Bound:
        """Bind an execution, or bind it again under the number that it has.

        Raises RefusedError: its end, WINDOW_EXCEEDED when the stream is full, RATE_LIMITED when the process is.
        """
        if standing.end is not None:
            raise RefusedError(standing.end, "the execution has ended")
        bound = self._live.get(self._keys.get(standing.execution_id, 0))
        if bound is None:
            if len(self._live) >= self._limit:
                raise RefusedError(
                    Reason.WINDOW_EXCEEDED, f"a stream binds at most {self._limit} executions; open another one"
                )
            bound = Bound(self._last_key + 1, grant, standing)
            self._listen(bound)
            self._last_key = bound.key
            self._live[bound.key] = bound
            self._keys[standing.execution_id] = bound.key
        bound.grant, bound.is_expiry_told = grant, False
        self.restand(bound, standing)
        self._watch_expiry(bound)
        return bound

    def renewed(self, bound: Bound, expires_at: float) -> None:
        """The execution's token was renewed; a handle goes on without expiry."""
        if bound.grant.expires_at != float("inf"):
            bound.grant = replace(bound.grant, expires_at=expires_at)
            bound.is_expiry_told = False
            self._watch_expiry(bound)

    def restand(self, bound: Bound, standing: ExecutionStanding) -> None:
        """Beat from now on by what is known now; a process that has no place for that goes on by what it knew."""
        if bound.end is None and bound.standing != standing:
            bound.standing = standing
            with contextlib.suppress(RefusedError):
                self._listen(bound)

    def judged(self, bound: Bound, event_type: EventType, verdict: Verdict) -> None:
        """What the verdict of an event tells about its execution."""
        if bound.end is not None or self._is_closed:
            return
        if isinstance(verdict, Refused):
            self._refused(bound, verdict.error.reason)
            return
        if isinstance(verdict, Duplicate):
            return
        result = result_or_raise(verdict)
        if result.reason in _ENDS:
            self._tell_end(bound, _ENDS[result.reason])
        elif event_type is EventType.STEP_STARTED and isinstance(verdict, Accepted | NoOp):
            self._started(bound, result.lifecycle)
        elif isinstance(verdict, Accepted) and TARGET_OF_EVENT[event_type].is_terminal:
            # Its own report: the client knows, and needs no notice.
            self.retire(bound, Reason.TERMINAL)
        elif result.cancel_requested and not bound.standing.cancel_requested:
            bound.standing = replace(bound.standing, cancel_requested=True)
            self._notify(execution_notice(bound.key, bound.standing, None))

    def _refused(self, bound: Bound, reason: Reason) -> None:
        if reason in _ENDS:
            self._tell_end(bound, _ENDS[reason])
        elif reason is Reason.TOKEN_EXPIRED:
            self._tell_expiry(bound)

    def _started(self, bound: Bound, task_lifecycle: Lifecycle) -> None:
        if not bound.started:
            running = replace(
                bound.standing, lifecycle=Lifecycle.RUNNING, task_lifecycle=task_lifecycle, has_open_lease=True
            )
            self.restand(bound, running)

    def stands(self, bound: Bound, standing: ExecutionStanding) -> None:
        """An execution was read anew: tell its end, or what changed."""
        if bound.end is not None or self._is_closed:
            return
        before, bound.standing = bound.standing, standing
        reason = Reason.TOKEN_REVOKED if standing.generation > bound.grant.generation else standing.end
        if reason is not None:
            self._tell_end(bound, reason)
        elif _shown(before) != _shown(standing):
            self._notify(execution_notice(bound.key, standing, None))

    def tell_expiries(self, now_unix: float) -> None:
        """Tell once of every token that has run out."""
        while self._expiries and self._expiries[0][0] <= now_unix:
            bound = self._live.get(heapq.heappop(self._expiries)[1])
            if bound is not None and bound.grant.expires_at <= now_unix:
                self._tell_expiry(bound)

    def retire(self, bound: Bound, reason: Reason) -> None:
        """The execution goes on no more; its number is kept for repeated events."""
        if bound.end is not None or self._is_closed:
            return
        bound.end = reason
        del self._live[bound.key]
        del self._keys[bound.execution_id]
        bound.fall_silent()
        self._ended[bound.key] = bound
        if len(self._ended) > self._limit:
            self._ended.popitem(last=False)

    def close(self) -> None:
        """The stream ends: nobody beats any more, nor is bound by what is still being decided."""
        self._is_closed = True
        for bound in self._live.values():
            bound.fall_silent()
        self._live.clear()
        self._ended.clear()
        self._keys.clear()
        self._expiries.clear()

    def _listen(self, bound: Bound) -> None:
        if self._is_closed:
            raise leaving()
        former = bound.beats
        bound.beats = self._binder.bind(
            bound.standing, lambda standing: self.stands(bound, standing), lambda: self._ask_for_beat(bound)
        )
        if former is not None:
            former.close()

    def _watch_expiry(self, bound: Bound) -> None:
        if bound.grant.expires_at == float("inf"):
            return
        if len(self._expiries) > 2 * self._limit:
            # Renewals leave their former expiry behind; what is live has one at most.
            self._expiries = [(each.grant.expires_at, each.key) for each in self._live.values() if each is not bound]
            heapq.heapify(self._expiries)
        heapq.heappush(self._expiries, (bound.grant.expires_at, bound.key))

    def _ask_for_beat(self, bound: Bound) -> None:
        if bound.end is None and not self._is_closed:
            self._notify(execution_notice(bound.key, bound.standing, None, beat_now=True))

    def _tell_end(self, bound: Bound, reason: Reason) -> None:
        self._notify(execution_notice(bound.key, bound.standing, reason))
        self.retire(bound, reason)

    def _tell_expiry(self, bound: Bound) -> None:
        if not bound.is_expiry_told:
            bound.is_expiry_told = True
            self._notify(execution_notice(bound.key, bound.standing, Reason.TOKEN_EXPIRED))


def _shown(standing: ExecutionStanding) -> tuple[object, ...]:
    """What a client is told of a standing."""
    return (standing.cancel_requested, standing.health, standing.interval_seconds, standing.timeout_seconds)
