"""The guards of an event: their order, every reason that each can give, and what passes them (E-1, E-2, E-4, R-11)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from taskstatus.domain.commands import Caller, StatedFields
from taskstatus.domain.events import EXECUTION_EVENTS, REPORTABLE_EVENTS, TASK_EVENTS, EventType
from taskstatus.domain.guards import GUARDS, OLDEST_ACCEPTED_EVENT, Judgement, judge
from taskstatus.domain.ids import format_execution_id, format_task_id, format_workflow_id
from taskstatus.domain.lifecycle import TARGET_OF_EVENT, Lifecycle
from taskstatus.domain.reasons import STALE_REASONS, Reason
from taskstatus.domain.records import SeenEvent
from taskstatus.domain.verdicts import Duplicate, no_op, result_or_raise
from tests.unit.factories import (
    COORDINATOR,
    EXECUTOR,
    OWNER,
    SCOPE,
    START,
    TASK_ID,
    WORKFLOW_ID,
    a_credential,
    a_running_step,
    a_step,
    a_task,
    a_task_in,
    an_id,
    step_event,
    task_event,
)
from tests.unit.service_kit import Kit, reason_of

from .guard_violations import FURTHER, IN_ORDER, STATED_CONTRADICTIONS, as_stated, by_caller, good_judgement

NAMES = tuple(IN_ORDER)
GUARD = {guard.name: guard for guard in GUARDS}
NEEDS_TASK_AND_STEP = NAMES.index("event id is new")


def reason_at(j: Judgement) -> Reason | None:
    """The reason of the guard that answers first."""
    verdict = judge(j)
    return None if verdict is None else reason_of(verdict)


def test_e2_guards_stand_in_the_order_of_the_spec() -> None:
    assert tuple(guard.name for guard in GUARDS) == NAMES


def test_e2_good_command_passes_every_guard() -> None:
    assert judge(good_judgement()) is None


@pytest.mark.parametrize("first", NAMES[:-1])
def test_e2_the_first_of_two_violated_guards_answers(first: str) -> None:
    reason, violate_first = IN_ORDER[first]
    seconds = NAMES[NAMES.index(first) + 1 :]
    both = {second: violate_first(IN_ORDER[second][1](good_judgement())) for second in seconds}

    if NAMES.index(first) >= NEEDS_TASK_AND_STEP:
        assert [second for second in seconds if GUARD[second].check(both[second]) is None] == []
    assert {second: reason_at(both[second]) for second in seconds} == dict.fromkeys(seconds, reason)


def test_e2_seen_event_gives_its_first_result_before_any_later_guard() -> None:
    first = no_op(a_task_in(Lifecycle.RUNNING), None).result
    for later in NAMES[NAMES.index("event id is new") + 1 :]:
        violated = IN_ORDER[later][1](good_judgement())
        seen = replace(violated, seen=SeenEvent(violated.command.digest, first))
        assert judge(seen) == Duplicate(first), later


def test_e2_single_violation_is_answered_with_its_reason() -> None:
    answers = {name: reason_at(violate(good_judgement())) for name, (_, violate) in IN_ORDER.items()}
    assert answers == {name: reason for name, (reason, _) in IN_ORDER.items()}


def test_e2_further_violation_is_answered_with_its_reason() -> None:
    for case, (guard, reason, violate) in FURTHER.items():
        violated = violate(good_judgement())
        own = GUARD[guard].check(violated)
        assert own is not None, case
        assert (reason_of(own), reason_at(violated)) == (reason, reason), case


def test_e2_every_reason_of_every_guard_is_reached_and_no_other() -> None:
    reached = {(name, reason) for name, (reason, _) in IN_ORDER.items()}
    reached |= {(guard, reason) for guard, reason, _ in FURTHER.values()}
    assert reached == {(guard.name, reason) for guard in GUARDS for reason in guard.reasons}


def test_e2_guards_give_known_reasons_and_name_their_rule() -> None:
    for guard in GUARDS:
        assert set(guard.reasons) <= set(Reason)
        assert guard.spec.partition("-")[0] in {"E", "L", "R"}


def test_e9_stated_field_that_contradicts_the_credential_is_a_mismatch() -> None:
    for stated in STATED_CONTRADICTIONS:
        assert reason_at(as_stated(good_judgement(), stated)) is Reason.TOKEN_MISMATCH, stated


def test_e9_stated_fields_that_match_pass() -> None:
    j = good_judgement()
    assert j.command.execution_id is not None
    stated = StatedFields(
        workflow_id=format_workflow_id(WORKFLOW_ID),
        task_id=format_task_id(TASK_ID),
        task_attempt=1,
        step_id="02_parse",
        step_attempt=1,
        execution_id=format_execution_id(j.command.execution_id),
        operation_code="DOCUMENT.PARSE",
        producer_id="document-parser",
        task_type="DOCUMENT_PROCESS",
    )
    assert judge(as_stated(j, stated)) is None


def test_e2_neither_credential_nor_caller_is_enough_alone() -> None:
    thief = by_caller(good_judgement(), Caller("t-01", SCOPE, "other-producer"))
    verdict = judge(thief)
    assert verdict is not None
    assert reason_of(verdict) is Reason.PRODUCER_MISMATCH


def test_e1_execution_may_not_report_what_is_not_its_own(kit: Kit) -> None:
    kit.put(a_task_in(Lifecycle.RUNNING), a_running_step())
    for event_type in TASK_EVENTS | {EventType.STEP_TIMED_OUT, EventType.STEP_HEARTBEAT}:
        assert kit.reason(step_event(event_type, 9)) is Reason.EVENT_TYPE_NOT_ALLOWED, event_type


def test_e1_no_credential_grants_the_services_own_events() -> None:
    own = set(EventType) - REPORTABLE_EVENTS
    assert not own & EXECUTION_EVENTS
    assert not own & set(TARGET_OF_EVENT)


@pytest.mark.parametrize("event_type", sorted(TASK_EVENTS))
def test_e1_task_events_are_the_coordinators_or_a_listed_executors(event_type: EventType) -> None:
    answers = {}
    for producer in (COORDINATOR, EXECUTOR, "other", OWNER):
        kit = Kit()
        kit.put(a_task())
        answers[producer] = kit.reason(task_event(event_type, by=producer))
    refused = Reason.EVENT_TYPE_NOT_ALLOWED
    assert answers == {COORDINATOR: None, EXECUTOR: None, "other": refused, OWNER: refused}


@pytest.mark.parametrize("event_type", [EventType.STEP_CANCELLED, EventType.STEP_TIMED_OUT])
@pytest.mark.parametrize(("producer", "expected"), [(COORDINATOR, None), ("other", Reason.EVENT_TYPE_NOT_ALLOWED)])
def test_e1_coordinator_ends_a_step_on_its_own_identity(
    kit: Kit, event_type: EventType, producer: str, expected: Reason | None
) -> None:
    kit.put(a_task(), a_step())
    assert kit.reason(task_event(event_type, by=producer, step_id="02_parse")) is expected


@pytest.mark.parametrize("event_type", [EventType.STEP_STARTED, EventType.STEP_PROGRESS, EventType.STEP_COMPLETED])
def test_e1_coordinator_may_not_speak_for_an_execution(kit: Kit, event_type: EventType) -> None:
    kit.put(a_task(), a_step())
    command = task_event(event_type, step_id="02_parse")
    assert kit.reason(command) is Reason.EVENT_TYPE_NOT_ALLOWED


def test_e1_coordinators_unknown_step_is_not_found(kit: Kit) -> None:
    kit.put(a_task(), a_step())
    assert kit.reason(task_event(EventType.STEP_CANCELLED, step_id="nope")) is Reason.STEP_NOT_FOUND


def test_e9_coordinator_that_states_another_execution_ends_nothing(kit: Kit) -> None:
    kit.put(a_task(), a_step())
    stated = StatedFields(
        task_id=format_task_id(TASK_ID), step_id="02_parse", execution_id=format_execution_id(an_id(99))
    )

    (verdict,) = kit.report(task_event(EventType.STEP_CANCELLED, step_id="02_parse", stated=stated))

    assert reason_of(verdict) is Reason.STALE_EXECUTION
    assert kit.step().lifecycle is Lifecycle.PENDING


@pytest.mark.parametrize("event_type", sorted(EXECUTION_EVENTS))
def test_e1_credential_allows_the_events_that_it_names_only(event_type: EventType) -> None:
    j = good_judgement()
    others = a_credential(allowed_events=EXECUTION_EVENTS - {event_type})
    content = replace(j.command.content, event_type=event_type)

    verdict = judge(replace(j, command=replace(j.command, content=content, credential=others)))

    assert verdict is not None
    assert reason_of(verdict) is Reason.EVENT_TYPE_NOT_ALLOWED


def test_e9_coordinator_that_states_another_workflow_finds_no_task(kit: Kit) -> None:
    kit.put(a_task())
    stated = StatedFields(task_id=format_task_id(TASK_ID), workflow_id=format_workflow_id(an_id(98)))
    assert kit.reason(task_event(EventType.TASK_STARTED, stated=stated)) is Reason.TASK_NOT_FOUND


@pytest.mark.parametrize("case", [case for case, (_, reason, _) in FURTHER.items() if reason in STALE_REASONS])
def test_e4_report_of_what_is_no_longer_current_is_stale(case: str) -> None:
    _, reason, violate = FURTHER[case]

    verdict = judge(violate(good_judgement()))

    assert verdict is not None
    result = result_or_raise(verdict)
    assert (result.accepted, result.stale, result.reason) == (False, True, reason)


def test_e4_coordinator_that_means_an_earlier_run_is_stale(kit: Kit) -> None:
    kit.put(a_task_in(Lifecycle.RUNNING, attempt=2))
    assert kit.reason(task_event(EventType.TASK_COMPLETED, task_attempt=1)) is Reason.STALE_ATTEMPT
    assert kit.reason(task_event(EventType.TASK_COMPLETED, task_attempt=2)) is None


def test_r3_an_event_never_creates_a_step(kit: Kit) -> None:
    kit.put(a_task())
    assert kit.reason(step_event(EventType.STEP_STARTED)) is Reason.STEP_NOT_FOUND
    assert not kit.tables.steps


@pytest.mark.parametrize("age_seconds", [0, 3600, 7 * 24 * 3600])
def test_e4_event_within_the_oldest_accepted_age_passes(age_seconds: int) -> None:
    j = good_judgement()
    content = replace(j.command.content, occurred_at=START - timedelta(seconds=age_seconds))
    assert judge(replace(j, command=replace(j.command, content=content))) is None


def test_e4_event_a_moment_beyond_the_oldest_accepted_age_is_refused() -> None:
    j = good_judgement()
    content = replace(j.command.content, occurred_at=START - timedelta(days=7, microseconds=1))
    verdict = judge(replace(j, command=replace(j.command, content=content)))
    assert verdict is not None
    assert reason_of(verdict) is Reason.EVENT_TOO_OLD


def test_e4_oldest_accepted_age_is_seven_days_by_default() -> None:
    assert timedelta(days=7) == OLDEST_ACCEPTED_EVENT


def test_r11_handle_does_not_expire_and_dies_with_its_generation() -> None:
    j = good_judgement()
    handle = replace(j, command=replace(j.command, credential=a_credential(expires_at=None)))
    assert judge(handle) is None

    assert j.step is not None
    verdict = judge(replace(handle, step=replace(j.step, generation=2)))

    assert verdict is not None
    assert reason_of(verdict) is Reason.TOKEN_REVOKED
