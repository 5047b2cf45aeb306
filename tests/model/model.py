"""A naive model of one task over all its runs; written from the spec's tables, not from the product's code."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from taskstatus.domain.reasons import Reason
from tests.model.expected import Expected, refused
from tests.model.parts import (
    ENDED,
    FULL,
    GENERIC,
    MOVES,
    STEP_TARGETS,
    TASK_TARGETS,
    TYPED,
    Attempt,
    Holder,
    Limits,
    Step,
)


@dataclass
class Task:
    """The task of the model."""

    steps: dict[str, Step]
    limits: Limits = field(default_factory=Limits)
    fixed: bool = False
    version: int = 1
    run: int = 1
    lifecycle: str = "PENDING"
    business: str = "PENDING"
    cancel_requested: bool = False
    coordinator_seq: int = 0
    product_id: str = ""
    classified: bool = False
    refs: set[str] = field(default_factory=set)
    executions: dict[int, Holder] = field(default_factory=dict)
    generations: dict[int, int] = field(default_factory=dict)
    """The credential generation of executions that were revoked, over all runs."""
    seen: dict[str, tuple[object, Expected]] = field(default_factory=dict)
    completed: dict[str, list[str]] = field(default_factory=dict)
    """Event ids of STEP_COMPLETED by step, over all runs."""
    step_versions: dict[str, int] = field(default_factory=dict)
    """The last version of each step over all runs."""
    outcomes: dict[int, str] = field(default_factory=dict)
    """How each ended run ended."""

    @property
    def ended(self) -> bool:
        """Whether the current run has ended."""
        return self.lifecycle in ENDED

    @property
    def open_dynamic(self) -> int:
        """Open executions of dynamic steps."""
        steps = (step for step in self.steps.values() if step.dynamic)
        return sum(attempt.lifecycle not in ENDED for step in steps for attempt in step.attempts)

    @property
    def points(self) -> int:
        """Weighted progress."""
        return sum(step.weight * step.points for step in self.steps.values())

    # The frame of everything that carries an id.

    def once(self, command_id: str, content: object, judge: object) -> Expected:
        """The first result again for the same content, a conflict for other, else what ``judge`` says."""
        if command_id in self.seen:
            first, outcome = self.seen[command_id]
            if first != content:
                return refused(Reason.IDEMPOTENCY_CONFLICT)
            return replace(outcome, kind="duplicate")
        assert callable(judge)
        expected: Expected = judge()
        if expected.kind == "done":
            self.seen[command_id] = (content, expected)
        return expected

    def done(self) -> Expected:
        """One version more."""
        return Expected("done", self.version, self.lifecycle)

    def unchanged(self) -> Expected:
        """As it stands."""
        return Expected("unchanged", self.version, self.lifecycle)

    def stale(self, reason: Reason) -> Expected:
        """A late fact."""
        return Expected("stale", self.version, self.lifecycle, reason)

    # Commands.

    def cancel(self) -> Expected:
        """RequestCancel."""
        if self.ended:
            return refused(Reason.NOT_CANCELLABLE)
        if self.lifecycle == "CANCELLING":
            return self.unchanged()
        self.version += 1
        self.lifecycle = self.business = "CANCELLING"
        self.cancel_requested = True
        return self.done()

    def rerun(self, skipped: dict[str, str]) -> Expected:
        """RerunTask by the coordinator; ``skipped``: step → source event."""
        if not self.ended:
            return refused(Reason.TRANSITION_NOT_ALLOWED)
        manifest = {name: step for name, step in self.steps.items() if not step.dynamic}
        for name, source in skipped.items():
            if name not in manifest or source not in self.completed.get(name, ()):
                return refused(Reason.INVALID_ARGUMENT)
        self.version += 1 + len(skipped)
        self.run += 1
        self.lifecycle = self.business = "PENDING"
        self.cancel_requested, self.coordinator_seq = False, 0
        self.steps = {name: self._again(step, name in skipped) for name, step in manifest.items()}
        return self.done()

    def _again(self, step: Step, is_skipped: bool) -> Step:
        version = self._next_step_version(step.step_id, step.last.version)
        attempt = Attempt(1, version)
        if is_skipped:
            attempt.lifecycle, attempt.end_reason = "SUCCEEDED", "SKIPPED"
        points = FULL if is_skipped else 0
        return Step(step.step_id, step.weight, step.retries, attempts=[attempt], points=points)

    def correct(self, target: str) -> Expected:
        """CorrectTask by an administrator."""
        if not self.ended:
            return refused(Reason.TRANSITION_NOT_ALLOWED)
        if (self.lifecycle, self.business) == (target, target) and target != "FAILED":
            return self.unchanged()
        self.version += 1
        self.lifecycle = self.business = self.outcomes[self.run] = target
        return self.done()

    def relabel(self, product_id: str) -> Expected:
        """UpdateTaskMetadata."""
        if product_id == self.product_id:
            return self.unchanged()
        self.version += 1
        self.product_id = product_id
        return self.done()

    def classify(self) -> Expected:
        """ClassifyTask."""
        if self.classified:
            return refused(Reason.ALREADY_CLASSIFIED)
        if self.ended:
            return refused(Reason.TERMINAL)
        self.version += 1
        self.classified = True
        return self.done()

    def attach(self, ref: str, taken: bool) -> Expected:
        """AttachExternalRef; ``taken``: by another task."""
        if ref in self.refs:
            return self.unchanged()
        if taken:
            return refused(Reason.IDEMPOTENCY_CONFLICT)
        self.version += 1
        self.refs.add(ref)
        return self.done()

    def revoke(self, execution: int) -> Expected:
        """RevokeExecution."""
        holder = self.executions[execution]
        if not self._is_current(holder):
            return refused(Reason.STALE_ATTEMPT)
        attempt = self.steps[holder.step_id].last
        if self.ended or attempt.lifecycle in ENDED:
            return refused(Reason.TERMINAL)
        self.version += 1
        attempt.generation += 1
        self.generations[execution] = attempt.generation
        attempt.version = self._next_step_version(holder.step_id, attempt.version)
        return self.done()

    def activate(self, step_id: str, number: int, execution: int) -> Expected:
        """ActivateStep of a step that exists; a repeat is the caller's to tell."""
        step = self.steps[step_id]
        existing = next((attempt for attempt in step.attempts if attempt.number == number), None)
        if self.ended or (existing is not None and existing.lifecycle in ENDED):
            return refused(Reason.TERMINAL)
        refusal = self._wrong_number(step, number)
        if refusal is not None:
            return refusal
        if existing is not None:
            existing.execution = execution
            self.executions[execution] = Holder(self.run, step_id, number)
            return self.unchanged()
        self._new_attempt(step, number, execution)
        return self.done()

    def register(self, step_id: str, number: int, execution: int, parent: int | None) -> Expected:
        """RegisterExecution by the coordinator."""
        step = self.steps.get(step_id)
        if self.ended:
            return refused(Reason.TERMINAL)
        refusal = self._wrong_number(step, number)
        if refusal is not None:
            return refusal
        depth = 1
        if parent is not None:
            holder = self.executions[parent]
            if holder.run != self.run:
                return refused(Reason.EXECUTION_NOT_FOUND)
            depth = self.steps[holder.step_id].depth + 1
        if self.fixed:
            return refused(Reason.TRANSITION_NOT_ALLOWED)
        depth = step.depth if step else depth
        dynamic = sum(each.dynamic for each in self.steps.values())
        too_many = dynamic + (step is None) > self.limits.steps
        if depth > self.limits.depth or too_many or self._opens_too_many(step):
            return refused(Reason.DYNAMIC_LIMIT_REACHED)
        if step is None:
            version = self.step_versions.get(step_id, 0)
            step = self.steps[step_id] = Step(step_id, 0, retries=False, dynamic=True, depth=depth)
            step.attempts.append(Attempt(0, version, lifecycle="CANCELLED", superseded=True))
            self._new_attempt(step, number, execution)
            del step.attempts[0]
        else:
            self._new_attempt(step, number, execution)
        return self.done()

    def _opens_too_many(self, step: Step | None) -> bool:
        replaced = step is not None and step.last.lifecycle not in ENDED
        return self.open_dynamic + 1 - replaced > self.limits.parallel

    def _wrong_number(self, step: Step | None, number: int) -> Expected | None:
        spent = [a for a in step.attempts if a.execution is not None or a.lifecycle in ENDED] if step else []
        last = spent[-1].number if spent else 0
        if number <= last:
            return refused(Reason.STALE_ATTEMPT)
        succeeded = bool(spent) and spent[-1].lifecycle == "SUCCEEDED"
        if number != last + 1 or succeeded:
            return refused(Reason.TRANSITION_NOT_ALLOWED)
        return None

    def _new_attempt(self, step: Step, number: int, execution: int) -> None:
        self.version += 1
        last = step.last
        version = self._next_step_version(step.step_id, last.version)
        if last.lifecycle not in ENDED:
            last.lifecycle, last.end_reason, last.version = "CANCELLED", "SUPERSEDED", version
        last.superseded = True
        if last.number and self.business in ("RETRY_WAIT", "WAITING_USER_ACTION"):
            self.business = self.lifecycle
        step.attempts.append(Attempt(number, version, execution))
        self.executions[execution] = Holder(self.run, step.step_id, number)

    def _next_step_version(self, step_id: str, last: int) -> int:
        self.step_versions[step_id] = last + 1
        return last + 1

    # Events.

    def report(
        self, execution: int, generation: int, what: str, seq: int, percent: int, event_id: str, status: str
    ) -> Expected:
        """An event of an execution."""
        holder = self.executions[execution]
        if generation < self.generations.get(execution, 1):
            return refused(Reason.TOKEN_REVOKED)
        if not self._is_current(holder):
            return self.stale(Reason.STALE_ATTEMPT)
        step = self.steps[holder.step_id]
        if seq <= step.last.seq:
            return self.stale(Reason.STALE_SEQUENCE)
        starts = what == "STEP_STARTED" and self.lifecycle == "PENDING"
        objection = (
            self._progress_objection(step.last, what, percent)
            or self._step_objection(step.last, what)
            or self._status_objection(status, "RUNNING" if starts else self.lifecycle)
        )
        if objection is not None:
            return objection
        step.last.seq = seq
        self._move_step(step, what, percent)
        self.business = status or self.business
        if what == "STEP_COMPLETED":
            self.completed.setdefault(step.step_id, []).append(event_id)
        return self.done()

    def end_step(self, step_id: str, what: str, seq: int) -> Expected:
        """STEP_CANCELLED or STEP_TIMED_OUT by the coordinator, of the step's latest attempt."""
        step = self.steps[step_id]
        if seq <= self.coordinator_seq:
            return self.stale(Reason.STALE_SEQUENCE)
        objection = self._step_objection(step.last, what)
        if objection is not None:
            return objection
        self.coordinator_seq = seq
        self._move_step(step, what, 0)
        return self.done()

    def task_event(self, what: str, seq: int, status: str) -> Expected:
        """An event of the task itself."""
        target = TASK_TARGETS[what]
        if seq <= self.coordinator_seq:
            return self.stale(Reason.STALE_SEQUENCE)
        if self.lifecycle == target:
            return self.unchanged()
        if self.ended:
            return self.stale(Reason.TERMINAL)
        if target not in MOVES[self.lifecycle]:
            return refused(Reason.TRANSITION_NOT_ALLOWED)
        objection = self._status_objection(status, target)
        if objection is not None:
            return objection
        self.version += 1
        self.coordinator_seq = seq
        self.lifecycle, self.business = target, status or target
        if self.ended:
            self.outcomes[self.run] = target
            self._end_steps()
        return self.done()

    def _end_steps(self) -> None:
        for step in self.steps.values():
            for attempt in step.attempts:
                if attempt.lifecycle not in ENDED:
                    attempt.lifecycle, attempt.end_reason = "CANCELLED", "TASK_ENDED"
                    attempt.version = self._next_step_version(step.step_id, attempt.version)

    def _status_objection(self, status: str, after: str) -> Expected | None:
        if not status:
            return None
        meant, allowed = TYPED.get(status, ("", None)) if self.classified else (GENERIC.get(status, ""), None)
        if meant != after:
            return refused(Reason.BUSINESS_STATUS_NOT_REGISTERED)
        if allowed is not None and self.business not in (status, *allowed):
            return refused(Reason.TRANSITION_NOT_ALLOWED)
        return None

    def _is_current(self, holder: Holder) -> bool:
        return holder.run == self.run and self.steps[holder.step_id].last.number == holder.attempt

    def _progress_objection(self, attempt: Attempt, what: str, percent: int) -> Expected | None:
        if what != "STEP_PROGRESS" or attempt.lifecycle in ENDED or attempt.percent is None:
            return None
        if percent < attempt.percent:
            return self.stale(Reason.PROGRESS_NOT_MONOTONIC)
        return self.unchanged() if attempt.lifecycle == "RUNNING" and percent == attempt.percent else None

    def _step_objection(self, attempt: Attempt, what: str) -> Expected | None:
        target = STEP_TARGETS[what]
        if attempt.lifecycle == target and what != "STEP_PROGRESS":
            return self.unchanged()
        if attempt.lifecycle in ENDED or self.ended:
            return self.stale(Reason.TERMINAL)
        if what == "STEP_PROGRESS":
            return None if attempt.lifecycle == "RUNNING" else refused(Reason.TRANSITION_NOT_ALLOWED)
        return None if target in MOVES[attempt.lifecycle] else refused(Reason.TRANSITION_NOT_ALLOWED)

    def _move_step(self, step: Step, what: str, percent: int) -> None:
        attempt = step.last
        self.version += 1
        attempt.version = self._next_step_version(step.step_id, attempt.version)
        attempt.lifecycle = STEP_TARGETS[what]
        if what == "STEP_PROGRESS":
            attempt.percent = percent
            step.points = max(step.points, percent * 100)
        if what == "STEP_COMPLETED":
            step.points = FULL
        if what == "STEP_STARTED" and self.lifecycle == "PENDING":
            self.lifecycle = self.business = "RUNNING"
        if what == "STEP_FAILED" and step.retries and self.lifecycle == "RUNNING":
            self.business = "RETRY_WAIT"
