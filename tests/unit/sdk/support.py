"""What the SDK's tests share: a clock that moves when it is waited on, and a task to work on."""

from __future__ import annotations

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
