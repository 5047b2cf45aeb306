"""QueryService of the fake: everything is visible to every caller, and kept for ever."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from taskstatus_pb.v1 import common_pb2, definitions_pb2, query_service_pb2_grpc, register_service_pb2, task_list_pb2
from taskstatus_pb.v1 import query_service_pb2 as pb

from taskstatus.sdk.testing.model import FakeTask, invalid, refuse
from taskstatus.sdk.testing.serving import Context, Serve
from taskstatus.sdk.testing.state import FakeState
from taskstatus.sdk.testing.views import recorded_event, task_snapshot, task_summary
from taskstatus.sdk.testing.workflows import workflow_snapshot

EVENTS: Final = 100
PAGE: Final = 50
TRACE_EVENTS: Final = 500


class FakeQuery(query_service_pb2_grpc.QueryServiceServicer):
    """Every method over one state."""

    def __init__(self, serve: Serve, state: FakeState) -> None:
        self._serve = serve
        self._state = state

    async def GetTask(self, request: pb.GetTaskRequest, context: Context) -> pb.GetTaskResponse:  # noqa: N802
        """One task with its steps and runs."""
        return await self._serve(request, context, self._get_task)

    async def ListTaskEvents(  # noqa: N802 - the method's name on the wire
        self, request: pb.ListTaskEventsRequest, context: Context
    ) -> pb.ListTaskEventsResponse:
        """The timeline."""
        return await self._serve(request, context, self._list_events)

    async def ListMyTasks(  # noqa: N802
        self, request: task_list_pb2.ListMyTasksRequest, context: Context
    ) -> task_list_pb2.ListMyTasksResponse:
        """The tasks of the person whom the bearer token names, as owner or by a grant."""
        return await self._serve(request, context, self._my_tasks)

    async def GetWorkflow(self, request: pb.GetWorkflowRequest, context: Context) -> pb.GetWorkflowResponse:  # noqa: N802
        """One workflow."""
        return await self._serve(request, context, self._get_workflow)

    async def ListWorkflowTasks(  # noqa: N802
        self, request: task_list_pb2.ListWorkflowTasksRequest, context: Context
    ) -> task_list_pb2.ListWorkflowTasksResponse:
        """The tasks of a workflow."""
        return await self._serve(request, context, self._workflow_tasks)

    async def BatchGetTaskStatus(  # noqa: N802
        self, request: task_list_pb2.BatchGetTaskStatusRequest, context: Context
    ) -> task_list_pb2.BatchGetTaskStatusResponse:
        """The statuses of many tasks."""
        return await self._serve(request, context, self._statuses)

    async def LookupExternalRef(  # noqa: N802
        self, request: task_list_pb2.LookupExternalRefRequest, context: Context
    ) -> task_list_pb2.LookupExternalRefResponse:
        """The task that a number names."""
        return await self._serve(request, context, self._external_ref)

    async def LookupEvent(  # noqa: N802
        self, request: task_list_pb2.LookupEventRequest, context: Context
    ) -> task_list_pb2.LookupEventResponse:
        """The events of an id."""
        return await self._serve(request, context, self._event)

    async def ListTraceEvents(  # noqa: N802
        self, request: task_list_pb2.ListTraceEventsRequest, context: Context
    ) -> task_list_pb2.ListTraceEventsResponse:
        """The events of a trace that were not reported on a stream."""
        return await self._serve(request, context, self._trace)

    async def GetStatusDefinition(  # noqa: N802
        self, request: definitions_pb2.GetStatusDefinitionRequest, context: Context
    ) -> definitions_pb2.GetStatusDefinitionResponse:
        """The generic statuses as version 0; the fake knows no others."""
        return await self._serve(request, context, self._status_definition)

    def _get_task(self, producer: str, request: pb.GetTaskRequest) -> pb.GetTaskResponse:
        task = self._state.task(request.task_id)
        return pb.GetTaskResponse(task=task_snapshot(task, self._state.now()))

    def _list_events(self, producer: str, request: pb.ListTaskEventsRequest) -> pb.ListTaskEventsResponse:
        task = self._state.task(request.task_id)
        later = [event for event in task.timeline if event.task_version > request.after_task_version]
        limit = request.limit or EVENTS
        return pb.ListTaskEventsResponse(
            events=later[:limit], task_version=task.version, has_more=len(later) > limit, oldest_task_version=1
        )

    def _my_tasks(self, person: str, request: task_list_pb2.ListMyTasksRequest) -> task_list_pb2.ListMyTasksResponse:
        mine = [task for task in reversed(self._state.tasks.values()) if self._is_theirs(task, person)]
        response = task_list_pb2.ListMyTasksResponse()
        found, response.next_cursor = _page(_chosen(mine, request.filter), request.limit, request.cursor)
        self._list(found, response)
        return response

    def _is_theirs(self, task: FakeTask, person: str) -> bool:
        created = self._state.workflow(task.workflow_id).request
        inherited = [] if task.spec.sensitive else created.grants
        grants = [*inherited, *task.spec.grants]
        granted = any(
            (grant.principal_type, grant.principal_id) == (register_service_pb2.AccessGrant.USER, person)
            for grant in grants
        )
        return granted or created.owner_id == person

    def _get_workflow(self, producer: str, request: pb.GetWorkflowRequest) -> pb.GetWorkflowResponse:
        workflow = self._state.workflow(request.workflow_id)
        tasks = self._state.tasks_of(workflow.workflow_id)
        return pb.GetWorkflowResponse(workflow=workflow_snapshot(workflow, tasks, self._state.now()))

    def _workflow_tasks(
        self, producer: str, request: task_list_pb2.ListWorkflowTasksRequest
    ) -> task_list_pb2.ListWorkflowTasksResponse:
        tasks = self._state.tasks_of(self._state.workflow(request.workflow_id).workflow_id)
        response = task_list_pb2.ListWorkflowTasksResponse()
        found, response.next_cursor = _page(_chosen(tasks, request.filter), request.limit, request.cursor)
        self._list(found, response)
        return response

    def _list(
        self,
        found: Sequence[FakeTask],
        response: task_list_pb2.ListMyTasksResponse | task_list_pb2.ListWorkflowTasksResponse,
    ) -> None:
        now = self._state.now()
        response.tasks.extend(task_summary(task, now) for task in found)
        response.as_of.FromDatetime(now)

    def _statuses(
        self, producer: str, request: task_list_pb2.BatchGetTaskStatusRequest
    ) -> task_list_pb2.BatchGetTaskStatusResponse:
        now, response = self._state.now(), task_list_pb2.BatchGetTaskStatusResponse()
        for task_id in request.task_ids:
            task = self._state.tasks.get(task_id)
            if task is None:
                response.missing_task_ids.append(task_id)
            elif request.known_versions.get(task_id, 0) == task.version:
                response.unchanged_task_ids.append(task_id)
            else:
                response.tasks.append(task_summary(task, now))
        response.as_of.FromDatetime(now)
        return response

    def _external_ref(
        self, producer: str, request: task_list_pb2.LookupExternalRefRequest
    ) -> task_list_pb2.LookupExternalRefResponse:
        task = self._state.refs.get((request.ref_type, request.ref_value))
        if task is None:
            refuse("TASK_NOT_FOUND", "no such task")
        return task_list_pb2.LookupExternalRefResponse(tasks=[task_summary(task, self._state.now())])

    def _event(self, producer: str, request: task_list_pb2.LookupEventRequest) -> task_list_pb2.LookupEventResponse:
        found = self._events("event_id", request.event_id)
        return task_list_pb2.LookupEventResponse(events=found[:EVENTS])

    def _trace(
        self, producer: str, request: task_list_pb2.ListTraceEventsRequest
    ) -> task_list_pb2.ListTraceEventsResponse:
        found = self._events("trace_id", request.trace_id)
        return task_list_pb2.ListTraceEventsResponse(events=found[:TRACE_EVENTS], truncated=len(found) > TRACE_EVENTS)

    def _events(self, name: str, value: str) -> list[task_list_pb2.RecordedEvent]:
        if not value:
            invalid(name, "is required")
        found = [
            recorded_event(task, event)
            for task in self._state.tasks.values()
            for event in task.timeline
            if getattr(event, name) == value
        ]
        return sorted(found, key=lambda event: event.committed_at.ToNanoseconds())

    def _status_definition(
        self, producer: str, request: definitions_pb2.GetStatusDefinitionRequest
    ) -> definitions_pb2.GetStatusDefinitionResponse:
        if request.version:
            refuse("DEFINITION_NOT_FOUND", "the fake knows the generic statuses only")
        means = {name: name for name in common_pb2.LifecycleStatus.keys()[1:]}
        means |= {"RETRY_WAIT": "RUNNING", "WAITING_USER_ACTION": "RUNNING"}
        statuses = [
            definitions_pb2.BusinessStatus(
                code=code, lifecycle_status=common_pb2.LifecycleStatus.Value(lifecycle), sort_order=order
            )
            for order, (code, lifecycle) in enumerate(means.items())
        ]
        return definitions_pb2.GetStatusDefinitionResponse(
            status_definition=definitions_pb2.StatusDefinition(task_type=request.task_type, statuses=statuses)
        )


def _chosen(tasks: Sequence[FakeTask], wanted: task_list_pb2.TaskFilter) -> list[FakeTask]:
    return [task for task in tasks if _fits(task, wanted)]


def _fits(task: FakeTask, wanted: task_list_pb2.TaskFilter) -> bool:
    spec = task.spec
    created = task.created_at.timestamp()
    return (
        (not wanted.lifecycle_statuses or common_pb2.LifecycleStatus.Value(task.lifecycle) in wanted.lifecycle_statuses)
        and wanted.task_type in ("", spec.task_type)
        and wanted.workflow_id in ("", task.workflow_id)
        and wanted.batch_id in ("", spec.batch_id)
        and wanted.parent_task_id in ("", spec.parent_task_id)
        and wanted.title_contains.casefold() in spec.title.casefold()
        and (not wanted.HasField("created_from") or created >= wanted.created_from.ToNanoseconds() / 1e9)
        and (not wanted.HasField("created_before") or created < wanted.created_before.ToNanoseconds() / 1e9)
    )


def _page(tasks: Sequence[FakeTask], limit: int, cursor: str) -> tuple[Sequence[FakeTask], str]:
    """One page and where the next begins; the cursor is the last task of the page before."""
    ids = [task.task_id for task in tasks]
    if cursor and cursor not in ids:
        invalid("cursor", "is not one of this query")
    begin = ids.index(cursor) + 1 if cursor else 0
    page = tasks[begin : begin + (limit or PAGE)]
    more = begin + len(page) < len(tasks)
    return page, page[-1].task_id if page and more else ""
