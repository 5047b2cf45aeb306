"""Commands on a task, given now and then: cancel, run again, relabel, attach, revoke, correct; over gRPC and REST."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from google.protobuf.message import Message
from taskstatus_pb.v1 import common_pb2, task_commands_pb2

from taskstatus.application.identity import ServiceIdentity
from taskstatus.domain.ids import TaskId, format_execution_id, format_task_id
from taskstatus.domain.lifecycle import TERMINAL
from tests.chaos.options import Options, stream
from tests.history.model import Outcome
from tests.history.rules_events import BREAKING

if TYPE_CHECKING:
    from tests.chaos.coordinators import Plan
    from tests.chaos.line import Line

ENDS = sorted(TERMINAL)
NUMBERS = 12
"""Of another system; so few that tasks want the same ones."""
RATE_AFTER_THE_END = 5
ALIVE = ("cancel", "rerun", "relabel", "attach", "revoke", "correct")
ENDED = ("rerun", "rerun", "correct", "cancel", "relabel")
"""What is ordered of a task."""


@dataclass(frozen=True)
class TaskOrder:
    """A command; sent again it is the same one."""

    identity: ServiceIdentity
    task_id: TaskId
    request: Any

    @property
    def content(self) -> str:
        """The same for the same command, whatever its id and the version that it expects."""
        plain = type(self.request)()
        plain.CopyFrom(self.request)
        for name in ("command_id", "expected_task_version"):
            if name in plain.DESCRIPTOR.fields_by_name:
                plain.ClearField(name)
        return f"{plain.DESCRIPTOR.name} {plain.SerializeToString(deterministic=True).hex()}"


class Commander:
    """Gives the orders of one coordinator; its choices leave those of the coordinator alone."""

    def __init__(self, name: str, identity: ServiceIdentity, options: Options, line: Line) -> None:
        self._name = f"{name}-orders"
        self._identity = identity
        self._options = options
        self._line = line
        self._random: Random = stream(options.seed, self._name)

    async def act(self, plan: Plan) -> bool:
        """Give an order on the task, or none this time."""
        random = self._random
        if random.random() >= self._options.order_rate * (RATE_AFTER_THE_END if plan.has_ended else 1):
            return False
        if plan.open_orders and random.randrange(3):
            order = random.choice(plan.open_orders)
        elif plan.old_orders and random.randrange(12) == 0:
            order = random.choice(plan.old_orders)
        else:
            order = TaskOrder(self._identity, plan.task_id, self._choose(plan))
        await self.give(plan, order)
        return True

    async def give(self, plan: Plan, order: TaskOrder) -> None:
        """Send one order, and learn what it says of the task."""
        answer, change = await self._line.order(self._name, order)
        if answer.outcome is Outcome.UNKNOWN or answer.reason in BREAKING:
            if order not in plan.open_orders:
                plan.open_orders.append(order)
            return
        if order in plan.open_orders:
            plan.open_orders.remove(order)
        is_news = order not in plan.old_orders
        plan.old_orders.append(order)
        if change is None:
            return
        plan.version = max(plan.version, change.task_version)
        if is_news and isinstance(order.request, task_commands_pb2.RerunTaskRequest):
            plan.begin_run(change.task_attempt, {step.step_id for step in order.request.skipped_steps})

    def _choose(self, plan: Plan) -> Message:
        names = ENDED if plan.has_ended else ALIVE
        request: Message = getattr(self, f"_{self._random.choice(names)}")(plan)
        return request

    def _named(self, plan: Plan, **fields: Any) -> dict[str, Any]:
        return {"command_id": plan.next_id(), "task_id": format_task_id(plan.task_id), **fields}

    def _expected(self, plan: Plan) -> int:
        return plan.version if self._random.randrange(2) else 0

    def _cancel(self, plan: Plan) -> Message:
        return task_commands_pb2.RequestCancelRequest(**self._named(plan, reason="not needed"))

    def _rerun(self, plan: Plan) -> Message:
        random, results = self._random, self._line.results.get(plan.task_id, {})
        skipped = [
            task_commands_pb2.SkippedStep(step_id=step_id, reason="good still", source_event_id=results[step_id])
            for step_id in plan.manifest
            if step_id in results and random.randrange(2)
        ]
        if random.randrange(6) == 0:
            wrong = random.choice(plan.manifest)
            skipped = [task_commands_pb2.SkippedStep(step_id=wrong, reason="no result", source_event_id="never")]
        run = random.choice((0, 0, plan.run))
        return task_commands_pb2.RerunTaskRequest(
            **self._named(plan, task_attempt=run, reason="once more", skipped_steps=skipped)
        )

    def _relabel(self, plan: Plan) -> Message:
        random = self._random
        request = task_commands_pb2.UpdateTaskMetadataRequest(
            **self._named(plan, expected_task_version=self._expected(plan), reason="as asked")
        )
        request.product_id = random.choice(("", "p-1", "p-2"))
        if random.randrange(2):
            request.title = random.choice(("Report A", "Report B"))
        if random.randrange(2):
            request.priority = random.choice((0, 5))
        return request

    def _attach(self, plan: Plan) -> Message:
        ref = task_commands_pb2.ExternalRef(ref_type="ORDER_ID", ref_value=str(self._random.randrange(NUMBERS)))
        return task_commands_pb2.AttachExternalRefRequest(**self._named(plan, external_ref=ref))

    def _revoke(self, plan: Plan) -> Message:
        if not plan.executions:
            return self._cancel(plan)
        execution_id = format_execution_id(self._random.choice(plan.executions))
        return task_commands_pb2.RevokeExecutionRequest(
            command_id=plan.next_id(), execution_id=execution_id, reason="leaked"
        )

    def _correct(self, plan: Plan) -> Message:
        lifecycle = self._random.choice(ENDS)
        return task_commands_pb2.CorrectTaskRequest(
            **self._named(
                plan,
                lifecycle_status=common_pb2.LifecycleStatus.Value(lifecycle.value),
                expected_task_version=self._expected(plan),
                reason="checked by hand",
            )
        )
