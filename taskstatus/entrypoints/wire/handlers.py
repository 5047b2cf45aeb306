"""One handler per method: convert, call the service, convert back; the same for gRPC and REST."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from google.protobuf.message import Message
from taskstatus_pb.v1 import (
    admin_service_pb2,
    bind_execution_service_pb2,
    heartbeat_service_pb2,
    query_service_pb2,
    realtime_service_pb2,
    register_service_pb2,
    report_service_pb2,
)

from taskstatus.application.identity import Identity, ServiceIdentity, UserIdentity
from taskstatus.application.report import EventDraft, UndecodedEvent
from taskstatus.application.service import TaskStatusService
from taskstatus.domain.errors import RefusedError, invalid
from taskstatus.domain.reasons import Reason
from taskstatus.domain.text import EVENT_ID_MAX, is_refused_id
from taskstatus.domain.verdicts import result_or_raise
from taskstatus.entrypoints.wire import decode, encode, encode_view
from taskstatus.entrypoints.wire.call import CallInfo, Handler
from taskstatus.entrypoints.wire.compact import to_compact_draft
from taskstatus.entrypoints.wire.decode_event import to_event_draft
from taskstatus.entrypoints.wire.decode_heartbeat import to_beat_drafts
from taskstatus.entrypoints.wire.encode_admin import stuck_listing
from taskstatus.entrypoints.wire.encode_heartbeat import heartbeat_results
from taskstatus.entrypoints.wire.handlers_commands import CommandHandlers
from taskstatus.entrypoints.wire.handlers_definitions import DefinitionHandlers
from taskstatus.entrypoints.wire.handlers_lists import ListHandlers
from taskstatus.entrypoints.wire.handlers_workflows import WorkflowHandlers
from taskstatus.entrypoints.wire.trace import trace_id_of

MAX_BATCH_EVENTS = 500


class Handlers:
    """The handlers over one service."""

    def __init__(self, service: TaskStatusService) -> None:
        self._service = service

    def by_method(self) -> Mapping[str, Handler]:
        """Every method's handler by its full name."""
        return {
            **CommandHandlers(self._service).by_method(),
            **DefinitionHandlers(self._service).by_method(),
            **ListHandlers(self._service).by_method(),
            **WorkflowHandlers(self._service).by_method(),
            "taskstatus.v1.RegisterService/CreateWorkflow": self.create_workflow,
            "taskstatus.v1.RegisterService/CreateTask": self.create_task,
            "taskstatus.v1.RegisterService/ActivateStep": self.activate_step,
            "taskstatus.v1.RegisterService/RegisterExecution": self.register_execution,
            "taskstatus.v1.RegisterService/RenewExecution": self.renew_execution,
            "taskstatus.v1.ReportService/ReportEvent": self.report_event,
            "taskstatus.v1.ReportService/BatchReportEvents": self.batch_report_events,
            "taskstatus.v1.ReportService/BatchReportCompactEvents": self.batch_report_compact_events,
            "taskstatus.v1.HeartbeatService/BatchHeartbeat": self.batch_heartbeat,
            "taskstatus.v1.BindExecutionService/BindExecution": self.bind_execution,
            "taskstatus.v1.QueryService/GetTask": self.get_task,
            "taskstatus.v1.QueryService/ListTaskEvents": self.list_task_events,
            "taskstatus.v1.RealtimeService/GetSession": self.get_session,
            "taskstatus.v1.RealtimeService/CreateSubscriptionToken": self.create_subscription_token,
            "taskstatus.v1.AdminService/ListStuckTasks": self.list_stuck_tasks,
        }

    async def create_workflow(
        self, request: register_service_pb2.CreateWorkflowRequest, caller: ServiceIdentity, call: CallInfo
    ) -> Message:
        command = decode.to_create_workflow(request, caller, call)
        return encode.created_workflow(await self._service.registration.create_workflow(command))

    async def create_task(
        self, request: register_service_pb2.CreateTaskRequest, caller: ServiceIdentity, call: CallInfo
    ) -> Message:
        command = decode.to_create_task(request, caller, call)
        return encode.created_task(await self._service.registration.create_task(command))

    async def activate_step(
        self, request: register_service_pb2.ActivateStepRequest, caller: ServiceIdentity, call: CallInfo
    ) -> Message:
        bound = await self._service.registration.activate(decode.to_activate_step(request, caller, call))
        return register_service_pb2.ActivateStepResponse(context=encode.execution_context(bound))

    async def register_execution(
        self, request: register_service_pb2.RegisterExecutionRequest, caller: ServiceIdentity, call: CallInfo
    ) -> Message:
        token, handle = request.parent_execution_token, request.parent_execution_handle
        parent = await self._service.executions.open_parent(caller, token, handle)
        bound = await self._service.registration.activate(decode.to_register_execution(request, caller, call, parent))
        return register_service_pb2.RegisterExecutionResponse(context=encode.execution_context(bound))

    async def renew_execution(
        self, request: register_service_pb2.RenewExecutionRequest, caller: ServiceIdentity, call: CallInfo
    ) -> Message:
        execution_id = decode.known_execution_id(request.execution_id)
        return encode.renewed(
            await self._service.executions.renew(
                caller, execution_id, request.execution_token, request.execution_handle
            )
        )

    async def report_event(
        self, request: report_service_pb2.ReportEventRequest, caller: ServiceIdentity, call: CallInfo
    ) -> Message:
        _, draft = _full(request, caller, call)
        return encode.report_response(result_or_raise(await self._service.reporting.report(draft)))

    async def batch_report_events(
        self, request: report_service_pb2.BatchReportEventsRequest, caller: ServiceIdentity, call: CallInfo
    ) -> Message:
        results = await self._report_all([_full(event, caller, call) for event in request.events])
        return report_service_pb2.BatchReportEventsResponse(results=results)

    async def batch_report_compact_events(
        self, request: report_service_pb2.BatchReportCompactEventsRequest, caller: ServiceIdentity, call: CallInfo
    ) -> Message:
        results = await self._report_all([_compact(event, caller, call) for event in request.events])
        return report_service_pb2.BatchReportCompactEventsResponse(results=results)

    async def _report_all(self, items: Sequence[_Item]) -> list[report_service_pb2.BatchReportEventsResult]:
        if not 1 <= len(items) <= MAX_BATCH_EVENTS:
            raise invalid("events", f"must hold 1 to {MAX_BATCH_EVENTS} items")
        verdicts = await self._service.reporting.report_all([draft for _, draft in items])
        return [encode.batch_result(event_id, verdict) for (event_id, _), verdict in zip(items, verdicts, strict=True)]

    async def batch_heartbeat(
        self, request: heartbeat_service_pb2.BatchHeartbeatRequest, caller: ServiceIdentity, call: CallInfo
    ) -> Message:
        return heartbeat_results(await self._service.heartbeats.beat_all(to_beat_drafts(request, caller, call)))

    async def bind_execution(
        self, request: bind_execution_service_pb2.BindExecutionRequest, caller: ServiceIdentity, call: CallInfo
    ) -> Message:
        return encode.bound_execution(
            await self._service.executions.bind(caller, request.execution_token, request.execution_handle)
        )

    async def get_task(self, request: query_service_pb2.GetTaskRequest, caller: Identity, call: CallInfo) -> Message:
        view = await self._service.queries.task(caller, request.task_id)
        snapshot = encode_view.task_snapshot(view, for_service=isinstance(caller, ServiceIdentity))
        return query_service_pb2.GetTaskResponse(task=snapshot)

    async def list_task_events(
        self, request: query_service_pb2.ListTaskEventsRequest, caller: Identity, call: CallInfo
    ) -> Message:
        after = request.after_task_version
        page = await self._service.queries.timeline(caller, request.task_id, after, request.limit)
        return encode_view.timeline(page, after, with_trace=isinstance(caller, ServiceIdentity))

    async def get_session(
        self, request: realtime_service_pb2.GetSessionRequest, caller: UserIdentity, call: CallInfo
    ) -> Message:
        return encode.session(self._service.realtime.session(caller))

    async def create_subscription_token(
        self, request: realtime_service_pb2.CreateSubscriptionTokenRequest, caller: UserIdentity, call: CallInfo
    ) -> Message:
        realtime = self._service.realtime
        return encode.channel_token(await realtime.subscription(caller, request.task_id, request.workflow_id))

    async def list_stuck_tasks(
        self, request: admin_service_pb2.ListStuckTasksRequest, caller: ServiceIdentity, call: CallInfo
    ) -> Message:
        administration = self._service.administration
        return stuck_listing(await administration.stuck_tasks(caller, request.limit, request.cursor))


