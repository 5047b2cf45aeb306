"""Fills the database with tasks whose steps are all activated, through the product's own domain and store.

Creation and activation are not what is measured, so they skip the RPC: a hundred tasks per transaction. The rows are
those that the API would have left.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import orjson

from bench import workload
from bench.workload import Execution, Task
from taskstatus.adapters.clock import SystemClock, SystemRandomness
from taskstatus.adapters.mysql.engine import PoolLimits, open_database
from taskstatus.adapters.mysql.transactions import MySqlTaskStore
from taskstatus.adapters.tokens.execution_credentials import JwtExecutionCredentials
from taskstatus.application.executions import binding_of
from taskstatus.application.ids_factory import IdFactory
from taskstatus.application.ports_store import TransactionAttempt, WriteTransaction
from taskstatus.domain.commands import Caller, CreateWorkflow, StepSpec, TaskSpec
from taskstatus.domain.creation import create_workflow
from taskstatus.domain.ids import ExecutionId, TaskId, WorkflowId, bucket_of_owner
from taskstatus.domain.notifications import OutboxTools
from taskstatus.domain.records import ChangeSet
from taskstatus.domain.state import ExecutionTerms, FailurePolicy, StepState, TaskState

TASKS_PER_WORKFLOW = 100
MAX_STEPS_PER_WORKFLOW = 3_000
"""A transaction with more rows than that would be too long."""
WRITERS = 4
BEAT_SECONDS, SILENCE_SECONDS = 900, 14_400
"""Interval and timeout of every execution: no silence counts during a run, since STALE would be events of its own."""
_CALLER = Caller(workload.TENANT, workload.SCOPE, workload.COORDINATOR)
_CANONICAL = b"prepared by the bench"
_DIGEST = hashlib.sha256(_CANONICAL).digest()


@dataclass(frozen=True, slots=True)
class Order:
    """How many tasks to prepare, dealt to so many owners ``{name}-0``, ``{name}-1``, …"""

    name: str
    tasks: int
    owners: int = 20
    steps: int = workload.STEPS_PER_TASK

    @property
    def tasks_per_workflow(self) -> int:
        """As many as one transaction makes."""
        return max(1, min(TASKS_PER_WORKFLOW, self.tasks, MAX_STEPS_PER_WORKFLOW // self.steps))

    def owner(self, number: int) -> str:
        """The owner of the workflow with this number."""
        return f"{self.name}-{number % self.owners}"


class Preparer:
    """Makes pools of tasks; ``close`` when done."""

    def __init__(self, database_url: str, execution_keys_file: Path) -> None:
        clock, randomness = SystemClock(), SystemRandomness()
        self._database = open_database(database_url, PoolLimits(writers=WRITERS))
        self._store = MySqlTaskStore(self._database.writer, clock, randomness)
        self._ids = IdFactory(clock, randomness)
        self._tools = OutboxTools(self._ids.new, orjson.dumps)
        self._credentials = JwtExecutionCredentials.from_file(execution_keys_file, clock)
        self._free_writers = asyncio.Semaphore(WRITERS)

    async def pool(self, order: Order) -> list[Task]:
        """At least as many tasks as ordered, neighbours with different owners."""
        count = -(-order.tasks // order.tasks_per_workflow)
        workflows = await asyncio.gather(*(self._workflow(order, number) for number in range(count)))
        return [task for tasks in zip(*workflows, strict=True) for task in tasks]

    async def close(self) -> None:
        """Close the connections."""
        await self._database.dispose()

    async def _workflow(self, order: Order, number: int) -> list[Task]:
        async with self._free_writers:
            changes = self._changes(order, number)

            async def body(tx: WriteTransaction, _attempt: TransactionAttempt) -> None:
                await tx.write(changes)

            await self._store.transact(body)
        steps: dict[TaskId, list[StepState]] = {}
        for step in changes.new_steps:
            steps.setdefault(step.task_id, []).append(step)
        return [[self._execution(task, step) for step in steps[task.envelope.task_id]] for task in changes.new_tasks]

    def _changes(self, order: Order, number: int) -> ChangeSet:
        owner = order.owner(number)
        bucket = bucket_of_owner(workload.TENANT, owner)
        task_ids = [TaskId(self._ids.new(bucket)) for _ in range(order.tasks_per_workflow)]
        now = datetime.now(UTC).replace(tzinfo=None)
        command = _command(f"{order.name}-{number}", owner, order)
        workflow_id = WorkflowId(self._ids.new(bucket))
        _, _, changes = create_workflow(command, workflow_id, bucket, task_ids, now, self._tools)
        changes.new_steps = [self._activated(step) for step in changes.new_steps]
        return changes

    def _activated(self, step: StepState) -> StepState:
        return replace(step, terms=_terms(self._ids.new(step.bucket)))

    def _execution(self, task: TaskState, step: StepState) -> Execution:
        binding = binding_of(task, step)
        return Execution(
            workflow_id=binding.workflow_id,
            task_id=binding.task_id,
            execution_id=binding.execution_id,
            step_id=binding.step_id,
            handle=self._credentials.make_handle(binding, step.generation),
        )


def _terms(execution_id: bytes) -> ExecutionTerms:
    return ExecutionTerms(ExecutionId(execution_id), _DIGEST, "", BEAT_SECONDS, SILENCE_SECONDS)


def prepare(database_url: str, execution_keys_file: Path, orders: Sequence[Order]) -> list[list[Task]]:
    """A pool for each order."""

    async def make() -> list[list[Task]]:
        preparer = Preparer(database_url, execution_keys_file)
        try:
            return [await preparer.pool(order) for order in orders]
        finally:
            await preparer.close()

    return asyncio.run(make())


def _command(key: str, owner: str, order: Order) -> CreateWorkflow:
    return CreateWorkflow(
        caller=_CALLER,
        command_id=f"create-{key}",
        client_workflow_key=key,
        owner_id=owner,
        title="Contracts of the quarter",
        workflow_type="DOCUMENTS",
        coordinator_producer="",
        grants=(),
        tasks=tuple(_task(number, order.steps) for number in range(order.tasks_per_workflow)),
        digest=_DIGEST,
    )


def _task(number: int, steps: int) -> TaskSpec:
    return TaskSpec(
        client_task_key=f"document-{number}",
        title=f"Contract {number} of the quarter",
        task_type="DOCUMENT",
        product_id="archive",
        priority=0,
        input_ref=f"documents/2026/contract-{number}.pdf",
        steps=tuple(_step(step) for step in range(1, steps + 1)),
        coordinator_producer="",
        policy_executors=(),
        grants=(),
        sensitive=False,
        canonical=_CANONICAL,
        digest=_DIGEST,
    )


def _step(number: int) -> StepSpec:
    return StepSpec(
        step_id=f"{number:02}_parse",
        operation_code=workload.OPERATION,
        expected_producer=workload.WORKER,
        depends_on=(),
        failure_policy=FailurePolicy.RETRY_THEN_FAIL_TASK,
        display_name=f"Parse part {number}",
        weight=1,
        max_run_seconds=0,
    )
