"""Lanes over a store whose transactions a test lets through one at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from taskstatus.application.call_group import CallGroup
from taskstatus.application.ports_definitions import StatusDefinitions
from taskstatus.application.ports_store import TransactionAttempt, WriteTransaction
from taskstatus.domain.commands import TaskEventCommand
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import ExecutionId, TaskId
from taskstatus.domain.state import StepState
from taskstatus.domain.verdicts import Verdict
from taskstatus.runtime.lanes import LaneConfig, Lanes
from tests.unit.factories import a_step, a_task, an_id, step_event
from tests.unit.service_kit import Kit

T = TypeVar("T")


class GatedStore:
    """While closed, a transaction says that it has begun and waits to be let through."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._open = asyncio.Event()
        self._open.set()
        self._begun = asyncio.Event()
        self._standing: deque[asyncio.Future[None]] = deque()

    def close(self) -> None:
        """Hold back the next transactions."""
        self._open.clear()
        self._begun.clear()

    async def begun(self) -> None:
        """Wait until a transaction stands at the closed gate."""
        await self._begun.wait()

    def open(self) -> None:
        """Let all through."""
        self._open.set()
        while self._standing:
            self.let_one()

    def let_one(self) -> None:
        """Let the one through that has stood longest."""
        self._standing.popleft().set_result(None)

    async def transact(self, body: Callable[[WriteTransaction, TransactionAttempt], Awaitable[T]]) -> T:
        """See the port."""
        self._begun.set()
        if not self._open.is_set():
            passed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._standing.append(passed)
            await passed
        value: T = await self._inner.transact(body)
        return value


class TwoShards:
    """Even and odd buckets lie in different shards."""

    def shard_of(self, bucket: int) -> str:
        """By the bucket's last bit."""
        return str(bucket % 2)


class LaneKit:
    """One lane (unless told otherwise) over the in-memory store, with tasks of one step each."""

    def __init__(self, definitions: StatusDefinitions | None = None, **config: Any) -> None:
        self.kit = Kit()
        self.gate = GatedStore(self.kit.store)
        self.lanes = Lanes(
            self.gate,
            definitions or self.kit.definitions,
            TwoShards(),
            self.kit.clock,
            self.kit.tools,
            self.kit.wake_up,
            self.kit.observer,
            # Held for as long as a test takes, however slow the machine is.
            LaneConfig(**{"lanes_per_shard": 1, "held_seconds": 3600.0, **config}),
        )
        self.group = CallGroup()

    def add_task(self, number: int, bucket: int = 0) -> StepState:
        """A task whose one step waits for its STEP_STARTED."""
        task_id = TaskId(an_id(500 + number, bucket))
        step = a_step(task_id=task_id, bucket=bucket, execution_id=ExecutionId(an_id(600 + number, bucket)))
        self.kit.put(a_task(task_id=task_id, bucket=bucket, client_task_key=f"task-{number}"), step)
        return step

    def submit(self, command: TaskEventCommand, group: CallGroup | None = None) -> Awaitable[Verdict]:
        """Enqueue in a call of its own, or in the one given."""
        return self.lanes.submit(command, group or CallGroup())

    def held_back(self, step: StepState) -> Awaitable[Verdict]:
        """Close the gate and put the step's STEP_STARTED in flight."""
        self.gate.close()
        return self.submit(step_event(EventType.STEP_STARTED, of=step))

    def version_of(self, step: StepState) -> int:
        """The version of the step's task."""
        return self.kit.tables.tasks[step.task_id].version

    def poison(self, event_id: str) -> None:
        """Let the database refuse whatever is written with this event."""
        self.kit.store.refuse = lambda changes: any(row.event_id == event_id for row in changes.dedups)


def completed(step: StepState, source_seq: int = 2, event_id: str = "done") -> TaskEventCommand:
    """The step's STEP_COMPLETED."""
    command: TaskEventCommand = step_event(EventType.STEP_COMPLETED, source_seq, of=step, event_id=event_id)
    return command
