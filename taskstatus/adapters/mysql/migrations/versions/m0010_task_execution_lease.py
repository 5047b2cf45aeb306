"""task_execution_lease: the narrow table that heartbeats touch; deadline_at is NULL once closed (H-2)."""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision: str | None = "0009"

DDL = """
CREATE TABLE IF NOT EXISTS task_execution_lease (
    bucket SMALLINT UNSIGNED NOT NULL,
    execution_id BINARY(16) NOT NULL,
    task_id BINARY(16) NOT NULL,
    task_attempt INT UNSIGNED NOT NULL,
    step_id VARBINARY(64) NOT NULL,
    step_attempt INT UNSIGNED NOT NULL,
    producer_id VARBINARY(128) NOT NULL,
    interval_seconds INT UNSIGNED NOT NULL,
    timeout_seconds INT UNSIGNED NOT NULL,
    opened_at DATETIME(6) NOT NULL,
    deadline_at DATETIME(6) NULL,
    heartbeat_seq BIGINT UNSIGNED NOT NULL,
    last_heartbeat_at DATETIME(6) NULL,
    closed_at DATETIME(6) NULL,
    PRIMARY KEY (execution_id),
    KEY lease_deadline (deadline_at, execution_id),
    KEY lease_task (task_id, task_attempt)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin
"""


def upgrade() -> None:
    """Create the table; a run that was cut off finds it and goes on."""
    op.execute(DDL)
