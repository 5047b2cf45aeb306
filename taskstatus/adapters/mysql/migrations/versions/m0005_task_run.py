"""task_run: one row per run; its outcome is filled in once, when the run ends (R-7)."""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision: str | None = "0004"

DDL = """
CREATE TABLE IF NOT EXISTS task_run (
    bucket SMALLINT UNSIGNED NOT NULL,
    task_id BINARY(16) NOT NULL,
    task_attempt INT UNSIGNED NOT NULL,
    input_ref VARCHAR(1024) NOT NULL,
    weight_total BIGINT UNSIGNED NOT NULL,
    created_at DATETIME(6) NOT NULL,
    reason VARCHAR(512) NOT NULL,
    dynamic_steps INT UNSIGNED NOT NULL,
    registered_at BLOB NULL,
    lifecycle_status VARBINARY(32) NULL,
    business_status VARBINARY(64) NULL,
    progress_points BIGINT UNSIGNED NULL,
    failure_code VARBINARY(128) NULL,
    failure_message VARCHAR(512) NULL,
    failure_category VARCHAR(64) NULL,
    failure_retryable BOOLEAN NULL,
    failed_step_id VARBINARY(64) NULL,
    started_at DATETIME(6) NULL,
    finished_at DATETIME(6) NULL,
    duration_ms BIGINT UNSIGNED NULL,
    duration_source VARBINARY(32) NULL,
    PRIMARY KEY (task_id, task_attempt)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin
"""


def upgrade() -> None:
    """Create the table; a run that was cut off finds it and goes on."""
    op.execute(DDL)
