"""The table: what is sent, and what every transport must answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from taskstatus_pb.v1 import common_pb2

from taskstatus.domain.reasons import Reason
from tests.parity.definition import COMPLETED, MAX_BYTES, PROGRESS
from tests.parity.stage import STEP_ID, Activate, Preparation, Revoke, Sent, Stage, data, other_id


@dataclass(frozen=True)
class Case:
    """Events sent in order on a task of their own, and the verdict of each."""

    events: tuple[Sent, ...]
    expected: tuple[str, ...]
    before: tuple[Preparation, ...]
    in_one_call: bool = False
    """Only batches can say it."""


def progress(current: float = 5, seq: int = 5, number: int = 20, **more: Any) -> Sent:
    """A progress of ten pages."""
    fields = more.pop("fields", {})
    content = {
        "event_type": common_pb2.STEP_PROGRESS,
        "source_seq": seq,
        "progress": common_pb2.Progress(current=current, total=10, unit="page"),
        **fields,
    }
    return Sent(content, number, **more)


def event(event_type: int, seq: int = 5, number: int = 20, **fields: Any) -> Sent:
    """A worker's event."""
    return Sent({"event_type": event_type, "source_seq": seq, **fields}, number)


def ruling(event_type: int, seq: int = 1, number: int = 30, stated: Any = None, **fields: Any) -> Sent:
    """An event of the coordinator, on the service identity alone."""
    return Sent(
        {"event_type": event_type, "source_seq": seq, **fields}, number, "coordinator", "none", stated=stated or {}
    )


STARTED = event(common_pb2.STEP_STARTED, seq=1, number=1)
HALF_DONE = progress(current=5, seq=4, number=4, fields={"progress_seq": 7})
DONE = event(common_pb2.STEP_COMPLETED, seq=4, number=3)
TASK_DONE = ruling(common_pb2.TASK_COMPLETED, seq=3, number=5)
BEYOND_SAFE = float(2**53 + 2)
UNSAFE_INTEGER = progress(fields={"data": data(PROGRESS, pages=BEYOND_SAFE)})
FAILURE = common_pb2.EventError(code="UNSUPPORTED_FILE_FORMAT", message="Convert it to PDF", category="INPUT")
PENDING: tuple[Preparation, ...] = (Activate(1),)
RUNNING: tuple[Preparation, ...] = (Activate(1), STARTED)
RETRIED: tuple[Preparation, ...] = (Activate(1), STARTED, Activate(2), event(common_pb2.STEP_STARTED, 1, 2))


def one(sent: Sent, expected: str, before: tuple[Preparation, ...] = RUNNING) -> Case:
    """A case of one event."""
    return Case((sent,), (expected,), before)


def first_execution(stage: Stage) -> Mapping[str, Any]:
    """The coordinator names the step, and the execution that it means to end."""
    return {"step_id": STEP_ID, "execution_id": stage.contexts[0].execution_id}


ACCEPTED = {
    "start": one(event(common_pb2.STEP_STARTED), "accepted", PENDING),
    "progress": one(progress(fields={"progress_seq": 3, "phase_code": "READ", "phase_label": "Reading"}), "accepted"),
    "progress with data": one(progress(fields={"data": data(PROGRESS, pages=5, note="é")}), "accepted"),
    "phase alone": one(event(common_pb2.STEP_PROGRESS, phase_code="WRITE"), "accepted"),
    "gap in the sequence": one(progress(seq=90), "accepted"),
    "completion": one(
        event(common_pb2.STEP_COMPLETED, duration_ms=18_000, data=data(COMPLETED, pages=36, note="zh")), "accepted"
    ),
    "estimated duration": one(
        event(common_pb2.STEP_COMPLETED, duration_ms=0, duration_source=common_pb2.WALL_CLOCK_ESTIMATE), "accepted"
    ),
    "failure": one(event(common_pb2.STEP_FAILED, error=FAILURE), "accepted"),
    "business status": one(progress(fields={"business_status": "RETRY_WAIT"}), "accepted"),
    "second attempt": one(progress(), "accepted", RETRIED),
    "task starts": one(ruling(common_pb2.TASK_STARTED), "accepted", PENDING),
    "task completed": one(ruling(common_pb2.TASK_COMPLETED), "accepted", (*RUNNING, DONE)),
    "task failed": one(ruling(common_pb2.TASK_FAILED, failed_step_id=STEP_ID, error=FAILURE), "accepted"),
    "task cancelled": one(ruling(common_pb2.TASK_CANCELLED, reason="not needed any more"), "accepted"),
    "coordinator ends a step": one(
        ruling(common_pb2.STEP_TIMED_OUT, stated={"step_id": STEP_ID}, reason="too slow"), "accepted"
    ),
    "whole run": Case(
        (STARTED, progress(number=21), event(common_pb2.STEP_COMPLETED, seq=6, number=22)), ("accepted",) * 3, PENDING
    ),
}

