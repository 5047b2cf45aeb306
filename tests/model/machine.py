"""The state machine: random commands for two tasks, each answered by product and model alike."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from taskstatus.domain.classification import ClassifyTask
from taskstatus.domain.dynamic import DynamicLimits
from taskstatus.domain.ids import ExecutionId, TaskId, WorkflowId
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.reasons import Reason
from taskstatus.domain.registration_terms import DynamicPolicy, RegistrationMode, RegistrationTerms
from taskstatus.domain.state import ExternalRef, FailurePolicy, StepState
from taskstatus.domain.task_commands import (
    AttachExternalRef,
    CorrectTask,
    RequestCancel,
    RerunTask,
    RevokeExecution,
    SkippedStep,
    UpdateMetadata,
)
from tests.model.expected import Expected
from tests.model.model import Task
from tests.model.parts import ENDED, Attempt, Limits, Step
from tests.model.product import MODEL_TYPE, Backend, Product
from tests.unit.factories import a_failure, a_head, a_step_spec, a_task_spec, a_workflow_command

TASKS = 2
LIMITS = Limits()
DEPTHS = (LIMITS.depth, 1)
"""The second task allows no child below a child."""
STEPS = {"01_read": (3, FailurePolicy.FAIL_TASK), "02_parse": (1, FailurePolicy.RETRY_THEN_FAIL_TASK)}
REFS = ("r-1", "r-2")

_serials = itertools.count(1)

numbers = st.integers(0, TASKS - 1)
picks = st.integers(0, 30)
ahead = st.sampled_from((1, 1, 1, 1, 2, 0, -1))


@dataclass
class Execution:
    """An execution that was given out, with the credential generation that its worker has."""

    task: int
    execution_id: ExecutionId
    step: StepState
    generation: int = 1


@dataclass(frozen=True)
class Sent:
    """Something with an id, to be sent again or reused."""

    task: int
    again: Any
    """Sends the very same; (expected, actual)."""
    reuse: Any
    """Sends other content under the same id; the actual answer."""


class CommandMachine(RuleBasedStateMachine):
    """One workflow of two tasks; subclasses give the backend."""

    backend: Backend

    def __init__(self) -> None:
        super().__init__()
        self.serial = next(_serials)
        bounds = DynamicLimits(LIMITS.steps, LIMITS.depth, LIMITS.parallel, 600)
        self.product = Product(self.backend, self.serial, bounds)
        self.models: list[Task] = []
        self.task_ids: list[TaskId] = []
        self.executions: list[Execution] = []
        self.sent: list[Sent] = []
        self.ids = itertools.count(1)

    @initialize(fixed=st.booleans())
    def create(self, fixed: bool) -> None:
        """A workflow with its tasks; the second may have a fixed manifest."""
        modes = (RegistrationMode.MIXED, RegistrationMode.FIXED if fixed else RegistrationMode.MIXED)
        specs = [
            a_task_spec(
                key=f"t{number}",
                task_type="",
                terms=RegistrationTerms(mode, DynamicPolicy(max_depth=depth)),
                steps=tuple(
                    a_step_spec(step_id, weight=weight, failure_policy=policy)
                    for step_id, (weight, policy) in STEPS.items()
                ),
            )
            for number, (mode, depth) in enumerate(zip(modes, DEPTHS, strict=True))
        ]
        command = a_workflow_command(*specs, client_workflow_key=f"model-{self.serial}")
        created = self.product.run(self.product.registration.create_workflow(command))
        self.workflow_id = WorkflowId(created.workflow.workflow_id)
        for state, mode, depth in zip(created.tasks, modes, DEPTHS, strict=True):
            self.task_ids.append(state.envelope.task_id)
            steps = {
                step_id: Step(step_id, weight, policy is not FailurePolicy.FAIL_TASK, attempts=[Attempt(1, 1)])
                for step_id, (weight, policy) in STEPS.items()
            }
            self.models.append(Task(steps, replace(LIMITS, depth=depth), fixed=mode is RegistrationMode.FIXED))

    def new_id(self, what: str) -> str:
        """An id that no other command of this run has."""
        return f"{what}-{self.serial}-{next(self.ids)}"

    def agree(self, expected: Expected, actual: Expected) -> None:
        """Both say the same."""
        note(f"expected {expected}, got {actual}")
        assert actual == expected

    # Commands of the coordinator.

    def commanded(self, task: int, content: str, judge: Any, build: Any) -> None:
        """Give a command with an id of its own, and remember it."""
        command_id, model = self.new_id("cmd"), self.models[task]

        def send(what: str) -> tuple[Expected, Expected]:
            head = a_head(command_id, what, task_id=self.task_ids[task])
            expected = model.once(command_id, what, judge if what == content else lambda: None)
            return expected, self.product.command(build(head))

        self.agree(*send(content))
        if command_id in model.seen:
            self.sent.append(Sent(task, lambda: send(content), lambda: send(f"{content} changed")))

    @rule(task=numbers)
    def cancel(self, task: int) -> None:
        """RequestCancel."""
        commands = self.product.commands
        self.commanded(
            task,
            "cancel",
            self.models[task].cancel,
            lambda head: commands.request_cancel(RequestCancel(head, "model")),
        )

    @rule(task=numbers, skips=st.booleans(), wrong=st.sampled_from((False, False, False, True)))
    def rerun(self, task: int, skips: bool, wrong: bool) -> None:
        """RerunTask, with the skips that have a result, or a wrong one."""
        model, commands = self.models[task], self.product.commands
        skipped = {name: ids[-1] for name, ids in model.completed.items() if name in STEPS} if skips else {}
        if wrong:
            skipped = {"02_parse": "evt-nothing"}
        steps = tuple(SkippedStep(name, "model", source) for name, source in sorted(skipped.items()))
        self.commanded(
            task,
            f"rerun {skipped}",
            lambda: model.rerun(skipped),
            lambda head: commands.rerun(RerunTask(head, 0, "model", steps)),
        )

    @rule(task=numbers, truth=st.sampled_from(ENDED))
    def correct(self, task: int, truth: str) -> None:
        """CorrectTask by an administrator."""
        model, commands, code = self.models[task], self.product.commands, self.new_id("code")
        error = a_failure(code=code) if truth == "FAILED" else None
        self.commanded(
            task,
            f"correct {truth} {code}",
            lambda: model.correct(truth),
            lambda head: commands.correct(CorrectTask(head, Lifecycle(truth), "", error, "", "model")),
        )

    @rule(task=numbers, product_id=st.sampled_from(("", "p-1", "p-2")))
    def relabel(self, task: int, product_id: str) -> None:
        """UpdateTaskMetadata."""
        model, commands = self.models[task], self.product.commands
        self.commanded(
            task,
            f"relabel {product_id}",
            lambda: model.relabel(product_id),
            lambda head: commands.update_metadata(UpdateMetadata(head, product_id, None, None, "")),
        )

    @rule(task=numbers, ref=st.sampled_from(REFS))
    def attach(self, task: int, ref: str) -> None:
        """AttachExternalRef."""
        model, commands = self.models[task], self.product.commands
        taken = any(ref in other.refs for other in self.models if other is not model)
        number = ExternalRef("MODEL", f"{self.serial}-{ref}")
        self.commanded(
            task,
            f"attach {ref}",
            lambda: model.attach(ref, taken),
            lambda head: commands.attach_external_ref(AttachExternalRef(head, number)),
        )

    @precondition(lambda self: bool(self.executions))
    @rule(pick=picks)
    def revoke(self, pick: int) -> None:
        """RevokeExecution."""
        index = pick % len(self.executions)
        of, commands = self.executions[index], self.product.commands
        self.commanded(
            of.task,
            f"revoke {index}",
            lambda: self.models[of.task].revoke(index),
            lambda head: commands.revoke(RevokeExecution(head, of.execution_id, "model")),
        )

    @precondition(lambda self: bool(self.executions))
    @rule(pick=picks)
    def renew(self, pick: int) -> None:
        """The coordinator gives the worker credentials of the present generation."""
        index = pick % len(self.executions)
        of = self.executions[index]
        model = self.models[of.task]
        holder = model.executions[index]
        if holder.run == model.run:
            of.generation = model.steps[holder.step_id].attempts[holder.attempt - 1].generation

    @rule(task=numbers)
    def classify(self, task: int) -> None:
        """ClassifyTask with the definition of the tests."""
        model, product = self.models[task], self.product
        self.commanded(
            task, "classify", model.classify, lambda head: product.classify(ClassifyTask(head, MODEL_TYPE, 1, 0, None))
        )

    # Repeats.

    @precondition(lambda self: bool(self.sent))
    @rule(pick=picks)
    def send_again(self, pick: int) -> None:
        """The first result again, whatever became of the task since."""
        expected, actual = self.sent[pick % len(self.sent)].again()
        self.agree(expected, actual)
        assert expected.kind == "duplicate"

    @precondition(lambda self: bool(self.sent))
    @rule(pick=picks)
    def reuse_id(self, pick: int) -> None:
        """The same id with other content conflicts."""
        expected, actual = self.sent[pick % len(self.sent)].reuse()
        self.agree(expected, actual)
        assert expected.reason is Reason.IDEMPOTENCY_CONFLICT

    # What is read.

    @invariant()
    def reads_as_the_model_says(self) -> None:
        """Task, steps, runs and timeline of both tasks."""
        for task_id, model in zip(self.task_ids, self.models, strict=True):
            view = self.product.view(task_id)
            task = view.task
            assert (task.version, task.attempt, task.lifecycle, task.business_status) == (
                model.version,
                model.run,
                model.lifecycle,
                model.business,
            )
            assert (task.cancel_requested, task.envelope.product_id) == (model.cancel_requested, model.product_id)
            assert task.envelope.is_classified is model.classified
            assert (task.progress_points, task.open_dynamic) == (model.points, model.open_dynamic)
            assert [_row(step) for step in view.steps] == _rows(model)
            assert {ref.ref_value.rpartition("-r-")[2] for ref in view.external_refs} == {
                ref.removeprefix("r-") for ref in model.refs
            }
            runs = {run.run.task_attempt: run.outcome.lifecycle if run.outcome else "" for run in view.runs}
            assert runs == {number: model.outcomes.get(number, "") for number in range(1, model.run + 1)}
            assert task.open_steps == sum(row[2] not in ENDED for row in _rows(model))

    def teardown(self) -> None:
        """At the end: an event for each version, without gaps (E-6)."""
        super().teardown()
        for task_id, model in zip(self.task_ids, self.models, strict=True):
            assert self.product.event_versions(task_id) == list(range(1, model.version + 1))


def _row(step: StepState) -> tuple[Any, ...]:
    return (
        step.definition.step_id,
        step.attempt,
        step.lifecycle,
        step.source_seq,
        step.generation,
        step.superseded,
        step.end_reason,
        step.version,
        step.definition.depth,
    )


def _rows(model: Task) -> list[tuple[Any, ...]]:
    order = {name: number for number, name in enumerate(model.steps)}
    return [
        (
            step.step_id,
            attempt.number,
            attempt.lifecycle,
            attempt.seq,
            attempt.generation,
            attempt.superseded,
            attempt.end_reason,
            attempt.version,
            step.depth,
        )
        for step in sorted(model.steps.values(), key=lambda step: order[step.step_id])
        for attempt in step.attempts
    ]
