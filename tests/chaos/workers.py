"""Worker hosts that keep going: several executions each, mixed in one call, as an agent reports them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from random import Random

from taskstatus.application.identity import ServiceIdentity
from taskstatus.domain.ids import ExecutionId
from tests.chaos.line import Line, is_unsettled
from tests.chaos.options import Options, stream
from tests.chaos.terms import INTERVAL_SECONDS
from tests.history.model import Invocation
from tests.history.rules_health import ENDED_REASONS
from tests.simulation.items import WORKER, Assignment, Item, Pulse, a_service
from tests.simulation.script import ExecutionScript

MOST_ITEMS_OF_ONE = 4
MOST_SCRIPTS_OF_A_CALL = 5
MOST_OPEN_SCRIPTS = 12
"""A host forgets its oldest ended executions beyond that many, unless something of theirs is open."""
SETTLE_PAUSE_SECONDS = 0.1
SETTLE_ITEMS = 100

STORM_PAUSE_SECONDS = 0.05
MOST_BEATS = 500
"""Of one call."""

Batch = list[tuple[ExecutionScript, Item]]


@dataclass(slots=True)
class Heart:
    """The beats of one execution."""

    assignment: Assignment
    heartbeat_seq: int = 0

    def next_pulse(self, random: Random, identity: ServiceIdentity, wrong_rate: float) -> Pulse:
        """The next beat; a confused worker sends an old number."""
        self.heartbeat_seq += 1
        seq = random.randint(1, self.heartbeat_seq) if random.random() < wrong_rate else self.heartbeat_seq
        return Pulse(identity, self.assignment, seq)


class WorkerHost:
    """One worker process."""

    def __init__(self, number: int, options: Options, line: Line) -> None:
        self._name = f"worker-{number}"
        self._options = options
        self._line = line
        self._random = stream(options.seed, self._name)
        self._scripts: list[ExecutionScript] = []
        self._health = stream(options.seed, f"{self._name}/health")
        self._hearts: dict[ExecutionId, Heart] = {}
        self._paused_until = 0.0
        self._storms_until = 0.0

    def assign(self, assignment: Assignment) -> None:
        """Take over an execution."""
        is_enduring = self._health.random() < self._options.enduring_rate
        self._scripts.append(ExecutionScript(assignment, self._random, is_enduring=is_enduring))
        self._hearts[assignment.binding.execution_id] = Heart(assignment)

    @property
    def running(self) -> int:
        """How many executions it is at work on."""
        return sum(not script.has_ended for script in self._scripts)

    def pause(self, seconds: float) -> None:
        """Stand still for so long, as a process that was stopped: report nothing, beat no more."""
        self._paused_until = asyncio.get_running_loop().time() + seconds

    def storm(self, seconds: float) -> None:
        """Beat as often as a worker that has lost all measure, for so long."""
        self._storms_until = asyncio.get_running_loop().time() + seconds

    async def beat(self) -> None:
        """Beat for all that was ever assigned and has not ended, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await self._awake()
            for identity, hearts in self._by_tenant():
                pulses = [heart.next_pulse(self._health, identity, self._options.wrong_rate) for heart in hearts]
                for beat in await self._line.beat(identity, pulses):
                    if beat.reason in ENDED_REASONS:
                        self._hearts.pop(beat.execution_id, None)
            pause = STORM_PAUSE_SECONDS if loop.time() < self._storms_until else INTERVAL_SECONDS
            await asyncio.sleep(pause * (0.8 + self._health.random() / 5))

    def _by_tenant(self) -> list[tuple[ServiceIdentity, list[Heart]]]:
        tenants: dict[str, list[Heart]] = {}
        for heart in self._hearts.values():
            tenants.setdefault(heart.assignment.binding.tenant_id, []).append(heart)
        return [(a_service(tenant_id, WORKER), hearts[:MOST_BEATS]) for tenant_id, hearts in tenants.items()]

    async def _awake(self) -> None:
        """Wait for the end of a pause; then one of the executions may end at once, whether it is STALE or not."""
        loop = asyncio.get_running_loop()
        while (left := self._paused_until - loop.time()) > 0:
            await asyncio.sleep(left)

    async def run(self, stopped: asyncio.Event) -> None:
        """Report until told to stop; the call on its way is waited for."""
        while not stopped.is_set():
            await asyncio.sleep(self._options.think_seconds * 2 * self._random.random())
            was_paused = self._paused_until > asyncio.get_running_loop().time()
            await self._awake()
            self._forget()
            batch = self._endings() if was_paused else self._batch()
            if batch:
                await self._send(batch)

    async def settle(self) -> None:
        """Send what is open until everything has its answer."""
        while batch := [(script, item) for script in self._scripts for item in script.open][:SETTLE_ITEMS]:
            await self._send(batch)
            await asyncio.sleep(SETTLE_PAUSE_SECONDS)

    def _forget(self) -> None:
        ended = [script for script in self._scripts if script.has_ended and not script.open]
        for script in ended[:-MOST_OPEN_SCRIPTS]:
            self._scripts.remove(script)

    def _endings(self) -> Batch:
        """What a worker tells that has done its work while nobody heard of it: completion races STALE."""
        running = [script for script in self._scripts if not script.has_ended]
        chosen = self._health.sample(running, len(running) // 2)
        return [(script, item) for script in chosen for item in (*script.open, script.last_item())]

    def _batch(self) -> Batch:
        live = [script for script in self._scripts if not script.has_ended or script.open]
        pool = live if live and self._random.randrange(8) else self._scripts
        chosen = self._random.sample(pool, min(len(pool), self._random.randint(1, MOST_SCRIPTS_OF_A_CALL)))
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
            items.append(random.choice(items))
        repeated = script.again() if random.randrange(6) == 0 else None
        return [*items, repeated] if repeated else items

    async def _send(self, batch: Batch) -> None:
        answers = await self._line.report(self._name, [item for _, item in batch])
        for (script, item), answer in zip(batch, answers, strict=True):
            _learn(script, item, answer)
        if any(map(is_unsettled, answers)):
            await asyncio.sleep(SETTLE_PAUSE_SECONDS * self._random.random())


def _learn(script: ExecutionScript, item: Item, answer: Invocation) -> None:
    script.learn(item, answer)
