"""Requests on a workflow that exists → commands: every check of form, and nothing that needs state."""

from __future__ import annotations

from taskstatus_pb.v1 import common_pb2, workflow_pb2

from taskstatus.application.identity import ServiceIdentity
from taskstatus.domain import text
from taskstatus.domain.errors import invalid
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.workflow_commands import UpdateWorkflow
from taskstatus.entrypoints.wire.call import CallInfo
from taskstatus.entrypoints.wire.decode import caller_of, known_workflow_id
from taskstatus.entrypoints.wire.trace import trace_id_of
from taskstatus.entrypoints.wire.values import canonical_command, enum_name

_KEYS = ("command_id", "workflow_id", "expected_workflow_version")
"""What is no content of the command: its keys, and the version expected (R-6)."""


def to_update_workflow(
    request: workflow_pb2.UpdateWorkflowRequest, identity: ServiceIdentity, call: CallInfo
) -> UpdateWorkflow:
    """The command of UpdateWorkflow."""
    title = text.check_title("title", request.title) if request.HasField("title") else None
    ruling = _ruling(request)
    if title is None and ruling is None and not request.withdraw_ruling:
        raise invalid("title", "nothing to change is named: title, lifecycleStatus or withdrawRuling")
    reason = text.check_text("reason", request.reason, text.DECISION_REASON_MAX)
    if ruling is not None and not reason.strip():
        raise invalid("reason", "is required with a ruling")
    _, digest = canonical_command(request, without=_KEYS)
    return UpdateWorkflow(
        caller=caller_of(identity),
        command_id=text.check_id("commandId", request.command_id, text.EVENT_ID_MAX),
        workflow_id=known_workflow_id(request.workflow_id),
        expected_version=request.expected_workflow_version,
        title=title,
        ruling=ruling,
        withdraw=request.withdraw_ruling,
        reason=reason,
        digest=digest,
        trace_id=trace_id_of(call.traceparent),
        traceparent=call.traceparent,
    )


def _ruling(request: workflow_pb2.UpdateWorkflowRequest) -> Lifecycle | None:
    if request.lifecycle_status == common_pb2.LIFECYCLE_STATUS_UNSPECIFIED:
        return None
    if request.withdraw_ruling:
        raise invalid("withdrawRuling", "cannot be given together with lifecycleStatus")
    name = enum_name("lifecycleStatus", common_pb2.LifecycleStatus.DESCRIPTOR, request.lifecycle_status)
    if name == Lifecycle.PENDING:
        raise invalid("lifecycleStatus", "cannot be ruled to be PENDING")
    return Lifecycle(name)
