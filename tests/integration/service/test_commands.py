"""Commands on real databases, by gRPC and REST: cancel, rerun, correct, relabel, revoke, register as a parent."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import httpx
import pytest
from taskstatus_pb.v1 import (
    bind_execution_service_pb2,
    common_pb2,
    heartbeat_service_pb2,
    query_service_pb2,
    register_service_pb2,
    task_commands_pb2,
)

from gateway_rest.app import RestSettings, create_app
from taskstatus.application.identity import Role
from tests.integration.service.conftest import OpenSite, Site, activated
from tests.support.clients import Caller, activate, new_task, request_cancel, revoke, step, unique
from tests.support.databases import count_rows

UNWRITTEN = ("task_event_log", "task_event_dedup", "task_outbox", "task_step", "task_run", "command_audit")


def admin(site: Site) -> Caller:
    """An administrator's tool."""
    return site.caller(site.tokens.service("admin-tool", Role.ADMIN))


async def snapshot(site: Site, task_id: str) -> Any:
    """The task as its owner sees it."""
    request = query_service_pb2.GetTaskRequest(task_id=task_id)
    return (await site.owner.call(site.owner.query.GetTask, request)).task


async def timeline(site: Site, task_id: str) -> Any:
    """Every event of the task, as its owner sees it."""
    request = query_service_pb2.ListTaskEventsRequest(task_id=task_id, limit=500)
    return (await site.owner.call(site.owner.query.ListTaskEvents, request)).events


async def end(site: Site, task_id: str, event_type: int, seq: int = 1, **fields: Any) -> Any:
    """An end of the task by its coordinator."""
    return await site.coordinator.report(event_type=event_type, source_seq=seq, task_id=task_id, **fields)


async def rerun(caller: Caller, task_id: str, **fields: Any) -> Any:
    """RerunTask."""
    request = task_commands_pb2.RerunTaskRequest(**{"command_id": unique("cmd"), "task_id": task_id, **fields})
    return (await caller.call(caller.register.RerunTask, request)).change


async def test_l1_cancel_reaches_the_worker_in_report_heartbeat_and_bind(site: Site) -> None:
    context = await activated(site)
    handle = context.execution_handle
    await site.worker.report(event_type=common_pb2.STEP_STARTED, source_seq=1, execution_handle=handle)

    change = await request_cancel(site.owner, context.task_id, reason="wrong file")

    assert (change.lifecycle_status, change.cancel_requested, change.changed) == (common_pb2.CANCELLING, True, True)
    answer = await site.worker.report(
        event_type=common_pb2.STEP_PROGRESS, source_seq=2, execution_handle=handle, phase_code="P"
    )
    beat = heartbeat_service_pb2.Heartbeat(execution_handle=handle, heartbeat_seq=1)
    beats = await site.worker.call(
        site.worker.heartbeats.BatchHeartbeat, heartbeat_service_pb2.BatchHeartbeatRequest(heartbeats=[beat])
    )
    assert (answer.cancel_requested, beats.results[0].cancel_requested) == (True, True)
    refused = await site.coordinator.report_refused(
        event_type=common_pb2.TASK_COMPLETED, source_seq=1, task_id=context.task_id
    )
    assert refused.reason == "TRANSITION_NOT_ALLOWED"
    ended = await end(site, context.task_id, common_pb2.TASK_CANCELLED)
    assert ended.lifecycle_status == common_pb2.CANCELLED
    events = await timeline(site, context.task_id)
    (asked,) = [event for event in events if event.event_type == common_pb2.TASK_CANCEL_REQUESTED]
    assert (asked.reason, asked.producer_id) == ("wrong file", "")
    refused = await site.owner.refused(
        site.owner.register.RequestCancel,
        task_commands_pb2.RequestCancelRequest(command_id=unique("cmd"), task_id=context.task_id),
    )
    assert (refused.code, refused.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "NOT_CANCELLABLE")


