"""Commands on a task that exists: their frame, and what each leaves behind (R-6, R-7, R-8, R-11, L-1, L-3)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import orjson
import pytest

from taskstatus.domain.classification import ClassifyTask
from taskstatus.domain.commands import Actor
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import TaskId
from taskstatus.domain.lifecycle import TERMINAL, Lifecycle
from taskstatus.domain.reasons import Reason
from taskstatus.domain.state import ExternalRef, Grant, TaskFailure
from taskstatus.domain.task_commands import (
    AttachExternalRef,
    CommandHead,
    CommandOutcome,
    CorrectTask,
    RequestCancel,
    RerunTask,
    RevokeExecution,
    SkippedStep,
    UpdateMetadata,
)
from tests.unit.factories import (
    EXECUTION_ID,
    EXECUTOR,
    OWNER,
    REVIEWED,
    TASK_ID,
    a_definition,
    a_failure,
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
from tests.unit.service_kit import Kit, drive

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


def contents(kit: Kit) -> Any:
    """Everything that a refused command must leave alone."""
    tables = kit.tables
    parts = (tables.tasks, tables.steps, tables.runs, tables.events, tables.dedups, tables.outbox, tables.audits)
    return [dict(part) for part in parts]


def refusal(kit: Kit, call: Coroutine[Any, Any, CommandOutcome]) -> RefusedError:
    """Why it is refused; checks that nothing was written."""
    before = contents(kit)
    with pytest.raises(RefusedError) as caught:
        drive(call)
    assert contents(kit) == before
    return caught.value


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


# Correction.


def correction(lifecycle: Lifecycle, head: CommandHead | None = None, **changes: Any) -> CorrectTask:
    """An administrator's correction."""
    head = head or a_head(actor=an_actor("admin-tool", is_admin=True))
    return replace(CorrectTask(head, lifecycle, "", None, "", "checked by hand"), **changes)


def test_l3_correction_keeps_old_and_new_value_with_actor_and_reason(kit: Kit) -> None:
    failure = TaskFailure("PARSE_FAILED", "Unreadable.", "INPUT", False, "02_parse")
    kit.put(a_task_in(FAILED, failure=failure, cancel_requested=False), a_step())

    drive(kit.commands.correct(correction(SUCCEEDED)))

    task, event = kit.only_task(), kit.tables.events[(TASK_ID, 2)]
    (audit,) = kit.tables.audits.values()
    assert (task.lifecycle, task.business_status, task.failure) == (SUCCEEDED, "SUCCEEDED", None)
    shown = orjson.loads(event.shown_data)
    assert shown["old"]["failureCode"] == "PARSE_FAILED"
    assert shown["new"]["lifecycleStatus"] == "SUCCEEDED"
    assert (orjson.loads(audit.old_value), orjson.loads(audit.new_value)) == (shown["old"], shown["new"])
    assert (audit.actor, audit.reason, audit.action) == (
        "service:admin-tool",
        "checked by hand",
        EventType.TASK_CORRECTED,
    )
    outcome = kit.tables.runs[(TASK_ID, 1)].view().outcome
    assert outcome is not None
    assert outcome.lifecycle is SUCCEEDED


def test_l3_correction_to_failed_says_what_failed(kit: Kit) -> None:
    kit.put(a_task_in(SUCCEEDED), a_step())
    drive(kit.commands.correct(correction(FAILED, error=a_failure(), failed_step_id="02_parse")))
    failure = kit.only_task().failure
    assert failure is not None
    assert (failure.code, failure.failed_step_id) == ("PARSE_FAILED", "02_parse")


@pytest.mark.parametrize("lifecycle", [Lifecycle.PENDING, RUNNING, Lifecycle.CANCELLING])
def test_l3_only_a_terminal_state_is_corrected(kit: Kit, lifecycle: Lifecycle) -> None:
    kit.put(a_task_in(lifecycle), a_running_step())
    assert refusal(kit, kit.commands.correct(correction(FAILED))).reason is Reason.TRANSITION_NOT_ALLOWED


