"""The keyed latest-wins map of beats, and the few that are being written."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from taskstatus.application.ports_heartbeats import Beat
from taskstatus.domain.ids import ExecutionId


class _Pending:
    """One execution's sign of life; changed in place, since 10⁵ of them may come in a second."""

    __slots__ = ("heartbeat_seq", "interval_seconds", "received_monotonic", "timeout_seconds")

    def __init__(self, heartbeat_seq: int, received_monotonic: float, interval: int, timeout: int) -> None:
        self.heartbeat_seq = heartbeat_seq
        self.received_monotonic = received_monotonic
        self.interval_seconds = interval
        self.timeout_seconds = timeout


class PendingBeats:
    """At most so many executions; a beat of one that is there already always has its place."""

    def __init__(self, most: int, many: int, on_many: Callable[[], None]) -> None:
        """``on_many`` is called whenever an execution is added and there are ``many`` or more."""
        self._most = most
        self._many = many
        self._on_many = on_many
        self._waiting: dict[ExecutionId, _Pending] = {}
        self._in_flight: dict[ExecutionId, _Pending] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, execution_id: ExecutionId) -> bool:
        return execution_id in self._waiting

    def ids(self) -> list[ExecutionId]:
        """The executions that have a beat waiting."""
        return list(self._waiting)

    def last_seq(self, execution_id: ExecutionId) -> int:
        """The highest sequence that is waiting or in flight; 0 for none."""
        waiting, in_flight = self._waiting.get(execution_id), self._in_flight.get(execution_id)
        return max(waiting.heartbeat_seq if waiting else 0, in_flight.heartbeat_seq if in_flight else 0)

    def received_at(self, execution_id: ExecutionId) -> float | None:
        """When the latest sign of life came that is waiting or in flight, on the monotonic clock; None without one."""
        latest = self._waiting.get(execution_id) or self._in_flight.get(execution_id)
        return None if latest is None else latest.received_monotonic

    def put(self, beat: Beat) -> bool:
        """Keep a beat with its terms, where it states any; False when there is no room for its execution."""
        if not self.note(beat.execution_id, beat.heartbeat_seq, beat.received_monotonic):
            return False
        if beat.timeout_seconds:
            waiting = self._waiting[beat.execution_id]
            waiting.interval_seconds, waiting.timeout_seconds = beat.interval_seconds, beat.timeout_seconds
        return True

    def note(self, execution_id: ExecutionId, heartbeat_seq: int, received_monotonic: float) -> bool:
        """Keep a sign of life; sequence and time only rise. False when there is no room for its execution."""
        waiting = self._waiting.get(execution_id)
        if waiting is None:
            if len(self._waiting) >= self._most:
                return False
            self._waiting[execution_id] = _Pending(heartbeat_seq, received_monotonic, 0, 0)
            if len(self._waiting) >= self._many:
                self._on_many()
            return True
        if heartbeat_seq > waiting.heartbeat_seq:
            waiting.heartbeat_seq = heartbeat_seq
        if received_monotonic > waiting.received_monotonic:
            waiting.received_monotonic = received_monotonic
        return True

    def begin(self, execution_ids: Iterable[ExecutionId]) -> list[Beat]:
        """Take the beats of these executions out to be written, until ``end`` or ``put_back``."""
        for execution_id in execution_ids:
            waiting = self._waiting.pop(execution_id, None)
            if waiting is not None:
                self._in_flight[execution_id] = waiting
        return [_beat(execution_id, pending) for execution_id, pending in self._in_flight.items()]

    def end(self) -> None:
        """They are written."""
        self._in_flight.clear()

    def put_back(self) -> None:
        """They are not: each waits again, its newer beat taking precedence, also beyond the number of executions."""
        for execution_id, old in self._in_flight.items():
            newer = self._waiting.setdefault(execution_id, old)
            newer.heartbeat_seq = max(newer.heartbeat_seq, old.heartbeat_seq)
            if not newer.timeout_seconds:
                newer.interval_seconds, newer.timeout_seconds = old.interval_seconds, old.timeout_seconds
        self._in_flight.clear()

    def discard(self) -> int:
        """Forget everything; how many beats there were."""
        beats = len(self._waiting)
        self._waiting.clear()
        return beats


def _beat(execution_id: ExecutionId, pending: _Pending) -> Beat:
    return Beat(
        execution_id,
        pending.heartbeat_seq,
        pending.received_monotonic,
        pending.interval_seconds,
        pending.timeout_seconds,
    )
