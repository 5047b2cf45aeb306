"""Results → responses."""

from __future__ import annotations

from taskstatus_pb.v1 import (
    bind_execution_service_pb2,
    common_pb2,
    realtime_service_pb2,
    register_service_pb2,
    report_service_pb2,
)

from taskstatus.application.executions import BoundExecution, IssuedCredentials
from taskstatus.application.realtime import ChannelToken, RealtimeSession
from taskstatus.application.register import CreatedTask, CreatedWorkflow
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.ids import format_execution_id, format_task_id, format_workflow_id
from taskstatus.domain.reasons import RETRYABLE_REASONS
from taskstatus.domain.records import ReportResult
from taskstatus.domain.state import TaskState
from taskstatus.domain.verdicts import Verdict, result_or_raise
from taskstatus.entrypoints.wire.statuses import GRPC_CODE_NUMBERS
from taskstatus.entrypoints.wire.values import to_timestamp, unix_to_timestamp


def created_workflow(created: CreatedWorkflow) -> register_service_pb2.CreateWorkflowResponse:
    """Response of CreateWorkflow."""
    return register_service_pb2.CreateWorkflowResponse(
        workflow_id=format_workflow_id(created.workflow.workflow_id),
        workflow_version=created.workflow.version,
        created=created.created,
        tasks=[_created_task(task) for task in created.tasks],
        create_time=to_timestamp(created.workflow.created_at),
    )


def created_task(created: CreatedTask) -> register_service_pb2.CreateTaskResponse:
    """Response of CreateTask."""
    return register_service_pb2.CreateTaskResponse(
        workflow_id=format_workflow_id(created.workflow.workflow_id),
        task=_created_task(created.task),
        created=created.created,
        workflow_version=created.workflow.version,
    )


def _created_task(task: TaskState) -> register_service_pb2.CreatedTask:
    return register_service_pb2.CreatedTask(
        client_task_key=task.envelope.client_task_key,
        task_id=format_task_id(task.envelope.task_id),
        task_version=task.version,
    )


def execution_context(bound: BoundExecution) -> common_pb2.ExecutionContext:
    """The context that a worker is handed (R-4)."""
    binding, credentials, terms = bound.binding, bound.credentials, bound.step.terms
    assert terms is not None
    return common_pb2.ExecutionContext(
        workflow_id=format_workflow_id(binding.workflow_id),
        task_id=format_task_id(binding.task_id),
        task_attempt=binding.task_attempt,
        step_id=binding.step_id,
        step_attempt=binding.step_attempt,
        execution_id=format_execution_id(binding.execution_id),
        operation_code=binding.operation_code,
        producer_id=binding.producer_id,
        source_seq_start=bound.next_source_seq,
        input_ref=terms.input_ref,
        heartbeat_interval_seconds=terms.heartbeat_interval_seconds,
        heartbeat_timeout_seconds=terms.heartbeat_timeout_seconds,
        execution_token=credentials.token,
        execution_token_expire_time=unix_to_timestamp(credentials.token_expires_at),
        execution_handle=credentials.handle,
        task_version=bound.task.version,
        created=bound.created,
        task_type=bound.task.envelope.task_type,
        may_register_children=binding.may_register_children,
        operation_definition_version=binding.definition_version,
        status_definition_version=bound.task.envelope.status_definition_version or 0,
    )


def bound_execution(bound: BoundExecution) -> bind_execution_service_pb2.BindExecutionResponse:
    """Response of BindExecution."""
    return bind_execution_service_pb2.BindExecutionResponse(
        execution_handle=bound.credentials.handle,
        context=execution_context(bound),
        next_source_seq=bound.next_source_seq,
    )


def renewed(credentials: IssuedCredentials) -> register_service_pb2.RenewExecutionResponse:
    """Response of RenewExecution."""
    return register_service_pb2.RenewExecutionResponse(
        execution_token=credentials.token,
        execution_token_expire_time=unix_to_timestamp(credentials.token_expires_at),
        execution_handle=credentials.handle,
    )


def report_response(result: ReportResult) -> report_service_pb2.ReportEventResponse:
    """The answer to one event, flattened once, here (E-7)."""
    return report_service_pb2.ReportEventResponse(
        accepted=result.accepted,
        duplicate=result.duplicate,
        stale=result.stale,
        reason=common_pb2.Reason.Value(result.reason) if result.reason else common_pb2.REASON_UNSPECIFIED,
        task_id=format_task_id(result.task_id),
        step_id=result.step_id,
        operation_code=result.operation_code,
        task_version=result.task_version,
        step_version=result.step_version,
        lifecycle_status=common_pb2.LifecycleStatus.Value(result.lifecycle),
        business_status=result.business_status,
        committed_at=to_timestamp(result.committed_at) if result.committed_at else None,
        changed=result.changed,
        coalesced=result.coalesced,
        cancel_requested=result.cancel_requested,
    )


def batch_result(event_id: str, verdict: Verdict) -> report_service_pb2.BatchReportEventsResult:
    """One item of a batch: the answer or the refusal that a call of its own would have given (E-10)."""
    try:
        response = report_response(result_or_raise(verdict))
    except RefusedError as refusal:
        return report_service_pb2.BatchReportEventsResult(event_id=event_id, error=item_error(refusal))
    return report_service_pb2.BatchReportEventsResult(event_id=event_id, response=response)


def item_error(refusal: RefusedError) -> common_pb2.ItemError:
    """A refusal inside a batch."""
    return common_pb2.ItemError(
        reason=common_pb2.Reason.Value(refusal.reason),
        code=GRPC_CODE_NUMBERS[refusal.reason],
        message=refusal.message,
        retryable=refusal.reason in RETRYABLE_REASONS,
        field_violations=[
            common_pb2.FieldViolation(field=violation.field, description=violation.description)
            for violation in refusal.violations
        ],
    )


def session(opened: RealtimeSession) -> realtime_service_pb2.GetSessionResponse:
    """Response of GetSession."""
    return realtime_service_pb2.GetSessionResponse(
        url=opened.url,
        token=opened.token,
        expire_time=unix_to_timestamp(opened.expires_at),
        user_channel=opened.user_channel,
    )


def channel_token(token: ChannelToken) -> realtime_service_pb2.CreateSubscriptionTokenResponse:
    """Response of CreateSubscriptionToken."""
    return realtime_service_pb2.CreateSubscriptionTokenResponse(
        token=token.token, channel=token.channel, expire_time=unix_to_timestamp(token.expires_at)
    )
