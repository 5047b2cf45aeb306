"""The handlers of lists and look-ups."""

from __future__ import annotations

from collections.abc import Mapping

from google.protobuf.message import Message
from taskstatus_pb.v1 import task_list_pb2

from taskstatus.application.identity import Identity, ServiceIdentity, UserIdentity
from taskstatus.application.service import TaskStatusService
from taskstatus.entrypoints.wire import encode_lists
from taskstatus.entrypoints.wire.call import CallInfo, Handler
from taskstatus.entrypoints.wire.decode_lists import to_external_ref, to_task_filter


class ListHandlers:
    """Reads over many tasks, of QueryService."""

    def __init__(self, service: TaskStatusService) -> None:
        self._lists = service.lists
        self._lookups = service.lookups

    def by_method(self) -> Mapping[str, Handler]:
        """Every method's handler by its full name."""
        return {
            "taskstatus.v1.QueryService/ListMyTasks": self.list_my_tasks,
            "taskstatus.v1.QueryService/ListWorkflowTasks": self.list_workflow_tasks,
            "taskstatus.v1.QueryService/BatchGetTaskStatus": self.batch_get_task_status,
            "taskstatus.v1.QueryService/LookupExternalRef": self.lookup_external_ref,
            "taskstatus.v1.QueryService/LookupEvent": self.lookup_event,
            "taskstatus.v1.QueryService/ListTraceEvents": self.list_trace_events,
        }

    async def list_my_tasks(
        self, request: task_list_pb2.ListMyTasksRequest, caller: UserIdentity, call: CallInfo
    ) -> Message:
        chosen = to_task_filter(request.filter)
        return encode_lists.my_tasks(await self._lists.my_tasks(caller, chosen, request.limit, request.cursor))

    async def list_workflow_tasks(
        self, request: task_list_pb2.ListWorkflowTasksRequest, caller: Identity, call: CallInfo
    ) -> Message:
        chosen = to_task_filter(request.filter)
        return encode_lists.workflow_tasks(
            await self._lists.workflow_tasks(caller, request.workflow_id, chosen, request.limit, request.cursor)
        )

    async def batch_get_task_status(
        self, request: task_list_pb2.BatchGetTaskStatusRequest, caller: Identity, call: CallInfo
    ) -> Message:
        known = dict(request.known_versions)
        return encode_lists.task_statuses(await self._lists.statuses(caller, request.task_ids, known))

    async def lookup_external_ref(
        self, request: task_list_pb2.LookupExternalRefRequest, caller: Identity, call: CallInfo
    ) -> Message:
        ref, scope = to_external_ref(request)
        return encode_lists.named_tasks(await self._lookups.external_ref(caller, ref, scope))

    async def lookup_event(
        self, request: task_list_pb2.LookupEventRequest, caller: ServiceIdentity, call: CallInfo
    ) -> Message:
        return encode_lists.events_of_id(await self._lookups.event(caller, request.event_id))

    async def list_trace_events(
        self, request: task_list_pb2.ListTraceEventsRequest, caller: ServiceIdentity, call: CallInfo
    ) -> Message:
        return encode_lists.events_of_trace(await self._lookups.trace(caller, request.trace_id))
