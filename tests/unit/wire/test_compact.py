"""The compact form decodes to what its full form decodes to, faults included (E-9, T-4)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from taskstatus_pb.v1 import common_pb2, report_service_pb2

from taskstatus.application.identity import Role
from taskstatus.application.report import EventDraft
from taskstatus.domain.errors import RefusedError
from taskstatus.entrypoints.wire.call import CallInfo
from taskstatus.entrypoints.wire.compact import to_compact_draft
from taskstatus.entrypoints.wire.decode_event import to_event_draft
from taskstatus.sdk.stream_events import to_full_form
from tests.unit.factories import PARSER
from tests.unit.service_kit import a_service

WORKER = a_service(PARSER, Role.WORKER)
CALL = CallInfo("grpc", None, "", 1.0, 2.0)

texts = st.text(max_size=8) | st.sampled_from(["PARSE", "RUNNING", "a\0b", "x" * 300])
numbers = st.floats(width=32) | st.integers(-3, 12).map(float)
progress = st.builds(common_pb2.Progress, current=numbers, total=numbers, unit=texts)
errors = st.builds(common_pb2.EventError, category=texts, code=texts, message=texts, diagnostics_ref=texts)
compact_events = st.builds(
    report_service_pb2.CompactEvent,
    event_id=st.binary(min_size=16, max_size=16),
    event_type=st.sampled_from(list(common_pb2.EventType.values())),
    source_seq=st.integers(0, 2**64 - 1),
    occurred_at_us=st.integers(-(10**17), 10**18) | st.integers(0, 2 * 10**15),
    duration_ms=st.none() | st.integers(0, 2**54),
    duration_source=st.integers(0, 5),
    progress=st.none() | progress,
    progress_seq=st.integers(0, 2**64 - 1),
    phase_code=texts,
    phase_label=texts,
    business_status=texts,
    error=st.none() | errors,
)


def outcome(decode: Any) -> Any:
    """The content, or the reason and the fields of the refusal."""
    try:
        draft: EventDraft = decode()
    except RefusedError as refusal:
        return refusal.reason, refusal.message, refusal.violations
    return replace(draft, execution_handle="")


@given(compact_events)
def test_e9_compact_and_full_form_decode_alike(event: report_service_pb2.CompactEvent) -> None:
    full = outcome(lambda: to_event_draft(to_full_form(event, ""), WORKER, CALL))
    assert outcome(lambda: to_compact_draft(event, WORKER, CALL)) == full


@pytest.mark.parametrize("size", [0, 15, 17])
def test_t4_an_event_id_has_16_bytes(size: int) -> None:
    with pytest.raises(RefusedError) as caught:
        to_compact_draft(report_service_pb2.CompactEvent(event_id=bytes(size)), WORKER, CALL)
    assert [violation.field for violation in caught.value.violations] == ["eventId"]


def test_t4_a_number_of_a_stream_means_nothing_elsewhere() -> None:
    event = report_service_pb2.CompactEvent(
        event_id=bytes(16), event_type=common_pb2.STEP_STARTED, source_seq=1, stream_execution_key=1
    )
    with pytest.raises(RefusedError) as caught:
        to_compact_draft(event, WORKER, CALL)
    assert [violation.field for violation in caught.value.violations] == ["streamExecutionKey"]
