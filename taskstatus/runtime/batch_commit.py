"""One batch, one transaction: lock, read, decide in the pure domain, write, commit."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from taskstatus.application.ports_clock import Clock
from taskstatus.application.ports_store import StepKey, TaskStore, TransactionAttempt, WriteTransaction
from taskstatus.domain.batch import Arrival, WorkingSet, evaluate
from taskstatus.domain.commands import TaskEventCommand
from taskstatus.domain.notifications import OutboxTools
from taskstatus.domain.verdicts import Accepted, Coalesced, Verdict, settle_as_first


class BatchCommit:
    """Commits 1…N commands of any tasks in one transaction and returns their verdicts in order."""

    def __init__(self, store: TaskStore, clock: Clock, tools: OutboxTools, oldest_accepted: timedelta) -> None:
        self._store = store
        self._clock = clock
        self._tools = tools
        self._oldest_accepted = oldest_accepted

    async def __call__(self, commands: Sequence[TaskEventCommand]) -> list[Verdict]:
        """Raises StoreUnavailableError and StoreRefusedError; nothing is committed then, or it is unknown."""
        earlier: list[Verdict] = []

        async def body(tx: WriteTransaction, attempt: TransactionAttempt) -> list[Verdict]:
            rows = await _read(tx, commands)
            read_at = self._clock.monotonic_seconds()
            arrivals = [Arrival(command, read_at - command.received_monotonic) for command in commands]
            verdicts, changes = evaluate(arrivals, rows, self._tools, self._oldest_accepted)
            if not changes.is_empty:
                await tx.write(changes)
            if attempt.settling:
                verdicts = _settle(earlier, verdicts)
            earlier[:] = verdicts
            return verdicts

        return await self._store.transact(body)


def _settle(earlier: Sequence[Verdict], verdicts: Sequence[Verdict]) -> list[Verdict]:
    """After an ambiguous COMMIT: what was about to be written and is now found written is our own first result."""
    if len(earlier) != len(verdicts):
        return list(verdicts)
    return [
        settle_as_first(now) if isinstance(then, Accepted | Coalesced) else now
        for then, now in zip(earlier, verdicts, strict=True)
    ]


async def _read(tx: WriteTransaction, commands: Sequence[TaskEventCommand]) -> WorkingSet:
    """Lock and read everything that the commands name, with the same number of statements for 1 and for N."""
    locked = await tx.lock_tasks(sorted({command.task_id for command in commands}))
    execution_ids = sorted({command.execution_id for command in commands if command.execution_id is not None})
    steps = {step.key: step for step in (await tx.executions(execution_ids)).values()} if execution_ids else {}
    step_keys = _coordinator_steps(commands, {task_id: row.state.attempt for task_id, row in locked.items()})
    if step_keys:
        for attempts in (await tx.step_attempts(step_keys)).values():
            steps |= {step.key: step for step in attempts}
    seen = await tx.seen_events(sorted({(command.task_id, command.content.event_id) for command in commands}))
    return WorkingSet(
        tasks={task_id: row.state for task_id, row in locked.items()},
        steps=steps,
        seen=dict(seen),
        now={task_id: row.now for task_id, row in locked.items()},
    )


def _coordinator_steps(commands: Sequence[TaskEventCommand], runs: dict[bytes, int]) -> list[StepKey]:
    """The steps that coordinators end on their own identity; they are named by step, not by execution."""
    keys = {
        (command.task_id, command.task_attempt or runs[command.task_id], command.step_id)
        for command in commands
        if command.execution_id is None and command.step_id and command.task_id in runs
    }
    return sorted(keys)
