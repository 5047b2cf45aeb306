"""What people are told of silence: a warning, a request to look, and never a failure (P-3, O-3, H-5)."""

from __future__ import annotations

import json

from taskstatus.domain.events import EventType
from taskstatus.domain.ids import format_task_id
from taskstatus.domain.records import OutboxRecord, Projection
from tests.unit.factories import TASK_ID
from tests.unit.health_kit import HealthKit

STALE_EVENT, LOST_EVENT = EventType.STEP_HEALTH_CHANGED, EventType.WORKER_LOST


def summaries(kit: HealthKit, event_type: EventType) -> list[OutboxRecord]:
    rows = [row for row in kit.tables.outbox.values() if row.event_type is event_type]
    by_version = sorted(rows, key=lambda row: row.aggregate_version)
    return [row for row in by_version if row.projection is Projection.USER_SUMMARY]


def message(row: OutboxRecord) -> dict[str, object]:
    assert row.payload is not None
    content: dict[str, object] = json.loads(row.payload)
    return content


def test_p3_stale_reaches_the_summary_with_a_warning_that_is_protected() -> None:
    kit = HealthKit()
    kit.go_stale()

    (row,) = summaries(kit, STALE_EVENT)

    notice = message(row)["notice"]
    assert isinstance(notice, dict)
    assert (notice["id"], notice["type"], notice["level"]) == (f"{format_task_id(TASK_ID)}:3", STALE_EVENT, "WARNING")
    assert (notice["title"], notice["operationCode"]) == ("Annual report: Parse cannot be confirmed", "DOCUMENT.PARSE")
    assert (notice["requiresAction"], notice["actions"]) == (False, ["VIEW_DETAILS"])
    assert row.protected


def test_o3_recovery_has_no_notice_and_a_newer_summary_may_stand_for_it() -> None:
    kit = HealthKit()
    kit.go_stale()
    kit.recover(1)

    _, back = summaries(kit, STALE_EVENT)

    assert "notice" not in message(back)
    assert not back.protected


def test_p3_lost_worker_asks_for_a_person_and_is_protected() -> None:
    kit = HealthKit()
    kit.go_stale()
    kit.wait(301)
    kit.record(kit.overdue())

    (row,) = summaries(kit, LOST_EVENT)

    notice = message(row)["notice"]
    assert isinstance(notice, dict)
    assert (notice["type"], notice["level"], notice["requiresAction"]) == (LOST_EVENT, "WARNING", True)
    assert notice["actions"] == ["CONTACT_SUPPORT", "VIEW_DETAILS"]
    assert row.protected


def test_h5_texts_of_silence_never_speak_of_a_failure_that_happened() -> None:
    kit = HealthKit()
    kit.go_stale()
    kit.wait(301)
    kit.record(kit.overdue())
    texts = [str(message(row)["notice"]) for row in (*summaries(kit, STALE_EVENT), *summaries(kit, LOST_EVENT))]
    assert len(texts) == 2
    assert not any("failed" in text.replace("Nothing has failed", "") for text in texts)
