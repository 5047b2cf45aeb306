"""Every validator keeps silent on a true history, and speaks on one that is doctored against its rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import orjson
import pytest

from taskstatus.domain.events import EventType
from taskstatus.domain.ids import ExecutionId
from taskstatus.domain.lease import LeaseState
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.records import EventRecord
from taskstatus.domain.state import StepState
from taskstatus.domain.workflow_aggregate import MemberCounts
from tests.history import rules_health, rules_runs
from tests.history.building import FIRST, SECOND, START, STEP, TASK, WORKFLOW, a_true_history
from tests.history.model import History, Invocation, Outcome, Publication
from tests.history.validators import VALIDATORS, check

Doctor = Callable[[History], History]
STARTED, FIRST_PROGRESS, PROGRESS, COMPLETED = "parse.1.1", "parse.1.2", "parse.1.3", "parse.2.2"


def with_tables(history: History, **changes: Any) -> History:
    """The same with other rows."""
    return replace(history, tables=replace(history.tables, **changes), folds={})


def with_event(history: History, version: int, **changes: Any) -> History:
    """One row of the log changed."""
    row = replace(history.tables.events[TASK, version], **changes)
    return with_tables(history, events={**history.tables.events, (TASK, version): row})


def with_step(history: History, place: int, **changes: Any) -> History:
    """The row of one attempt changed."""
    key = (TASK, 1, STEP, place)
    step: StepState = replace(history.tables.steps[key], **changes)
    return with_tables(history, steps={**history.tables.steps, key: step})


def reopened(history: History, execution_id: ExecutionId) -> LeaseState:
    """A lease that came back to life."""
    return replace(history.tables.leases[execution_id], closed_at=None)


def without_event(history: History, version: int) -> History:
    """One row of the log lost."""
    return with_tables(history, events={key: row for key, row in history.tables.events.items() if key[1] != version})


def an_event(history: History, event_id: str) -> EventRecord:
    """The row of an event."""
    return next(row for row in history.tables.events.values() if row.event_id == event_id)


def with_workflow(history: History, **changes: Any) -> History:
    """The row of the workflow changed."""
    return with_tables(history, workflows={WORKFLOW: replace(history.tables.workflows[WORKFLOW], **changes)})


def with_workflow_events(history: History, without: int) -> History:
    """One row of the workflow's log lost."""
    rows = history.tables.workflow_events.items()
    return with_tables(history, workflow_events={key: row for key, row in rows if key[1] != without})


def with_repeated_aggregate(history: History) -> History:
    """The workflow's last version shows what the one before showed."""
    shown = {
        (row.record.aggregate_version, row.record.audience): row.record.payload
        for row in history.tables.outbox
        if row.record.aggregate_id == WORKFLOW
    }
    outbox = [
        replace(row, record=replace(row.record, payload=shown[2, row.record.audience]))
        if row.record.aggregate_id == WORKFLOW and row.record.aggregate_version == 3
        else row
        for row in history.tables.outbox
    ]
    return with_tables(history, outbox=tuple(outbox))


def a_call(history: History, event_id: str) -> Invocation:
    """What the client knows of an event."""
    return next(call for call in history.invocations if call.event_id == event_id)


def with_call(history: History, event_id: str, **changes: Any) -> History:
    """One answer changed."""
    calls = [replace(call, **changes) if call.event_id == event_id else call for call in history.invocations]
    return replace(history, invocations=tuple(calls))


def with_later_call(history: History, event_id: str, **changes: Any) -> History:
    """The same event sent once more, after everything else."""
    later = replace(a_call(history, event_id), number=900, call=900, invoked_at=900.0, done_at=901.0, **changes)
    return replace(history, invocations=(*history.invocations, later))


def with_publications(history: History, change: Callable[[list[Publication]], list[Publication]]) -> History:
    """Other messages."""
    return replace(history, publications=tuple(change(list(history.publications))))


def details(publications: list[Publication]) -> list[Publication]:
    """The messages of the detail channel."""
    return [one for one in publications if one.version is not None]


def with_detail(history: History, version: int, edit: Callable[[dict[str, Any]], None]) -> History:
    """One detail message edited."""

    def change(publications: list[Publication]) -> list[Publication]:
        return [_edited(one, edit) if one.version == version else one for one in publications]

    return with_publications(history, change)


def _edited(publication: Publication, edit: Callable[[dict[str, Any]], None]) -> Publication:
    message = orjson.loads(publication.data)
    edit(message)
    return replace(publication, data=orjson.dumps(message))


def without_dedup(history: History, event_id: str) -> History:
    """A dedup row lost."""
    return with_tables(history, dedups={key: row for key, row in history.tables.dedups.items() if key[1] != event_id})


def with_second_effect(history: History, event_id: str) -> History:
    """The event committed once more, as version 9."""
    again = replace(an_event(history, event_id), task_version=9)
    return with_tables(history, events={**history.tables.events, (TASK, 9): again})


