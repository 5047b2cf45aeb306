"""Reads over many tasks through a running service, over gRPC and REST alike (Q-1, Q-2, Q-3, P-4)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
import httpx
import pytest
from google.protobuf import json_format
from taskstatus_pb.v1 import common_pb2, query_service_pb2, register_service_pb2, task_commands_pb2, task_list_pb2

from gateway_rest.app import RestSettings, create_app
from taskstatus.application.identity import Role
from tests.integration.service.conftest import Site
from tests.support.clients import COORDINATOR, OWNER, Caller, activate, step, task_spec, unique, workflow_request
from tests.support.databases import count_rows

PROJECT = "p-7"
TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture
async def rest(site: Site) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(site.service.dispatch, site.service.clock, site.service.is_ready, RestSettings())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://rest.test") as client:
        yield client


def person(site: Site, user: str | None = None, **claims: Any) -> Caller:
    """A person of the tenant; without a name one that no other test knows."""
    return site.caller(site.tokens.person(user or unique("u"), **claims))


async def new_workflow(site: Site, *tasks: register_service_pb2.TaskSpec, **fields: Any) -> Any:
    """A workflow with these tasks, of an owner of its own unless one is named."""
    coordinator = site.coordinator
    return await coordinator.call(coordinator.register.CreateWorkflow, workflow_request(*tasks, **fields))


def titled(*titles: str, **fields: Any) -> list[register_service_pb2.TaskSpec]:
    """Tasks with these titles."""
    return [task_spec(title=title, **fields) for title in titles]


def grant(kind: str, name: str) -> register_service_pb2.AccessGrant:
    """A permission to look."""
    message = register_service_pb2.AccessGrant(principal_id=name, permission=register_service_pb2.AccessGrant.VIEW)
    message.principal_type = register_service_pb2.AccessGrant.PrincipalType.Value(kind)
    return message


async def get(rest: httpx.AsyncClient, caller: Caller, path: str, **parameters: Any) -> httpx.Response:
    """GET as a caller."""
    return await rest.get(path, params=parameters, headers={"authorization": f"Bearer {caller.token}"})


def titles(tasks: Any) -> list[str]:
    """The titles of summaries of either transport."""
    return [task["title"] if isinstance(task, dict) else task.title for task in tasks]


def without_clock(message: Any) -> Any:
    """A JSON answer without what goes on between two calls."""
    if isinstance(message, dict):
        return {name: without_clock(value) for name, value in message.items() if name not in ("asOf", "elapsedMs")}
    return [without_clock(item) for item in message] if isinstance(message, list) else message


async def test_q1_a_list_goes_on_over_the_other_transport(site: Site, rest: httpx.AsyncClient) -> None:
    owner = unique("owner")
    await new_workflow(site, *titled("A", "B"), owner_id=owner)
    await new_workflow(site, *titled("C", "D", "E"), owner_id=owner)
    reader = person(site, owner)

    first = await get(rest, reader, "/api/v1/me/tasks", limit=2)
    request = task_list_pb2.ListMyTasksRequest(limit=2, cursor=first.json()["nextCursor"])
    second = await reader.call(reader.query.ListMyTasks, request)
    third = await get(rest, reader, "/api/me/tasks", limit=2, cursor=second.next_cursor)

    assert titles([*first.json()["tasks"], *second.tasks, *third.json()["tasks"]]) == ["E", "D", "C", "B", "A"]
    assert "nextCursor" not in third.json() or third.json()["nextCursor"] == ""
    again = await reader.call(reader.query.ListMyTasks, task_list_pb2.ListMyTasksRequest(limit=2))
    shown = json_format.MessageToDict(again, always_print_fields_with_no_presence=True)
    assert without_clock(shown) == without_clock(first.json())


async def test_p4_members_of_a_project_or_role_see_its_tasks_in_their_lists(site: Site) -> None:
    project, role, user = unique("p"), unique("r"), unique("u")
    await new_workflow(
        site,
        task_spec(title="of the project"),
        task_spec(title="of the user too", grants=[grant("USER", user)]),
        task_spec(title="of the role alone", sensitive=True, grants=[grant("ROLE", role)]),
        grants=[grant("PROJECT", project)],
    )

    async def sees(caller: Caller) -> list[str]:
        found = await caller.call(caller.query.ListMyTasks, task_list_pb2.ListMyTasksRequest())
        return titles(found.tasks)

    assert await sees(person(site, projects=frozenset({project, "other"}))) == ["of the user too", "of the project"]
    assert await sees(person(site, user)) == ["of the user too"]
    assert await sees(person(site, user, projects=frozenset({project}))) == ["of the user too", "of the project"]
    assert await sees(site.caller(site.tokens.person(unique("u"), roles=frozenset({role})))) == ["of the role alone"]
    assert await sees(person(site, user, tenant="t-02", projects=frozenset({project}))) == []
    assert await sees(person(site)) == []


async def test_q1_filters_of_a_query_string(site: Site, rest: httpx.AsyncClient) -> None:
    owner = unique("owner")
    created = await new_workflow(site, *titled("Report 100%", "Report 50%", batch_id="b-1"), owner_id=owner)
    await new_workflow(site, *titled("report 100%"), owner_id=owner)
    reader = person(site, owner)
    context = await activate(site.coordinator, created.tasks[0].task_id)
    await site.worker.report(
        event_type=common_pb2.STEP_STARTED, source_seq=1, execution_handle=context.execution_handle
    )

    async def found(**chosen: Any) -> list[str]:
        parameters = {f"filter.{name}": value for name, value in chosen.items()}
        answer = await get(rest, reader, "/api/v1/me/tasks", **parameters)
        assert answer.status_code == 200, answer.text
        return titles(answer.json().get("tasks", []))

    assert await found(titleContains="REPORT 100%") == ["report 100%", "Report 100%"]
    assert await found(titleContains="REPORT 100%", workflowId=created.workflow_id) == ["Report 100%"]
    assert await found(lifecycleStatuses=["RUNNING", "FAILED"]) == ["Report 100%"]
    assert await found(batchId="b-1", lifecycleStatuses="PENDING") == ["Report 50%"]
    assert await found(createdBefore="2020-01-01T00:00:00Z") == []
    assert len(await found(createdFrom="2020-01-01T00:00:00Z")) == 3
    assert await found(parentTaskId=created.tasks[0].task_id) == []


@pytest.mark.parametrize(
    ("path", "parameters", "field"),
    [
        ("/api/v1/me/tasks", {"limit": 201}, "limit"),
        ("/api/v1/me/tasks", {"cursor": "forged"}, "cursor"),
        ("/api/v1/me/tasks", {"filter.workflowId": "nonsense"}, "filter.workflowId"),
        (
            "/api/v1/me/tasks",
            {"filter.lifecycleStatuses": "LIFECYCLE_STATUS_UNSPECIFIED"},
            "filter.lifecycleStatuses[0]",
        ),
        ("/api/v1/me/tasks", {"filter.titleContains": "x" * 201}, "filter.titleContains"),
        ("/api/v1/external-refs/ORDER_ID/with%20space", {}, "refValue"),
    ],
)
async def test_q1_bad_input_is_refused_and_writes_nothing(
    site: Site, rest: httpx.AsyncClient, database_url: str, path: str, parameters: dict[str, Any], field: str
) -> None:
    before = await count_rows(database_url)
    answer = await get(rest, site.owner, path, **parameters)
    assert (answer.status_code, answer.json()["reason"]) == (400, "INVALID_ARGUMENT")
    assert [violation["field"] for violation in answer.json()["violations"]] == [field]
    assert await count_rows(database_url) == before


async def test_q1_cursor_of_another_query_person_or_tenant_is_refused(site: Site) -> None:
    owner = unique("owner")
    created = await new_workflow(site, *titled("A", "B", "C"), owner_id=owner, grants=[grant("USER", "u-77")])
    reader = person(site, owner)
    first = await reader.call(reader.query.ListMyTasks, task_list_pb2.ListMyTasksRequest(limit=1))
    cursor, filtered = first.next_cursor, task_list_pb2.TaskFilter(task_type="A")
    mine = task_list_pb2.ListMyTasksRequest(limit=1, cursor=cursor)
    for caller, method, request in (
        (person(site, "u-77"), "ListMyTasks", mine),
        (person(site, owner, tenant="t-02"), "ListMyTasks", mine),
        (reader, "ListMyTasks", task_list_pb2.ListMyTasksRequest(cursor=cursor, filter=filtered)),
        (
            reader,
            "ListWorkflowTasks",
            task_list_pb2.ListWorkflowTasksRequest(workflow_id=created.workflow_id, cursor=cursor),
        ),
    ):
        refused = await caller.refused(getattr(caller.query, method), request)
        assert (refused.code, refused.fields) == (grpc.StatusCode.INVALID_ARGUMENT, ("cursor",))
    assert titles((await reader.call(reader.query.ListMyTasks, mine)).tasks) == ["B"]


async def test_q1_workflow_shows_each_reader_their_tasks_the_oldest_first(site: Site, rest: httpx.AsyncClient) -> None:
    owner, user = unique("owner"), unique("u")
    created = await new_workflow(
        site,
        task_spec(title="A"),
        task_spec(title="B", grants=[grant("USER", user)]),
        task_spec(title="C", sensitive=True),
        owner_id=owner,
    )
    request = task_list_pb2.ListWorkflowTasksRequest(workflow_id=created.workflow_id)
    stranger, foreign = person(site), person(site, owner, tenant="t-02")
    other_scope = site.caller(site.tokens.service(COORDINATOR, Role.COORDINATOR, scope="other"))

    for caller, shown in ((site.worker, "ABC"), (person(site, owner), "ABC"), (person(site, user), "B")):
        found = await caller.call(caller.query.ListWorkflowTasks, request)
        assert titles(found.tasks) == list(shown)
    by_rest = await get(rest, person(site, user), f"/api/v1/workflows/{created.workflow_id}/tasks")
    assert titles(by_rest.json()["tasks"]) == ["B"]
    by_service = await get(rest, site.worker, f"/internal/v1/workflows/{created.workflow_id}/tasks", limit=2)
    assert titles(by_service.json()["tasks"]) == ["A", "B"]
    for caller in (stranger, foreign, other_scope):
        refused = await caller.refused(caller.query.ListWorkflowTasks, request)
        assert (refused.code, refused.reason) == (grpc.StatusCode.NOT_FOUND, "WORKFLOW_NOT_FOUND")
    unknown = await get(rest, stranger, f"/api/v1/workflows/wf_{'0' * 32}/tasks")
    hidden = await get(rest, stranger, f"/api/v1/workflows/{created.workflow_id}/tasks")
    assert (unknown.status_code, unknown.json()["detail"]) == (404, hidden.json()["detail"])


async def test_q1_statuses_of_many_tasks_say_what_is_new(site: Site, rest: httpx.AsyncClient) -> None:
    owner = unique("owner")
    created = await new_workflow(site, *titled("A", "B", "C"), owner_id=owner)
    other = await new_workflow(site, *titled("D"), owner_id=unique("owner"))
    a, b, c = (task.task_id for task in created.tasks)
    hidden, unknown = other.tasks[0].task_id, f"task_{'0' * 32}"
    body = {"taskIds": [a, b, c, hidden, unknown], "knownVersions": {a: "1", b: "0", c: "9"}}
    reader = person(site, owner)
    headers = {"authorization": f"Bearer {reader.token}"}

    answer = await rest.post("/api/v1/tasks/status:batchGet", json=body, headers=headers)

    assert answer.status_code == 200, answer.text
    shown = answer.json()
    assert titles(shown["tasks"]) == ["B", "C"]
    assert (shown["unchangedTaskIds"], shown["missingTaskIds"]) == ([a], [hidden, unknown])
    request = json_format.ParseDict(body, task_list_pb2.BatchGetTaskStatusRequest())
    by_grpc = await reader.call(reader.query.BatchGetTaskStatus, request)
    assert without_clock(json_format.MessageToDict(by_grpc, always_print_fields_with_no_presence=True)) == (
        without_clock(shown)
    )
    twice = await rest.post("/api/tasks/status:batchGet", json={"taskIds": [a, a[5:]]}, headers=headers)
    assert [violation["field"] for violation in twice.json()["violations"]] == ["taskIds[1]"]


async def test_id5_number_of_another_system_leads_to_its_task(site: Site, rest: httpx.AsyncClient) -> None:
    owner, number = unique("owner"), unique("order/4711%")
    ref = task_commands_pb2.ExternalRef(ref_type="ORDER_ID", ref_value=number)
    await new_workflow(site, task_spec(title="Ordered", external_refs=[ref]), owner_id=owner)
    request = task_list_pb2.LookupExternalRefRequest(ref_type="ORDER_ID", ref_value=number)

    for caller in (site.worker, person(site, owner)):
        assert titles((await caller.call(caller.query.LookupExternalRef, request)).tasks) == ["Ordered"]
    escaped = number.replace("%", "%25").replace("/", "%2F")
    by_rest = await get(rest, person(site, owner), f"/api/v1/external-refs/ORDER_ID/{escaped}")
    assert titles(by_rest.json()["tasks"]) == ["Ordered"]
    for caller in (
        person(site),
        person(site, owner, tenant="t-02"),
        site.caller(site.tokens.service(COORDINATOR, Role.ADMIN, scope="other")),
    ):
        refused = await caller.refused(caller.query.LookupExternalRef, request)
        assert (refused.code, refused.reason) == (grpc.StatusCode.NOT_FOUND, "TASK_NOT_FOUND")


async def test_q3_event_and_trace_lead_to_the_whole_chain(site: Site, rest: httpx.AsyncClient) -> None:
    created = await new_workflow(site, *titled("A"))
    context = await activate(site.coordinator, created.tasks[0].task_id)
    worker, event_id = site.worker, unique("evt")
    trace = unique("")[-12:].rjust(32, "a")
    worker.metadata = (*worker.metadata, ("traceparent", f"00-{trace}-b7ad6b7169203331-01"))
    for number, event_type in enumerate((common_pb2.STEP_STARTED, common_pb2.STEP_COMPLETED), start=1):
        await worker.report(
            event_id=f"{event_id}-{number}",
            event_type=event_type,
            source_seq=number,
            execution_handle=context.execution_handle,
        )

    found = await worker.call(worker.query.LookupEvent, task_list_pb2.LookupEventRequest(event_id=f"{event_id}-2"))
    chain = await get(rest, worker, f"/internal/v1/traces/{trace}")

    (event,) = found.events
    assert (event.task_id, event.task_version, event.trace_id) == (created.tasks[0].task_id, 3, trace)
    assert {entry.projection for entry in event.notifications} == {"USER_SUMMARY", "TASK_DETAIL"}
    assert {entry.status for entry in event.notifications} == {"PENDING"}
    assert [entry["eventId"] for entry in chain.json()["events"]] == [f"{event_id}-1", f"{event_id}-2"]
    assert chain.json()["truncated"] is False
    other = site.caller(site.tokens.service(COORDINATOR, Role.ADMIN, scope="other"))
    nothing = await get(rest, other, f"/internal/v1/events/{event_id}-2")
    assert (nothing.status_code, nothing.json()["events"]) == (200, [])
    for path in (f"/internal/v1/events/{event_id}-2", f"/internal/v1/traces/{trace}"):
        assert (await get(rest, site.owner, path)).status_code == 403


async def test_r7_snapshot_shows_every_run_and_the_labels_of_creation(site: Site, rest: httpx.AsyncClient) -> None:
    owner = unique("owner")
    ref = task_commands_pb2.ExternalRef(ref_type="ORDER_ID", ref_value=unique("order"))
    labels = {"billing_account_id": "bill-7", "retention_policy_id": "keep-90", "data_classification": "INTERNAL"}
    spec = task_spec(known_steps=[step()], external_refs=[ref], batch_id="b-7", **labels)
    created = await new_workflow(site, spec, owner_id=owner)
    task_id, coordinator = created.tasks[0].task_id, site.coordinator
    await coordinator.report(event_type=common_pb2.TASK_STARTED, source_seq=1, task_id=task_id)
    await coordinator.report(event_type=common_pb2.TASK_CANCELLED, source_seq=2, task_id=task_id)
    rerun = task_commands_pb2.RerunTaskRequest(command_id=unique("cmd"), task_id=task_id, reason="once more")
    await coordinator.call(coordinator.register.RerunTask, rerun)
    await coordinator.report(event_type=common_pb2.TASK_STARTED, source_seq=1, task_id=task_id)

    reader = person(site, owner)
    seen = (await get(rest, reader, f"/api/v1/tasks/{task_id}")).json()
    whole = (await coordinator.call(coordinator.query.GetTask, query_service_pb2.GetTaskRequest(task_id=task_id))).task
    timeline = await get(rest, reader, f"/api/v1/tasks/{task_id}/events")

    assert [(run["taskAttempt"], run["lifecycleStatus"], run["reason"]) for run in seen["runs"]] == [
        (1, "CANCELLED", ""),
        (2, "RUNNING", "once more"),
    ]
    assert seen["runs"][0]["finishedAt"] <= seen["runs"][1]["createdAt"] <= seen["runs"][1]["startedAt"]
    assert "totalDurationMs" not in seen
    assert 0 <= seen["queueDurationMs"] <= whole.elapsed_ms + whole.queue_duration_ms
    assert (seen["batchId"], seen["registrationMode"], seen["externalRefs"][0]["refValue"]) == (
        "b-7",
        "MIXED",
        ref.ref_value,
    )
    assert (seen["dataClassification"], seen["billingAccountId"], seen["retentionPolicyId"]) == ("INTERNAL", "", "")
    assert (whole.billing_account_id, whole.retention_policy_id) == ("bill-7", "keep-90")
    assert {event["actor"] for event in timeline.json()["events"]} == {f"service:{COORDINATOR}"}
    assert OWNER not in timeline.text
