"""Good requests of the commands on tasks, workflows and definitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from google.protobuf import struct_pb2
from google.protobuf.message import Message
from taskstatus_pb.v1 import common_pb2, definitions_pb2, task_commands_pb2, workflow_pb2

from tests.support.clients import WORKER, unique

if TYPE_CHECKING:
    from tests.fuzz.live import Live

REASON = "as asked"


def skipped(live: Live) -> task_commands_pb2.SkippedStep:
    """A step of the ended task, with the event that completed it."""
    return task_commands_pb2.SkippedStep(step_id=live.step_id, reason=REASON, source_event_id=live.result_id)


def statuses(task_type: str, version: int = 1) -> definitions_pb2.StatusDefinition:
    """A status of a type."""
    status = definitions_pb2.BusinessStatus(code="READING", lifecycle_status=common_pb2.RUNNING)
    return definitions_pb2.StatusDefinition(task_type=task_type, version=version, statuses=[status])


def publication(task_type: str) -> definitions_pb2.PublishDefinitionsRequest:
    """Statuses and an operation of a type."""
    schema = struct_pb2.Struct()
    schema.update({"type": "object", "properties": {"pages": {"type": "integer"}}})
    result = definitions_pb2.DataSchema(name="fuzz.result.v1", events=[common_pb2.STEP_COMPLETED], json_schema=schema)
    operation = definitions_pb2.OperationDefinition(
        operation_code="FUZZ.PARSE",
        version=1,
        task_type=task_type,
        producers=[WORKER],
        events=[common_pb2.STEP_STARTED, common_pb2.STEP_COMPLETED],
        failure_policy=common_pb2.FAIL_TASK,
        schemas=[result],
    )
    return definitions_pb2.PublishDefinitionsRequest(operations=[operation], statuses=[statuses(task_type)])


def _of(live: Live, kind: Callable[..., Message], task_id: str, **fields: Any) -> Message:
    del live
    return kind(command_id=unique("cmd"), task_id=task_id, **fields)


GOOD_ORDERS: Mapping[str, Callable[[Live], Message]] = {
    "taskstatus.v1.RegisterService/RequestCancel": lambda live: _of(
        live, task_commands_pb2.RequestCancelRequest, live.task_id, reason=REASON
    ),
    "taskstatus.v1.RegisterService/RerunTask": lambda live: _of(
        live, task_commands_pb2.RerunTaskRequest, live.ended_id, reason=REASON
    ),
    "taskstatus.v1.RegisterService/ClassifyTask": lambda live: _of(
        live, task_commands_pb2.ClassifyTaskRequest, live.task_id, task_type=live.task_type
    ),
    "taskstatus.v1.RegisterService/UpdateTaskMetadata": lambda live: _of(
        live, task_commands_pb2.UpdateTaskMetadataRequest, live.task_id, product_id="p-1", priority=3, reason=REASON
    ),
    "taskstatus.v1.RegisterService/AttachExternalRef": lambda live: _of(
        live,
        task_commands_pb2.AttachExternalRefRequest,
        live.task_id,
        external_ref=task_commands_pb2.ExternalRef(ref_type="ORDER_ID", ref_value=live.task_id),
    ),
    "taskstatus.v1.RegisterService/RevokeExecution": lambda live: task_commands_pb2.RevokeExecutionRequest(
        command_id=unique("cmd"), execution_id=live.context.execution_id, reason=REASON
    ),
    "taskstatus.v1.RegisterService/UpdateWorkflow": lambda live: workflow_pb2.UpdateWorkflowRequest(
        command_id=unique("cmd"), workflow_id=live.workflow_id, title="Another title", reason=REASON
    ),
    "taskstatus.v1.AdminService/CorrectTask": lambda live: _of(
        live,
        task_commands_pb2.CorrectTaskRequest,
        live.ended_id,
        lifecycle_status=common_pb2.FAILED,
        error=common_pb2.EventError(code="LOST", message="It was lost."),
        reason=REASON,
    ),
    "taskstatus.v1.AdminService/PublishDefinitions": lambda _: publication(unique("TYPE")),
    "taskstatus.v1.AdminService/RetireDefinition": lambda live: definitions_pb2.RetireDefinitionRequest(
        task_type=live.task_type, version=1
    ),
    "taskstatus.v1.AdminService/ListDefinitions": lambda live: definitions_pb2.ListDefinitionsRequest(
        task_type=live.task_type
    ),
    "taskstatus.v1.QueryService/GetStatusDefinition": lambda live: definitions_pb2.GetStatusDefinitionRequest(
        task_type=live.task_type, version=1
    ),
}
"""By the method's full name."""
