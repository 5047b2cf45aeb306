"""A service that gives commands on one task now and then: cancel, run again, relabel, attach, revoke, correct."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING

from taskstatus.domain.commands import Actor, ReportedError
from taskstatus.domain.lifecycle import TERMINAL, Lifecycle
from taskstatus.domain.state import ExternalRef
from taskstatus.domain.task_commands import (
    AttachExternalRef,
    CommandHead,
    CommandOutcome,
    CorrectTask,
    RequestCancel,
    RerunTask,
    RevokeExecution,
    SkippedStep,
    UpdateMetadata,
)
from tests.simulation.items import SCOPE
from tests.simulation.line import Line, Refusal, TaskOrder
from tests.simulation.options import Options, stream

if TYPE_CHECKING:
    from tests.simulation.clients import TaskPlan

ENDS = sorted(TERMINAL)
NUMBERS = 4
"""Of another system; so few that tasks want the same ones."""


class Commander:
    """Keeps its orders until each has a final answer; its choices leave those of others alone."""

    def __init__(self, name: str, producer_id: str, plan: TaskPlan, options: Options, line: Line) -> None:
        self._name = f"{name}-orders"
        self._producer_id = producer_id
        self._plan = plan
        self._options = options
        self._line = line
        self._random: Random = stream(options.seed, f"{producer_id}/{plan.tenant_id}/{self._name}")
        self._sent = 0
        self._version = 0
        """The last version of the task that it was told."""
        self._old: list[TaskOrder] = []
        self.open: list[TaskOrder] = []

    async def act(self) -> bool:
        """Give an order, or none this time."""
        random, has_ended = self._random, self._plan.has_ended
        if random.random() >= self._options.order_rate * (RATE_AFTER_THE_END if has_ended else 1):
            return False
        if self.open and random.randrange(3):
            await self.give(random.choice(self.open))
        elif self._old and random.random() < self._options.wrong_rate:
            await self.give(self._again(random.choice(self._old)))
        else:
            await self.give(random.choice(AFTER_THE_END if has_ended else CHOICES)(self))
        return True

    async def settle(self) -> None:
        """Give what is open once more."""
        for order in list(self.open):
            await self.give(order)

    async def give(self, order: TaskOrder) -> None:
        """Send one order, and learn what it says of the task."""
        answer = await self._line.order(self._name, order)
        if isinstance(answer, Refusal) and not answer.is_final:
            if order not in self.open:
                self.open.append(order)
            return
        if order in self.open:
            self.open.remove(order)
        is_news = order not in self._old
        self._old.append(order)
        if isinstance(answer, Refusal):
            return
        self._version = max(self._version, answer.result.task_version)
        if is_news and isinstance(order, RerunTask):
            self._begin_run(order, answer)

    def _begin_run(self, order: RerunTask, answer: CommandOutcome) -> None:
        run = answer.result.task_attempt
        if run > self._plan.run:
            self._plan.run = run
            self._plan.has_ended = False
            skipped = {step.step_id for step in order.skipped}
            self._plan.attempts = {step_id: int(step_id in skipped) for step_id in self._plan.manifest}
            self._plan.dynamic.clear()

    def _again(self, order: TaskOrder) -> TaskOrder:
        """The same once more, or other content under its id: IDEMPOTENCY_CONFLICT."""
        if self._random.randrange(2):
            return order
        head = order.head
        return RequestCancel(self._head("cancel for another reason", head.command_id), "another")

    def _head(self, content: str, command_id: str = "", *, conditional: bool = False) -> CommandHead:
        """Half of those that may have a condition ask for the version that was told last."""
        if not command_id:
            self._sent += 1
            command_id = f"{self._producer_id}.order.{self._sent}"
        return CommandHead(
            actor=Actor(self._plan.tenant_id, SCOPE, self._producer_id),
            command_id=command_id,
            task_id=self._plan.task_id,
            canonical=content.encode(),
            digest=hashlib.sha256(content.encode()).digest(),
            expected_version=self._version if conditional and self._random.randrange(2) else 0,
        )

    def cancel(self) -> TaskOrder:
        """NOT_CANCELLABLE once the task has ended."""
        return RequestCancel(self._head("cancel"), "not needed")

    def rerun(self) -> TaskOrder:
        """TRANSITION_NOT_ALLOWED while the run goes on; INVALID_ARGUMENT when a skip has no result."""
        random = self._random
        results = self._line.results.get(self._plan.task_id, {})
        skipped = tuple(
            SkippedStep(step_id, "its result is good still", results[step_id])
            for step_id in self._plan.manifest
            if step_id in results and random.randrange(2)
        )
        if random.randrange(4) == 0:
            skipped = (SkippedStep(random.choice(self._plan.manifest), "without a result", "never"),)
        run = random.choice((0, 0, self._plan.run))
        return RerunTask(self._head(f"rerun {run} {skipped}"), run, "once more", skipped)

    def relabel(self) -> TaskOrder:
        """VERSION_MISMATCH when somebody was quicker; a no-op now and then."""
        random = self._random
        product_id = random.choice((None, "", "p-1", "p-2"))
        title = random.choice((None, None, "Report A", "Report B"))
        priority = random.choice((None, 0, 5))
        head = self._head(f"relabel {product_id} {title} {priority}", conditional=True)
        return UpdateMetadata(head, product_id, title, priority, "as asked")

    def attach(self) -> TaskOrder:
        """IDEMPOTENCY_CONFLICT when another task has the number."""
        ref = ExternalRef("ORDER_ID", str(self._random.randrange(NUMBERS)))
        return AttachExternalRef(self._head(f"attach {ref.ref_value}"), ref)

    def revoke(self) -> TaskOrder:
        """STALE_ATTEMPT or TERMINAL for an execution that is not current."""
        if not self._plan.executions:
            return self.cancel()
        execution_id = self._random.choice(self._plan.executions)
        return RevokeExecution(self._head(f"revoke {execution_id.hex()}"), execution_id, "leaked")

    def correct(self) -> TaskOrder:
        """TRANSITION_NOT_ALLOWED while the run goes on; a no-op when the task stands so already."""
        random = self._random
        lifecycle = random.choice(ENDS)
        error: ReportedError | None = None
        failed_step_id = ""
        if lifecycle is Lifecycle.FAILED and random.randrange(2):
            error = ReportedError("INPUT", "UNREADABLE", "Nobody can read it.", None, "")
            failed_step_id = random.choice(self._plan.manifest)
        head = self._head(f"correct {lifecycle} {error} {failed_step_id}", conditional=True)
        return CorrectTask(head, lifecycle, "", error, failed_step_id, "checked by hand")


CHOICES: Sequence[Callable[[Commander], TaskOrder]] = (
    Commander.cancel,
    Commander.rerun,
    Commander.relabel,
    Commander.attach,
    Commander.revoke,
    Commander.correct,
)
AFTER_THE_END = (Commander.rerun, Commander.rerun, Commander.correct, Commander.cancel, Commander.relabel)
RATE_AFTER_THE_END = 6