async def test_r7_rerun_keeps_the_earlier_run_and_skips_what_has_a_result(site: Site, database_url: str) -> None:
    steps = [step("01_read", weight=3), step("02_parse")]
    task_id = await new_task(site.coordinator, known_steps=steps)
    read = await activate(site.coordinator, task_id, step_id="01_read")
    parse = await activate(site.coordinator, task_id)
    handles = [read.execution_handle, parse.execution_handle]
    for handle in handles:
        await site.worker.report(event_type=common_pb2.STEP_STARTED, source_seq=1, execution_handle=handle)
    completed = unique("evt")
    await site.worker.report(
        event_id=completed, event_type=common_pb2.STEP_COMPLETED, source_seq=2, execution_handle=handles[0]
    )
    error = common_pb2.EventError(code="UNREADABLE", message="Not readable.")
    await site.worker.report(event_type=common_pb2.STEP_FAILED, source_seq=2, execution_handle=handles[1], error=error)
    live = await site.coordinator.refused(
        site.coordinator.register.RerunTask,
        task_commands_pb2.RerunTaskRequest(command_id=unique("cmd"), task_id=task_id),
    )
    assert live.reason == "TRANSITION_NOT_ALLOWED"
    await end(site, task_id, common_pb2.TASK_FAILED, error=error, failed_step_id="02_parse")

    skipped = task_commands_pb2.SkippedStep(step_id="01_read", reason="read well", source_event_id=completed)
    command_id = unique("cmd")
    change = await rerun(site.coordinator, task_id, command_id=command_id, skipped_steps=[skipped], reason="mended")
    again = await rerun(site.coordinator, task_id, command_id=command_id, skipped_steps=[skipped], reason="mended")

    assert (change.task_attempt, change.lifecycle_status) == (2, common_pb2.PENDING)
    assert (again.duplicate, again.task_version, again.task_attempt) == (True, change.task_version, 2)
    task = await snapshot(site, task_id)
    assert (task.task_attempt, task.progress_percent) == (2, 75.0)
    assert [(step.step_id, step.lifecycle_status, step.end_reason) for step in task.steps] == [
        ("01_read", common_pb2.SUCCEEDED, "SKIPPED"),
        ("02_parse", common_pb2.PENDING, ""),
    ]
    late = await site.worker.report(
        event_type=common_pb2.STEP_PROGRESS, source_seq=9, execution_handle=handles[1], phase_code="LATE"
    )
    assert (late.accepted, late.reason) == (False, common_pb2.STALE_ATTEMPT)
    second = await activate(site.coordinator, task_id)
    assert (second.task_attempt, second.execution_id != parse.execution_id) == (2, True)
    for seq, event_type in enumerate((common_pb2.STEP_STARTED, common_pb2.STEP_COMPLETED), start=1):
        await site.worker.report(event_type=event_type, source_seq=seq, execution_handle=second.execution_handle)
    ended = await end(site, task_id, common_pb2.TASK_COMPLETED)
    assert (ended.accepted, ended.lifecycle_status) == (True, common_pb2.SUCCEEDED)


async def test_l3_correction_is_for_admins_and_leaves_an_audit_row(site: Site, database_url: str) -> None:
    task_id = await new_task(site.coordinator)
    error = common_pb2.EventError(code="LOST", message="The result was not found.")
    failed = await end(site, task_id, common_pb2.TASK_FAILED, error=error)
    request = task_commands_pb2.CorrectTaskRequest(
        command_id=unique("cmd"),
        task_id=task_id,
        expected_task_version=failed.task_version,
        lifecycle_status=common_pb2.SUCCEEDED,
        reason="the result was found",
    )
    refused = await site.coordinator.refused(site.coordinator.admin.CorrectTask, request)
    before = (await count_rows(database_url))["command_audit"]

    corrected = (await admin(site).call(admin(site).admin.CorrectTask, request)).change

    assert refused.reason == "PERMISSION_DENIED"
    assert (corrected.lifecycle_status, corrected.task_version) == (common_pb2.SUCCEEDED, failed.task_version + 1)
    assert (await count_rows(database_url))["command_audit"] == before + 1
    last = (await timeline(site, task_id))[-1]
    assert (last.event_type, last.reason) == (common_pb2.TASK_CORRECTED, "the result was found")
    assert last.data.value["old"]["failureCode"] == "LOST"
    assert (await snapshot(site, task_id)).failure.code == ""


async def test_r11_revocation_reaches_every_transport_at_once(site: Site) -> None:
    context = await activated(site)
    await site.worker.report(
        event_type=common_pb2.STEP_STARTED, source_seq=1, execution_handle=context.execution_handle
    )

    revoked = await revoke(admin(site), context.execution_id, reason="leaked")

    assert revoked.credential_generation == 2
    for credential in (
        {"execution_handle": context.execution_handle},
        {"execution_token": context.execution_token},
    ):
        refused = await site.worker.report_refused(
            event_type=common_pb2.STEP_PROGRESS, source_seq=2, phase_code="P", **credential
        )
        assert refused.reason == "TOKEN_REVOKED"
    renewal = register_service_pb2.RenewExecutionRequest(execution_id=context.execution_id)
    renewed = await site.coordinator.call(site.coordinator.register.RenewExecution, renewal)
    answer = await site.worker.report(
        event_type=common_pb2.STEP_COMPLETED, source_seq=2, execution_handle=renewed.execution_handle
    )
    assert answer.accepted
    unknown = task_commands_pb2.RevokeExecutionRequest(command_id=unique("cmd"), execution_id=context.task_id)
    assert (await admin(site).refused(admin(site).register.RevokeExecution, unknown)).reason == "EXECUTION_NOT_FOUND"


