"""The tables of reads: what is answered alike by every way, and the reads that are refused, cursors above all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from google.protobuf.message import Message
from taskstatus_pb.v1 import (
    admin_service_pb2,
    common_pb2,
    definitions_pb2,
    query_service_pb2,
    realtime_service_pb2,
    task_list_pb2,
)

from taskstatus.domain.reasons import Reason
from tests.parity.calls import Command
from tests.parity.cases import DONE as STEP_DONE
from tests.parity.cases import RUNNING, STARTED, TASK_DONE
from tests.parity.orders import (
    ATTACHED,
    CANCELLING,
    CREATE_TASK,
    PUBLISHED,
    REGISTERED,
    RERUN,
    UNCLASSIFIED,
    Build,
    other_task,
    skipping,
)
from tests.parity.stage import Order, Preparation, Stage, other_id

MY_TASKS, OF_WORKFLOW = "QueryService/ListMyTasks", "QueryService/ListWorkflowTasks"
STATUSES, BY_NUMBER = "QueryService/BatchGetTaskStatus", "QueryService/LookupExternalRef"
BY_EVENT, BY_TRACE = "QueryService/LookupEvent", "QueryService/ListTraceEvents"
TASK, TIMELINE = "QueryService/GetTask", "QueryService/ListTaskEvents"
WORKFLOW, SHOWN_STATUSES = "QueryService/GetWorkflow", "QueryService/GetStatusDefinition"
DEFINITIONS, SUBSCRIBE = "AdminService/ListDefinitions", "RealtimeService/CreateSubscriptionToken"
STEP_STARTED = f"{STARTED.number:032x}"
"""The event that started the step; each task has one of that id."""
NOBODYS_TRACE = "0af7651916cd43dd8448eb211c80319c"


@dataclass(frozen=True)
class Read:
    """A read, and a text that its answer must hold."""

    method: str
    request: Callable[[Stage], Message]
    holds: str
    by: str = "owner"
    before: tuple[Preparation, ...] = ()


def my_tasks(**fields: object) -> Build:
    """ListMyTasks, of the stage's workflow alone."""
    return lambda stage: task_list_pb2.ListMyTasksRequest(
        **{"filter": task_list_pb2.TaskFilter(workflow_id=stage.workflow_id), **fields}
    )


def of_workflow(**fields: object) -> Build:
    """ListWorkflowTasks."""
    return lambda stage: task_list_pb2.ListWorkflowTasksRequest(**{"workflow_id": stage.workflow_id, **fields})


def going_on(build: Callable[..., Build], **fields: object) -> Build:
    """The list from where the last answer ended."""
    return lambda stage: build(cursor=getattr(stage.answers[-1], "next_cursor"), **fields)(stage)  # noqa: B009


def statuses(**fields: object) -> Build:
    """BatchGetTaskStatus of the stage's task and of one that is not there."""
    return lambda stage: task_list_pb2.BatchGetTaskStatusRequest(
        **{"task_ids": [stage.task_id, other_id("task")], **fields}
    )


def snapshot(stage: Stage) -> Message:
    """GetTask."""
    return query_service_pb2.GetTaskRequest(task_id=stage.task_id)


TWO_TASKS = Order(CREATE_TASK, other_task())
FIRST_PAGE = Order(MY_TASKS, my_tasks(limit=1), "owner")
FIRST_OF_WORKFLOW = Order(OF_WORKFLOW, of_workflow(limit=1), "owner")
RUN_AGAIN = (*RUNNING, STEP_DONE, TASK_DONE, Order(RERUN, skipping()))

READS: Mapping[str, Read] = {
    "snapshot of a second run": Read(TASK, snapshot, "SKIPPED", before=RUN_AGAIN),
    "snapshot for a service": Read(TASK, snapshot, "dyn_first", "coordinator", (REGISTERED,)),
    "timeline": Read(
        TIMELINE,
        lambda stage: query_service_pb2.ListTaskEventsRequest(task_id=stage.task_id, limit=100),
        "TASK_CANCEL_REQUESTED",
        before=(*RUNNING, CANCELLING),
    ),
    "my tasks": Read(MY_TASKS, my_tasks(limit=1), "nextCursor", before=(TWO_TASKS,)),
    "my tasks, next page": Read(MY_TASKS, going_on(my_tasks, limit=1), "Contract", before=(TWO_TASKS, FIRST_PAGE)),
    "my running tasks": Read(
        MY_TASKS,
        lambda stage: task_list_pb2.ListMyTasksRequest(
            filter=task_list_pb2.TaskFilter(
                workflow_id=stage.workflow_id, lifecycle_statuses=[common_pb2.RUNNING], title_contains="contr"
            )
        ),
        "RUNNING",
        before=RUNNING,
    ),
    "tasks of the workflow": Read(OF_WORKFLOW, of_workflow(), "Contract", "coordinator", (TWO_TASKS,)),
    "tasks of the workflow, next page": Read(
        OF_WORKFLOW, going_on(of_workflow, limit=1), "Contract", before=(TWO_TASKS, FIRST_OF_WORKFLOW)
    ),
    "the workflow": Read(
        WORKFLOW,
        lambda stage: query_service_pb2.GetWorkflowRequest(workflow_id=stage.workflow_id),
        "FULL",
        before=(TWO_TASKS,),
    ),
    "many statuses": Read(STATUSES, statuses(), "missingTaskIds", before=RUNNING),
    "a status that is known": Read(
        STATUSES, lambda stage: statuses(known_versions={stage.task_id: 1})(stage), "unchangedTaskIds"
    ),
    "a number": Read(
        BY_NUMBER,
        lambda stage: task_list_pb2.LookupExternalRefRequest(ref_type="ORDER_ID", ref_value=stage.task_id),
        "Contract",
        before=(ATTACHED,),
    ),
    "an event": Read(
        BY_EVENT,
        lambda _: task_list_pb2.LookupEventRequest(event_id=STEP_STARTED),
        "STEP_STARTED",
        "coordinator",
        RUNNING,
    ),
    "a trace": Read(
        BY_TRACE,
        lambda _: task_list_pb2.ListTraceEventsRequest(trace_id=NOBODYS_TRACE),
        "truncated",
        "coordinator",
    ),
    "statuses of a type": Read(
        SHOWN_STATUSES,
        lambda stage: definitions_pb2.GetStatusDefinitionRequest(task_type=stage.task_id, version=1),
        "REVIEW",
        before=(UNCLASSIFIED, PUBLISHED),
    ),
    "definitions": Read(
        DEFINITIONS,
        lambda stage: definitions_pb2.ListDefinitionsRequest(task_type=stage.task_id),
        "parity.result.v1",
        "admin",
        (UNCLASSIFIED, PUBLISHED),
    ),
    "stuck tasks": Read(
        "AdminService/ListStuckTasks", lambda _: admin_service_pb2.ListStuckTasksRequest(limit=1), "{", "admin"
    ),
}