REPEATED = {
    "duplicate": one(HALF_DONE, "duplicate", (*RUNNING, HALF_DONE)),
    "duplicate after the end": one(HALF_DONE, "duplicate", (*RUNNING, HALF_DONE, TASK_DONE)),
    "duplicate of a superseded attempt": one(replace(STARTED, credential="first"), "duplicate", RETRIED),
    "duplicate of a ruling": one(TASK_DONE, "duplicate", (*RUNNING, TASK_DONE)),
    "twice in one call": Case((progress(), progress()), ("accepted", "duplicate"), RUNNING),
    "overtaken in one call": Case(
        (progress(3, 5, 20), progress(4, 6, 21), progress(6, 7, 22)),
        ("coalesced", "coalesced", "accepted"),
        RUNNING,
        in_one_call=True,
    ),
    "no-op: started already": one(event(common_pb2.STEP_STARTED), "no-op"),
    "no-op: same progress": one(progress(fields={"progress_seq": 7}), "no-op", (*RUNNING, HALF_DONE)),
    "no-op: completed already": one(event(common_pb2.STEP_COMPLETED), "no-op", (*RUNNING, DONE)),
    "no-op: task completed already": one(ruling(common_pb2.TASK_COMPLETED, seq=9), "no-op", (*RUNNING, TASK_DONE)),
}

LATE = {
    "old attempt": one(progress(credential="first"), Reason.STALE_ATTEMPT, RETRIED),
    "other execution": one(ruling(common_pb2.STEP_CANCELLED, stated=first_execution), Reason.STALE_EXECUTION, RETRIED),
    "sequence repeated": one(progress(seq=4), Reason.STALE_SEQUENCE, (*RUNNING, HALF_DONE)),
    "sequence lower": one(progress(seq=2), Reason.STALE_SEQUENCE, (*RUNNING, HALF_DONE)),
    "coordinator's sequence": one(
        ruling(common_pb2.TASK_COMPLETED),
        Reason.STALE_SEQUENCE,
        (*PENDING, ruling(common_pb2.TASK_STARTED, seq=4, number=6)),
    ),
    "progress lower": one(progress(current=4), Reason.PROGRESS_NOT_MONOTONIC, (*RUNNING, HALF_DONE)),
    "progress sequence lower": one(
        progress(6, fields={"progress_seq": 6}), Reason.PROGRESS_NOT_MONOTONIC, (*RUNNING, HALF_DONE)
    ),
    "step ended": one(progress(6), Reason.TERMINAL, (*RUNNING, DONE)),
    "step ended otherwise": one(event(common_pb2.STEP_FAILED, error=FAILURE), Reason.TERMINAL, (*RUNNING, DONE)),
    "task ended": one(event(common_pb2.STEP_COMPLETED), Reason.TERMINAL, (*RUNNING, TASK_DONE)),
    "task ended otherwise": one(ruling(common_pb2.TASK_CANCELLED, seq=9), Reason.TERMINAL, (*RUNNING, TASK_DONE)),
}

