"""Dynamic steps: registered by the coordinator, or by the execution that found them (R-2, R-4, R-5)."""

from __future__ import annotations

import dataclasses

import pytest

from taskstatus.sdk import (
    ConflictError,
    Coordinator,
    DynamicPolicy,
    DynamicStep,
    ExecutionContext,
    FailurePolicy,
    LimitError,
    PermissionDeniedError,
    PreconditionFailedError,
    RegistrationMode,
    Reporter,
    TaskSpec,
    UnauthenticatedError,
    Worker,
)
from taskstatus.sdk.testing import FakeTaskStatus

from .support import PARSER, STEP, parse_task

AGENT = DynamicPolicy(parent_operations=["DOCUMENT.*"], child_operations=["SEARCH.*"], max_steps=5, max_per_minute=9)
SEARCH = DynamicStep(
    client_step_key="page-7",
    operation_code="SEARCH.WEB",
    producer_id=PARSER,
    display_name="Web",
    failure_policy=FailurePolicy.CONTINUE_WITH_WARNING,
    input_ref="query:7",
    max_run_seconds=60,
    heartbeat_interval_seconds=20,
    heartbeat_timeout_seconds=90,
)


async def agent(coordinator: Coordinator, dynamic: DynamicPolicy | None = AGENT) -> ExecutionContext:
    """An execution that may find more to do."""
    task = dataclasses.replace(parse_task(), dynamic=dynamic)
    workflow = await coordinator.create_workflow("agent", owner_id="u", title="Agent", tasks=[task])
    return await coordinator.activate(workflow.tasks[0].task_id, STEP)


async def started(worker: Worker, context: ExecutionContext) -> Reporter:
    """Its reporter, after the start."""
    reporter = await worker.bind(context)
    await reporter.started()
    return reporter


async def test_r4_a_running_execution_registers_a_child_and_hands_its_context_on(
    fake: FakeTaskStatus, coordinator: Coordinator, worker: Worker
) -> None:
    context = await agent(coordinator)
    assert context.may_register_children
    parent = await started(worker, ExecutionContext.from_dict(context.to_dict()))

    child = await parent.register_child(SEARCH)
    again = await parent.register_child(SEARCH)

    assert (child.step_id, child.created, child.input_ref) == ("dyn_page-7", True, "query:7")
    assert (again.execution_id, again.created) == (child.execution_id, False)
    assert not child.may_register_children
    async with worker.execution(child):
        pass
    attempt = fake.state.task(context.task_id).current("dyn_page-7")
    assert (attempt.parent_execution_id, attempt.depth, attempt.lifecycle) == (context.execution_id, 1, "SUCCEEDED")
    assert attempt.heartbeat_interval_seconds == 20


async def test_r4_the_parent_is_named_by_its_own_credential_alone(
    fake: FakeTaskStatus, coordinator: Coordinator, worker: Worker
) -> None:
    context = await agent(coordinator)
    await (await started(worker, context)).register_child(SEARCH)

    request = fake.calls_of("RegisterExecution")[0].request
    assert request.parent_execution_handle == context.execution_handle  # type: ignore[attr-defined]
    assert request.failure_policy == SEARCH.to_request("", "").failure_policy  # type: ignore[attr-defined]
    assert request.heartbeat_timeout_seconds == 90  # type: ignore[attr-defined]


async def test_r5_the_tasks_policy_bounds_what_is_registered(coordinator: Coordinator, worker: Worker) -> None:
    context = await agent(coordinator)
    parent = await started(worker, context)
    with pytest.raises(PermissionDeniedError):
        await parent.register_child(dataclasses.replace(SEARCH, operation_code="TOOL.RUN"))
    child = await started(worker, await parent.register_child(SEARCH))
    with pytest.raises(PermissionDeniedError):
        await child.register_child(dataclasses.replace(SEARCH, client_step_key="deeper"))


async def test_r5_without_a_policy_only_the_coordinator_registers(coordinator: Coordinator, worker: Worker) -> None:
    context = await agent(coordinator, dynamic=None)
    parent = await started(worker, context)
    assert not context.may_register_children
    with pytest.raises(PermissionDeniedError):
        await parent.register_child(SEARCH)

    child = await coordinator.register(context.task_id, SEARCH, parent_execution_id=context.execution_id)

    assert child.created


