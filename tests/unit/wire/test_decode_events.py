"""Events as they arrive: every field's limits, and that a refusal names the field (E-7, E-8, E-12, E-13, ID-4)."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

import pytest
from google.protobuf import struct_pb2, timestamp_pb2
from taskstatus_pb.v1 import common_pb2, report_service_pb2

from taskstatus.domain.commands import ReportedError
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.events import EventType
from taskstatus.domain.progress import Progress
from taskstatus.domain.reasons import Reason
from taskstatus.domain.state import DurationSource
from taskstatus.entrypoints.wire.values import DATA_MAX_DEPTH, EVENT_DATA_MAX_BYTES, SAFE_INTEGER

from .requests import TRACEPARENT, WORKER, a_struct, decoded, some_data

ERROR = common_pb2.EventError(category="SYSTEM", code="BROKEN", message="It broke.")
FAILED = {"event_type": common_pb2.STEP_FAILED, "error": ERROR}


def error(**changes: Any) -> dict[str, Any]:
    """A failure whose error differs."""
    fields = {"category": "SYSTEM", "code": "BROKEN", "message": "It broke.", **changes}
    return {"event_type": common_pb2.STEP_FAILED, "error": common_pb2.EventError(**fields)}


def stamp(seconds: int, nanos: int = 0) -> timestamp_pb2.Timestamp:
    """A wire time."""
    return timestamp_pb2.Timestamp(seconds=seconds, nanos=nanos)


def progressed(current: float = 1, total: float = 2, unit: str = "page") -> dict[str, Any]:
    """A progress."""
    return {"progress": common_pb2.Progress(current=current, total=total, unit=unit)}


INVALID: list[tuple[str, dict[str, Any]]] = [
    ("eventId", {"event_id": ""}),
    ("eventId", {"event_id": "x" * 65}),
    ("eventId", {"event_id": "a b"}),
    ("eventId", {"event_id": "evt-1 "}),
    ("eventId", {"event_id": "evt\0"}),
    ("eventId", {"event_id": "🙂"}),
    ("eventType", {"event_type": 0}),
    ("eventType", {"event_type": 99}),
    ("sourceSeq", {"source_seq": 0}),
    ("sourceSeq", {"source_seq": 2**63}),
    ("businessStatus", {"business_status": "x" * 65}),
    ("businessStatus", {"business_status": "IN PROGRESS"}),
    ("occurredAt", {"occurred_at": stamp(-62_135_596_801)}),
    ("occurredAt", {"occurred_at": stamp(253_402_300_800)}),
    ("occurredAt", {"occurred_at": stamp(0, -1)}),
    ("occurredAt", {"occurred_at": stamp(0, 1_000_000_000)}),
    *[("durationMs", {"duration_ms": odd}) for odd in (-1.0, 0.5, math.nan, math.inf, 2.0**53 + 2)],
    ("durationSource", {"duration_source": 9}),
    *[("progress.current", progressed(odd)) for odd in (-1.0, math.nan, math.inf, 3.0)],
    *[("progress.total", progressed(1, odd)) for odd in (-1.0, math.nan, math.inf)],
    ("progress.unit", progressed(unit="x" * 65)),
    ("progress.unit", progressed(unit="a\nb")),
    ("phaseCode", {"phase_code": "x" * 129}),
    ("phaseLabel", {"phase_label": "x" * 201}),
    ("phaseLabel", {"phase_label": "a\0b"}),
    ("data.schema", {"data": report_service_pb2.EventData()}),
    ("data.schema", {"data": report_service_pb2.EventData(schema="x" * 129)}),
    ("error", {"event_type": common_pb2.STEP_FAILED}),
    ("error", {"event_type": common_pb2.TASK_FAILED}),
    ("error.category", error(category="x" * 65)),
    ("error.code", error(code="")),
    ("error.code", error(code="x" * 129)),
    ("error.message", error(message="x" * 513)),
    ("error.message", error(message="line\nline")),
    ("error.diagnosticsRef", error(diagnostics_ref="x" * 256)),
    ("failedStepId", {"failed_step_id": "x" * 65}),
    ("failedStepId", {"failed_step_id": "a/b"}),
    ("reason", {"reason": "x" * 513}),
]


def refusal(**changes: Any) -> RefusedError:
    """Why such an event is refused."""
    with pytest.raises(RefusedError) as caught:
        decoded(**changes)
    return caught.value


def test_id4_invalid_field_is_named() -> None:
    refusals = [refusal(**changes) for _, changes in INVALID]
    assert [[violation.field for violation in refused.violations] for refused in refusals] == [[f] for f, _ in INVALID]
    assert {refused.reason for refused in refusals} == {Reason.INVALID_ARGUMENT}
    assert max(len(refused.message) for refused in refusals) < 300


@pytest.mark.parametrize(
    "changes",
    [
        {"event_id": "x" * 64},
        {"source_seq": 2**63 - 1},
        {"occurred_at": stamp(-62_135_596_800)},
        {"occurred_at": stamp(253_402_300_799, 999_999_999)},
        {"duration_ms": 2.0**53},
        progressed(0, 0),
        progressed(5, 0),
        progressed(2, 2, "页" * 64),
        {"phase_code": "x" * 128, "phase_label": "页" * 200},
        error(message="页" * 512, diagnostics_ref="x" * 255, code="x" * 128, category=""),
        {"failed_step_id": "x" * 64, "reason": "x" * 512},
    ],
)
def test_id4_values_at_their_limits_pass(changes: dict[str, Any]) -> None:
    assert decoded(**changes).content


def test_e7_every_field_arrives() -> None:
    draft = decoded(
        **FAILED,
        **progressed(),
        business_status="RUNNING",
        occurred_at=stamp(1_796_000_000, 123_456_999),
        duration_ms=3100,
        duration_source=common_pb2.WALL_CLOCK_ESTIMATE,
        progress_seq=7,
        phase_code="ocr",
        phase_label="Reading",
        data=some_data(pages=36),
        failed_step_id="02_parse",
        reason="because",
    )
    content = draft.content
    assert (content.event_id, content.event_type, content.source_seq) == ("evt-1", EventType.STEP_FAILED, 1)
    assert content.occurred_at == datetime(2026, 11, 30, 0, 53, 20, 123_456)
    assert (content.duration_ms, content.duration_source) == (3100, DurationSource.WALL_CLOCK_ESTIMATE)
    assert (content.progress, content.progress_seq) == (Progress(1, 2, "page"), 7)
    assert (content.phase_code, content.phase_label, content.business_status) == ("ocr", "Reading", "RUNNING")
    assert content.error == ReportedError("SYSTEM", "BROKEN", "It broke.", None, "")
    assert (content.failed_step_id, content.reason) == ("02_parse", "because")
    assert content.data is not None
    assert (content.data.schema, content.data.fault) == ("document.parse.v1", None)
    assert content.data.wire == a_struct(pages=36).SerializeToString(deterministic=True)


def test_e9_stated_fields_and_credentials_arrive() -> None:
    draft = decoded(
        execution_token="jws",
        execution_handle="",
        workflow_id="wf_1",
        task_id="task_1",
        task_attempt=2,
        step_id="02_parse",
        step_attempt=3,
        execution_id="exec_1",
        operation_code="DOCUMENT.PARSE",
        producer_id="document-parser",
        task_type="DOCUMENT_PROCESS",
    )
    stated = draft.stated
    assert (stated.workflow_id, stated.task_id, stated.task_attempt) == ("wf_1", "task_1", 2)
    assert (stated.step_id, stated.step_attempt, stated.execution_id) == ("02_parse", 3, "exec_1")
    assert (stated.operation_code, stated.producer_id) == ("DOCUMENT.PARSE", "document-parser")
    assert stated.task_type == "DOCUMENT_PROCESS"
    assert (draft.execution_token, draft.execution_handle, draft.caller) == ("jws", "", WORKER)


def test_n3_trace_of_the_call_arrives() -> None:
    draft = decoded()
    assert draft.traceparent == TRACEPARENT
    assert draft.trace_id == bytes.fromhex("0af7651916cd43dd8448eb211c80319c")


@pytest.mark.parametrize("told", [None, True, False])
def test_e12_retryable_is_kept_as_told(told: bool | None) -> None:
    kept = decoded(**error(retryable=told)).content.error
    assert kept is not None
    assert kept.retryable is told
    assert kept.settled().retryable is (told is not False)


@pytest.mark.parametrize(
    ("name", "limit"),
    [("task_id", 64), ("workflow_id", 64), ("execution_id", 64), ("step_id", 64), ("operation_code", 128)],
)
def test_id4_stated_fields_are_length_limited(name: str, limit: int) -> None:
    refused = refusal(**{name: "x" * (limit * 100)})
    assert refused.reason is Reason.INVALID_ARGUMENT


def fault_of(**fields: Any) -> RefusedError | None:
    """What is wrong with data of these fields."""
    data = decoded(data=some_data(**fields)).content.data
    assert data is not None
    return data.fault


def nested(depth: int) -> dict[str, Any]:
    """A value of so many levels."""
    value: dict[str, Any] = {"n": 1}
    for _ in range(depth - 1):
        value = {"n": value}
    return value


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"n": SAFE_INTEGER * 2}, "data.value.n"),
        ({"n": -SAFE_INTEGER * 2}, "data.value.n"),
        ({"n": math.nan}, "data.value.n"),
        ({"n": -math.inf}, "data.value.n"),
        ({"a": {"b": [1, {"c": math.inf}]}}, "data.value.a.b[1].c"),
        (nested(DATA_MAX_DEPTH + 1), "data.value" + ".n" * DATA_MAX_DEPTH),
    ],
)
def test_e13_unsafe_value_is_answered_in_its_turn(fields: dict[str, Any], path: str) -> None:
    fault = fault_of(**fields)
    assert fault is not None
    assert fault.reason is Reason.INVALID_ARGUMENT
    assert [violation.field for violation in fault.violations] == [path]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"n": SAFE_INTEGER},
        {"n": -SAFE_INTEGER},
        {"n": 0.5},
        {"s": "页", "b": True, "z": None},
        nested(DATA_MAX_DEPTH),
    ],
)
def test_e13_safe_value_passes(fields: dict[str, Any]) -> None:
    assert fault_of(**fields) is None


def test_e13_value_without_a_kind_is_a_fault() -> None:
    struct = struct_pb2.Struct(fields={"n": struct_pb2.Value()})
    data = decoded(data=report_service_pb2.EventData(schema="s", value=struct)).content.data
    assert data is not None
    assert data.fault is not None
    assert data.fault.violations[0].field == "data.value.n"


def test_e13_list_in_lists_is_bounded_too() -> None:
    value: Any = [1]
    for _ in range(40):
        value = [value]
    fault = fault_of(n=value)
    assert fault is not None
    assert fault.reason is Reason.INVALID_ARGUMENT


def test_e13_too_large_data_is_answered_in_its_turn() -> None:
    fault = fault_of(text="x" * EVENT_DATA_MAX_BYTES)
    assert fault is not None
    assert fault.reason is Reason.PAYLOAD_TOO_LARGE


def test_id4_refusal_of_data_is_bounded_whatever_its_names() -> None:
    fault = fault_of(**{"k" * 8_000: math.nan})
    assert fault is not None
    assert len(fault.message) + sum(len(violation.field) for violation in fault.violations) < 2_000
