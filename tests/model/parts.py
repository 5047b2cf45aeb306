"""What the model's tasks are made of, and the tables of the spec that they move by."""

from __future__ import annotations

from dataclasses import dataclass, field

ENDED = ("SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED")
MOVES = {
    "PENDING": ("RUNNING", "CANCELLING", *ENDED),
    "RUNNING": ("CANCELLING", *ENDED),
    "CANCELLING": ("FAILED", "TIMED_OUT", "CANCELLED"),
}
STEP_TARGETS = {
    "STEP_STARTED": "RUNNING",
    "STEP_PROGRESS": "RUNNING",
    "STEP_COMPLETED": "SUCCEEDED",
    "STEP_FAILED": "FAILED",
    "STEP_CANCELLED": "CANCELLED",
    "STEP_TIMED_OUT": "TIMED_OUT",
}
TASK_TARGETS = {
    "TASK_STARTED": "RUNNING",
    "TASK_COMPLETED": "SUCCEEDED",
    "TASK_FAILED": "FAILED",
    "TASK_CANCELLED": "CANCELLED",
    "TASK_TIMED_OUT": "TIMED_OUT",
}
FULL = 10_000
GENERIC = {name: name for name in (*MOVES, *ENDED)} | {"RETRY_WAIT": "RUNNING", "WAITING_USER_ACTION": "RUNNING"}
TYPED: dict[str, tuple[str, tuple[str, ...] | None]] = {
    "DOING": ("RUNNING", None),
    "CHECK": ("RUNNING", ("DOING",)),
    "DONE": ("SUCCEEDED", None),
}
"""The definition of the tests: status → (lifecycle, the statuses after which it may come; None: any)."""


@dataclass(frozen=True)
class Limits:
    """Bounds of dynamic steps, small enough to be met."""

    steps: int = 3
    depth: int = 2
    parallel: int = 2


@dataclass
class Attempt:
    """One attempt of a step."""

    number: int
    version: int
    execution: int | None = None
    """The number of its execution among all; None before activation."""
    lifecycle: str = "PENDING"
    seq: int = 0
    generation: int = 1
    percent: int | None = None
    superseded: bool = False
    end_reason: str = ""


@dataclass
class Step:
    """A step of the current run."""

    step_id: str
    weight: int
    retries: bool
    """Whether its policy is RETRY_THEN_FAIL_TASK."""
    dynamic: bool = False
    depth: int = 0
    attempts: list[Attempt] = field(default_factory=list)
    points: int = 0

    @property
    def last(self) -> Attempt:
        """The latest attempt."""
        return self.attempts[-1]


@dataclass(frozen=True)
class Holder:
    """Where an execution stands: (run, step, attempt)."""

    run: int
    step_id: str
    attempt: int
