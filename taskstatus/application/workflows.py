"""Workflows as their coordinator changes them and as people and services read them (L-7, P-4)."""

from __future__ import annotations

from dataclasses import replace

from taskstatus.application.identity import Identity, ServiceIdentity, UserIdentity
from taskstatus.application.ports_runtime import WakeUp
from taskstatus.application.ports_store import TaskStore, TransactionAttempt, WriteTransaction
from taskstatus.application.ports_workflows import Principals, WorkflowReader, WorkflowReading
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.ids import WorkflowId, parse_workflow_id
from taskstatus.domain.notifications import OutboxTools
from taskstatus.domain.permissions import VIEW, permits
from taskstatus.domain.reasons import Reason
from taskstatus.domain.state import WorkflowState
from taskstatus.domain.workflow_commands import UpdateWorkflow, WorkflowOutcome, WorkflowRows, update_workflow
from taskstatus.domain.workflow_views import WorkflowView, full_cut, reader_cut


class Workflows:
    """UpdateWorkflow, GetWorkflow, and who may follow a workflow."""

    def __init__(self, store: TaskStore, reader: WorkflowReader, tools: OutboxTools, wake_up: WakeUp) -> None:
        self._store = store
        self._reader = reader
        self._tools = tools
        self._wake_up = wake_up

    async def update(self, command: UpdateWorkflow) -> WorkflowOutcome:
        """See ``domain.workflow_commands``; a commit whose reply was lost is settled as our own."""

        async def body(tx: WriteTransaction, attempt: TransactionAttempt) -> WorkflowOutcome:
            outcome = update_workflow(command, await _rows(tx, command), self._tools)
            if not outcome.changes.is_empty:
                await tx.write(outcome.changes)
            return replace(outcome, duplicate=False) if attempt.settling else outcome

        outcome = await self._store.transact(body)
        self._wake_up.hint()
        return outcome

    async def view(self, identity: Identity, workflow_id_text: str) -> WorkflowView:
        """The workflow as this reader may see it. Raises RefusedError WORKFLOW_NOT_FOUND.

        Services of the scope and the owner see all of it. Everybody else sees the tasks that are granted to them; who
        has a grant on the workflow sees it even without any.
        """
        workflow_id = _parse(workflow_id_text)
        if isinstance(identity, ServiceIdentity):
            reading = await self._reader.workflow(workflow_id, None)
            if reading is None or not _is_in_scope(reading.workflow, identity):
                raise workflow_not_found()
            return _whole(reading)
        reading = await self._reader.workflow(workflow_id, _principals(identity))
        if reading is None or reading.workflow.tenant_id != identity.tenant_id:
            raise workflow_not_found()
        if reading.workflow.owner_id == identity.user_id:
            return _whole(reading)
        assert reading.seen is not None
        if not reading.seen.counts.total and not permits(reading.workflow.grants, identity, VIEW):
            raise workflow_not_found()
        return WorkflowView(reading.workflow, reader_cut(reading.workflow, reading.seen), reading.as_of)

    async def followed(self, user: UserIdentity, workflow_id_text: str) -> WorkflowId:
        """The workflow, when this person may subscribe to its shared summaries: its owner, or by a grant on it.

        A grant on some of its tasks is not enough, since the summaries count the others too. Raises RefusedError
        WORKFLOW_NOT_FOUND.
        """
        reading = await self._reader.workflow(_parse(workflow_id_text), None)
        if reading is None or not _may_follow(reading.workflow, user):
            raise workflow_not_found()
        return reading.workflow.workflow_id


def workflow_not_found() -> RefusedError:
    """The one answer for an unknown workflow, another tenant's and one that the person may not see."""
    return RefusedError(Reason.WORKFLOW_NOT_FOUND, "no such workflow")


async def _rows(tx: WriteTransaction, command: UpdateWorkflow) -> WorkflowRows:
    locked = await tx.lock_workflow(command.workflow_id)
    if locked is None:
        return WorkflowRows(None, None, await tx.now())
    seen = await tx.workflow_event(command.workflow_id, command.command_id)
    return WorkflowRows(locked.state, seen, locked.now)


def _parse(text: str) -> WorkflowId:
    workflow_id = parse_workflow_id(text)
    if workflow_id is None:
        raise workflow_not_found()
    return workflow_id


def _whole(reading: WorkflowReading) -> WorkflowView:
    return WorkflowView(reading.workflow, full_cut(reading.workflow), reading.as_of)


def _is_in_scope(workflow: WorkflowState, service: ServiceIdentity) -> bool:
    return (workflow.tenant_id, workflow.authority_scope) == (service.tenant_id, service.authority_scope)


def _may_follow(workflow: WorkflowState, user: UserIdentity) -> bool:
    if workflow.tenant_id != user.tenant_id:
        return False
    return workflow.owner_id == user.user_id or permits(workflow.grants, user, VIEW)


def _principals(user: UserIdentity) -> Principals:
    return Principals(user.user_id, tuple(sorted(user.projects)), tuple(sorted(user.roles)))
