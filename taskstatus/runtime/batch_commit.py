"""One batch, one transaction: lock, read, decide in the pure domain, write, commit.

Two reads are spared on the first run of a transaction. Rows that this process committed itself come from the row cache
while their task's revision says so. And the dedup rows of an execution's events are not read when every other guard
accepts them: ``sourceSeq`` rises, so that only an event id used for two facts could be there. Then the unique key of
the dedup table refuses the rows, and the store runs the transaction again, which reads everything. Whatever is *not*
accepted has its dedup row read before it is answered: a known event gets its first result again (E-3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from taskstatus.application.ports_clock import Clock
from taskstatus.application.ports_definitions import StatusDefinitions
from taskstatus.application.ports_runtime import ServiceObserver
from taskstatus.application.ports_store import LockedTask, StepKey, TaskStore, TransactionAttempt, WriteTransaction
from taskstatus.domain.batch import Arrival, RowKey, WorkingSet, evaluate
from taskstatus.domain.business_status import StatusDefinition
from taskstatus.domain.commands import TaskEventCommand
from taskstatus.domain.ids import ExecutionId, TaskId
from taskstatus.domain.lease import LeaseState
from taskstatus.domain.notifications import OutboxTools
from taskstatus.domain.records import ChangeSet, OutboxKind, SeenEvent
from taskstatus.domain.state import StepState
from taskstatus.domain.verdicts import Accepted, Coalesced, Duplicate, Verdict, settle_as_first
from taskstatus.runtime.row_cache import RowCache

SeenKey = tuple[TaskId, str]


@dataclass(frozen=True, slots=True)
class _Rows:
    """What one run of the transaction has read."""

    locked: Mapping[TaskId, LockedTask]
    steps: Mapping[RowKey, StepState]
    seen: dict[SeenKey, SeenEvent]
    leases: Mapping[ExecutionId, LeaseState]
    statuses: Mapping[TaskId, StatusDefinition]

    def working_set(self) -> WorkingSet:
        """A set of its own for one evaluation, which changes it."""
        return WorkingSet(
            tasks={task_id: row.state for task_id, row in self.locked.items()},
            steps=dict(self.steps),
            seen=dict(self.seen),
            now={task_id: row.now for task_id, row in self.locked.items()},
            leases=dict(self.leases),
            statuses=self.statuses,
        )


def untold() -> None:
    """Nobody follows in this process."""


class BatchCommit:
    """Commits 1…N commands of any tasks in one transaction and returns their verdicts in order."""

    def __init__(
        self,
        store: TaskStore,
        definitions: StatusDefinitions,
        clock: Clock,
        tools: OutboxTools,
        observer: ServiceObserver,
        oldest_accepted: timedelta,
        cached_tasks: int,
        on_trigger: Callable[[], None] = untold,
    ) -> None:
        """``on_trigger`` is called after a commit that leaves workflows something to follow (L-7)."""
        self._store = store
        self._definitions = definitions
        self._observer = observer
        self._clock = clock
        self._tools = tools
        self._oldest_accepted = oldest_accepted
        self._cache = RowCache(cached_tasks)
        self._on_trigger = on_trigger

    async def __call__(self, commands: Sequence[TaskEventCommand]) -> list[Verdict]:
        """Raises StoreUnavailableError and StoreRefusedError; nothing is committed then, or it is unknown."""
        earlier: list[Verdict] = []
        committed: list[tuple[_Rows, WorkingSet, ChangeSet]] = []

        async def body(tx: WriteTransaction, attempt: TransactionAttempt) -> list[Verdict]:
            spares = attempt.number == 1
            if not spares:
                self._cache.clear()
            rows = await self._read(tx, commands, spares=spares)
            read_at = self._clock.monotonic_seconds()
            arrivals = [Arrival(command, read_at - command.received_monotonic) for command in commands]
            after = rows.working_set()
            verdicts, changes = evaluate(arrivals, after, self._tools, self._oldest_accepted)
            unread = _unread(commands, verdicts) if spares else []
            if unread:
                rows.seen.update(await tx.seen_events(unread))
                after = rows.working_set()
                verdicts, changes = evaluate(arrivals, after, self._tools, self._oldest_accepted)
            if not changes.is_empty:
                await tx.write(changes)
            if attempt.settling:
                verdicts = _settle(earlier, verdicts)
            earlier[:] = verdicts
            committed[:] = [(rows, after, changes)]
            return verdicts

        try:
            verdicts = await self._store.transact(body)
        except Exception:
            self._cache.clear()
            raise
        rows, after, changes = committed[-1]
        self._remember(rows, after)
        if any(row.kind is OutboxKind.AGGREGATE for row in changes.outbox):
            self._on_trigger()
        return verdicts

    async def _read(self, tx: WriteTransaction, commands: Sequence[TaskEventCommand], *, spares: bool) -> _Rows:
        """Lock and read what the commands name, with the same number of statements for 1 and for N."""
        task_ids = sorted({command.task_id for command in commands})
        asked = self._clock.monotonic_seconds()
        locked = await tx.lock_tasks(task_ids, self._cache.tasks(task_ids) if spares else {})
        self._observer.rows_locked(self._clock.monotonic_seconds() - asked)
        steps = await self._read_steps(tx, commands, locked)
        observed = {command.execution_id for command in commands if command.observed and command.execution_id}
        leases = await tx.leases(sorted(observed)) if observed else {}
        keys = {
            (command.task_id, command.content.event_id)
            for command in commands
            if not spares or command.credential is None
        }
        seen = dict(await tx.seen_events(sorted(keys))) if keys else {}
        return _Rows(locked, steps, seen, leases, await self._statuses(commands, locked))

    async def _statuses(
        self, commands: Sequence[TaskEventCommand], locked: Mapping[TaskId, LockedTask]
    ) -> dict[TaskId, StatusDefinition]:
        """The definitions by which the business statuses of the batch are judged; in memory as good as always.

        Raises StoreUnavailableError, and LookupError for a task whose definition is not in the store: its command is
        then found out and answered alone.
        """
        statuses: dict[TaskId, StatusDefinition] = {}
        for command in commands:
            row = locked.get(command.task_id) if command.content.business_status else None
            version = row.state.envelope.status_definition_version if row else None
            if row is None or not version or command.task_id in statuses:
                continue
            envelope = row.state.envelope
            bound = (envelope.tenant_id, envelope.authority_scope, envelope.task_type, version)
            known = self._definitions.known_statuses(*bound)
            statuses[command.task_id] = known or await self._definitions.bound_statuses(*bound)
        return statuses

    async def _read_steps(
        self, tx: WriteTransaction, commands: Sequence[TaskEventCommand], locked: Mapping[TaskId, LockedTask]
    ) -> dict[RowKey, StepState]:
        steps: dict[RowKey, StepState] = {}
        unknown = set()
        for command in commands:
            row, execution_id = locked.get(command.task_id), command.execution_id
            if execution_id is None:
                continue
            known = None if row is None else self._cache.step(row.state, execution_id)
            if known is None:
                unknown.add(execution_id)
            else:
                steps[known.key] = known
        if unknown:
            steps |= {step.key: step for step in (await tx.executions(sorted(unknown))).values()}
        step_keys = _coordinator_steps(commands, {task_id: row.state.attempt for task_id, row in locked.items()})
        if step_keys:
            for attempts in (await tx.step_attempts(step_keys)).values():
                steps |= {step.key: step for step in attempts}
        return steps

    def _remember(self, rows: _Rows, after: WorkingSet) -> None:
        steps_of: dict[TaskId, list[StepState]] = {}
        for step in after.steps.values():
            steps_of.setdefault(step.task_id, []).append(step)
        for task_id, row in rows.locked.items():
            self._cache.keep(row.state, after.tasks[task_id], steps_of.get(task_id, ()))


def _unread(commands: Sequence[TaskEventCommand], verdicts: Sequence[Verdict]) -> list[SeenKey]:
    """Events that were not accepted, and whose dedup rows have not been read yet."""
    return sorted(
        {
            (command.task_id, command.content.event_id)
            for command, verdict in zip(commands, verdicts, strict=True)
            if command.credential is not None and not isinstance(verdict, Accepted | Coalesced | Duplicate)
        }
    )


def _settle(earlier: Sequence[Verdict], verdicts: Sequence[Verdict]) -> list[Verdict]:
    """After an ambiguous COMMIT: what was about to be written and is now found written is our own first result."""
    if len(earlier) != len(verdicts):
        return list(verdicts)
    return [
        settle_as_first(now) if isinstance(then, Accepted | Coalesced) else now
        for then, now in zip(earlier, verdicts, strict=True)
    ]


def _coordinator_steps(commands: Sequence[TaskEventCommand], runs: dict[bytes, int]) -> list[StepKey]:
    """The steps that coordinators end on their own identity; they are named by step, not by execution."""
    keys = {
        (command.task_id, command.task_attempt or runs[command.task_id], command.step_id)
        for command in commands
        if command.execution_id is None and command.step_id and command.task_id in runs
    }
    return sorted(keys)
