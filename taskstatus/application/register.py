"""Creating workflows and tasks, activating executions: each command one transaction, safe to send again (R-1…R-11)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from taskstatus.application.definition_binding import DefinitionBinding, wanted_by
from taskstatus.application.executions import BoundExecution, ExecutionCommands, binding_of
from taskstatus.application.ids_factory import IdFactory
from taskstatus.application.ports_definitions import DefinitionRegistry
from taskstatus.application.ports_runtime import WakeUp
from taskstatus.application.ports_store import TaskStore, TransactionAttempt, WriteTransaction
from taskstatus.domain.activation import Activation, ActivationRows, activate
from taskstatus.domain.channels import check_user_channel
from taskstatus.domain.commands import ActivateAttempt, Caller, CreateTask, CreateWorkflow, TaskSpec
from taskstatus.domain.creation import add_task, create_workflow
from taskstatus.domain.dynamic import DynamicLimits
from taskstatus.domain.errors import RefusedError, invalid
from taskstatus.domain.ids import ExecutionId, TaskId, WorkflowId, bucket_of_id, bucket_of_owner
from taskstatus.domain.metadata import refuse_taken
from taskstatus.domain.notifications import OutboxTools
from taskstatus.domain.reasons import Reason
from taskstatus.domain.records import ChangeSet
from taskstatus.domain.state import Grant, StepState, TaskState, WorkflowState


@dataclass(frozen=True, slots=True)
class CreatedWorkflow:
    """A workflow and its initial tasks, in the order asked for; ``created`` is False for a repeat."""

    workflow: WorkflowState
    tasks: tuple[TaskState, ...]
    created: bool


@dataclass(frozen=True, slots=True)
class CreatedTask:
    """A task of a workflow; ``created`` is False for a repeat."""

    workflow: WorkflowState
    task: TaskState
    created: bool


class Registration:
    """The commands of RegisterService but renewal."""

    def __init__(
        self,
        store: TaskStore,
        executions: ExecutionCommands,
        ids: IdFactory,
        tools: OutboxTools,
        wake_up: WakeUp,
        definitions: DefinitionRegistry,
        limits: DynamicLimits,
    ) -> None:
        self._limits = limits
        self._binding = DefinitionBinding(definitions)
        self._store = store
        self._executions = executions
        self._ids = ids
        self._tools = tools
        self._wake_up = wake_up

    async def create_workflow(self, command: CreateWorkflow) -> CreatedWorkflow:
        """Create, or return what the same key created before.

        Raises RefusedError IDEMPOTENCY_CONFLICT, DEFINITION_NOT_FOUND, DEFINITION_INCOMPATIBLE.
        """
        caller = command.caller
        check_user_channel("ownerId", caller.tenant_id, command.owner_id)
        _check_grantees(caller, (*command.grants, *(grant for task in command.tasks for grant in task.grants)))
        await self._prepare(caller, command.tasks)
        bucket = bucket_of_owner(caller.tenant_id, command.owner_id)
        workflow_id = WorkflowId(self._ids.new(bucket))
        # Created at the same moment, they stand in lists by id: let that be the order in which they were given.
        task_ids = sorted(TaskId(self._ids.new(bucket)) for _ in command.tasks)

        async def body(tx: WriteTransaction, _: TransactionAttempt) -> CreatedWorkflow:
            existing = await tx.find_workflow_by_key(
                caller.tenant_id, caller.authority_scope, command.client_workflow_key
            )
            if existing is not None:
                return await self._repeat_workflow(tx, command, existing, workflow_id)
            bound = replace(command, tasks=tuple(self._bound(caller, task) for task in command.tasks))
            await _check_relations(tx, caller, "initialTasks", command.tasks)
            now = await tx.now()
            workflow, tasks, changes = create_workflow(bound, workflow_id, bucket, task_ids, now, self._tools)
            await tx.write(changes)
            return CreatedWorkflow(workflow, tuple(tasks), created=True)

        created = await self._store.transact(body)
        self._wake_up.hint()
        return created

    async def _repeat_workflow(
        self, tx: WriteTransaction, command: CreateWorkflow, existing: WorkflowState, ours: WorkflowId
    ) -> CreatedWorkflow:
        if existing.creation_digest != command.digest:
            raise _conflict("clientWorkflowKey", "a workflow with this key was created with other content")
        keys = [spec.client_task_key for spec in command.tasks]
        tasks = await tx.tasks_of_workflow(existing.workflow_id, keys)
        # The same id means that an earlier COMMIT of this very call had gone through.
        is_ours = existing.workflow_id == ours
        return CreatedWorkflow(existing, tuple(tasks[key] for key in keys), created=is_ours)

    async def create_task(self, command: CreateTask) -> CreatedTask:
        """Create, or return what the same key created before.

        Raises RefusedError WORKFLOW_NOT_FOUND, IDEMPOTENCY_CONFLICT, DEFINITION_NOT_FOUND, DEFINITION_INCOMPATIBLE.
        """
        _check_grantees(command.caller, command.task.grants)
        task_id = TaskId(self._ids.new(bucket_of_id(command.workflow_id)))
        await self._prepare(command.caller, [command.task])

        async def body(tx: WriteTransaction, _: TransactionAttempt) -> CreatedTask:
            locked = await tx.lock_workflow(command.workflow_id)
            if locked is None or not _is_callers(command.caller, locked.state):
                raise RefusedError(Reason.WORKFLOW_NOT_FOUND, "no such workflow")
            key = command.task.client_task_key
            existing = (await tx.tasks_of_workflow(command.workflow_id, [key])).get(key)
            if existing is not None:
                return _repeat_task(command, locked.state, existing, task_id)
            bound = replace(command, task=self._bound(command.caller, command.task))
            await _check_relations(tx, command.caller, "task", [command.task])
            workflow, task, changes = add_task(bound, locked.state, task_id, locked.now, self._tools)
            await tx.write(changes)
            return CreatedTask(workflow, task, created=True)

        created = await self._store.transact(body)
        self._wake_up.hint()
        return created

    async def activate(self, command: ActivateAttempt) -> BoundExecution:
        """The execution of an attempt, new or as given before. Raises RefusedError as ``domain.activation`` says."""
        execution_id = ExecutionId(self._ids.new(bucket_of_id(command.task_id)))

        async def body(tx: WriteTransaction, attempt: TransactionAttempt) -> Activation:
            rows = await _activation_rows(tx, command)
            if attempt.settling and (ours := await _committed_before(tx, rows, execution_id)):
                return ours
            activation = activate(command, rows, execution_id, self._tools, self._binding.operation_of, self._limits)
            if not activation.changes.is_empty:
                await tx.write(activation.changes)
            return activation

        activation = await self._store.transact(body)
        self._wake_up.hint()
        binding = binding_of(activation.task, activation.step)
        credentials = self._executions.issue(binding, activation.step.generation)
        is_ours = activation.created or binding.execution_id == execution_id
        return BoundExecution(binding, activation.task, activation.step, credentials, created=is_ours)

    async def _prepare(self, caller: Caller, tasks: Sequence[TaskSpec]) -> None:
        await self._binding.prepare(caller.tenant_id, caller.authority_scope, map(wanted_by, tasks))

    def _bound(self, caller: Caller, task: TaskSpec) -> TaskSpec:
        """The task as it is first created; a repeat is answered from what the first one bound."""
        return self._binding.bind_spec(caller.tenant_id, caller.authority_scope, task)


def _check_grantees(caller: Caller, grants: Sequence[Grant]) -> None:
    for grant in grants:
        if grant.principal_type == "USER":
            check_user_channel("grants", caller.tenant_id, grant.principal_id)


async def _check_relations(tx: WriteTransaction, caller: Caller, path: str, tasks: Sequence[TaskSpec]) -> None:
    """Parents must be the caller's, and no number may name another task already (ID-5)."""
    parents = await tx.peek_tasks([task.parent_task_id for task in tasks if task.parent_task_id is not None])
    refs = [ref for task in tasks for ref in task.external_refs]
    if len(set(refs)) != len(refs):
        raise invalid(path, "the same external reference stands twice")
    for task in tasks:
        parent = None if task.parent_task_id is None else parents.get(task.parent_task_id)
        if task.parent_task_id is not None and (parent is None or not _is_in_scope(caller, parent)):
            raise RefusedError(Reason.TASK_NOT_FOUND, "no such parent task", metadata={"field": "parentTaskId"})
        for ref in task.external_refs:
            holder = await tx.external_ref(caller.tenant_id, caller.authority_scope, ref)
            refuse_taken(ref, holder, "externalRefs")


