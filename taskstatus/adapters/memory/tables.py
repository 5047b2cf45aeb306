"""The tables of the in-memory store with the unique keys of the real ones."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from taskstatus.application.ports_store import StoreRefusedError
from taskstatus.domain.business_status import generic_name
from taskstatus.domain.evolve import PROGRESS_OF_STEP, PROGRESS_OF_TASK
from taskstatus.domain.ids import ExecutionId, TaskId, WorkflowId
from taskstatus.domain.lease import LeaseState
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.records import (
    AuditRecord,
    ChangeSet,
    DedupRecord,
    EndedRun,
    EventRecord,
    ExternalRefRecord,
    LeaseRecord,
    OutboxKind,
    OutboxRecord,
    RunOutcome,
    RunRecord,
    RunView,
    WorkflowEventRecord,
)
from taskstatus.domain.state import TASK_ENDED, ExternalRef, Grant, StepState, TaskState, WorkflowState


class KeyTakenError(StoreRefusedError):
    """A unique key is taken: running the transaction again may find the row that took it."""


StepRowKey = tuple[TaskId, int, str, int]
GrantKey = tuple[TaskId, str, str]
RefKey = tuple[str, str, ExternalRef]
"""(tenant, scope, number)."""


@dataclass(frozen=True, slots=True)
class LeaseRow:
    """A lease as it was opened, and as it is now."""

    lease: LeaseRecord
    state: LeaseState

    @property
    def closed_at(self) -> datetime | None:
        """When it was closed; None while it is open."""
        return self.state.closed_at


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run and, once it has ended, the task as it stood then."""

    run: RunRecord
    outcome: TaskState | None = None

    def view(self) -> RunView:
        """As the ports give it."""
        task = self.outcome
        if task is None:
            return RunView(self.run, None)
        return RunView(
            self.run,
            RunOutcome(
                task.lifecycle,
                task.business_status,
                task.progress_points,
                task.failure,
                task.started_at,
                task.finished_at,
                task.duration_ms,
                task.duration_source,
            ),
        )


