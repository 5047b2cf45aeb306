"""What the SDK's tests share: a clock that moves when it is waited on, and a task to work on."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from taskstatus.sdk import Coordinator, ExecutionContext, StepSpec, TaskSpec, Timing

COORDINATOR = "coordinator"
PARSER = "document-service"
STEP = "02_parse"
START = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@dataclass
class QuickTiming:
    """Virtual time; every wait is noted and over at once."""

    seconds: float = 1000.0
    waits: list[float] = field(default_factory=list)

    def timing(self) -> Timing:
        """For ``connect``. Jitter always takes the upper end."""
        return Timing(monotonic=lambda: self.seconds, now=self.now, sleep=self.sleep, uniform=lambda low, high: high)

    def now(self) -> datetime:
        """The wall clock of the same time."""
        return START + timedelta(seconds=self.seconds - 1000)

    async def sleep(self, seconds: float) -> None:
        """Move on."""
        self.waits.append(seconds)
        self.seconds += seconds


@dataclass
class StepTiming(QuickTiming):
    """Virtual time in which every wait lasts until the test ends it."""

    waiting: asyncio.Queue[asyncio.Event] = field(default_factory=asyncio.Queue)

    async def sleep(self, seconds: float) -> None:
        """Wait for ``next_beat``."""
        self.waits.append(seconds)
        over = asyncio.Event()
        self.waiting.put_nowait(over)
        await over.wait()
        self.seconds += seconds

    async def next_beat(self) -> None:
        """End the present wait, and return when the next one has begun: the beat in between was answered."""
        (await self.waiting.get()).set()
        self.waiting.put_nowait(await self.waiting.get())

    def timing(self) -> Timing:
        """Jitter always takes the middle."""
        return Timing(
            monotonic=lambda: self.seconds,
            now=self.now,
            sleep=self.sleep,
            uniform=lambda low, high: (low + high) / 2,
        )


def parse_task(key: str = "contract-8a4d") -> TaskSpec:
    """A task with one step of the parsing service."""
    step = StepSpec(step_id=STEP, operation_code="DOCUMENT.PARSE", expected_producer=PARSER)
    return TaskSpec(client_task_key=key, title="Contract", steps=[step], input_ref="file:contract.txt")


async def activated(coordinator: Coordinator, attempt: int = 1) -> ExecutionContext:
    """The context of a fresh task's step, at the given attempt."""
    workflow = await coordinator.create_workflow("batch-1", owner_id="u-88", title="Batch", tasks=[parse_task()])
    task_id = workflow.tasks[0].task_id
    context = await coordinator.activate(task_id, STEP)
    for number in range(2, attempt + 1):
        context = await coordinator.activate(task_id, STEP, attempt=number)
    return context
