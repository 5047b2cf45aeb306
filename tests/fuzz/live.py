"""A running execution and good requests about it: what the generators mix their nonsense with."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message
from taskstatus_pb.v1 import (
    admin_service_pb2,
    bind_execution_service_pb2,
    common_pb2,
    heartbeat_service_pb2,
    query_service_pb2,
    realtime_service_pb2,
    register_service_pb2,
    report_service_pb2,
    task_commands_pb2,
)

from taskstatus.application.access import METHOD_ROLES
from taskstatus.application.identity import Role
from tests.fuzz.live_lists import GOOD_LISTS
from tests.fuzz.live_orders import GOOD_ORDERS, publication
from tests.fuzz.values import Known
from tests.support.clients import Caller, step, task_spec, unique, workflow_request

STEP_ID = "02_parse"


@dataclass(frozen=True)
class Live:
    """One task whose step runs, and what else there is to command and to read."""

    workflow_id: str
    task_id: str
    context: common_pb2.ExecutionContext
    ended_id: str
    """Another task of the workflow; its step was completed, and so was it."""
    result_id: str
    """The event that completed that step."""
    number: str
    """Of another system, for the ended task."""
    task_type: str
    """With statuses and an operation of its own."""
    step_id: str = STEP_ID

    @property
    def known(self) -> Known:
        """Its values by the name of the field that may take them."""
        return {
            "workflow_id": [self.workflow_id],
            "task_id": [self.task_id, self.ended_id],
            "step_id": [STEP_ID],
            "failed_step_id": [STEP_ID],
            "execution_id": [self.context.execution_id],
            "parent_execution_id": [self.context.execution_id],
            "execution_token": [self.context.execution_token],
            "execution_handle": [self.context.execution_handle],
            "operation_code": [self.context.operation_code],
            "producer_id": [self.context.producer_id],
            "event_id": ["evt-1", "0" * 32, self.result_id],
            "command_id": ["cmd-1"],
            "source_event_id": [self.result_id],
            "parent_execution_token": [self.context.execution_token],
            "parent_execution_handle": [self.context.execution_handle],
            "parent_task_id": [self.task_id],
            "client_step_key": ["key-1"],
            "ref_type": ["ORDER_ID"],
            "ref_value": [self.number, "4711"],
            "trace_id": ["0af7651916cd43dd8448eb211c80319c"],
            "task_ids": [self.task_id, self.ended_id],
            "task_type": [self.task_type, "*"],
            "version": ["1"],
            "schema": ["generic.progress.v1"],
            "business_status": ["RUNNING", "RETRY_WAIT"],
        }


async def bring_to_life(coordinator: Caller, worker: Caller, admin: Caller) -> Live:
    """A new task with its step started, one that has ended, and a published type."""
    number, task_type, result_id = unique("order"), unique("TYPE"), unique("evt")
    await admin.call(admin.admin.PublishDefinitions, publication(task_type))
    ref = task_commands_pb2.ExternalRef(ref_type="ORDER_ID", ref_value=number)
    agents = register_service_pb2.DynamicRegistrationPolicy(allowed_parent_operations=["DOCUMENT.PARSE"])
    request = workflow_request(
        task_spec(known_steps=[step(STEP_ID)], dynamic_registration=agents),
        task_spec(known_steps=[step(STEP_ID)], external_refs=[ref]),
    )
    created = await coordinator.call(coordinator.register.CreateWorkflow, request)
    task_id, ended_id = (task.task_id for task in created.tasks)
    contexts = [
        (await coordinator.call(coordinator.register.ActivateStep, activate(each))).context
        for each in (task_id, ended_id)
    ]
    for context in contexts:
        handle = context.execution_handle
        await worker.report(event_type=common_pb2.STEP_STARTED, source_seq=1, execution_handle=handle)
    await worker.report(event_id=result_id, event_type=common_pb2.STEP_COMPLETED, source_seq=2, execution_handle=handle)
    await coordinator.report(event_type=common_pb2.TASK_COMPLETED, source_seq=1, task_id=ended_id)
    return Live(created.workflow_id, task_id, contexts[0], ended_id, result_id, number, task_type)


def activate(task_id: str) -> register_service_pb2.ActivateStepRequest:
    """Activates the first attempt; repeated, it gives the same execution."""
    return register_service_pb2.ActivateStepRequest(
        command_id=unique("cmd"), task_id=task_id, step_id=STEP_ID, step_attempt=1
    )


def progress(live: Live, **credential: Any) -> report_service_pb2.ReportEventRequest:
    """A progress that is accepted while the step runs."""
    credential = credential or {"execution_handle": live.context.execution_handle}
    return report_service_pb2.ReportEventRequest(
        event_id=unique("evt"),
        event_type=common_pb2.STEP_PROGRESS,
        source_seq=50,
        progress=common_pb2.Progress(current=1, total=10, unit="page"),
        **credential,
    )


def compact(live: Live) -> report_service_pb2.CompactEvent:
    """The same in the compact message."""
    text = live.context.execution_handle.removeprefix("exh_")
    return report_service_pb2.CompactEvent(
        execution_handle=base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)),
        event_id=bytes(16),
        event_type=common_pb2.STEP_PROGRESS,
        source_seq=50,
        phase_code="READ",
    )


def registration(live: Live) -> register_service_pb2.RegisterExecutionRequest:
    """A dynamic step, under the running one and by its credential."""
    return register_service_pb2.RegisterExecutionRequest(
        command_id=unique("cmd"),
        task_id=live.task_id,
        parent_execution_handle=live.context.execution_handle,
        client_step_key=unique("key"),
        operation_code="SEARCH.WEB",
        producer_id="search-service",
        step_attempt=1,
    )


def on_stream(live: Live) -> report_service_pb2.CompactEvent:
    """A progress of the execution that the stream bound first."""
    event = compact(live)
    event.ClearField("execution_handle")
    event.stream_execution_key = 1
    return event


GOOD: Mapping[str, Callable[[Live], Message]] = {
    "taskstatus.v1.RegisterService/CreateWorkflow": lambda _: workflow_request(task_spec()),
    "taskstatus.v1.RegisterService/CreateTask": lambda live: register_service_pb2.CreateTaskRequest(
        command_id=unique("cmd"), workflow_id=live.workflow_id, task=task_spec()
    ),
    "taskstatus.v1.RegisterService/ActivateStep": lambda live: activate(live.task_id),
    "taskstatus.v1.RegisterService/RegisterExecution": registration,
    "taskstatus.v1.RegisterService/RenewExecution": lambda live: register_service_pb2.RenewExecutionRequest(
        execution_id=live.context.execution_id, execution_token=live.context.execution_token
    ),
    "taskstatus.v1.ReportService/ReportEvent": progress,
    "taskstatus.v1.ReportService/BatchReportEvents": lambda live: report_service_pb2.BatchReportEventsRequest(
        events=[progress(live), progress(live, execution_token=live.context.execution_token)]
    ),
    "taskstatus.v1.ReportService/BatchReportCompactEvents": (
        lambda live: report_service_pb2.BatchReportCompactEventsRequest(events=[compact(live)])
    ),
    "taskstatus.v1.HeartbeatService/BatchHeartbeat": lambda live: heartbeat_service_pb2.BatchHeartbeatRequest(
        heartbeats=[
            heartbeat_service_pb2.Heartbeat(execution_handle=live.context.execution_handle, heartbeat_seq=1),
            heartbeat_service_pb2.Heartbeat(execution_token=live.context.execution_token, heartbeat_seq=2),
        ]
    ),
    "taskstatus.v1.BindExecutionService/BindExecution": lambda live: bind_execution_service_pb2.BindExecutionRequest(
        execution_token=live.context.execution_token
    ),
    "taskstatus.v1.BindExecutionService/StreamExecutions": (
        lambda live: bind_execution_service_pb2.StreamExecutionsRequest(
            correlation=2, report=bind_execution_service_pb2.StreamReport(events=[on_stream(live)])
        )
    ),
    "taskstatus.v1.QueryService/GetTask": lambda live: query_service_pb2.GetTaskRequest(task_id=live.task_id),
    "taskstatus.v1.QueryService/ListTaskEvents": lambda live: query_service_pb2.ListTaskEventsRequest(
        task_id=live.task_id, after_task_version=1, limit=2
    ),
    "taskstatus.v1.RealtimeService/GetSession": lambda _: realtime_service_pb2.GetSessionRequest(),
    "taskstatus.v1.RealtimeService/CreateSubscriptionToken": (
        lambda live: realtime_service_pb2.CreateSubscriptionTokenRequest(task_id=live.task_id)
    ),
    "taskstatus.v1.AdminService/ListStuckTasks": lambda _: admin_service_pb2.ListStuckTasksRequest(limit=10),
    **GOOD_ORDERS,
    **GOOD_LISTS,
}
"""A request of each method that is answered well; a test compares the methods with the access matrix."""


def caller_for(method: str, callers: Mapping[Role, Caller]) -> Caller:
    """Somebody who may call the method: the person, the worker, the coordinator, else the admin."""
    roles = METHOD_ROLES[method]
    return next(caller for role, caller in callers.items() if role in roles)