@dataclass(slots=True)
class Tables:
    """All rows by primary key, and which secondary unique keys are taken."""

    workflows: dict[WorkflowId, WorkflowState] = field(default_factory=dict)
    workflow_events: dict[tuple[WorkflowId, int], WorkflowEventRecord] = field(default_factory=dict)
    tasks: dict[TaskId, TaskState] = field(default_factory=dict)
    runs: dict[tuple[TaskId, int], RunRow] = field(default_factory=dict)
    steps: dict[StepRowKey, StepState] = field(default_factory=dict)
    leases: dict[ExecutionId, LeaseRow] = field(default_factory=dict)
    grants: dict[GrantKey, Grant] = field(default_factory=dict)
    dedups: dict[tuple[TaskId, str], DedupRecord] = field(default_factory=dict)
    events: dict[tuple[TaskId, int], EventRecord] = field(default_factory=dict)
    outbox: dict[bytes, OutboxRecord] = field(default_factory=dict)
    """But for triggers: what the relay sees."""
    triggers: dict[bytes, OutboxRecord] = field(default_factory=dict)
    """Rows of kind AGGREGATE; the projector deletes them."""
    external_refs: dict[RefKey, ExternalRefRecord] = field(default_factory=dict)
    audits: dict[bytes, AuditRecord] = field(default_factory=dict)
    workflow_keys: dict[tuple[str, str, str], WorkflowId] = field(default_factory=dict)
    task_keys: dict[tuple[WorkflowId, str], TaskId] = field(default_factory=dict)
    execution_keys: dict[ExecutionId, StepRowKey] = field(default_factory=dict)
    message_keys: set[Hashable] = field(default_factory=set)
    steps_of_run: dict[tuple[TaskId, int], list[StepRowKey]] = field(default_factory=dict)

    def check(self, changes: ChangeSet) -> None:
        """Raises StoreRefusedError when a unique key is taken or an updated row does not exist."""
        _all_new("workflow", (row.workflow_id for row in changes.new_workflows), self.workflows)
        _all_new("workflow_client_key", map(workflow_key, changes.new_workflows), self.workflow_keys)
        _all_there("workflow", (row.workflow_id for row in changes.workflows), self.workflows)
        _all_new("workflow_event_log", map(_workflow_event_key, changes.workflow_events), self.workflow_events)
        self._check_tasks(changes)
        self._check_steps(changes)
        self._check_leases(changes)
        _all_new("task_event_dedup", ((row.task_id, row.event_id) for row in changes.dedups), self.dedups)
        _all_new("task_event_log", ((row.task_id, row.task_version) for row in changes.events), self.events)
        _all_new("task_outbox", (row.outbox_id for row in changes.outbox), {**self.outbox, **self.triggers})
        _all_new("outbox_message", map(_message_key, changes.outbox), self.message_keys)
        _all_new("task_external_ref", map(_ref_key, changes.external_refs), self.external_refs)
        _all_new("command_audit", (row.audit_id for row in changes.audits), self.audits)

    def apply(self, changes: ChangeSet, now: datetime) -> None:
        """Write checked changes; ``now`` is when leases close."""
        self._apply_workflows(changes)
        self._apply_tasks(changes)
        for step in (*changes.new_steps, *changes.steps):
            self._put_step(step)
        for lease in changes.opened_leases:
            self.leases[lease.execution_id] = LeaseRow(lease, lease.as_opened())
        for state in changes.leases:
            self.leases[state.execution_id] = replace(self.leases[state.execution_id], state=state)
        for _, execution_id in changes.closed_leases:
            self._close_lease(execution_id, now)
        for ended in changes.ended_runs:
            self._end_run(ended)
        self.dedups.update({(row.task_id, row.event_id): row for row in changes.dedups})
        self.events.update({(row.task_id, row.task_version): row for row in changes.events})
        self.workflow_events.update({_workflow_event_key(row): row for row in changes.workflow_events})
        self._apply_outbox(changes)
        self.external_refs.update({_ref_key(row): row for row in changes.external_refs})
        self.audits.update({row.audit_id: row for row in changes.audits})

    def steps_in(self, task_id: TaskId, task_attempt: int) -> list[StepState]:
        """Every step attempt of one run."""
        return [self.steps[key] for key in self.steps_of_run.get((task_id, task_attempt), ())]

    def members_of(self, workflow_id: WorkflowId) -> list[TaskState]:
        """Every task of a workflow."""
        return [task for task in self.tasks.values() if task.envelope.workflow_id == workflow_id]

    def grants_of(self, task_ids: Container[TaskId]) -> dict[TaskId, tuple[Grant, ...]]:
        """The grants of these tasks by principal; tasks without one are absent."""
        found: dict[TaskId, tuple[Grant, ...]] = {}
        for key in sorted(self.grants):
            if key[0] in task_ids:
                found[key[0]] = (*found.get(key[0], ()), self.grants[key])
        return found

    def refs_of(self, task_id: TaskId) -> tuple[ExternalRef, ...]:
        """The numbers that name a task, by type and value."""
        refs = [row.ref for row in self.external_refs.values() if row.task_id == task_id]
        return tuple(sorted(refs, key=lambda ref: (ref.ref_type, ref.ref_value)))

    def _check_tasks(self, changes: ChangeSet) -> None:
        created = {task.envelope.task_id for task in changes.new_tasks}
        created_runs = {(run.task_id, run.task_attempt) for run in changes.new_runs}
        _all_new("task", map(_task_key, changes.new_tasks), self.tasks)
        _all_new("task_client_key", map(_client_task_key, changes.new_tasks), self.task_keys)
        _all_there("task", map(_task_key, changes.tasks), self.tasks, created)
        for task in changes.tasks:
            if task.envelope.task_id in changes.progressed:
                _check_progress(self.tasks[task.envelope.task_id], task, (*PROGRESS_OF_TASK, "envelope"))
        _all_new("task_run", ((run.task_id, run.task_attempt) for run in changes.new_runs), self.runs)
        _all_there("task_run", map(_run_key, changes.ended_runs), self.runs, created_runs)
        _all_there("task_run", ((run.task_id, run.task_attempt) for run in changes.runs), self.runs, created_runs)
        _all_there("task", map(_task_key, changes.relabelled), self.tasks, created)
        _all_new("task_acl", map(_grant_key, changes.new_task_grants), self.grants)

    def _check_steps(self, changes: ChangeSet) -> None:
        created = {step.key for step in changes.new_steps}
        _all_new("task_step", (step.key for step in changes.new_steps), self.steps)
        _all_there("task_step", (step.key for step in changes.steps), self.steps, created)
        for step in changes.steps:
            if step.task_id in changes.progressed:
                _check_progress(self.steps[step.key], step, PROGRESS_OF_STEP)
        newly_activated = [
            step.terms.execution_id
            for step in (*changes.new_steps, *changes.steps)
            if step.terms is not None and self.execution_keys.get(step.terms.execution_id) != step.key
        ]
        _all_new("task_step_execution", newly_activated, self.execution_keys)

    def _check_leases(self, changes: ChangeSet) -> None:
        _all_new("task_execution_lease", (row.execution_id for row in changes.opened_leases), self.leases)
        for lease in changes.leases:
            row = self.leases.get(lease.execution_id)
            if row is None or row.closed_at is not None:
                raise StoreRefusedError("a changed row of task_execution_lease does not exist, or is closed")

    def _apply_workflows(self, changes: ChangeSet) -> None:
        for workflow in changes.new_workflows:
            self.workflows[workflow.workflow_id] = workflow
            self.workflow_keys[workflow_key(workflow)] = workflow.workflow_id
        for workflow in changes.workflows:
            grants = self.workflows[workflow.workflow_id].grants
            self.workflows[workflow.workflow_id] = replace(workflow, grants=grants)

    def _apply_tasks(self, changes: ChangeSet) -> None:
        for task in changes.tasks:
            # As the real one: an ordinary update never writes the envelope.
            known = self.tasks.get(task.envelope.task_id)
            self.tasks[task.envelope.task_id] = task if known is None else replace(task, envelope=known.envelope)
        for task in (*changes.new_tasks, *changes.relabelled):
            self.tasks[task.envelope.task_id] = task
            self.task_keys[_client_task_key(task)] = task.envelope.task_id
        for run in changes.new_runs:
            self.runs[(run.task_id, run.task_attempt)] = RunRow(run)
        for run in changes.runs:
            key = (run.task_id, run.task_attempt)
            self.runs[key] = replace(self.runs[key], run=run)
        self.grants.update({_grant_key(given): given[1] for given in changes.new_task_grants})

    def _apply_outbox(self, changes: ChangeSet) -> None:
        for row in changes.outbox:
            rows = self.triggers if row.kind is OutboxKind.AGGREGATE else self.outbox
            rows[row.outbox_id] = row
        self.message_keys.update(map(_message_key, changes.outbox))
        for _, trigger_id in changes.settled_triggers:
            settled = self.triggers.pop(trigger_id, None)
            if settled is not None:
                self.message_keys.discard(_message_key(settled))

    def _put_step(self, step: StepState) -> None:
        if step.key not in self.steps:
            self.steps_of_run.setdefault((step.task_id, step.task_attempt), []).append(step.key)
        self.steps[step.key] = step
        if step.terms is not None:
            self.execution_keys[step.terms.execution_id] = step.key

    def _close_lease(self, execution_id: ExecutionId, now: datetime) -> None:
        row = self.leases.get(execution_id)
        if row is not None and row.closed_at is None:
            state = replace(row.state, closed_at=now, deadline_at=None, stuck_at=None)
            self.leases[execution_id] = replace(row, state=state)

    def _end_run(self, ended: EndedRun) -> None:
        key = _run_key(ended)
        self.runs[key] = replace(self.runs[key], outcome=ended.state)
        for step in self.steps_in(*key):
            if not step.lifecycle.is_terminal:
                self.steps[step.key] = _cancelled(step, ended.ended_at)
            if step.terms is not None:
                self._close_lease(step.terms.execution_id, ended.ended_at)


