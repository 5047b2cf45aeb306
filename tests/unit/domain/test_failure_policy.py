"""A step's failure marks its task and never ends it; health is the worse of two flags (L-4, L-6)."""

from __future__ import annotations

import pytest

from taskstatus.domain.business_status import GENERIC_STATUSES, WAITING_STATUSES
from taskstatus.domain.events import EventType
from taskstatus.domain.health import Health, shown_health
from taskstatus.domain.ids import ExecutionId
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.reasons import Reason
from taskstatus.domain.state import FailurePolicy
from tests.unit.factories import (
    a_failure,
    a_registration,
    a_running_step,
    a_step,
    a_task_in,
    an_activation,
    an_id,
    step_event,
    task_event,
)
from tests.unit.service_kit import Kit, drive, kinds_of

RUNNING = Lifecycle.RUNNING
POLICIES = [
    (FailurePolicy.FAIL_TASK, None, "RUNNING", Health.HEALTHY),
    (FailurePolicy.RETRY_THEN_FAIL_TASK, None, "RETRY_WAIT", Health.HEALTHY),
    (FailurePolicy.RETRY_THEN_FAIL_TASK, True, "RETRY_WAIT", Health.HEALTHY),
    (FailurePolicy.RETRY_THEN_FAIL_TASK, False, "RUNNING", Health.HEALTHY),
    (FailurePolicy.CONTINUE_WITH_WARNING, None, "RUNNING", Health.DEGRADED),
    (FailurePolicy.WAIT_FOR_USER, None, "WAITING_USER_ACTION", Health.HEALTHY),
    (FailurePolicy.WAIT_FOR_USER, False, "WAITING_USER_ACTION", Health.HEALTHY),
]


def failed(kit: Kit, policy: FailurePolicy, task_lifecycle: Lifecycle = RUNNING) -> None:
    """A step of this policy has failed."""
    step = a_running_step(failure_policy=policy)
    kit.put(a_task_in(task_lifecycle), step)
    kit.result(step_event(EventType.STEP_FAILED, 2, of=step))


@pytest.mark.parametrize(("policy", "retryable", "status", "health"), POLICIES)
def test_l6_policy_marks_the_task(
    kit: Kit, policy: FailurePolicy, retryable: bool | None, status: str, health: Health
) -> None:
    step = a_running_step(failure_policy=policy)
    kit.put(a_task_in(RUNNING), step)

    result = kit.result(step_event(EventType.STEP_FAILED, 2, of=step, error=a_failure(retryable=retryable)))

    assert (result.lifecycle, result.business_status) == (RUNNING, status)
    assert kit.only_task().health is health
    assert kit.step().lifecycle is Lifecycle.FAILED


def test_l6_events_own_business_status_wins_over_the_policy(kit: Kit) -> None:
    step = a_running_step(failure_policy=FailurePolicy.RETRY_THEN_FAIL_TASK)
    kit.put(a_task_in(RUNNING), step)

    result = kit.result(step_event(EventType.STEP_FAILED, 2, of=step, business_status="WAITING_USER_ACTION"))

    assert result.business_status == "WAITING_USER_ACTION"


@pytest.mark.parametrize("policy", list(FailurePolicy))
@pytest.mark.parametrize("lifecycle", [Lifecycle.PENDING, RUNNING, Lifecycle.CANCELLING])
def test_l4_business_status_maps_to_the_lifecycle_after_a_failure(
    kit: Kit, policy: FailurePolicy, lifecycle: Lifecycle
) -> None:
    failed(kit, policy, lifecycle)

    task = kit.only_task()

    assert task.lifecycle is lifecycle
    assert GENERIC_STATUSES[task.business_status] is lifecycle


@pytest.mark.parametrize("policy", [FailurePolicy.RETRY_THEN_FAIL_TASK, FailurePolicy.WAIT_FOR_USER])
def test_l6_next_attempt_ends_the_waiting(kit: Kit, policy: FailurePolicy) -> None:
    failed(kit, policy)

    drive(kit.registration.activate(an_activation(attempt=2)))

    assert kit.only_task().business_status == "RUNNING"


def test_l6_registering_another_step_does_not_end_the_waiting(kit: Kit) -> None:
    failed(kit, FailurePolicy.WAIT_FOR_USER)

    drive(kit.registration.activate(a_registration(key="thumbnail")))

    assert kit.only_task().business_status == "WAITING_USER_ACTION"


def test_l6_retry_takes_the_degradation_back(kit: Kit) -> None:
    failed(kit, FailurePolicy.CONTINUE_WITH_WARNING)

    drive(kit.registration.activate(an_activation(attempt=2)))

    assert kit.only_task().health is Health.HEALTHY


def test_l6_degradation_stays_when_the_task_ends(kit: Kit) -> None:
    failed(kit, FailurePolicy.CONTINUE_WITH_WARNING)

    kit.result(task_event(EventType.TASK_COMPLETED))

    assert (kit.only_task().lifecycle, kit.only_task().health) == (Lifecycle.SUCCEEDED, Health.DEGRADED)


