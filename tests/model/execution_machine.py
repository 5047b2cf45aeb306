"""Executions of the tasks and what they and their coordinator report."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from taskstatus.domain.events import EventType
from taskstatus.domain.reasons import Reason
from tests.model.expected import Expected
from tests.model.machine import STEPS, CommandMachine, Execution, Sent, ahead, numbers, picks
from tests.model.parts import TASK_TARGETS, Attempt
from tests.unit.factories import a_credential, a_registration, an_activation, progress, step_event, task_event

KEYS = ("a", "b", "c", "d")
STEP_EVENTS = ("STEP_STARTED", *["STEP_PROGRESS"] * 3, "STEP_COMPLETED", "STEP_FAILED", "STEP_CANCELLED")

statuses = st.sampled_from(("", "", "", "", "DOING", "CHECK", "DONE", "RUNNING", "NOTHING"))


class ExecutionMachine(CommandMachine):
    """Activations, registrations and events besides the commands."""

    # Executions.

    @rule(task=numbers, step_id=st.sampled_from(sorted(STEPS)), offset=ahead, other=st.booleans())
    def activate(self, task: int, step_id: str, offset: int, other: bool) -> None:
        """ActivateStep of the next attempt, of an old one or of one too far."""
        step = self.models[task].steps[step_id]
        number = max(1, step.last.number + (offset if step.last.execution is not None else offset - 1))
        command = an_activation(self.task_ids[task], step_id, number, command_id=self.new_id("act"))
        self._given_out(task, step_id, number, command, None, other)

    @rule(task=numbers, key=st.sampled_from(KEYS), offset=ahead, pick=st.one_of(st.none(), picks), other=st.booleans())
    def register(self, task: int, key: str, offset: int, pick: int | None, other: bool) -> None:
        """RegisterExecution of a new step or of a known one's next attempt, perhaps below a parent."""
        model = self.models[task]
        step = model.steps.get(f"dyn_{key}")
        number = max(1, (step.last.number if step else 0) + offset)
        own = [index for index, each in enumerate(self.executions) if each.task == task]
        parent = own[pick % len(own)] if own and pick is not None else None
        command = a_registration(
            self.task_ids[task],
            key,
            number,
            command_id=self.new_id("reg"),
            parent_execution_id=None if parent is None else self.executions[parent].execution_id,
        )
        self._given_out(task, f"dyn_{key}", number, command, (parent,), other)

    def _given_out(
        self, task: int, step_id: str, number: int, command: Any, registers: tuple[int | None] | None, other: bool
    ) -> None:
        model = self.models[task]
        known = model.steps.get(step_id)
        existing = next((each for each in known.attempts if each.number == number), None) if known else None
        if existing is not None and existing.execution is not None:
            self._repeat(command, existing, other)
            return
        execution = len(self.executions)
        if registers is None:
            expected = model.activate(step_id, number, execution)
        else:
            expected = model.register(step_id, number, execution, registers[0])
        actual, bound = self.product.activate(command)
        if expected.kind == "unchanged":
            expected = Expected("done", expected.version, expected.lifecycle)
        self.agree(expected, actual)
        if bound is not None:
            self.executions.append(Execution(task, bound.binding.execution_id, bound.step))

    def _repeat(self, command: Any, existing: Attempt, other: bool) -> None:
        """The attempt has its execution: the same content gives it again, other content conflicts."""
        assert existing.execution is not None
        actual, bound = self.product.activate(command)
        first = self.executions[existing.execution].step.terms
        assert first is not None
        if first.activation_digest == command.digest:
            assert actual.kind == "duplicate"
            assert bound is not None
            assert bound.binding.execution_id == first.execution_id
        else:
            assert actual.reason is Reason.IDEMPOTENCY_CONFLICT

    # Events.

    @precondition(lambda self: bool(self.executions))
    @rule(
        pick=picks,
        what=st.sampled_from(STEP_EVENTS),
        seq=ahead,
        percent=st.integers(0, 10),
        status=statuses,
    )
    def report(self, pick: int, what: str, seq: int, percent: int, status: str) -> None:
        """An event of an execution, current or old."""
        index = len(self.executions) - 1 - pick % min(4, len(self.executions))
        of = self.executions[index]
        model = self.models[of.task]
        holder = model.executions[index]
        steps = model.steps if holder.run == model.run else {}
        attempt = steps[holder.step_id].attempts[holder.attempt - 1] if steps else None
        number, event_id = max(1, (attempt.seq if attempt else 0) + seq), self.new_id("evt")
        percent *= 10
        said = "" if what == "STEP_PROGRESS" else status

        def send(shown: int) -> tuple[Expected, Expected]:
            content = (index, what, number, shown)
            expected = model.once(
                event_id, content, lambda: model.report(index, of.generation, what, number, shown, event_id, said)
            )
            moved = {"progress": progress(shown)} if what == "STEP_PROGRESS" else {"phase_code": f"P{shown}"}
            command = step_event(
                EventType(what),
                number,
                of=of.step,
                event_id=event_id,
                workflow_id=self.workflow_id,
                credential=a_credential(generation=of.generation),
                business_status=said,
                **moved,
            )
            return expected, self.product.report(command)

        self.agree(*send(percent))
        if event_id in model.seen:
            self.sent.append(Sent(of.task, lambda: send(percent), lambda: send(percent + 1)))

    @rule(task=numbers, what=st.sampled_from(sorted(TASK_TARGETS)), seq=ahead, status=statuses)
    def task_event(self, task: int, what: str, seq: int, status: str) -> None:
        """An event of the task itself."""
        self._ruled(task, what, seq, "", status)

    @rule(
        task=numbers,
        what=st.sampled_from(("STEP_CANCELLED", "STEP_TIMED_OUT")),
        seq=ahead,
        step_id=st.sampled_from(sorted(STEPS)),
    )
    def end_step(self, task: int, what: str, seq: int, step_id: str) -> None:
        """The coordinator ends a step."""
        self._ruled(task, what, seq, step_id, "")

    def _ruled(self, task: int, what: str, seq: int, step_id: str, status: str) -> None:
        model = self.models[task]
        number, event_id = max(1, model.coordinator_seq + seq), self.new_id("evt")

        def judge() -> Expected:
            return model.end_step(step_id, what, number) if step_id else model.task_event(what, number, status)

        def send(reason: str) -> tuple[Expected, Expected]:
            expected = model.once(event_id, reason, judge)
            command = task_event(
                EventType(what),
                number,
                task_id=self.task_ids[task],
                event_id=event_id,
                step_id=step_id,
                reason=reason,
                business_status=status,
            )
            return expected, self.product.report(command)

        self.agree(*send("model"))
        if event_id in model.seen:
            self.sent.append(Sent(task, lambda: send("model"), lambda: send("another")))
