"""Commands on a task that exists: each one transaction under the task's lock, safe to send again (R-6)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from taskstatus.application.executions import ExecutionDirectory, execution_not_found
from taskstatus.application.ports_definitions import StatusDefinitions
from taskstatus.application.ports_runtime import WakeUp
from taskstatus.application.ports_store import TaskStore, TransactionAttempt, WriteTransaction
from taskstatus.domain.business_status import StatusDefinition
from taskstatus.domain.cancellation import request_cancel
from taskstatus.domain.commands import Actor
from taskstatus.domain.correction import correct
from taskstatus.domain.ids import ExecutionId, TaskId
from taskstatus.domain.metadata import RefRows, attach_external_ref, update_metadata
from taskstatus.domain.notifications import OutboxTools
from taskstatus.domain.quick_dataclasses import replace
from taskstatus.domain.rerun import RerunRows, rerun
from taskstatus.domain.revocation import revoke
from taskstatus.domain.state import TaskState
from taskstatus.domain.task_commands import (
    AttachExternalRef,
    CommandHead,
    CommandOutcome,
    CommandRows,
    CorrectTask,
    RequestCancel,
    RerunTask,
    RevokeExecution,
    UpdateMetadata,
)

Decide = Callable[[WriteTransaction, CommandRows], Awaitable[CommandOutcome]]
"""Reads what the command needs besides, and decides."""


class TaskCommands:
    """Cancel, rerun, relabel, attach, revoke, correct; every method raises what its decision in the domain says."""

    def __init__(
        self,
        store: TaskStore,
        directory: ExecutionDirectory,
        definitions: StatusDefinitions,
        tools: OutboxTools,
        wake_up: WakeUp,
    ) -> None:
        self._store = store
        self._definitions = definitions
        self._directory = directory
        self._tools = tools
        self._wake_up = wake_up

    async def request_cancel(self, command: RequestCancel) -> CommandOutcome:
        """See ``domain.cancellation``."""

        async def decide(_: WriteTransaction, rows: CommandRows) -> CommandOutcome:
            return request_cancel(command, rows, self._tools)

        return await self.run(command.head, decide)

    async def rerun(self, command: RerunTask) -> CommandOutcome:
        """See ``domain.rerun``."""

        async def decide(tx: WriteTransaction, rows: CommandRows) -> CommandOutcome:
            return rerun(command, rows, await _rerun_rows(tx, command, rows.task), self._tools)

        return await self.run(command.head, decide)

    async def update_metadata(self, command: UpdateMetadata) -> CommandOutcome:
        """See ``domain.metadata``."""

        async def decide(_: WriteTransaction, rows: CommandRows) -> CommandOutcome:
            return update_metadata(command, rows, self._tools)

        return await self.run(command.head, decide)

    async def attach_external_ref(self, command: AttachExternalRef) -> CommandOutcome:
        """See ``domain.metadata``."""

        async def decide(tx: WriteTransaction, rows: CommandRows) -> CommandOutcome:
            actor = command.head.actor
            holder = await tx.external_ref(actor.tenant_id, actor.authority_scope, command.ref)
            refs = RefRows(holder, await tx.external_refs_of(command.head.task_id))
            return attach_external_ref(command, rows, refs, self._tools)

        return await self.run(command.head, decide)

    async def task_of_execution(self, actor: Actor, execution_id: ExecutionId) -> TaskId:
        """The task of an execution in the actor's scope. Raises RefusedError EXECUTION_NOT_FOUND."""
        binding = await self._directory.binding(execution_id)
        if (binding.tenant_id, binding.authority_scope) != (actor.tenant_id, actor.authority_scope):
            raise execution_not_found()
        return binding.task_id

    async def revoke(self, command: RevokeExecution) -> CommandOutcome:
        """See ``domain.revocation``; the head names the task that ``task_of_execution`` gave."""

        async def decide(tx: WriteTransaction, rows: CommandRows) -> CommandOutcome:
            steps = await tx.executions([command.execution_id])
            return revoke(command, rows, steps.get(command.execution_id), self._tools)

        return await self.run(command.head, decide)

    async def correct(self, command: CorrectTask) -> CommandOutcome:
        """See ``domain.correction``."""

        async def decide(_: WriteTransaction, rows: CommandRows) -> CommandOutcome:
            return correct(command, rows, await self._statuses_of(rows.task), self._tools)

        return await self.run(command.head, decide)

    async def _statuses_of(self, task: TaskState | None) -> StatusDefinition | None:
        version = task.envelope.status_definition_version if task else None
        if task is None or not version:
            return None
        envelope = task.envelope
        bound = (envelope.tenant_id, envelope.authority_scope, envelope.task_type, version)
        return self._definitions.known_statuses(*bound) or await self._definitions.bound_statuses(*bound)

    async def run(self, head: CommandHead, decide: Decide) -> CommandOutcome:
        """Lock, read, decide and write in one transaction; a commit whose reply was lost is settled as our own."""

        async def body(tx: WriteTransaction, attempt: TransactionAttempt) -> CommandOutcome:
            outcome = await decide(tx, await _rows(tx, head))
            if not outcome.changes.is_empty:
                await tx.write(outcome.changes)
            if attempt.settling and outcome.result.duplicate:
                # What is found committed now is what the lost reply would have told.
                return replace(outcome, result=replace(outcome.result, duplicate=False))
            return outcome

        outcome = await self._store.transact(body)
        self._wake_up.hint()
        return outcome


async def _rows(tx: WriteTransaction, head: CommandHead) -> CommandRows:
    locked = (await tx.lock_tasks([head.task_id])).get(head.task_id)
    if locked is None:
        return CommandRows(None, (), None, await tx.now())
    grants = (await tx.task_grants([head.task_id])).get(head.task_id, ()) if head.actor.is_person else ()
    key = (head.task_id, head.command_id)
    return CommandRows(locked.state, grants, (await tx.seen_events([key])).get(key), locked.now)


async def _rerun_rows(tx: WriteTransaction, command: RerunTask, task: TaskState | None) -> RerunRows:
    if task is None:
        return RerunRows((), {})
    task_id = command.head.task_id
    ids = sorted({skipped.source_event_id for skipped in command.skipped})
    found = [await tx.committed_event(task_id, event_id) for event_id in ids]
    sources = {event.event_id: event for event in found if event is not None}
    return RerunRows(await tx.steps_of_run(task_id, task.attempt), sources)