def agent_policy(**bounds: int) -> register_service_pb2.DynamicRegistrationPolicy:
    """The parse step may register searches under itself."""
    return register_service_pb2.DynamicRegistrationPolicy(
        allowed_parent_operations=["DOCUMENT.PARSE"], allowed_child_operations=["SEARCH.*"], **bounds
    )


def child(task_id: str, key: str, **fields: Any) -> register_service_pb2.RegisterExecutionRequest:
    """A registration of a search."""
    defaults = {
        "command_id": unique("cmd"),
        "task_id": task_id,
        "client_step_key": key,
        "operation_code": "SEARCH.WEB",
        "producer_id": "search-service",
        "step_attempt": 1,
    }
    return register_service_pb2.RegisterExecutionRequest(**{**defaults, **fields})


async def test_r4_agent_registers_its_children_by_token_or_handle(site: Site) -> None:
    context = await activated(site, dynamic_registration=agent_policy())
    assert context.may_register_children
    await site.worker.report(
        event_type=common_pb2.STEP_STARTED, source_seq=1, execution_handle=context.execution_handle
    )
    register = site.worker.register.RegisterExecution

    by_token = await site.worker.call(
        register, child(context.task_id, "a", parent_execution_token=context.execution_token)
    )
    by_handle = await site.worker.call(
        register, child(context.task_id, "b", parent_execution_handle=context.execution_handle)
    )

    for answer in (by_token, by_handle):
        assert (answer.context.created, answer.context.producer_id) == (True, "search-service")
    task = await snapshot(site, context.task_id)
    assert {step.parent_execution_id for step in task.steps if step.dynamic} == {context.execution_id}
    repeat = await site.worker.call(
        register, child(context.task_id, "a", parent_execution_handle=context.execution_handle)
    )
    assert (repeat.context.created, repeat.context.execution_id) == (False, by_token.context.execution_id)
    refusals = {
        "PERMISSION_DENIED": child(context.task_id, "c", parent_execution_handle=by_handle.context.execution_handle),
        "TOKEN_MISMATCH": child(context.task_id, "c", parent_execution_handle=context.execution_handle),
    }
    refusals["TOKEN_MISMATCH"].parent_execution_id = by_token.context.execution_id
    searcher = site.caller(site.tokens.service("search-service", Role.WORKER))
    assert (await searcher.refused(register, refusals["PERMISSION_DENIED"])).reason == "PERMISSION_DENIED"
    assert (await site.worker.refused(register, refusals["TOKEN_MISMATCH"])).reason == "TOKEN_MISMATCH"
    foreign = child(context.task_id, "c", parent_execution_handle=context.execution_handle)
    assert (await searcher.refused(register, foreign)).reason == "PRODUCER_MISMATCH"
    wrong = child(context.task_id, "c", parent_execution_handle=context.execution_handle, operation_code="TOOL.RUN")
    assert (await site.worker.refused(register, wrong)).reason == "PERMISSION_DENIED"


async def test_r5_limits_are_exact_when_many_register_at_once(site: Site, database_url: str) -> None:
    task_id = await new_task(
        site.coordinator,
        dynamic_registration=register_service_pb2.DynamicRegistrationPolicy(
            max_dynamic_steps=7, max_parallel_executions=50, max_registrations_per_minute=60
        ),
    )
    register = site.coordinator.register.RegisterExecution

    async def attempt(number: int) -> str:
        try:
            await site.coordinator.call(register, child(task_id, f"k{number}"))
        except grpc.aio.AioRpcError as error:
            return str(error.code().name)
        return "OK"

    answers = await asyncio.gather(*(attempt(number) for number in range(20)))

    assert sorted(answers) == ["OK"] * 7 + ["RESOURCE_EXHAUSTED"] * 13
    assert len([step for step in (await snapshot(site, task_id)).steps if step.dynamic]) == 7
    before = await count_rows(database_url)
    refused = await site.coordinator.refused(register, child(task_id, "more"))
    assert refused.reason == "DYNAMIC_LIMIT_REACHED"
    after = await count_rows(database_url)
    assert {name: after[name] for name in UNWRITTEN} == {name: before[name] for name in UNWRITTEN}


