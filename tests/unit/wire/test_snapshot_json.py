"""The two forms of a snapshot and of a timeline agree field by field: JSON for browsers, protobuf for others (P-5)."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from google.protobuf import json_format
from google.protobuf.message import Message
from hypothesis import given
from taskstatus_pb.v1 import common_pb2

from taskstatus.domain.events import EventType
from taskstatus.domain.projections import render_detail, timeline_event
from taskstatus.domain.records import EventRecord, TaskView, TimelinePage
from taskstatus.entrypoints.wire import encode_view
from tests.unit.factories import START, TASK_ID, a_step, a_task, step_event, task_event
from tests.unit.service_kit import Kit, drive

from .views import WRITABLE_EVENTS, events, views


def as_json(message: Message) -> Any:
    """The JSON mapping of a message, parsed."""
    return orjson.loads(json_format.MessageToJson(message, always_print_fields_with_no_presence=True))


def published(value: object) -> Any:
    """What the relay publishes, parsed."""
    return orjson.loads(orjson.dumps(value))


@given(views)
def test_p5_state_of_a_detail_message_is_the_json_of_the_snapshot(view: TaskView) -> None:
    assert published(render_detail(view)["state"]) == as_json(encode_view.task_snapshot(view))


@given(events)
def test_p5_trigger_of_a_detail_message_is_the_json_of_the_timeline(event: EventRecord) -> None:
    page = TimelinePage((event,), event.task_version, False, 1)
    response = as_json(encode_view.timeline(page, 0, with_trace=False))
    assert [published(timeline_event(event))] == response["events"]


def test_p5_real_history_agrees_too(kit: Kit) -> None:
    kit.put(a_task(), a_step())
    kit.report(step_event(EventType.STEP_STARTED, 1), step_event(EventType.STEP_FAILED, 2))
    kit.report(task_event(EventType.TASK_FAILED, failed_step_id="02_parse"))
    view = drive(kit.reader.task_views([TASK_ID], with_trigger=True))[TASK_ID]
    page = drive(kit.reader.timeline(TASK_ID, 0, 10))

    message = published(render_detail(view))

    assert message["state"] == as_json(encode_view.task_snapshot(view))
    assert message["triggerEvent"] == as_json(encode_view.timeline(page, 0, with_trace=False))["events"][-1]


def test_p5_every_event_that_can_be_written_has_a_wire_value() -> None:
    names = set(common_pb2.EventType.keys())
    assert set(WRITABLE_EVENTS) <= names
    assert names - {"EVENT_TYPE_UNSPECIFIED"} <= {event.value for event in EventType}


@pytest.mark.parametrize(
    ("oldest", "after", "current", "cleaned"),
    [
        (1, 0, 5, False),
        (2, 0, 5, True),
        (3, 2, 5, False),
        (4, 2, 5, True),
        (3, 5, 5, False),
        (0, 0, 5, True),
        (0, 5, 5, False),
        (0, 0, 0, False),
    ],
)
def test_q1_timeline_says_when_its_window_was_cleaned(oldest: int, after: int, current: int, cleaned: bool) -> None:
    page = TimelinePage((), current, False, oldest)
    assert encode_view.timeline(page, after, with_trace=True).window_cleaned is cleaned


@pytest.mark.parametrize("with_trace", [True, False])
def test_n3_trace_of_an_event_is_for_services_only(kit: Kit, with_trace: bool) -> None:
    kit.put(a_task(), a_step())
    kit.report(step_event(EventType.STEP_STARTED, trace_id=bytes(range(16)), occurred_at=START))
    page = drive(kit.reader.timeline(TASK_ID, 0, 10))
    (event,) = encode_view.timeline(page, 0, with_trace=with_trace).events
    assert event.trace_id == (bytes(range(16)).hex() if with_trace else "")
