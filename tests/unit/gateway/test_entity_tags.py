"""Answers that show one task or workflow carry the tag that If-Match takes back (R-8, L-7)."""

from __future__ import annotations

import pytest
from google.protobuf.message import Message
from taskstatus_pb.v1 import query_service_pb2, report_service_pb2, task_commands_pb2, task_list_pb2, workflow_pb2

from gateway_rest.app import RestSettings

from .support import FakeDispatch, rest_client

TASK = query_service_pb2.TaskSnapshot(task_version=4)
CHANGE = task_commands_pb2.TaskChange(task_version=5)
WORKFLOW = workflow_pb2.WorkflowSnapshot(workflow_version=6)
SHOWN: list[tuple[str, str, Message, str]] = [
    ("GET", "/api/v1/tasks/task_1", query_service_pb2.GetTaskResponse(task=TASK), '"task-version-4"'),
    (
        "PATCH",
        "/internal/v1/tasks/task_1/metadata",
        task_commands_pb2.UpdateTaskMetadataResponse(change=CHANGE),
        '"task-version-5"',
    ),
    ("GET", "/api/v1/workflows/wf_1", query_service_pb2.GetWorkflowResponse(workflow=WORKFLOW), '"workflow-version-6"'),
    (
        "PATCH",
        "/internal/v1/workflows/wf_1",
        workflow_pb2.UpdateWorkflowResponse(workflow=WORKFLOW),
        '"workflow-version-6"',
    ),
]


@pytest.mark.parametrize(("verb", "path", "answer", "tag"), SHOWN)
def test_r8_answer_carries_the_tag_of_what_it_shows(verb: str, path: str, answer: Message, tag: str) -> None:
    response = rest_client(FakeDispatch(answer=answer)).request(verb, path)
    assert response.headers["etag"] == tag


def test_r8_tag_of_an_answer_is_taken_back_by_if_match() -> None:
    dispatch = FakeDispatch(answer=task_commands_pb2.UpdateTaskMetadataResponse(change=CHANGE))
    client, path = rest_client(dispatch), "/internal/v1/tasks/task_1/metadata"
    tag = client.request("PATCH", path).headers["etag"]
    client.request("PATCH", path, headers={"if-match": tag})
    _, request, _ = dispatch.calls[-1]
    assert isinstance(request, task_commands_pb2.UpdateTaskMetadataRequest)
    assert request.expected_task_version == 5


def test_r8_lists_and_events_have_no_tag() -> None:
    listing = task_list_pb2.ListMyTasksResponse(tasks=[task_list_pb2.TaskSummary(task_version=4)])
    reported = report_service_pb2.ReportEventResponse(task_version=4)
    assert "etag" not in rest_client(FakeDispatch(answer=listing)).get("/api/v1/me/tasks").headers
    assert "etag" not in rest_client(FakeDispatch(answer=reported)).post("/internal/v1/task-events").headers


def test_r8_pages_of_another_origin_may_read_the_tag() -> None:
    dispatch = FakeDispatch(answer=query_service_pb2.GetTaskResponse(task=TASK))
    client = rest_client(dispatch, RestSettings(cors_origins=("https://board.example",)))
    response = client.get("/api/v1/tasks/task_1", headers={"origin": "https://board.example"})
    assert "ETag" in response.headers["access-control-expose-headers"]
