"""Wire requests with valid defaults."""

from __future__ import annotations

from typing import Any

from google.protobuf import struct_pb2
from taskstatus_pb.v1 import common_pb2, register_service_pb2, report_service_pb2

from taskstatus.application.identity import Role
from taskstatus.application.report import EventDraft
from taskstatus.domain.ids import format_task_id
from taskstatus.entrypoints.wire.call import CallInfo
from taskstatus.entrypoints.wire.decode_event import to_event_draft
from tests.unit.factories import MONOTONIC_NOW, TASK_ID, UNIX_NOW
from tests.unit.service_kit import a_service

COORDINATOR = a_service("coordinator", Role.COORDINATOR)
WORKER = a_service("document-parser", Role.WORKER)
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def a_call(traceparent: str = TRACEPARENT) -> CallInfo:
    """A call by gRPC."""
    return CallInfo("grpc", "jwt", traceparent, MONOTONIC_NOW, UNIX_NOW)


def a_step(**changes: Any) -> register_service_pb2.StepSpec:
    """One step of a manifest."""
    fields = {"step_id": "02_parse", "operation_code": "DOCUMENT.PARSE", "expected_producer": "document-parser"}
    return register_service_pb2.StepSpec(**{**fields, **changes})


def a_task(**changes: Any) -> register_service_pb2.TaskSpec:
    """One task with one step."""
    fields = {"client_task_key": "task-1", "title": "Annual report", "known_steps": [a_step()]}
    return register_service_pb2.TaskSpec(**{**fields, **changes})


def a_grant(**changes: Any) -> register_service_pb2.AccessGrant:
    """A person who may view."""
    grant = register_service_pb2.AccessGrant
    return grant(**{"principal_type": grant.USER, "principal_id": "u-99", "permission": grant.VIEW, **changes})


def a_workflow_request(**changes: Any) -> register_service_pb2.CreateWorkflowRequest:
    """A workflow with one task."""
    fields = {
        "command_id": "cmd-1",
        "client_workflow_key": "order-1",
        "owner_id": "u-88",
        "title": "Import",
        "initial_tasks": [a_task()],
    }
    return register_service_pb2.CreateWorkflowRequest(**{**fields, **changes})


def an_activation_request(**changes: Any) -> register_service_pb2.ActivateStepRequest:
    """Attempt 1 of the parse step."""
    fields = {"command_id": "cmd-2", "task_id": format_task_id(TASK_ID), "step_id": "02_parse", "step_attempt": 1}
    return register_service_pb2.ActivateStepRequest(**{**fields, **changes})


def a_registration_request(**changes: Any) -> register_service_pb2.RegisterExecutionRequest:
    """Attempt 1 of a dynamic step."""
    fields = {
        "command_id": "cmd-3",
        "task_id": format_task_id(TASK_ID),
        "client_step_key": "search",
        "operation_code": "SEARCH.WEB",
        "producer_id": "searcher",
        "step_attempt": 1,
    }
    return register_service_pb2.RegisterExecutionRequest(**{**fields, **changes})


def an_event(**changes: Any) -> report_service_pb2.ReportEventRequest:
    """A STEP_STARTED in compact form."""
    fields = {
        "event_id": "evt-1",
        "event_type": common_pb2.STEP_STARTED,
        "source_seq": 1,
        "execution_handle": "exh_1",
    }
    return report_service_pb2.ReportEventRequest(**{**fields, **changes})


def decoded(**changes: Any) -> EventDraft:
    """The draft of such an event."""
    return to_event_draft(an_event(**changes), WORKER, a_call())


def a_struct(**fields: Any) -> struct_pb2.Struct:
    """A JSON object."""
    struct = struct_pb2.Struct()
    struct.update(fields)
    return struct


def some_data(**fields: Any) -> report_service_pb2.EventData:
    """``data`` with a value of these fields."""
    return report_service_pb2.EventData(schema="document.parse.v1", value=a_struct(**fields))
