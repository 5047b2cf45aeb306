"""One violation of each guard, made so that any two of them can stand in one judgement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from taskstatus.domain.commands import Caller, EventData, StatedFields
from taskstatus.domain.errors import RefusedError, invalid
from taskstatus.domain.events import EventType
from taskstatus.domain.guards import Judgement
from taskstatus.domain.ids import ExecutionId, format_task_id
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.reasons import Reason
from taskstatus.domain.records import SeenEvent
from taskstatus.domain.verdicts import no_op
from tests.unit.factories import (
    REVIEWED,
    START,
    a_digest,
    a_running_step,
    a_task_in,
    progress,
    step_event,
)

Violation = Callable[[Judgement], Judgement]


def good_judgement() -> Judgement:
    """A progress that every guard accepts."""
    step = a_running_step(progress=progress(10), progress_seq=5, version=3, source_seq=2)
    command = step_event(EventType.STEP_PROGRESS, 3, of=step, progress=progress(20), progress_seq=6)
    return Judgement(command, START, a_task_in(Lifecycle.RUNNING, version=3), step, None)


def _command(j: Judgement, **changes: Any) -> Judgement:
    return replace(j, command=replace(j.command, **changes))


def _content(j: Judgement, **changes: Any) -> Judgement:
    return _command(j, content=replace(j.command.content, **changes))


def _stated(j: Judgement, **changes: Any) -> Judgement:
    return _command(j, stated=replace(j.command.stated, **changes))


def _step(j: Judgement, **changes: Any) -> Judgement:
    return j if j.step is None else replace(j, step=replace(j.step, **changes))


def _task(j: Judgement, **changes: Any) -> Judgement:
    return j if j.task is None else replace(j, task=replace(j.task, **changes))


def _envelope(j: Judgement, **changes: Any) -> Judgement:
    return j if j.task is None else _task(j, envelope=replace(j.task.envelope, **changes))


def _definition(j: Judgement, **changes: Any) -> Judgement:
    return j if j.step is None else _step(j, definition=replace(j.step.definition, **changes))


def _credential(j: Judgement, **changes: Any) -> Judgement:
    assert j.command.credential is not None
    return _command(j, credential=replace(j.command.credential, **changes))


def _bound(j: Judgement, **changes: Any) -> Judgement:
    bound = j.command.bound
    return _command(j, bound=replace(bound, **changes))


def _faulty_data(j: Judgement, fault: RefusedError) -> Judgement:
    return _content(j, data=EventData("parse.v1", b"", fault=fault))


def _other_execution(j: Judgement) -> Judgement:
    if j.step is None or j.step.terms is None:
        return j
    return _step(j, terms=replace(j.step.terms, execution_id=ExecutionId(bytes(16))))


def _seen(j: Judgement, digest: bytes) -> Judgement:
    return replace(j, seen=SeenEvent(digest, no_op(a_task_in(Lifecycle.RUNNING), None).result))


TOO_LARGE = RefusedError(Reason.PAYLOAD_TOO_LARGE, "data is too large")

IN_ORDER: Mapping[str, tuple[Reason, Violation]] = {
    "credential is the caller's own": (Reason.TOKEN_MISMATCH, lambda j: _bound(j, tenant_id="t-02")),
    "task exists": (Reason.TASK_NOT_FOUND, lambda j: replace(j, task=None)),
    "step exists": (Reason.STEP_NOT_FOUND, lambda j: replace(j, step=None)),
    "event id is new": (Reason.IDEMPOTENCY_CONFLICT, lambda j: _seen(j, a_digest("other content"))),
    "credential is live": (Reason.TOKEN_EXPIRED, lambda j: _credential(j, expires_at=j.command.received_unix)),
    "operation and producer match": (Reason.OPERATION_MISMATCH, lambda j: _command(j, operation_code="FILE.PREPARE")),
    "run, attempt and execution are current": (Reason.STALE_ATTEMPT, lambda j: _step(j, superseded=True)),
    "event type is allowed": (Reason.EVENT_TYPE_NOT_ALLOWED, lambda j: _credential(j, allowed_events=frozenset())),
    "data is valid": (Reason.PAYLOAD_TOO_LARGE, lambda j: _faulty_data(j, TOO_LARGE)),
    "event is young enough": (Reason.EVENT_TOO_OLD, lambda j: _content(j, occurred_at=j.now - timedelta(days=8))),
    "source sequence rises": (Reason.STALE_SEQUENCE, lambda j: _content(j, source_seq=2)),
    "progress rises": (Reason.PROGRESS_NOT_MONOTONIC, lambda j: _content(j, progress_seq=4)),
    "lifecycle allows": (Reason.TRANSITION_NOT_ALLOWED, lambda j: _step(j, lifecycle=Lifecycle.PENDING)),
    "business status fits": (
        Reason.BUSINESS_STATUS_NOT_REGISTERED,
        lambda j: _content(j, business_status="PARSE_COMPLETED"),
    ),
}
"""The order of the spec, written by hand: each guard, the reason it is expected to give, and what makes it object."""

OTHER_TASK = format_task_id(bytes(6) + b"\x70" + bytes(1) + b"\x80" + bytes(7))

FURTHER: Mapping[str, tuple[str, Reason, Violation]] = {
    "bound to another scope": (
        "credential is the caller's own",
        Reason.TOKEN_MISMATCH,
        lambda j: _bound(j, authority_scope="other"),
    ),
    "bound to another producer": (
        "credential is the caller's own",
        Reason.PRODUCER_MISMATCH,
        lambda j: _bound(j, producer_id="other"),
    ),
    "another tenant's task": ("task exists", Reason.TASK_NOT_FOUND, lambda j: _envelope(j, tenant_id="t-02")),
    "another scope's task": ("task exists", Reason.TASK_NOT_FOUND, lambda j: _envelope(j, authority_scope="other")),
    "revoked": ("credential is live", Reason.TOKEN_REVOKED, lambda j: _step(j, generation=2)),
    "expected another producer": (
        "operation and producer match",
        Reason.PRODUCER_MISMATCH,
        lambda j: _definition(j, expected_producer="other"),
    ),
    "stated another producer": (
        "operation and producer match",
        Reason.PRODUCER_MISMATCH,
        lambda j: _stated(j, producer_id="other"),
    ),
    "stated another operation": (
        "operation and producer match",
        Reason.OPERATION_MISMATCH,
        lambda j: _stated(j, operation_code="FILE.PREPARE"),
    ),
    "stated another task type": (
        "operation and producer match",
        Reason.TOKEN_MISMATCH,
        lambda j: _stated(j, task_type="INVOICE_IMPORT"),
    ),
    "another run is current": (
        "run, attempt and execution are current",
        Reason.STALE_ATTEMPT,
        lambda j: _task(j, attempt=2),
    ),
    "the step is of another run": (
        "run, attempt and execution are current",
        Reason.STALE_ATTEMPT,
        lambda j: _step(j, task_attempt=2),
    ),
    "another execution holds the attempt": (
        "run, attempt and execution are current",
        Reason.STALE_EXECUTION,
        _other_execution,
    ),
    "schema not registered": (
        "data is valid",
        Reason.SCHEMA_NOT_ALLOWED,
        lambda j: _faulty_data(j, RefusedError(Reason.SCHEMA_NOT_ALLOWED, "not registered")),
    ),
    "value that does not fit": (
        "data is valid",
        Reason.SCHEMA_VIOLATION,
        lambda j: _faulty_data(j, RefusedError(Reason.SCHEMA_VIOLATION, "does not fit")),
    ),
    "broken data": (
        "data is valid",
        Reason.INVALID_ARGUMENT,
        lambda j: _faulty_data(j, invalid("data.value.n", "is not finite")),
    ),
    "step has ended": ("lifecycle allows", Reason.TERMINAL, lambda j: _step(j, lifecycle=Lifecycle.FAILED)),
    "task has ended": ("lifecycle allows", Reason.TERMINAL, lambda j: _task(j, lifecycle=Lifecycle.FAILED)),
    "status of another lifecycle": (
        "business status fits",
        Reason.BUSINESS_STATUS_NOT_REGISTERED,
        lambda j: _content(j, business_status="SUCCEEDED"),
    ),
    "generic status that the definition does not list": (
        "business status fits",
        Reason.BUSINESS_STATUS_NOT_REGISTERED,
        lambda j: replace(_content(j, business_status="RETRY_WAIT"), statuses=REVIEWED),
    ),
    "status that may not follow the current one": (
        "business status fits",
        Reason.TRANSITION_NOT_ALLOWED,
        lambda j: replace(_content(j, business_status="WAITING_REVIEW"), statuses=REVIEWED),
    ),
}
"""Every other way to meet a guard: its name, the reason expected, and the violation."""

STATED_CONTRADICTIONS = (
    StatedFields(task_id=OTHER_TASK),
    StatedFields(task_id="no id at all"),
    StatedFields(workflow_id="wf_" + OTHER_TASK.removeprefix("task_")),
    StatedFields(execution_id="exec_" + OTHER_TASK.removeprefix("task_")),
    StatedFields(step_id="03_store"),
    StatedFields(task_attempt=2),
    StatedFields(step_attempt=2),
)
"""Fields of the full form that do not match what the credential binds."""


def as_stated(j: Judgement, stated: StatedFields) -> Judgement:
    """The same judgement with these fields stated."""
    return _command(j, stated=stated)


def by_caller(j: Judgement, caller: Caller) -> Judgement:
    """The same judgement by another service."""
    return _command(j, caller=caller)