REFUSED_READS: Mapping[str, Command] = {
    "cursor of another filter": Command(
        MY_TASKS,
        going_on(lambda **fields: my_tasks(filter=task_list_pb2.TaskFilter(task_type="video"), **fields)),
        Reason.INVALID_ARGUMENT,
        "owner",
        (TWO_TASKS, FIRST_PAGE),
    ),
    "cursor of another person": Command(
        MY_TASKS, going_on(my_tasks), Reason.INVALID_ARGUMENT, "viewer", (TWO_TASKS, FIRST_PAGE)
    ),
    "cursor of another tenant's person": Command(
        MY_TASKS, going_on(my_tasks), Reason.INVALID_ARGUMENT, "owner elsewhere", (TWO_TASKS, FIRST_PAGE)
    ),
    "cursor of another list": Command(
        OF_WORKFLOW, going_on(of_workflow), Reason.INVALID_ARGUMENT, "owner", (TWO_TASKS, FIRST_PAGE)
    ),
    "cursor of a person, with a service": Command(
        OF_WORKFLOW, going_on(of_workflow), Reason.INVALID_ARGUMENT, "coordinator", (TWO_TASKS, FIRST_OF_WORKFLOW)
    ),
    "cursor of the workflow, another tenant": Command(
        OF_WORKFLOW, going_on(of_workflow), Reason.INVALID_ARGUMENT, "owner elsewhere", (TWO_TASKS, FIRST_OF_WORKFLOW)
    ),
    "no cursor at all": Command(MY_TASKS, my_tasks(cursor="AAAA"), Reason.INVALID_ARGUMENT, "owner"),
    "too large a page": Command(MY_TASKS, my_tasks(limit=201), Reason.INVALID_ARGUMENT, "owner"),
    "my tasks of a service": Command(MY_TASKS, my_tasks(), Reason.PERMISSION_DENIED),
    "tasks of another tenant's workflow": Command(
        OF_WORKFLOW, of_workflow(), Reason.WORKFLOW_NOT_FOUND, "owner elsewhere"
    ),
    "another tenant's workflow": Command(
        WORKFLOW,
        lambda stage: query_service_pb2.GetWorkflowRequest(workflow_id=stage.workflow_id),
        Reason.WORKFLOW_NOT_FOUND,
        "other tenant",
    ),
    "a status twice": Command(
        STATUSES, lambda stage: statuses(task_ids=[stage.task_id] * 2)(stage), Reason.INVALID_ARGUMENT, "owner"
    ),
    "a number of nobody": Command(
        BY_NUMBER,
        lambda stage: task_list_pb2.LookupExternalRefRequest(ref_type="ORDER_ID", ref_value=stage.task_id),
        Reason.TASK_NOT_FOUND,
        "owner",
    ),
    "a number, elsewhere": Command(
        BY_NUMBER,
        lambda stage: task_list_pb2.LookupExternalRefRequest(ref_type="ORDER_ID", ref_value=stage.task_id),
        Reason.TASK_NOT_FOUND,
        "other tenant",
        (ATTACHED,),
    ),
    "an event, by a person": Command(
        BY_EVENT, lambda _: task_list_pb2.LookupEventRequest(event_id="evt-1"), Reason.PERMISSION_DENIED, "owner"
    ),
    "no trace": Command(
        BY_TRACE, lambda _: task_list_pb2.ListTraceEventsRequest(trace_id="0" * 32), Reason.INVALID_ARGUMENT
    ),
    "statuses that are not published": Command(
        SHOWN_STATUSES,
        lambda stage: definitions_pb2.GetStatusDefinitionRequest(task_type=stage.task_id, version=1),
        Reason.DEFINITION_NOT_FOUND,
        "owner",
    ),
    "definitions, by a coordinator": Command(
        DEFINITIONS, lambda _: definitions_pb2.ListDefinitionsRequest(), Reason.PERMISSION_DENIED
    ),
    "subscribe to two at once": Command(
        SUBSCRIBE,
        lambda stage: realtime_service_pb2.CreateSubscriptionTokenRequest(
            task_id=stage.task_id, workflow_id=stage.workflow_id
        ),
        Reason.INVALID_ARGUMENT,
        "owner",
    ),
    "subscribe to another's workflow": Command(
        SUBSCRIBE,
        lambda stage: realtime_service_pb2.CreateSubscriptionTokenRequest(workflow_id=stage.workflow_id),
        Reason.WORKFLOW_NOT_FOUND,
        "viewer",
    ),
}