REFUSED = {
    "no JWT": one(progress(by="nobody"), Reason.UNAUTHENTICATED),
    "forged JWT": one(progress(by="forger"), Reason.UNAUTHENTICATED),
    "forged credential": one(progress(credential="forged"), Reason.UNAUTHENTICATED),
    "no credential": one(progress(credential="none"), Reason.UNAUTHENTICATED),
    "role does not report": one(progress(by="business"), Reason.PERMISSION_DENIED),
    "other tenant": one(progress(by="other tenant"), Reason.TOKEN_MISMATCH),
    "other task stated": one(progress(stated={"task_id": other_id("task")}), Reason.TOKEN_MISMATCH),
    "step in other case": one(progress(stated={"step_id": STEP_ID.upper()}), Reason.TOKEN_MISMATCH),
    "other task type stated": one(progress(stated={"task_type": "video"}), Reason.TOKEN_MISMATCH),
    "other producer": one(progress(by="other producer"), Reason.PRODUCER_MISMATCH),
    "other producer stated": one(progress(stated={"producer_id": "x"}), Reason.PRODUCER_MISMATCH),
    "unknown execution": one(progress(credential="unknown"), Reason.EXECUTION_NOT_FOUND),
    "unknown task": one(ruling(common_pb2.TASK_COMPLETED, stated={"task_id": other_id("task")}), Reason.TASK_NOT_FOUND),
    "unknown step": one(ruling(common_pb2.STEP_CANCELLED, stated={"step_id": "99_none"}), Reason.STEP_NOT_FOUND),
    "same id, other content": one(progress(6, number=4), Reason.IDEMPOTENCY_CONFLICT, (*RUNNING, HALF_DONE)),
    "same id, other attempt": one(
        event(common_pb2.STEP_STARTED, seq=1, number=1), Reason.IDEMPOTENCY_CONFLICT, RETRIED
    ),
    "expired token": one(progress(credential="expired"), Reason.TOKEN_EXPIRED),
    "revoked": one(progress(), Reason.TOKEN_REVOKED, (*RUNNING, Revoke())),
    "other operation stated": one(progress(stated={"operation_code": "OTHER"}), Reason.OPERATION_MISMATCH),
    "task event with a credential": one(event(common_pb2.TASK_COMPLETED), Reason.EVENT_TYPE_NOT_ALLOWED),
    "heartbeat": one(event(common_pb2.STEP_HEARTBEAT), Reason.EVENT_TYPE_NOT_ALLOWED),
    "outside the definition": one(event(common_pb2.STEP_CANCELLED), Reason.EVENT_TYPE_NOT_ALLOWED),
    "the service's own type": one(ruling(common_pb2.TASK_CREATED), Reason.EVENT_TYPE_NOT_ALLOWED),
    "not its coordinator": one(
        replace(ruling(common_pb2.TASK_COMPLETED), by="other coordinator"), Reason.EVENT_TYPE_NOT_ALLOWED
    ),
    "no sequence": one(progress(seq=0), Reason.INVALID_ARGUMENT),
    "beyond the total": one(progress(11), Reason.INVALID_ARGUMENT),
    "control character": one(progress(fields={"phase_label": "a\0b"}), Reason.INVALID_ARGUMENT),
    "no error": one(event(common_pb2.STEP_FAILED), Reason.INVALID_ARGUMENT),
    "no type": one(event(0), Reason.INVALID_ARGUMENT),
    "schema of another event": one(progress(fields={"data": data(COMPLETED, pages=1)}), Reason.SCHEMA_NOT_ALLOWED),
    "value outside the schema": one(progress(fields={"data": data(PROGRESS, pages=-1)}), Reason.SCHEMA_VIOLATION),
    "more than the schema allows": one(
        progress(fields={"data": data(PROGRESS, pages=1, note="x" * MAX_BYTES)}), Reason.PAYLOAD_TOO_LARGE
    ),
    "more than an event may have": one(
        progress(fields={"data": data(PROGRESS, note="x" * 17_000)}), Reason.PAYLOAD_TOO_LARGE
    ),
    "too old": one(progress(age=timedelta(days=8)), Reason.EVENT_TOO_OLD),
    "progress before the start": one(progress(), Reason.TRANSITION_NOT_ALLOWED, PENDING),
    "unknown business status": one(
        progress(fields={"business_status": "PARSING"}), Reason.BUSINESS_STATUS_NOT_REGISTERED
    ),
    "status of another lifecycle": one(
        progress(fields={"business_status": "SUCCEEDED"}), Reason.BUSINESS_STATUS_NOT_REGISTERED
    ),
    "unsafe integer": one(UNSAFE_INTEGER, Reason.INVALID_ARGUMENT),
    "unsafe integer, and another schema's": one(
        progress(fields={"data": data(COMPLETED, pages=BEYOND_SAFE)}), Reason.INVALID_ARGUMENT
    ),
    "unsafe integer, and an old attempt": one(
        replace(UNSAFE_INTEGER, credential="first"), Reason.STALE_ATTEMPT, RETRIED
    ),
    "unsafe integer among good": Case(
        (progress(6, 5, 20), replace(UNSAFE_INTEGER, number=21), event(common_pb2.STEP_COMPLETED, 7, 22)),
        ("accepted", Reason.INVALID_ARGUMENT, "accepted"),
        RUNNING,
    ),
    "one bad among good": Case(
        (progress(6, 5, 20), progress(7, 0, 21), event(common_pb2.STEP_COMPLETED, 7, 22)),
        ("accepted", Reason.INVALID_ARGUMENT, "accepted"),
        RUNNING,
    ),
}


