"""Commands as they arrive: every field's limits, and that a refusal names the field (R-1, R-9, R-10, ID-3, ID-4)."""

from __future__ import annotations

from typing import Any

import pytest
from taskstatus_pb.v1 import common_pb2, register_service_pb2

from taskstatus.domain.commands import ActivateAttempt, CreateTask, CreateWorkflow
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.ids import format_execution_id, format_task_id, format_workflow_id
from taskstatus.domain.reasons import Reason
from taskstatus.domain.state import FailurePolicy, Grant
from taskstatus.entrypoints.wire import decode
from tests.unit.factories import EXECUTION_ID, TASK_ID, WORKFLOW_ID

from .requests import (
    COORDINATOR,
    TRACEPARENT,
    a_call,
    a_grant,
    a_registration_request,
    a_step,
    a_task,
    a_workflow_request,
    an_activation_request,
)

TASK = format_task_id(TASK_ID)
TITLE = "x" * 201


def workflow(**changes: Any) -> CreateWorkflow:
    """CreateWorkflow, decoded."""
    return decode.to_create_workflow(a_workflow_request(**changes), COORDINATOR, a_call())


def one_task(**changes: Any) -> CreateWorkflow:
    """The same with a task that differs."""
    return workflow(initial_tasks=[a_task(**changes)])


def one_step(**changes: Any) -> CreateWorkflow:
    """The same with a step that differs."""
    return one_task(known_steps=[a_step(**changes)])


def activation(**changes: Any) -> ActivateAttempt:
    """ActivateStep, decoded."""
    return decode.to_activate_step(an_activation_request(**changes), COORDINATOR, a_call())


def registration(**changes: Any) -> ActivateAttempt:
    """RegisterExecution, decoded."""
    return decode.to_register_execution(a_registration_request(**changes), COORDINATOR, a_call())


def create_task(**changes: Any) -> CreateTask:
    """CreateTask, decoded."""
    fields = {"command_id": "cmd-4", "workflow_id": format_workflow_id(WORKFLOW_ID), "task": a_task()}
    request = register_service_pb2.CreateTaskRequest(**{**fields, **changes})
    return decode.to_create_task(request, COORDINATOR, a_call())


