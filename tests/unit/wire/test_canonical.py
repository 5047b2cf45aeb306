"""The canonical form, version 1, frozen by vectors: what the digest of an event covers and what not (E-3, E-9)."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from google.protobuf import struct_pb2
from taskstatus_pb.storage.v1 import canonical_pb2
from taskstatus_pb.v1 import common_pb2, report_service_pb2

from taskstatus.adapters.canonical import canonicalize
from taskstatus.domain.commands import Caller, EventData, StatedFields, TaskEventCommand
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import ExecutionId, TaskId, WorkflowId
from taskstatus.domain.progress import Progress
from taskstatus.domain.state import DurationSource
from taskstatus.entrypoints.wire.values import canonical_message, canonical_request
from tests.unit.factories import a_failure, step_event, task_event

from .requests import a_task, a_workflow_request, decoded

WORKFLOW = WorkflowId(bytes.fromhex("0190a1b2c3d47d078000000000000001"))
TASK = TaskId(bytes.fromhex("0190a1b2c3d47d078000000000000002"))
EXECUTION = ExecutionId(bytes.fromhex("0190a1b2c3d47d078000000000000003"))
BOUND = {"workflow_id": WORKFLOW, "task_id": TASK, "execution_id": EXECUTION}
DATA = EventData("document.parse.completed.v2", struct_pb2.Struct().SerializeToString(deterministic=True))


def started() -> TaskEventCommand:
    """The smallest event of an execution."""
    command: TaskEventCommand = step_event(EventType.STEP_STARTED, 1, event_id="evt-1", **BOUND)
    return command


def failed() -> TaskEventCommand:
    """An event with every field."""
    command: TaskEventCommand = step_event(
        EventType.STEP_FAILED,
        7,
        event_id="evt-7",
        business_status="RETRY_WAIT",
        occurred_at=datetime(2026, 9, 21, 7, 10, 18, 120_000),
        duration_ms=18_000,
        duration_source=DurationSource.WORKER_MONOTONIC,
        progress=Progress(36.0, 40.0, "page"),
        progress_seq=5,
        phase_code="ocr",
        phase_label="页面识别",
        data=replace(DATA, wire=bytes.fromhex("0a0f0a05706167657312061100000000")),
        error=a_failure(retryable=False, diagnostics_ref="diag-1"),
        reason="because",
        **BOUND,
    )
    return command


def task_failed() -> TaskEventCommand:
    """The coordinator's own event."""
    command: TaskEventCommand = task_event(
        EventType.TASK_FAILED, 3, event_id="evt-9", task_id=TASK, failed_step_id="02_parse"
    )
    return command


VECTORS = {
    "started": (started, "1ad8c1ac91965f95465d783191636df049dd67ffd6b29c0b37ea0ec1162a46b4"),
    "failed": (failed, "ab6fd2cd728810af89cd4a0e17c8b2ad9fa8507d53b9038edda56d8fe804b4bd"),
    "task_failed": (task_failed, "4b00bfd7503e55729b3f872707cb0e4fa8dd836bd79feb68d7edfa188ec528f9"),
}
STARTED_BYTES = (
    "0a056576742d31120c535445505f535441525445441a04742d30312209646f63756d656e74732a100190a1b2c3d47d07"
    "800000000000000132100190a1b2c3d47d0780000000000000023801420830325f7061727365480152100190a1b2c3d4"
    "7d0780000000000000035a0e444f43554d454e542e5041525345620f646f63756d656e742d7061727365726801"
)
WORKFLOW_DIGEST = "1bd10ad2f3e448cf0593e12c498306ca56d5a5d9a60dc6a845b0d9905576a890"
TASK_DIGEST = "2521fa32c5957f84cc1bb50b66cdd0c3a0509a145497ba66a2e611277c1aace6"


@pytest.mark.parametrize("name", VECTORS)
def test_e3_frozen_digest(name: str) -> None:
    make, digest = VECTORS[name]
    assert canonicalize(make())[1].hex() == digest


def test_e3_frozen_bytes() -> None:
    canonical, digest = canonicalize(started())
    assert canonical.hex() == STARTED_BYTES
    assert digest == hashlib.sha256(b"\x01" + canonical).digest()


def test_id3_frozen_digests_of_requests() -> None:
    assert canonical_request(a_workflow_request(), without=("command_id",))[1].hex() == WORKFLOW_DIGEST
    assert canonical_message(a_task())[1].hex() == TASK_DIGEST