@dataclass(frozen=True)
class Fault:
    """One thing wrong with an otherwise good progress, and the reason that it gives when it stands alone."""

    reason: Reason
    fields: Mapping[str, Any]
    of_event: Mapping[str, Any]


def wrong(reason: Reason, of_event: Mapping[str, Any] | None = None, **fields: Any) -> Fault:
    """A fault in the event's fields, or in who sends it with what."""
    return Fault(reason, fields, of_event or {})


FAULTS: tuple[Fault, ...] = (
    wrong(Reason.UNAUTHENTICATED, {"by": "forger"}),
    wrong(Reason.INVALID_ARGUMENT, phase_label="a\0b"),
    wrong(Reason.TOKEN_MISMATCH, {"by": "other tenant"}),
    wrong(Reason.IDEMPOTENCY_CONFLICT, {"number": 1}),
    wrong(Reason.TOKEN_EXPIRED, {"credential": "expired"}),
    wrong(Reason.OPERATION_MISMATCH, {"stated": {"operation_code": "OTHER"}}),
    wrong(Reason.STALE_ATTEMPT, {"credential": "first"}),
    wrong(Reason.EVENT_TYPE_NOT_ALLOWED, event_type=common_pb2.TASK_COMPLETED),
    wrong(Reason.SCHEMA_NOT_ALLOWED, data=data("video.transcode.v1", pages=1)),
    wrong(Reason.EVENT_TOO_OLD, {"age": timedelta(days=8)}),
    wrong(Reason.STALE_SEQUENCE, source_seq=1),
    wrong(Reason.PROGRESS_NOT_MONOTONIC, progress=common_pb2.Progress(current=4, total=10, unit="page")),
    wrong(Reason.BUSINESS_STATUS_NOT_REGISTERED, business_status="PARSING"),
)
"""In the order in which the guards speak."""


def with_faults(*faults: Fault) -> Sent:
    """A progress that has them all."""
    sent = progress(7, 6)
    for fault in reversed(faults):
        sent = replace(sent, fields={**sent.fields, **fault.fields}, **fault.of_event)
    return sent


def pairs_after(first: Fault) -> list[Fault]:
    """The later faults that the same event can have as well."""
    later = FAULTS[FAULTS.index(first) + 1 :]
    return [fault for fault in later if not first.of_event.keys() & fault.of_event.keys()]


TWO_FAULTS_BEFORE = (*RETRIED, HALF_DONE)
"""What the events of two faults meet."""

CASES: dict[str, Case] = {**ACCEPTED, **REPEATED, **LATE, **REFUSED}
