"""Operation definitions on real databases: bound at activation, validated, projected by whitelist (L-5, P-2, E-2)."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from google.protobuf import json_format, struct_pb2
from taskstatus_pb.v1 import common_pb2, query_service_pb2, report_service_pb2

from tests.integration.service.conftest import OpenSite, Site
from tests.support.clients import activate, new_task, step, unique
from tests.support.databases import count_rows
from tests.support.definitions import publish

COMPLETED = "document.parse.completed.v2"


def definition(operation: str, version: int = 1, **changes: Any) -> dict[str, Any]:
    return {
        "operation": operation,
        "version": version,
        "producers": ["document-*"],
        "failurePolicy": "WAIT_FOR_USER",
        "events": ["STEP_STARTED", "STEP_PROGRESS", "STEP_COMPLETED", "STEP_FAILED"],
        "schemas": [
            {
                "name": COMPLETED,
                "events": ["STEP_COMPLETED"],
                "maxBytes": 2000,
                "schema": {
                    "type": "object",
                    "properties": {
                        "pageCount": {"type": "integer", "minimum": 0},
                        "language": {"type": "string"},
                        "resultRef": {"type": "string"},
                    },
                    "required": ["pageCount"],
                    "additionalProperties": False,
                },
                "detail": ["pageCount", "language"],
                "summary": ["pageCount"],
            }
        ],
        **changes,
    }


def data(schema: str = COMPLETED, **fields: Any) -> report_service_pb2.EventData:
    value = struct_pb2.Struct()
    value.update(fields)
    return report_service_pb2.EventData(schema=schema, value=value)


async def started(site: Site, operation: str) -> tuple[str, str]:
    """(task, handle) of a running execution of an operation."""
    task_id = await new_task(site.coordinator, known_steps=[step(operation_code=operation, failure_policy=0)])
    handle = (await activate(site.coordinator, task_id)).execution_handle
    await site.worker.report(event_type=common_pb2.STEP_STARTED, source_seq=1, execution_handle=handle)
    return task_id, handle


async def test_p2_whitelisted_fields_reach_views_and_nothing_else_does(open_site: OpenSite, database_url: str) -> None:
    operation = unique("DOCUMENT.PARSE")
    await publish(database_url, definition(operation))
    site = await open_site()
    task_id, handle = await started(site, operation)
    answer = await site.worker.report(
        event_type=common_pb2.STEP_COMPLETED,
        source_seq=2,
        execution_handle=handle,
        data=data(pageCount=36, language="zh-CN", resultRef="result://secret"),
    )
    assert answer.accepted
    view = await site.owner.call(site.owner.query.GetTask, query_service_pb2.GetTaskRequest(task_id=task_id))
    assert json_format.MessageToDict(view.task.steps[0].data) == {
        "schema": COMPLETED,
        "value": {"pageCount": 36, "language": "zh-CN"},
    }
    assert json_format.MessageToDict(view.task.summary_data) == {"schema": COMPLETED, "value": {"pageCount": 36}}
    assert "result://secret" not in str(view)


@pytest.mark.parametrize(
    ("event_type", "content", "code", "reason"),
    [
        (common_pb2.STEP_COMPLETED, {"data": data(pageCount=-1)}, grpc.StatusCode.INVALID_ARGUMENT, "SCHEMA_VIOLATION"),
        (common_pb2.STEP_COMPLETED, {"data": data()}, grpc.StatusCode.INVALID_ARGUMENT, "SCHEMA_VIOLATION"),
        (
            common_pb2.STEP_COMPLETED,
            {"data": data("video.transcode.progress.v1", pageCount=1)},
            grpc.StatusCode.INVALID_ARGUMENT,
            "SCHEMA_NOT_ALLOWED",
        ),
        (common_pb2.STEP_PROGRESS, {"data": data(pageCount=1)}, grpc.StatusCode.INVALID_ARGUMENT, "SCHEMA_NOT_ALLOWED"),
        (
            common_pb2.STEP_COMPLETED,
            {"data": data(pageCount=1, language="x" * 3000)},
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "PAYLOAD_TOO_LARGE",
        ),
        (common_pb2.STEP_CANCELLED, {}, grpc.StatusCode.PERMISSION_DENIED, "EVENT_TYPE_NOT_ALLOWED"),
    ],
)
async def test_e2_data_outside_the_definition_is_refused_and_writes_nothing(
    open_site: OpenSite,
    database_url: str,
    event_type: common_pb2.EventType.ValueType,
    content: dict[str, Any],
    code: grpc.StatusCode,
    reason: str,
) -> None:
    operation = unique("DOCUMENT.PARSE")
    await publish(database_url, definition(operation))
    site = await open_site()
    _, handle = await started(site, operation)
    before = await count_rows(database_url)
    refusal = await site.worker.report_refused(event_type=event_type, source_seq=2, execution_handle=handle, **content)
    assert (refusal.code, refusal.reason) == (code, reason)
    assert await count_rows(database_url) == before


async def test_l5_the_generic_profile_takes_generic_progress_only(site: Site) -> None:
    task_id, handle = await started(site, unique("SEARCH.WEB"))
    accepted = await site.worker.report(
        event_type=common_pb2.STEP_PROGRESS,
        source_seq=2,
        execution_handle=handle,
        data=data("generic.progress.v1", message="page 3"),
    )
    assert accepted.accepted
    view = await site.owner.call(site.owner.query.GetTask, query_service_pb2.GetTaskRequest(task_id=task_id))
    assert json_format.MessageToDict(view.task.summary_data)["value"] == {"message": "page 3"}
    refusal = await site.worker.report_refused(
        event_type=common_pb2.STEP_COMPLETED, source_seq=3, execution_handle=handle, data=data(pageCount=1)
    )
    assert refusal.reason == "SCHEMA_NOT_ALLOWED"


async def test_l5_a_new_version_reaches_a_running_replica_and_leaves_running_executions_alone(
    open_site: OpenSite, database_url: str
) -> None:
    operation = unique("DOCUMENT.PARSE")
    await publish(database_url, definition(operation))
    site = await open_site()
    _, old_handle = await started(site, operation)
    await publish(database_url, definition(operation, 2, events=["STEP_STARTED", "STEP_COMPLETED"], schemas=[]))
    async with asyncio.timeout(20):
        while True:
            _, new_handle = await started(site, operation)
            try:
                await site.worker.report(
                    event_type=common_pb2.STEP_PROGRESS, source_seq=2, execution_handle=new_handle, phase_code="X"
                )
            except grpc.aio.AioRpcError as error:
                assert error.code() is grpc.StatusCode.PERMISSION_DENIED
                break
    still = await site.worker.report(
        event_type=common_pb2.STEP_COMPLETED, source_seq=2, execution_handle=old_handle, data=data(pageCount=3)
    )
    assert still.accepted


async def test_l6_a_step_without_a_policy_takes_the_definitions(open_site: OpenSite, database_url: str) -> None:
    operation = unique("DOCUMENT.PARSE")
    await publish(database_url, definition(operation))
    site = await open_site()
    _, handle = await started(site, operation)
    failed = await site.worker.report(
        event_type=common_pb2.STEP_FAILED,
        source_seq=2,
        execution_handle=handle,
        error=common_pb2.EventError(code="UNSUPPORTED_FILE_FORMAT", category="INPUT"),
    )
    assert (failed.business_status, failed.lifecycle_status) == ("WAITING_USER_ACTION", common_pb2.RUNNING)


async def test_r5_a_producer_that_the_definition_does_not_admit_gets_no_execution(
    open_site: OpenSite, database_url: str
) -> None:
    from taskstatus_pb.v1 import register_service_pb2

    operation = unique("DOCUMENT.PARSE")
    await publish(database_url, definition(operation, producers=["ai-*"]))
    site = await open_site()
    task_id = await new_task(site.coordinator, known_steps=[step(operation_code=operation)])
    request = register_service_pb2.ActivateStepRequest(
        command_id=unique("cmd"), task_id=task_id, step_id="02_parse", step_attempt=1
    )
    refusal = await site.coordinator.refused(site.coordinator.register.ActivateStep, request)
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.PERMISSION_DENIED, "PRODUCER_MISMATCH")
