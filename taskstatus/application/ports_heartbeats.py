"""Ports around heartbeats: the narrow lease table, the coalescer in front of it, and who is told of a recovery."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from taskstatus.domain.ids import ExecutionId
from taskstatus.domain.reasons import Reason
from taskstatus.domain.standing import ExecutionStanding

MAX_PERSISTED_BEATS = 200
"""Beats of one statement: below it the round trips weigh, beyond it the time for which leases are locked."""


@dataclass(frozen=True, slots=True)
class Beat:
    """The latest sign of life of one execution, not persisted yet."""

    execution_id: ExecutionId
    heartbeat_seq: int
    """0 for an accepted STEP_PROGRESS, which renews the lease and has no place in the beats' order (H-7)."""
    received_monotonic: float
    """This process's monotonic clock at receipt, in seconds."""
    interval_seconds: int
    timeout_seconds: int
    """The terms that the lease is to have from now on (H-6); 0 leaves those in force."""


class LeaseStore(Protocol):
    """The lease table outside write transactions; every method raises StoreUnavailableError."""

    async def standings(self, execution_ids: Sequence[ExecutionId]) -> Mapping[ExecutionId, ExecutionStanding]:
        """How these executions stand, by one IN-list without locks; unknown ids are absent."""
        ...

    async def persist(
        self, beats: Sequence[Beat], monotonic_now: Callable[[], float]
    ) -> Mapping[ExecutionId, ExecutionStanding]:
        """Write beats by one guarded multi-row UPDATE, then read how their executions stand (one more statement).

        A beat moves ``last_heartbeat_at`` and ``deadline_at`` forward only, and only of an open lease: a closed one
        never comes back to life. Its time is the database's clock minus what it has waited in this process (H-1).
        Raises StoreRefusedError too, for beats that the database will never take; some may have been written before.
        """
        ...


class HealthSignals(Protocol):
    """Takes what heartbeats say about health; the write itself goes through the lanes (H-4)."""

    def beating(self, standing: ExecutionStanding) -> None:
        """A STALE execution with an open lease has beaten again; never raises, never waits, may be told twice."""
        ...


class BeatTaker(Protocol):
    """Keeps judged beats until they are persisted; what unary calls hand them to."""

    def last_seq(self, execution_id: ExecutionId) -> int:
        """The highest sequence taken in this process and not persisted yet; 0 for none."""
        ...

    def take(self, beat: Beat, standing: ExecutionStanding) -> bool:
        """Keep an accepted beat; one of a STALE execution is persisted soon. False: no room, or at the end."""
        ...


class HeartbeatObserver(Protocol):
    """What heartbeats tell about themselves: bounded labels only (N-3)."""

    def heartbeats_judged(self, outcome: str, beats: int) -> None:
        """Beats were answered with ``accepted`` or with a reason."""
        ...

    def heartbeats_pending(self, executions: int) -> None:
        """How many executions have a beat in memory."""
        ...

    def heartbeats_lost(self, beats: int) -> None:
        """Accepted beats could not be persisted."""
        ...


class BoundBeats(Protocol):
    """The beats of one execution that a live stream has bound."""

    def beat(self, heartbeat_seq: int, round_trip_ms: float) -> Reason | None:
        """Take one beat into memory; the reason when it is not accepted. No I/O, so that 10⁵ per second cost little.

        A higher or equal sequence is accepted, a lower one STALE_SEQUENCE; after the standing told an end, that end;
        before the start TRANSITION_NOT_ALLOWED; UNAVAILABLE when memory is full or the process is about to go. May lag
        behind the store by one persist period (H-3).
        """
        ...

    def close(self) -> None:
        """The stream has unbound the execution or ended; what was taken is still persisted."""
        ...


class HeartbeatBinder(Protocol):
    """Gives live streams their way to beat."""

    def bind(
        self,
        standing: ExecutionStanding,
        on_standing: Callable[[ExecutionStanding], None],
        on_asked: Callable[[], None] | None = None,
    ) -> BoundBeats:
        """Beats for an execution; ``on_standing`` is called from the loop after each flush that read it anew.

        ``on_asked`` is called when the execution has been silent for long, to ask its worker for a beat (H-6). Every
        bound execution is read anew once per persist period, whether it beats or not (T-2). Raises RefusedError
        RATE_LIMITED when this process has as many bindings as it may.
        """
        ...


class LeaseRenewal(Protocol):
    """Lets an accepted STEP_PROGRESS count as a sign of life (H-7)."""

    def renew(self, execution_id: ExecutionId, received_monotonic: float) -> None:
        """Note the sign of life in memory; it is persisted with the beats."""
        ...
