"""What a new run begins with, what it takes over, and which steps it may skip (R-7, X-3, E-6)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from taskstatus.domain.errors import RefusedError
from taskstatus.domain.events import EventType
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.reasons import Reason
from taskstatus.domain.state import DurationSource, TaskFailure
from taskstatus.domain.task_commands import CommandOutcome, RerunTask, SkippedStep
from tests.unit.factories import (
    START,
    TASK_ID,
    a_definition,
    a_head,
    a_running_step,
    a_step,
    a_task_in,
    an_id,
    step_event,
    task_event,
)
from tests.unit.service_kit import Kit, drive

RUNNING, FAILED, SUCCEEDED = Lifecycle.RUNNING, Lifecycle.FAILED, Lifecycle.SUCCEEDED
COMPLETED_ID, FAILED_ID, DYNAMIC_ID = "evt-completed", "evt-failed", "evt-dynamic"


def rerun(kit: Kit, *skipped: SkippedStep, command_id: str = "cmd-1") -> CommandOutcome:
    """A rerun by the coordinator."""
    return drive(kit.commands.rerun(RerunTask(a_head(command_id), 0, "once more", skipped)))


def skip(step_id: str = "01_read", source: str = COMPLETED_ID) -> SkippedStep:
    """A skip of a step by an event."""
    return SkippedStep(step_id, "good still", source)


def ended(kit: Kit) -> None:
    """A task whose first step succeeded and whose second failed; a dynamic step succeeded too."""
    read, parse = a_definition(step_id="01_read", weight=3), a_definition(step_id="02_parse", order=2)
    search = a_definition(step_id="dyn_search", dynamic=True, order=1_002, weight=0)
    first = a_running_step(definition=read)
    second = a_running_step(definition=parse, execution_id=an_id(4))
    third = a_running_step(definition=search, execution_id=an_id(5))
    kit.put(a_task_in(RUNNING, weight_total=4, open_steps=3, open_dynamic=1), first, second, third)
    kit.report(step_event(EventType.STEP_COMPLETED, 2, of=first, event_id=COMPLETED_ID))
    kit.report(step_event(EventType.STEP_FAILED, 2, of=second, event_id=FAILED_ID))
    kit.report(step_event(EventType.STEP_COMPLETED, 2, of=third, event_id=DYNAMIC_ID))
    kit.report(task_event(EventType.TASK_FAILED, failed_step_id="02_parse"))


def test_r7_run_begins_with_nothing_of_the_one_before(kit: Kit) -> None:
    remains: dict[str, Any] = {
        "failure": TaskFailure("PARSE_FAILED", "Unreadable.", "INPUT", False, "02_parse"),
        "cancel_requested": True,
        "progress_points": 5_000,
        "stale_steps": 1,
        "degraded_steps": 1,
        "open_dynamic": 2,
        "producer_seqs": {"coordinator": 9},
        "started_at": START,
        "finished_at": START,
        "duration_ms": 8,
        "duration_source": DurationSource.WORKER_MONOTONIC,
        "summary_schema": "document.parse.v1",
        "summary_data": b"{}",
    }
    kit.put(a_task_in(FAILED, **remains), a_step(lifecycle=FAILED))

    rerun(kit)

    task = kit.only_task()
    begun = {name: getattr(task, name) for name in remains}
    assert begun == {
        "failure": None,
        "cancel_requested": False,
        "progress_points": 0,
        "stale_steps": 0,
        "degraded_steps": 0,
        "open_dynamic": 0,
        "producer_seqs": {},
        "started_at": None,
        "finished_at": None,
        "duration_ms": None,
        "duration_source": None,
        "summary_schema": "",
        "summary_data": b"",
    }
    assert (task.lifecycle, task.open_steps) == (Lifecycle.PENDING, 1)
    told = [row.payload for row in kit.tables.outbox.values() if row.payload]
    assert [payload.count(b'"progressPercent":0.0') for payload in told] == [1]


def test_r7_input_and_weights_are_frozen_with_the_manifest(kit: Kit) -> None:
    ended(kit)

    rerun(kit)

    first, second = (kit.tables.runs[(TASK_ID, number)].run for number in (1, 2))
    assert (second.input_ref, second.weight_total) == (first.input_ref, first.weight_total) == ("input://task-1", 4)
    before = {step.definition for step in kit.tables.steps_in(TASK_ID, 1) if not step.definition.dynamic}
    assert {step.definition for step in kit.tables.steps_in(TASK_ID, 2)} == before


def test_r7_every_step_begins_with_its_first_attempt(kit: Kit) -> None:
    kit.put(a_task_in(FAILED), a_step(lifecycle=FAILED, superseded=True), a_step(attempt=2, lifecycle=FAILED))
    rerun(kit)
    assert [(step.attempt, step.superseded) for step in kit.tables.steps_in(TASK_ID, 2)] == [(1, False)]


def test_e6_step_version_goes_on_from_the_last_attempt(kit: Kit) -> None:
    first = a_step(lifecycle=FAILED, superseded=True, version=3)
    kit.put(a_task_in(FAILED), first, a_step(attempt=2, lifecycle=FAILED, version=6, execution_id=an_id(4)))
    rerun(kit)
    assert kit.step().version == 7


@pytest.mark.parametrize(
    "skipped",
    [
        skip("dyn_search", DYNAMIC_ID),
        skip("02_parse", FAILED_ID),
        skip("01_read", DYNAMIC_ID),
        skip("01_read", "evt-coordinator-TASK_FAILED-1"),
    ],
)
def test_x3_only_a_step_of_the_manifest_is_skipped_and_only_for_its_own_result(kit: Kit, skipped: SkippedStep) -> None:
    ended(kit)
    before = (dict(kit.tables.tasks), dict(kit.tables.steps), dict(kit.tables.runs), dict(kit.tables.events))

    with pytest.raises(RefusedError) as caught:
        rerun(kit, skipped)

    assert (kit.tables.tasks, kit.tables.steps, kit.tables.runs, kit.tables.events) == before
    assert caught.value.reason is Reason.INVALID_ARGUMENT
    assert [violation.field.partition(".")[0] for violation in caught.value.violations] == ["skippedSteps[0]"]


@pytest.mark.parametrize("has_succeeded", [True, False])
def test_x3_skipped_step_shows_the_result_that_it_had_at_the_end(kit: Kit, has_succeeded: bool) -> None:
    ended(kit)
    key = (TASK_ID, 1, "01_read", 1)
    lifecycle = SUCCEEDED if has_succeeded else FAILED
    shown = {"data_schema": "document.parse.v1", "shown_data": b'{"pages":3}'}
    kit.tables.steps[key] = replace(kit.tables.steps[key], lifecycle=lifecycle, **shown)

    rerun(kit, skip())

    step = kit.step("01_read")
    assert (step.data_schema, step.shown_data) == (tuple(shown.values()) if has_succeeded else ("", b""))


def test_x3_events_of_skips_have_the_same_ids_whenever_the_command_is_carried_out_again(kit: Kit) -> None:
    ids = []
    for tried in (kit, Kit()):
        ended(tried)
        rerun(tried, skip(), command_id="cmd-9")
        ids.append([e.event_id for e in tried.tables.events.values() if e.event_type is EventType.STEP_SKIPPED])
    other = Kit()
    ended(other)
    rerun(other, skip(), command_id="cmd-10")

    assert ids[0] == ids[1]
    assert ids[0] != [e.event_id for e in other.tables.events.values() if e.event_type is EventType.STEP_SKIPPED]
