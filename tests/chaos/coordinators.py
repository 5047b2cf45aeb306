"""Coordinators that keep going: each fills a workflow of its own with tasks, activates, retries, and ends them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from random import Random

from taskstatus_pb.v1 import common_pb2, register_service_pb2

from taskstatus.application.identity import ExecutionBinding, ServiceIdentity
from taskstatus.domain.commands import EventContent, ReportedError, StatedFields
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import ExecutionId, TaskId, WorkflowId, parse_execution_id, parse_task_id, parse_workflow_id
from taskstatus.domain.state import FailurePolicy
from tests.chaos.commander import Commander, TaskOrder
from tests.chaos.line import Line, StepCommand, is_open, is_unsettled
from tests.chaos.options import Options, stream
from tests.chaos.transports import TransportError
from tests.history.model import Creation, Outcome
from tests.simulation.items import COORDINATOR, OPERATION, SCOPE, WORKER, Assignment, Item, a_service

MOST_TASKS_AT_ONCE = 4
MOST_DYNAMIC_STEPS = 3
TURNS_OF_A_TASK = 25
MOST_RUNS = 3
"""For which a task gets turns again."""
SETTLE_PAUSE_SECONDS = 0.1
TASK_ENDS = (EventType.TASK_COMPLETED, EventType.TASK_FAILED, EventType.TASK_CANCELLED, EventType.TASK_TIMED_OUT)

Assign = Callable[[Assignment], None]


@dataclass(slots=True)
class Plan:
    """What the coordinator knows of one of its tasks."""

    task_id: TaskId
    workflow_id: WorkflowId
    attempts: dict[str, int]
    """The last attempt known of each step."""
    source_seq: int = 0
    sent: int = 0
    turns: int = 0
    dynamic: set[str] = field(default_factory=set)
    open_items: list[Item] = field(default_factory=list)
    open_commands: list[StepCommand] = field(default_factory=list)
    old_commands: list[StepCommand] = field(default_factory=list)
    run: int = 1
    """The last run known."""
    version: int = 0
    """The last version that an order was told."""
    has_ended: bool = False
    executions: list[ExecutionId] = field(default_factory=list)
    open_orders: list[TaskOrder] = field(default_factory=list)
    old_orders: list[TaskOrder] = field(default_factory=list)
    manifest: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        """What is known at first is the manifest."""
        self.manifest = tuple(self.attempts)

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left to be answered."""
        return not self.open_items and not self.open_commands and not self.open_orders

    def begin_run(self, run: int, skipped: Collection[str]) -> None:
        """Another run: everything from the beginning, with some turns more for the first few."""
        if run <= self.run:
            return
        self.run = run
        self.has_ended = False
        self.attempts = {step_id: int(step_id in skipped) for step_id in self.manifest}
        self.dynamic.clear()
        if run <= MOST_RUNS:
            self.turns = min(self.turns, TURNS_OF_A_TASK // 2)

    def next_id(self) -> str:
        """The id of the next command or event; ids of different tasks are the same on purpose (E-3)."""
        self.sent += 1
        return f"coordinator.{self.sent}"


class Coordinator:
    """One coordinator; ``people`` are the owner and a grantee, ``announce`` hears of each created task."""

    def __init__(
        self,
        number: int,
        tenant_id: str,
        people: tuple[str, str],
        options: Options,
        line: Line,
        assign: Assign,
        announce: Callable[[str, WorkflowId, TaskId], None],
    ) -> None:
        self._name = f"coordinator-{tenant_id}-{number}"
        self._number = number
        self._tenant_id = tenant_id
        self._owner_id, self._grantee_id = people
        self._options = options
        self._line = line
        self._assign = assign
        self._announce = announce
        self._random: Random = stream(options.seed, self._name)
        self._identity: ServiceIdentity = a_service(tenant_id, COORDINATOR)
        self._created = 0
        self._workflow_id: WorkflowId | None = None
        self._plans: list[Plan] = []
        self._commander = Commander(self._name, self._identity, options, line)

    async def run(self, stopped: asyncio.Event) -> None:
        """Act until told to stop; the call on its way is waited for."""
        await self._create_workflow()
        while not stopped.is_set():
            await asyncio.sleep(self._options.think_seconds * self._random.random())
            active = [plan for plan in self._plans if plan.turns < TURNS_OF_A_TASK]
            if len(active) < MOST_TASKS_AT_ONCE and self._random.randrange(3) == 0:
                await self._create_task()
            elif active:
                await self._act(self._random.choice(active))

    async def settle(self) -> None:
        """Send what is open until everything has its answer."""
        for plan in self._plans:
            while not plan.is_settled:
                for order in list(plan.open_orders):
                    await self._commander.give(plan, order)
                for command in list(plan.open_commands):
                    await self._activate(plan, command)
                if plan.open_items:
                    await self._report(plan, list(plan.open_items))
                if not plan.is_settled:
                    await asyncio.sleep(SETTLE_PAUSE_SECONDS)

    async def _create_workflow(self) -> None:
        spec = self._task_spec()
        grants = [_grant(self._grantee_id)] if self._random.randrange(2) else []
        request = register_service_pb2.CreateWorkflowRequest(
            command_id=f"workflow-{self._number}",
            client_workflow_key=f"order-{self._number}",
            owner_id=self._owner_id,
            title="Import",
            grants=grants,
            initial_tasks=[spec],
        )
        created = await self._line.create(self._identity, request)
        self._workflow_id = parse_workflow_id(created.workflow_id)
        self._take(spec, created.tasks[0])

    async def _create_task(self) -> None:
        assert self._workflow_id is not None
        spec = self._task_spec()
        request = register_service_pb2.CreateTaskRequest(
            command_id=f"create-{self._created}",
            workflow_id=f"wf_{self._workflow_id.hex()}",
            task=spec,
        )
        self._take(spec, (await self._line.create(self._identity, request)).task)

    def _take(self, spec: register_service_pb2.TaskSpec, created: register_service_pb2.CreatedTask) -> None:
        task_id, workflow_id = parse_task_id(created.task_id), self._workflow_id
        assert task_id is not None
        assert workflow_id is not None
        self._line.creations.append(Creation(workflow_id, spec.client_task_key, task_id))
        self._plans.append(Plan(task_id, workflow_id, {step.step_id: 0 for step in spec.known_steps}))
        self._announce(self._tenant_id, workflow_id, task_id)

    def _task_spec(self) -> register_service_pb2.TaskSpec:
        self._created += 1
        return register_service_pb2.TaskSpec(
            client_task_key=f"task-{self._created}",
            title="Annual report",
            input_ref="input://task",
            known_steps=[self._step_spec(number + 1) for number in range(self._random.randint(1, 3))],
        )

    def _step_spec(self, number: int) -> register_service_pb2.StepSpec:
        policy = self._random.choice(tuple(FailurePolicy))
        return register_service_pb2.StepSpec(
            step_id=f"s{number}",
            operation_code=OPERATION,
            expected_producer=WORKER,
            failure_policy=common_pb2.FailurePolicy.Value(policy.value),
            weight=self._random.randrange(1, 4),
        )

    async def _act(self, plan: Plan) -> None:
        random = self._random
        plan.turns += 1
        if await self._commander.act(plan):
            return
        if plan.open_commands and random.randrange(3):
            await self._activate(plan, random.choice(plan.open_commands))
        elif plan.open_items and random.randrange(2):
            await self._report(plan, list(plan.open_items))
        elif random.randrange(4):
            await self._activate(plan, self._choose_activation(plan))
        else:
            await self._report(plan, [*plan.open_items, self._event(plan)])

    def _choose_activation(self, plan: Plan) -> StepCommand:
        random = self._random
        if plan.old_commands and random.random() < max(self._options.wrong_rate, 0.05):
            return random.choice(plan.old_commands)
        waiting = [step_id for step_id, attempt in plan.attempts.items() if attempt == 0]
        if waiting and random.randrange(4):
            return self._command(plan, random.choice(waiting), 1)
        if random.randrange(4) == 0 and len(plan.dynamic) < MOST_DYNAMIC_STEPS:
            step_id = f"dyn_{len(plan.dynamic) + 1}"
            plan.dynamic.add(step_id)
            return self._command(plan, step_id, 1)
        step_id = random.choice(list(plan.attempts))
        skip = 2 if random.random() < self._options.wrong_rate else 1
        return self._command(plan, step_id, plan.attempts[step_id] + skip)

    def _command(self, plan: Plan, step_id: str, attempt: int) -> StepCommand:
        input_ref = "input://other" if self._random.random() < self._options.wrong_rate else ""
        is_dynamic = step_id in plan.dynamic
        return StepCommand(self._identity, plan.task_id, step_id, attempt, plan.next_id(), input_ref, is_dynamic)

    async def _activate(self, plan: Plan, command: StepCommand) -> None:
        answer = await self._line.activate(self._name, command)
        if isinstance(answer, TransportError) and is_open(answer.reason):
            if command not in plan.open_commands:
                plan.open_commands.append(command)
            return
        if command in plan.open_commands:
            plan.open_commands.remove(command)
        plan.old_commands.append(command)
        if not isinstance(answer, TransportError) and command.attempt > plan.attempts.get(command.step_id, 0):
            plan.attempts[command.step_id] = command.attempt
            plan.executions.append(parse_execution_id(answer.execution_id) or ExecutionId(b""))
            binding = _binding(answer, self._tenant_id, plan)
            self._assign(Assignment(binding, answer.execution_token, answer.execution_handle))

    def _event(self, plan: Plan) -> Item:
        random = self._random
        plan.source_seq += 1
        # Where tasks run again they end early, so that the run sees it.
        if plan.turns > TURNS_OF_A_TASK // (5 if self._options.order_rate else 2) and random.randrange(2) == 0:
            return self._item(plan, random.choice(TASK_ENDS), "", 0)
        if random.randrange(2):
            return self._item(plan, EventType.TASK_STARTED, "", 0)
        event_type = random.choice((EventType.STEP_CANCELLED, EventType.STEP_TIMED_OUT))
        step_id = random.choice([*plan.attempts, "no-such-step"])
        return self._item(plan, event_type, step_id, random.choice((0, 0, plan.attempts.get(step_id, 1))))

    def _item(self, plan: Plan, event_type: EventType, step_id: str, step_attempt: int) -> Item:
        is_failure = event_type is EventType.TASK_FAILED
        content = EventContent(
            event_id=plan.next_id(),
            event_type=event_type,
            source_seq=plan.source_seq,
            error=ReportedError("SYSTEM", "GAVE_UP", "It failed.", None, "") if is_failure else None,
        )
        stated = StatedFields(task_id=f"task_{plan.task_id.hex()}", step_id=step_id, step_attempt=step_attempt)
        return Item(self._identity, plan.task_id, plan.task_id, content, stated)

    async def _report(self, plan: Plan, items: list[Item]) -> None:
        answers = await self._line.report(self._name, items)
        for item, answer in zip(items, answers, strict=True):
            if is_unsettled(answer):
                if item not in plan.open_items:
                    plan.open_items.append(item)
            elif item in plan.open_items:
                plan.open_items.remove(item)
            if answer.outcome is Outcome.OK and item.content.event_type in TASK_ENDS:
                plan.has_ended = True


def _binding(context: common_pb2.ExecutionContext, tenant_id: str, plan: Plan) -> ExecutionBinding:
    return ExecutionBinding(
        tenant_id=tenant_id,
        authority_scope=SCOPE,
        workflow_id=plan.workflow_id,
        task_id=plan.task_id,
        task_attempt=context.task_attempt,
        step_id=context.step_id,
        step_attempt=context.step_attempt,
        operation_code=context.operation_code,
        execution_id=parse_execution_id(context.execution_id) or ExecutionId(b""),
        producer_id=context.producer_id,
    )


def _grant(user_id: str) -> register_service_pb2.AccessGrant:
    return register_service_pb2.AccessGrant(
        principal_type=register_service_pb2.AccessGrant.USER,
        principal_id=user_id,
        permission=register_service_pb2.AccessGrant.VIEW,
    )
