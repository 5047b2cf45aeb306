"""task_event_log: one immutable row per task version, clustered by task."""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision: str | None = "0006"

DDL = """
CREATE TABLE IF NOT EXISTS task_event_log (
    bucket SMALLINT UNSIGNED NOT NULL,
    task_id BINARY(16) NOT NULL,
    task_version BIGINT UNSIGNED NOT NULL,
    event_id VARBINARY(64) NOT NULL,
    workflow_id BINARY(16) NOT NULL,
    event_type VARBINARY(32) NOT NULL,
    task_attempt INT UNSIGNED NOT NULL,
    step_id VARBINARY(64) NOT NULL,
    step_attempt INT UNSIGNED NOT NULL,
    execution_id BINARY(16) NULL,
    superseded_execution_id BINARY(16) NULL,
    operation_code VARBINARY(128) NOT NULL,
    step_version BIGINT UNSIGNED NOT NULL,
    producer_id VARBINARY(128) NOT NULL,
    source_seq BIGINT UNSIGNED NOT NULL,
    lifecycle_status VARBINARY(32) NOT NULL,
    business_status VARBINARY(64) NOT NULL,
    health VARBINARY(32) NOT NULL,
    error_code VARBINARY(128) NOT NULL,
    data_schema VARBINARY(128) NOT NULL,
    reason VARCHAR(512) NOT NULL,
    actor VARBINARY(200) NOT NULL,
    trace_id BINARY(16) NULL,
    occurred_at DATETIME(6) NULL,
    received_at DATETIME(6) NOT NULL,
    committed_at DATETIME(6) NOT NULL,
    duration_ms BIGINT UNSIGNED NULL,
    duration_source VARBINARY(32) NULL,
    canonical_version TINYINT UNSIGNED NOT NULL,
    canonical MEDIUMBLOB NOT NULL,
    digest BINARY(32) NOT NULL,
    shown_data BLOB NULL,
    PRIMARY KEY (task_id, task_version),
    KEY task_event_log_event (event_id),
    KEY task_event_log_trace (trace_id, committed_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin
"""


def upgrade() -> None:
    """Create the table; a run that was cut off finds it and goes on."""
    op.execute(DDL)
