"""Notices: which facts tell a person something, how loudly, and what can be done (P-3, L-6)."""

from __future__ import annotations

import pytest

from taskstatus.domain.events import EventType
from taskstatus.domain.ids import format_task_id
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.notices import Notice, notice_for
from taskstatus.domain.state import FailurePolicy, StepError, StepState, TaskFailure, TaskState
from tests.unit.factories import TASK_ID, a_step, a_task, a_task_in


def of_step(policy: FailurePolicy, category: str = "SYSTEM", retryable: bool = True) -> Notice:
    """The notice of a failed step."""
    error = StepError(category, "PARSE_FAILED", "The document could not be read.", retryable, "diag://1")
    step = a_step(lifecycle=Lifecycle.FAILED, failure_policy=policy, error=error)
    notice = notice_for(EventType.STEP_FAILED, a_task(version=7), step)
    assert notice is not None
    return notice


def of_task(event_type: EventType, category: str = "SYSTEM", retryable: bool = True) -> Notice:
    """The notice of a failed task."""
    failure = TaskFailure("BROKEN", "It broke.", category, retryable, "02_parse")
    lifecycle = Lifecycle.TIMED_OUT if event_type is EventType.TASK_TIMED_OUT else Lifecycle.FAILED
    failed = failure if event_type is EventType.TASK_FAILED else None
    notice = notice_for(event_type, a_task_in(lifecycle, version=9, failure=failed), None)
    assert notice is not None
    return notice


def test_p3_notice_is_named_by_task_and_version() -> None:
    assert of_step(FailurePolicy.FAIL_TASK).notice_id == f"{format_task_id(TASK_ID)}:7"
    assert of_task(EventType.TASK_FAILED).notice_id == f"{format_task_id(TASK_ID)}:9"


@pytest.mark.parametrize("policy", list(FailurePolicy))
def test_p3_failed_step_is_a_warning(policy: FailurePolicy) -> None:
    notice = of_step(policy)
    assert (notice.level, notice.type) == ("WARNING", EventType.STEP_FAILED)
    assert (notice.operation_code, notice.error_code) == ("DOCUMENT.PARSE", "PARSE_FAILED")
    assert notice.message == "The document could not be read."
    assert notice.title == "Annual report: Parse failed"
    assert notice.requires_action is (policy is FailurePolicy.WAIT_FOR_USER)


@pytest.mark.parametrize(
    ("category", "retryable", "actions"),
    [
        ("SYSTEM", True, ("RETRY_TASK", "VIEW_DETAILS")),
        ("SYSTEM", False, ("VIEW_DETAILS",)),
        ("INPUT", True, ("REUPLOAD_FILE", "VIEW_DETAILS")),
        ("INPUT", False, ("REUPLOAD_FILE", "VIEW_DETAILS")),
    ],
)
def test_p3_step_that_waits_for_a_person_says_what_would_help(
    category: str, retryable: bool, actions: tuple[str, ...]
) -> None:
    assert of_step(FailurePolicy.WAIT_FOR_USER, category, retryable).actions == actions


@pytest.mark.parametrize(
    ("category", "retryable", "actions", "requires_action"),
    [
        ("SYSTEM", True, ("RETRY_TASK", "VIEW_DETAILS"), True),
        ("SYSTEM", False, ("CONTACT_SUPPORT", "VIEW_DETAILS"), False),
        ("INPUT", True, ("REUPLOAD_FILE", "VIEW_DETAILS"), True),
    ],
)
def test_p3_failed_task_is_an_error(
    category: str, retryable: bool, actions: tuple[str, ...], requires_action: bool
) -> None:
    notice = of_task(EventType.TASK_FAILED, category, retryable)
    assert (notice.level, notice.actions, notice.requires_action) == ("ERROR", actions, requires_action)
    assert (notice.error_code, notice.message, notice.title) == ("BROKEN", "It broke.", "Annual report failed")


def test_p3_timed_out_task_is_an_error() -> None:
    notice = of_task(EventType.TASK_TIMED_OUT)
    assert (notice.level, notice.title) == ("ERROR", "Annual report timed out")


@pytest.mark.parametrize(
    "event_type", [EventType.TASK_STARTED, EventType.TASK_COMPLETED, EventType.TASK_CANCELLED, EventType.TASK_CREATED]
)
def test_p3_ordinary_task_fact_needs_no_notice(event_type: EventType) -> None:
    assert notice_for(event_type, a_task(), None) is None


@pytest.mark.parametrize("event_type", [EventType.STEP_STARTED, EventType.STEP_PROGRESS, EventType.STEP_COMPLETED])
def test_p3_ordinary_step_fact_needs_no_notice(event_type: EventType) -> None:
    assert notice_for(event_type, a_task(), a_step()) is None


def timed_out() -> tuple[EventType, TaskState, StepState]:
    """A step that the coordinator has given up."""
    return EventType.STEP_TIMED_OUT, a_task_in(Lifecycle.RUNNING), a_step(lifecycle=Lifecycle.TIMED_OUT)


def needs_action() -> tuple[EventType, TaskState, StepState]:
    """A progress whose business status asks for a person."""
    task = a_task_in(Lifecycle.RUNNING, business_status="WAITING_USER_ACTION")
    return EventType.STEP_PROGRESS, task, a_step(lifecycle=Lifecycle.RUNNING)


def test_p3_step_given_up_reaches_people_as_a_notice() -> None:
    assert notice_for(*timed_out()) is not None


def test_p3_needs_action_reaches_people_as_a_notice() -> None:
    notice = notice_for(*needs_action())
    assert notice is not None
    assert notice.requires_action


@pytest.mark.parametrize(
    ("lifecycle", "title"),
    [
        (Lifecycle.FAILED, "Annual report failed"),
        (Lifecycle.TIMED_OUT, "Annual report timed out"),
        (Lifecycle.SUCCEEDED, None),
        (Lifecycle.CANCELLED, None),
    ],
)
def test_p3_correction_to_a_failure_is_told_as_a_failure(lifecycle: Lifecycle, title: str | None) -> None:
    notice = notice_for(EventType.TASK_CORRECTED, a_task_in(lifecycle, version=9), None)
    assert (notice.title if notice else None) == title
    assert notice is None or (notice.level, notice.type) == ("ERROR", EventType.TASK_CORRECTED)
