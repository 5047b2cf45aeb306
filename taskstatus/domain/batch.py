"""Evaluate 1…N commands, in arrival order, against one set of locked rows: the heart of the write path.

States of the batch: *read* (tasks, steps and dedup rows as locked) → *evaluated* (every command has its verdict, the
working set holds the states after the accepted ones) → *collected* (one ``ChangeSet``). Invariants: a refused, stale or
no-op command leaves the working set untouched; the same event id twice in one batch is a duplicate of the first;
task versions rise by one per accepted event, but for a progress that the next accepted event, a progress of the same
execution that says all that it said, absorbs (E-8): only something that is itself committed absorbs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta

from taskstatus.domain.business_status import StatusDefinition
from taskstatus.domain.commands import EventContent, TaskEventCommand
from taskstatus.domain.decide import Acceptance, Situation, decide, event_record, opened_lease
from taskstatus.domain.events import EventType
from taskstatus.domain.evolve import end_with_task
from taskstatus.domain.ids import ExecutionId, TaskId
from taskstatus.domain.lease import LeaseState
from taskstatus.domain.notifications import OutboxTools, aggregate_trigger, task_notifications
from taskstatus.domain.progress import replaces
from taskstatus.domain.quick_dataclasses import dataclass, replace
from taskstatus.domain.records import ChangeSet, DedupRecord, EndedRun, ReportResult, SeenEvent
from taskstatus.domain.state import StepState, TaskState
from taskstatus.domain.verdicts import Accepted, Coalesced, Duplicate, Verdict

RowKey = tuple[TaskId, int, str, int]

_FIRST_PAIR = 2
_KEPT_UNLESS_TOLD = ("phase_code", "phase_label", "data", "progress_seq")
"""Fields of an event that stay as they were when the next event is silent about them."""


@dataclass(slots=True)
class WorkingSet:
    """The rows of one batch as they are now, with those that have changed."""

    tasks: dict[TaskId, TaskState]
    steps: dict[RowKey, StepState]
    seen: dict[tuple[TaskId, str], SeenEvent]
    now: Mapping[TaskId, datetime]
    leases: dict[ExecutionId, LeaseState] = field(default_factory=dict)
    """Of the executions whose health the batch's commands may change."""
    statuses: Mapping[TaskId, StatusDefinition] = field(default_factory=dict)
    """Of the tasks with a definition of their own to which the batch's commands report a business status."""
    by_execution: dict[ExecutionId, RowKey] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for key, step in self.steps.items():
            if step.terms is not None:
                self.by_execution[step.terms.execution_id] = key

    def step_of(self, command: TaskEventCommand) -> StepState | None:
        """The attempt that the command names: by its execution, else the coordinator's choice or the latest."""
        if command.execution_id is not None:
            key = self.by_execution.get(command.execution_id)
            return None if key is None else self.steps[key]
        task = self.tasks.get(command.task_id)
        if task is None or not command.step_id:
            return None
        run = command.task_attempt or task.attempt
        attempts = [
            step
            for (task_id, attempt_of_task, step_id, _), step in self.steps.items()
            if (task_id, attempt_of_task, step_id) == (command.task_id, run, command.step_id)
            and command.step_attempt in (0, step.attempt)
        ]
        return max(attempts, key=lambda step: step.attempt, default=None)


@dataclass(frozen=True, slots=True)
class Arrival:
    """One command with how long it has waited in this process, in seconds."""

    command: TaskEventCommand
    waited_seconds: float


def evaluate(
    arrivals: Sequence[Arrival], rows: WorkingSet, tools: OutboxTools, oldest_accepted: timedelta
) -> tuple[list[Verdict], ChangeSet]:
    """The verdict of each command, in order, and everything that the accepted ones write."""
    batch = _Batch(rows, oldest_accepted)
    for arrival in arrivals:
        batch.add(arrival)
    batch.settle_absorbed()
    return batch.verdicts, batch.collect(tools)


