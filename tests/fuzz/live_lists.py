"""Good requests of the lists, look-ups and workflow reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from google.protobuf.message import Message
from taskstatus_pb.v1 import query_service_pb2, task_list_pb2

if TYPE_CHECKING:
    from tests.fuzz.live import Live

GOOD_LISTS: Mapping[str, Callable[[Live], Message]] = {
    "taskstatus.v1.QueryService/ListMyTasks": lambda _: task_list_pb2.ListMyTasksRequest(limit=2),
    "taskstatus.v1.QueryService/ListWorkflowTasks": lambda live: task_list_pb2.ListWorkflowTasksRequest(
        workflow_id=live.workflow_id, limit=1
    ),
    "taskstatus.v1.QueryService/GetWorkflow": lambda live: query_service_pb2.GetWorkflowRequest(
        workflow_id=live.workflow_id
    ),
    "taskstatus.v1.QueryService/BatchGetTaskStatus": lambda live: task_list_pb2.BatchGetTaskStatusRequest(
        task_ids=[live.task_id, live.ended_id], known_versions={live.task_id: 1}
    ),
    "taskstatus.v1.QueryService/LookupExternalRef": lambda live: task_list_pb2.LookupExternalRefRequest(
        ref_type="ORDER_ID", ref_value=live.number
    ),
    "taskstatus.v1.QueryService/LookupEvent": lambda live: task_list_pb2.LookupEventRequest(event_id=live.result_id),
    "taskstatus.v1.QueryService/ListTraceEvents": lambda _: task_list_pb2.ListTraceEventsRequest(
        trace_id="0af7651916cd43dd8448eb211c80319c"
    ),
}
"""By the method's full name."""