FIRST = "initialTasks[0]"
STEP = f"{FIRST}.knownSteps[0]"
INVALID: list[tuple[str, Any, dict[str, Any]]] = [
    *[("commandId", make, {"command_id": odd}) for make in (workflow, activation, registration) for odd in ("", "a b")],
    ("commandId", create_task, {"command_id": "x" * 65}),
    ("clientWorkflowKey", workflow, {"client_workflow_key": ""}),
    ("clientWorkflowKey", workflow, {"client_workflow_key": "x" * 129}),
    ("ownerId", workflow, {"owner_id": ""}),
    ("ownerId", workflow, {"owner_id": "x" * 65}),
    ("title", workflow, {"title": " "}),
    ("title", workflow, {"title": TITLE}),
    ("workflowType", workflow, {"workflow_type": "x" * 129}),
    ("coordinatorProducer", workflow, {"coordinator_producer": "a b"}),
    ("grants", workflow, {"grants": [a_grant()] * 101}),
    ("grants[1].principalType", workflow, {"grants": [a_grant(), a_grant(principal_type=0)]}),
    ("grants[0].principalType", workflow, {"grants": [a_grant(principal_type=9)]}),
    ("grants[0].permission", workflow, {"grants": [a_grant(permission=0)]}),
    ("grants[0].permission", workflow, {"grants": [a_grant(permission=9)]}),
    ("grants[0].principalId", workflow, {"grants": [a_grant(principal_id="")]}),
    ("grants[0].principalId", workflow, {"grants": [a_grant(principal_id="x" * 65)]}),
    ("initialTasks", workflow, {"initial_tasks": [a_task(client_task_key=str(n)) for n in range(101)]}),
    ("initialTasks", workflow, {"initial_tasks": [a_task(), a_task()]}),
    (f"{FIRST}.clientTaskKey", one_task, {"client_task_key": ""}),
    (f"{FIRST}.title", one_task, {"title": TITLE}),
    (f"{FIRST}.taskType", one_task, {"task_type": "x" * 129}),
    (f"{FIRST}.productId", one_task, {"product_id": "x" * 65}),
    (f"{FIRST}.priority", one_task, {"priority": 101}),
    (f"{FIRST}.priority", one_task, {"priority": -101}),
    (f"{FIRST}.inputRef", one_task, {"input_ref": "x" * 1025}),
    (f"{FIRST}.inputRef", one_task, {"input_ref": "a\0"}),
    (f"{FIRST}.coordinatorProducer", one_task, {"coordinator_producer": "x" * 129}),
    (f"{FIRST}.policyExecutors", one_task, {"policy_executors": list("abcdefghi")}),
    (f"{FIRST}.policyExecutors[1]", one_task, {"policy_executors": ["a", ""]}),
    (f"{FIRST}.grants[0].principalId", one_task, {"grants": [a_grant(principal_id="a b")]}),
    (f"{FIRST}.knownSteps", one_task, {"known_steps": [a_step(step_id=f"s{n}") for n in range(301)]}),
    (f"{FIRST}.knownSteps", one_task, {"known_steps": [a_step(), a_step()]}),
    (f"{FIRST}.maxRunSeconds", one_task, {"max_run_seconds": 366 * 24 * 3600 + 1}),
    (f"{STEP}.stepId", one_step, {"step_id": ""}),
    (f"{STEP}.stepId", one_step, {"step_id": "a/b"}),
    (f"{STEP}.stepId", one_step, {"step_id": "x" * 65}),
    (f"{STEP}.stepId", one_step, {"step_id": "dyn_search"}),
    (f"{STEP}.operationCode", one_step, {"operation_code": ""}),
    (f"{STEP}.expectedProducer", one_step, {"expected_producer": ""}),
    (f"{STEP}.dependsOn", one_step, {"depends_on": ["nope"]}),
    (f"{STEP}.dependsOn", one_step, {"depends_on": ["02_parse"] * 65}),
    (f"{STEP}.failurePolicy", one_step, {"failure_policy": 9}),
    (f"{STEP}.displayName", one_step, {"display_name": TITLE}),
    (f"{STEP}.weight", one_step, {"weight": 1_000_001}),
    (f"{STEP}.maxRunSeconds", one_step, {"max_run_seconds": 366 * 24 * 3600 + 1}),
    ("task", create_task, {"task": None}),
    ("task.clientTaskKey", create_task, {"task": a_task(client_task_key="")}),
    ("task.knownSteps[0].weight", create_task, {"task": a_task(known_steps=[a_step(weight=2**32 - 1)])}),
    ("stepId", activation, {"step_id": "a b"}),
    ("stepAttempt", activation, {"step_attempt": 0}),
    ("inputRef", activation, {"input_ref": "x" * 1025}),
    ("heartbeatTimeoutSeconds", activation, {"heartbeat_timeout_seconds": 59}),
    ("heartbeatTimeoutSeconds", activation, {"heartbeat_interval_seconds": 20, "heartbeat_timeout_seconds": 74}),
    ("heartbeatTimeoutSeconds", activation, {"heartbeat_timeout_seconds": 24 * 3600 + 1}),
    ("heartbeatIntervalSeconds", activation, {"heartbeat_interval_seconds": 2**32 - 1}),
    ("clientStepKey", registration, {"client_step_key": ""}),
    ("clientStepKey", registration, {"client_step_key": "x" * 61}),
    ("stepAttempt", registration, {"step_attempt": 0}),
    ("operationCode", registration, {"operation_code": ""}),
    ("producerId", registration, {"producer_id": "x" * 129}),
    ("displayName", registration, {"display_name": "a\nb"}),
    ("failurePolicy", registration, {"failure_policy": 9}),
    ("maxRunSeconds", registration, {"max_run_seconds": 2**32 - 1}),
]


def refusal(make: Any, changes: dict[str, Any]) -> RefusedError:
    """Why such a request is refused."""
    with pytest.raises(RefusedError) as caught:
        make(**changes)
    return caught.value


def test_id4_invalid_field_is_named() -> None:
    refusals = [refusal(make, changes) for _, make, changes in INVALID]
    named = [[violation.field for violation in refused.violations] for refused in refusals]
    assert named == [[field] for field, _, _ in INVALID]
    assert {refused.reason for refused in refusals} == {Reason.INVALID_ARGUMENT}


@pytest.mark.parametrize(
    ("make", "changes", "reason"),
    [
        (create_task, {"workflow_id": "wf_nope"}, Reason.WORKFLOW_NOT_FOUND),
        (create_task, {"workflow_id": ""}, Reason.WORKFLOW_NOT_FOUND),
        (activation, {"task_id": "nope"}, Reason.TASK_NOT_FOUND),
        (registration, {"task_id": TASK + " "}, Reason.TASK_NOT_FOUND),
        (registration, {"parent_execution_id": "exec_nope"}, Reason.EXECUTION_NOT_FOUND),
    ],
)
def test_id4_id_that_cannot_exist_is_not_found(make: Any, changes: dict[str, Any], reason: Reason) -> None:
    assert refusal(make, changes).reason is reason