def in_one_call(history: History, *answers: tuple[str, Outcome, str]) -> History:
    """Some events of attempt 1 answered in one call."""
    for event_id, outcome, reason in answers:
        history = with_call(history, event_id, call=77, outcome=outcome, reason=reason)
    return history


def with_open_steps(history: History, count: int) -> History:
    """The task's counter changed."""
    return with_tables(history, tasks={TASK: replace(history.tables.tasks[TASK], open_steps=count)})


def with_outbox_statuses(history: History, status: str) -> History:
    """Every row in one state."""
    return with_tables(history, outbox=tuple(replace(row, status=status) for row in history.tables.outbox))


def with_rolled_back_row(history: History) -> History:
    """A row of a version that was never committed."""
    row = next(row for row in history.tables.outbox if row.record.aggregate_id == TASK)
    ghost = replace(row, record=replace(row.record, aggregate_version=44))
    return with_tables(history, outbox=(*history.tables.outbox, ghost))


def rename(message: dict[str, Any]) -> None:
    """Another trigger event."""
    message["triggerEvent"]["eventId"] = "another"


def mix_steps(message: dict[str, Any]) -> None:
    """Steps of another version."""
    message["state"]["steps"][0]["stepVersion"] = "99"


DOCTORED: list[tuple[str, Doctor]] = [
    ("acknowledged_exists_once_with_its_version", lambda h: without_event(h, 3)),
    ("acknowledged_exists_once_with_its_version", lambda h: with_call(h, STARTED, version=5)),
    ("acknowledged_exists_once_with_its_version", lambda h: with_second_effect(h, STARTED)),
    ("acknowledged_exists_once_with_its_version", lambda h: without_dedup(h, FIRST_PROGRESS)),
    ("acknowledged_exists_once_with_its_version", lambda h: with_call(h, FIRST_PROGRESS, version=2)),
    (
        "unknown_is_there_once_or_not_at_all",
        lambda h: with_second_effect(with_call(h, STARTED, outcome=Outcome.UNKNOWN), STARTED),
    ),
    (
        "unknown_is_there_once_or_not_at_all",
        lambda h: with_later_call(
            with_call(h, STARTED, outcome=Outcome.UNKNOWN), STARTED, outcome=Outcome.OK, version=6
        ),
    ),
    (
        "committed_event_is_answered_with_its_first_result",
        lambda h: with_later_call(h, STARTED, outcome=Outcome.REFUSED, reason="STALE_SEQUENCE"),
    ),
    (
        "committed_event_is_answered_with_its_first_result",
        lambda h: with_later_call(h, STARTED, outcome=Outcome.NO_OP),
    ),
    (
        "committed_event_is_answered_with_its_first_result",
        lambda h: with_later_call(h, FIRST_PROGRESS, outcome=Outcome.OK),
    ),
    ("rejected_left_nothing", lambda h: with_call(h, STARTED, outcome=Outcome.REFUSED, reason="STALE_ATTEMPT")),
    ("rejected_left_nothing", lambda h: with_call(h, FIRST_PROGRESS, outcome=Outcome.NO_OP)),
    ("one_effect_per_event_id", lambda h: without_event(h, 3)),
    ("one_effect_per_event_id", lambda h: without_dedup(h, STARTED)),
    ("one_effect_per_event_id", lambda h: with_second_effect(h, STARTED)),
    ("one_effect_per_event_id", lambda h: with_event(h, 3, digest=bytes(32))),
    ("one_effect_per_event_id", lambda h: with_later_call(h, STARTED, content="other", outcome=Outcome.OK)),
    (
        "broken_stream_waits",
        lambda h: in_one_call(h, (STARTED, Outcome.UNKNOWN, "UNAVAILABLE"), (PROGRESS, Outcome.OK, "")),
    ),
    (
        "broken_stream_waits",
        lambda h: with_call(with_call(h, STARTED, call=77, version=6), "parse.1.4", call=77, version=4),
    ),
    ("one_execution_per_attempt", lambda h: with_call(h, "activate-2", execution_id=FIRST)),
    ("one_task_per_client_key", lambda h: with_tables(h, tasks={})),
    ("every_event_is_answered", lambda h: with_later_call(h, STARTED, outcome=Outcome.UNKNOWN)),
    ("every_event_is_answered", lambda h: replace(h, converged=False)),
    ("every_event_is_answered", lambda h: replace(h, notes=("relay-1 died",))),
    ("versions_are_gapless", lambda h: without_event(h, 4)),
    ("versions_are_gapless", lambda h: without_event(h, 8)),
    ("versions_are_gapless", lambda h: with_event(h, 4, committed_at=START)),
    ("versions_are_gapless", lambda h: with_event(h, 4, received_at=START + timedelta(days=1))),
    ("versions_are_gapless", lambda h: with_event(h, 4, step_version=9)),
    ("fold_equals_rows", lambda h: with_step(h, 2, lifecycle=Lifecycle.FAILED)),
    ("fold_equals_rows", lambda h: with_step(h, 1, credited_points=1)),
    ("fold_equals_rows", lambda h: with_step(h, 1, started_at=START)),
    ("fold_equals_rows", lambda h: with_event(h, 3, business_status="CANCELLED")),
    ("fold_equals_rows", lambda h: with_event(h, 3, step_attempt=7)),
    ("terminal_never_reverts", lambda h: with_event(h, 6, lifecycle=Lifecycle.SUCCEEDED)),
    ("terminal_never_reverts", lambda h: with_event(h, 6, step_attempt=1)),
    ("leases_follow_steps", lambda h: with_tables(h, leases={**h.tables.leases, SECOND: reopened(h, SECOND)})),
    ("retries_supersede", lambda h: with_step(h, 1, superseded=False)),
    ("retries_supersede", lambda h: with_step(h, 1, lifecycle=Lifecycle.SUCCEEDED)),
    ("retries_supersede", lambda h: with_step(h, 2, superseded=True)),
    ("retries_supersede", lambda h: with_step(h, 2, attempt=3)),
    ("counters_are_the_sum_of_the_steps", lambda h: with_open_steps(h, 1)),
    (
        "outbox_reaches_every_channel",
        lambda h: with_publications(
            h,
            lambda all_: [one for one in all_ if one.version is not None or one.message["eventType"] != "STEP_FAILED"],
        ),
    ),
    (
        "outbox_reaches_every_channel",
        lambda h: with_publications(h, lambda all_: [one for one in all_ if one.version != 8]),
    ),
    ("workflow_versions_are_gapless", lambda h: with_workflow_events(h, 2)),
    ("workflow_versions_are_gapless", lambda h: with_tables(h, outbox=h.tables.outbox[:-1])),
    ("workflows_follow_their_tasks", lambda h: with_workflow(h, counts=MemberCounts(running=1))),
    ("workflows_follow_their_tasks", lambda h: with_workflow(h, lifecycle=Lifecycle.RUNNING)),
    ("aggregates_differ", lambda h: with_repeated_aggregate(h)),
    ("every_version_has_its_rows", lambda h: with_tables(h, outbox=h.tables.outbox[:-3])),
    ("every_version_has_its_rows", with_rolled_back_row),
    (
        "nothing_uncommitted_is_shown",
        lambda h: with_publications(h, lambda all_: [replace(all_[0], data=all_[0].data.replace(b"Import", b"Other"))]),
    ),
    ("nothing_uncommitted_is_shown", lambda h: without_event(h, 3)),
    ("nothing_uncommitted_is_shown", lambda h: with_detail(h, 3, rename)),
    (
        "nothing_uncommitted_is_shown",
        lambda h: with_publications(h, lambda all_: [replace(one, at=START) for one in all_]),
    ),
    ("detail_shows_one_version", lambda h: with_detail(h, 5, mix_steps)),
    ("detail_never_goes_back", lambda h: with_publications(h, lambda all_: details(all_)[::-1])),
    (
        "detail_never_goes_back",
        lambda h: with_publications(h, lambda all_: [replace(one, version=None) for one in details(all_)]),
    ),
    (
        "channels_hold_only_their_own",
        lambda h: with_publications(h, lambda all_: [replace(all_[0], channel="task_user:t-02/ada")]),
    ),
    ("outbox_is_drained", lambda h: with_outbox_statuses(h, "DEAD")),
    ("outbox_is_drained", lambda h: with_outbox_statuses(h, "PROCESSING")),
    (
        "without_faults_nothing_is_published_twice",
        lambda h: with_publications(h, lambda all_: [*all_, all_[0]]),
    ),
]


