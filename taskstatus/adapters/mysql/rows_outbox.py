"""Rows of ``task_outbox`` and ``task_execution_lease`` as the write transaction leaves them."""

from __future__ import annotations

from taskstatus.adapters.mysql.session import Row
from taskstatus.adapters.mysql.statements import Parameters
from taskstatus.adapters.mysql.values import plain, text
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import WorkflowId
from taskstatus.domain.records import AggregateType, Audience, LeaseRecord, OutboxKind, OutboxRecord, Projection

RECORD_COLUMNS = (
    "bucket",
    "id",
    "aggregate_type",
    "aggregate_id",
    "aggregate_version",
    "kind",
    "projection",
    "audience",
    "tenant_id",
    "owner_id",
    "workflow_id",
    "event_type",
    "protected",
    "payload",
    "traceparent",
    "committed_at",
)
COLUMNS = (*RECORD_COLUMNS, "due_at", "for_projector")
LEASE_COLUMNS = (
    "bucket",
    "execution_id",
    "task_id",
    "task_attempt",
    "step_id",
    "step_attempt",
    "producer_id",
    "interval_seconds",
    "timeout_seconds",
    "opened_at",
    "deadline_at",
    "stuck_at",
)


def to_row(record: OutboxRecord) -> Parameters:
    """The values of COLUMNS: ready to publish since its commit."""
    return (
        record.bucket,
        record.outbox_id,
        plain(record.aggregate_type),
        record.aggregate_id,
        record.aggregate_version,
        plain(record.kind),
        plain(record.projection),
        plain(record.audience),
        record.tenant_id,
        record.owner_id,
        record.workflow_id,
        plain(record.event_type),
        record.protected,
        record.payload,
        record.traceparent,
        record.committed_at,
        record.committed_at,
        record.kind is OutboxKind.AGGREGATE,
    )


def from_row(row: Row) -> OutboxRecord:
    """The record of a row that begins with RECORD_COLUMNS."""
    bucket, outbox_id, aggregate_type, aggregate_id, version, kind, projection, audience = row[:8]
    tenant_id, owner_id, workflow_id, event_type, protected, payload, traceparent, committed_at = row[8:16]
    return OutboxRecord(
        outbox_id=outbox_id,
        bucket=bucket,
        aggregate_type=AggregateType(text(aggregate_type)),
        aggregate_id=aggregate_id,
        aggregate_version=version,
        kind=OutboxKind(text(kind)),
        projection=Projection(text(projection)),
        audience=Audience(text(audience)),
        tenant_id=text(tenant_id),
        owner_id=text(owner_id),
        workflow_id=WorkflowId(workflow_id),
        event_type=EventType(text(event_type)),
        protected=bool(protected),
        payload=payload,
        traceparent=text(traceparent),
        committed_at=committed_at,
    )


def lease_to_row(lease: LeaseRecord) -> Parameters:
    """The values of LEASE_COLUMNS: open; the statement adds that there was no heartbeat yet."""
    return (
        lease.bucket,
        lease.execution_id,
        lease.task_id,
        lease.task_attempt,
        lease.step_id,
        lease.step_attempt,
        lease.producer_id,
        lease.interval_seconds,
        lease.timeout_seconds,
        lease.opened_at,
        lease.deadline_at,
        lease.stuck_at,
    )
