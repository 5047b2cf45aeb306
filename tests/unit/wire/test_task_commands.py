"""Requests on a task that exists: what is a command's content, who gives it, and every limit of form (R-6, ID-4)."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.message import Message
from taskstatus_pb.v1 import common_pb2, register_service_pb2, task_commands_pb2, workflow_pb2

from taskstatus.application.identity import Role, ServiceIdentity, UserIdentity
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.ids import format_execution_id, format_task_id, format_workflow_id
from taskstatus.domain.lifecycle import TERMINAL, Lifecycle
from taskstatus.domain.reasons import Reason
from taskstatus.domain.registration_terms import RegistrationMode
from taskstatus.domain.task_commands import CommandHead
from taskstatus.entrypoints.wire import decode_commands, decode_terms, decode_workflow
from tests.unit.factories import EXECUTION_ID, OWNER, TASK_ID, TENANT, WORKFLOW_ID
from tests.unit.service_kit import a_service

from .requests import COORDINATOR, TRACEPARENT, a_call, a_step, a_task

TASK, EXECUTION = format_task_id(TASK_ID), format_execution_id(EXECUTION_ID)
SERVICE = COORDINATOR
PERSON = UserIdentity(TENANT, OWNER, frozenset({"p-1"}), frozenset({"audit"}), 0.0)
ERROR = common_pb2.EventError(code="PARSE_FAILED", message="Unreadable.", category="INPUT")
REASON_TOO_LONG = "x" * 513


def cancel(**changes: Any) -> task_commands_pb2.RequestCancelRequest:
    """RequestCancel."""
    return task_commands_pb2.RequestCancelRequest(**{"command_id": "c-1", "task_id": TASK, "reason": "why", **changes})


def rerun(**changes: Any) -> task_commands_pb2.RerunTaskRequest:
    """RerunTask."""
    return task_commands_pb2.RerunTaskRequest(**{"command_id": "c-1", "task_id": TASK, "reason": "why", **changes})


def skip(**changes: Any) -> task_commands_pb2.SkippedStep:
    """One skipped step."""
    fields = {"step_id": "01_read", "reason": "good still", "source_event_id": "evt-1"}
    return task_commands_pb2.SkippedStep(**{**fields, **changes})


def metadata(**changes: Any) -> task_commands_pb2.UpdateTaskMetadataRequest:
    """UpdateTaskMetadata."""
    fields = {"command_id": "c-1", "task_id": TASK, "product_id": "p-2"}
    return task_commands_pb2.UpdateTaskMetadataRequest(**{**fields, **changes})


def attach(**changes: Any) -> task_commands_pb2.AttachExternalRefRequest:
    """AttachExternalRef."""
    ref = task_commands_pb2.ExternalRef(ref_type="ORDER_ID", ref_value="4711")
    fields = {"command_id": "c-1", "task_id": TASK, "external_ref": ref}
    return task_commands_pb2.AttachExternalRefRequest(**{**fields, **changes})


def revoke(**changes: Any) -> task_commands_pb2.RevokeExecutionRequest:
    """RevokeExecution."""
    return task_commands_pb2.RevokeExecutionRequest(**{"command_id": "c-1", "execution_id": EXECUTION, **changes})


def correct(**changes: Any) -> task_commands_pb2.CorrectTaskRequest:
    """CorrectTask."""
    fields = {"command_id": "c-1", "task_id": TASK, "lifecycle_status": common_pb2.SUCCEEDED, "reason": "seen"}
    return task_commands_pb2.CorrectTaskRequest(**{**fields, **changes})


def update(**changes: Any) -> workflow_pb2.UpdateWorkflowRequest:
    """UpdateWorkflow."""
    fields = {"command_id": "c-1", "workflow_id": format_workflow_id(WORKFLOW_ID), "title": "Import 2"}
    return workflow_pb2.UpdateWorkflowRequest(**{**fields, **changes})


def digest_of(request: Message, identity: Any = SERVICE) -> bytes:
    """The digest of a request's content."""
    return decoded(request, identity).digest