def _is_in_scope(caller: Caller, task: TaskState) -> bool:
    envelope = task.envelope
    return (envelope.tenant_id, envelope.authority_scope) == (caller.tenant_id, caller.authority_scope)


async def _activation_rows(tx: WriteTransaction, command: ActivateAttempt) -> ActivationRows:
    locked = (await tx.lock_tasks([command.task_id])).get(command.task_id)
    if locked is None:
        return ActivationRows(None, (), None, None, await tx.now())
    run = command.task_attempt or locked.state.attempt
    key = (command.task_id, run, command.step_id)
    attempts = (await tx.step_attempts([key])).get(key, ())
    parent_id = command.dynamic.parent_execution_id if command.dynamic else None
    parents = await tx.executions([parent_id]) if parent_id else {}
    seen = await tx.seen_events([(command.task_id, command.command_id)])
    answered = seen.get((command.task_id, command.command_id))
    is_repeat = answered is not None and answered.digest == command.digest
    runs = await tx.runs([(command.task_id, run)]) if command.dynamic else {}
    is_new_to_run = command.dynamic is not None and not attempts and run > 1
    return ActivationRows(
        locked.state,
        attempts,
        parents.get(parent_id) if parent_id else None,
        answered,
        locked.now,
        runs[command.task_id, run].run if (command.task_id, run) in runs else None,
        await tx.last_step_version(command.task_id, command.step_id) if is_new_to_run else 0,
        await _of_earlier_run(tx, command, locked.state) if is_repeat else None,
    )


