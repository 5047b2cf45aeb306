"""UpdateWorkflow: its title, its coordinator's ruling, and the end of that ruling; never its tasks (L-7, R-6)."""

from __future__ import annotations

from datetime import datetime

from taskstatus.domain.commands import Caller, actor_of
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import WorkflowId
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.notifications import OutboxTools
from taskstatus.domain.own_events import Origin
from taskstatus.domain.quick_dataclasses import dataclass, replace
from taskstatus.domain.reasons import Reason
from taskstatus.domain.records import ChangeSet, WorkflowEventRecord
from taskstatus.domain.state import WorkflowState
from taskstatus.domain.workflow_changes import with_ruling, without_ruling
from taskstatus.domain.workflow_events import fact_of, record_version


@dataclass(frozen=True, slots=True)
class UpdateWorkflow:
    """Change a workflow's title or status; what is None stays."""

    caller: Caller
    command_id: str
    workflow_id: WorkflowId
    expected_version: int
    """The version that the caller has seen (If-Match); 0: any."""
    title: str | None
    ruling: Lifecycle | None
    """Never PENDING: what has begun has begun."""
    withdraw: bool
    """Whether an earlier ruling ends, so that the tasks decide again."""
    reason: str
    digest: bytes
    trace_id: bytes | None = None
    traceparent: str = ""


@dataclass(frozen=True, slots=True)
class WorkflowRows:
    """What the decision looks at, read under the workflow's lock."""

    workflow: WorkflowState | None
    seen: WorkflowEventRecord | None
    """The first event of the workflow with the command's id."""
    now: datetime


@dataclass(frozen=True, slots=True)
class WorkflowOutcome:
    """The workflow after the command, and what is to be written (nothing for a repeat or a no-op)."""

    workflow: WorkflowState
    changes: ChangeSet
    changed: bool
    duplicate: bool = False


def update_workflow(command: UpdateWorkflow, rows: WorkflowRows, tools: OutboxTools) -> WorkflowOutcome:
    """Judged in the order of every command (R-6): it exists, the caller may, seen before, expected version, the change.

    Raises RefusedError WORKFLOW_NOT_FOUND, PERMISSION_DENIED, IDEMPOTENCY_CONFLICT, VERSION_MISMATCH; then nothing is
    written.
    """
    workflow = _admitted(command, rows.workflow)
    if rows.seen is not None:
        return _repeated(command, workflow, rows.seen)
    if command.expected_version not in (0, workflow.version):
        raise RefusedError(
            Reason.VERSION_MISMATCH,
            f"the workflow is at version {workflow.version}; read it again",
            metadata={"workflowVersion": str(workflow.version)},
        )
    at = max(rows.now, workflow.committed_at)
    after = _changed(command, workflow, at)
    if after == workflow:
        return WorkflowOutcome(workflow, ChangeSet(), changed=False)
    after = replace(after, version=workflow.version + 1, committed_at=at)
    changes = ChangeSet(workflows=[after])
    actor = actor_of(command.caller)
    origin = Origin(actor, command.command_id, command.trace_id, command.traceparent, rows.now)
    fact = fact_of(origin, EventType.WORKFLOW_UPDATED, command.digest, reason=command.reason)
    record_version(changes, after, fact, tools)
    return WorkflowOutcome(after, changes, changed=True)


def _admitted(command: UpdateWorkflow, workflow: WorkflowState | None) -> WorkflowState:
    caller = command.caller
    if workflow is None or (workflow.tenant_id, workflow.authority_scope) != (caller.tenant_id, caller.authority_scope):
        raise RefusedError(Reason.WORKFLOW_NOT_FOUND, "no such workflow")
    if workflow.coordinator_producer != caller.producer_id:
        raise RefusedError(Reason.PERMISSION_DENIED, "only the workflow's recorded coordinator may do this")
    return workflow


def _repeated(command: UpdateWorkflow, workflow: WorkflowState, seen: WorkflowEventRecord) -> WorkflowOutcome:
    if seen.digest != command.digest:
        raise RefusedError(
            Reason.IDEMPOTENCY_CONFLICT,
            "this command id was used for something else on the workflow",
            metadata={"commandId": command.command_id},
        )
    as_first_answered = replace(workflow, version=seen.workflow_version)
    return WorkflowOutcome(as_first_answered, ChangeSet(), changed=True, duplicate=True)


def _changed(command: UpdateWorkflow, workflow: WorkflowState, at: datetime) -> WorkflowState:
    after = workflow if command.title is None else replace(workflow, title=command.title)
    if command.ruling is not None:
        after = with_ruling(after, command.ruling, command.reason, at)
    elif command.withdraw and after.ruled:
        after = without_ruling(after, at)
    return after
