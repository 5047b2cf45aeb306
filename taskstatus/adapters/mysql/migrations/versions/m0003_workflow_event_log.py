"""workflow_event_log: what made each workflow version; append-only."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision: str | None = "0002"

DDL = """
CREATE TABLE IF NOT EXISTS workflow_event_log (
    bucket SMALLINT UNSIGNED NOT NULL,
    workflow_id BINARY(16) NOT NULL,
    workflow_version BIGINT UNSIGNED NOT NULL,
    event_id VARBINARY(64) NOT NULL,
    event_type VARBINARY(32) NOT NULL,
    task_id BINARY(16) NULL,
    actor VARBINARY(200) NOT NULL,
    trace_id BINARY(16) NULL,
    committed_at DATETIME(6) NOT NULL,
    digest BINARY(32) NOT NULL,
    reason VARCHAR(512) NOT NULL,
    PRIMARY KEY (workflow_id, workflow_version),
    KEY workflow_event_log_event (workflow_id, event_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin
"""


def upgrade() -> None:
    """Create the table; a run that was cut off finds it and goes on."""
    op.execute(DDL)