def test_e3_canonical_bytes_hold_the_full_ids() -> None:
    event = canonical_pb2.CanonicalEvent.FromString(canonicalize(failed())[0])
    assert (event.task_id, event.workflow_id, event.execution_id) == (TASK, WORKFLOW, EXECUTION)
    assert (event.tenant_id, event.authority_scope, event.producer_id) == ("t-01", "documents", "document-parser")
    assert (event.step_id, event.step_attempt, event.task_attempt) == ("02_parse", 1, 1)
    assert event.occurred_at_us == 1_789_974_618_120_000


@pytest.mark.parametrize(
    "changes",
    [
        {"credential": None},
        {"bound": Caller("x", "y", "z")},
        {"stated": StatedFields(task_type="OTHER")},
        {"received_monotonic": 0.0, "received_unix": 0.0},
        {"trace_id": bytes(16), "traceparent": "00-other"},
        {"canonical": b"x", "digest": b"y"},
    ],
)
def test_e3_credential_receipt_and_trace_are_outside(changes: dict[str, Any]) -> None:
    assert canonicalize(replace(failed(), **changes)) == canonicalize(failed())


CONTENT_CHANGES: list[dict[str, Any]] = [
    {"event_id": "evt-8"},
    {"event_type": EventType.STEP_CANCELLED},
    {"source_seq": 8},
    {"business_status": "RUNNING"},
    {"occurred_at": None},
    {"duration_ms": None},
    {"duration_ms": 0},
    {"duration_source": None},
    {"progress": None},
    {"progress": Progress(0.0, 0.0, "")},
    {"progress": Progress(36.0, 40.0, "file")},
    {"progress_seq": 6},
    {"phase_code": ""},
    {"phase_label": "x"},
    {"data": None},
    {"data": DATA},
    {"error": None},
    {"error": a_failure(retryable=True, diagnostics_ref="diag-1")},
    {"error": a_failure(retryable=None, diagnostics_ref="diag-1")},
    {"error": a_failure(retryable=False)},
    {"failed_step_id": "01"},
    {"reason": "other"},
]


def test_e3_every_field_of_the_content_is_inside() -> None:
    command = failed()
    changed = [replace(command, content=replace(command.content, **changes)) for changes in CONTENT_CHANGES]
    digests = [canonicalize(other)[1] for other in changed]
    assert len({command.digest, *digests}) == 1 + len(CONTENT_CHANGES)


@pytest.mark.parametrize(
    "changes",
    [
        {"caller": Caller("t-02", "documents", "document-parser")},
        {"caller": Caller("t-01", "other", "document-parser")},
        {"caller": Caller("t-01", "documents", "other")},
        {"workflow_id": None},
        {"task_id": TaskId(bytes(16))},
        {"task_attempt": 2},
        {"step_id": "03_store"},
        {"step_attempt": 2},
        {"execution_id": None},
        {"operation_code": ""},
    ],
)
def test_e3_the_whole_binding_is_inside(changes: dict[str, Any]) -> None:
    assert canonicalize(replace(failed(), **changes))[1] != failed().digest


def test_e3_order_of_fields_on_the_wire_does_not_matter() -> None:
    parts = [
        report_service_pb2.ReportEventRequest(event_id="evt-1", source_seq=1),
        report_service_pb2.ReportEventRequest(event_type=common_pb2.STEP_STARTED, phase_code="ocr"),
        report_service_pb2.ReportEventRequest(execution_handle="exh_1"),
    ]
    wires = [b"".join(part.SerializeToString() for part in order) for order in (parts, parts[::-1])]
    first, second = (report_service_pb2.ReportEventRequest.FromString(wire) for wire in wires)
    assert wires[0] != wires[1]
    assert first == second


def test_e3_order_of_names_in_data_does_not_matter() -> None:
    one, other = struct_pb2.Struct(), struct_pb2.Struct()
    one.update({"b": {"y": 1, "x": 2}, "a": [1]})
    other.update({"a": [1], "b": {"x": 2, "y": 1}})
    contents = [decoded(data=report_service_pb2.EventData(schema="s", value=value)).content for value in (one, other)]
    digests = {canonicalize(replace(started(), content=content))[1] for content in contents}
    assert len(digests) == 1
