"""The REST gateway over the same service: same event, same result, same version; errors as problem details (T-3)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from taskstatus_pb.v1 import common_pb2

from gateway_rest.app import RestSettings, create_app
from tests.integration.service.conftest import Site
from tests.support.clients import OWNER, activate, new_task, unique
from tests.support.databases import count_rows


@pytest.fixture
async def rest(site: Site) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(site.service.dispatch, site.service.clock, site.service.is_ready, RestSettings())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://rest.test") as client:
        yield client


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


async def test_t3_the_same_event_by_rest_and_grpc_is_one_event(site: Site, rest: httpx.AsyncClient) -> None:
    task_id = await new_task(site.coordinator)
    handle = (await activate(site.coordinator, task_id)).execution_handle
    event_id = unique("evt")
    first = await site.worker.report(
        event_id=event_id, event_type=common_pb2.STEP_STARTED, source_seq=1, execution_handle=handle
    )
    body = {"eventId": event_id, "eventType": "STEP_STARTED", "sourceSeq": "1", "executionHandle": handle}
    again = await rest.post("/internal/v1/task-events", json=body, headers=bearer(site.worker.token))
    assert again.status_code == 200
    assert again.json()["duplicate"] is True
    assert again.json()["taskVersion"] == str(first.task_version) == "2"
    batch = await rest.post(
        "/internal/v1/task-events:batch", json={"events": [body]}, headers=bearer(site.worker.token)
    )
    assert batch.json()["results"][0]["response"] == again.json()


async def test_t3_idempotency_key_is_the_event_id(site: Site, rest: httpx.AsyncClient) -> None:
    task_id = await new_task(site.coordinator)
    handle = (await activate(site.coordinator, task_id)).execution_handle
    body = {"eventType": "STEP_STARTED", "sourceSeq": 1, "executionHandle": handle}
    headers = {**bearer(site.worker.token), "idempotency-key": unique("evt")}
    answers = [
        (await rest.post(f"/internal/v1/tasks/{task_id}/events", json=body, headers=headers)).json() for _ in range(2)
    ]
    assert [answer["duplicate"] for answer in answers] == [False, True]


async def test_t3_a_whole_task_by_rest_alone(site: Site, rest: httpx.AsyncClient) -> None:
    coordinator, worker = bearer(site.coordinator.token), bearer(site.worker.token)

    async def post(path: str, body: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
        response = await rest.post(path, json=body, headers={**headers, "idempotency-key": unique("cmd")})
        assert response.status_code == 200, response.text
        return dict(response.json())

    workflow = await post(
        "/internal/v1/workflows",
        {
            "clientWorkflowKey": unique("wf"),
            "ownerId": OWNER,
            "title": "By REST",
            "initialTasks": [
                {
                    "clientTaskKey": "t",
                    "title": "Parse",
                    "knownSteps": [
                        {
                            "stepId": "02_parse",
                            "operationCode": "DOCUMENT.PARSE",
                            "expectedProducer": "document-parser",
                        }
                    ],
                }
            ],
        },
        coordinator,
    )
    task_id = workflow["tasks"][0]["taskId"]
    context = (await post(f"/internal/v1/tasks/{task_id}/steps/02_parse:activate", {"stepAttempt": 1}, coordinator))[
        "context"
    ]
    handle = context["executionHandle"]
    await post(
        "/internal/v1/task-events", {"eventType": "STEP_STARTED", "sourceSeq": 1, "executionHandle": handle}, worker
    )
    await post(
        "/internal/v1/task-events",
        {"eventType": "STEP_COMPLETED", "sourceSeq": 2, "executionHandle": handle, "durationMs": 18000},
        worker,
    )
    await post(
        "/internal/v1/task-events", {"eventType": "TASK_COMPLETED", "sourceSeq": 1, "taskId": task_id}, coordinator
    )
    snapshot = (await rest.get(f"/api/v1/tasks/{task_id}", headers=bearer(site.owner.token))).json()
    assert (snapshot["lifecycleStatus"], snapshot["taskVersion"]) == ("SUCCEEDED", "4")
    assert snapshot["steps"][0]["durationMs"] == 18000
    timeline = await rest.get(
        f"/api/tasks/{task_id}/events", params={"afterTaskVersion": 2}, headers=bearer(site.owner.token)
    )
    assert [event["eventType"] for event in timeline.json()["events"]] == ["STEP_COMPLETED", "TASK_COMPLETED"]


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        (b"{", 400, "INVALID_ARGUMENT"),
        (b"[]", 400, "INVALID_ARGUMENT"),
        (b'{"eventId":"e","event_id":"e"}', 400, "INVALID_ARGUMENT"),
        (b'{"eventId":"e","nope":1}', 400, "INVALID_ARGUMENT"),
        (b'{"eventId":"e","eventType":"STEP_STARTED","sourceSeq":1}', 401, "UNAUTHENTICATED"),
    ],
)
async def test_e2_bad_json_is_a_problem_and_writes_nothing(
    site: Site, rest: httpx.AsyncClient, database_url: str, body: bytes, status: int, reason: str
) -> None:
    before = await count_rows(database_url)
    headers = {**bearer(site.worker.token), "content-type": "application/json"}
    response = await rest.post("/internal/v1/task-events", content=body, headers=headers)
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["reason"] == reason
    assert await count_rows(database_url) == before


async def test_p4_unknown_and_foreign_tasks_look_alike_over_rest(site: Site, rest: httpx.AsyncClient) -> None:
    task_id = await new_task(site.coordinator)
    stranger = bearer(site.tokens.person("u-3"))
    foreign = await rest.get(f"/api/v1/tasks/{task_id}", headers=stranger)
    unknown = await rest.get("/api/v1/tasks/task_01890000000070008000000000000001", headers=stranger)
    for response in (foreign, unknown):
        assert (response.status_code, response.json()["reason"]) == (404, "TASK_NOT_FOUND")
    assert foreign.json()["detail"] == unknown.json()["detail"]
