"""The design's document task (3.4): created = 1, STARTED = 2, COMPLETED = 3, next STARTED = 4, to SUCCEEDED (R-10)."""

from __future__ import annotations

from taskstatus.domain.commands import TaskEventCommand
from taskstatus.domain.events import EventType
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.progress import Progress
from taskstatus.domain.records import ReportResult
from tests.unit.factories import (
    a_step_spec,
    a_task_spec,
    a_workflow_command,
    an_activation,
    step_event,
    task_event,
)
from tests.unit.service_kit import Kit, drive

STEPS = (
    a_step_spec("01_prepare", operation_code="FILE.PREPARE", expected_producer="file-service"),
    a_step_spec("02_parse", operation_code="DOCUMENT.PARSE", expected_producer="document-parser"),
    a_step_spec("03_store", operation_code="RESULT.PERSIST", expected_producer="result-service"),
)


def created(kit: Kit) -> None:
    """The three-step task, each step activated."""
    drive(kit.registration.create_workflow(a_workflow_command(a_task_spec(steps=STEPS))))
    for step in STEPS:
        drive(kit.registration.activate(an_activation(kit.only_task().envelope.task_id, step.step_id)))


def report(kit: Kit, step_id: str, event_type: EventType, source_seq: int, **changes: object) -> ReportResult:
    """One event of a step's worker."""
    workflow_id = kit.only_task().envelope.workflow_id
    event_id = f"evt-{step_id}-{source_seq}"
    of = kit.step(step_id)
    return kit.result(step_event(event_type, source_seq, of=of, workflow_id=workflow_id, event_id=event_id, **changes))


def coordinator(kit: Kit, event_type: EventType, source_seq: int) -> TaskEventCommand:
    """A task event of the coordinator."""
    command: TaskEventCommand = task_event(event_type, source_seq, task_id=kit.only_task().envelope.task_id)
    return command


def test_r10_golden_trace_of_the_design(kit: Kit) -> None:
    created(kit)
    assert kit.only_task().version == 1

    assert report(kit, "01_prepare", EventType.STEP_STARTED, 1).task_version == 2
    ended = report(kit, "01_prepare", EventType.STEP_COMPLETED, 2, duration_ms=3100)
    assert ended.task_version == 3
    assert ended.step_version == 3
    assert report(kit, "02_parse", EventType.STEP_STARTED, 1).task_version == 4
    for number, pages in enumerate((35, 60), start=2):
        at = report(kit, "02_parse", EventType.STEP_PROGRESS, number, progress=Progress(pages, 100, "%"))
        assert at.task_version == 3 + number
    assert report(kit, "02_parse", EventType.STEP_COMPLETED, 4, duration_ms=18000).task_version == 7
    assert report(kit, "03_store", EventType.STEP_STARTED, 1).task_version == 8
    assert report(kit, "03_store", EventType.STEP_COMPLETED, 2).lifecycle is Lifecycle.RUNNING

    result = kit.result(coordinator(kit, EventType.TASK_COMPLETED, 1))

    assert (result.task_version, result.lifecycle, result.business_status) == (10, Lifecycle.SUCCEEDED, "SUCCEEDED")
    versions = [version for _, version in sorted(kit.tables.events)]
    assert versions == list(range(1, 11))


def test_r10_activating_attempt_one_shows_nothing(kit: Kit) -> None:
    drive(kit.registration.create_workflow(a_workflow_command(a_task_spec(steps=STEPS))))
    before = kit.only_task()
    outbox = dict(kit.tables.outbox)

    bound = drive(kit.registration.activate(an_activation(before.envelope.task_id, "02_parse")))

    after = kit.only_task()
    assert bound.created
    assert (after.version, after.committed_at, after.open_steps) == (before.version, before.committed_at, 3)
    assert after.row_revision == before.row_revision + 1
    assert kit.tables.outbox == outbox
    assert [version for _, version in kit.tables.events] == [1]


def test_e7_answer_holds_both_statuses_of_the_task_after_the_commit(kit: Kit) -> None:
    created(kit)

    result = report(kit, "02_parse", EventType.STEP_STARTED, 1, business_status="WAITING_USER_ACTION")

    assert (result.accepted, result.changed, result.duplicate, result.stale, result.coalesced) == (
        True,
        True,
        False,
        False,
        False,
    )
    assert (result.step_id, result.operation_code, result.reason) == ("02_parse", "DOCUMENT.PARSE", None)
    assert (result.lifecycle, result.business_status) == (Lifecycle.RUNNING, "WAITING_USER_ACTION")
    assert result.committed_at == kit.only_task().committed_at


def test_e7_task_keeps_its_business_status_until_its_lifecycle_changes(kit: Kit) -> None:
    created(kit)

    report(kit, "01_prepare", EventType.STEP_STARTED, 1, business_status="WAITING_USER_ACTION")
    kept = report(kit, "01_prepare", EventType.STEP_COMPLETED, 2)
    ended = kit.result(coordinator(kit, EventType.TASK_COMPLETED, 1))

    assert kept.business_status == "WAITING_USER_ACTION"
    assert ended.business_status == "SUCCEEDED"


def test_e7_step_that_reported_no_business_status_shows_none_of_another_lifecycle(kit: Kit) -> None:
    created(kit)

    report(kit, "01_prepare", EventType.STEP_STARTED, 1)
    report(kit, "01_prepare", EventType.STEP_COMPLETED, 2)

    assert kit.step("01_prepare").business_status in ("", "SUCCEEDED")


def test_r10_durations_are_the_workers_own_else_the_databases(kit: Kit) -> None:
    created(kit)
    report(kit, "01_prepare", EventType.STEP_STARTED, 1)
    report(kit, "01_prepare", EventType.STEP_COMPLETED, 2, duration_ms=3100)
    report(kit, "02_parse", EventType.STEP_STARTED, 1)
    kit.store.clock.advance(18)
    report(kit, "02_parse", EventType.STEP_COMPLETED, 2)

    told, judged = kit.step("01_prepare"), kit.step("02_parse")

    assert (told.duration_ms, told.duration_source) == (3100, "WORKER_MONOTONIC")
    assert (judged.duration_ms, judged.duration_source) == (18000, "SERVER_WALL_CLOCK")
