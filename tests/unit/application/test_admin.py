"""Stuck work for operators: limits, cursors, and only their own scope (H-8)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from taskstatus_pb.v1 import admin_service_pb2

from taskstatus.adapters.memory.health import MemoryStuckWork
from taskstatus.application.admin import STUCK_LIMIT_MAX, Administration, StuckListing, cursor_of, position_of
from taskstatus.application.identity import Role, ServiceIdentity
from taskstatus.application.ports_health import StuckCause, StuckPart, StuckPosition
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import format_execution_id, format_task_id, format_workflow_id
from taskstatus.domain.reasons import Reason
from taskstatus.domain.registration_terms import RegistrationTerms
from taskstatus.entrypoints.wire.encode_admin import stuck_listing
from tests.unit.factories import EXECUTION_ID, TASK_ID, TENANT, WORKFLOW_ID, a_step, an_id, step_event, task_event
from tests.unit.health_kit import HealthKit
from tests.unit.service_kit import a_service, drive

OPERATOR = a_service("operations", Role.ADMIN)


def slow_steps(count: int) -> HealthKit:
    """So many executions beyond their run time."""
    steps = [
        a_step(step_id=f"{n:02d}_slow", execution_id=an_id(700 + n), order=n, max_run_seconds=10) for n in range(count)
    ]
    kit = HealthKit(*steps)
    kit.wait(20)
    return kit


def listing(kit: HealthKit, limit: int = 0, cursor: str = "", caller: ServiceIdentity | None = None) -> StuckListing:
    administration = Administration(MemoryStuckWork(kit.store))
    return drive(administration.stuck_tasks(caller or OPERATOR, limit, cursor))


def test_h8_pages_follow_each_other_until_all_are_shown() -> None:
    kit = slow_steps(5)
    shown, cursor = [], ""
    for _ in range(3):
        page = listing(kit, 2, cursor)
        shown += [execution.step_id for execution in page.executions]
        cursor = page.next_cursor
    assert shown == [f"{n:02d}_slow" for n in range(5)]
    assert cursor == ""


def test_h8_other_scopes_and_tenants_see_nothing() -> None:
    kit = slow_steps(1)
    assert len(listing(kit).executions) == 1
    assert not listing(kit, caller=a_service("operations", Role.ADMIN, scope="another")).executions
    assert not listing(kit, caller=a_service("operations", Role.ADMIN, tenant_id="t-99")).executions
    assert TENANT != "t-99"


def test_h8_silent_and_lost_work_is_listed_with_its_causes() -> None:
    kit = HealthKit(a_step(max_run_seconds=100))
    kit.go_stale()
    kit.wait(121)
    assert listing(kit).executions[0].causes == (StuckCause.OVER_RUN_TIME, StuckCause.LONG_STALE)
    kit.wait(200)
    kit.record(kit.overdue())
    assert listing(kit).executions[0].causes == (StuckCause.OVER_RUN_TIME, StuckCause.LOST_WORKER)
    kit.recover(1)
    assert listing(kit).executions[0].causes == (StuckCause.OVER_RUN_TIME,)


@pytest.mark.parametrize("limit", [-1, STUCK_LIMIT_MAX + 1])
def test_h8_limit_beyond_its_bounds_is_refused(limit: int) -> None:
    with pytest.raises(RefusedError) as refused:
        listing(slow_steps(1), limit)
    assert refused.value.reason is Reason.INVALID_ARGUMENT
    assert refused.value.violations[0].field == "limit"


@pytest.mark.parametrize(
    "cursor",
    [
        *("x", "nonsense", "é", "=", "AAAA" * 30),
        cursor_of(OPERATOR, StuckPosition(StuckPart.WAITING, datetime.max, b"")) + "A",
        cursor_of(OPERATOR, StuckPosition(cast(StuckPart, 3), datetime.max, b"")),
    ],
)
def test_h8_cursor_that_no_page_gave_is_refused(cursor: str) -> None:
    with pytest.raises(RefusedError) as refused:
        listing(slow_steps(1), 1, cursor)
    assert refused.value.reason is Reason.INVALID_ARGUMENT
    assert refused.value.violations[0].field == "cursor"


@pytest.mark.parametrize("other", [{"scope": "another"}, {"tenant_id": "t-99"}])
def test_h8_cursor_of_another_scope_or_tenant_is_refused(other: dict[str, str]) -> None:
    kit = slow_steps(3)
    cursor = listing(kit, 1).next_cursor
    with pytest.raises(RefusedError) as refused:
        listing(kit, 1, cursor, a_service("operations", Role.ADMIN, **other))
    assert refused.value.violations[0].field == "cursor"


@given(st.text(max_size=60))
def test_h8_any_text_is_a_cursor_or_refused(text: str) -> None:
    try:
        position = position_of(OPERATOR, text)
    except RefusedError as error:
        assert error.reason is Reason.INVALID_ARGUMENT
    else:
        assert len(position.id) == 16


@given(st.sampled_from(StuckPart), st.datetimes(datetime(1970, 1, 1)), st.binary(min_size=16, max_size=16))
def test_h8_cursor_gives_its_position_back(part: StuckPart, since: datetime, last_id: bytes) -> None:
    position = StuckPosition(part, since, last_id)
    assert position_of(OPERATOR, cursor_of(OPERATOR, position)) == position


def running_task(max_run_seconds: int) -> HealthKit:
    """A task with a limit of its own, whose only step runs."""
    kit = HealthKit()
    task = kit.only_task()
    terms = RegistrationTerms(max_run_seconds=max_run_seconds)
    kit.tables.tasks[TASK_ID] = replace(task, envelope=replace(task.envelope, terms=terms))
    return kit


def test_h8_task_beyond_its_run_time_is_listed_without_an_execution() -> None:
    kit = running_task(max_run_seconds=100)
    kit.wait(99)
    assert not listing(kit).executions
    kit.wait(1)
    (shown,) = stuck_listing(listing(kit)).executions
    assert (shown.task_id, shown.title, shown.task_attempt) == (format_task_id(TASK_ID), "Annual report", 1)
    assert (shown.step_id, shown.step_attempt, shown.operation_code, shown.execution_id) == ("", 0, "", "")
    assert shown.producer_id == kit.only_task().envelope.coordinator_producer
    assert list(shown.causes) == [admin_service_pb2.TASK_OVER_RUN_TIME]


def test_h8_task_is_listed_while_nothing_of_it_runs_and_not_after_its_end() -> None:
    kit = running_task(max_run_seconds=10)
    kit.result(step_event(EventType.STEP_COMPLETED, 2, event_id="done"))
    kit.wait(10)
    (shown,) = listing(kit).executions
    assert (shown.execution_id, shown.causes) == (None, (StuckCause.TASK_OVER_RUN_TIME,))
    kit.result(task_event(EventType.TASK_COMPLETED, 1, event_id="end"))
    assert not listing(kit).executions


def test_h8_executions_come_before_the_task_page_by_page() -> None:
    kit = HealthKit(a_step(max_run_seconds=10))
    task = kit.only_task()
    limited = replace(task.envelope, terms=RegistrationTerms(max_run_seconds=5))
    kit.tables.tasks[TASK_ID] = replace(task, envelope=limited)
    kit.wait(20)
    first = listing(kit, 1)
    second = listing(kit, 1, first.next_cursor)
    assert [page.executions[0].causes[0] for page in (first, second)] == [
        StuckCause.OVER_RUN_TIME,
        StuckCause.TASK_OVER_RUN_TIME,
    ]
    assert second.next_cursor == ""


def test_h8_listing_shows_ids_as_texts_and_causes_as_words() -> None:
    kit = HealthKit(a_step(max_run_seconds=10))
    kit.wait(20)
    (shown,) = stuck_listing(listing(kit)).executions
    assert (shown.workflow_id, shown.task_id, shown.execution_id) == (
        format_workflow_id(WORKFLOW_ID),
        format_task_id(TASK_ID),
        format_execution_id(EXECUTION_ID),
    )
    assert (shown.title, shown.step_id, shown.step_attempt, shown.task_attempt) == ("Annual report", "02_parse", 1, 1)
    assert (shown.operation_code, shown.producer_id) == ("DOCUMENT.PARSE", "document-parser")
    assert list(shown.causes) == [admin_service_pb2.OVER_RUN_TIME]
    assert shown.since.ToDatetime() == listing(kit).executions[0].since


def test_h8_every_cause_has_its_word_in_the_contract() -> None:
    words = set(admin_service_pb2.StuckCause.keys()) - {"STUCK_CAUSE_UNSPECIFIED"}
    assert words == set(StuckCause)
