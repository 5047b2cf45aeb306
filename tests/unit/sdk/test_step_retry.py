"""Retrying a step within its policy (W-5, L-6)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from taskstatus_pb.v1 import common_pb2, query_service_pb2

from taskstatus.sdk import (
    Coordinator,
    ExecutionContext,
    FailurePolicy,
    NotRetried,
    StepError,
    StepSpec,
    TaskSpec,
    Worker,
)
from taskstatus.sdk.step_retry import judge
from taskstatus.sdk.testing import FakeTaskStatus

from .support import PARSER, STEP

Status = common_pb2.LifecycleStatus
STATUSES = st.sampled_from(list(Status.values())[1:])
POLICIES = st.sampled_from(list(common_pb2.FailurePolicy.values())[1:])


def a_step(
    status: Status.ValueType, attempt: int, policy: common_pb2.FailurePolicy.ValueType, retryable: bool | None
) -> query_service_pb2.StepSnapshot:
    """The latest attempt; ``retryable=None``: without an error."""
    step = query_service_pb2.StepSnapshot(
        step_id=STEP, step_attempt=attempt, current=True, lifecycle_status=status, failure_policy=policy
    )
    if retryable is not None:
        step.error.CopyFrom(common_pb2.EventError(code="X", retryable=retryable))
    return step


@given(
    task_status=STATUSES,
    cancel=st.booleans(),
    status=STATUSES,
    attempt=st.integers(1, 6),
    policy=POLICIES,
    retryable=st.sampled_from([None, True, False]),
    most=st.integers(1, 6),
)
def test_w5_a_step_is_tried_again_only_when_everything_allows_it(
    task_status: Status.ValueType,
    cancel: bool,
    status: Status.ValueType,
    attempt: int,
    policy: common_pb2.FailurePolicy.ValueType,
    retryable: bool | None,
    most: int,
) -> None:
    step = a_step(status, attempt, policy, retryable)
    task = query_service_pb2.TaskSnapshot(lifecycle_status=task_status, cancel_requested=cancel, steps=[step])

    outcome = judge(task, STEP, most)

    objections = {
        NotRetried.TASK_ENDED: task_status in (Status.SUCCEEDED, Status.FAILED, Status.TIMED_OUT, Status.CANCELLED),
        NotRetried.CANCEL_REQUESTED: cancel,
        NotRetried.NOT_FAILED: status not in (Status.FAILED, Status.TIMED_OUT),
        NotRetried.POLICY: policy != common_pb2.RETRY_THEN_FAIL_TASK,
        NotRetried.NOT_RETRYABLE: retryable is False,
        NotRetried.ATTEMPTS_USED_UP: attempt >= most,
    }
    expected = next((reason for reason, holds in objections.items() if holds), None)
    assert (outcome.not_retried, outcome.attempt, outcome.context) == (expected, attempt, None)
    assert (outcome.error is None) == (retryable is None)


def test_w5_the_latest_attempt_counts() -> None:
    earlier = a_step(Status.FAILED, 1, common_pb2.RETRY_THEN_FAIL_TASK, True)
    earlier.current = False
    task = query_service_pb2.TaskSnapshot(
        lifecycle_status=Status.RUNNING, steps=[earlier, a_step(Status.RUNNING, 2, earlier.failure_policy, None)]
    )
    assert judge(task, STEP, 3).not_retried is NotRetried.NOT_FAILED
    assert judge(task, "09_none", 3).not_retried is NotRetried.NO_SUCH_STEP


async def begun(coordinator: Coordinator, policy: FailurePolicy | None) -> ExecutionContext:
    """The first attempt of a step with the policy."""
    step = StepSpec(step_id=STEP, operation_code="DOCUMENT.PARSE", expected_producer=PARSER, failure_policy=policy)
    task = TaskSpec(client_task_key="t", title="T", steps=[step])
    workflow = await coordinator.create_workflow("k", owner_id="u", title="T", tasks=[task])
    return await coordinator.activate(workflow.tasks[0].task_id, STEP)


async def fail(worker: Worker, context: ExecutionContext, error: StepError) -> None:
    """Work that ends so."""
    with pytest.raises(StepError):
        async with worker.execution(context):
            raise error


async def test_w5_a_step_is_retried_until_its_attempts_are_used_up(
    fake: FakeTaskStatus, coordinator: Coordinator, worker: Worker
) -> None:
    context = await begun(coordinator, FailurePolicy.RETRY_THEN_FAIL_TASK)
    attempts = []
    while True:
        await fail(worker, context, StepError("BUSY", "Busy.", category="DEPENDENCY"))
        outcome = await coordinator.retry(context.task_id, STEP)
        if outcome.context is None:
            break
        attempts.append(outcome.attempt)
        context = outcome.context

    assert attempts == [2, 3]
    assert (outcome.not_retried, outcome.attempt) == (NotRetried.ATTEMPTS_USED_UP, 3)
    assert outcome.error is not None
    answer = await coordinator.fail_task(context.task_id, outcome.error, failed_step_id=STEP)
    assert answer.lifecycle_status == "FAILED"
    failure = fake.state.task(context.task_id).failure
    assert failure is not None
    assert (failure.code, failure.category, failure.failed_step_id) == ("BUSY", "DEPENDENCY", STEP)


async def test_w5_an_error_that_no_attempt_mends_is_not_retried(coordinator: Coordinator, worker: Worker) -> None:
    context = await begun(coordinator, FailurePolicy.RETRY_THEN_FAIL_TASK)
    await fail(worker, context, StepError("DAMAGED", "The file is damaged.", retryable=False))

    outcome = await coordinator.retry(context.task_id, STEP)

    assert (outcome.not_retried, outcome.context) == (NotRetried.NOT_RETRYABLE, None)


@pytest.mark.parametrize("policy", [*FailurePolicy, None])
async def test_l6_only_its_own_policy_retries(
    fake: FakeTaskStatus, coordinator: Coordinator, worker: Worker, policy: FailurePolicy | None
) -> None:
    context = await begun(coordinator, policy)
    await fail(worker, context, StepError("BUSY", "Busy."))
    version = fake.state.task(context.task_id).version

    outcome = await coordinator.retry(context.task_id, STEP)

    retried = policy is FailurePolicy.RETRY_THEN_FAIL_TASK
    assert outcome.not_retried is (None if retried else NotRetried.POLICY)
    assert fake.state.task(context.task_id).version == version + retried


async def test_l6_waiting_shown_for_a_failure_ends_with_the_next_attempt(
    fake: FakeTaskStatus, coordinator: Coordinator, worker: Worker
) -> None:
    context = await begun(coordinator, FailurePolicy.WAIT_FOR_USER)
    await fail(worker, context, StepError("UNCLEAR", "Which one?"))
    task = fake.state.task(context.task_id)
    assert task.business_status == "WAITING_USER_ACTION"

    await coordinator.activate(context.task_id, STEP, attempt=2)

    assert task.business_status == "RUNNING"


async def test_l6_a_failure_with_a_warning_degrades_the_task(
    fake: FakeTaskStatus, coordinator: Coordinator, worker: Worker
) -> None:
    context = await begun(coordinator, FailurePolicy.CONTINUE_WITH_WARNING)
    await fail(worker, context, StepError("THUMBNAIL", "No thumbnail."))
    assert fake.state.task(context.task_id).health == "DEGRADED"
    assert (await coordinator.complete_task(context.task_id)).lifecycle_status == "SUCCEEDED"