def decoded(request: Message, identity: Any = SERVICE) -> CommandHead | Any:
    """The head of a request's command; of UpdateWorkflow the command."""
    call = a_call()
    match request:
        case task_commands_pb2.RequestCancelRequest():
            return decode_commands.to_request_cancel(request, identity, call).head
        case task_commands_pb2.RerunTaskRequest():
            return decode_commands.to_rerun(request, identity, call).head
        case task_commands_pb2.UpdateTaskMetadataRequest():
            return decode_commands.to_update_metadata(request, identity, call).head
        case task_commands_pb2.AttachExternalRefRequest():
            return decode_commands.to_attach_external_ref(request, identity, call).head
        case task_commands_pb2.RevokeExecutionRequest():
            return decode_commands.to_revoke(request, TASK_ID, identity, call).head
        case task_commands_pb2.CorrectTaskRequest():
            return decode_commands.to_correct(request, identity, call).head
        case _:
            assert isinstance(request, workflow_pb2.UpdateWorkflowRequest)
            return decode_workflow.to_update_workflow(request, identity, call)


MAKERS = (cancel, rerun, metadata, attach, revoke, correct, update)


@pytest.mark.parametrize("make", MAKERS)
def test_r6_command_id_is_no_content(make: Any) -> None:
    assert digest_of(make()) == digest_of(make(command_id="c-2"))


@pytest.mark.parametrize(
    ("make", "version"),
    [(metadata, "expected_task_version"), (correct, "expected_task_version"), (update, "expected_workflow_version")],
)
def test_r6_expected_version_is_no_content_and_arrives(make: Any, version: str) -> None:
    assert digest_of(make()) == digest_of(make(**{version: 7}))
    assert decoded(make(**{version: 7})).expected_version == 7


@pytest.mark.parametrize("make", MAKERS)
def test_r6_written_form_of_the_id_is_no_content(make: Any) -> None:
    bare = {"task_id": TASK_ID, "execution_id": EXECUTION_ID, "workflow_id": WORKFLOW_ID}
    named = next(
        name for name in ("task_id", "execution_id", "workflow_id") if name in make().DESCRIPTOR.fields_by_name
    )
    assert digest_of(make()) == digest_of(make(**{named: bare[named].hex()}))


def test_r6_commands_of_the_same_content_are_not_the_same() -> None:
    assert digest_of(cancel()) != digest_of(rerun())
    assert digest_of(revoke(reason="why")) != digest_of(cancel())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (cancel(), cancel(reason="other")),
        (rerun(), rerun(task_attempt=1)),
        (rerun(), rerun(skipped_steps=[skip()])),
        (rerun(skipped_steps=[skip()]), rerun(skipped_steps=[skip(source_event_id="evt-2")])),
        (metadata(), metadata(product_id="p-3")),
        (metadata(product_id=""), metadata(title="New")),
        (metadata(priority=0), metadata(priority=1)),
        (attach(), attach(external_ref=task_commands_pb2.ExternalRef(ref_type="ORDER_ID", ref_value="4712"))),
        (revoke(), revoke(reason="leaked")),
        (correct(), correct(lifecycle_status=common_pb2.CANCELLED)),
        (correct(), correct(business_status="SUCCEEDED")),
        (update(), update(title="Import 3")),
        (update(), update(lifecycle_status=common_pb2.SUCCEEDED, reason="all is there")),
    ],
)
def test_r6_other_content_is_another_command(one: Message, other: Message) -> None:
    assert digest_of(one) != digest_of(other)


