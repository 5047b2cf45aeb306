"""How many statements one batch of events costs, and how many rows the database reads for it.

Measured on one connection of its own, by the server's session counters, through the product's own write path
(``BatchCommit`` over ``MySqlTaskStore``): no background loop of a service adds anything, so that the figures are exact
and the same in every run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import orjson

from bench import workload
from bench.prepare import Order, Preparer
from bench.workload import Execution, Task
from taskstatus.adapters.canonical import canonicalize
from taskstatus.adapters.clock import SystemClock, SystemRandomness
from taskstatus.adapters.memory.definitions import MemoryRegistry
from taskstatus.adapters.mysql.engine import PoolLimits, open_database
from taskstatus.adapters.mysql.session import Session, open_session
from taskstatus.adapters.mysql.transactions import MySqlTaskStore
from taskstatus.application.ids_factory import IdFactory
from taskstatus.domain.commands import Caller, Credential, EventContent, StatedFields, TaskEventCommand
from taskstatus.domain.events import EXECUTION_EVENTS, EventType
from taskstatus.domain.ids import ExecutionId, TaskId, WorkflowId
from taskstatus.domain.notifications import OutboxTools
from taskstatus.domain.progress import Progress
from taskstatus.domain.verdicts import Accepted
from taskstatus.runtime.batch_commit import BatchCommit

OLDEST_ACCEPTED = timedelta(days=7)
STATUS = (
    "SHOW SESSION STATUS WHERE Variable_name LIKE 'Handler_read%' OR Variable_name LIKE 'Handler_write'"
    " OR Variable_name LIKE 'Handler_update' OR Variable_name='Questions'"
)
STATEMENTS = "Questions"
READ = "Handler_read_"


class Silent:
    """A ServiceObserver that keeps nothing."""

    def __getattr__(self, _name: str) -> Silent:
        return self

    def __call__(self, *_arguments: object) -> None:
        """Whatever is told is not kept."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one batch cost: session counters by name."""

    kind: str
    events: int
    counters: dict[str, int]

    @property
    def statements(self) -> int:
        """With BEGIN and COMMIT."""
        return self.counters[STATEMENTS]

    @property
    def rows_read(self) -> int:
        """Rows read by whatever way."""
        return sum(value for name, value in self.counters.items() if name.startswith(READ))


async def costs(database_url: str, execution_keys_file: Path, steps: int, tasks: int) -> list[Cost]:
    """The cost of a batch with one event of each of ``tasks`` new tasks of ``steps`` steps: start, progress, end.

    Each batch is measured after one of its kind has gone before, on other executions: what the session reads once (a
    table's definition) is no part of it. Raises AssertionError when an event is not accepted.
    """
    pool = await _pool(database_url, execution_keys_file, Order(f"counted-{steps}-{tasks}", tasks, steps=steps))
    first, second = [task[0] for task in pool], [task[1] for task in pool]
    database = open_database(database_url, PoolLimits(writers=1, readers=1))
    try:
        clock, randomness = SystemClock(), SystemRandomness()
        tools = OutboxTools(IdFactory(clock, randomness).new, orjson.dumps)
        store = MySqlTaskStore(database.writer, clock, randomness)
        definitions = MemoryRegistry()
        commit = BatchCommit(store, definitions, clock, tools, Silent(), OLDEST_ACCEPTED, cached_tasks=10 * tasks)
        for kind in _KINDS:
            await _commit(commit, first, kind)
        found = []
        for kind in _KINDS:
            async with open_session(database.writer) as session:
                before = await _counters(session)
            await _commit(commit, second, kind)
            async with open_session(database.writer) as session:
                after = await _counters(session)
            # The first reading counts itself, as one statement and the rows that it shows.
            async with open_session(database.writer) as session:
                again = await _counters(session)
            own = {name: again[name] - after[name] for name in after}
            spent = {name: after[name] - before[name] - own[name] for name in after}
            found.append(Cost(kind.value, len(second), spent))
        return found
    finally:
        await database.dispose()


_KINDS = (EventType.STEP_STARTED, EventType.STEP_PROGRESS, EventType.STEP_COMPLETED)


async def _pool(database_url: str, execution_keys_file: Path, order: Order) -> list[Task]:
    preparer = Preparer(database_url, execution_keys_file)
    try:
        return await preparer.pool(order)
    finally:
        await preparer.close()


async def _counters(session: Session) -> dict[str, int]:
    rows = await session.rows(STATUS)
    return {str(row[0]): int(row[1]) for row in rows}


async def _commit(commit: BatchCommit, executions: Sequence[Execution], kind: EventType) -> None:
    verdicts = await commit([_command(execution, kind) for execution in executions])
    for verdict in verdicts:
        assert isinstance(verdict, Accepted), verdict


def _command(execution: Execution, kind: EventType) -> TaskEventCommand:
    number = _KINDS.index(kind)
    content = EventContent(event_id=f"{execution.step_id}-{number}", event_type=kind, source_seq=number + 1)
    if kind is EventType.STEP_PROGRESS:
        pages = Progress(1.0, 2.0, workload.PROGRESS_UNIT)
        content = EventContent(
            event_id=content.event_id, event_type=kind, source_seq=number + 1, progress=pages, progress_seq=1
        )
    caller = Caller(workload.TENANT, workload.SCOPE, workload.WORKER)
    command = TaskEventCommand(
        caller=caller,
        content=content,
        workflow_id=WorkflowId(execution.workflow_id),
        task_id=TaskId(execution.task_id),
        task_attempt=1,
        step_id=execution.step_id,
        step_attempt=1,
        execution_id=ExecutionId(execution.execution_id),
        operation_code=workload.OPERATION,
        bound=caller,
        credential=Credential(generation=1, expires_at=None, allowed_events=EXECUTION_EVENTS),
        stated=StatedFields(),
        canonical=b"",
        digest=b"",
        received_monotonic=0.0,
        received_unix=0.0,
        trace_id=None,
        traceparent="",
    )
    canonical, digest = canonicalize(command)
    return replace(command, canonical=canonical, digest=digest)
