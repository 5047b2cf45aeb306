"""A correction replaces how a task ended, and keeps what was there before (L-3, L-4)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from taskstatus.domain.events import EventType
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.reasons import Reason
from taskstatus.domain.state import TaskFailure
from taskstatus.domain.task_commands import (
    CommandHead,
    CorrectTask,
)
from tests.unit.factories import (
    REVIEWED,
    TASK_ID,
    a_failure,
    a_head,
    a_running_step,
    a_step,
    a_task_in,
    an_actor,
)
from tests.unit.service_kit import Kit, drive, refusal

RUNNING, FAILED, SUCCEEDED = Lifecycle.RUNNING, Lifecycle.FAILED, Lifecycle.SUCCEEDED


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
