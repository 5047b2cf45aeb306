"""Messages for people: their fields, what can never leak into them, and which of them must arrive as themselves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import orjson
import pytest

from taskstatus.domain.commands import EventData
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import format_task_id, format_workflow_id
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.notices import notice_for
from taskstatus.domain.notifications import PASSING_FACTS, task_notifications
from taskstatus.domain.projections import (
    elapsed_ms,
    in_display_order,
    render_detail,
    render_summary,
    task_durations,
    timeline_event,
)
from taskstatus.domain.records import (
    RUNS_SHOWN,
    Audience,
    OutboxKind,
    OutboxRecord,
    Projection,
    RunOutcome,
    RunRecord,
    RunView,
    TaskView,
)
from taskstatus.domain.registration_terms import FixedLabels, RegistrationTerms
from taskstatus.domain.state import TaskFailure
from tests.unit.factories import (
    BUCKET,
    START,
    TASK_ID,
    WORKFLOW_ID,
    a_digest,
    a_failure,
    a_running_step,
    a_task,
    a_task_in,
    progress,
    step_event,
    task_event,
)
from tests.unit.service_kit import Kit, drive

SECRET = "do-not-show"
RUNNING = Lifecycle.RUNNING


def told_everything(kit: Kit) -> TaskView:
    """A failed task into which every hidden field was put with a tag."""
    step = a_running_step(input_ref=f"{SECRET}-step-input", activation_digest=a_digest(SECRET))
    kit.put(a_task_in(RUNNING, input_ref=f"{SECRET}-input", client_task_key=f"{SECRET}-key"), step)
    error = a_failure(diagnostics_ref=f"{SECRET}-diagnostics")
    data = EventData(f"{SECRET}.schema", f"{SECRET}-value".encode())
    trace = {"traceparent": f"{SECRET}-trace", "trace_id": SECRET.encode()}
    kit.report(step_event(EventType.STEP_PROGRESS, 2, of=step, progress=progress(10), data=data, **trace))
    kit.report(step_event(EventType.STEP_FAILED, 3, of=step, error=error, data=data, **trace))
    kit.report(task_event(EventType.TASK_FAILED, error=error, data=data, failed_step_id="02_parse", **trace))
    views = drive(kit.reader.task_views([TASK_ID], with_trigger=True))
    return views[TASK_ID]


def everything_shown(kit: Kit) -> Iterator[bytes]:
    """The JSON of every message and timeline entry that a person can get."""
    view = told_everything(kit)
    yield orjson.dumps(render_detail(view))
    yield from (orjson.dumps(timeline_event(event)) for event in kit.tables.events.values())
    yield from (row.payload for row in kit.tables.outbox.values() if row.payload is not None)


def test_p2_nothing_hidden_reaches_any_projection(kit: Kit) -> None:
    shown = list(everything_shown(kit))

    assert len(shown) == 7
    for message in shown:
        assert SECRET.encode() not in message
        assert SECRET.encode().hex().encode() not in message


@pytest.mark.parametrize(
    "message",
    [
        "Broken: https://storage.example.test/bucket/key?X-Signature=abc",
        "s3://bucket/tenant/secret.pdf is not readable",
        "You have an error in your SQL syntax near 'SELECT * FROM users'",
        'Traceback (most recent call last): File "parse.py", line 3, in run',
    ],
)
def test_e12_unsafe_failure_message_never_reaches_a_projection(kit: Kit, message: str) -> None:
    step = a_running_step()
    kit.put(a_task_in(RUNNING), step)

    kit.report(step_event(EventType.STEP_FAILED, 2, of=step, error=a_failure(message=message)))

    assert kit.tables.outbox
    for row in kit.tables.outbox.values():
        assert row.payload is None or message.encode() not in row.payload.replace(b'\\"', b'"')


def test_p5_summary_fields(kit: Kit) -> None:
    task = a_task_in(RUNNING, version=7, started_at=START, weight_total=1, progress_points=2_500, product_id="p-1")
    step = a_running_step(version=4)

    message = render_summary(task, step, EventType.STEP_PROGRESS, START, None)

    summary: Any = message.pop("task")
    assert message == {
        "kind": "task.summary",
        "schemaVersion": 1,
        "workflowId": format_workflow_id(WORKFLOW_ID),
        "taskId": format_task_id(TASK_ID),
        "taskType": "DOCUMENT_PROCESS",
        "eventType": "STEP_PROGRESS",
        "taskVersion": "7",
        "stepId": "02_parse",
        "operationCode": "DOCUMENT.PARSE",
        "stepVersion": "4",
    }
    assert set(summary) == {
        *("id", "version", "title", "taskType", "productId", "priority", "lifecycleStatus", "businessStatus", "health"),
        *("progressPercent", "cancelRequested", "failedStepId", "createdAt", "startedAt", "finishedAt", "elapsedMs"),
        *("totalDurationMs", "asOf", "summaryData", "statusDefinitionVersion"),
    }
    assert (summary["version"], summary["progressPercent"], summary["health"]) == ("7", 25.0, "HEALTHY")


def test_p5_summary_of_a_failure_carries_its_notice() -> None:
    task, step = a_task_in(RUNNING, version=7), a_running_step(lifecycle=Lifecycle.FAILED)
    notice = notice_for(EventType.STEP_FAILED, task, step)

    message: Any = render_summary(task, step, EventType.STEP_FAILED, START, notice)

    assert set(message["notice"]) == {
        *("id", "type", "level", "title", "message", "operationCode", "errorCode", "retryable", "requiresAction"),
        "actions",
    }


def test_p5_detail_has_the_trigger_and_every_attempt(kit: Kit) -> None:
    view = told_everything(kit)

    message: Any = render_detail(view)

    assert (message["kind"], message["eventType"], message["taskVersion"]) == ("task.detail", "TASK_FAILED", "4")
    assert message["triggerEvent"]["taskVersion"] == message["state"]["taskVersion"] == "4"
    assert "stepId" not in message
    assert [step["lifecycleStatus"] for step in message["state"]["steps"]] == ["FAILED"]
    assert message["state"]["failure"]["failedStepId"] == "02_parse"
    assert message["state"]["steps"][0]["error"]["diagnosticsRef"] == ""


def test_p5_detail_of_a_step_event_names_the_step(kit: Kit) -> None:
    view = told_everything(kit)
    trigger = next(event for event in kit.tables.events.values() if event.event_type is EventType.STEP_FAILED)

    message: Any = render_detail(replace(view, trigger=trigger))

    assert (message["stepId"], message["operationCode"]) == ("02_parse", "DOCUMENT.PARSE")


def test_p5_detail_without_a_kept_event_still_renders(kit: Kit) -> None:
    message: Any = render_detail(replace(told_everything(kit), trigger=None))
    assert (message["triggerEvent"], message["eventType"]) == (None, None)


def test_q2_elapsed_is_told_only_while_it_runs() -> None:
    later = START.replace(second=3)
    for lifecycle in Lifecycle:
        assert elapsed_ms(START, lifecycle, later) == (None if lifecycle.is_terminal else 3000)
        assert elapsed_ms(None, lifecycle, later) is None


def test_q2_durations_are_of_one_clock_and_never_negative() -> None:
    task = a_task_in(
        Lifecycle.SUCCEEDED,
        created_at=START,
        started_at=START.replace(second=2),
        finished_at=START.replace(second=9),
        duration_ms=6_900,
    )
    assert task_durations(TaskView(task, (), START)) == {
        "queueDurationMs": 2000,
        "runDurationMs": 6900,
        "totalDurationMs": 9000,
        "elapsedMs": None,
    }
    assert elapsed_ms(START.replace(second=1), RUNNING, START) == 0


def a_run(number: int, opened: int, outcome: RunOutcome | None = None, **changes: Any) -> RunView:
    """A run that was opened so many seconds after START."""
    return RunView(RunRecord(TASK_ID, BUCKET, number, "", 4, START.replace(second=opened), **changes), outcome)


def test_q2_rerun_queues_from_its_opening_and_the_total_goes_on_from_creation() -> None:
    failed = RunOutcome(Lifecycle.FAILED, "FAILED", 0, None, START, START.replace(second=9), 8_000, None)
    rerun = {"attempt": 2, "created_at": START, "started_at": START.replace(second=24)}
    runs = (a_run(1, 0, failed), a_run(2, 20, reason="once more"))
    running = TaskView(a_task_in(RUNNING, **rerun), (), START.replace(second=30), runs=runs)
    ended = replace(running, task=a_task_in(Lifecycle.SUCCEEDED, **rerun, finished_at=START.replace(second=50)))

    assert task_durations(running) == {
        "queueDurationMs": 4_000,
        "runDurationMs": None,
        "totalDurationMs": None,
        "elapsedMs": 6_000,
    }
    assert task_durations(ended)["totalDurationMs"] == 50_000


def test_r7_earlier_runs_are_shown_as_they_ended_and_the_current_one_as_the_task_stands() -> None:
    failure = TaskFailure("E1", "Broken", "INPUT", True, "02_parse")
    failed = RunOutcome(Lifecycle.FAILED, "FAILED", 20_000, failure, START, START.replace(second=9), 8_000, None)
    task = a_task_in(RUNNING, attempt=2, weight_total=4, progress_points=10_000, started_at=START.replace(second=21))
    runs = (a_run(1, 0, failed), a_run(2, 20, replace(failed, lifecycle=Lifecycle.CANCELLED), reason="once more"))

    shown: Any = render_detail(TaskView(task, (), START, runs=runs))["state"]

    first, second = shown["runs"]
    assert (first["lifecycleStatus"], first["failure"]["code"], first["progressPercent"]) == ("FAILED", "E1", 50.0)
    assert (first["runDurationMs"], first["reason"]) == (8_000, "")
    assert (second["lifecycleStatus"], second["progressPercent"], second["reason"]) == ("RUNNING", 25.0, "once more")
    assert "failure" not in second


def test_p5_detail_holds_the_last_runs_only() -> None:
    outcome = RunOutcome(Lifecycle.FAILED, "FAILED", 0, None, START, START, None, None)
    runs = tuple(a_run(number, 0, outcome) for number in range(1, 2 * RUNS_SHOWN))
    task = a_task_in(Lifecycle.FAILED, attempt=2 * RUNS_SHOWN - 1)

    shown: Any = render_detail(TaskView(task, (), START, runs=runs))["state"]

    assert [run["taskAttempt"] for run in shown["runs"]] == list(range(RUNS_SHOWN, 2 * RUNS_SHOWN))


def test_p2_who_pays_and_how_long_it_is_kept_is_in_no_message(kit: Kit) -> None:
    labels = FixedLabels(f"{SECRET}-billing", f"{SECRET}-retention", "CONFIDENTIAL")
    kit.put(a_task(terms=RegistrationTerms(labels=labels)), a_running_step())
    kit.report(step_event(EventType.STEP_PROGRESS, 2, of=a_running_step(), progress=progress(10)))
    view = drive(kit.reader.task_views([TASK_ID], with_trigger=True))[TASK_ID]

    shown = [orjson.dumps(render_detail(view)), *(row.payload or b"" for row in kit.tables.outbox.values())]

    assert b"CONFIDENTIAL" in shown[0]
    assert all(SECRET.encode() not in message for message in shown)


def test_p5_attempts_are_shown_by_order_id_and_attempt() -> None:
    first, retried = a_running_step(), a_running_step(attempt=2)
    early = a_running_step(step_id="01_prepare", order=0)
    twin = a_running_step(step_id="02_also", order=1)
    assert in_display_order([retried, twin, first, early]) == (early, twin, first, retried)


def rows_of(kit: Kit, event_type: EventType, **changes: Any) -> tuple[OutboxRecord, OutboxRecord]:
    """The two outbox rows of a fact."""
    step = a_running_step() if event_type.startswith("STEP_") else None
    return task_notifications(kit.tools, a_task(**changes), step, event_type, "00-trace")


def test_o3_only_passing_facts_may_be_superseded(kit: Kit) -> None:
    for event_type in set(EventType) - {EventType.WORKFLOW_CREATED}:
        summary, detail = rows_of(kit, event_type)
        assert summary.protected is detail.protected is (event_type not in PASSING_FACTS), event_type


def test_o3_passing_facts_are_starts_progress_and_what_ends_stale() -> None:
    starts = {EventType.TASK_STARTED, EventType.STEP_STARTED}
    assert starts | {EventType.STEP_PROGRESS, EventType.STEP_HEALTH_CHANGED} == PASSING_FACTS


def test_p3_stale_is_protected_by_its_notice(kit: Kit) -> None:
    step = a_running_step(stale=True)
    summary, detail = task_notifications(kit.tools, a_task(), step, EventType.STEP_HEALTH_CHANGED, "")
    assert summary.protected
    assert detail.protected


def test_o3_needs_action_is_protected(kit: Kit) -> None:
    summary, _ = rows_of(kit, EventType.STEP_PROGRESS, lifecycle=RUNNING, business_status="WAITING_USER_ACTION")
    assert summary.protected


def test_p1_summary_carries_itself_and_detail_is_rendered_later(kit: Kit) -> None:
    summary, detail = rows_of(kit, EventType.STEP_PROGRESS, shared=True, version=5)

    assert (summary.projection, summary.audience, summary.kind) == (
        Projection.USER_SUMMARY,
        Audience.USERS,
        OutboxKind.PUBLISH,
    )
    assert (detail.projection, detail.audience, detail.payload) == (Projection.TASK_DETAIL, Audience.VIEWERS, None)
    assert summary.aggregate_version == detail.aggregate_version == 5
    assert summary.payload is not None
    assert json.loads(summary.payload)["task"]["version"] == "5"
    assert summary.outbox_id != detail.outbox_id
    assert (summary.tenant_id, summary.owner_id, summary.traceparent) == ("t-01", "u-88", "00-trace")
