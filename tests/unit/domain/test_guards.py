"""The guards of an event: their order, every reason that each can give, and what passes them (E-1, E-2, E-4, R-11)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import combinations

import pytest

from taskstatus.domain.commands import Caller, StatedFields
from taskstatus.domain.events import EXECUTION_EVENTS, REPORTABLE_EVENTS, TASK_EVENTS, EventType
from taskstatus.domain.guards import GUARDS, OLDEST_ACCEPTED_EVENT, judge
from taskstatus.domain.ids import format_execution_id, format_task_id, format_workflow_id
from taskstatus.domain.lifecycle import TARGET_OF_EVENT, Lifecycle
from taskstatus.domain.reasons import Reason
from taskstatus.domain.records import SeenEvent
from taskstatus.domain.verdicts import Duplicate, no_op
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


def test_e2_guards_stand_in_the_order_of_the_spec() -> None:
    assert tuple(guard.name for guard in GUARDS) == NAMES


def test_e2_good_command_passes_every_guard() -> None:
    assert judge(good_judgement()) is None


@pytest.mark.parametrize(("first", "second"), list(combinations(NAMES, 2)))
def test_e2_the_first_of_two_violated_guards_answers(first: str, second: str) -> None:
    reason, violate_first = IN_ORDER[first]
    _, violate_second = IN_ORDER[second]
    both = violate_first(violate_second(good_judgement()))

    if NAMES.index(first) >= NEEDS_TASK_AND_STEP:
        assert GUARD[second].check(both) is not None
    verdict = judge(both)

    assert verdict is not None
    assert reason_of(verdict) is reason


@pytest.mark.parametrize("later", NAMES[NAMES.index("event id is new") + 1 :])
def test_e2_seen_event_gives_its_first_result_before_any_later_guard(later: str) -> None:
    first = no_op(a_task_in(Lifecycle.RUNNING), None).result
    _, violate = IN_ORDER[later]
    violated = violate(good_judgement())
    seen = replace(violated, seen=SeenEvent(violated.command.digest, first))

    assert judge(seen) == Duplicate(first)


@pytest.mark.parametrize("name", NAMES)
def test_e2_single_violation_is_answered_with_its_reason(name: str) -> None:
    reason, violate = IN_ORDER[name]
    verdict = judge(violate(good_judgement()))
    assert verdict is not None
    assert reason_of(verdict) is reason


@pytest.mark.parametrize("case", FURTHER)
def test_e2_further_violation_is_answered_with_its_reason(case: str) -> None:
    guard, reason, violate = FURTHER[case]
    violated = violate(good_judgement())
    verdict = judge(violated)
    assert verdict is not None
    assert reason_of(verdict) is reason
    own = GUARD[guard].check(violated)
    assert own is not None
    assert reason_of(own) is reason


def test_e2_every_reason_of_every_guard_is_reached_and_no_other() -> None:
    reached = {(name, reason) for name, (reason, _) in IN_ORDER.items()}
    reached |= {(guard, reason) for guard, reason, _ in FURTHER.values()}
    assert reached == {(guard.name, reason) for guard in GUARDS for reason in guard.reasons}


def test_e2_guards_give_known_reasons_and_name_their_rule() -> None:
    for guard in GUARDS:
        assert set(guard.reasons) <= set(Reason)
        assert guard.spec.partition("-")[0] in {"E", "L", "R"}


@pytest.mark.parametrize("stated", STATED_CONTRADICTIONS)
def test_e9_stated_field_that_contradicts_the_credential_is_a_mismatch(stated: StatedFields) -> None:
    verdict = judge(as_stated(good_judgement(), stated))
    assert verdict is not None
    assert reason_of(verdict) is Reason.TOKEN_MISMATCH


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


@pytest.mark.parametrize("event_type", sorted(TASK_EVENTS | {EventType.STEP_TIMED_OUT, EventType.STEP_HEARTBEAT}))
def test_e1_execution_may_not_report_what_is_not_its_own(kit: Kit, event_type: EventType) -> None:
    kit.put(a_task_in(Lifecycle.RUNNING), a_running_step())
    assert kit.reason(step_event(event_type, 9)) is Reason.EVENT_TYPE_NOT_ALLOWED


@pytest.mark.parametrize("event_type", sorted(set(EventType) - REPORTABLE_EVENTS))
def test_e1_no_credential_grants_the_services_own_events(event_type: EventType) -> None:
    assert event_type not in EXECUTION_EVENTS
    assert event_type not in TARGET_OF_EVENT


@pytest.mark.parametrize(
    ("producer", "expected"),
    [
        (COORDINATOR, None),
        (EXECUTOR, None),
        ("other", Reason.EVENT_TYPE_NOT_ALLOWED),
        (OWNER, Reason.EVENT_TYPE_NOT_ALLOWED),
    ],
)
@pytest.mark.parametrize("event_type", sorted(TASK_EVENTS))
def test_e1_task_events_are_the_coordinators_or_a_listed_executors(
    kit: Kit, event_type: EventType, producer: str, expected: Reason | None
) -> None:
    kit.put(a_task())
    assert kit.reason(task_event(event_type, by=producer)) is expected


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


def test_r3_an_event_never_creates_a_step(kit: Kit) -> None:
    kit.put(a_task())
    assert kit.reason(step_event(EventType.STEP_STARTED)) is Reason.STEP_NOT_FOUND
    assert not kit.tables.steps


@pytest.mark.parametrize("age_seconds", [0, 3600, 7 * 24 * 3600])
def test_e4_event_within_the_oldest_accepted_age_passes(age_seconds: int) -> None:
    j = good_judgement()
    content = replace(j.command.content, occurred_at=START - timedelta(seconds=age_seconds))
    assert judge(replace(j, command=replace(j.command, content=content))) is None


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
