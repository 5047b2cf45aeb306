"""ReportEventRequest → EventDraft: the one decoder of events for every transport and form (E-9)."""

from __future__ import annotations

from taskstatus_pb.v1 import common_pb2, report_service_pb2

from taskstatus.application.identity import ServiceIdentity
from taskstatus.application.report import EventDraft
from taskstatus.domain import text
from taskstatus.domain.commands import EventContent, EventData, ReportedError, StatedFields
from taskstatus.domain.errors import invalid
from taskstatus.domain.events import EventType
from taskstatus.domain.progress import Progress
from taskstatus.domain.state import DurationSource
from taskstatus.entrypoints.wire.call import CallInfo
from taskstatus.entrypoints.wire.decode import finite
from taskstatus.entrypoints.wire.trace import trace_id_of
from taskstatus.entrypoints.wire.values import (
    enum_name,
    find_data_fault,
    from_timestamp,
    struct_to_json,
    whole_milliseconds,
)

MAX_SEQUENCE = 2**63 - 1
ID_TEXT_MAX = 64
ERROR_EVENTS = frozenset({EventType.STEP_FAILED, EventType.TASK_FAILED})


def to_event_draft(
    request: report_service_pb2.ReportEventRequest, identity: ServiceIdentity, call: CallInfo
) -> EventDraft:
    """The draft of one event. Raises RefusedError INVALID_ARGUMENT naming the first field that is off."""
    return EventDraft(
        caller=identity,
        execution_token=request.execution_token,
        execution_handle=request.execution_handle,
        stated=_stated(request),
        content=_content(request),
        transport=call.transport,
        received_monotonic=call.received_monotonic,
        received_unix=call.received_unix,
        trace_id=trace_id_of(call.traceparent),
        traceparent=call.traceparent,
    )


def _stated(request: report_service_pb2.ReportEventRequest) -> StatedFields:
    return StatedFields(
        workflow_id=short("workflowId", request.workflow_id, ID_TEXT_MAX),
        task_id=short("taskId", request.task_id, ID_TEXT_MAX),
        task_attempt=request.task_attempt,
        step_id=short("stepId", request.step_id, text.STEP_ID_MAX),
        step_attempt=request.step_attempt,
        execution_id=short("executionId", request.execution_id, ID_TEXT_MAX),
        operation_code=short("operationCode", request.operation_code, text.CODE_MAX),
        producer_id=short("producerId", request.producer_id, text.CODE_MAX),
        task_type=short("taskType", request.task_type, text.CODE_MAX),
    )


def short(path: str, value: str, limit: int) -> str:
    """Bounded, so that it may stand in logs; whether it matches is a guard's question."""
    if len(value) > limit:
        raise invalid(path, f"has {len(value)} characters, at most {limit} are allowed")
    return value


def _content(request: report_service_pb2.ReportEventRequest) -> EventContent:
    event_type = event_type_of(request.event_type)
    return EventContent(
        event_id=text.check_id("eventId", request.event_id, text.EVENT_ID_MAX),
        event_type=event_type,
        source_seq=sequence_of(request.source_seq),
        business_status=text.check_optional_id("businessStatus", request.business_status, text.BUSINESS_STATUS_MAX),
        occurred_at=from_timestamp("occurredAt", request.occurred_at) if request.HasField("occurred_at") else None,
        duration_ms=whole_milliseconds("durationMs", request.duration_ms) if request.HasField("duration_ms") else None,
        duration_source=duration_source_of(request.duration_source),
        progress=progress_of(request.progress) if request.HasField("progress") else None,
        progress_seq=request.progress_seq,
        phase_code=text.check_text("phaseCode", request.phase_code, text.CODE_MAX),
        phase_label=text.check_text("phaseLabel", request.phase_label, text.LABEL_MAX),
        data=data_of(request.data) if request.HasField("data") else None,
        error=error_of(request, event_type),
        failed_step_id=text.check_step_id("failedStepId", request.failed_step_id) if request.failed_step_id else "",
        reason=text.check_text("reason", request.reason, text.DECISION_REASON_MAX),
    )


def event_type_of(number: int) -> EventType:
    """The event type of its wire number. Raises RefusedError INVALID_ARGUMENT."""
    if number == common_pb2.EVENT_TYPE_UNSPECIFIED:
        raise invalid("eventType", "is required")
    return EventType(enum_name("eventType", common_pb2.EventType.DESCRIPTOR, number))


def sequence_of(number: int) -> int:
    """A sequence number from 1. Raises RefusedError INVALID_ARGUMENT."""
    if not 1 <= number <= MAX_SEQUENCE:
        raise invalid("sourceSeq", "must be at least 1")
    return number


def duration_source_of(number: int) -> DurationSource | None:
    """The source of a duration; None when not told. Raises RefusedError INVALID_ARGUMENT."""
    if number == common_pb2.DURATION_SOURCE_UNSPECIFIED:
        return None
    return DurationSource(enum_name("durationSource", common_pb2.DurationSource.DESCRIPTOR, number))


def progress_of(progress: common_pb2.Progress) -> Progress:
    """The progress, finite and within its total. Raises RefusedError INVALID_ARGUMENT."""
    current, total = finite("progress.current", progress.current), finite("progress.total", progress.total)
    if 0 < total < current:
        raise invalid("progress.current", "may not exceed the total")
    return Progress(current, total, text.check_text("progress.unit", progress.unit, text.UNIT_MAX))


def data_of(data: report_service_pb2.EventData) -> EventData:
    """The data with what is wrong with it, which a guard tells in its place (E-2)."""
    schema = text.check_id("data.schema", data.schema, text.CODE_MAX)
    wire = data.value.SerializeToString(deterministic=True)
    fault = find_data_fault(data.value, len(wire))
    value = {} if fault else struct_to_json(data.value)
    return EventData(schema, wire, value=value, fault=fault)


def error_of(
    request: report_service_pb2.ReportEventRequest | report_service_pb2.CompactEvent, event_type: EventType
) -> ReportedError | None:
    """The failure, which STEP_FAILED and TASK_FAILED must have. Raises RefusedError INVALID_ARGUMENT."""
    if not request.HasField("error"):
        if event_type in ERROR_EVENTS:
            raise invalid("error", f"is required for {event_type}")
        return None
    return reported_error(request.error)


def reported_error(error: common_pb2.EventError) -> ReportedError:
    """A failure, checked in form. Raises RefusedError INVALID_ARGUMENT."""
    return ReportedError(
        category=text.check_optional_id("error.category", error.category, text.CATEGORY_MAX),
        code=text.check_id("error.code", error.code, text.CODE_MAX),
        message=text.check_text("error.message", error.message, text.FAILURE_MESSAGE_MAX),
        retryable=error.retryable if error.HasField("retryable") else None,
        diagnostics_ref=text.check_text("error.diagnosticsRef", error.diagnostics_ref, text.REFERENCE_MAX),
    )
