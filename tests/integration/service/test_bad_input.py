"""Each bad input is refused with its reason, and nothing is written (issue list; E-2, ID-4, E-13)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from google.protobuf import struct_pb2, timestamp_pb2
from taskstatus_pb.v1 import common_pb2, register_service_pb2, report_service_pb2

from taskstatus.application.identity import Role
from tests.integration.service.conftest import Site
from tests.support.clients import (
    COORDINATOR,
    WORKER,
    activate,
    event_request,
    new_task,
    refusal_of,
    step,
    task_spec,
    unique,
    workflow_request,
)
from tests.support.databases import audit_of, count_rows

Code = grpc.StatusCode
Event = dict[str, Any]


@dataclass
class Scene:
    """A running attempt 2 with a superseded attempt 1, ready to be reported on wrongly."""

    site: Site
    task_id: str
    old: Any
    context: Any
    committed: report_service_pb2.ReportEventRequest


@pytest.fixture
async def scene(site: Site) -> Scene:
    task_id = await new_task(site.coordinator)
    old = await activate(site.coordinator, task_id)
    context = await activate(site.coordinator, task_id, attempt=2)
    committed = event_request(
        event_type=common_pb2.STEP_STARTED, source_seq=5, execution_handle=context.execution_handle
    )
    await site.worker.call(site.worker.report_service.ReportEvent, committed)
    return Scene(site, task_id, old, context, committed)


def good(scene: Scene, **changes: Any) -> Event:
    """A progress that would be accepted."""
    return {
        "event_type": common_pb2.STEP_PROGRESS,
        "source_seq": 6,
        "execution_handle": scene.context.execution_handle,
        "progress": common_pb2.Progress(current=1, total=10, unit="page"),
        **changes,
    }


def big_struct() -> struct_pb2.Struct:
    struct = struct_pb2.Struct()
    struct.update({"text": "x" * 20_000})
    return struct


def struct_of(**fields: Any) -> struct_pb2.Struct:
    struct = struct_pb2.Struct()
    struct.update(fields)
    return struct


def deep_struct() -> struct_pb2.Struct:
    struct = struct_of(leaf=1)
    for _ in range(20):
        outer = struct_pb2.Struct()
        outer.fields["inner"].struct_value.CopyFrom(struct)
        struct = outer
    return struct


def data(value: struct_pb2.Struct, schema: str = "document.parse.progress.v1") -> report_service_pb2.EventData:
    return report_service_pb2.EventData(schema=schema, value=value)


REFUSED: dict[str, tuple[Callable[[Scene], Event], Code, str]] = {
    "forged token": (
        lambda s: good(s, execution_handle="", execution_token=s.context.execution_token[:-2] + "AA"),
        Code.UNAUTHENTICATED,
        "UNAUTHENTICATED",
    ),
    "forged handle": (
        lambda s: good(s, execution_handle=s.context.execution_handle[:-2] + "AA"),
        Code.UNAUTHENTICATED,
        "UNAUTHENTICATED",
    ),
    "no credential": (lambda s: good(s, execution_handle=""), Code.UNAUTHENTICATED, "UNAUTHENTICATED"),
    "token and handle": (
        lambda s: good(s, execution_token=s.context.execution_token),
        Code.INVALID_ARGUMENT,
        "INVALID_ARGUMENT",
    ),
    "stated other task": (lambda s: good(s, task_id=other_id("task_")), Code.PERMISSION_DENIED, "TOKEN_MISMATCH"),
    "stated other workflow": (
        lambda s: good(s, workflow_id=other_id("wf_")),
        Code.PERMISSION_DENIED,
        "TOKEN_MISMATCH",
    ),
    "stated unknown step": (lambda s: good(s, step_id="99_none"), Code.PERMISSION_DENIED, "TOKEN_MISMATCH"),
    "step id in other case": (lambda s: good(s, step_id="02_PARSE"), Code.PERMISSION_DENIED, "TOKEN_MISMATCH"),
    "step id with trailing space": (lambda s: good(s, step_id="02_parse "), Code.PERMISSION_DENIED, "TOKEN_MISMATCH"),
    "stated old attempt": (lambda s: good(s, step_attempt=1), Code.PERMISSION_DENIED, "TOKEN_MISMATCH"),
    "stated other operation": (
        lambda s: good(s, operation_code="VIDEO.TRANSCODE"),
        Code.PERMISSION_DENIED,
        "OPERATION_MISMATCH",
    ),
    "stated other producer": (lambda s: good(s, producer_id="x"), Code.PERMISSION_DENIED, "PRODUCER_MISMATCH"),
    "task event with an execution's handle": (
        lambda s: good(s, event_type=common_pb2.TASK_COMPLETED),
        Code.PERMISSION_DENIED,
        "EVENT_TYPE_NOT_ALLOWED",
    ),
    "heartbeat as event": (
        lambda s: good(s, event_type=common_pb2.STEP_HEARTBEAT),
        Code.PERMISSION_DENIED,
        "EVENT_TYPE_NOT_ALLOWED",
    ),
    "the service's own type": (
        lambda s: good(s, event_type=common_pb2.TASK_CREATED),
        Code.PERMISSION_DENIED,
        "EVENT_TYPE_NOT_ALLOWED",
    ),
    "no event type": (lambda s: good(s, event_type=0), Code.INVALID_ARGUMENT, "INVALID_ARGUMENT"),
    "unknown event type": (lambda s: good(s, event_type=999), Code.INVALID_ARGUMENT, "INVALID_ARGUMENT"),
    "no event id": (lambda s: good(s, event_id=""), Code.INVALID_ARGUMENT, "INVALID_ARGUMENT"),
    "long event id": (lambda s: good(s, event_id="e" * 65), Code.INVALID_ARGUMENT, "INVALID_ARGUMENT"),
    "event id with NUL": (lambda s: good(s, event_id="a\0b"), Code.INVALID_ARGUMENT, "INVALID_ARGUMENT"),
    "event id with trailing space": (lambda s: good(s, event_id="evt "), Code.INVALID_ARGUMENT, "INVALID_ARGUMENT"),
    "event id with 4-byte character": (lambda s: good(s, event_id="evt-😀"), Code.INVALID_ARGUMENT, "INVALID_ARGUMENT"),
    "sequence 0": (lambda s: good(s, source_seq=0), Code.INVALID_ARGUMENT, "INVALID_ARGUMENT"),
    "same event id, other content": (
        lambda s: good(s, event_id=s.committed.event_id),
        Code.ALREADY_EXISTS,
        "IDEMPOTENCY_CONFLICT",
    ),
    "too old": (
        lambda s: good(s, occurred_at=timestamp_pb2.Timestamp(seconds=1_000_000_000)),
        Code.FAILED_PRECONDITION,
        "EVENT_TOO_OLD",
    ),
    "oversized data": (lambda s: good(s, data=data(big_struct())), Code.RESOURCE_EXHAUSTED, "PAYLOAD_TOO_LARGE"),
    "deep data": (lambda s: good(s, data=data(deep_struct())), Code.INVALID_ARGUMENT, "INVALID_ARGUMENT"),
    "unsafe integer": (
        lambda s: good(s, data=data(struct_of(n=float(2**53 + 2)))),
        Code.INVALID_ARGUMENT,
        "INVALID_ARGUMENT",
    ),
    "infinite number": (
        lambda s: good(s, data=data(struct_of(n=float("inf")))),
        Code.INVALID_ARGUMENT,
        "INVALID_ARGUMENT",
    ),
    "data without schema": (
        lambda s: good(s, data=data(struct_of(n=1), schema="")),
        Code.INVALID_ARGUMENT,
        "INVALID_ARGUMENT",
    ),
    "progress beyond its total": (
        lambda s: good(s, progress=common_pb2.Progress(current=11, total=10)),
        Code.INVALID_ARGUMENT,
        "INVALID_ARGUMENT",
    ),
    "fractional milliseconds": (lambda s: good(s, duration_ms=1.5), Code.INVALID_ARGUMENT, "INVALID_ARGUMENT"),
    "failure without error": (
        lambda s: good(s, event_type=common_pb2.STEP_FAILED),
        Code.INVALID_ARGUMENT,
        "INVALID_ARGUMENT",
    ),
    "unregistered business status": (
        lambda s: good(s, business_status="PARSING"),
        Code.INVALID_ARGUMENT,
        "BUSINESS_STATUS_NOT_REGISTERED",
    ),
    "business status of another lifecycle": (
        lambda s: good(s, business_status="SUCCEEDED"),
        Code.INVALID_ARGUMENT,
        "BUSINESS_STATUS_NOT_REGISTERED",
    ),
}


def other_id(prefix: str) -> str:
    return prefix + "01890000000070008000000000000001"


@pytest.mark.parametrize("name", REFUSED)
async def test_e2_bad_event_is_refused_and_writes_nothing(scene: Scene, database_url: str, name: str) -> None:
    build, code, reason = REFUSED[name]
    before = await count_rows(database_url)
    refusal = await scene.site.worker.report_refused(**build(scene))
    assert (refusal.code, refusal.reason) == (code, reason)
    assert await count_rows(database_url) == before


ANSWERED: dict[str, tuple[Callable[[Scene], Event], int, bool]] = {
    "old attempt": (lambda s: good(s, execution_handle=s.old.execution_handle), common_pb2.STALE_ATTEMPT, True),
    "repeated sequence": (lambda s: good(s, source_seq=5), common_pb2.STALE_SEQUENCE, True),
    "older sequence": (lambda s: good(s, source_seq=4), common_pb2.STALE_SEQUENCE, True),
}


@pytest.mark.parametrize("name", ANSWERED)
async def test_e4_late_event_is_answered_and_writes_nothing(scene: Scene, database_url: str, name: str) -> None:
    build, reason, stale = ANSWERED[name]
    before = await count_rows(database_url)
    answer = await scene.site.worker.report(**build(scene))
    assert (answer.accepted, answer.stale, answer.reason) == (False, stale, reason)
    assert await count_rows(database_url) == before


async def test_e8_progress_that_goes_back_is_answered_not_monotonic(scene: Scene) -> None:
    worker = scene.site.worker
    await worker.report(**good(scene, progress=common_pb2.Progress(current=5, total=10, unit="page")))
    answer = await worker.report(
        **good(scene, source_seq=7, progress=common_pb2.Progress(current=4, total=10, unit="page"))
    )
    assert (answer.accepted, answer.stale, answer.reason) == (False, False, common_pb2.PROGRESS_NOT_MONOTONIC)


async def test_l1_progress_before_start_is_not_allowed(site: Site) -> None:
    task_id = await new_task(site.coordinator)
    context = await activate(site.coordinator, task_id)
    refusal = await site.worker.report_refused(
        event_type=common_pb2.STEP_PROGRESS, source_seq=1, execution_handle=context.execution_handle, phase_code="X"
    )
    assert (refusal.code, refusal.reason) == (Code.FAILED_PRECONDITION, "TRANSITION_NOT_ALLOWED")


async def test_id1_another_tenants_credential_is_refused(scene: Scene) -> None:
    site = scene.site
    foreign = site.caller(site.tokens.service(WORKER, Role.WORKER, tenant="t-02"))
    assert (await foreign.report_refused(**good(scene))).reason == "TOKEN_MISMATCH"


async def test_e2_another_producer_may_not_use_the_credential(scene: Scene) -> None:
    site = scene.site
    other = site.caller(site.tokens.service("other-parser", Role.WORKER))
    assert (await other.report_refused(**good(scene))).reason == "PRODUCER_MISMATCH"


@pytest.mark.parametrize("role", [Role.BUSINESS, Role.ADMIN])
async def test_e1_roles_that_do_not_report_are_denied(scene: Scene, role: Role) -> None:
    caller = scene.site.caller(scene.site.tokens.service(WORKER, role))
    refusal = await caller.report_refused(**good(scene))
    assert (refusal.code, refusal.reason) == (Code.PERMISSION_DENIED, "PERMISSION_DENIED")


@pytest.mark.parametrize("token", ["", "not-a-jwt", "eyJhbGciOiJub25lIn0.e30."])
async def test_e2_a_missing_or_forged_jwt_is_unauthenticated(scene: Scene, token: str) -> None:
    refusal = await scene.site.caller(token).report_refused(**good(scene))
    assert (refusal.code, refusal.reason) == (Code.UNAUTHENTICATED, "UNAUTHENTICATED")


async def test_e1_only_the_recorded_coordinator_ends_the_task(scene: Scene) -> None:
    site = scene.site
    event = {"event_type": common_pb2.TASK_COMPLETED, "source_seq": 1, "task_id": scene.task_id}
    other = site.caller(site.tokens.service("other-coordinator", Role.COORDINATOR))
    assert (await other.report_refused(**event)).reason == "EVENT_TYPE_NOT_ALLOWED"
    foreign = site.caller(site.tokens.service(COORDINATOR, Role.COORDINATOR, tenant="t-02"))
    unknown = await site.coordinator.report_refused(**{**event, "task_id": other_id("task_")})
    assert await foreign.report_refused(**event) == unknown
    assert unknown.reason == "TASK_NOT_FOUND"


async def test_t1_malformed_protobuf_is_an_invalid_argument(site: Site, database_url: str) -> None:
    before = await count_rows(database_url)
    send = site.channel.unary_unary("/taskstatus.v1.ReportService/ReportEvent")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await send(b"\xff\xff\xff", metadata=site.worker.metadata)
    refusal = refusal_of(caught.value)
    assert (refusal.code, refusal.reason) == (Code.INVALID_ARGUMENT, "INVALID_ARGUMENT")
    assert await count_rows(database_url) == before


async def test_r3_an_event_never_creates_a_step(scene: Scene) -> None:
    refusal = await scene.site.coordinator.report_refused(
        event_type=common_pb2.STEP_CANCELLED, source_seq=1, task_id=scene.task_id, step_id="99_none"
    )
    assert (refusal.code, refusal.reason) == (Code.NOT_FOUND, "STEP_NOT_FOUND")


BAD_WORKFLOWS: dict[str, tuple[Callable[[], register_service_pb2.CreateWorkflowRequest], str]] = {
    "no title": (lambda: workflow_request(title="  "), "title"),
    "long title": (lambda: workflow_request(title="t" * 201), "title"),
    "no key": (lambda: workflow_request(client_workflow_key=""), "clientWorkflowKey"),
    "no owner": (lambda: workflow_request(owner_id=""), "ownerId"),
    "owner with space": (lambda: workflow_request(owner_id="u 1"), "ownerId"),
    "priority out of range": (lambda: workflow_request(task_spec(priority=101)), "initialTasks[0].priority"),
    "step id with slash": (
        lambda: workflow_request(task_spec(known_steps=[step("a/b")])),
        "initialTasks[0].knownSteps[0].stepId",
    ),
    "reserved step id": (
        lambda: workflow_request(task_spec(known_steps=[step("dyn_x")])),
        "initialTasks[0].knownSteps[0].stepId",
    ),
    "step twice": (
        lambda: workflow_request(task_spec(known_steps=[step("a"), step("a")])),
        "initialTasks[0].knownSteps",
    ),
    "unknown dependency": (
        lambda: workflow_request(task_spec(known_steps=[step("a", depends_on=["b"])])),
        "initialTasks[0].knownSteps[0].dependsOn",
    ),
    "task key twice": (
        lambda: workflow_request(task_spec(client_task_key="k"), task_spec(client_task_key="k")),
        "initialTasks",
    ),
    "grant without type": (
        lambda: workflow_request(grants=[register_service_pb2.AccessGrant(principal_id="u", permission=1)]),
        "grants[0].principalType",
    ),
}


@pytest.mark.parametrize("name", BAD_WORKFLOWS)
async def test_r9_bad_creation_names_its_field_and_writes_nothing(site: Site, database_url: str, name: str) -> None:
    build, field = BAD_WORKFLOWS[name]
    before = await count_rows(database_url)
    refusal = await site.coordinator.refused(site.coordinator.register.CreateWorkflow, build())
    assert (refusal.code, refusal.reason, refusal.fields) == (Code.INVALID_ARGUMENT, "INVALID_ARGUMENT", (field,))
    assert await count_rows(database_url) == before


async def test_r6_a_command_id_used_for_something_else_conflicts(scene: Scene) -> None:
    site = scene.site
    request = register_service_pb2.RegisterExecutionRequest(
        command_id=unique("cmd"),
        task_id=scene.task_id,
        client_step_key="a",
        operation_code="SEARCH.WEB",
        producer_id="search",
        step_attempt=1,
    )
    await site.coordinator.call(site.coordinator.register.RegisterExecution, request)
    request.client_step_key = "b"
    refusal = await site.coordinator.refused(site.coordinator.register.RegisterExecution, request)
    assert refusal.reason == "IDEMPOTENCY_CONFLICT"


async def test_n4_rejected_reports_are_kept_in_the_audit(site: Site, database_url: str) -> None:
    producer = unique("auditee")
    caller = site.caller(site.tokens.service(producer, Role.WORKER))
    refusal = await caller.report_refused(event_type=common_pb2.STEP_STARTED, source_seq=1)
    assert refusal.reason == "UNAUTHENTICATED"
    async with asyncio.timeout(20):
        while not (rows := await audit_of(database_url, producer)):
            await asyncio.sleep(0.05)
    assert rows == [("UNAUTHENTICATED", "STEP_STARTED", "grpc")]
