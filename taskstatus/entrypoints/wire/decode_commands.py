"""Requests on a task that exists → commands: every check of form, and nothing that needs state."""

from __future__ import annotations

from google.protobuf.message import Message
from taskstatus_pb.v1 import common_pb2, task_commands_pb2

from taskstatus.application.identity import Identity, Role, ServiceIdentity
from taskstatus.domain import text
from taskstatus.domain.commands import Actor, ReportedError
from taskstatus.domain.errors import invalid
from taskstatus.domain.ids import TaskId
from taskstatus.domain.lifecycle import TERMINAL, Lifecycle
from taskstatus.domain.task_commands import (
    AttachExternalRef,
    CommandHead,
    CorrectTask,
    RequestCancel,
    RerunTask,
    RevokeExecution,
    SkippedStep,
    UpdateMetadata,
)
from taskstatus.entrypoints.wire.call import CallInfo
from taskstatus.entrypoints.wire.decode import MAX_KNOWN_STEPS, known_execution_id, known_task_id
from taskstatus.entrypoints.wire.decode_event import reported_error
from taskstatus.entrypoints.wire.decode_terms import external_ref
from taskstatus.entrypoints.wire.trace import trace_id_of
from taskstatus.entrypoints.wire.values import canonical_command, enum_name

PLAN_ID_MAX = 64
MAX_PRIORITY = 100


def actor_of_identity(identity: Identity) -> Actor:
    """The domain's view of a verified caller, with what their claims say."""
    if isinstance(identity, ServiceIdentity):
        return Actor(
            identity.tenant_id,
            identity.authority_scope,
            identity.producer_id,
            is_admin=Role.ADMIN in identity.roles,
        )
    return Actor(identity.tenant_id, user_id=identity.user_id, projects=identity.projects, roles=identity.roles)


def head_of(
    request: Message, command_id: str, task_id: TaskId, identity: Identity, call: CallInfo, expected_version: int = 0
) -> CommandHead:
    """The head of a command; the ids that are keys, and the version expected, are no content (R-6)."""
    without = ("command_id", "task_id", "execution_id", "expected_task_version")
    canonical, digest = canonical_command(request, without=without)
    return CommandHead(
        actor=actor_of_identity(identity),
        command_id=text.check_id("commandId", command_id, text.EVENT_ID_MAX),
        task_id=task_id,
        canonical=canonical,
        digest=digest,
        expected_version=expected_version,
        trace_id=trace_id_of(call.traceparent),
        traceparent=call.traceparent,
    )


def to_request_cancel(
    request: task_commands_pb2.RequestCancelRequest, identity: Identity, call: CallInfo
) -> RequestCancel:
    """The command of RequestCancel."""
    head = head_of(request, request.command_id, known_task_id(request.task_id), identity, call)
    return RequestCancel(head, _reason(request.reason))


def to_rerun(request: task_commands_pb2.RerunTaskRequest, identity: Identity, call: CallInfo) -> RerunTask:
    """The command of RerunTask."""
    if len(request.skipped_steps) > MAX_KNOWN_STEPS:
        raise invalid("skippedSteps", f"at most {MAX_KNOWN_STEPS} are allowed")
    skipped = tuple(_skipped(f"skippedSteps[{i}]", step) for i, step in enumerate(request.skipped_steps))
    if len({step.step_id for step in skipped}) != len(skipped):
        raise invalid("skippedSteps", "the same stepId stands twice")
    text.check_optional_id("planId", request.plan_id, PLAN_ID_MAX)
    head = head_of(request, request.command_id, known_task_id(request.task_id), identity, call)
    return RerunTask(head, request.task_attempt, _reason(request.reason), skipped)


def to_update_metadata(
    request: task_commands_pb2.UpdateTaskMetadataRequest, identity: Identity, call: CallInfo
) -> UpdateMetadata:
    """The command of UpdateTaskMetadata."""
    task_id = known_task_id(request.task_id)
    if not any(request.HasField(name) for name in ("product_id", "title", "priority")):
        raise invalid("productId", "or title or priority is required")
    if request.HasField("priority") and abs(request.priority) > MAX_PRIORITY:
        raise invalid("priority", "must be −100 to 100")
    product_id = text.check_optional_id("productId", request.product_id, text.PRODUCT_MAX)
    return UpdateMetadata(
        head_of(request, request.command_id, task_id, identity, call, request.expected_task_version),
        product_id=product_id if request.HasField("product_id") else None,
        title=text.check_title("title", request.title) if request.HasField("title") else None,
        priority=request.priority if request.HasField("priority") else None,
        reason=_reason(request.reason),
    )


def to_attach_external_ref(
    request: task_commands_pb2.AttachExternalRefRequest, identity: Identity, call: CallInfo
) -> AttachExternalRef:
    """The command of AttachExternalRef."""
    if not request.HasField("external_ref"):
        raise invalid("externalRef", "is required")
    ref = external_ref("externalRef", request.external_ref)
    return AttachExternalRef(head_of(request, request.command_id, known_task_id(request.task_id), identity, call), ref)


def to_revoke(
    request: task_commands_pb2.RevokeExecutionRequest, task_id: TaskId, identity: Identity, call: CallInfo
) -> RevokeExecution:
    """The command of RevokeExecution on the task of its execution."""
    head = head_of(request, request.command_id, task_id, identity, call)
    return RevokeExecution(head, known_execution_id(request.execution_id), _reason(request.reason))


def to_correct(request: task_commands_pb2.CorrectTaskRequest, identity: Identity, call: CallInfo) -> CorrectTask:
    """The command of CorrectTask."""
    task_id = known_task_id(request.task_id)
    name = enum_name("lifecycleStatus", common_pb2.LifecycleStatus.DESCRIPTOR, request.lifecycle_status)
    if name not in TERMINAL:
        raise invalid("lifecycleStatus", "must be a terminal status")
    lifecycle = Lifecycle(name)
    error: ReportedError | None = None
    if request.HasField("error"):
        error = reported_error(request.error)
    if lifecycle is not Lifecycle.FAILED and (error is not None or request.failed_step_id):
        raise invalid("error", "and failedStepId belong to FAILED only")
    if request.failed_step_id:
        text.check_step_id("failedStepId", request.failed_step_id)
    if not request.reason.strip():
        raise invalid("reason", "is required")
    return CorrectTask(
        head_of(request, request.command_id, task_id, identity, call, request.expected_task_version),
        lifecycle,
        text.check_optional_id("businessStatus", request.business_status, text.BUSINESS_STATUS_MAX),
        error,
        request.failed_step_id,
        _reason(request.reason),
    )


def _skipped(path: str, step: task_commands_pb2.SkippedStep) -> SkippedStep:
    if not step.reason.strip():
        raise invalid(f"{path}.reason", "is required")
    return SkippedStep(
        text.check_step_id(f"{path}.stepId", step.step_id),
        text.check_text(f"{path}.reason", step.reason, text.DECISION_REASON_MAX),
        text.check_id(f"{path}.sourceEventId", step.source_event_id, text.EVENT_ID_MAX),
    )


def _reason(value: str) -> str:
    return text.check_text("reason", value, text.DECISION_REASON_MAX)
