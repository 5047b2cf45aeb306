"""A rerun opens a new run of the same task and keeps the earlier one; steps may be skipped (R-7, X-3)."""

from __future__ import annotations

import pytest

from taskstatus.domain.events import EventType
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.reasons import Reason
from taskstatus.domain.task_commands import (
    RerunTask,
    SkippedStep,
)
from tests.unit.factories import (
    EXECUTION_ID,
    TASK_ID,
    a_definition,
    a_head,
    a_person,
    a_running_step,
    a_step,
    a_task_in,
    an_id,
    step_event,
    task_event,
)
from tests.unit.service_kit import Kit, drive, refusal

RUNNING, FAILED, SUCCEEDED = Lifecycle.RUNNING, Lifecycle.FAILED, Lifecycle.SUCCEEDED


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
