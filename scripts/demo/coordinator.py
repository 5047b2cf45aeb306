"""``python -m scripts.demo.coordinator``: creates the task, runs its steps in order, rules on failures and on the end.

Told on the command line: the run's key, the owner, the file. On stdin it waits for a line, so that the watcher may
subscribe to the new task first.
"""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import dataclass
from typing import Any

from scripts.demo.cast import COORDINATOR, MAX_ATTEMPTS, PARSE, STEPS, Part, document_task
from scripts.demo.handover import Exchange, Message
from scripts.demo.narration import say, say_what_the_sdk_logs, tell
from taskstatus.sdk import Coordinator, StepError


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the demo."""

    key: str
    owner_id: str
    file: str


class DocumentTask:
    """Runs one document task from its creation to its end."""

    def __init__(self, coordinator: Coordinator, workers: Exchange, pace_seconds: float) -> None:
        self._coordinator = coordinator
        self._workers = workers
        self._pace_seconds = pace_seconds

    async def create(self, run: Run) -> str:
        """The task's id."""
        title = f"Document {run.file.rpartition('/')[2]}"[:200]
        task = document_task(run.key, title, f"demo://{run.key}/input")
        workflow = await self._coordinator.create_workflow(
            run.key, owner_id=run.owner_id, title="Demo", workflow_type="DEMO", tasks=[task]
        )
        created = workflow.tasks[0]
        say(f"has created {workflow.workflow_id}")
        say(f"has created {created.task_id} with {len(STEPS)} steps → version {created.task_version}")
        return created.task_id

    async def run(self, task_id: str, file: str) -> dict[str, Any]:
        """Every step in order, then the ruling on the task. Returns what is told at the end."""
        began = time.monotonic()
        reference = file
        for step_id, operation in STEPS.items():
            outcome = await self._step(task_id, step_id, operation, reference)
            if outcome["outcome"] != "completed":
                return await self._fail(task_id, step_id, outcome)
            reference = outcome["resultRef"]
        answer = await self._coordinator.complete_task(task_id, duration_ms=int((time.monotonic() - began) * 1000))
        say(f"rules: the task has succeeded → version {answer.task_version}")
        return {"status": answer.lifecycle_status, "resultRef": reference, "taskVersion": answer.task_version}

    async def _step(self, task_id: str, step_id: str, operation: str, reference: str) -> Message:
        """Attempts until one succeeds, or until another cannot help (W-5, L-6)."""
        for attempt in range(1, MAX_ATTEMPTS + 1):
            await asyncio.sleep(self._pace_seconds)
            context = await self._coordinator.activate(task_id, step_id, attempt=attempt)
            say(f"activates {step_id} attempt {attempt} → version {context.task_version}")
            if operation == PARSE and attempt == 2:
                await self._hear_the_late_attempt(operation)
            abandon = operation == PARSE and attempt == 1
            question = {"ask": "run", "context": context.to_dict(), "inputRef": reference, "abandon": abandon}
            outcome = await self._workers.ask(operation, question)
            if outcome["outcome"] == "completed" or outcome["retryable"] is False:
                return outcome
            say(f"rules: {step_id} is tried again; a failed step is not a failed task")
        return outcome

    async def _hear_the_late_attempt(self, operation: str) -> None:
        """The worker finishes what was given up; the service must not let it count."""
        late = await self._workers.ask(operation, {"ask": "finish_late"})
        tell("late", reason=late["reason"], accepted=late["accepted"])
        say(f"knows: the attempt that was given up is answered {late['reason']} and changes nothing")

    async def _fail(self, task_id: str, step_id: str, outcome: Message) -> dict[str, Any]:
        error = StepError(outcome["code"], outcome["message"], retryable=outcome["retryable"])
        answer = await self._coordinator.fail_task(task_id, error, failed_step_id=step_id)
        say(f"rules: the task has failed at {step_id}, {error.code} → version {answer.task_version}")
        return {"status": answer.lifecycle_status, "resultRef": "", "taskVersion": answer.task_version}


async def main(run: Run) -> None:
    """One run; ends when the task has ended."""
    say_what_the_sdk_logs()
    part = Part.from_environment()
    workers = Exchange()
    async with await workers.listen(part.socket), part.connect() as connection:
        tell("listening")
        await workers.complete(set(STEPS.values()))
        task = DocumentTask(Coordinator(connection, COORDINATOR), workers, part.pace_seconds)
        task_id = await task.create(run)
        tell("task", taskId=task_id)
        if await asyncio.to_thread(sys.stdin.readline):
            tell("ended", **await task.run(task_id, run.file))


if __name__ == "__main__":
    asyncio.run(main(Run(*sys.argv[1:4])))
