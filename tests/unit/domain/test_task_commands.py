"""Commands on a task that exists: their frame, and what most of them leave behind (R-6, R-7, R-8, R-11, L-1)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import orjson
import pytest

from taskstatus.domain.classification import ClassifyTask
from taskstatus.domain.commands import Actor
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import TaskId
from taskstatus.domain.lifecycle import TERMINAL, Lifecycle
from taskstatus.domain.reasons import Reason
from taskstatus.domain.state import ExternalRef, Grant
from taskstatus.domain.task_commands import (
    AttachExternalRef,
    CommandHead,
    CommandOutcome,
    CorrectTask,
    RequestCancel,
    RerunTask,
    RevokeExecution,
    UpdateMetadata,
)
from tests.unit.factories import (
    EXECUTION_ID,
    EXECUTOR,
    OWNER,
    TASK_ID,
    a_head,
    a_person,
    a_running_step,
    a_step,
    a_task_in,
    an_actor,
    an_id,
    step_event,
    task_event,
)
from tests.unit.service_kit import Kit, contents, drive, refusal

RUNNING, FAILED, SUCCEEDED = Lifecycle.RUNNING, Lifecycle.FAILED, Lifecycle.SUCCEEDED
REF = ExternalRef("ORDER_ID", "4711")

Run = Callable[[Kit, CommandHead], Coroutine[Any, Any, CommandOutcome]]

COMMANDS: dict[str, tuple[Lifecycle, Run]] = {
    "cancel": (RUNNING, lambda kit, head: kit.commands.request_cancel(RequestCancel(head, "no longer needed"))),
    "rerun": (FAILED, lambda kit, head: kit.commands.rerun(RerunTask(head, 0, "input mended", ()))),
    "metadata": (
        RUNNING,
        lambda kit, head: kit.commands.update_metadata(UpdateMetadata(head, "p-2", None, None, "moved")),
    ),
    "external ref": (RUNNING, lambda kit, head: kit.commands.attach_external_ref(AttachExternalRef(head, REF))),
    "revoke": (RUNNING, lambda kit, head: kit.commands.revoke(RevokeExecution(head, EXECUTION_ID, "leaked"))),
    "correct": (
        FAILED,
        lambda kit, head: kit.commands.correct(CorrectTask(head, SUCCEEDED, "", None, "", "the result is there")),
    ),
    "classify": (
        RUNNING,
        lambda kit, head: kit.classification.classify(ClassifyTask(head, "DYNAMIC_RESEARCH", 0, 0, None)),
    ),
}
"""Each command with a state in which it is carried out."""

EVENT_OF: dict[str, EventType] = {
    "cancel": EventType.TASK_CANCEL_REQUESTED,
    "rerun": EventType.TASK_RERUN,
    "metadata": EventType.TASK_METADATA_UPDATED,
    "external ref": EventType.TASK_METADATA_UPDATED,
    "revoke": EventType.EXECUTION_REVOKED,
    "correct": EventType.TASK_CORRECTED,
    "classify": EventType.TASK_CLASSIFIED,
}


@pytest.fixture(params=COMMANDS)
def name(request: pytest.FixtureRequest) -> str:
    """Each command in turn."""
    return str(request.param)


def prepared(kit: Kit, name: str) -> Run:
    """The command, with the task that it needs."""
    lifecycle, run = COMMANDS[name]
    kit.put(a_task_in(lifecycle, version=7, row_revision=9), a_running_step())
    return run


def test_r6_command_makes_one_version_with_its_id_as_event_id(kit: Kit, name: str) -> None:
    run = prepared(kit, name)

    outcome = drive(run(kit, a_head("cmd-77")))

    event = kit.tables.events[(TASK_ID, 8)]
    assert (event.event_id, event.event_type, event.actor) == ("cmd-77", EVENT_OF[name], "service:coordinator")
    assert (outcome.result.task_version, outcome.result.changed, outcome.result.duplicate) == (8, True, False)
    assert kit.only_task().version == 8
    assert kit.only_task().row_revision == 10
    assert {row.aggregate_version for row in kit.tables.outbox.values() if row.payload} == {8}


def test_r6_command_sent_again_gets_its_first_result_whatever_became_of_the_task(kit: Kit, name: str) -> None:
    run = prepared(kit, name)
    first = drive(run(kit, a_head("cmd-77", expected_version=7)))
    drive(kit.commands.update_metadata(UpdateMetadata(a_head("cmd-78", "other"), "p-9", None, None, "")))
    written = contents(kit)

    again = drive(run(kit, a_head("cmd-77", expected_version=7)))

    assert again.result == replace(first.result, duplicate=True)
    assert contents(kit) == written


def test_r6_first_result_is_for_those_who_may_give_the_command(kit: Kit, name: str) -> None:
    run = prepared(kit, name)
    drive(run(kit, a_head("cmd-77")))
    stranger = run(kit, a_head("cmd-77", actor=an_actor("somebody")))
    if name == "external ref":
        assert drive(stranger).result.duplicate
    else:
        assert refusal(kit, stranger).reason is Reason.PERMISSION_DENIED


def test_r6_command_id_with_other_content_conflicts(kit: Kit, name: str) -> None:
    run = prepared(kit, name)
    drive(run(kit, a_head("cmd-77")))
    assert refusal(kit, run(kit, a_head("cmd-77", "other"))).reason is Reason.IDEMPOTENCY_CONFLICT


@pytest.mark.parametrize("expected", [6, 8])
def test_r8_stale_if_match_is_told_the_version(kit: Kit, name: str, expected: int) -> None:
    run = prepared(kit, name)
    refused = refusal(kit, run(kit, a_head(expected_version=expected)))
    assert (refused.reason, refused.metadata["taskVersion"]) == (Reason.VERSION_MISMATCH, "7")


@pytest.mark.parametrize("changes", [{"tenant_id": "t-02"}, {"authority_scope": "billing"}])
def test_id1_task_of_another_tenant_or_scope_does_not_exist(kit: Kit, name: str, changes: dict[str, str]) -> None:
    run = prepared(kit, name)
    head = a_head(actor=an_actor(is_admin=True, **changes))
    assert refusal(kit, run(kit, head)).reason is Reason.TASK_NOT_FOUND


def test_r6_unknown_task_is_not_found(kit: Kit, name: str) -> None:
    head = a_head(task_id=TaskId(an_id(99)))
    assert refusal(kit, COMMANDS[name][1](kit, head)).reason is Reason.TASK_NOT_FOUND


def test_e1_service_that_is_not_the_recorded_coordinator_is_refused(kit: Kit, name: str) -> None:
    run = prepared(kit, name)
    head = a_head(actor=an_actor("somebody"))
    if name == "external ref":
        assert drive(run(kit, head)).result.accepted
    else:
        assert refusal(kit, run(kit, head)).reason is Reason.PERMISSION_DENIED


def test_r6_lost_reply_of_the_commit_is_settled_as_the_first_result(kit: Kit, name: str) -> None:
    run = prepared(kit, name)
    kit.store.lose_next_commit_reply(committed=True)

    outcome = drive(run(kit, a_head()))

    assert (outcome.result.duplicate, outcome.result.task_version) == (False, 8)
    assert [key for key in kit.tables.events if key[0] == TASK_ID] == [(TASK_ID, 8)]


# People.

BOB = a_person("u-2", projects=frozenset({"p-1"}), roles=frozenset({"support"}))


def grant(kit: Kit, *grants: Grant) -> None:
    """Give grants on the task."""
    for given in grants:
        kit.tables.grants[(TASK_ID, given.principal_type, given.principal_id)] = given


@pytest.mark.parametrize("name", ["cancel", "rerun"])
@pytest.mark.parametrize(
    ("actor", "grants"),
    [
        (a_person(OWNER), ()),
        (BOB, (Grant("USER", "u-2", "OPERATE"),)),
        (BOB, (Grant("PROJECT", "p-1", "ADMIN"),)),
        (BOB, (Grant("ROLE", "support", "OPERATE"), Grant("USER", "u-2", "VIEW"))),
        (BOB, (Grant("ROLE", "support", "VIEW"), Grant("USER", "u-2", "OPERATE"))),
    ],
)
def test_r7_person_with_operate_may(kit: Kit, name: str, actor: Actor, grants: tuple[Grant, ...]) -> None:
    run = prepared(kit, name)
    grant(kit, *grants)

    drive(run(kit, a_head(actor=actor)))

    event = kit.tables.events[(TASK_ID, 8)]
    assert (event.actor, event.producer_id) == (f"user:{actor.user_id}", "")


@pytest.mark.parametrize("name", ["cancel", "rerun"])
@pytest.mark.parametrize(
    ("grants", "reason"),
    [
        ((Grant("USER", "u-2", "VIEW"),), Reason.PERMISSION_DENIED),
        ((), Reason.TASK_NOT_FOUND),
        ((Grant("USER", "u-3", "ADMIN"), Grant("PROJECT", "p-9", "ADMIN")), Reason.TASK_NOT_FOUND),
    ],
)
def test_p4_person_without_operate_may_not(kit: Kit, name: str, grants: tuple[Grant, ...], reason: Reason) -> None:
    run = prepared(kit, name)
    grant(kit, *grants)
    assert refusal(kit, run(kit, a_head(actor=BOB))).reason is reason


def test_p4_owner_of_the_same_name_in_another_tenant_is_nobody(kit: Kit) -> None:
    run = prepared(kit, "cancel")
    assert refusal(kit, run(kit, a_head(actor=a_person(OWNER, tenant_id="t-02")))).reason is Reason.TASK_NOT_FOUND


# Cancellation.


@pytest.mark.parametrize("lifecycle", [Lifecycle.PENDING, RUNNING])
def test_l1_cancel_request_is_a_request(kit: Kit, lifecycle: Lifecycle) -> None:
    kit.put(a_task_in(lifecycle), a_running_step())

    result = drive(kit.commands.request_cancel(RequestCancel(a_head(), "no longer needed"))).result

    task = kit.only_task()
    assert (task.lifecycle, task.business_status, task.cancel_requested) == (Lifecycle.CANCELLING, "CANCELLING", True)
    assert (task.finished_at, kit.step().lifecycle) == (None, RUNNING)
    assert (result.cancel_requested, kit.tables.events[(TASK_ID, 2)].reason) == (True, "no longer needed")


def test_l1_cancelling_is_seen_in_reports_and_never_succeeds(kit: Kit) -> None:
    step = a_running_step()
    kit.put(a_task_in(RUNNING), step)
    drive(kit.commands.request_cancel(RequestCancel(a_head(), "")))

    assert kit.result(step_event(EventType.STEP_COMPLETED, 2, of=step)).cancel_requested
    assert kit.reason(task_event(EventType.TASK_COMPLETED)) is Reason.TRANSITION_NOT_ALLOWED
    assert kit.result(task_event(EventType.TASK_CANCELLED, 2)).lifecycle is Lifecycle.CANCELLED


def test_l2_cancel_asked_again_changes_nothing(kit: Kit) -> None:
    kit.put(a_task_in(RUNNING), a_running_step())
    drive(kit.commands.request_cancel(RequestCancel(a_head("cmd-1"), "")))
    written = contents(kit)

    result = drive(kit.commands.request_cancel(RequestCancel(a_head("cmd-2"), ""))).result

    assert (result.accepted, result.changed, result.task_version) == (True, False, 2)
    assert contents(kit) == written


@pytest.mark.parametrize("lifecycle", sorted(TERMINAL))
def test_l1_ended_task_is_not_cancellable(kit: Kit, lifecycle: Lifecycle) -> None:
    kit.put(a_task_in(lifecycle))
    refused = refusal(kit, kit.commands.request_cancel(RequestCancel(a_head(), "")))
    assert refused.reason is Reason.NOT_CANCELLABLE


def test_e1_policy_executor_may_ask_for_cancellation(kit: Kit) -> None:
    kit.put(a_task_in(RUNNING), a_running_step())
    head = a_head(actor=an_actor(EXECUTOR))
    assert drive(kit.commands.request_cancel(RequestCancel(head, ""))).result.cancel_requested


# Metadata and external references.


def test_r8_metadata_changes_only_what_is_named_and_is_audited(kit: Kit) -> None:
    kit.put(a_task_in(SUCCEEDED, product_id="p-1", priority=3), a_step())

    drive(kit.commands.update_metadata(UpdateMetadata(a_head(), "p-2", "Report 2", None, "renamed")))

    envelope = kit.only_task().envelope
    (audit,) = kit.tables.audits.values()
    assert (envelope.product_id, envelope.title, envelope.priority) == ("p-2", "Report 2", 3)
    assert orjson.loads(audit.old_value) == {"productId": "p-1", "title": "Annual report"}
    assert orjson.loads(audit.new_value) == {"productId": "p-2", "title": "Report 2"}
    assert b"Report 2" in next(row.payload for row in kit.tables.outbox.values() if row.payload)


def test_r8_priority_changes_alone(kit: Kit) -> None:
    kit.put(a_task_in(RUNNING, product_id="p-1", priority=3), a_step())
    drive(kit.commands.update_metadata(UpdateMetadata(a_head(), None, None, -7, "")))
    envelope = kit.only_task().envelope
    assert (envelope.product_id, envelope.title, envelope.priority) == ("p-1", "Annual report", -7)


def test_r8_label_can_be_taken_away(kit: Kit) -> None:
    kit.put(a_task_in(RUNNING, product_id="p-1"), a_step())
    drive(kit.commands.update_metadata(UpdateMetadata(a_head(), "", None, None, "")))
    assert kit.only_task().envelope.product_id == ""


def test_l2_metadata_that_is_so_already_changes_nothing(kit: Kit) -> None:
    kit.put(a_task_in(RUNNING, product_id="p-1"), a_step())
    result = drive(kit.commands.update_metadata(UpdateMetadata(a_head(), "p-1", None, 0, ""))).result
    assert (result.changed, kit.tables.events, kit.tables.audits) == (False, {}, {})


def test_id5_number_names_one_task_for_good(kit: Kit) -> None:
    kit.put(a_task_in(RUNNING), a_step())
    other = TaskId(an_id(50))
    kit.put(a_task_in(RUNNING, task_id=other, client_task_key="task-2"))
    drive(kit.commands.attach_external_ref(AttachExternalRef(a_head("cmd-1"), REF)))

    again = drive(kit.commands.attach_external_ref(AttachExternalRef(a_head("cmd-2"), REF))).result
    taken = refusal(kit, kit.commands.attach_external_ref(AttachExternalRef(a_head("cmd-3", task_id=other), REF)))

    assert (again.accepted, again.changed) == (True, False)
    assert taken.reason is Reason.IDEMPOTENCY_CONFLICT
    assert kit.tables.refs_of(TASK_ID) == (REF,)


def test_id5_numbers_of_one_task_are_bounded(kit: Kit) -> None:
    kit.put(a_task_in(RUNNING), a_step())
    for number in range(20):
        command = AttachExternalRef(a_head(f"cmd-{number}"), ExternalRef("ORDER_ID", str(number)))
        drive(kit.commands.attach_external_ref(command))
    command = AttachExternalRef(a_head("cmd-20"), ExternalRef("ORDER_ID", "20"))
    assert refusal(kit, kit.commands.attach_external_ref(command)).reason is Reason.INVALID_ARGUMENT


# Revocation.


def test_r11_revocation_ends_the_credentials_at_once_and_not_the_execution(kit: Kit) -> None:
    step = a_running_step()
    kit.put(a_task_in(RUNNING), step)

    result = drive(kit.commands.revoke(RevokeExecution(a_head(), EXECUTION_ID, "leaked"))).result

    assert (result.generation, kit.step().generation, kit.step().lifecycle) == (2, 2, RUNNING)
    assert kit.reason(step_event(EventType.STEP_PROGRESS, 2, of=step)) is Reason.TOKEN_REVOKED


def test_r11_each_revocation_counts(kit: Kit) -> None:
    kit.put(a_task_in(RUNNING), a_running_step())
    drive(kit.commands.revoke(RevokeExecution(a_head("cmd-1"), EXECUTION_ID, "")))
    second = drive(kit.commands.revoke(RevokeExecution(a_head("cmd-2"), EXECUTION_ID, ""))).result
    first_again = drive(kit.commands.revoke(RevokeExecution(a_head("cmd-1"), EXECUTION_ID, ""))).result
    assert (second.generation, first_again.generation, kit.step().generation) == (3, 2, 3)


def test_e6_revocation_is_a_version_of_its_step(kit: Kit) -> None:
    kit.put(a_task_in(RUNNING), a_running_step(version=5))
    drive(kit.commands.revoke(RevokeExecution(a_head(), EXECUTION_ID, "")))
    assert (kit.step().version, kit.tables.events[(TASK_ID, 2)].step_version) == (6, 6)


@pytest.mark.parametrize(
    ("task", "changes", "reason"),
    [
        ({}, {"superseded": True}, Reason.STALE_ATTEMPT),
        ({"attempt": 2}, {}, Reason.STALE_ATTEMPT),
        ({}, {"lifecycle": SUCCEEDED}, Reason.TERMINAL),
        ({"lifecycle": FAILED}, {}, Reason.TERMINAL),
    ],
)
def test_r11_execution_that_is_no_longer_current_has_nothing_to_revoke(
    kit: Kit, task: dict[str, Any], changes: dict[str, Any], reason: Reason
) -> None:
    kit.put(a_task_in(**{"lifecycle": RUNNING, **task}), a_running_step(**changes))
    assert refusal(kit, kit.commands.revoke(RevokeExecution(a_head(), EXECUTION_ID, ""))).reason is reason
