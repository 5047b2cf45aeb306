"""Requests on a stage: each builder gives a command as its callers would write it, with what a case changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import Message
from taskstatus_pb.v1 import (
    common_pb2,
    definitions_pb2,
    register_service_pb2,
    task_commands_pb2,
    workflow_pb2,
)

from tests.parity.cases import DONE as STEP_DONE
from tests.parity.cases import FAILURE, ruling
from tests.parity.stage import OPERATION, STEP_ID, Order, Spec, Stage
from tests.support.clients import WORKER, task_spec

Build = Callable[[Stage], Message]

CANCEL, RERUN = "RegisterService/RequestCancel", "RegisterService/RerunTask"
CLASSIFY, METADATA = "RegisterService/ClassifyTask", "RegisterService/UpdateTaskMetadata"
ATTACH, REVOKE = "RegisterService/AttachExternalRef", "RegisterService/RevokeExecution"
REGISTER, UPDATE = "RegisterService/RegisterExecution", "RegisterService/UpdateWorkflow"
CREATE_TASK, CORRECT = "RegisterService/CreateTask", "AdminService/CorrectTask"
PUBLISH, RETIRE = "AdminService/PublishDefinitions", "AdminService/RetireDefinition"

TASK_FAILED = ruling(common_pb2.TASK_FAILED, seq=3, number=5, failed_step_id=STEP_ID, error=FAILURE)
STEP_RESULT = f"{STEP_DONE.number:032x}"
"""The event that completed the step."""
SUCCEEDED, FAILED = common_pb2.SUCCEEDED, common_pb2.FAILED
UNCLASSIFIED = Spec({"task_type": ""})


def of_task(kind: Callable[..., Message], **fields: Any) -> Build:
    """A command on the stage's task."""
    return lambda stage: kind(**{"command_id": "cmd-x", "task_id": stage.task_id, **fields})


def cancel(**fields: Any) -> Build:
    """RequestCancel."""
    return of_task(task_commands_pb2.RequestCancelRequest, **{"reason": "not needed", **fields})


def rerun(**fields: Any) -> Build:
    """RerunTask."""
    return of_task(task_commands_pb2.RerunTaskRequest, **{"reason": "input mended", **fields})


def skipping(step_id: str = STEP_ID, source: str = STEP_RESULT, reason: str = "good still") -> Build:
    """RerunTask that skips a step."""
    skipped = task_commands_pb2.SkippedStep(step_id=step_id, reason=reason, source_event_id=source)
    return rerun(skipped_steps=[skipped])


def metadata(**fields: Any) -> Build:
    """UpdateTaskMetadata."""
    return of_task(task_commands_pb2.UpdateTaskMetadataRequest, **{"product_id": "p-2", "reason": "moved", **fields})


def attach(value: str = "", **fields: Any) -> Build:
    """AttachExternalRef; unless told, of a number that is the stage's own."""

    def build(stage: Stage) -> Message:
        ref = task_commands_pb2.ExternalRef(ref_type="ORDER_ID", ref_value=value or stage.task_id)
        return of_task(task_commands_pb2.AttachExternalRefRequest, **{"external_ref": ref, **fields})(stage)

    return build


def correct(lifecycle: int, **fields: Any) -> Build:
    """CorrectTask."""
    return of_task(
        task_commands_pb2.CorrectTaskRequest, **{"lifecycle_status": lifecycle, "reason": "seen by hand", **fields}
    )


def revoke(of: int = -1, **fields: Any) -> Build:
    """RevokeExecution of one of the stage's attempts."""
    return lambda stage: task_commands_pb2.RevokeExecutionRequest(
        **{"command_id": "cmd-x", "execution_id": stage.contexts[of].execution_id, "reason": "leaked", **fields}
    )


def classify(**fields: Any) -> Build:
    """ClassifyTask; unless told, as the type that is named as the task."""
    return lambda stage: task_commands_pb2.ClassifyTaskRequest(
        **{"command_id": "cmd-x", "task_id": stage.task_id, "task_type": stage.task_id, **fields}
    )