def workflow_key(workflow: WorkflowState) -> tuple[str, str, str]:
    """The unique key of a workflow's creation (ID-3)."""
    return (workflow.tenant_id, workflow.authority_scope, workflow.client_workflow_key)


def _cancelled(step: StepState, ended_at: datetime) -> StepState:
    return replace(
        step,
        lifecycle=Lifecycle.CANCELLED,
        business_status=generic_name(Lifecycle.CANCELLED),
        end_reason=TASK_ENDED,
        stale=False,
        finished_at=ended_at,
        version=step.version + 1,
    )


def _check_progress(before: TaskState | StepState, after: TaskState | StepState, moved: Iterable[str]) -> None:
    """Raise AssertionError when a progress changed a field that the real tables would not write."""
    kept = replace(after, **{name: getattr(before, name) for name in moved})
    assert kept == before, f"a progress changed more than {', '.join(moved)}"


def _all_new(what: str, keys: Iterable[Hashable], taken: Container[Any]) -> None:
    seen: set[Hashable] = set()
    for key in keys:
        if key in taken or key in seen:
            raise KeyTakenError(f"duplicate key of {what}")
        seen.add(key)


def _all_there(what: str, keys: Iterable[Hashable], *places: Container[Any]) -> None:
    if any(all(key not in place for place in places) for key in keys):
        raise StoreRefusedError(f"an updated row of {what} does not exist")


def _task_key(task: TaskState) -> TaskId:
    return task.envelope.task_id


def _client_task_key(task: TaskState) -> tuple[WorkflowId, str]:
    return (task.envelope.workflow_id, task.envelope.client_task_key)


def _workflow_event_key(event: WorkflowEventRecord) -> tuple[WorkflowId, int]:
    return (event.workflow_id, event.workflow_version)


def _run_key(ended: EndedRun) -> tuple[TaskId, int]:
    return (ended.state.envelope.task_id, ended.state.attempt)


def _grant_key(given: tuple[TaskState, Grant]) -> GrantKey:
    task, grant = given
    return (task.envelope.task_id, grant.principal_type, grant.principal_id)


def _ref_key(row: ExternalRefRecord) -> RefKey:
    return (row.tenant_id, row.authority_scope, row.ref)


def _message_key(row: OutboxRecord) -> Hashable:
    return (row.aggregate_type, row.aggregate_id, row.aggregate_version, row.kind, row.projection, row.audience)