async def _of_earlier_run(tx: WriteTransaction, command: ActivateAttempt, task: TaskState) -> StepState | None:
    """The execution that a command gave out in a run before the current one; None for one of the current run (R-6)."""
    event = await tx.committed_event(command.task_id, command.command_id)
    if event is None or event.execution_id is None or event.task_attempt == task.attempt:
        return None
    return (await tx.executions([event.execution_id])).get(event.execution_id)


async def _committed_before(tx: WriteTransaction, rows: ActivationRows, execution_id: ExecutionId) -> Activation | None:
    """What the lost reply of a COMMIT would have told; meanwhile the task may have run again (R-6, R-7)."""
    step = (await tx.executions([execution_id])).get(execution_id)
    if step is None or rows.task is None:
        return None
    task = rows.task if rows.seen is None else replace(rows.task, version=rows.seen.result.task_version)
    return Activation(task, step, created=True, changes=ChangeSet())


def _repeat_task(command: CreateTask, workflow: WorkflowState, existing: TaskState, ours: TaskId) -> CreatedTask:
    if existing.envelope.creation_digest != command.task.digest:
        raise _conflict("task.clientTaskKey", "a task with this key was created with other content")
    return CreatedTask(workflow, existing, created=existing.envelope.task_id == ours)


def _is_callers(caller: Caller, workflow: WorkflowState) -> bool:
    return (workflow.tenant_id, workflow.authority_scope) == (caller.tenant_id, caller.authority_scope)


def _conflict(field: str, message: str) -> RefusedError:
    return RefusedError(Reason.IDEMPOTENCY_CONFLICT, message, metadata={"field": field})
