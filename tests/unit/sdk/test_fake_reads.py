"""What the fake lets users' tests read: snapshots, lists and look-ups over its own state (Q-1, Q-3)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from taskstatus_pb.v1 import common_pb2, definitions_pb2, query_service_pb2, register_service_pb2, task_list_pb2

from taskstatus.sdk import (
    Connection,
    Coordinator,
    ExternalRef,
    Grant,
    InvalidArgumentError,
    NotFoundError,
    PrincipalType,
    TaskSpec,
    Worker,
    connect,
)
from taskstatus.sdk.testing import FakeTaskStatus
from taskstatus.sdk.testing.query import _page
from taskstatus.sdk.testing.state import FakeState

from .support import COORDINATOR, QuickTiming, activated

TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture
async def reader(fake: FakeTaskStatus, clock: QuickTiming) -> AsyncIterator[Connection]:
    """A connection of the person ``u-88``."""
    async with connect(fake.target, lambda: "u-88", timing=clock.timing()) as connection:
        yield connection


async def many(coordinator: Coordinator, count: int, **fields: object) -> list[str]:
    """Tasks of one workflow."""
    specs = [TaskSpec(client_task_key=f"t{n}", title=f"Page {n}", **fields) for n in range(count)]  # type: ignore[arg-type]
    workflow = await coordinator.create_workflow(f"many-{count}", owner_id="u-88", title="Many", tasks=specs)
    return [task.task_id for task in workflow.tasks]


async def test_q1_my_tasks_are_paged_the_newest_first(reader: Connection, coordinator: Coordinator) -> None:
    ids = await many(coordinator, 5)
    request, found = task_list_pb2.ListMyTasksRequest(limit=2), list[str]()
    while True:
        page = await reader.call(reader.query.ListMyTasks, request)
        found += [task.task_id for task in page.tasks]
        request.cursor = page.next_cursor
        if not page.next_cursor:
            break
        await many(coordinator, 6 + len(found))
    assert found == ids[::-1]
    with pytest.raises(InvalidArgumentError):
        await reader.call(reader.query.ListMyTasks, task_list_pb2.ListMyTasksRequest(cursor="task_none"))


@given(count=st.integers(0, 12), limit=st.integers(1, 5))
def test_q1_pages_hold_every_task_once(count: int, limit: int) -> None:
    state = FakeState()
    specs = [register_service_pb2.TaskSpec(client_task_key=str(n), title="T") for n in range(count)]
    request = register_service_pb2.CreateWorkflowRequest(client_workflow_key="k", initial_tasks=specs)
    _, tasks, _ = state.create_workflow(COORDINATOR, request)
    found, cursor = list[str](), ""
    while True:
        page, cursor = _page(tasks, limit, cursor)
        found += [task.task_id for task in page]
        if not cursor:
            break
    assert found == [task.task_id for task in tasks]


async def test_p4_others_see_what_is_granted_to_them(fake: FakeTaskStatus, coordinator: Coordinator) -> None:
    grant = Grant(PrincipalType.USER, "u-2")
    (task_id,) = await many(coordinator, 1, grants=[grant], sensitive=True)
    for person, expected in (("u-2", [task_id]), ("u-3", [])):
        async with connect(fake.target, lambda person=person: person) as connection:  # type: ignore[misc]
            page = await connection.call(connection.query.ListMyTasks, task_list_pb2.ListMyTasksRequest())
        assert [task.task_id for task in page.tasks] == expected


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (task_list_pb2.TaskFilter(), [0, 1, 2]),
        (task_list_pb2.TaskFilter(lifecycle_statuses=[common_pb2.SUCCEEDED]), [1]),
        (task_list_pb2.TaskFilter(title_contains="PAGE 2"), [2]),
        (task_list_pb2.TaskFilter(batch_id="b-1"), [0, 1, 2]),
        (task_list_pb2.TaskFilter(batch_id="b-2"), []),
        (task_list_pb2.TaskFilter(task_type="REPORT"), []),
        (task_list_pb2.TaskFilter(parent_task_id="task_x"), []),
    ],
)
async def test_q1_a_workflows_tasks_are_filtered(
    coordinator: Coordinator, reader: Connection, chosen: task_list_pb2.TaskFilter, expected: list[int]
) -> None:
    ids = await many(coordinator, 3, batch_id="b-1")
    await coordinator.complete_task(ids[1])
    snapshot = await reader.call(reader.query.GetTask, query_service_pb2.GetTaskRequest(task_id=ids[0]))
    request = task_list_pb2.ListWorkflowTasksRequest(workflow_id=snapshot.task.workflow_id, filter=chosen)
    page = await reader.call(reader.query.ListWorkflowTasks, request)
    assert [task.task_id for task in page.tasks] == [ids[n] for n in expected]


async def test_l7_a_workflow_follows_its_tasks(coordinator: Coordinator, reader: Connection) -> None:
    ids = await many(coordinator, 2)
    task = (await reader.call(reader.query.GetTask, query_service_pb2.GetTaskRequest(task_id=ids[0]))).task
    asked = query_service_pb2.GetWorkflowRequest(workflow_id=task.workflow_id)

    async def look() -> tuple[str, int, int]:
        workflow = (await reader.call(reader.query.GetWorkflow, asked)).workflow
        name = common_pb2.LifecycleStatus.Name(workflow.lifecycle_status)
        return name, workflow.task_counts.succeeded, workflow.workflow_version

    before = await look()
    for task_id in ids:
        await coordinator.complete_task(task_id)
    ended = await look()
    await coordinator.rerun(ids[0])
    assert (before, ended) == (("PENDING", 0, 1), ("SUCCEEDED", 2, 3))
    assert await look() == ("RUNNING", 1, 4)


async def test_q1_statuses_of_known_versions_are_left_out(coordinator: Coordinator, reader: Connection) -> None:
    known, newer = await many(coordinator, 2)
    await coordinator.complete_task(newer)
    request = task_list_pb2.BatchGetTaskStatusRequest(
        task_ids=[known, newer, "task_none"], known_versions={known: 1, newer: 1}
    )
    answer = await reader.call(reader.query.BatchGetTaskStatus, request)
    assert [task.task_id for task in answer.tasks] == [newer]
    assert (answer.unchanged_task_ids[:], answer.missing_task_ids[:]) == ([known], ["task_none"])
    assert answer.tasks[0].total_duration_ms >= 0


async def test_q3_a_number_names_its_task(coordinator: Coordinator, reader: Connection) -> None:
    (task_id,) = await many(coordinator, 1, external_refs=[ExternalRef("ORDER_ID", "4711")])
    lookup = reader.query.LookupExternalRef
    found = await reader.call(lookup, task_list_pb2.LookupExternalRefRequest(ref_type="ORDER_ID", ref_value="4711"))
    assert [task.task_id for task in found.tasks] == [task_id]
    with pytest.raises(NotFoundError):
        await reader.call(lookup, task_list_pb2.LookupExternalRefRequest(ref_type="ORDER_ID", ref_value="1"))


async def test_q3_a_trace_and_an_event_are_found(fake: FakeTaskStatus, reader: Connection) -> None:
    parent = f"00-{TRACE}-b7ad6b7169203331-01"
    async with connect(fake.target, lambda: COORDINATOR, traceparent=lambda: parent) as connection:
        context = await activated(Coordinator(connection, COORDINATOR))
        await Coordinator(connection, COORDINATOR).request_cancel(context.task_id, key="k")
    trace = await reader.call(reader.query.ListTraceEvents, task_list_pb2.ListTraceEventsRequest(trace_id=TRACE))
    assert [event.event_type for event in trace.events] == [common_pb2.TASK_CREATED, common_pb2.TASK_CANCEL_REQUESTED]
    event_id = trace.events[1].event_id
    found = await reader.call(reader.query.LookupEvent, task_list_pb2.LookupEventRequest(event_id=event_id))
    assert [(event.task_id, event.task_version) for event in found.events] == [(context.task_id, 2)]


async def test_l5_the_generic_statuses_are_readable(reader: Connection) -> None:
    read = reader.query.GetStatusDefinition
    found = await reader.call(read, definitions_pb2.GetStatusDefinitionRequest(task_type="REPORT"))
    means = {status.code: status.lifecycle_status for status in found.status_definition.statuses}
    assert means["RETRY_WAIT"] == common_pb2.RUNNING
    assert len(means) == 9
    with pytest.raises(NotFoundError, match="DEFINITION_NOT_FOUND"):
        await reader.call(read, definitions_pb2.GetStatusDefinitionRequest(task_type="REPORT", version=1))


async def test_e8_a_snapshot_shows_weighted_progress(
    coordinator: Coordinator, worker: Worker, reader: Connection
) -> None:
    context = await activated(coordinator)
    request = query_service_pb2.GetTaskRequest(task_id=context.task_id)
    async with worker.execution(context) as execution:
        await execution.progress(1, 4, "page", phase="PARSING")
        running = (await reader.call(reader.query.GetTask, request)).task
    ended = (await reader.call(reader.query.GetTask, request)).task
    assert (running.progress_percent, running.steps[0].progress_percent, running.steps[0].phase_code) == (
        25.0,
        25.0,
        "PARSING",
    )
    assert (ended.progress_percent, ended.steps[0].lifecycle_status) == (100.0, common_pb2.SUCCEEDED)