async def test_r5_a_limit_is_told_with_the_time_to_wait_and_not_waited_for(
    fake: FakeTaskStatus, coordinator: Coordinator, worker: Worker
) -> None:
    parent = await started(worker, await agent(coordinator))
    fake.fail_next("RegisterExecution", "DYNAMIC_LIMIT_REACHED", retry_after_seconds=3.0)
    with pytest.raises(LimitError) as caught:
        await parent.register_child(SEARCH)
    assert (caught.value.retryable, caught.value.retry_after_seconds) == (True, 3.0)
    assert len(fake.calls_of("RegisterExecution")) == 1


async def test_r4_only_a_parent_that_runs_registers(coordinator: Coordinator, worker: Worker) -> None:
    context = await agent(coordinator)
    parent = await worker.bind(context)
    with pytest.raises(PreconditionFailedError, match="TRANSITION_NOT_ALLOWED"):
        await parent.register_child(SEARCH)
    await parent.started()
    await parent.completed()
    with pytest.raises(PreconditionFailedError, match="TERMINAL"):
        await parent.register_child(SEARCH)


@pytest.mark.parametrize(("change", "reason"), [("supersede", "STALE_ATTEMPT"), ("revoke", "TOKEN_REVOKED")])
async def test_r11_a_parent_that_is_over_registers_nothing(
    fake: FakeTaskStatus, coordinator: Coordinator, worker: Worker, change: str, reason: str
) -> None:
    context = await agent(coordinator)
    parent = await started(worker, context)
    if change == "supersede":
        await coordinator.activate(context.task_id, STEP, attempt=2)
    else:
        await coordinator.revoke(context.execution_id)
    version = fake.state.task(context.task_id).version
    with pytest.raises((PreconditionFailedError, UnauthenticatedError), match=reason):
        await parent.register_child(SEARCH)
    assert fake.state.task(context.task_id).version == version


async def test_r6_a_dynamic_step_is_retried_as_it_was(
    fake: FakeTaskStatus, coordinator: Coordinator, worker: Worker
) -> None:
    parent = await started(worker, await agent(coordinator))
    first = await parent.register_child(SEARCH)

    second = await parent.register_child(dataclasses.replace(SEARCH, attempt=2))

    assert (second.step_id, second.step_attempt) == (first.step_id, 2)
    with pytest.raises(ConflictError):
        await parent.register_child(dataclasses.replace(SEARCH, attempt=3, producer_id="another"))
    with pytest.raises(PreconditionFailedError, match="TRANSITION_NOT_ALLOWED"):
        await parent.register_child(dataclasses.replace(SEARCH, attempt=4))
    assert [attempt.lifecycle for attempt in fake.state.task(first.task_id).steps[first.step_id]] == [
        "CANCELLED",
        "PENDING",
    ]


async def test_r2_nothing_is_added_to_a_fixed_manifest(coordinator: Coordinator) -> None:
    fixed = dataclasses.replace(parse_task(), mode=RegistrationMode.FIXED, task_type="REPORT")
    workflow = await coordinator.create_workflow("fixed", owner_id="u", title="F", tasks=[fixed])
    with pytest.raises(PreconditionFailedError, match="TRANSITION_NOT_ALLOWED"):
        await coordinator.register(workflow.tasks[0].task_id, SEARCH)


def test_r2_every_term_of_a_task_is_sent() -> None:
    spec = TaskSpec(
        client_task_key="k",
        title="T",
        mode=RegistrationMode.MIXED,
        dynamic=AGENT,
        batch_id="b-1",
        parent_task_id="task_1",
        billing_account_id="a",
        retention_policy_id="r",
        data_classification="d",
        max_run_seconds=3_600,
        task_type="REPORT",
        status_definition_version=2,
        operation_definition_version=3,
    )
    message = spec.to_message()
    policy = message.dynamic_registration
    assert (policy.allowed_parent_operations[:], policy.allowed_child_operations[:]) == (["DOCUMENT.*"], ["SEARCH.*"])
    assert (policy.max_dynamic_steps, policy.max_registrations_per_minute, policy.max_depth) == (5, 9, 0)
    assert (message.batch_id, message.parent_task_id) == ("b-1", "task_1")
    assert (message.billing_account_id, message.retention_policy_id, message.data_classification) == ("a", "r", "d")
    assert (message.status_definition_version, message.operation_definition_version) == (2, 3)
    assert message.max_run_seconds == 3_600
    plain = TaskSpec(client_task_key="k", title="T").to_message()
    assert {field.name for field, _ in plain.ListFields()} == {"client_task_key", "title"}, "what is left out stays so"
