"""Rows of ``task_event_log`` and ``task_event_dedup``."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any

from taskstatus.adapters.mysql.session import Row
from taskstatus.adapters.mysql.statements import Parameters
from taskstatus.adapters.mysql.values import (
    epoch_micros,
    from_json,
    optional_enum,
    plain,
    text,
    to_json,
    value_or_null,
)
from taskstatus.domain.events import EventType
from taskstatus.domain.health import Health
from taskstatus.domain.ids import ExecutionId, TaskId, WorkflowId
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.reasons import Reason
from taskstatus.domain.records import CANONICAL_VERSION, DedupRecord, EventRecord, ReportResult, SeenEvent
from taskstatus.domain.state import DurationSource

COLUMNS = (
    "bucket",
    "task_id",
    "task_version",
    "event_id",
    "workflow_id",
    "event_type",
    "task_attempt",
    "step_id",
    "step_attempt",
    "execution_id",
    "superseded_execution_id",
    "operation_code",
    "step_version",
    "producer_id",
    "source_seq",
    "lifecycle_status",
    "business_status",
    "health",
    "error_code",
    "data_schema",
    "reason",
    "actor",
    "trace_id",
    "occurred_at",
    "received_at",
    "committed_at",
    "duration_ms",
    "duration_source",
    "canonical_version",
    "canonical",
    "digest",
    "shown_data",
)
DEDUP_COLUMNS = ("bucket", "task_id", "event_id", "digest", "canonical_version", "result")
SEEN_COLUMNS = ("task_id", "event_id", "digest", "result")

_EPOCH = datetime(1970, 1, 1)
_STORED = tuple((field.name, field.default) for field in fields(ReportResult) if field.name != "task_id")


def to_row(event: EventRecord) -> Parameters:
    """The values of COLUMNS."""
    return (
        event.bucket,
        event.task_id,
        event.task_version,
        event.event_id,
        event.workflow_id,
        plain(event.event_type),
        event.task_attempt,
        event.step_id,
        event.step_attempt,
        event.execution_id,
        event.superseded_execution_id,
        event.operation_code,
        event.step_version,
        event.producer_id,
        event.source_seq,
        plain(event.lifecycle),
        event.business_status,
        plain(event.health),
        event.error_code,
        event.data_schema,
        event.reason,
        event.actor,
        event.trace_id,
        event.occurred_at,
        event.received_at,
        event.committed_at,
        event.duration_ms,
        value_or_null(event.duration_source),
        CANONICAL_VERSION,
        event.canonical,
        event.digest,
        event.shown_data or None,
    )


def from_row(row: Row) -> EventRecord:
    """The event of a row of COLUMNS."""
    bucket, task_id, task_version, event_id, workflow_id, event_type, task_attempt, step_id, step_attempt = row[:9]
    execution_id, superseded, operation, step_version, producer_id, source_seq, lifecycle, business, health = row[9:18]
    error_code, data_schema, reason, actor, trace_id, occurred_at, received_at, committed_at = row[18:26]
    duration_ms, duration_source, _canonical_version, canonical, digest, shown_data = row[26:32]
    return EventRecord(
        task_id=TaskId(task_id),
        bucket=bucket,
        task_version=task_version,
        event_id=text(event_id),
        workflow_id=WorkflowId(workflow_id),
        event_type=EventType(text(event_type)),
        task_attempt=task_attempt,
        step_id=text(step_id),
        step_attempt=step_attempt,
        execution_id=None if execution_id is None else ExecutionId(execution_id),
        superseded_execution_id=None if superseded is None else ExecutionId(superseded),
        operation_code=text(operation),
        step_version=step_version,
        producer_id=text(producer_id),
        source_seq=source_seq,
        lifecycle=Lifecycle(text(lifecycle)),
        business_status=text(business),
        health=Health(text(health)),
        error_code=text(error_code),
        data_schema=text(data_schema),
        reason=reason,
        actor=text(actor),
        trace_id=trace_id,
        occurred_at=occurred_at,
        received_at=received_at,
        committed_at=committed_at,
        duration_ms=duration_ms,
        duration_source=optional_enum(DurationSource, duration_source),
        canonical=canonical,
        digest=digest,
        shown_data=shown_data or b"",
    )


def dedup_to_row(record: DedupRecord) -> Parameters:
    """The values of DEDUP_COLUMNS."""
    result = result_to_json(record.result)
    return (record.bucket, record.task_id, record.event_id, record.digest, CANONICAL_VERSION, result)


def seen_from_row(row: Row) -> tuple[tuple[TaskId, str], SeenEvent]:
    """Key and content of a row of SEEN_COLUMNS."""
    task_id, event_id, digest, result = row
    return (TaskId(task_id), text(event_id)), SeenEvent(digest, result_from_json(TaskId(task_id), result))


def result_to_json(result: ReportResult) -> bytes:
    """The result without the task id, which is in the key, and without what has its default."""
    content: dict[str, Any] = {name: value for name, default in _STORED if (value := getattr(result, name)) != default}
    if result.committed_at is not None:
        content["committed_at"] = epoch_micros(result.committed_at)
    return to_json(content)


def result_from_json(task_id: TaskId, stored: bytes | str) -> ReportResult:
    """The result as it was given first."""
    content = from_json(stored)
    content["lifecycle"] = Lifecycle(content["lifecycle"])
    if "reason" in content:
        content["reason"] = Reason(content["reason"])
    if "committed_at" in content:
        content["committed_at"] = _EPOCH + timedelta(microseconds=content["committed_at"])
    return ReportResult(task_id=task_id, **content)