async def test_id5_number_names_one_task_even_when_two_race(site: Site) -> None:
    tasks = [await new_task(site.coordinator) for _ in range(4)]
    ref = task_commands_pb2.ExternalRef(ref_type="ORDER_ID", ref_value=unique("order"))

    async def attach(task_id: str) -> str:
        request = task_commands_pb2.AttachExternalRefRequest(
            command_id=unique("cmd"), task_id=task_id, external_ref=ref
        )
        try:
            await site.coordinator.call(site.coordinator.register.AttachExternalRef, request)
        except grpc.aio.AioRpcError as error:
            return str(error.code().name)
        return "OK"

    answers = await asyncio.gather(*map(attach, tasks))

    assert sorted(answers) == ["ALREADY_EXISTS"] * 3 + ["OK"]


async def test_id5_creation_checks_parent_and_numbers(site: Site, database_url: str) -> None:
    ref = task_commands_pb2.ExternalRef(ref_type="ORDER_ID", ref_value=unique("order"))
    parent = await new_task(site.coordinator, external_refs=[ref], batch_id="b-1")
    task_id = await new_task(site.coordinator, parent_task_id=parent)
    assert task_id != parent
    before = await count_rows(database_url)
    for fields, code in (
        ({"external_refs": [ref]}, grpc.StatusCode.ALREADY_EXISTS),
        ({"parent_task_id": "task_nothing"}, grpc.StatusCode.NOT_FOUND),
        ({"registration_mode": common_pb2.FIXED}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"registration_mode": common_pb2.MINIMAL}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"status_definition_version": 1}, grpc.StatusCode.INVALID_ARGUMENT),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await new_task(site.coordinator, **fields)
        assert caught.value.code() is code
    assert await count_rows(database_url) == before


async def test_r8_if_match_over_rest(site: Site) -> None:
    task_id = await new_task(site.coordinator)
    app = create_app(site.service.dispatch, site.service.clock, site.service.is_ready, RestSettings())
    headers = {"authorization": f"Bearer {site.coordinator.token}"}
    path = f"/internal/v1/tasks/{task_id}/metadata"
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://rest.test") as rest:

        async def patch(tag: str, key: str, body: dict[str, Any]) -> httpx.Response:
            more = {"if-match": tag, "idempotency-key": key} if tag else {"idempotency-key": key}
            return await rest.patch(path, json=body, headers={**headers, **more})

        key = unique("cmd")
        done = await patch('"task-version-1"', key, {"productId": "p-1"})
        again = await patch('"task-version-1"', key, {"productId": "p-1"})
        stale = await patch('"task-version-1"', unique("cmd"), {"productId": "p-2"})
        weak = await patch('W/"task-version-2"', unique("cmd"), {"productId": "p-2"})
        other = await patch('"workflow-version-2"', unique("cmd"), {"productId": "p-2"})
        anyone = await patch("*", unique("cmd"), {"productId": "p-2"})

    assert (done.status_code, done.json()["change"]["taskVersion"]) == (200, "2")
    assert again.json()["change"] == {**done.json()["change"], "duplicate": True}
    assert (stale.status_code, stale.json()["reason"]) == (412, "VERSION_MISMATCH")
    assert (weak.status_code, other.status_code, anyone.status_code) == (400, 400, 200)


async def test_r6_two_replicas_carry_one_command_out_once(open_site: OpenSite) -> None:
    first, second = await open_site(), await open_site()
    task_id = await new_task(first.coordinator)
    command_id = unique("cmd")
    changes = await asyncio.gather(
        *(
            request_cancel(site.coordinator, task_id, command_id=command_id)
            for site in (first, second)
            for _ in range(5)
        )
    )
    assert [change.task_version for change in changes] == [2] * 10
    assert sorted(change.duplicate for change in changes) == [False] + [True] * 9


async def test_r11_bind_after_revocation_is_refused(site: Site) -> None:
    context = await activated(site)
    await revoke(site.coordinator, context.execution_id)
    bind = bind_execution_service_pb2.BindExecutionRequest(execution_handle=context.execution_handle)
    assert (await site.worker.refused(site.worker.bind_service.BindExecution, bind)).reason == "TOKEN_REVOKED"
