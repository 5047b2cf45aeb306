"""Worker hosts that keep going: several executions each, mixed in one call, as an agent reports them."""

from __future__ import annotations

import asyncio

from tests.chaos.line import Line, is_unsettled
from tests.chaos.options import Options, stream
from tests.history.model import Invocation
from tests.simulation.items import Assignment, Item
from tests.simulation.script import ExecutionScript

MOST_ITEMS_OF_ONE = 4
MOST_SCRIPTS_OF_A_CALL = 5
MOST_OPEN_SCRIPTS = 12
"""A host forgets its oldest ended executions beyond that many, unless something of theirs is open."""
SETTLE_PAUSE_SECONDS = 0.1
SETTLE_ITEMS = 100

Batch = list[tuple[ExecutionScript, Item]]


class WorkerHost:
    """One worker process."""

    def __init__(self, number: int, options: Options, line: Line) -> None:
        self._name = f"worker-{number}"
        self._options = options
        self._line = line
        self._random = stream(options.seed, self._name)
        self._scripts: list[ExecutionScript] = []

    def assign(self, assignment: Assignment) -> None:
        """Take over an execution."""
        self._scripts.append(ExecutionScript(assignment, self._random))

    async def run(self, stopped: asyncio.Event) -> None:
        """Report until told to stop; the call on its way is waited for."""
        while not stopped.is_set():
            await asyncio.sleep(self._options.think_seconds * 2 * self._random.random())
            self._forget()
            batch = self._batch()
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