class _Batch:
    def __init__(self, rows: WorkingSet, oldest_accepted: timedelta) -> None:
        self._rows = rows
        self._oldest_accepted = oldest_accepted
        self._acceptances: list[Acceptance | None] = []
        self._last_of_task: dict[TaskId, list[int]] = {}
        """Positions of the task's last accepted event and of the progress that it absorbs, which comes before it."""
        self._chains: list[list[int]] = []
        """Those of more than one event."""
        self._dirty_steps: dict[RowKey, None] = {}
        self._dirty_leases: dict[ExecutionId, None] = {}
        self._repeats: dict[tuple[TaskId, str], list[int]] = {}
        """Positions of the repeats of an event within this batch."""
        self.verdicts: list[Verdict] = []

    def add(self, arrival: Arrival) -> None:
        command = arrival.command
        now = self._rows.now.get(command.task_id, datetime.min)
        absorbed = self._absorbable(command)
        outcome = decide(
            command,
            Situation(
                task=self._rows.tasks.get(command.task_id),
                step=self._rows.step_of(command),
                seen=self._rows.seen.get((command.task_id, command.content.event_id)),
                now=now,
                received_at=_received_at(now, arrival.waited_seconds),
                oldest_accepted=self._oldest_accepted,
                lease=self._lease_of(command),
                statuses=self._rows.statuses.get(command.task_id),
            ),
            absorbs=bool(absorbed),
        )
        if isinstance(outcome, Acceptance):
            self._accept(outcome, absorbed)
        else:
            if isinstance(outcome, Duplicate):
                self._repeats.setdefault(_event_key(command), []).append(len(self.verdicts))
            self._acceptances.append(None)
            self.verdicts.append(outcome)

    def _lease_of(self, command: TaskEventCommand) -> LeaseState | None:
        if command.observed is None or command.execution_id is None:
            return None
        return self._rows.leases.get(command.execution_id)

    def _absorbable(self, command: TaskEventCommand) -> list[int]:
        """Positions of the chain of progress that this command would absorb; empty when it absorbs nothing."""
        chain = self._last_of_task.get(command.task_id, [])
        if not chain or command.content.event_type is not EventType.STEP_PROGRESS:
            return []
        last = self._acceptances[chain[-1]]
        is_same_stream = (
            last is not None
            and not last.asks_for_person
            and last.command.content.event_type is EventType.STEP_PROGRESS
            and last.command.execution_id == command.execution_id
            and _says_all_of(command.content, last.command.content)
        )
        return chain if is_same_stream else []

    def _accept(self, acceptance: Acceptance, absorbed: list[int]) -> None:
        position = len(self.verdicts)
        task_id = acceptance.command.task_id
        self._rows.tasks[task_id] = acceptance.task
        if acceptance.step is not None:
            self._rows.steps[acceptance.step.key] = acceptance.step
            self._dirty_steps[acceptance.step.key] = None
        if acceptance.lease is not None:
            self._rows.leases[acceptance.lease.execution_id] = acceptance.lease
            self._dirty_leases[acceptance.lease.execution_id] = None
        if acceptance.ends_run:
            self._end_loaded_steps(acceptance.task)
        self._acceptances.append(acceptance)
        self.verdicts.append(acceptance.verdict)
        self._remember(acceptance, acceptance.verdict.result)
        if absorbed:
            absorbed.append(position)
            if len(absorbed) == _FIRST_PAIR:
                self._chains.append(absorbed)
        else:
            self._last_of_task[task_id] = [position]

    def settle_absorbed(self) -> None:
        """Give absorbed progress the result of what absorbed it last, and so its repeats within the batch (E-8).

        Once for all: a burst of progress would else be gone through again for each event of it.
        """
        for *absorbed, last in self._chains:
            by = self._acceptances[last]
            assert by is not None
            result = replace(by.verdict.result, coalesced=True)
            for position in absorbed:
                acceptance = self._acceptances[position]
                assert acceptance is not None
                self.verdicts[position] = Coalesced(result)
                self._remember(acceptance, result)
                for repeat in self._repeats.get(_event_key(acceptance.command), ()):
                    self.verdicts[repeat] = Duplicate(result)

    def _remember(self, acceptance: Acceptance, result: ReportResult) -> None:
        """Let the same event id later in this batch find its first result."""
        self._rows.seen[_event_key(acceptance.command)] = SeenEvent(acceptance.command.digest, result)

    def _end_loaded_steps(self, task: TaskState) -> None:
        for key, step in self._rows.steps.items():
            if key[0] == task.envelope.task_id and key[1] == task.attempt:
                self._rows.steps[key] = end_with_task(step, task.committed_at)

    def collect(self, tools: OutboxTools) -> ChangeSet:
        changes = ChangeSet()
        changed_tasks: set[TaskId] = set()
        otherwise_changed: set[TaskId] = set()
        for acceptance, verdict in zip(self._acceptances, self.verdicts, strict=True):
            if acceptance is None:
                continue
            changed_tasks.add(acceptance.command.task_id)
            if acceptance.command.content.event_type is not EventType.STEP_PROGRESS:
                otherwise_changed.add(acceptance.command.task_id)
            self._collect_dedup(changes, acceptance, verdict)
            if isinstance(verdict, Accepted):
                self._collect_event(changes, acceptance, tools)
        changes.tasks = [self._rows.tasks[task_id] for task_id in changed_tasks]
        changes.steps = [self._rows.steps[key] for key in self._dirty_steps]
        changes.progressed = changed_tasks - otherwise_changed
        changes.leases = [self._rows.leases[execution_id] for execution_id in self._dirty_leases]
        return changes

    def _collect_dedup(self, changes: ChangeSet, acceptance: Acceptance, verdict: Verdict) -> None:
        command = acceptance.command
        assert isinstance(verdict, Accepted | Coalesced)
        changes.dedups.append(
            DedupRecord(
                command.task_id,
                acceptance.task.envelope.bucket,
                command.content.event_id,
                command.digest,
                verdict.result,
            )
        )

    def _collect_event(self, changes: ChangeSet, acceptance: Acceptance, tools: OutboxTools) -> None:
        command, task, step = acceptance.command, acceptance.task, acceptance.step
        changes.events.append(event_record(acceptance))
        changes.outbox.extend(
            task_notifications(
                tools,
                task,
                step,
                command.content.event_type,
                command.traceparent,
                was_waiting=acceptance.was_waiting,
            )
        )
        trigger = aggregate_trigger(tools, acceptance.before, task, command.content.event_type)
        if trigger is not None:
            changes.outbox.append(trigger)
        lease = opened_lease(acceptance)
        if lease is not None:
            changes.opened_leases.append(lease)
        if step is not None and step.lifecycle.is_terminal and step.terms is not None:
            changes.closed_leases.append((step.bucket, step.terms.execution_id))
        if acceptance.ends_run:
            changes.ended_runs.append(EndedRun(task, task.committed_at))


def _says_all_of(newer: EventContent, older: EventContent) -> bool:
    """Whether the log explains the state without the older event: nothing of it is left after the newer one (E-8).

    A business status is only absorbed by itself: what may follow depends on the one before, which the log must show.
    """
    is_told = all(getattr(newer, name) or not getattr(older, name) for name in _KEPT_UNLESS_TOLD)
    keeps_status = older.business_status in ("", newer.business_status)
    return is_told and keeps_status and replaces(newer.progress, older.progress)


def _event_key(command: TaskEventCommand) -> tuple[TaskId, str]:
    return (command.task_id, command.content.event_id)


def _received_at(now: datetime, waited_seconds: float) -> datetime:
    if now == datetime.min:
        return now
    return now - timedelta(microseconds=int(max(0.0, waited_seconds) * 1_000_000))
