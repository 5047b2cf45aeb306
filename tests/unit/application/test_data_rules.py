"""What an event's data may be and which of its fields are shown, by its operation's definition (P-2, L-5, E-2)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from taskstatus.domain.commands import EventData
from taskstatus.domain.errors import invalid
from taskstatus.domain.events import EventType
from taskstatus.domain.guards import GUARDS
from taskstatus.domain.projections import render_detail
from taskstatus.domain.reasons import Reason
from taskstatus.domain.verdicts import Refused, Verdict
from tests.unit.factories import an_operation
from tests.unit.service_kit import drive, reason_of

from .reporting_kit import COORDINATOR_SERVICE, ReportingKit

VALUE = {"language": "zh", "resultRef": "result://secret", "pages": 36}
GOOD = EventData("document.parse.v1", b"wire", value=VALUE)


@pytest.fixture
def defined(reporting: ReportingKit) -> ReportingKit:
    """A second attempt of the parse step, bound to a published definition and started."""
    reporting.kit.definitions.add(an_operation())
    reporting.bound = reporting.activate(attempt=2)
    reporting.report(reporting.by_handle(EventType.STEP_STARTED, 1))
    return reporting


def completed(defined: ReportingKit, data: EventData, event_type: EventType = EventType.STEP_COMPLETED) -> Verdict:
    """The verdict of an event with this data."""
    (verdict,) = defined.report(defined.by_handle(event_type, 2, data=data))
    return verdict


def test_p2_only_whitelisted_fields_are_shown_and_each_where_it_may(defined: ReportingKit) -> None:
    completed(defined, GOOD)

    step, task = defined.kit.step(attempt=2), defined.kit.only_task()
    assert orjson.loads(step.shown_data) == {"pages": 36, "language": "zh"}
    assert (task.summary_schema, orjson.loads(task.summary_data)) == ("document.parse.v1", {"pages": 36})
    view = drive(defined.kit.reader.task_views([task.envelope.task_id], with_trigger=True))[task.envelope.task_id]
    message: Any = render_detail(view)
    assert message["triggerEvent"]["data"]["value"] == {"pages": 36, "language": "zh"}
    assert message["state"]["summaryData"]["value"] == {"pages": 36}
    summaries = [row.payload for row in defined.kit.tables.outbox.values() if row.payload]
    assert b'"summaryData":{"schema":"document.parse.v1","value":{"pages":36}}' in summaries[-1]
    for shown in (orjson.dumps(message), *summaries):
        assert b"secret" not in shown
    assert not any(b"language" in summary for summary in summaries)


def test_p2_event_without_data_keeps_what_is_shown(defined: ReportingKit) -> None:
    completed(defined, GOOD, EventType.STEP_PROGRESS)
    defined.report(defined.by_handle(EventType.STEP_COMPLETED, 3))
    assert defined.kit.only_task().summary_data
    assert defined.kit.step(attempt=2).shown_data


@pytest.mark.parametrize(
    ("data", "event_type", "reason"),
    [
        (replace(GOOD, schema="document.parse.v2"), EventType.STEP_COMPLETED, Reason.SCHEMA_NOT_ALLOWED),
        (GOOD, EventType.STEP_CANCELLED, Reason.SCHEMA_NOT_ALLOWED),
        (replace(GOOD, wire=b"x" * 1025), EventType.STEP_COMPLETED, Reason.PAYLOAD_TOO_LARGE),
        (replace(GOOD, fault=invalid("data.value.n", "is odd")), EventType.STEP_COMPLETED, Reason.INVALID_ARGUMENT),
    ],
)
def test_e2_data_that_is_not_allowed_is_refused(
    defined: ReportingKit, data: EventData, event_type: EventType, reason: Reason
) -> None:
    assert reason_of(completed(defined, data, event_type)) is reason


def test_e2_value_that_does_not_fit_its_schema_is_refused_without_repeating_it(defined: ReportingKit) -> None:
    verdict = completed(defined, replace(GOOD, value={"pages": "thirty-six"}))
    assert isinstance(verdict, Refused)
    assert verdict.error.reason is Reason.SCHEMA_VIOLATION
    assert "pages" in verdict.error.message
    assert "thirty-six" not in verdict.error.message


def test_e2_guard_of_the_data_names_every_reason_that_it_gives() -> None:
    (guard,) = (guard for guard in GUARDS if guard.name == "data is valid")
    assert set(guard.reasons) == {
        Reason.SCHEMA_NOT_ALLOWED,
        Reason.SCHEMA_VIOLATION,
        Reason.PAYLOAD_TOO_LARGE,
        Reason.INVALID_ARGUMENT,
    }


def test_l5_generic_profile_takes_progress_data_only(reporting: ReportingKit) -> None:
    reporting.report(reporting.by_handle(EventType.STEP_STARTED, 1))
    generic = EventData("generic.progress.v1", b"", value={"message": "half way"})

    fine, refused = reporting.report(
        reporting.by_handle(EventType.STEP_PROGRESS, 2, data=generic),
        reporting.by_handle(EventType.STEP_COMPLETED, 3, data=generic),
    )

    assert (reason_of(fine), reason_of(refused)) == (None, Reason.SCHEMA_NOT_ALLOWED)
    assert orjson.loads(reporting.kit.step().shown_data) == {"message": "half way"}


def test_l5_events_that_the_definition_does_not_allow_are_refused(reporting: ReportingKit) -> None:
    only_start = an_operation(events=frozenset({EventType.STEP_STARTED}))
    reporting.kit.definitions.add(only_start)
    reporting.bound = reporting.activate(attempt=2)

    verdicts = reporting.report(
        reporting.by_handle(EventType.STEP_STARTED, 1), reporting.by_handle(EventType.STEP_COMPLETED, 2)
    )

    assert [reason_of(verdict) for verdict in verdicts] == [None, Reason.EVENT_TYPE_NOT_ALLOWED]


def test_l5_new_version_changes_nothing_for_a_bound_execution(defined: ReportingKit) -> None:
    defined.kit.definitions.add(an_operation(version=2, schemas=()))
    assert reason_of(completed(defined, GOOD)) is None


def test_e2_event_of_no_operation_carries_no_data(reporting: ReportingKit) -> None:
    task_id = reporting.kit.only_task().envelope.task_id.hex()
    draft = reporting.draft(EventType.TASK_STARTED, caller=COORDINATOR_SERVICE, data=GOOD)
    (verdict,) = reporting.report(replace(draft, stated=replace(draft.stated, task_id=task_id)))
    assert reason_of(verdict) is Reason.SCHEMA_NOT_ALLOWED


def test_e10_definitions_that_were_never_read_are_unavailable(reporting: ReportingKit) -> None:
    reporting.kit.definitions.unavailable = True
    verdicts = reporting.report(reporting.by_token(), reporting.by_token(EventType.STEP_COMPLETED, 2))
    assert [reason_of(verdict) for verdict in verdicts] == [Reason.UNAVAILABLE] * 2