def test_l2_correction_to_what_it_is_changes_nothing(kit: Kit) -> None:
    kit.put(a_task_in(SUCCEEDED), a_step())
    assert not drive(kit.commands.correct(correction(SUCCEEDED))).result.changed
    assert kit.tables.audits == {}


def test_l4_correction_takes_only_a_status_of_its_lifecycle(kit: Kit) -> None:
    kit.put(a_task_in(FAILED), a_step())
    command = correction(SUCCEEDED, business_status="RETRY_WAIT")
    assert refusal(kit, kit.commands.correct(command)).reason is Reason.BUSINESS_STATUS_NOT_REGISTERED


@pytest.mark.parametrize(
    ("lifecycle", "status", "is_known"),
    [(SUCCEEDED, "PUBLISHED", True), (FAILED, "REJECTED", True), (FAILED, "PUBLISHED", False), (FAILED, "", True)],
)
def test_l4_correction_knows_the_statuses_that_the_task_is_bound_to(
    kit: Kit, lifecycle: Lifecycle, status: str, is_known: bool
) -> None:
    kit.definitions.add(REVIEWED)
    kit.put(a_task_in(Lifecycle.CANCELLED, status_definition_version=1), a_step())
    call = kit.commands.correct(correction(lifecycle, business_status=status))
    if is_known:
        drive(call)
        assert kit.only_task().business_status == (status or lifecycle)
    else:
        assert refusal(kit, call).reason is Reason.BUSINESS_STATUS_NOT_REGISTERED


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


# Reruns.

COMPLETED_ID = "evt-completed"


def ended(kit: Kit) -> None:
    """A task of two steps: the first succeeded by an event, the second failed, and with it the task."""
    read, parse = a_definition(step_id="01_read", weight=3), a_definition(step_id="02_parse", order=2)
    task = a_task_in(RUNNING, weight_total=4, open_steps=2)
    first = a_running_step(definition=read, execution_id=EXECUTION_ID)
    second = a_running_step(definition=parse, execution_id=an_id(4))
    kit.put(task, first, second)
    kit.report(step_event(EventType.STEP_COMPLETED, 2, of=first, event_id=COMPLETED_ID))
    kit.report(step_event(EventType.STEP_FAILED, 2, of=second))
    kit.report(task_event(EventType.TASK_FAILED, failed_step_id="02_parse"))


def test_r7_rerun_opens_a_run_and_keeps_the_earlier_one(kit: Kit) -> None:
    ended(kit)
    before = {key: step for key, step in kit.tables.steps.items() if key[1] == 1}

    result = drive(kit.commands.rerun(RerunTask(a_head(), 1, "input mended", ()))).result

    task = kit.only_task()
    assert (task.attempt, task.lifecycle, task.business_status) == (2, Lifecycle.PENDING, "PENDING")
    assert (task.failure, task.started_at, task.finished_at, task.cancel_requested) == (None, None, None, False)
    assert (task.progress_points, task.weight_total, task.open_steps, dict(task.producer_seqs)) == (0, 4, 2, {})
    assert (result.task_attempt, result.task_version) == (2, task.version)
    assert {key: step for key, step in kit.tables.steps.items() if key[1] == 1} == before
    first, second = kit.tables.runs[(TASK_ID, 1)].view(), kit.tables.runs[(TASK_ID, 2)].view()
    assert first.outcome is not None
    assert (first.outcome.lifecycle, second.outcome, second.run.reason) == (FAILED, None, "input mended")


def test_e6_step_version_goes_on_over_runs(kit: Kit) -> None:
    ended(kit)
    last = kit.step("02_parse").version
    drive(kit.commands.rerun(RerunTask(a_head(), 0, "", ())))
    assert kit.step("02_parse").version == last + 1
    assert kit.step("02_parse").terms is None


