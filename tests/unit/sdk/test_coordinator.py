"""The coordinator's commands (R-1, R-4, R-6, ID-3, E-5, W-5)."""

from __future__ import annotations

import pytest

from taskstatus.sdk import (
    ConflictError,
    Connection,
    Coordinator,
    DynamicStep,
    FailurePolicy,
    Grant,
    NotFoundError,
    Permission,
    PermissionDeniedError,
    PreconditionFailedError,
    PrincipalType,
    StepError,
    UnavailableError,
    Worker,
    connect,
)
from taskstatus.sdk.testing import FakeTaskStatus

from .support import COORDINATOR, PARSER, STEP, QuickTiming, activated, parse_task


async def test_id3_the_same_key_gives_the_same_workflow(coordinator: Coordinator) -> None:
    first = await coordinator.create_workflow("k", owner_id="u", title="T", tasks=[parse_task()])
    again = await coordinator.create_workflow("k", owner_id="u", title="T", tasks=[parse_task()])

    assert first.created
    assert not again.created
    assert (again.workflow_id, again.tasks) == (first.workflow_id, first.tasks)
    assert first.tasks[0].task_version == 1


async def test_id3_the_same_key_with_other_content_is_a_conflict(coordinator: Coordinator) -> None:
    await coordinator.create_workflow("k", owner_id="u", title="T")

    with pytest.raises(ConflictError) as caught:
        await coordinator.create_workflow("k", owner_id="u", title="other")

    assert caught.value.reason == "IDEMPOTENCY_CONFLICT"
    assert not caught.value.retryable


async def test_r1_every_field_of_a_task_is_sent(fake: FakeTaskStatus, coordinator: Coordinator) -> None:
    grant = Grant(PrincipalType.PROJECT, "p-1", Permission.OPERATE)
    await coordinator.create_workflow("k", owner_id="u", title="T", grants=[grant], tasks=[parse_task()])

    request = fake.calls_of("CreateWorkflow")[0].request
    assert str(request.grants[0]) == str(grant.to_message())  # type: ignore[attr-defined]
    assert request.initial_tasks[0] == parse_task().to_message()  # type: ignore[attr-defined]
    assert request.command_id.startswith("cmd_")  # type: ignore[attr-defined]


async def test_a_task_is_added_to_a_workflow(coordinator: Coordinator) -> None:
    workflow = await coordinator.create_workflow("k", owner_id="u", title="T")

    task = await coordinator.create_task(workflow.workflow_id, parse_task("second"))

    assert task.client_task_key == "second"
    assert await coordinator.create_task(workflow.workflow_id, parse_task("second")) == task
    with pytest.raises(NotFoundError, match="WORKFLOW_NOT_FOUND"):
        await coordinator.create_task("wf_unknown", parse_task())


async def test_r6_a_retry_is_the_next_attempt_with_its_own_execution(coordinator: Coordinator) -> None:
    first = await activated(coordinator)

    second = await coordinator.activate(first.task_id, STEP, attempt=2)
    again = await coordinator.activate(first.task_id, STEP, attempt=2)

    assert second.step_attempt == 2
    assert second.execution_id != first.execution_id
    assert (again.execution_id, again.created) == (second.execution_id, False)
    with pytest.raises(PreconditionFailedError, match="TRANSITION_NOT_ALLOWED"):
        await coordinator.activate(first.task_id, STEP, attempt=4)


async def test_r4_a_dynamic_execution_is_registered_and_worked_on(
    fake: FakeTaskStatus, coordinator: Coordinator, worker: Worker
) -> None:
    parent = await activated(coordinator)
    context = await coordinator.register(
        parent.task_id,
        DynamicStep(
            client_step_key="page-7",
            operation_code="SEARCH.INDEX",
            producer_id=PARSER,
            failure_policy=FailurePolicy.CONTINUE_WITH_WARNING,
        ),
        parent_execution_id=parent.execution_id,
    )

    async with worker.execution(context):
        pass

    assert context.step_id == "dyn_page-7"
    assert fake.lifecycle(context.task_id, "dyn_page-7") == "SUCCEEDED"


async def test_e1_the_coordinator_ends_the_task(fake: FakeTaskStatus, coordinator: Coordinator, worker: Worker) -> None:
    context = await activated(coordinator)
    async with worker.execution(context):
        pass

    answer = await coordinator.complete_task(context.task_id, duration_ms=1234)

    assert (answer.accepted, answer.lifecycle_status) == (True, "SUCCEEDED")
    assert fake.state.task(context.task_id).events[-1].duration_ms == 1234


async def test_e12_a_failed_task_names_its_step(fake: FakeTaskStatus, coordinator: Coordinator) -> None:
    context = await activated(coordinator)

    await coordinator.fail_task(context.task_id, StepError("BROKEN", "It broke."), failed_step_id=STEP)

    event = fake.state.task(context.task_id).events[-1]
    assert (event.error.code, event.failed_step_id) == ("BROKEN", STEP)
    assert fake.lifecycle(context.task_id) == "FAILED"


async def test_a_cancellation_gives_its_reason(fake: FakeTaskStatus, coordinator: Coordinator) -> None:
    context = await activated(coordinator)

    await coordinator.cancel_task(context.task_id, "asked for by the owner")

    assert fake.state.task(context.task_id).events[-1].reason == "asked for by the owner"


async def test_e5_another_process_goes_on_in_the_task_sequence(
    fake: FakeTaskStatus, coordinator: Coordinator, clock: QuickTiming
) -> None:
    context = await activated(coordinator)
    fake.fail_next("ReportEvent", "UNAVAILABLE", times=1000)
    with pytest.raises(UnavailableError):
        await coordinator.cancel_task(context.task_id, "first try")
    fake.heal()
    assert (await coordinator.cancel_task(context.task_id, "second try")).accepted
    assert fake.state.task(context.task_id).events[-1].source_seq == 2, "the first number may have been taken"

    async with connect(fake.target, lambda: COORDINATOR, timing=clock.timing()) as connection:
        answer = await Coordinator(connection, COORDINATOR).cancel_task(context.task_id, "after a restart")

    assert (answer.accepted, answer.changed) == (True, False)
    assert fake.calls_of("ReportEvent")[-1].request.source_seq == 3  # type: ignore[attr-defined]


async def test_e5_a_refused_event_leaves_its_number_free(fake: FakeTaskStatus, coordinator: Coordinator) -> None:
    context = await activated(coordinator)
    fake.fail_next("ReportEvent", "INVALID_ARGUMENT")
    with pytest.raises(Exception, match="INVALID_ARGUMENT"):
        await coordinator.cancel_task(context.task_id, "x")

    await coordinator.cancel_task(context.task_id, "y")

    assert fake.state.task(context.task_id).events[-1].source_seq == 1


async def test_only_the_recorded_coordinator_activates(coordinator: Coordinator, worker_connection: Connection) -> None:
    context = await activated(coordinator)

    with pytest.raises(PermissionDeniedError):
        await Coordinator(worker_connection, PARSER).activate(context.task_id, STEP)
