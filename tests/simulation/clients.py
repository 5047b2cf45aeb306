"""Clients that keep going: worker hosts with several executions, and the coordinators of a task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from taskstatus.application.executions import BoundExecution
from taskstatus.domain.commands import ActivateAttempt, EventContent, ReportedError, StatedFields
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import ExecutionId, TaskId, format_task_id
from tests.history.model import Invocation, Outcome
from tests.history.rules_events import BREAKING
from tests.simulation.commander import Commander
from tests.simulation.faults import Faults
from tests.simulation.items import WORKER, Assignment, Item, Pulse, a_service, an_activation
from tests.simulation.line import Line, Refusal
from tests.simulation.options import INTERVAL_SECONDS, TIMEOUT_SECONDS, Fault, Options, stream
from tests.simulation.script import ExecutionScript

MOST_ITEMS_OF_ONE = 4
SETTLE_PAUSE_SECONDS = 0.1
MOST_RUNS = 3
"""Of a task, for which its coordinators go on."""
TURNS_AFTER_THE_END = 5
TASK_ENDS = (EventType.TASK_COMPLETED, EventType.TASK_FAILED, EventType.TASK_CANCELLED, EventType.TASK_TIMED_OUT)


@dataclass(slots=True)
class Heartbeat:
    """The beats of one execution."""

    assignment: Assignment
    heartbeat_seq: int = 0

    def next_pulse(self, random: Random, wrong_rate: float) -> Pulse:
        """The next beat; a confused worker sends an old number."""
        self.heartbeat_seq += 1
        seq = random.randint(1, self.heartbeat_seq) if random.random() < wrong_rate else self.heartbeat_seq
        identity = a_service(self.assignment.binding.tenant_id, WORKER)
        return Pulse(identity, self.assignment, seq)


class WorkerHost:
    """One worker process: reports several executions in one call, as an agent does."""

    def __init__(self, number: int, options: Options, line: Line, faults: Faults) -> None:
        self.name = f"worker-{number}"
        self._options = options
        self._line = line
        self._faults = faults
        self._random = stream(options.seed, self.name)
        self._scripts: list[ExecutionScript] = []
        self._turns_left = options.turns
        self._silence = stream(options.seed, f"{self.name}/silence")
        self._silent_until = 0.0
        self._heartbeats: dict[ExecutionId, Heartbeat] = {}

    def assign(self, assignment: Assignment) -> None:
        """Take over an execution; it earns the host some more calls."""
        is_enduring = self._silence.random() < self._options.enduring_rate
        self._scripts.append(ExecutionScript(assignment, self._random, is_enduring=is_enduring))
        self._heartbeats[assignment.binding.execution_id] = Heartbeat(assignment)
        self._turns_left += 2

    async def run(self) -> None:
        """Report until the turns are used up."""
        while self._turns_left > 0:
            self._turns_left -= 1
            await asyncio.sleep(self._options.think_seconds * self._random.random())
            await self._awake()
            batch = self._batch()
            if batch:
                await self._send(batch)

    async def beat(self) -> None:
        """Beat for everything that was ever assigned, and fall silent now and then, until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL_SECONDS * (0.5 + self._silence.random() / 2))
            if self._silence.random() < self._options.silence_rate:
                self.fall_silent(TIMEOUT_SECONDS * self._silence.choice((0.5, 1.0, 1.05, 1.5, 2.5)))
            await self._awake()
            by_tenant: dict[str, list[Pulse]] = {}
            for heartbeat in self._heartbeats.values():
                pulse = heartbeat.next_pulse(self._silence, self._options.wrong_rate)
                by_tenant.setdefault(pulse.identity.tenant_id, []).append(pulse)
            for pulses in by_tenant.values():
                await self._line.beat(self.name, pulses)

    def fall_silent(self, seconds: float) -> None:
        """Stand still: report nothing and beat no more for so long."""
        self._silent_until = asyncio.get_running_loop().time() + seconds

    async def _awake(self) -> None:
        loop = asyncio.get_running_loop()
        while (left := self._silent_until - loop.time()) > 0:
            await asyncio.sleep(left)

    async def settle(self) -> None:
        """Send what is open until everything has its answer."""
        self._silent_until = 0.0
        while batch := [(script, item) for script in self._scripts for item in script.open[:MOST_ITEMS_OF_ONE]]:
            await self._send(batch)
            await asyncio.sleep(SETTLE_PAUSE_SECONDS)

    def _batch(self) -> list[tuple[ExecutionScript, Item]]:
        if not self._scripts:
            return []
        chosen = self._random.sample(self._scripts, min(len(self._scripts), self._random.randint(1, 2)))
        return [(script, item) for script in chosen for item in self._items_of(script)]

    def _items_of(self, script: ExecutionScript) -> list[Item]:
        """What is open first, as E-10 asks; a careless worker goes on without it."""
        random = self._random
        items = list(script.open) if random.randrange(4) else []
        for _ in range(random.randint(0 if items else 1, MOST_ITEMS_OF_ONE)):
            if random.random() < self._options.wrong_rate:
                items.append(script.wrong_item())
            elif not script.has_ended:
                items.append(script.next_item())
        if items and random.randrange(6) == 0:
            place = random.randrange(len(items))
            items.insert(random.randint(place, len(items)), items[place])
        repeated = script.again() if random.randrange(6) == 0 else None
        return [*items, repeated] if repeated else items

    async def _send(self, batch: list[tuple[ExecutionScript, Item]]) -> None:
        for _, item in batch:
            if self._faults.happens(Fault.POISON_EVENT, item.content.event_id):
                self._faults.poisonous_events.add(item.content.event_id)
        answers = await self._line.report(self.name, [item for _, item in batch])
        for (script, item), answer in zip(batch, answers, strict=True):
            script.learn(item, answer)