def test_c2_a_true_history_breaks_no_rule() -> None:
    history = a_true_history()

    assert check(history) == []
    assert [row.event_type for row in history.tables.log_of(TASK)][-1] is EventType.TASK_COMPLETED
    assert {call.outcome for call in history.invocations} == {Outcome.OK, Outcome.ABSORBED}


@pytest.mark.parametrize(
    ("validator", "doctor"), DOCTORED, ids=[f"{name}-{place}" for place, (name, _) in enumerate(DOCTORED)]
)
def test_c2_a_doctored_history_is_told_by_its_validator(validator: str, doctor: Doctor) -> None:
    violations = check(doctor(a_true_history()))

    assert validator in {violation.validator for violation in violations}


def test_c2_every_validator_is_shown_to_speak() -> None:
    elsewhere = (rules_health.__name__, rules_runs.__name__)
    others = {rule.__name__ for rule in VALIDATORS if rule.__module__ not in elsewhere}

    assert others == {name for name, _ in DOCTORED}


def test_c2_an_unknown_event_may_be_there_or_not() -> None:
    history = a_true_history()
    there = with_later_call(
        with_call(history, STARTED, outcome=Outcome.UNKNOWN, version=None), STARTED, outcome=Outcome.OK, duplicate=True
    )
    never = replace(a_call(history, STARTED), event_id="never", outcome=Outcome.UNKNOWN, number=0, invoked_at=0.0)
    refused = replace(never, number=901, invoked_at=901.0, outcome=Outcome.REFUSED, reason="TERMINAL")

    assert check(replace(there, invocations=(*there.invocations, never, refused))) == []