def update(**fields: Any) -> Build:
    """UpdateWorkflow."""
    return lambda stage: workflow_pb2.UpdateWorkflowRequest(
        **{"command_id": "cmd-x", "workflow_id": stage.workflow_id, **fields}
    )


def register(key: str = "search", **fields: Any) -> Build:
    """RegisterExecution of a dynamic step."""
    return of_task(
        register_service_pb2.RegisterExecutionRequest,
        **{
            "client_step_key": key,
            "operation_code": "SEARCH.WEB",
            "producer_id": "search-service",
            "step_attempt": 1,
            **fields,
        },
    )


def by_parent(key: str = "search", credential: str = "execution_handle", **fields: Any) -> Build:
    """RegisterExecution by the stage's last execution."""

    def build(stage: Stage) -> Message:
        given = {f"parent_{credential}": getattr(stage.contexts[-1], credential)}
        return register(key, **{**given, **fields})(stage)

    return build


def policy(**bounds: Any) -> Spec:
    """The task's bounds of dynamic steps."""
    return Spec({"dynamic_registration": register_service_pb2.DynamicRegistrationPolicy(**bounds)})


AGENT = policy(allowed_parent_operations=[OPERATION], allowed_child_operations=["SEARCH.*"])


def statuses(version: int = 1, *codes: str) -> dict[str, Any]:
    """Statuses of a type, in the request's JSON form."""
    named = [{"code": code, "lifecycleStatus": "RUNNING"} for code in codes or ("READING", "REVIEW")]
    return {"version": version, "statuses": named}


def publish(*definitions: Mapping[str, Any], dry_run: bool = False, operations: Any = ()) -> Build:
    """PublishDefinitions for the type that is named as the task."""

    def build(stage: Stage) -> Message:
        document = {
            "statuses": [{**each, "taskType": stage.task_id} for each in definitions],
            "operations": [{**each, "taskType": stage.task_id} for each in operations],
            "dryRun": dry_run,
        }
        return json_format.ParseDict(document, definitions_pb2.PublishDefinitionsRequest())

    return build


def parsing(version: int, kind: str = "integer", required: tuple[str, ...] = ("pages",)) -> dict[str, Any]:
    """An operation whose result has pages, in the request's JSON form."""
    schema = {"type": "object", "properties": {"pages": {"type": kind}}, "required": list(required)}
    result = {"name": "parity.result.v1", "events": ["STEP_COMPLETED"], "jsonSchema": schema}
    events = ["STEP_STARTED", "STEP_COMPLETED"]
    return {
        "operationCode": OPERATION,
        "version": version,
        "producers": [WORKER],
        "failurePolicy": "FAIL_TASK",
        "events": events,
        "schemas": [{**result, "detailFields": ["pages"]}],
    }


def retire(version: int = 1) -> Build:
    """RetireDefinition of the statuses of the type that is named as the task."""
    return lambda stage: definitions_pb2.RetireDefinitionRequest(task_type=stage.task_id, version=version)


PUBLISHED = Order(PUBLISH, publish(statuses(1), operations=[parsing(1)]), "admin")
RETIRED = (PUBLISHED, Order(PUBLISH, publish(statuses(2)), "admin"), Order(RETIRE, retire(1), "admin"))
CANCELLING = Order(CANCEL, cancel(command_id="cmd-c"))
RULED = Order(UPDATE, update(command_id="cmd-r", lifecycle_status=FAILED, reason="given up"))
ATTACHED = Order(ATTACH, attach(command_id="cmd-a"))
REGISTERED = Order(REGISTER, register("first", command_id="cmd-f"))


def other_task(*, is_numbered: bool = False, **fields: Any) -> Build:
    """CreateTask of one more task in the stage's workflow, with the stage's own number or without."""

    def build(stage: Stage) -> Message:
        number = task_commands_pb2.ExternalRef(ref_type="ORDER_ID", ref_value=stage.task_id)
        spec = task_spec(**{"client_task_key": "other", "external_refs": [number] if is_numbered else [], **fields})
        return register_service_pb2.CreateTaskRequest(command_id="cmd-o", workflow_id=stage.workflow_id, task=spec)

    return build