@dataclass(slots=True)
class TaskPlan:
    """What the coordinators of one task know in common."""

    tenant_id: str
    task_id: TaskId
    attempts: dict[str, int]
    """The last attempt known of each step."""
    dynamic: set[str] = field(default_factory=set)
    run: int = 1
    """The last run known."""
    has_ended: bool = False
    manifest: tuple[str, ...] = field(init=False)
    executions: list[ExecutionId] = field(default_factory=list)

    def __post_init__(self) -> None:
        """What is known at first is the manifest."""
        self.manifest = tuple(self.attempts)


class Coordinator:
    """One coordinator of one task: activates, retries, registers, ends steps and at last the task, and gives orders."""

    def __init__(
        self,
        producer_id: str,
        plan: TaskPlan,
        options: Options,
        line: Line,
        assign: Callable[[Assignment], None],
    ) -> None:
        self.name = f"{producer_id[:6]}-{plan.task_id.hex()[-4:]}"
        self._producer_id = producer_id
        self._plan = plan
        self._options = options
        self._line = line
        self._assign = assign
        self._random: Random = stream(options.seed, f"{producer_id}/{plan.tenant_id}/{len(plan.attempts)}/{self.name}")
        self._identity = a_service(plan.tenant_id, producer_id)
        self._source_seq = 0
        self._sent = 0
        self._open: list[Item] = []
        self._open_commands: list[ActivateAttempt] = []
        self._old_commands: list[ActivateAttempt] = []
        self._commander = Commander(self.name, producer_id, plan, options, line)

    async def run(self) -> None:
        """Act until the turns are used up."""
        turn, turns = 0, self._options.turns
        while turn < turns * min(self._plan.run, MOST_RUNS) + TURNS_AFTER_THE_END * self._plan.has_ended:
            await asyncio.sleep(self._options.think_seconds * self._random.random())
            if not await self._commander.act():
                await self._act(is_late=turn % turns > turns // 2)
            turn += 1

    async def settle(self) -> None:
        """Send what is open until everything has its answer."""
        while self._open or self._open_commands or self._commander.open:
            await self._commander.settle()
            for command in list(self._open_commands):
                await self._activate(command)
            if self._open:
                await self._report(list(self._open))
            await asyncio.sleep(SETTLE_PAUSE_SECONDS)

    async def _act(self, *, is_late: bool) -> None:
        random = self._random
        if self._open_commands and random.randrange(3):
            await self._activate(random.choice(self._open_commands))
        elif self._open and random.randrange(2):
            await self._report(list(self._open))
        elif random.random() < (0.8 if self._waiting() else 0.4):
            await self._activate(self._choose_activation())
        elif random.randrange(2):
            await self._report([*self._open, *self._choose_events(is_late=is_late)])

    def _waiting(self) -> list[str]:
        """Steps that have no execution yet."""
        return [step_id for step_id, attempt in self._plan.attempts.items() if attempt == 0]

    def _choose_activation(self) -> ActivateAttempt:
        random, plan = self._random, self._plan
        if self._old_commands and random.random() < self._options.wrong_rate:
            return random.choice(self._old_commands)
        if self._waiting() and random.randrange(4):
            return self._activation(random.choice(self._waiting()), 1)
        if random.randrange(4) == 0:
            step_id = f"dyn_{len(plan.dynamic) + 1}"
            plan.dynamic.add(step_id)
            return self._activation(step_id, 1)
        step_id = random.choice(list(plan.attempts))
        skip = 2 if random.random() < self._options.wrong_rate else 1
        return self._activation(step_id, plan.attempts[step_id] + skip)

    def _activation(self, step_id: str, attempt: int) -> ActivateAttempt:
        self._sent += 1
        command_id = f"{self._producer_id}.{self._sent}"
        odd = self._random.random() < self._options.wrong_rate
        return an_activation(
            self._plan.tenant_id,
            self._producer_id,
            self._plan.task_id,
            step_id,
            attempt,
            command_id,
            "input://other" if odd else "",
            is_dynamic=step_id in self._plan.dynamic,
        )

    async def _activate(self, command: ActivateAttempt) -> None:
        answer = await self._line.activate(self.name, command)
        is_open = isinstance(answer, Refusal) and not answer.is_final
        if is_open and command not in self._open_commands:
            self._open_commands.append(command)
        elif not is_open:
            if command in self._open_commands:
                self._open_commands.remove(command)
            self._old_commands.append(command)
        if not isinstance(answer, Refusal):
            self._begin_work(command, answer)

    def _begin_work(self, command: ActivateAttempt, bound: BoundExecution) -> None:
        known = self._plan.attempts.get(command.step_id, 0)
        if command.step_attempt > known:
            self._plan.attempts[command.step_id] = command.step_attempt
            self._plan.executions.append(bound.binding.execution_id)
            self._assign(Assignment(bound.binding, bound.credentials.token, bound.credentials.handle))

    def _choose_events(self, *, is_late: bool) -> list[Item]:
        random = self._random
        count = random.randint(1, 2)
        return [self._event(is_late=is_late) for _ in range(count)]

    def _event(self, *, is_late: bool) -> Item:
        random = self._random
        self._source_seq += 1
        if is_late and random.randrange(3) == 0 and self._options.ends_tasks:
            return self._task_event(random.choice(TASK_ENDS))
        if random.randrange(2) or not self._options.ends_tasks:
            return self._task_event(EventType.TASK_STARTED)
        event_type = random.choice((EventType.STEP_CANCELLED, EventType.STEP_TIMED_OUT))
        step_id = random.choice([*self._plan.attempts, "no-such-step"])
        return self._item(event_type, step_id, random.choice((0, 0, self._plan.attempts.get(step_id, 1))))

    def _task_event(self, event_type: EventType) -> Item:
        return self._item(event_type, "", 0)

    def _item(self, event_type: EventType, step_id: str, step_attempt: int) -> Item:
        self._sent += 1
        content = EventContent(
            event_id=f"{self._producer_id}.{self._sent}",
            event_type=event_type,
            source_seq=self._source_seq,
            error=ReportedError("SYSTEM", "GAVE_UP", "It failed.", None, "")
            if event_type is EventType.TASK_FAILED
            else None,
        )
        stated = StatedFields(task_id=format_task_id(self._plan.task_id), step_id=step_id, step_attempt=step_attempt)
        return Item(self._identity, self._plan.task_id, self._plan.task_id, content, stated)

    async def _report(self, items: list[Item]) -> None:
        answers = await self._line.report(self.name, items)
        for item, answer in zip(items, answers, strict=True):
            self._learn(item, answer)

    def _learn(self, item: Item, answer: Invocation) -> None:
        is_open = answer.outcome is Outcome.UNKNOWN or answer.reason in BREAKING
        if is_open and item not in self._open:
            self._open.append(item)
        elif not is_open and item in self._open:
            self._open.remove(item)
        if answer.outcome is Outcome.OK and item.content.event_type in TASK_ENDS:
            self._plan.has_ended = True
