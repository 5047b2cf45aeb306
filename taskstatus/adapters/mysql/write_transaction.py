"""Reads under locks (port ``WriteTransaction``); writing is ``change_writer``'s."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from datetime import datetime

from taskstatus.adapters.mysql import (
    hot_sql,
    rows_command,
    rows_event,
    rows_lease,
    rows_member,
    rows_run,
    rows_step,
    rows_task,
    rows_workflow,
    workflow_sql,
)
from taskstatus.adapters.mysql.change_writer import write_changes
from taskstatus.adapters.mysql.session import Row, Session
from taskstatus.adapters.mysql.statements import cut_keys, flatten
from taskstatus.application.ports_store import NOTHING_KNOWN, LockedTask, LockedWorkflow, RunKey, StepKey
from taskstatus.domain.ids import ExecutionId, TaskId, WorkflowId, bucket_of_id
from taskstatus.domain.lease import LeaseState
from taskstatus.domain.records import (
    ChangeSet,
    EventRecord,
    ExternalRefRecord,
    RunView,
    SeenEvent,
    WorkflowEventRecord,
)
from taskstatus.domain.state import ExternalRef, Grant, StepState, TaskState, WorkflowState
from taskstatus.domain.workflow_aggregate import MemberTally


class MySqlWriteTransaction:
    """One open transaction; every method costs one statement for up to ``MAX_KEYS`` keys."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def now(self) -> datetime:
        """See the port."""
        rows = await self._session.rows(hot_sql.NOW)
        moment: datetime = rows[0][0]
        return moment

    async def find_workflow_by_key(self, tenant_id: str, authority_scope: str, key: str) -> WorkflowState | None:
        """See the port."""
        rows = await self._session.rows(hot_sql.FIND_WORKFLOW_BY_KEY, (tenant_id, authority_scope, key))
        if not rows:
            return None
        return rows_workflow.from_row(rows[0], await self._grants(WorkflowId(rows[0][1])))

    async def lock_workflow(self, workflow_id: WorkflowId) -> LockedWorkflow | None:
        """See the port."""
        rows = await self._session.rows(hot_sql.LOCK_WORKFLOW, (workflow_id, bucket_of_id(workflow_id)))
        if not rows:
            return None
        return LockedWorkflow(rows_workflow.from_row(rows[0], await self._grants(workflow_id)), rows[0][-1])

    async def lock_free_workflows(self, workflow_ids: Sequence[WorkflowId]) -> Mapping[WorkflowId, LockedWorkflow]:
        """See the port."""
        locked: dict[WorkflowId, LockedWorkflow] = {}
        for group in cut_keys(sorted(set(workflow_ids))):
            for row in await self._session.rows(workflow_sql.lock_free_workflows(len(group)), _keys(group)):
                state = rows_workflow.from_row(row, ())
                locked[state.workflow_id] = LockedWorkflow(state, row[-1])
        return locked

    async def existing_workflows(self, workflow_ids: Sequence[WorkflowId]) -> Set[WorkflowId]:
        """See the port."""
        found: set[WorkflowId] = set()
        for group in cut_keys(sorted(set(workflow_ids))):
            rows = await self._session.rows(workflow_sql.existing_workflows(len(group)), _keys(group))
            found |= {WorkflowId(row[0]) for row in rows}
        return found

    async def existing_triggers(self, trigger_ids: Sequence[bytes]) -> Set[bytes]:
        """See the port."""
        found: set[bytes] = set()
        for group in cut_keys(sorted(set(trigger_ids))):
            rows = await self._session.rows(workflow_sql.existing_triggers(len(group)), _keys(group))
            found |= {row[0] for row in rows}
        return found

    async def count_members(self, workflow_ids: Sequence[WorkflowId]) -> Mapping[WorkflowId, MemberTally]:
        """See the port."""
        found: dict[WorkflowId, MemberTally] = {}
        for group in cut_keys(sorted(set(workflow_ids))):
            found |= rows_member.tallies(await self._session.rows(workflow_sql.count_members(len(group)), _keys(group)))
        return found

    async def workflow_event(self, workflow_id: WorkflowId, event_id: str) -> WorkflowEventRecord | None:
        """See the port."""
        parameters = (workflow_id, event_id, bucket_of_id(workflow_id))
        rows = await self._session.rows(workflow_sql.EVENT_OF_COMMAND, parameters)
        return rows_workflow.event_from_row(rows[0]) if rows else None

    async def tasks_of_workflow(self, workflow_id: WorkflowId, keys: Sequence[str]) -> Mapping[str, TaskState]:
        """See the port."""
        found: dict[str, TaskState] = {}
        for group in cut_keys(sorted(set(keys))):
            parameters = (workflow_id, *group, bucket_of_id(workflow_id))
            for row in await self._session.rows(hot_sql.tasks_by_key(len(group)), parameters):
                state = rows_task.from_row(row)
                found[state.envelope.client_task_key] = state
        return found

    async def lock_tasks(
        self, task_ids: Sequence[TaskId], known: Mapping[TaskId, TaskState] = NOTHING_KNOWN
    ) -> Mapping[TaskId, LockedTask]:
        """See the port."""
        locked: dict[TaskId, LockedTask] = {}
        for group in cut_keys(sorted(set(task_ids))):
            parameters = (*group, *map(bucket_of_id, group))
            for row in await self._session.rows(hot_sql.lock_tasks(len(group)), parameters):
                task_id = rows_task.id_of(row)
                state = known.get(task_id)
                if state is None or state.row_revision != rows_task.revision_of(row):
                    state = rows_task.from_row(row)
                locked[task_id] = LockedTask(state, row[-1])
        return locked

    async def executions(self, execution_ids: Sequence[ExecutionId]) -> Mapping[ExecutionId, StepState]:
        """See the port."""
        found: dict[ExecutionId, StepState] = {}
        for group in cut_keys(sorted(set(execution_ids))):
            parameters = (*group, *map(bucket_of_id, group))
            for row in await self._session.rows(hot_sql.executions(len(group)), parameters):
                step = rows_step.from_row(row)
                if step.terms is not None:
                    found[step.terms.execution_id] = step
        return found

    async def step_attempts(self, keys: Sequence[StepKey]) -> Mapping[StepKey, tuple[StepState, ...]]:
        """See the port."""
        rows: list[Row] = []
        for group in cut_keys(sorted(set(keys))):
            parameters = (*flatten(group), *(bucket_of_id(task_id) for task_id, _, _ in group))
            rows.extend(await self._session.rows(hot_sql.step_attempts(len(group)), parameters))
        found: defaultdict[StepKey, list[StepState]] = defaultdict(list)
        for step in sorted(map(rows_step.from_row, rows), key=lambda step: step.attempt):
            found[(step.task_id, step.task_attempt, step.definition.step_id)].append(step)
        return {key: tuple(steps) for key, steps in found.items()}

    async def steps_of_run(self, task_id: TaskId, task_attempt: int) -> tuple[StepState, ...]:
        """See the port."""
        rows = await self._session.rows(hot_sql.STEPS_OF_RUN, (task_id, task_attempt, bucket_of_id(task_id)))
        return tuple(map(rows_step.from_row, rows))

    async def last_step_version(self, task_id: TaskId, step_id: str) -> int:
        """See the port."""
        rows = await self._session.rows(hot_sql.LAST_STEP_VERSION, (task_id, step_id, bucket_of_id(task_id)))
        return rows[0][0] or 0

    async def runs(self, keys: Sequence[RunKey]) -> Mapping[RunKey, RunView]:
        """See the port."""
        found: dict[RunKey, RunView] = {}
        for group in cut_keys(sorted(set(keys))):
            parameters = (*flatten(group), *(bucket_of_id(task_id) for task_id, _ in group))
            for row in await self._session.rows(hot_sql.runs(len(group)), parameters):
                view = rows_run.from_row(row)
                found[(view.run.task_id, view.run.task_attempt)] = view
        return found

    async def peek_tasks(self, task_ids: Sequence[TaskId]) -> Mapping[TaskId, TaskState]:
        """See the port."""
        found: dict[TaskId, TaskState] = {}
        for group in cut_keys(sorted(set(task_ids))):
            for row in await self._session.rows(hot_sql.tasks_unlocked(len(group)), _keys(group)):
                found[rows_task.id_of(row)] = rows_task.from_row(row)
        return found

    async def task_grants(self, task_ids: Sequence[TaskId]) -> Mapping[TaskId, tuple[Grant, ...]]:
        """See the port."""
        found: defaultdict[TaskId, list[Grant]] = defaultdict(list)
        for group in cut_keys(sorted(set(task_ids))):
            for row in await self._session.rows(hot_sql.task_grants(len(group)), _keys(group)):
                found[TaskId(row[0])].append(rows_task.grant_from_row(row))
        return {task_id: tuple(grants) for task_id, grants in found.items()}

    async def committed_event(self, task_id: TaskId, event_id: str) -> EventRecord | None:
        """See the port."""
        rows = await self._session.rows(hot_sql.EVENT_BY_ID, (event_id, task_id, bucket_of_id(task_id)))
        return rows_event.from_row(rows[0]) if rows else None

    async def external_ref(self, tenant_id: str, authority_scope: str, ref: ExternalRef) -> ExternalRefRecord | None:
        """See the port."""
        rows = await self._session.rows(hot_sql.EXTERNAL_REF, (tenant_id, authority_scope, ref.ref_type, ref.ref_value))
        return rows_command.ref_from_row(rows[0]) if rows else None

    async def external_refs_of(self, task_id: TaskId) -> tuple[ExternalRef, ...]:
        """See the port."""
        rows = await self._session.rows(hot_sql.REFS_OF_TASK, (task_id, bucket_of_id(task_id)))
        return tuple(rows_command.ref_from_row(row).ref for row in rows)

    async def leases(self, execution_ids: Sequence[ExecutionId]) -> Mapping[ExecutionId, LeaseState]:
        """See the port."""
        found: dict[ExecutionId, LeaseState] = {}
        for group in cut_keys(sorted(set(execution_ids))):
            parameters = (*group, *map(bucket_of_id, group))
            for row in await self._session.rows(hot_sql.lock_leases(len(group)), parameters):
                lease = rows_lease.from_row(row)
                found[lease.execution_id] = lease
        return found

    async def seen_events(self, keys: Sequence[tuple[TaskId, str]]) -> Mapping[tuple[TaskId, str], SeenEvent]:
        """See the port."""
        found: dict[tuple[TaskId, str], SeenEvent] = {}
        for group in cut_keys(sorted(set(keys))):
            parameters = (*flatten(group), *(bucket_of_id(task_id) for task_id, _ in group))
            found.update(
                map(rows_event.seen_from_row, await self._session.rows(hot_sql.seen_events(len(group)), parameters))
            )
        return found

    async def write(self, changes: ChangeSet) -> None:
        """See the port."""
        await write_changes(self._session, changes)

    async def _grants(self, workflow_id: WorkflowId) -> tuple[Grant, ...]:
        rows = await self._session.rows(hot_sql.WORKFLOW_GRANTS, (workflow_id, bucket_of_id(workflow_id)))
        return tuple(map(rows_task.grant_from_row, rows))


def _keys(ids: Sequence[bytes]) -> tuple[bytes | int, ...]:
    return (*ids, *map(bucket_of_id, ids))