@pytest.mark.parametrize("make", [cancel, rerun])
def test_p4_person_commands_with_what_their_claims_say(make: Any) -> None:
    actor = decoded(make(), PERSON).actor
    assert (actor.tenant_id, actor.user_id, actor.projects, actor.roles) == (
        TENANT,
        OWNER,
        frozenset({"p-1"}),
        frozenset({"audit"}),
    )
    assert (actor.is_person, actor.is_admin, actor.name) == (True, False, f"user:{OWNER}")


@pytest.mark.parametrize(
    ("service", "is_admin"), [(SERVICE, False), (a_service("tool", Role.WORKER, Role.ADMIN), True)]
)
def test_e1_service_is_an_administrator_by_its_role(service: ServiceIdentity, is_admin: bool) -> None:
    actor = decoded(cancel(), service).actor
    assert (actor.is_admin, actor.producer_id) == (is_admin, service.producer_id)
    assert (actor.tenant_id, actor.authority_scope, actor.is_person) == (
        service.tenant_id,
        service.authority_scope,
        False,
    )


def test_n3_trace_of_the_call_arrives() -> None:
    head = decoded(cancel())
    assert (head.traceparent, head.trace_id) == (TRACEPARENT, bytes.fromhex("0af7651916cd43dd8448eb211c80319c"))


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (cancel(command_id=""), "commandId"),
        (cancel(command_id="x" * 65), "commandId"),
        (cancel(reason=REASON_TOO_LONG), "reason"),
        (cancel(reason="a\0b"), "reason"),
        (rerun(skipped_steps=[skip(step_id="")]), "skippedSteps[0].stepId"),
        (rerun(skipped_steps=[skip(), skip(step_id="02", reason=" ")]), "skippedSteps[1].reason"),
        (rerun(skipped_steps=[skip(source_event_id="")]), "skippedSteps[0].sourceEventId"),
        (rerun(skipped_steps=[skip(), skip()]), "skippedSteps"),
        (rerun(plan_id="x" * 65), "planId"),
        (metadata(title=" "), "title"),
        (metadata(title="x" * 201), "title"),
        (metadata(priority=101), "priority"),
        (metadata(priority=-101), "priority"),
        (metadata(product_id="x" * 65), "productId"),
        (task_commands_pb2.UpdateTaskMetadataRequest(command_id="c", task_id=TASK), "productId"),
        (task_commands_pb2.AttachExternalRefRequest(command_id="c", task_id=TASK), "externalRef"),
        (attach(external_ref=task_commands_pb2.ExternalRef(ref_value="4711")), "externalRef.refType"),
        (attach(external_ref=task_commands_pb2.ExternalRef(ref_type="ORDER_ID")), "externalRef.refValue"),
        (revoke(reason=REASON_TOO_LONG), "reason"),
        (correct(lifecycle_status=0), "lifecycleStatus"),
        (correct(lifecycle_status=common_pb2.RUNNING), "lifecycleStatus"),
        (correct(reason=" "), "reason"),
        (correct(error=ERROR), "error"),
        (correct(failed_step_id="02_parse"), "error"),
        (correct(lifecycle_status=common_pb2.FAILED, failed_step_id="a b"), "failedStepId"),
        (correct(business_status="x" * 65), "businessStatus"),
        (workflow_pb2.UpdateWorkflowRequest(command_id="c", workflow_id=update().workflow_id), "title"),
        (update(lifecycle_status=common_pb2.SUCCEEDED), "reason"),
        (update(lifecycle_status=common_pb2.PENDING, reason="why"), "lifecycleStatus"),
        (update(lifecycle_status=common_pb2.SUCCEEDED, reason="why", withdraw_ruling=True), "withdrawRuling"),
    ],
)
def test_id4_invalid_field_is_named(request_: Message, field: str) -> None:
    with pytest.raises(RefusedError) as caught:
        decoded(request_)
    assert (caught.value.reason, [violation.field for violation in caught.value.violations]) == (
        Reason.INVALID_ARGUMENT,
        [field],
    )


