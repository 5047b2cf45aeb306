"""Health on real databases: STALE and back once with two replicas, races, stuck work (H-4, H-5, H-8, P-3)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import httpx
import pytest
from taskstatus_pb.v1 import admin_service_pb2, common_pb2, register_service_pb2, task_commands_pb2
from typer.testing import CliRunner

from gateway_rest.app import RestSettings, create_app
from taskstatus.application.identity import Role
from taskstatus.cli import app
from taskstatus.domain.ids import parse_execution_id, parse_task_id
from tests.integration.service.conftest import OpenSite, Site
from tests.integration.service.health_ward import HEALTH, Ward, open_ward
from tests.support.clients import (
    COORDINATOR,
    SCOPE,
    TENANT,
    activate,
    new_task,
    step,
    task_spec,
    unique,
    workflow_request,
)


@pytest.fixture
async def ward(open_site: OpenSite, database_url: str) -> AsyncIterator[Ward]:
    """See ``open_ward``."""
    async with open_ward(open_site, database_url) as ward:
        yield ward


async def test_h4_two_replicas_record_one_stale_and_one_back(ward: Ward) -> None:
    context = await ward.running()
    assert await ward.look() == 0
    await ward.be_silent(context)

    assert await ward.look() == 1
    assert [await ward.look() for _ in range(3)] == [0, 0, 0]

    view = await ward.snapshot(context)
    assert (view.health, view.lifecycle_status, view.steps[0].health) == (
        common_pb2.STALE,
        common_pb2.RUNNING,
        common_pb2.STALE,
    )
    answer = await ward.beat(context, 1)
    assert (answer.accepted, answer.health) == (True, common_pb2.STALE)
    await ward.beat(context, 2, ward.sites[1])
    await ward.until_back(context)
    assert await ward.look() == 0
    assert await ward.signs(context) == ["SILENT", "BEATING"]
    assert (await ward.snapshot(context)).steps[0].health == common_pb2.HEALTHY


async def test_h7_progress_of_a_stale_execution_brings_it_back(ward: Ward) -> None:
    context = await ward.running()
    await ward.be_silent(context)
    await ward.look()
    progress = common_pb2.Progress(current=1, total=2, unit="page")
    assert (await ward.report(context, 2, common_pb2.STEP_PROGRESS, progress=progress)).accepted
    await ward.until_back(context)
    assert await ward.signs(context) == ["SILENT", "BEATING"]


async def test_h4_flapping_alternates_and_is_given_more_patience(ward: Ward) -> None:
    context = await ward.running()
    for seq in range(1, 4):
        await ward.be_silent(context, seconds=400)
        await ward.look()
        await ward.beat(context, seq)
        await ward.until_back(context)
    assert await ward.signs(context) == ["SILENT", "BEATING"] * 3
    execution_id = parse_execution_id(context.execution_id)
    ((recoveries, seconds),) = await ward.sql(
        "SELECT recoveries,TIMESTAMPDIFF(SECOND,last_heartbeat_at,deadline_at) FROM task_execution_lease"
        " WHERE execution_id=%s",
        execution_id,
    )
    assert (recoveries, seconds) == (3, 4 * 60)


async def test_h4_completion_races_stale_and_no_end_is_stale(ward: Ward) -> None:
    contexts = [await ward.running() for _ in range(12)]
    await ward.be_silent(*contexts)

    ends = [ward.report(context, 2, common_pb2.STEP_COMPLETED) for context in contexts]
    results = await asyncio.gather(*ends, ward.look())

    assert all(answer.accepted for answer in results[:-1])
    for context in contexts:
        view = await ward.snapshot(context)
        assert (view.steps[0].lifecycle_status, view.steps[0].health) == (common_pb2.SUCCEEDED, common_pb2.HEALTHY)
        assert view.health == common_pb2.HEALTHY
        assert await ward.signs(context) in ([], ["SILENT"])
    assert await ward.look() == 0


async def test_h4_beat_races_stale_and_the_worker_ends_healthy(ward: Ward) -> None:
    contexts = [await ward.running() for _ in range(12)]
    await ward.be_silent(*contexts)

    await asyncio.gather(ward.look(), *(ward.beat(context, 1) for context in contexts))
    await asyncio.gather(*(ward.beat(context, 2, ward.sites[1]) for context in contexts))

    for context in contexts:
        await ward.until_back(context)
        assert await ward.signs(context) in ([], ["SILENT", "BEATING"])


async def test_h4_retry_ends_stale_and_the_old_attempt_never_comes_back(ward: Ward) -> None:
    context = await ward.running()
    await ward.be_silent(context)
    await ward.look()
    await activate(ward.site.coordinator, context.task_id, attempt=2)

    view = await ward.snapshot(context)
    assert view.health == common_pb2.HEALTHY
    assert (await ward.beat(context, 1)).reason == common_pb2.STALE_ATTEMPT
    assert await ward.look() == 0


async def test_h5_lost_worker_is_told_once_and_nothing_fails(ward: Ward) -> None:
    context = await ward.running()
    await ward.be_silent(context)
    await ward.look()
    assert await ward.look() == 0
    await ward.be_silent(context, seconds=301)

    assert await ward.look() == 1
    assert await ward.look() == 0

    view = await ward.snapshot(context)
    assert (view.lifecycle_status, view.health) == (common_pb2.RUNNING, common_pb2.STALE)
    assert view.steps[0].lifecycle_status == common_pb2.RUNNING
    assert [event.event_type for event in await ward.events(context)][-2:] == [*HEALTH]
    await ward.beat(context, 1)
    await ward.until_back(context)
    assert await ward.signs(context) == ["SILENT", "LOST", "BEATING"]


async def test_p3_stale_reaches_the_summary_with_its_notice_and_back_without_one(ward: Ward) -> None:
    context = await ward.running()
    await ward.be_silent(context)
    await ward.look()
    await ward.be_silent(context, seconds=301)
    await ward.look()
    await ward.beat(context, 1)
    await ward.until_back(context)

    (silent, silent_protected), (back, back_protected) = await ward.summaries(context, "STEP_HEALTH_CHANGED")
    ((lost, lost_protected),) = await ward.summaries(context, "WORKER_LOST")

    assert (silent["task"]["health"], silent["task"]["lifecycleStatus"]) == ("STALE", "RUNNING")
    assert (silent["notice"]["level"], silent["notice"]["requiresAction"]) == ("WARNING", False)
    assert silent["notice"]["id"] == f"{context.task_id}:3"
    assert (lost["notice"]["type"], lost["notice"]["requiresAction"]) == ("WORKER_LOST", True)
    assert (back["task"]["health"], "notice" in back) == ("HEALTHY", False)
    assert (silent_protected, lost_protected, back_protected) == (True, True, False)


async def test_h8_stuck_work_is_listed_to_admins_of_its_scope_by_grpc_rest_and_command(
    ward: Ward, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = await ward.running(known_steps=[step(max_run_seconds=30)])
    silent = await ward.running()
    waiting_task = await new_task(ward.site.coordinator)
    waiting = await activate(ward.site.coordinator, waiting_task)
    await ward.be_silent(slow, seconds=31)
    await ward.be_silent(silent)
    await ward.look()
    await ward.be_silent(silent, seconds=301)
    await ward.look()
    await age_of_activation(ward, waiting)
    admin = ward.site.caller(ward.site.tokens.service("operations", Role.ADMIN))

    listed = {
        execution.task_id: list(execution.causes)
        for execution in (
            await admin.call(admin.admin.ListStuckTasks, admin_service_pb2.ListStuckTasksRequest())
        ).executions
    }

    assert listed[slow.task_id] == [admin_service_pb2.OVER_RUN_TIME]
    assert listed[silent.task_id] == [admin_service_pb2.LOST_WORKER]
    assert listed[waiting_task] == [admin_service_pb2.NOT_TAKEN_UP]

    async with rest_of(ward.site) as rest:
        headers = {"authorization": f"Bearer {admin.token}"}
        page = (await rest.get("/internal/v1/admin/stuck-tasks?limit=1", headers=headers)).json()
        assert len(page["executions"]) == 1
        query = f"?limit=500&cursor={page['nextCursor']}"
        rest_of_pages = (await rest.get(f"/internal/v1/admin/stuck-tasks{query}", headers=headers)).json()
        shown = [execution["taskId"] for execution in (*page["executions"], *rest_of_pages["executions"])]
        assert sorted(shown) == sorted(listed)
        assert rest_of_pages["nextCursor"] == ""
        wrong = await rest.get("/internal/v1/admin/stuck-tasks?cursor=nonsense", headers=headers)
        assert (wrong.status_code, wrong.json()["reason"]) == (400, "INVALID_ARGUMENT")

    monkeypatch.setenv("TASKSTATUS_DATABASE_URL", ward.url)
    arguments = ["stuck", "--tenant", TENANT, "--scope", SCOPE, "--json"]
    result = await asyncio.to_thread(CliRunner().invoke, app, arguments)
    assert result.exit_code == 0, result.output
    assert {entry["step_id"] for entry in json.loads(result.stdout)} == {"02_parse"}
    assert len(json.loads(result.stdout)) == len(listed)


async def test_h8_task_beyond_its_own_run_time_is_listed_counted_and_never_failed(
    ward: Ward, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = await ward.running(max_run_seconds=60)
    await ward.report(context, 2, common_pb2.STEP_COMPLETED)
    assert context.task_id not in await listed(ward.site)
    task_id = parse_task_id(context.task_id)
    await ward.sql("UPDATE task SET started_at=started_at-INTERVAL 61 SECOND WHERE id=%s", task_id)

    entry = (await listed(ward.sites[1]))[context.task_id]

    assert list(entry.causes) == [admin_service_pb2.TASK_OVER_RUN_TIME]
    assert (entry.execution_id, entry.step_id, entry.step_attempt, entry.task_attempt) == ("", "", 0, 1)
    assert entry.producer_id == COORDINATOR
    await ward.site.service.reconciler.count_stuck()
    labels = {"cause": "TASK_OVER_RUN_TIME"}
    assert ward.site.service.metrics.registry.get_sample_value("taskstatus_stuck_executions", labels) == 1
    view = await ward.snapshot(context)
    assert (view.lifecycle_status, view.task_version) == (common_pb2.RUNNING, 3)

    async with rest_of(ward.site) as rest:
        admin = ward.site.tokens.service("operations", Role.ADMIN)
        page = await rest.get("/internal/v1/admin/stuck-tasks?limit=500", headers={"authorization": f"Bearer {admin}"})
        (shown,) = [each for each in page.json()["executions"] if each["taskId"] == context.task_id]
        assert (shown["causes"], shown["executionId"]) == (["TASK_OVER_RUN_TIME"], "")

    monkeypatch.setenv("TASKSTATUS_DATABASE_URL", ward.url)
    result = await asyncio.to_thread(CliRunner().invoke, app, ["stuck", "--tenant", TENANT, "--scope", SCOPE])
    assert result.exit_code == 0, result.output
    (line,) = [line for line in result.output.splitlines() if context.task_id in line]
    assert "TASK_OVER_RUN_TIME  Contract: run 1 of" in line

    coordinator = ward.site.coordinator
    error = common_pb2.EventError(code="LATE", message="It took too long.")
    await coordinator.report(event_type=common_pb2.TASK_FAILED, source_seq=1, task_id=context.task_id, error=error)
    assert context.task_id not in await listed(ward.site)
    rerun = task_commands_pb2.RerunTaskRequest(command_id=unique("cmd"), task_id=context.task_id, reason="again")
    await coordinator.call(coordinator.register.RerunTask, rerun)
    assert context.task_id not in await listed(ward.site)
    await coordinator.report(event_type=common_pb2.TASK_STARTED, source_seq=1, task_id=context.task_id)
    assert context.task_id not in await listed(ward.site), "each run has its own time"
    await ward.sql("UPDATE task SET started_at=started_at-INTERVAL 61 SECOND WHERE id=%s", task_id)
    assert (await listed(ward.site))[context.task_id].task_attempt == 2


async def test_id3_another_run_time_under_the_same_key_is_a_conflict(ward: Ward) -> None:
    coordinator = ward.site.coordinator
    request = workflow_request(task_spec(max_run_seconds=60))
    created = await coordinator.call(coordinator.register.CreateWorkflow, request)
    assert not (await coordinator.call(coordinator.register.CreateWorkflow, request)).created
    again = register_service_pb2.CreateTaskRequest(
        command_id=unique("cmd"), workflow_id=created.workflow_id, task=request.initial_tasks[0]
    )
    again.task.max_run_seconds = 61
    refusal = await coordinator.refused(coordinator.register.CreateTask, again)
    assert refusal.reason == "IDEMPOTENCY_CONFLICT"


async def test_r9_run_time_beyond_a_year_is_refused_with_its_field(ward: Ward) -> None:
    coordinator = ward.site.coordinator
    request = workflow_request(task_spec(max_run_seconds=366 * 86_400 + 1))
    refusal = await coordinator.refused(coordinator.register.CreateWorkflow, request)
    assert (refusal.reason, refusal.fields) == ("INVALID_ARGUMENT", ("initialTasks[0].maxRunSeconds",))


async def listed(site: Site) -> dict[str, admin_service_pb2.StuckExecution]:
    """What an admin is shown, by task."""
    admin = site.caller(site.tokens.service("operations", Role.ADMIN))
    request = admin_service_pb2.ListStuckTasksRequest(limit=500)
    answer = await admin.call(admin.admin.ListStuckTasks, request)
    return {entry.task_id: entry for entry in answer.executions}


async def test_h8_other_scopes_and_other_roles_see_no_stuck_work(ward: Ward) -> None:
    context = await ward.running(known_steps=[step(max_run_seconds=30)])
    await ward.be_silent(context, seconds=31)
    request = admin_service_pb2.ListStuckTasksRequest()

    stranger = ward.site.caller(ward.site.tokens.service("operations", Role.ADMIN, scope="another"))
    assert not (await stranger.call(stranger.admin.ListStuckTasks, request)).executions
    for caller in (ward.site.worker, ward.site.coordinator, ward.site.owner):
        refusal = await caller.refused(caller.admin.ListStuckTasks, request)
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_DENIED")


async def age_of_activation(ward: Ward, context: Any) -> None:
    """Move an activation 40 seconds back: its time is in the execution's id."""
    execution_id = parse_execution_id(context.execution_id)
    assert execution_id is not None
    older = (int.from_bytes(execution_id[:6], "big") - 40_000).to_bytes(6, "big") + execution_id[6:]
    await ward.sql("UPDATE task_step SET execution_id=%s WHERE execution_id=%s", older, execution_id)


@asynccontextmanager
async def rest_of(site: Site) -> AsyncIterator[httpx.AsyncClient]:
    service = site.service
    gateway = create_app(service.dispatch, service.clock, service.is_ready, RestSettings())
    transport = httpx.ASGITransport(app=gateway, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        yield client
