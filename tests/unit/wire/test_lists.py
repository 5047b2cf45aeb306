"""Requests and responses of the lists: what is refused, and that a list shows a task as its message does (P-5, Q-1)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import orjson
import pytest
from google.protobuf import json_format, timestamp_pb2
from hypothesis import given
from taskstatus_pb.v1 import common_pb2, task_list_pb2

from taskstatus.application.ports_lists import NotificationState, RecordedEvent
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import format_execution_id, format_task_id, format_workflow_id
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.projections import render_summary
from taskstatus.domain.records import Projection
from taskstatus.domain.registration_terms import FixedLabels, RegistrationTerms
from taskstatus.domain.state import ExternalRef, TaskState
from taskstatus.domain.task_filter import TaskFilter
from taskstatus.entrypoints.wire import encode_lists, encode_view
from taskstatus.entrypoints.wire.decode_lists import to_external_ref, to_task_filter
from tests.unit.factories import EXECUTION_ID, START, TASK_ID, WORKFLOW_ID, a_task
from tests.unit.service_kit import Kit, drive

from .views import moments, task_states

ONLY_IN_LISTS = {"workflowId", "taskAttempt", "updatedAt"}
ONLY_IN_MESSAGES = {"failedStepId", "summaryData", "asOf"}
RENAMED = {"id": "taskId", "version": "taskVersion"}


def as_json(message: Any) -> dict[str, Any]:
    """The JSON mapping of a message, parsed."""
    return dict(orjson.loads(json_format.MessageToJson(message, always_print_fields_with_no_presence=True)))


@given(task_states, moments)
def test_p5_list_shows_a_task_as_its_summary_message_does(task: TaskState, as_of: datetime) -> None:
    message: Any = orjson.loads(orjson.dumps(render_summary(task, None, EventType.TASK_CREATED, as_of, None)))["task"]
    told = {RENAMED.get(name, name): value for name, value in message.items() if value is not None}

    shown = as_json(encode_lists.task_summary(task, as_of))

    assert {name: shown[name] for name in told if name not in ONLY_IN_MESSAGES} == {
        name: value for name, value in told.items() if name not in ONLY_IN_MESSAGES
    }
    assert {name for name, value in shown.items() if value not in ("", 0)} - told.keys() <= ONLY_IN_LISTS


def test_q1_summary_fields_that_no_message_has() -> None:
    summary = encode_lists.task_summary(a_task(attempt=3, version=9), START)
    assert (summary.workflow_id, summary.task_attempt) == (format_workflow_id(WORKFLOW_ID), 3)
    assert summary.updated_at.ToDatetime() == START


def test_q1_filter_is_read_whole() -> None:
    message = task_list_pb2.TaskFilter(
        lifecycle_statuses=[common_pb2.RUNNING, common_pb2.FAILED, common_pb2.RUNNING],
        task_type="A",
        workflow_id=WORKFLOW_ID.hex(),
        created_from=timestamp_pb2.Timestamp(seconds=10, nanos=1_000),
        created_before=timestamp_pb2.Timestamp(seconds=20, nanos=1_001),
        title_contains=" 100%\\_ ",
        batch_id="b",
        parent_task_id=format_task_id(TASK_ID),
    )
    assert to_task_filter(message) == TaskFilter(
        lifecycles=frozenset({Lifecycle.RUNNING, Lifecycle.FAILED}),
        task_type="A",
        workflow_id=WORKFLOW_ID,
        created_from=datetime(1970, 1, 1, 0, 0, 10, 1),
        # No task is created between two microseconds: this is the first that is not before the time asked for.
        created_before=datetime(1970, 1, 1, 0, 0, 20, 2),
        title_contains=" 100%\\_ ",
        batch_id="b",
        parent_task_id=TASK_ID,
    )
    assert to_task_filter(task_list_pb2.TaskFilter()) == TaskFilter()


LAST_SECOND = 253_402_300_799


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"lifecycle_statuses": [0]}, "filter.lifecycleStatuses[0]"),
        ({"lifecycle_statuses": [common_pb2.RUNNING, 99]}, "filter.lifecycleStatuses[1]"),
        ({"lifecycle_statuses": [common_pb2.RUNNING] * 8}, "filter.lifecycleStatuses"),
        ({"task_type": "with space"}, "filter.taskType"),
        ({"task_type": "x" * 129}, "filter.taskType"),
        ({"workflow_id": "nonsense"}, "filter.workflowId"),
        ({"workflow_id": format_task_id(TASK_ID)}, "filter.workflowId"),
        ({"created_from": timestamp_pb2.Timestamp(seconds=-(10**14))}, "filter.createdFrom"),
        ({"created_before": timestamp_pb2.Timestamp(seconds=LAST_SECOND + 1)}, "filter.createdBefore"),
        ({"title_contains": "x" * 201}, "filter.titleContains"),
        ({"title_contains": "a\x00b"}, "filter.titleContains"),
        ({"batch_id": "x" * 65}, "filter.batchId"),
        ({"parent_task_id": "nonsense"}, "filter.parentTaskId"),
    ],
)
def test_q1_odd_filter_is_refused(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(RefusedError) as caught:
        to_task_filter(task_list_pb2.TaskFilter(**changes))
    assert [violation.field for violation in caught.value.violations] == [field]


def test_q1_the_last_time_there_is_can_be_asked_for() -> None:
    last = timestamp_pb2.Timestamp(seconds=LAST_SECOND, nanos=999_999_999)
    assert to_task_filter(task_list_pb2.TaskFilter(created_before=last)).created_before == datetime.max


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"ref_type": ""}, "refType"),
        ({"ref_type": "x" * 65}, "refType"),
        ({"ref_value": ""}, "refValue"),
        ({"ref_value": "x" * 256}, "refValue"),
        ({"ref_value": "4711 "}, "refValue"),
        ({"authority_scope": "x" * 65}, "authorityScope"),
    ],
)
def test_id5_odd_number_is_refused(changes: dict[str, str], field: str) -> None:
    fields = {"ref_type": "ORDER_ID", "ref_value": "4711", "authority_scope": "documents", **changes}
    with pytest.raises(RefusedError) as caught:
        to_external_ref(task_list_pb2.LookupExternalRefRequest(**fields))
    assert [violation.field for violation in caught.value.violations] == [field]


def test_id5_number_is_read_with_its_scope() -> None:
    request = task_list_pb2.LookupExternalRefRequest(ref_type="ORDER_ID", ref_value="4711/a%b")
    assert to_external_ref(request) == (ExternalRef("ORDER_ID", "4711/a%b"), "")


def test_q3_event_shows_ids_as_texts_and_what_became_of_its_notifications() -> None:
    event = RecordedEvent(
        WORKFLOW_ID,
        TASK_ID,
        "evt-1",
        7,
        EventType.STEP_STARTED,
        "02_parse",
        EXECUTION_ID,
        "service:parser",
        bytes(range(16)),
        START,
        (NotificationState(bytes(16), Projection.USER_SUMMARY, "DEAD", 3, "refused", START),),
    )
    (shown,) = encode_lists.events_of_id([event]).events
    assert as_json(shown) == {
        "workflowId": format_workflow_id(WORKFLOW_ID),
        "taskId": format_task_id(TASK_ID),
        "eventId": "evt-1",
        "taskVersion": "7",
        "eventType": "STEP_STARTED",
        "stepId": "02_parse",
        "executionId": format_execution_id(EXECUTION_ID),
        "actor": "service:parser",
        "traceId": "000102030405060708090a0b0c0d0e0f",
        "committedAt": "2026-11-30T08:00:00Z",
        "notifications": [
            {
                "outboxId": "0" * 32,
                "projection": "USER_SUMMARY",
                "status": "DEAD",
                "attempts": 3,
                "lastError": "refused",
                "publishedAt": "2026-11-30T08:00:00Z",
            }
        ],
    }


@pytest.mark.parametrize("for_service", [True, False])
def test_p2_only_services_are_told_who_pays_and_how_long_it_is_kept(kit: Kit, for_service: bool) -> None:
    kit.put(a_task(terms=RegistrationTerms(labels=FixedLabels("bill-7", "keep-90", "CONFIDENTIAL"))))
    view = drive(kit.reader.task_views([TASK_ID], with_trigger=False))[TASK_ID]
    shown = encode_view.task_snapshot(view, for_service=for_service)
    assert (shown.billing_account_id, shown.retention_policy_id) == (("bill-7", "keep-90") if for_service else ("", ""))
    assert shown.data_classification == "CONFIDENTIAL"
