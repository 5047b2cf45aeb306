"""Business statuses: what makes a definition, and how events of a task that is bound to one are judged (L-4, E-7)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from taskstatus.domain.business_status import (
    GENERIC_STATUSES,
    BusinessStatus,
    StatusDefinition,
    generic_statuses,
    lifecycle_of,
    may_follow,
    problems_of,
)
from taskstatus.domain.events import EventType
from taskstatus.domain.guards import Judgement, judge
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.reasons import Reason
from tests.unit.factories import (
    REVIEWED,
    START,
    a_running_step,
    a_step,
    a_task,
    a_task_in,
    progress,
    step_event,
    task_event,
)
from tests.unit.service_kit import Kit, reason_of

CODES = ("A", "B", "C", "RUNNING", "RETRY_WAIT", "SUCCEEDED")
codes = st.sampled_from(CODES)
lists_of_statuses = st.lists(
    st.builds(
        BusinessStatus,
        codes,
        st.sampled_from(list(Lifecycle)),
        st.none() | st.frozensets(st.sampled_from((*CODES, "D")), min_size=1),
    ),
    max_size=5,
).map(tuple)


@given(lists_of_statuses)
def test_l4_a_definition_has_no_problem_just_when_every_rule_holds(statuses: tuple[BusinessStatus, ...]) -> None:
    listed = [status.code for status in statuses]
    named = {code for status in statuses for code in status.allowed_from or ()}
    is_definition = (
        len(set(listed)) == len(listed)
        and all(GENERIC_STATUSES.get(status.code, status.lifecycle) is status.lifecycle for status in statuses)
        and named <= {*listed, *GENERIC_STATUSES}
    )
    problems = problems_of(statuses)
    assert (problems == []) is is_definition
    assert all(0 <= problem.index < len(statuses) for problem in problems)


def test_l4_a_problem_names_status_and_field() -> None:
    statuses = (
        BusinessStatus("A", Lifecycle.RUNNING, frozenset({"MISSING"})),
        BusinessStatus("SUCCEEDED", Lifecycle.FAILED),
        BusinessStatus("A", Lifecycle.FAILED),
    )
    assert [(problem.index, problem.field) for problem in problems_of(statuses)] == [
        (0, "allowed_from"),
        (1, "lifecycle"),
        (2, "code"),
    ]


@given(lists_of_statuses, codes, codes)
@example((BusinessStatus("A", Lifecycle.RUNNING, frozenset({"B"})),), "A", "A")
def test_l4_a_registered_status_follows_itself_and_what_it_names(
    statuses: tuple[BusinessStatus, ...], code: str, current: str
) -> None:
    assume(not problems_of(statuses))
    definition = StatusDefinition("T", 1, statuses)
    status = definition.status(code)
    assert lifecycle_of(code, definition) is (status.lifecycle if status else None)
    if status is not None:
        named = status.allowed_from
        assert may_follow(code, current, definition) is (named is None or current == code or current in named)


@pytest.mark.parametrize("current", list(GENERIC_STATUSES))
@pytest.mark.parametrize("code", list(GENERIC_STATUSES))
def test_l4_generic_statuses_follow_any(code: str, current: str) -> None:
    assert lifecycle_of(code, None) is GENERIC_STATUSES[code]
    assert may_follow(code, current, None)


def test_l4_generic_statuses_are_version_0_of_every_type() -> None:
    definition = generic_statuses("VIDEO")
    assert (definition.task_type, definition.version) == ("VIDEO", 0)
    assert {status.code: status.lifecycle for status in definition.statuses} == GENERIC_STATUSES
    assert problems_of(definition.statuses) == []


@given(st.sampled_from([None, REVIEWED]), codes | st.sampled_from([s.code for s in REVIEWED.statuses]), codes)
def test_l4_guard_agrees_with_the_definition(statuses: StatusDefinition | None, code: str, current: str) -> None:
    """A progress of a running task, judged by everything that it may be bound to."""
    step = a_running_step()
    command = step_event(EventType.STEP_PROGRESS, 2, of=step, business_status=code, progress=progress(1))
    task = a_task_in(Lifecycle.RUNNING, business_status=current)
    verdict = judge(Judgement(command, START, task, step, None, statuses=statuses))

    expected = None
    if lifecycle_of(code, statuses) is not Lifecycle.RUNNING:
        expected = Reason.BUSINESS_STATUS_NOT_REGISTERED
    elif not may_follow(code, current, statuses):
        expected = Reason.TRANSITION_NOT_ALLOWED
    assert (None if verdict is None else reason_of(verdict)) is expected


@pytest.fixture
def bound(kit: Kit) -> Kit:
    """A pending task of one step, bound to the statuses of reviewed documents."""
    kit.definitions.add(REVIEWED)
    kit.put(a_task(status_definition_version=1, operation_definition_version=0), a_step())
    return kit


def test_l4_a_task_goes_through_the_statuses_of_its_definition(bound: Kit) -> None:
    started = step_event(EventType.STEP_STARTED, 1, business_status="PARSING")
    assert bound.result(started).business_status == "PARSING"
    review = step_event(EventType.STEP_PROGRESS, 2, business_status="WAITING_REVIEW", progress=progress(1))
    assert bound.result(review).business_status == "WAITING_REVIEW"
    stays = step_event(EventType.STEP_PROGRESS, 3, business_status="WAITING_REVIEW", progress=progress(2))
    assert bound.result(stays).business_status == "WAITING_REVIEW"
    done = bound.result(task_event(EventType.TASK_COMPLETED, business_status="PUBLISHED"))
    assert (done.business_status, done.lifecycle) == ("PUBLISHED", Lifecycle.SUCCEEDED)


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("WAITING_REVIEW", Reason.TRANSITION_NOT_ALLOWED),
        ("RUNNING", Reason.BUSINESS_STATUS_NOT_REGISTERED),
        ("QUEUED", Reason.BUSINESS_STATUS_NOT_REGISTERED),
        ("PUBLISHED", Reason.BUSINESS_STATUS_NOT_REGISTERED),
        ("NOWHERE", Reason.BUSINESS_STATUS_NOT_REGISTERED),
    ],
)
def test_l4_a_status_that_does_not_fit_writes_nothing(bound: Kit, status: str, reason: Reason) -> None:
    before = bound.only_task()
    assert bound.reason(step_event(EventType.STEP_STARTED, 1, business_status=status)) is reason
    assert (bound.only_task(), bound.tables.events) == (before, {})


def test_e7_the_first_start_is_judged_by_the_lifecycle_that_it_brings(bound: Kit) -> None:
    result = bound.result(step_event(EventType.STEP_STARTED, 1, business_status="PARSING"))
    assert (result.lifecycle, result.business_status) == (Lifecycle.RUNNING, "PARSING")


def test_e7_without_a_status_the_generic_name_stands_also_where_a_definition_is_bound(bound: Kit) -> None:
    assert bound.result(step_event(EventType.STEP_STARTED, 1)).business_status == "RUNNING"
    assert bound.result(task_event(EventType.TASK_COMPLETED)).business_status == "SUCCEEDED"


def test_l4_transitions_within_one_batch_are_judged_one_after_the_other(bound: Kit) -> None:
    verdicts = bound.report(
        step_event(EventType.STEP_STARTED, 1, business_status="PARSING"),
        step_event(EventType.STEP_PROGRESS, 2, business_status="WAITING_REVIEW", progress=progress(1)),
        step_event(EventType.STEP_PROGRESS, 3, business_status="PARSING", progress=progress(2)),
    )
    assert [reason_of(verdict) for verdict in verdicts] == [None, None, Reason.TRANSITION_NOT_ALLOWED]


def test_e8_a_progress_never_absorbs_one_of_another_status(bound: Kit) -> None:
    """The log must show the status that the next one was allowed to follow."""
    bound.report(step_event(EventType.STEP_STARTED, 1))
    verdicts = bound.report(
        step_event(EventType.STEP_PROGRESS, 2, business_status="PARSING", progress=progress(1)),
        step_event(EventType.STEP_PROGRESS, 3, business_status="PARSING", progress=progress(2)),
        step_event(EventType.STEP_PROGRESS, 4, business_status="WAITING_REVIEW", progress=progress(3)),
    )
    assert [type(verdict).__name__ for verdict in verdicts] == ["Coalesced", "Accepted", "Accepted"]
    told = [event.business_status for event in bound.tables.events.values()]
    assert told == ["RUNNING", "PARSING", "WAITING_REVIEW"]


def test_l4_a_status_is_judged_by_the_version_that_the_task_is_bound_to(bound: Kit) -> None:
    free = tuple(replace(status, allowed_from=None) for status in REVIEWED.statuses)
    bound.definitions.add(StatusDefinition(REVIEWED.task_type, 2, free))
    start = step_event(EventType.STEP_STARTED, 1, business_status="WAITING_REVIEW")
    assert bound.reason(start) is Reason.TRANSITION_NOT_ALLOWED
