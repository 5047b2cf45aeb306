"""The lifecycle table of tasks and of steps, the one place where transitions are allowed (L-1, L-2)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from taskstatus.domain.events import EventType


class Lifecycle(StrEnum):
    """Where a task or a step attempt stands."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    CANCELLING = "CANCELLING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    CANCELLED = "CANCELLED"

    @property
    def is_terminal(self) -> bool:
        """Whether only a rerun or a correction leaves it."""
        return self in TERMINAL


TERMINAL = frozenset({Lifecycle.SUCCEEDED, Lifecycle.FAILED, Lifecycle.TIMED_OUT, Lifecycle.CANCELLED})

TRANSITIONS: Mapping[Lifecycle, frozenset[Lifecycle]] = {
    Lifecycle.PENDING: frozenset({Lifecycle.RUNNING, Lifecycle.CANCELLING}) | TERMINAL,
    Lifecycle.RUNNING: frozenset({Lifecycle.CANCELLING}) | TERMINAL,
    Lifecycle.CANCELLING: TERMINAL - {Lifecycle.SUCCEEDED},
    Lifecycle.SUCCEEDED: frozenset(),
    Lifecycle.FAILED: frozenset(),
    Lifecycle.TIMED_OUT: frozenset(),
    Lifecycle.CANCELLED: frozenset(),
}

TARGET_OF_EVENT: Mapping[EventType, Lifecycle] = {
    EventType.STEP_STARTED: Lifecycle.RUNNING,
    EventType.STEP_PROGRESS: Lifecycle.RUNNING,
    EventType.STEP_COMPLETED: Lifecycle.SUCCEEDED,
    EventType.STEP_FAILED: Lifecycle.FAILED,
    EventType.STEP_CANCELLED: Lifecycle.CANCELLED,
    EventType.STEP_TIMED_OUT: Lifecycle.TIMED_OUT,
    EventType.TASK_STARTED: Lifecycle.RUNNING,
    EventType.TASK_COMPLETED: Lifecycle.SUCCEEDED,
    EventType.TASK_FAILED: Lifecycle.FAILED,
    EventType.TASK_CANCELLED: Lifecycle.CANCELLED,
    EventType.TASK_TIMED_OUT: Lifecycle.TIMED_OUT,
}
"""The lifecycle that a reported event asks for, of its step or of its task."""


def may_move(current: Lifecycle, target: Lifecycle) -> bool:
    """Whether the table allows the move; staying is not a move (L-2 makes it a no-op)."""
    return target in TRANSITIONS[current]