@pytest.mark.parametrize("make", [cancel, rerun, metadata, attach, correct])
def test_id4_id_that_cannot_exist_is_not_found(make: Any) -> None:
    with pytest.raises(RefusedError) as caught:
        decoded(make(task_id="task_odd"))
    assert caught.value.reason is Reason.TASK_NOT_FOUND


@pytest.mark.parametrize("lifecycle", sorted(TERMINAL))
def test_l3_every_terminal_state_can_be_corrected_to(lifecycle: Lifecycle) -> None:
    number = common_pb2.LifecycleStatus.Value(lifecycle.value)
    command = decode_commands.to_correct(correct(lifecycle_status=number), SERVICE, a_call())
    assert command.lifecycle is lifecycle


# What a task's creation fixes about its later steps.


def spec(**changes: Any) -> register_service_pb2.TaskSpec:
    """One task."""
    return a_task(**changes)


POLICY = register_service_pb2.DynamicRegistrationPolicy
FIXED, MINIMAL = common_pb2.FIXED, common_pb2.MINIMAL


def test_r2_mixed_is_what_a_task_is_unless_told() -> None:
    assert decode_terms.registration_terms("task", spec()).mode is RegistrationMode.MIXED


def test_h8_run_time_of_a_task_is_no_limit_unless_told() -> None:
    assert decode_terms.registration_terms("task", spec()).max_run_seconds == 0
    assert decode_terms.registration_terms("task", spec(max_run_seconds=90)).max_run_seconds == 90


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"registration_mode": FIXED, "known_steps": [a_step()]}, "task.registrationMode"),
        ({"registration_mode": FIXED, "task_type": "DOC", "known_steps": []}, "task.registrationMode"),
        (
            {"registration_mode": FIXED, "task_type": "DOC", "dynamic_registration": POLICY()},
            "task.dynamicRegistration",
        ),
        ({"registration_mode": MINIMAL}, "task.knownSteps"),
        ({"registration_mode": 99}, "task.registrationMode"),
        (
            {"dynamic_registration": POLICY(allowed_child_operations=["a b"])},
            "task.dynamicRegistration.allowedChildOperations[0]",
        ),
        (
            {"dynamic_registration": POLICY(allowed_parent_operations=["A.*", "*"])},
            "task.dynamicRegistration.allowedParentOperations[1]",
        ),
        ({"dynamic_registration": POLICY(max_depth=17)}, "task.dynamicRegistration.maxDepth"),
        ({"dynamic_registration": POLICY(max_dynamic_steps=10_001)}, "task.dynamicRegistration.maxDynamicSteps"),
        (
            {"dynamic_registration": POLICY(max_parallel_executions=1_001)},
            "task.dynamicRegistration.maxParallelExecutions",
        ),
        (
            {"dynamic_registration": POLICY(max_registrations_per_minute=601)},
            "task.dynamicRegistration.maxRegistrationsPerMinute",
        ),
        ({"billing_account_id": "x" * 65}, "task.billingAccountId"),
    ],
)
def test_r2_terms_that_contradict_themselves_are_refused(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(RefusedError) as caught:
        decode_terms.registration_terms("task", spec(**changes))
    assert [violation.field for violation in caught.value.violations] == [field]


def test_r5_policy_arrives_whole() -> None:
    policy = POLICY(
        allowed_parent_operations=["AGENT.RUN"],
        allowed_child_operations=["SEARCH.*", "TOOL.RUN"],
        max_dynamic_steps=3,
        max_depth=2,
        max_parallel_executions=4,
        max_registrations_per_minute=5,
    )
    dynamic = decode_terms.registration_terms("task", spec(dynamic_registration=policy)).dynamic
    assert (dynamic.parent_operations, dynamic.child_operations) == (("AGENT.RUN",), ("SEARCH.*", "TOOL.RUN"))
    assert (dynamic.max_steps, dynamic.max_depth, dynamic.max_parallel, dynamic.max_per_minute) == (3, 2, 4, 5)
