"""Rows of ``hot_sql.standings``: an execution's step, task and lease, side by side."""

from __future__ import annotations

from taskstatus.adapters.mysql.session import Row
from taskstatus.adapters.mysql.values import text
from taskstatus.domain.health import shown_health
from taskstatus.domain.ids import ExecutionId, TaskId
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.standing import ExecutionStanding

COLUMNS = (
    "task_step.execution_id",
    "task_step.bucket",
    "task_step.task_id",
    "task.tenant_id",
    "task.authority_scope",
    "task_step.expected_producer",
    "task_step.generation",
    "task_step.superseded=0 AND task_step.task_attempt=task.attempt AS is_current",
    "task_step.lifecycle_status",
    "task.lifecycle_status AS task_lifecycle_status",
    "task_step.is_stale",
    "task_step.is_degraded",
    "task.cancel_requested",
    "task_step.heartbeat_interval_seconds",
    "task_step.heartbeat_timeout_seconds",
    "task_execution_lease.opened_at IS NOT NULL AND task_execution_lease.closed_at IS NULL AS is_open",
    "task_execution_lease.heartbeat_seq",
    "task_execution_lease.interval_seconds",
    "task_execution_lease.timeout_seconds",
)
"""Then the database's clock."""


def from_row(row: Row) -> ExecutionStanding:
    """The standing of a row of COLUMNS and the time; without a lease the terms are those of the activation."""
    execution_id, bucket, task_id, tenant_id, scope, producer, generation, is_current = row[:8]
    lifecycle, task_lifecycle, stale, degraded, cancel_requested, base_interval, base_timeout = row[8:15]
    is_open, heartbeat_seq, interval, timeout, now = row[15:20]
    return ExecutionStanding(
        execution_id=ExecutionId(execution_id),
        bucket=bucket,
        task_id=TaskId(task_id),
        producer_id=text(producer),
        generation=generation,
        is_current=bool(is_current),
        lifecycle=Lifecycle(text(lifecycle)),
        task_lifecycle=Lifecycle(text(task_lifecycle)),
        health=shown_health(stale=bool(stale), degraded=bool(degraded)),
        cancel_requested=bool(cancel_requested),
        has_open_lease=bool(is_open),
        heartbeat_seq=heartbeat_seq or 0,
        interval_seconds=interval or base_interval,
        timeout_seconds=timeout or base_timeout,
        as_of=now,
        base_interval_seconds=base_interval,
        base_timeout_seconds=base_timeout,
        tenant_id=text(tenant_id),
        authority_scope=text(scope),
    )