_Item = tuple[str, EventDraft | UndecodedEvent]
"""(event id as sent, the draft or why there is none)."""


def _full(event: report_service_pb2.ReportEventRequest, caller: ServiceIdentity, call: CallInfo) -> _Item:
    try:
        return event.event_id, to_event_draft(event, caller, call)
    except RefusedError as refusal:
        return event.event_id, undecoded(event.event_id, refusal, caller, call)


def _compact(event: report_service_pb2.CompactEvent, caller: ServiceIdentity, call: CallInfo) -> _Item:
    event_id = event.event_id.hex()
    try:
        return event_id, to_compact_draft(event, caller, call)
    except RefusedError as refusal:
        return event_id, undecoded(event_id, refusal, caller, call)


def undecoded(event_id: str, refusal: RefusedError, caller: ServiceIdentity, call: CallInfo) -> UndecodedEvent:
    """The item of an event that could not be decoded."""
    kept_id = "" if is_refused_id(event_id, EVENT_ID_MAX) else event_id
    return UndecodedEvent(caller, call.transport, kept_id, refusal, call.received_unix, trace_id_of(call.traceparent))


def missing_bearer() -> RefusedError:
    """The refusal of a call without credentials."""
    return RefusedError(Reason.UNAUTHENTICATED, "an authorization header with a bearer token is required")
