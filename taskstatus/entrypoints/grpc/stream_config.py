"""What a stream may hold, what it works with, and the refusals of its own."""

from __future__ import annotations

from dataclasses import dataclass

from taskstatus.application.executions import ExecutionCommands
from taskstatus.application.heartbeats import Heartbeats
from taskstatus.application.ports_clock import Clock
from taskstatus.application.ports_heartbeats import HeartbeatBinder, LeaseStore
from taskstatus.application.report import Reporting
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.reasons import Reason

RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """Bounds of one stream; times in seconds. Raises ValueError for values that cannot work."""

    window_items: int = 2_000
    frame_items: int = 500
    bound_executions: int = 10_000
    waiting_bytes: int = 4 * 1024 * 1024
    stall_seconds: float = 30.0
    """How long a client may take to accept one message."""
    age_seconds: float = 1_500.0
    """After which a stream is asked to move, so that load spreads over new replicas."""
    leave_seconds: float = 5.0
    """How long a client that was asked to leave may take to finish."""
    flush_seconds: float = 2.0
    """How long a stream that ends by a refusal waits for its client to take the answers before it."""
    watch_seconds: float = 1.0
    binding_at_once: int = 2
    """Frames of all streams together whose executions are being read: after a failover everybody binds at once, and
    must wait here rather than run into the time limit of the connection pool."""

    def __post_init__(self) -> None:
        sizes = (
            *(self.window_items, self.frame_items, self.bound_executions),
            *(self.waiting_bytes, self.binding_at_once),
        )
        times = (self.stall_seconds, self.age_seconds, self.leave_seconds, self.flush_seconds, self.watch_seconds)
        if min(sizes) < 1 or min(times) <= 0:
            raise ValueError("bounds of a stream must be positive")


@dataclass(frozen=True, slots=True)
class StreamParts:
    """What every stream works with."""

    executions: ExecutionCommands
    reporting: Reporting
    heartbeats: Heartbeats
    leases: LeaseStore
    binder: HeartbeatBinder
    clock: Clock
    config: StreamConfig


def window_exceeded() -> RefusedError:
    """The refusal of items that were sent before earlier ones were answered."""
    return RefusedError(
        Reason.WINDOW_EXCEEDED, "too many items of this stream wait for their answer", retry_after_seconds=RETRY_SECONDS
    )


def leaving() -> RefusedError:
    """The refusal of what comes after the client was asked to go elsewhere."""
    return RefusedError(
        Reason.UNAVAILABLE, "this stream is about to end; open another one", retry_after_seconds=RETRY_SECONDS
    )


def store_unavailable() -> RefusedError:
    """The refusal while the store cannot be read."""
    return RefusedError(
        Reason.UNAVAILABLE, "the store cannot be reached now; send it again", retry_after_seconds=RETRY_SECONDS
    )