@pytest.mark.parametrize(
    ("stale", "degraded", "shown"),
    [
        (False, False, Health.HEALTHY),
        (False, True, Health.DEGRADED),
        (True, False, Health.STALE),
        (True, True, Health.STALE),
    ],
)
def test_l6_health_shows_the_worse_flag(stale: bool, degraded: bool, shown: Health) -> None:
    assert shown_health(stale=stale, degraded=degraded) is shown


@pytest.mark.parametrize("event_type", [EventType.STEP_COMPLETED, EventType.STEP_FAILED, EventType.STEP_CANCELLED])
def test_l1_terminal_step_event_clears_stale_in_its_own_version(kit: Kit, event_type: EventType) -> None:
    step = a_running_step(stale=True)
    kit.put(a_task_in(RUNNING, stale_steps=1, version=5), step)

    result = kit.result(step_event(event_type, 2, of=step))

    assert result.task_version == 6
    assert (kit.step().stale, kit.only_task().stale_steps) == (False, 0)
    assert kit.only_task().health is Health.HEALTHY


def test_l1_terminal_task_event_ends_the_run(kit: Kit) -> None:
    running = a_running_step(stale=True)
    pending = a_step(step_id="03_store", execution_id=ExecutionId(an_id(60)))
    done = a_step(step_id="01_prepare", execution_id=ExecutionId(an_id(61)), lifecycle=Lifecycle.SUCCEEDED, version=3)
    unactivated = a_step(step_id="04_notify", activated=False)
    kit.put(a_task_in(RUNNING, open_steps=3, stale_steps=1, version=5), running, pending, done, unactivated)

    result = kit.result(task_event(EventType.TASK_FAILED, failed_step_id="02_parse"))

    task = kit.only_task()
    assert (result.task_version, task.version, task.open_steps, task.stale_steps) == (6, 6, 0, 0)
    assert len(kit.tables.events) == 1
    for step_id in ("02_parse", "03_store", "04_notify"):
        ended = kit.step(step_id)
        assert (ended.lifecycle, ended.end_reason, ended.stale) == (Lifecycle.CANCELLED, "TASK_ENDED", False)
        assert ended.finished_at == task.finished_at
    assert kit.step("01_prepare") == done
    run = kit.tables.runs[(task.envelope.task_id, 1)]
    assert run.outcome == task


def test_l1_terminal_task_event_closes_leases(kit: Kit) -> None:
    kit.put(a_task_in(RUNNING), a_step())
    kit.report(step_event(EventType.STEP_STARTED, 1))

    kit.result(task_event(EventType.TASK_CANCELLED))

    ((_, lease),) = kit.tables.leases.items()
    assert lease.closed_at == kit.only_task().finished_at


def test_l1_step_started_and_task_ended_in_one_batch(kit: Kit) -> None:
    kit.put(a_task_in(RUNNING), a_step())

    kit.report(
        step_event(EventType.STEP_STARTED, 1),
        task_event(EventType.TASK_COMPLETED),
        step_event(EventType.STEP_FAILED, 2),
    )

    assert (kit.step().lifecycle, kit.step().end_reason) == (Lifecycle.CANCELLED, "TASK_ENDED")
    ((_, lease),) = kit.tables.leases.items()
    assert lease.closed_at is not None
    assert len(kit.tables.events) == 2


def test_l1_execution_that_confirms_its_end_in_the_batch_of_its_tasks_end_is_a_no_op(kit: Kit) -> None:
    kit.put(a_task_in(RUNNING), a_step())

    verdicts = kit.report(
        step_event(EventType.STEP_STARTED, 1),
        task_event(EventType.TASK_CANCELLED),
        step_event(EventType.STEP_CANCELLED, 2),
    )

    assert kinds_of(verdicts) == ["Accepted", "Accepted", "NoOp"]


def test_e12_failed_task_keeps_code_message_and_step(kit: Kit) -> None:
    kit.put(a_task_in(RUNNING))
    error = a_failure(category="INPUT", code="BAD_FILE", message="The file is broken.", retryable=False)

    kit.result(task_event(EventType.TASK_FAILED, error=error, failed_step_id="02_parse"))

    failure = kit.only_task().failure
    assert failure is not None
    assert (failure.code, failure.message, failure.category) == ("BAD_FILE", "The file is broken.", "INPUT")
    assert (failure.failed_step_id, failure.retryable) == ("02_parse", False)


@pytest.mark.parametrize(("status", "lifecycle"), list(GENERIC_STATUSES.items()))
def test_e7_registered_status_is_accepted_for_its_lifecycle_only(kit: Kit, status: str, lifecycle: Lifecycle) -> None:
    kit.put(a_task_in(RUNNING), a_running_step())
    command = step_event(EventType.STEP_PROGRESS, 2, business_status=status, phase_code="ocr")

    expected = None if lifecycle is RUNNING else Reason.BUSINESS_STATUS_NOT_REGISTERED

    assert kit.reason(command) is expected


def test_l6_waiting_statuses_are_what_a_policy_shows() -> None:
    assert {"RETRY_WAIT", "WAITING_USER_ACTION"} == WAITING_STATUSES


def test_l4_generic_statuses_are_those_of_the_vocabulary() -> None:
    waiting = {"RETRY_WAIT": RUNNING, "WAITING_USER_ACTION": RUNNING}
    assert {**{lifecycle.value: lifecycle for lifecycle in Lifecycle}, **waiting} == GENERIC_STATUSES
