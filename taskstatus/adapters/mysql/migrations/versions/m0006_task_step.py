"""task_step: one row per step attempt; an execution is its row here.

``waiting_execution`` is the execution while it is activated and neither started nor ended: such ids go by the time of
activation, so that work which nobody takes up is found by one index (H-8). No statement writes it.
"""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision: str | None = "0005"

DDL = """
CREATE TABLE IF NOT EXISTS task_step (
    bucket SMALLINT UNSIGNED NOT NULL,
    task_id BINARY(16) NOT NULL,
    task_attempt INT UNSIGNED NOT NULL,
    step_id VARBINARY(64) NOT NULL,
    attempt INT UNSIGNED NOT NULL,
    step_order INT UNSIGNED NOT NULL,
    is_dynamic BOOLEAN NOT NULL,
    parent_execution_id BINARY(16) NULL,
    operation_code VARBINARY(128) NOT NULL,
    expected_producer VARBINARY(128) NOT NULL,
    depends_on BLOB NOT NULL,
    failure_policy VARBINARY(32) NOT NULL,
    display_name VARCHAR(200) NOT NULL,
    weight INT UNSIGNED NOT NULL,
    max_run_seconds INT UNSIGNED NOT NULL,
    depth SMALLINT UNSIGNED NOT NULL,
    skip_reason VARCHAR(512) NULL,
    skip_source_event_id VARBINARY(64) NULL,
    execution_id BINARY(16) NULL,
    activation_digest BINARY(32) NULL,
    input_ref VARCHAR(1024) NULL,
    heartbeat_interval_seconds INT UNSIGNED NULL,
    heartbeat_timeout_seconds INT UNSIGNED NULL,
    definition_version INT UNSIGNED NULL,
    definition_task_type VARBINARY(128) NULL,
    created_at DATETIME(6) NOT NULL,
    generation INT UNSIGNED NOT NULL,
    superseded BOOLEAN NOT NULL,
    source_seq BIGINT UNSIGNED NOT NULL,
    version BIGINT UNSIGNED NOT NULL,
    lifecycle_status VARBINARY(32) NOT NULL,
    business_status VARBINARY(64) NOT NULL,
    is_stale BOOLEAN NOT NULL,
    is_degraded BOOLEAN NOT NULL,
    progress_current DOUBLE NULL,
    progress_total DOUBLE NULL,
    progress_unit VARCHAR(64) NULL,
    progress_seq BIGINT UNSIGNED NOT NULL,
    credited_points INT UNSIGNED NOT NULL,
    phase_code VARCHAR(128) NOT NULL,
    phase_label VARCHAR(200) NOT NULL,
    data_schema VARBINARY(128) NOT NULL,
    shown_data BLOB NULL,
    error_category VARCHAR(64) NULL,
    error_code VARBINARY(128) NULL,
    error_message VARCHAR(512) NULL,
    error_retryable BOOLEAN NULL,
    error_diagnostics_ref VARCHAR(255) NULL,
    end_reason VARBINARY(32) NOT NULL,
    started_at DATETIME(6) NULL,
    finished_at DATETIME(6) NULL,
    duration_ms BIGINT UNSIGNED NULL,
    duration_source VARBINARY(32) NULL,
    write_count BIGINT UNSIGNED NOT NULL,
    waiting_execution BINARY(16) GENERATED ALWAYS AS (
        CASE WHEN started_at IS NULL AND finished_at IS NULL AND superseded = 0 THEN execution_id END
    ) STORED,
    PRIMARY KEY (task_id, task_attempt, step_id, attempt),
    UNIQUE KEY task_step_execution (execution_id),
    KEY task_step_waiting (waiting_execution)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin
"""


def upgrade() -> None:
    """Create the table; a run that was cut off finds it and goes on."""
    op.execute(DDL)
