"""A naive model of the write path: one event after the other, plain dictionaries, no cleverness.

It says what the batch evaluation must say; written from the spec's tables, not from the product's code.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from taskstatus.domain.events import EventType
from taskstatus.domain.reasons import Reason

TARGETS = {
    "STARTED": "RUNNING",
    "PROGRESS": "RUNNING",
    "COMPLETED": "SUCCEEDED",
    "FAILED": "FAILED",
    "CANCELLED": "CANCELLED",
}
ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")
ALL_POINTS = 10_000


@dataclass(frozen=True)
class Sent:
    """One event as sent: about an attempt of a step (``attempt`` ≥ 1), or by the coordinator (0)."""

    task: int
    step: str
    attempt: int
    event_type: EventType
    source_seq: int
    event_id: str
    percent: int

    @property
    def what(self) -> str:
        """The event type without its subject."""
        return self.event_type.value.partition("_")[2]


@dataclass
class Expected:
    """What must become of it."""

    kind: str
    reason: Reason | None
    version: int


@dataclass
class Attempt:
    """One attempt of a step."""

    lifecycle: str = "PENDING"
    seq: int = 0
    shown: int | None = None
    degraded: bool = False


@dataclass
class Step:
    """A step with its attempts and the most points that any reached."""

    weight: int
    warns: bool
    attempts: list[Attempt] = field(default_factory=lambda: [Attempt()])
    points: int = 0


@dataclass
class Task:
    """A task of the model."""

    steps: dict[str, Step]
    version: int = 1
    lifecycle: str = "PENDING"
    coordinator_seq: int = 0
    seen: dict[str, tuple[Sent, Expected]] = field(default_factory=dict)
    chain: list[Expected] = field(default_factory=list)
    """Accepted progress of one attempt at the end of this batch."""
    chain_of: tuple[str, int] | None = None

    def begin_batch(self) -> None:
        """Nothing of an earlier commit can be absorbed."""
        self.chain, self.chain_of = [], None

    def activate_next(self, step_id: str) -> bool:
        """A new attempt; False when it is refused."""
        step = self.steps[step_id]
        last = step.attempts[-1]
        if self.lifecycle in ENDED or last.lifecycle == "SUCCEEDED":
            return False
        if last.lifecycle not in ENDED:
            last.lifecycle = "CANCELLED"
        last.degraded = False
        step.attempts.append(Attempt())
        self.version += 1
        return True

    def send(self, sent: Sent) -> Expected:
        """What must become of one event."""
        if sent.event_id in self.seen:
            first, outcome = self.seen[sent.event_id]
            if first == sent:
                return Expected("Duplicate", None, outcome.version)
            return Expected("Refused", Reason.IDEMPOTENCY_CONFLICT, 0)
        return self._objection(sent) or self._accept(sent)

    def _objection(self, sent: Sent) -> Expected | None:
        attempt = self._attempt(sent)
        if attempt is not None and sent.attempt and attempt is not self.steps[sent.step].attempts[-1]:
            return self._late(Reason.STALE_ATTEMPT)
        if sent.source_seq <= (attempt.seq if attempt is not None and sent.attempt else self.coordinator_seq):
            return self._late(Reason.STALE_SEQUENCE)
        if sent.what == "PROGRESS" and attempt is not None and attempt.lifecycle not in ENDED:
            if attempt.shown is not None and sent.percent < attempt.shown:
                return self._late(Reason.PROGRESS_NOT_MONOTONIC)
            if attempt.lifecycle == "RUNNING" and attempt.shown == sent.percent:
                return Expected("NoOp", None, self.version)
        return self._lifecycle_objection(sent, attempt)

    def _lifecycle_objection(self, sent: Sent, attempt: Attempt | None) -> Expected | None:
        current, target = attempt.lifecycle if attempt else self.lifecycle, TARGETS[sent.what]
        if current == target and sent.what != "PROGRESS":
            return Expected("NoOp", None, self.version)
        if current in ENDED or self.lifecycle in ENDED:
            return self._late(Reason.TERMINAL)
        if sent.what == "PROGRESS" and current != "RUNNING":
            return Expected("Refused", Reason.TRANSITION_NOT_ALLOWED, 0)
        return None

    def _attempt(self, sent: Sent) -> Attempt | None:
        if not sent.step:
            return None
        attempts = self.steps[sent.step].attempts
        return attempts[sent.attempt - 1] if sent.attempt else attempts[-1]

    def _late(self, reason: Reason) -> Expected:
        return Expected("Stale", reason, self.version)

    def _accept(self, sent: Sent) -> Expected:
        outcome = Expected("Accepted", None, self._version_of(sent))
        self.chain.append(outcome)
        attempt = self._attempt(sent)
        if attempt is None or not sent.attempt:
            self.coordinator_seq = sent.source_seq
        else:
            attempt.seq = sent.source_seq
        if attempt is None:
            self._move_task(TARGETS[sent.what])
        else:
            self._move_step(self.steps[sent.step], attempt, sent)
        self.seen[sent.event_id] = (sent, outcome)
        return outcome

    def _version_of(self, sent: Sent) -> int:
        stream = (sent.step, sent.attempt) if sent.what == "PROGRESS" else None
        if stream is not None and stream == self.chain_of:
            for earlier in self.chain:
                earlier.kind = "Coalesced"
        else:
            self.version += 1
            self.chain = []
        self.chain_of = stream
        return self.version

    def _move_task(self, target: str) -> None:
        self.lifecycle = target
        if target in ENDED:
            for step in self.steps.values():
                if step.attempts[-1].lifecycle not in ENDED:
                    step.attempts[-1].lifecycle = "CANCELLED"

    def _move_step(self, step: Step, attempt: Attempt, sent: Sent) -> None:
        attempt.lifecycle = TARGETS[sent.what]
        attempt.degraded = sent.what == "FAILED" and step.warns
        if sent.what == "PROGRESS":
            attempt.shown = sent.percent
            step.points = max(step.points, sent.percent * 100)
        if sent.what == "COMPLETED":
            step.points = ALL_POINTS
        if sent.what == "STARTED" and self.lifecycle == "PENDING":
            self.lifecycle = "RUNNING"
