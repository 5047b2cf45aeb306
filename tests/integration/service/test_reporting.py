"""The main path through a real database: creation, activation, events, retry, end (R-*, E-*, L-*)."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from taskstatus_pb.v1 import (
    bind_execution_service_pb2,
    common_pb2,
    query_service_pb2,
    register_service_pb2,
    report_service_pb2,
)

from taskstatus.application.identity import Role
from tests.integration.service.conftest import OpenSite, Site
from tests.support.clients import (
    Caller,
    activate,
    event_request,
    new_task,
    step,
    task_spec,
    unique,
    workflow_request,
)


async def snapshot(caller: Caller, task_id: str) -> query_service_pb2.TaskSnapshot:
    response = await caller.call(caller.query.GetTask, query_service_pb2.GetTaskRequest(task_id=task_id))
    return response.task


async def versions(caller: Caller, task_id: str) -> list[int]:
    request = query_service_pb2.ListTaskEventsRequest(task_id=task_id, limit=500)
    response = await caller.call(caller.query.ListTaskEvents, request)
    return [event.task_version for event in response.events]


async def test_r10_golden_trace_counts_versions_as_the_design_does(site: Site) -> None:
    steps = [step("01_prepare"), step("02_parse")]
    task_id = await new_task(site.coordinator, known_steps=steps)
    first = await activate(site.coordinator, task_id, step_id="01_prepare")
    started = await site.worker.report(
        event_type=common_pb2.STEP_STARTED, source_seq=1, execution_handle=first.execution_handle
    )
    completed = await site.worker.report(
        event_type=common_pb2.STEP_COMPLETED, source_seq=2, execution_handle=first.execution_handle
    )
    second = await activate(site.coordinator, task_id)
    next_started = await site.worker.report(
        event_type=common_pb2.STEP_STARTED, source_seq=1, execution_token=second.execution_token
    )
    assert first.task_version == 1
    assert [started.task_version, completed.task_version, next_started.task_version] == [2, 3, 4]
    assert await versions(site.coordinator, task_id) == [1, 2, 3, 4]


async def test_r6_a_retry_supersedes_and_the_late_completion_is_stale(site: Site) -> None:
    task_id = await new_task(site.coordinator)
    first = await activate(site.coordinator, task_id)
    await site.worker.report(event_type=common_pb2.STEP_STARTED, source_seq=1, execution_handle=first.execution_handle)
    second = await activate(site.coordinator, task_id, attempt=2)
    late = await site.worker.report(
        event_type=common_pb2.STEP_COMPLETED, source_seq=2, execution_handle=first.execution_handle
    )
    assert (late.accepted, late.stale, late.reason) == (False, True, common_pb2.STALE_ATTEMPT)
    assert second.task_version == 3
    view = await snapshot(site.coordinator, task_id)
    assert [(s.step_attempt, s.lifecycle_status, s.end_reason) for s in view.steps] == [
        (1, common_pb2.CANCELLED, "SUPERSEDED"),
        (2, common_pb2.PENDING, ""),
    ]


async def test_id3_creation_is_idempotent_and_conflicts_on_other_content(site: Site) -> None:
    request = workflow_request(task_spec())
    first = await site.coordinator.call(site.coordinator.register.CreateWorkflow, request)
    again = await site.coordinator.call(site.coordinator.register.CreateWorkflow, request)
    assert (first.created, again.created) == (True, False)
    assert first.workflow_id == again.workflow_id
    assert first.tasks == again.tasks
    request.title = "Other"
    refusal = await site.coordinator.refused(site.coordinator.register.CreateWorkflow, request)
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.ALREADY_EXISTS, "IDEMPOTENCY_CONFLICT")


async def test_r4_activation_again_gives_the_same_execution_with_good_credentials(site: Site) -> None:
    task_id = await new_task(site.coordinator)
    first, again = await activate(site.coordinator, task_id), await activate(site.coordinator, task_id)
    assert first.execution_id == again.execution_id
    assert (first.created, again.created) == (True, False)
    bound = await site.worker.call(
        site.worker.bind_service.BindExecution,
        bind_execution_service_pb2.BindExecutionRequest(execution_token=again.execution_token),
    )
    assert bound.next_source_seq == 1
    assert bound.context.task_id == task_id


async def test_r4_dynamic_registration_makes_a_version_and_a_step(site: Site) -> None:
    task_id = await new_task(site.coordinator)
    request = register_service_pb2.RegisterExecutionRequest(
        command_id=unique("cmd"),
        task_id=task_id,
        client_step_key="tool-call-17",
        operation_code="SEARCH.WEB",
        producer_id="search-service",
        step_attempt=1,
    )
    response = await site.coordinator.call(site.coordinator.register.RegisterExecution, request)
    again = await site.coordinator.call(site.coordinator.register.RegisterExecution, request)
    assert response.context.step_id == "dyn_tool-call-17"
    assert response.context.task_version == again.context.task_version == 2
    assert response.context.execution_id == again.context.execution_id


async def test_e3_same_event_again_gives_the_first_result_in_full_and_compact_form(site: Site) -> None:
    task_id = await new_task(site.coordinator)
    context = await activate(site.coordinator, task_id)
    event = {"event_id": unique("evt"), "event_type": common_pb2.STEP_STARTED, "source_seq": 1}
    first = await site.worker.report(**event, execution_handle=context.execution_handle)
    full = await site.worker.report(
        **event,
        execution_token=context.execution_token,
        task_id=task_id,
        workflow_id=context.workflow_id,
        step_id="02_parse",
        step_attempt=1,
        task_attempt=1,
        execution_id=context.execution_id,
        operation_code="DOCUMENT.PARSE",
        producer_id=context.producer_id,
    )
    assert (first.duplicate, full.duplicate) == (False, True)
    full.duplicate = False
    assert full == first


async def test_e3_a_duplicate_is_answered_even_after_the_task_has_ended(site: Site) -> None:
    task_id = await new_task(site.coordinator)
    context = await activate(site.coordinator, task_id)
    event = {"event_id": unique("evt"), "event_type": common_pb2.STEP_STARTED, "source_seq": 1}
    first = await site.worker.report(**event, execution_handle=context.execution_handle)
    await site.coordinator.report(event_type=common_pb2.TASK_COMPLETED, source_seq=1, task_id=task_id)
    again = await site.worker.report(**event, execution_handle=context.execution_handle)
    assert again.duplicate
    assert again.task_version == first.task_version


async def test_l1_a_terminal_task_event_ends_unfinished_steps_and_leases(site: Site) -> None:
    task_id = await new_task(site.coordinator, known_steps=[step("01_prepare"), step("02_parse")])
    context = await activate(site.coordinator, task_id)
    await site.worker.report(
        event_type=common_pb2.STEP_STARTED, source_seq=1, execution_handle=context.execution_handle
    )
    ended = await site.coordinator.report(
        event_type=common_pb2.TASK_FAILED,
        source_seq=1,
        task_id=task_id,
        failed_step_id="02_parse",
        error=common_pb2.EventError(code="UNSUPPORTED_FILE_FORMAT", message="Convert it to PDF", category="INPUT"),
    )
    view = await snapshot(site.owner, task_id)
    assert ended.task_version == view.task_version == 3
    assert view.failure.failed_step_id == "02_parse"
    assert {s.end_reason for s in view.steps} == {"TASK_ENDED"}
    assert {s.business_status for s in view.steps} == {"CANCELLED"}
    late = await site.worker.report(
        event_type=common_pb2.STEP_COMPLETED, source_seq=2, execution_handle=context.execution_handle
    )
    assert (late.accepted, late.stale, late.reason) == (False, False, common_pb2.TERMINAL)


async def test_e6_versions_are_gapless_when_two_replicas_write_the_same_tasks(open_site: OpenSite) -> None:
    sites = [await open_site(), await open_site()]
    steps = [step(f"s{i}") for i in range(6)]
    task_id = await new_task(sites[0].coordinator, known_steps=steps)
    contexts = [await activate(sites[0].coordinator, task_id, step_id=f"s{i}") for i in range(6)]

    async def run(index: int, handle: str) -> list[int]:
        worker = sites[index % 2].worker
        answers = [
            await worker.report(event_type=common_pb2.STEP_STARTED, source_seq=1, execution_handle=handle),
            await worker.report(
                event_type=common_pb2.STEP_PROGRESS,
                source_seq=2,
                execution_handle=handle,
                progress=common_pb2.Progress(current=index + 1, total=10, unit="page"),
            ),
            await worker.report(event_type=common_pb2.STEP_COMPLETED, source_seq=3, execution_handle=handle),
        ]
        return [answer.task_version for answer in answers]

    seen = await asyncio.gather(*(run(i, context.execution_handle) for i, context in enumerate(contexts)))
    assert sorted(version for own in seen for version in own) == list(range(2, 20))
    assert await versions(sites[1].coordinator, task_id) == list(range(1, 20))
    assert (await snapshot(sites[1].coordinator, task_id)).progress_percent == 100


async def test_e8_progress_overtaken_in_one_commit_is_absorbed_with_its_dedup_row(site: Site) -> None:
    task_id = await new_task(site.coordinator)
    handle = (await activate(site.coordinator, task_id)).execution_handle
    events = [event_request(event_type=common_pb2.STEP_STARTED, source_seq=1, execution_handle=handle)]
    events += [
        event_request(
            event_type=common_pb2.STEP_PROGRESS,
            source_seq=seq,
            execution_handle=handle,
            progress=common_pb2.Progress(current=seq, total=10, unit="page"),
        )
        for seq in (2, 3, 4)
    ]
    batch = site.worker.report_service.BatchReportEvents
    request = report_service_pb2.BatchReportEventsRequest(events=events)
    results = [item.response for item in (await site.worker.call(batch, request)).results]
    assert all(result.accepted for result in results)
    assert results[-1].task_version == results[0].task_version + 1 + sum(not r.coalesced for r in results[1:-1])
    again = [item.response for item in (await site.worker.call(batch, request)).results]
    assert all(result.duplicate for result in again)
    assert [r.task_version for r in again] == [r.task_version for r in results]


async def test_e10_one_bad_item_does_not_sink_the_others(site: Site) -> None:
    task_id = await new_task(site.coordinator)
    handle = (await activate(site.coordinator, task_id)).execution_handle
    events = [
        event_request(event_type=common_pb2.STEP_STARTED, source_seq=1, execution_handle=handle),
        event_request(event_type=common_pb2.STEP_STARTED, source_seq=0, execution_handle=handle),
        event_request(event_type=common_pb2.STEP_COMPLETED, source_seq=2, execution_handle="exh_forged"),
        event_request(event_type=common_pb2.STEP_COMPLETED, source_seq=2, execution_handle=handle),
    ]
    request = report_service_pb2.BatchReportEventsRequest(events=events)
    results = (await site.worker.call(site.worker.report_service.BatchReportEvents, request)).results
    reasons = [common_pb2.Reason.Name(r.error.reason) if r.HasField("error") else "" for r in results]
    assert reasons == ["", "INVALID_ARGUMENT", "UNAUTHENTICATED", ""]
    assert results[3].response.task_version == 3


async def test_r11_renewal_accepts_the_execution_itself_and_its_coordinator(site: Site) -> None:
    task_id = await new_task(site.coordinator)
    context = await activate(site.coordinator, task_id)
    request = register_service_pb2.RenewExecutionRequest(
        execution_id=context.execution_id, execution_token=context.execution_token
    )
    by_worker = await site.worker.call(site.worker.register.RenewExecution, request)
    request.ClearField("execution_token")
    by_coordinator = await site.coordinator.call(site.coordinator.register.RenewExecution, request)
    for seq, token in enumerate((by_worker.execution_token, by_coordinator.execution_token), start=1):
        answer = await site.worker.report(event_type=common_pb2.STEP_STARTED, source_seq=seq, execution_token=token)
        assert answer.accepted
    stranger = site.caller(site.tokens.service("other-service", Role.WORKER))
    refusal = await stranger.refused(stranger.register.RenewExecution, request)
    assert refusal.reason == "PERMISSION_DENIED"


async def test_r11_renewal_of_a_superseded_execution_says_stale_attempt(site: Site) -> None:
    task_id = await new_task(site.coordinator)
    context = await activate(site.coordinator, task_id)
    await activate(site.coordinator, task_id, attempt=2)
    request = register_service_pb2.RenewExecutionRequest(
        execution_id=context.execution_id, execution_handle=context.execution_handle
    )
    refusal = await site.worker.refused(site.worker.register.RenewExecution, request)
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "STALE_ATTEMPT")


@pytest.mark.parametrize("attempt", [3, 1])
async def test_r6_an_attempt_must_be_the_last_plus_one(site: Site, attempt: int) -> None:
    task_id = await new_task(site.coordinator)
    await activate(site.coordinator, task_id)
    handle = (await activate(site.coordinator, task_id, attempt=2)).execution_handle
    await site.worker.report(event_type=common_pb2.STEP_COMPLETED, source_seq=1, execution_handle=handle)
    request = register_service_pb2.ActivateStepRequest(
        command_id=unique("cmd"), task_id=task_id, step_id="02_parse", step_attempt=attempt, input_ref="other"
    )
    refusal = await site.coordinator.refused(site.coordinator.register.ActivateStep, request)
    assert refusal.reason == ("TRANSITION_NOT_ALLOWED" if attempt == 3 else "IDEMPOTENCY_CONFLICT")


async def test_p4_a_person_without_a_grant_sees_what_an_unknown_task_shows(site: Site) -> None:
    grants = [
        register_service_pb2.AccessGrant(
            principal_type=register_service_pb2.AccessGrant.USER,
            principal_id="u-2",
            permission=register_service_pb2.AccessGrant.VIEW,
        )
    ]
    task_id = await new_task(site.coordinator, grants=grants)
    granted, stranger = site.caller(site.tokens.person("u-2")), site.caller(site.tokens.person("u-3"))
    assert (await snapshot(granted, task_id)).task_id == task_id
    unknown = "task_" + "01890000000070008000000000000001"
    request = query_service_pb2.GetTaskRequest(task_id=task_id)
    hidden = await stranger.refused(stranger.query.GetTask, request)
    missing = await stranger.refused(stranger.query.GetTask, query_service_pb2.GetTaskRequest(task_id=unknown))
    elsewhere = site.caller(site.tokens.service("x", Role.WORKER, tenant="t-02"))
    foreign = await elsewhere.refused(elsewhere.query.GetTask, request)
    assert hidden == missing == foreign
