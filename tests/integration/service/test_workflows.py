"""The workflow axis of the whole service: following, ruling, reading (L-7, P-4)."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import grpc
import httpx
from taskstatus_pb.v1 import (
    common_pb2,
    query_service_pb2,
    realtime_service_pb2,
    register_service_pb2,
    workflow_pb2,
)

from gateway_rest.app import RestSettings, create_app
from tests.integration.service.conftest import OpenSite, Site
from tests.integration.service.workflow_yard import (
    add_task,
    halves,
    large_workflow,
    move,
    snapshot,
    workflow_of,
)
from tests.support.clients import TENANT, task_spec, unique, workflow_request
from tests.support.yard import Yard

TASKS = 1_000
RUNNING, SUCCEEDED, FAILED = common_pb2.RUNNING, common_pb2.SUCCEEDED, common_pb2.FAILED
VIEWER = register_service_pb2.AccessGrant(
    principal_type=register_service_pb2.AccessGrant.USER,
    principal_id="u-99",
    permission=register_service_pb2.AccessGrant.VIEW,
)


async def test_l7_a_thousand_siblings_end_at_once_without_waiting_for_each_other(
    open_site: OpenSite, yard: Yard
) -> None:
    """Through two replicas whose projectors follow meanwhile; nothing else writes to the server."""
    sites = await open_site(), await open_site()
    workflow_id, task_ids = await large_workflow(yard.database, TASKS)
    for site in sites:
        site.service.projector.start()
    await yard.until_followed()
    waits = await yard.row_lock_waits()

    ends = zip(sites, halves(task_ids), strict=True)
    await asyncio.gather(*(move(site, common_pb2.TASK_COMPLETED, 1, *ids) for site, ids in ends))

    await yard.until_followed()
    assert await yard.row_lock_waits() == waits
    messages = await yard.messages(workflow_id, "OWNER")
    versions = [int(message["workflowVersion"]) for message in messages]
    assert versions == await yard.versions(workflow_id) == list(range(1, len(versions) + 1))
    aggregates = [message["workflow"] for message in messages[1:]]
    done = [aggregate["taskCounts"]["succeeded"] for aggregate in aggregates]
    assert done == sorted(set(done)), "a version for each difference, and none without"
    assert [aggregate["lifecycleStatus"] for aggregate in aggregates].count("SUCCEEDED") == 1
    final = await snapshot(sites[0].owner, workflow_id)
    assert (final.lifecycle_status, final.task_counts.succeeded, final.task_count) == (SUCCEEDED, TASKS, TASKS)
    assert final.workflow_version == versions[-1]
    assert all(one["startedAt"] == other["startedAt"] for one, other in pairwise(aggregates[1:]))


async def test_l7_a_workflow_reopens_for_a_late_task_and_a_ruling_stands_until_withdrawn(site: Site) -> None:
    workflow_id, (task_id,) = await workflow_of(site, 1)
    await move(site, common_pb2.TASK_COMPLETED, 1, task_id)
    await site.service.projector.run_once()
    ended = await snapshot(site.coordinator, workflow_id)
    assert (ended.lifecycle_status, ended.HasField("finished_at")) == (SUCCEEDED, True)

    late = await add_task(site, workflow_id)
    reopened = await snapshot(site.coordinator, workflow_id)
    assert (reopened.lifecycle_status, reopened.HasField("finished_at")) == (RUNNING, False)

    ruled = await update(site, workflow_id, lifecycle_status=FAILED, reason="the customer has left")
    assert (ruled.changed, ruled.workflow.lifecycle_status, ruled.workflow.ruled) == (True, FAILED, True)
    await move(site, common_pb2.TASK_COMPLETED, 1, late)
    await site.service.projector.run_once()
    followed = await snapshot(site.coordinator, workflow_id)
    assert (followed.lifecycle_status, followed.task_counts.succeeded) == (FAILED, 2)
    withdrawn = await update(site, workflow_id, withdraw_ruling=True)
    assert (withdrawn.workflow.lifecycle_status, withdrawn.workflow.ruling_reason) == (SUCCEEDED, "")


async def update(site: Site, workflow_id: str, **fields: Any) -> workflow_pb2.UpdateWorkflowResponse:
    """UpdateWorkflow by the coordinator."""
    return await site.coordinator.call(site.coordinator.register.UpdateWorkflow, request_of(workflow_id, **fields))


def request_of(of_workflow: str, **fields: Any) -> workflow_pb2.UpdateWorkflowRequest:
    return workflow_pb2.UpdateWorkflowRequest(**{"command_id": unique("cmd"), "workflow_id": of_workflow, **fields})


async def test_r6_an_update_sent_again_gives_its_first_answer(site: Site, yard: Yard) -> None:
    workflow_id, _ = await workflow_of(site, 1)
    fields = {"command_id": unique("cmd"), "title": "Second", "expected_workflow_version": 1}

    first, again = [await update(site, workflow_id, **fields) for _ in range(2)]

    assert (first.workflow.workflow_version, again.workflow.workflow_version) == (2, 2)
    assert ((first.changed, first.duplicate), (again.changed, again.duplicate)) == ((True, False), (True, True))
    unchanged = await update(site, workflow_id, title="Second")
    assert (unchanged.changed, unchanged.workflow.workflow_version) == (False, 2)
    assert await yard.versions(workflow_id) == [1, 2]


BAD: list[tuple[dict[str, Any], grpc.StatusCode, str]] = [
    ({"expected_workflow_version": 9, "title": "x"}, grpc.StatusCode.ABORTED, "VERSION_MISMATCH"),
    ({"command_id": "used", "title": "other"}, grpc.StatusCode.ALREADY_EXISTS, "IDEMPOTENCY_CONFLICT"),
    ({"workflow_id": "wf_0", "title": "x"}, grpc.StatusCode.NOT_FOUND, "WORKFLOW_NOT_FOUND"),
    ({}, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT"),
    ({"title": "  "}, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT"),
    ({"title": "x" * 201}, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT"),
    ({"title": "x", "command_id": ""}, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT"),
    ({"lifecycle_status": FAILED}, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT"),
    ({"lifecycle_status": FAILED, "reason": " "}, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT"),
    ({"lifecycle_status": FAILED, "reason": "x" * 513}, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT"),
    ({"lifecycle_status": common_pb2.PENDING, "reason": "x"}, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT"),
    ({"lifecycle_status": 99, "reason": "x"}, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT"),
    (
        {"lifecycle_status": FAILED, "reason": "x", "withdraw_ruling": True},
        grpc.StatusCode.INVALID_ARGUMENT,
        "INVALID_ARGUMENT",
    ),
]


async def test_l7_a_bad_update_has_its_reason_and_writes_nothing(site: Site, yard: Yard) -> None:
    workflow_id, _ = await workflow_of(site, 1)
    await update(site, workflow_id, command_id="used", title="First")
    method = site.coordinator.register.UpdateWorkflow
    for fields, code, reason in BAD:
        refusal = await site.coordinator.refused(method, request_of(workflow_id, **fields))
        assert (refusal.code, refusal.reason) == (code, reason), fields
    for caller in (site.worker, site.owner):
        refusal = await caller.refused(caller.register.UpdateWorkflow, request_of(workflow_id, title="x"))
        assert refusal.reason == "PERMISSION_DENIED"
    assert await yard.versions(workflow_id) == [1, 2]


async def test_l7_an_unknown_policy_is_refused(site: Site) -> None:
    request = workflow_request(aggregation_policy=9)
    refusal = await site.coordinator.refused(site.coordinator.register.CreateWorkflow, request)
    assert (refusal.reason, refusal.fields) == ("INVALID_ARGUMENT", ("aggregationPolicy",))


async def test_l7_the_policy_is_the_workflows_own(site: Site) -> None:
    workflow_id, (one, other) = await workflow_of(site, 2, aggregation_policy=workflow_pb2.ANY_SUCCEEDS)
    await move(site, common_pb2.TASK_COMPLETED, 1, one)
    await move(site, common_pb2.TASK_CANCELLED, 1, other)
    await site.service.projector.run_once()

    shown = await snapshot(site.owner, workflow_id)

    assert (shown.lifecycle_status, shown.aggregation_policy) == (SUCCEEDED, workflow_pb2.ANY_SUCCEEDS)


async def test_p4_each_reader_sees_their_own_cut_and_others_nothing(site: Site) -> None:
    tasks = task_spec(), task_spec(sensitive=True)
    request = workflow_request(*tasks, grants=[VIEWER])
    created = await site.coordinator.call(site.coordinator.register.CreateWorkflow, request)
    viewer, stranger = (site.caller(site.tokens.person(user)) for user in ("u-99", "u-5"))
    await move(site, common_pb2.TASK_STARTED, 1, created.tasks[1].task_id)
    await site.service.projector.run_once()

    whole, cut = [await snapshot(caller, created.workflow_id) for caller in (site.owner, viewer)]

    assert (whole.scope, whole.task_count, whole.lifecycle_status) == (WHOLE, 2, RUNNING)
    assert (cut.scope, cut.task_count, cut.lifecycle_status) == (OWN, 1, common_pb2.PENDING)
    assert whole.workflow_version == cut.workflow_version
    assert not cut.HasField("started_at")
    get = query_service_pb2.GetWorkflowRequest(workflow_id=created.workflow_id)
    assert (await stranger.refused(stranger.query.GetWorkflow, get)).reason == "WORKFLOW_NOT_FOUND"


WHOLE, OWN = workflow_pb2.WorkflowSnapshot.FULL, workflow_pb2.WorkflowSnapshot.READER


async def test_a2_a_workflow_is_followed_by_its_owner_and_by_its_grantees_only(site: Site) -> None:
    created = await site.coordinator.call(
        site.coordinator.register.CreateWorkflow, workflow_request(task_spec(), grants=[VIEWER])
    )
    viewer, stranger = (site.caller(site.tokens.person(user)) for user in ("u-99", "u-5"))
    request = realtime_service_pb2.CreateSubscriptionTokenRequest(workflow_id=created.workflow_id)

    for caller in (site.owner, viewer):
        answer = await caller.call(caller.realtime.CreateSubscriptionToken, request)
        assert answer.channel == f"workflow_summary:{TENANT}/{created.workflow_id}"
    refusal = await stranger.refused(stranger.realtime.CreateSubscriptionToken, request)
    assert refusal.reason == "WORKFLOW_NOT_FOUND"
    both = realtime_service_pb2.CreateSubscriptionTokenRequest(workflow_id=created.workflow_id, task_id="task_1")
    assert (await site.owner.refused(site.owner.realtime.CreateSubscriptionToken, both)).fields == ("taskId",)


async def test_t3_a_workflow_by_rest_with_if_match(site: Site) -> None:
    workflow_id, _ = await workflow_of(site, 1)
    app = create_app(site.service.dispatch, site.service.clock, site.service.is_ready, RestSettings())
    path = f"/internal/v1/workflows/{workflow_id}"
    headers = {"authorization": f"Bearer {site.coordinator.token}", "if-match": '"workflow-version-1"'}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://rest.test") as rest:
        body = {"title": "Second"}
        first = await rest.patch(path, json=body, headers={**headers, "idempotency-key": unique("cmd")})
        late = await rest.patch(path, json=body, headers={**headers, "idempotency-key": unique("cmd")})
        own = {"authorization": f"Bearer {site.owner.token}"}
        shown = await rest.get(f"/api/v1/workflows/{workflow_id}", headers=own)

    assert (first.status_code, first.json()["workflow"]["workflowVersion"]) == (200, "2")
    assert (late.status_code, late.json()["reason"]) == (412, "VERSION_MISMATCH")
    assert (shown.status_code, shown.json()["title"], shown.json()["scope"]) == (200, "Second", "FULL")
