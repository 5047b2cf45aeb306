"""The coordinator's commands on what exists (R-6, R-7, R-8, R-11, L-1, L-7, ID-5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from taskstatus_pb.v1 import common_pb2, query_service_pb2

from taskstatus.sdk import (
    AggregationPolicy,
    ConflictError,
    Coordinator,
    ExternalRef,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    PreconditionFailedError,
    SkippedStep,
    StepError,
    StepSpec,
    TaskSpec,
    TaskStatusError,
    UnauthenticatedError,
    Worker,
    WorkflowRuling,
    connect,
)
from taskstatus.sdk.event_ids import command_id_of
from taskstatus.sdk.testing import FakeTaskStatus

from .support import COORDINATOR, PARSER, STEP, QuickTiming, activated

REF = ExternalRef("ORDER_ID", "4711")
READ = "01_read"

Run = Callable[[Coordinator, str, str, str], Awaitable[Any]]
"""Runs a command on a task or its execution, with a key."""

COMMANDS: dict[str, Run] = {
    "RequestCancel": lambda c, task, execution, key: c.request_cancel(task, "wrong", key=key),
    "RerunTask": lambda c, task, execution, key: c.rerun(task, "mended", key=key),
    "ClassifyTask": lambda c, task, execution, key: c.classify(task, "REPORT", key=key),
    "UpdateTaskMetadata": lambda c, task, execution, key: c.update_metadata(task, priority=7, key=key),
    "AttachExternalRef": lambda c, task, execution, key: c.attach_external_ref(task, REF, key=key),
    "RevokeExecution": lambda c, task, execution, key: c.revoke(execution, "leaked", key=key),
}


@pytest.fixture(params=COMMANDS)
def method(request: pytest.FixtureRequest) -> str:
    """Each command in turn."""
    return str(request.param)


async def prepared(coordinator: Coordinator, method: str) -> tuple[str, str]:
    """A task on which the command can be carried out, and its execution."""
    context = await activated(coordinator)
    if method == "RerunTask":
        await coordinator.fail_task(context.task_id, StepError("LOST", "Lost."), failed_step_id=STEP)
    return context.task_id, context.execution_id


def change_of(answer: Any) -> Any:
    """The task after the command."""
    return getattr(answer, "change", answer)


def command_ids(fake: FakeTaskStatus, method: str) -> list[str]:
    """The ids that arrived."""
    return [call.request.command_id for call in fake.calls_of(method)]  # type: ignore[attr-defined]


async def test_r6_a_lost_answer_is_asked_for_again_with_the_same_id(
    fake: FakeTaskStatus, coordinator: Coordinator, method: str
) -> None:
    task_id, execution_id = await prepared(coordinator, method)
    fake.fail_next(method, "UNAVAILABLE", after_acting=True)

    change = change_of(await COMMANDS[method](coordinator, task_id, execution_id, ""))

    first, again = command_ids(fake, method)
    assert first == again
    assert (change.changed, change.duplicate) == (True, True)
    assert fake.state.task(task_id).timeline[-1].event_id == first


async def test_r6_another_process_with_the_same_key_gets_the_first_result(
    fake: FakeTaskStatus, coordinator: Coordinator, clock: QuickTiming, method: str
) -> None:
    task_id, execution_id = await prepared(coordinator, method)
    first = change_of(await COMMANDS[method](coordinator, task_id, execution_id, "request 7"))

    async with connect(fake.target, lambda: COORDINATOR, timing=clock.timing()) as connection:
        restarted = Coordinator(connection, COORDINATOR)
        again = change_of(await COMMANDS[method](restarted, task_id, execution_id, "request 7"))

    assert (first.duplicate, again.duplicate) == (False, True)
    assert again.task_version == first.task_version == fake.state.task(task_id).version


async def test_r6_without_a_key_every_command_is_its_own(
    fake: FakeTaskStatus, coordinator: Coordinator, method: str
) -> None:
    task_id, execution_id = await prepared(coordinator, method)
    await COMMANDS[method](coordinator, task_id, execution_id, "")
    try:
        again = change_of(await COMMANDS[method](coordinator, task_id, execution_id, ""))
    except PreconditionFailedError as refusal:
        assert refusal.reason in ("ALREADY_CLASSIFIED", "TRANSITION_NOT_ALLOWED")
    else:
        assert not again.duplicate
        assert again.changed == (method == "RevokeExecution")
    first, second = command_ids(fake, method)
    assert first != second


async def test_e1_only_the_coordinator_may(fake: FakeTaskStatus, coordinator: Coordinator, method: str) -> None:
    task_id, execution_id = await prepared(coordinator, method)
    version = fake.state.task(task_id).version

    async with connect(fake.target, lambda: "somebody") as connection:
        stranger = Coordinator(connection, "somebody")
        if method == "AttachExternalRef":
            assert (await stranger.attach_external_ref(task_id, REF)).changed
            return
        with pytest.raises(PermissionDeniedError):
            await COMMANDS[method](stranger, task_id, execution_id, "")

    assert fake.state.task(task_id).version == version


async def test_r6_what_does_not_exist_is_not_found(coordinator: Coordinator, method: str) -> None:
    with pytest.raises(NotFoundError):
        await COMMANDS[method](coordinator, "task_unknown", "exec_unknown", "")


@given(parts=st.lists(st.tuples(st.text(), st.text(), st.text(min_size=1)), min_size=2, max_size=2))
def test_r6_a_key_names_one_command_of_one_target(parts: list[tuple[str, str, str]]) -> None:
    first, second = (command_id_of(*part) for part in parts)
    assert first.isascii()
    assert len(first) <= 64
    if not any("\x1f" in text for part in parts for text in part):
        assert (first == second) == (parts[0] == parts[1])


async def test_l1_a_cancelled_task_blocks_success_until_the_evidence(
    fake: FakeTaskStatus, coordinator: Coordinator, worker: Worker
) -> None:
    context = await activated(coordinator)
    reporter = await worker.bind(context)
    await reporter.started()

    change = await coordinator.request_cancel(context.task_id, "wrong file")

    assert (change.lifecycle_status, change.cancel_requested) == ("CANCELLING", True)
    with pytest.raises(PreconditionFailedError, match="TRANSITION_NOT_ALLOWED"):
        await coordinator.complete_task(context.task_id)
    assert (await coordinator.cancel_task(context.task_id, "stopped")).lifecycle_status == "CANCELLED"
    assert fake.lifecycle(context.task_id, STEP) == "CANCELLED", "its steps end with it"
    with pytest.raises(PreconditionFailedError, match="NOT_CANCELLABLE"):
        await coordinator.request_cancel(context.task_id)


async def read_and_failed(coordinator: Coordinator, worker: Worker) -> tuple[str, str]:
    """A failed task whose first step succeeded, and the id of that fact."""
    steps = [StepSpec(step_id=name, operation_code="X", expected_producer=PARSER) for name in (READ, STEP)]
    task = TaskSpec(client_task_key="two", title="Two", steps=steps, input_ref="file:in")
    workflow = await coordinator.create_workflow("two", owner_id="u", title="Two", tasks=[task])
    task_id = workflow.tasks[0].task_id
    async with worker.execution(await coordinator.activate(task_id, READ)) as execution:
        answer = await execution.completed()
    await coordinator.fail_task(task_id, StepError("LOST", "Lost."), failed_step_id=STEP)
    return task_id, answer.event_id


async def snapshot(coordinator: Coordinator, task_id: str) -> query_service_pb2.TaskSnapshot:
    """The task as it is read."""
    connection = coordinator._connection
    answer = await connection.call(connection.query.GetTask, query_service_pb2.GetTaskRequest(task_id=task_id))
    return answer.task


async def test_r7_a_rerun_keeps_the_earlier_run_and_begins_anew(coordinator: Coordinator, worker: Worker) -> None:
    task_id, source = await read_and_failed(coordinator, worker)

    change = await coordinator.rerun(task_id, "mended", skipped=[SkippedStep(READ, "read well", source)])

    assert (change.task_attempt, change.lifecycle_status) == (2, "PENDING")
    task = await snapshot(coordinator, task_id)
    assert [(run.task_attempt, run.lifecycle_status, run.reason) for run in task.runs] == [
        (1, common_pb2.FAILED, ""),
        (2, common_pb2.PENDING, "mended"),
    ]
    assert task.runs[0].failure.code == "LOST"
    assert [(step.end_reason, step.skip_source_event_id) for step in task.steps] == [("SKIPPED", source), ("", "")]
    context = await coordinator.activate(task_id, STEP)
    assert (context.task_attempt, context.step_attempt, context.input_ref) == (2, 1, "file:in")


async def test_r7_what_belongs_to_the_earlier_run_is_stale(
    fake: FakeTaskStatus, coordinator: Coordinator, worker: Worker
) -> None:
    context = await activated(coordinator)
    reporter = await worker.bind(context)
    await reporter.started()
    await coordinator.fail_task(context.task_id, StepError("LOST", "Lost."), failed_step_id=STEP)
    await coordinator.rerun(context.task_id)

    answer = await reporter.completed()
    ruling = await coordinator.complete_task(context.task_id, task_attempt=1)

    assert (answer.accepted, answer.reason, answer.must_stop) == (False, "STALE_ATTEMPT", True)
    assert (ruling.accepted, ruling.reason) == (False, "STALE_ATTEMPT")
    assert fake.lifecycle(context.task_id) == "PENDING"
    with pytest.raises(PreconditionFailedError, match="STALE_ATTEMPT"):
        await worker.bind(context)


@pytest.mark.parametrize(
    ("step_id", "reason", "field"),
    [
        ("09_none", "read", "skippedSteps[0].stepId"),
        (STEP, "read", "skippedSteps[0].sourceEventId"),
        (READ, "", "skippedSteps[0].reason"),
    ],
)
async def test_x3_a_step_is_skipped_only_with_its_own_result(
    fake: FakeTaskStatus, coordinator: Coordinator, worker: Worker, step_id: str, reason: str, field: str
) -> None:
    task_id, source = await read_and_failed(coordinator, worker)
    version = fake.state.task(task_id).version

    with pytest.raises(InvalidArgumentError) as caught:
        await coordinator.rerun(task_id, skipped=[SkippedStep(step_id, reason, source)])

    assert [violation.field for violation in caught.value.violations] == [field]
    assert fake.state.task(task_id).version == version


async def test_w2_deterministic_ids_of_rulings_differ_between_runs(
    fake: FakeTaskStatus, coordinator: Coordinator
) -> None:
    context = await activated(coordinator)
    for _ in range(2):
        await coordinator.cancel_task(context.task_id, "stop")
        await coordinator.rerun(context.task_id)

    assert [event.source_seq for event in fake.state.task(context.task_id).events] == [1, 2]


async def test_r8_a_type_is_given_once(coordinator: Coordinator) -> None:
    context = await activated(coordinator)

    given = await coordinator.classify(
        context.task_id, "REPORT", status_definition_version=3, product_id="p-1", expected_version=1
    )

    assert (given.change.task_version, given.status_definition_version) == (2, 3)
    task = await snapshot(coordinator, context.task_id)
    assert (task.task_type, task.product_id, task.status_definition_version) == ("REPORT", "p-1", 3)
    with pytest.raises(PreconditionFailedError, match="ALREADY_CLASSIFIED"):
        await coordinator.classify(context.task_id, "OTHER")


async def test_r8_metadata_that_is_not_named_stays(coordinator: Coordinator) -> None:
    context = await activated(coordinator)

    change = await coordinator.update_metadata(context.task_id, product_id="p-1", priority=0, reason="moved")
    same = await coordinator.update_metadata(context.task_id, product_id="p-1")
    with pytest.raises(InvalidArgumentError, match="productId"):
        await coordinator.update_metadata(context.task_id)

    task = await snapshot(coordinator, context.task_id)
    assert (task.title, task.product_id, task.priority) == ("Contract", "p-1", 0)
    assert (change.changed, same.changed, same.task_version) == (True, False, change.task_version)


@pytest.mark.parametrize("name", ["classify", "update_metadata", "update_workflow"])
async def test_r8_a_stale_version_is_a_conflict(coordinator: Coordinator, name: str) -> None:
    context = await activated(coordinator)
    calls: dict[str, Callable[[int], Awaitable[Any]]] = {
        "classify": lambda seen: coordinator.classify(context.task_id, "T", expected_version=seen),
        "update_metadata": lambda seen: coordinator.update_metadata(context.task_id, title="N", expected_version=seen),
        "update_workflow": lambda seen: coordinator.update_workflow(
            context.workflow_id, title="N", expected_version=seen
        ),
    }
    with pytest.raises(ConflictError) as caught:
        await calls[name](9)
    assert (caught.value.reason, caught.value.retryable) == ("VERSION_MISMATCH", False)
    assert await calls[name](1) is not None


async def test_id5_a_number_names_one_task(fake: FakeTaskStatus, coordinator: Coordinator) -> None:
    workflow = await coordinator.create_workflow(
        "k", owner_id="u", title="T", tasks=[TaskSpec(client_task_key=key, title="T") for key in "ab"]
    )
    first, second = (task.task_id for task in workflow.tasks)

    await coordinator.attach_external_ref(first, REF)

    assert not (await coordinator.attach_external_ref(first, REF)).changed
    with pytest.raises(ConflictError, match="IDEMPOTENCY_CONFLICT"):
        await coordinator.attach_external_ref(second, REF)
    taken = TaskSpec(client_task_key="c", title="T", external_refs=[REF])
    with pytest.raises(ConflictError, match="IDEMPOTENCY_CONFLICT"):
        await coordinator.create_task(workflow.workflow_id, taken)
    assert len(fake.state.tasks) == 2


async def test_r11_after_a_revocation_only_new_credentials_report(coordinator: Coordinator, worker: Worker) -> None:
    context = await activated(coordinator)
    reporter = await worker.bind(context)
    await reporter.started()

    revoked = await coordinator.revoke(context.execution_id, "leaked")

    assert revoked.credential_generation == 2
    with pytest.raises(UnauthenticatedError, match="TOKEN_REVOKED"):
        await reporter.completed()
    fresh = await coordinator.renew(context)
    assert (fresh.execution_id, fresh.execution_handle == context.execution_handle) == (context.execution_id, False)
    assert (await (await worker.bind(fresh)).completed()).accepted


async def test_l7_a_ruling_goes_before_the_tasks_until_it_is_withdrawn(coordinator: Coordinator) -> None:
    workflow = await coordinator.create_workflow(
        "k",
        owner_id="u",
        title="T",
        tasks=[TaskSpec(client_task_key="a", title="T")],
        aggregation=AggregationPolicy.ANY_SUCCEEDS,
    )
    name = workflow.workflow_id

    ruled = await coordinator.update_workflow(name, ruling=WorkflowRuling.CANCELLED, reason="no longer needed")
    await coordinator.complete_task(workflow.tasks[0].task_id)
    with pytest.raises(InvalidArgumentError, match="reason"):
        await coordinator.update_workflow(name, ruling=WorkflowRuling.FAILED)
    withdrawn = await coordinator.update_workflow(name, title="New", withdraw_ruling=True)

    assert (ruled.lifecycle_status, ruled.ruled, ruled.workflow_version) == ("CANCELLED", True, 2)
    assert (withdrawn.lifecycle_status, withdrawn.ruled, withdrawn.title) == ("SUCCEEDED", False, "New")
    assert withdrawn.workflow_version > ruled.workflow_version
    assert not (await coordinator.update_workflow(name, title="New")).changed


async def test_e1_the_coordinator_gives_up_a_silent_step_and_a_task(
    fake: FakeTaskStatus, coordinator: Coordinator
) -> None:
    context = await activated(coordinator)

    ended = await coordinator.time_out_step(context, "nothing heard")
    answer = await coordinator.time_out_task(context.task_id, "too long")

    assert (ended.accepted, ended.step_id, ended.lifecycle_status) == (True, STEP, "PENDING")
    assert fake.lifecycle(context.task_id, STEP) == "TIMED_OUT"
    assert answer.lifecycle_status == "TIMED_OUT"
    reasons = [event.reason for event in fake.state.task(context.task_id).events]
    assert reasons == ["nothing heard", "too long"]


async def test_r6_an_end_of_a_superseded_execution_is_stale(coordinator: Coordinator) -> None:
    context = await activated(coordinator)
    await coordinator.activate(context.task_id, STEP, attempt=2)

    answer = await coordinator.cancel_step(context, "given up")

    assert (answer.accepted, answer.reason) == (False, "STALE_ATTEMPT")


async def test_r6_a_refusal_is_told_with_its_reason(fake: FakeTaskStatus, coordinator: Coordinator) -> None:
    context = await activated(coordinator)
    fake.fail_next("RerunTask", "RATE_LIMITED", retry_after_seconds=1.5)
    with pytest.raises(TaskStatusError) as caught:
        await coordinator.rerun(context.task_id)
    assert caught.value.reason == "TRANSITION_NOT_ALLOWED", "the limit has passed"
    assert len(set(command_ids(fake, "RerunTask"))) == 1