def test_r1_workflow_arrives_whole() -> None:
    command = workflow(
        grants=[a_grant(), a_grant(principal_type=register_service_pb2.AccessGrant.ROLE, principal_id="audit")],
        initial_tasks=[a_task(title="  Annual report ", priority=-100, sensitive=True, policy_executors=["p"])],
    )
    assert (command.caller.tenant_id, command.caller.authority_scope, command.caller.producer_id) == (
        "t-01",
        "documents",
        "coordinator",
    )
    assert command.grants == (Grant("USER", "u-99", "VIEW"), Grant("ROLE", "audit", "VIEW"))
    (task,) = command.tasks
    assert (task.title, task.priority, task.sensitive, task.policy_executors) == ("Annual report", -100, True, ("p",))
    assert (command.traceparent, command.trace_id) == (TRACEPARENT, bytes.fromhex(TRACEPARENT[3:35]))


@pytest.mark.parametrize(("given", "expected"), [(None, 1), (0, 0), (7, 7)])
def test_r10_weight_is_one_unless_told(given: int | None, expected: int) -> None:
    (step,) = one_step(weight=given).tasks[0].steps
    assert step.weight == expected


@pytest.mark.parametrize("policy", list(FailurePolicy))
def test_r10_every_failure_policy_arrives(policy: FailurePolicy) -> None:
    number = common_pb2.FailurePolicy.Value(policy)
    assert one_step(failure_policy=number).tasks[0].steps[0].failure_policy is policy
    dynamic = registration(failure_policy=number).dynamic
    assert dynamic is not None
    assert dynamic.failure_policy is policy


def test_l5_failure_policy_not_given_is_left_to_the_definition() -> None:
    assert one_step().tasks[0].steps[0].failure_policy is None
    dynamic = registration().dynamic
    assert dynamic is not None
    assert dynamic.failure_policy is None


@pytest.mark.parametrize(
    ("interval", "timeout", "expected"),
    [(0, 0, (15, 60)), (15, 60, (15, 60)), (60, 0, (60, 195)), (5, 0, (5, 60)), (5, 30, (5, 30)), (0, 90, (15, 90))],
)
def test_h2_timeout_covers_three_intervals_and_the_persist_period(
    interval: int, timeout: int, expected: tuple[int, int]
) -> None:
    command = activation(heartbeat_interval_seconds=interval, heartbeat_timeout_seconds=timeout)
    assert (command.heartbeat_interval_seconds, command.heartbeat_timeout_seconds) == expected


def test_r4_registration_arrives_whole() -> None:
    command = registration(parent_execution_id=format_execution_id(EXECUTION_ID), step_attempt=2, task_attempt=3)
    assert (command.step_id, command.step_attempt, command.task_attempt) == ("dyn_search", 2, 3)
    assert command.dynamic is not None
    assert command.dynamic.parent_execution_id == EXECUTION_ID
    assert (command.dynamic.operation_code, command.dynamic.producer_id) == ("SEARCH.WEB", "searcher")


@pytest.mark.parametrize("make", [workflow, activation, registration, create_task])
def test_id3_command_id_is_outside_the_content(make: Any) -> None:
    first, second = make(), make(command_id="another")
    digests = [c.task.digest if isinstance(c, CreateTask) else c.digest for c in (first, second)]
    assert digests[0] == digests[1]


@pytest.mark.parametrize("make", [activation, registration])
def test_id3_text_form_of_an_id_is_outside_the_content(make: Any) -> None:
    assert make().digest == make(task_id=TASK_ID.hex()).digest


def test_id3_text_form_of_the_parent_is_outside_the_content() -> None:
    forms = (format_execution_id(EXECUTION_ID), EXECUTION_ID.hex())
    first, second = (registration(parent_execution_id=form).digest for form in forms)
    assert first == second


@pytest.mark.parametrize(
    ("make", "changes"),
    [
        (workflow, {"title": "Other"}),
        (workflow, {"owner_id": "u-99"}),
        (workflow, {"initial_tasks": []}),
        (activation, {"input_ref": "input://other"}),
        (activation, {"heartbeat_interval_seconds": 10}),
        (registration, {"operation_code": "SEARCH.FILES"}),
    ],
)
def test_id3_other_content_has_another_digest(make: Any, changes: dict[str, Any]) -> None:
    assert make().digest != make(**changes).digest