def test_id3_rerun_collides_with_nothing_of_the_earlier_run(kit: Kit) -> None:
    ended(kit)
    drive(kit.commands.rerun(RerunTask(a_head(), 0, "", ())))
    late = step_event(EventType.STEP_COMPLETED, 3, of=kit.tables.steps[(TASK_ID, 1, "02_parse", 1)])
    assert kit.reason(late) is Reason.STALE_ATTEMPT
    assert kit.result(task_event(EventType.TASK_STARTED, 1, event_id="evt-run-2")).lifecycle is RUNNING


def skip(step_id: str = "01_read", source: str = COMPLETED_ID) -> SkippedStep:
    """A skip of a step by its completion."""
    return SkippedStep(step_id, "its result is still good", source)


def test_x3_skipped_step_stands_in_the_new_run_with_reason_and_source(kit: Kit) -> None:
    ended(kit)
    version = kit.only_task().version

    result = drive(kit.commands.rerun(RerunTask(a_head("cmd-9"), 0, "", (skip(),)))).result

    step, task = kit.step("01_read"), kit.only_task()
    assert (step.lifecycle, step.end_reason, step.terms) == (SUCCEEDED, "SKIPPED", None)
    assert step.skip is not None
    assert (step.skip.reason, step.skip.source_event_id) == ("its result is still good", COMPLETED_ID)
    assert (task.progress_points, task.open_steps, task.version) == (30_000, 1, version + 2)
    assert result.task_version == version + 2
    rerun_event, skipped = kit.tables.events[(TASK_ID, version + 1)], kit.tables.events[(TASK_ID, version + 2)]
    assert (rerun_event.event_type, rerun_event.event_id) == (EventType.TASK_RERUN, "cmd-9")
    assert (skipped.event_type, skipped.step_id, skipped.reason) == (
        EventType.STEP_SKIPPED,
        "01_read",
        "its result is still good",
    )


@pytest.mark.parametrize(
    "skipped",
    [skip("09_unknown"), skip(source="evt-unknown"), skip("02_parse"), skip(source="evt-coordinator-TASK_FAILED-1")],
)
def test_x3_skip_needs_a_result_of_the_step(kit: Kit, skipped: SkippedStep) -> None:
    ended(kit)
    command = RerunTask(a_head(), 0, "", (skipped,))
    assert refusal(kit, kit.commands.rerun(command)).reason is Reason.INVALID_ARGUMENT


def test_x3_person_does_not_skip(kit: Kit) -> None:
    ended(kit)
    command = RerunTask(a_head(actor=a_person()), 0, "", (skip(),))
    assert refusal(kit, kit.commands.rerun(command)).reason is Reason.PERMISSION_DENIED


@pytest.mark.parametrize("lifecycle", [Lifecycle.PENDING, RUNNING, Lifecycle.CANCELLING])
def test_r7_live_run_is_not_rerun(kit: Kit, lifecycle: Lifecycle) -> None:
    kit.put(a_task_in(lifecycle), a_running_step())
    command = RerunTask(a_head(), 0, "", ())
    assert refusal(kit, kit.commands.rerun(command)).reason is Reason.TRANSITION_NOT_ALLOWED


def test_r7_rerun_of_another_run_is_stale(kit: Kit) -> None:
    ended(kit)
    drive(kit.commands.rerun(RerunTask(a_head("cmd-1"), 1, "", ())))
    command = RerunTask(a_head("cmd-2", "other"), 1, "", ())
    assert refusal(kit, kit.commands.rerun(command)).reason is Reason.STALE_ATTEMPT


def test_r7_dynamic_steps_are_not_copied(kit: Kit) -> None:
    dynamic = a_definition(step_id="dyn_search", dynamic=True, order=1_002, weight=0)
    kit.put(a_task_in(FAILED), a_step(lifecycle=FAILED), a_step(definition=dynamic, execution_id=an_id(7)))
    drive(kit.commands.rerun(RerunTask(a_head(), 0, "", ())))
    assert [step.definition.step_id for step in kit.tables.steps_in(TASK_ID, 2)] == ["02_parse"]
