"""Creating workflows and tasks: one transaction, idempotent keys, grants, the workflow's version (R-1, ID-1, ID-3)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taskstatus.application.register import CreatedTask, CreatedWorkflow
from taskstatus.domain.commands import CreateTask, CreateWorkflow
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import WorkflowId, bucket_of_id, make_id
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.reasons import Reason
from taskstatus.domain.records import Audience, Projection
from taskstatus.domain.state import FailurePolicy, Grant
from tests.unit.factories import (
    BUCKET,
    COORDINATOR,
    COORDINATOR_CALLER,
    OWNER,
    a_digest,
    a_step_spec,
    a_task_command,
    a_task_spec,
    a_workflow_command,
    an_operation,
)
from tests.unit.service_kit import Kit, drive

VIEW_99 = Grant("USER", "u-99", "VIEW")
ADMIN_99 = Grant("USER", "u-99", "ADMIN")
PROJECT = Grant("PROJECT", "p-7", "VIEW")


def create(kit: Kit, command: CreateWorkflow) -> CreatedWorkflow:
    """The workflow."""
    return drive(kit.registration.create_workflow(command))


def add(kit: Kit, command: CreateTask) -> CreatedTask:
    """The task."""
    return drive(kit.registration.create_task(command))


def refusal(kit: Kit, command: CreateWorkflow | CreateTask) -> RefusedError:
    """Why a command is refused."""
    with pytest.raises(RefusedError) as caught:
        drive(
            kit.registration.create_workflow(command)
            if isinstance(command, CreateWorkflow)
            else kit.registration.create_task(command)
        )
    return caught.value


def test_r1_everything_of_a_workflow_is_written_at_once(kit: Kit) -> None:
    spec = a_task_spec(steps=(a_step_spec("01_a", weight=3), a_step_spec("02_b", depends_on=("01_a",))))

    created = create(kit, a_workflow_command(spec, a_task_spec(key="task-2")))

    workflow, (first, second) = created.workflow, created.tasks
    assert created.created
    assert (workflow.version, workflow.task_count, workflow.lifecycle) == (1, 2, Lifecycle.PENDING)
    assert (first.version, first.weight_total, first.open_steps, second.open_steps) == (1, 4, 2, 0)
    assert [step.definition.order for step in kit.tables.steps.values()] == [1, 2]
    assert {step.terms for step in kit.tables.steps.values()} == {None}
    assert [event.event_type for event in kit.tables.events.values()] == [EventType.TASK_CREATED] * 2
    assert len(kit.tables.runs) == 2
    assert sorted(row.projection for row in kit.tables.outbox.values()) == [
        Projection.TASK_DETAIL,
        Projection.TASK_DETAIL,
        Projection.USER_SUMMARY,
        Projection.USER_SUMMARY,
        Projection.WORKFLOW_SUMMARY,
        Projection.WORKFLOW_SUMMARY,
    ]
    assert kit.wake_up.hints == 1


def test_r1_zero_initial_tasks_are_fine(kit: Kit) -> None:
    created = create(kit, a_workflow_command(workflow_type=""))
    assert (created.tasks, created.workflow.task_count) == ((), 0)


def test_s1_task_takes_its_workflows_owner_and_bucket(kit: Kit) -> None:
    created = create(kit, a_workflow_command(a_task_spec()))
    later = add(kit, a_task_command(created.workflow.workflow_id, a_task_spec(key="task-2"))).task

    for task in (*created.tasks, later):
        assert (task.envelope.owner_id, task.envelope.bucket) == (OWNER, BUCKET)
        assert bucket_of_id(task.envelope.task_id) == bucket_of_id(created.workflow.workflow_id) == BUCKET


def test_id1_tenant_and_scope_are_the_callers(kit: Kit) -> None:
    task = create(kit, a_workflow_command(a_task_spec())).tasks[0]
    assert (task.envelope.tenant_id, task.envelope.authority_scope) == ("t-01", "documents")


def test_id3_same_workflow_again_is_the_same_one(kit: Kit) -> None:
    command = a_workflow_command(a_task_spec(), a_task_spec(key="task-2"))
    first = create(kit, command)

    again = create(kit, replace(command, command_id="another"))

    assert (again.workflow, again.tasks, again.created) == (first.workflow, first.tasks, False)
    assert len(kit.tables.workflows) == 1


def test_id3_same_workflow_key_with_other_content_is_a_conflict(kit: Kit) -> None:
    create(kit, a_workflow_command())
    refused = refusal(kit, a_workflow_command(digest=a_digest("other")))
    assert refused.reason is Reason.IDEMPOTENCY_CONFLICT


@pytest.mark.parametrize(
    "caller", [replace(COORDINATOR_CALLER, tenant_id="t-02"), replace(COORDINATOR_CALLER, authority_scope="other")]
)
def test_id3_workflow_key_is_unique_within_tenant_and_scope(kit: Kit, caller: object) -> None:
    create(kit, a_workflow_command())
    assert create(kit, a_workflow_command(caller=caller, digest=a_digest("other"))).created


def test_id3_workflow_whose_commit_reply_was_lost_is_created(kit: Kit) -> None:
    kit.store.lose_next_commit_reply(committed=True)
    assert create(kit, a_workflow_command(a_task_spec())).created


def test_id3_same_task_again_is_the_same_one(kit: Kit) -> None:
    workflow = create(kit, a_workflow_command()).workflow
    command = a_task_command(workflow.workflow_id, a_task_spec())
    first = add(kit, command)

    again = add(kit, command)

    assert (again.task, again.created) == (first.task, False)
    assert kit.tables.workflows[workflow.workflow_id].version == 2


def test_id3_same_task_key_with_other_content_is_a_conflict(kit: Kit) -> None:
    workflow = create(kit, a_workflow_command(a_task_spec())).workflow
    other = a_task_spec(digest=a_digest("other"))
    assert refusal(kit, a_task_command(workflow.workflow_id, other)).reason is Reason.IDEMPOTENCY_CONFLICT


def test_id3_task_whose_commit_reply_was_lost_is_created(kit: Kit) -> None:
    workflow = create(kit, a_workflow_command()).workflow
    kit.store.lose_next_commit_reply(committed=True)
    assert add(kit, a_task_command(workflow.workflow_id, a_task_spec())).created


def test_id1_other_tenants_workflow_is_as_unknown(kit: Kit) -> None:
    workflow = create(kit, a_workflow_command()).workflow
    stranger = replace(COORDINATOR_CALLER, tenant_id="t-02")

    foreign = refusal(kit, a_task_command(workflow.workflow_id, a_task_spec(), caller=stranger))
    unknown = refusal(kit, a_task_command(WorkflowId(make_id(1, 2, 3)), a_task_spec()))

    assert foreign.reason is Reason.WORKFLOW_NOT_FOUND
    assert str(foreign) == str(unknown)


def test_l7_workflow_version_rises_with_its_members_only(kit: Kit) -> None:
    workflow = create(kit, a_workflow_command(a_task_spec())).workflow

    added = add(kit, a_task_command(workflow.workflow_id, a_task_spec(key="task-2")))

    assert (added.workflow.version, added.workflow.task_count) == (2, 2)
    assert (added.task.version, kit.tables.tasks[kit_first(kit)].version) == (1, 1)
    kinds = [event.event_type for event in kit.tables.workflow_events.values()]
    assert kinds == [EventType.WORKFLOW_CREATED, EventType.TASK_CREATED]


def kit_first(kit: Kit) -> object:
    """The id of the task created first."""
    return next(iter(kit.tables.tasks))


def test_e1_recorded_coordinator_is_the_named_one_else_the_workflows_else_the_creator(kit: Kit) -> None:
    tasks = create(kit, a_workflow_command(a_task_spec(coordinator_producer="own"), a_task_spec(key="task-2"))).tasks
    named = create(kit, a_workflow_command(a_task_spec(), client_workflow_key="k2", coordinator_producer="boss")).tasks

    assert [task.envelope.coordinator_producer for task in (*tasks, *named)] == ["own", COORDINATOR, "boss"]


def test_p4_workflow_grants_become_the_tasks_rows(kit: Kit) -> None:
    grants = (VIEW_99, PROJECT)
    task = create(kit, a_workflow_command(a_task_spec(grants=(Grant("ROLE", "audit", "VIEW"),)), grants=grants)).tasks[
        0
    ]

    assert set(kit.tables.grants.values()) == {VIEW_99, PROJECT, Grant("ROLE", "audit", "VIEW")}
    assert task.shared


def test_p4_sensitive_task_has_its_own_grants_only(kit: Kit) -> None:
    spec = a_task_spec(grants=(PROJECT,), sensitive=True)
    task = create(kit, a_workflow_command(spec, grants=(ADMIN_99,))).tasks[0]

    assert list(kit.tables.grants.values()) == [PROJECT]
    assert not task.shared


def test_p4_task_added_later_has_the_workflows_grants_too(kit: Kit) -> None:
    workflow = create(kit, a_workflow_command(grants=(VIEW_99,))).workflow
    assert add(kit, a_task_command(workflow.workflow_id, a_task_spec())).task.shared
    assert list(kit.tables.grants.values()) == [VIEW_99]


def test_p4_task_grant_adds_to_the_workflows_and_never_narrows_it(kit: Kit) -> None:
    create(kit, a_workflow_command(a_task_spec(grants=(VIEW_99,)), grants=(ADMIN_99,)))
    assert list(kit.tables.grants.values()) == [ADMIN_99]


def test_p4_stronger_task_grant_wins_over_the_workflows(kit: Kit) -> None:
    create(kit, a_workflow_command(a_task_spec(grants=(ADMIN_99,)), grants=(VIEW_99,)))
    assert list(kit.tables.grants.values()) == [ADMIN_99]


@pytest.mark.parametrize(
    ("grants", "audience"),
    [((), Audience.OWNER), ((Grant("USER", OWNER, "VIEW"),), Audience.OWNER), ((VIEW_99,), Audience.USERS)],
)
def test_p4_summary_reaches_the_owner_and_user_grants(kit: Kit, grants: tuple[Grant, ...], audience: Audience) -> None:
    create(kit, a_workflow_command(a_task_spec(grants=grants)))
    summaries = [row for row in kit.tables.outbox.values() if row.projection is Projection.USER_SUMMARY]
    assert [row.audience for row in summaries] == [audience]


def test_p1_owner_whose_channel_would_be_too_long_is_refused(kit: Kit) -> None:
    refused = refusal(
        kit, a_workflow_command(owner_id="%" * 64, caller=replace(COORDINATOR_CALLER, tenant_id="|" * 64))
    )
    assert refused.reason is Reason.INVALID_ARGUMENT
    assert [violation.field for violation in refused.violations] == ["ownerId"]


def test_p1_grantee_whose_channel_would_be_too_long_is_refused(kit: Kit) -> None:
    caller = replace(COORDINATOR_CALLER, tenant_id="|" * 64)
    command = a_workflow_command(grants=(Grant("USER", "%" * 64, "VIEW"),), caller=caller)
    assert refusal(kit, command).reason is Reason.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("named", "published", "expected"),
    [
        (None, None, FailurePolicy.FAIL_TASK),
        (None, FailurePolicy.WAIT_FOR_USER, FailurePolicy.WAIT_FOR_USER),
        (FailurePolicy.CONTINUE_WITH_WARNING, FailurePolicy.WAIT_FOR_USER, FailurePolicy.CONTINUE_WITH_WARNING),
    ],
)
def test_l5_step_without_a_policy_takes_its_operations(
    kit: Kit, named: FailurePolicy | None, published: FailurePolicy | None, expected: FailurePolicy
) -> None:
    kit.definitions.add(an_operation(failure_policy=published))
    first = a_task_spec(steps=(a_step_spec(failure_policy=named),))
    workflow = create(kit, a_workflow_command(first)).workflow
    add(kit, a_task_command(workflow.workflow_id, replace(first, client_task_key="task-2")))

    assert [step.definition.failure_policy for step in kit.tables.steps.values()] == [expected] * 2
