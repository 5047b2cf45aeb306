"""task_event_dedup: the first result under each event id, unique within its task (E-3)."""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision: str | None = "0007"

DDL = """
CREATE TABLE IF NOT EXISTS task_event_dedup (
    bucket SMALLINT UNSIGNED NOT NULL,
    task_id BINARY(16) NOT NULL,
    event_id VARBINARY(64) NOT NULL,
    digest BINARY(32) NOT NULL,
    canonical_version TINYINT UNSIGNED NOT NULL,
    result VARBINARY(1024) NOT NULL,
    created_at DATETIME(6) NOT NULL,
    PRIMARY KEY (task_id, event_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin
"""


def upgrade() -> None:
    """Create the table; a run that was cut off finds it and goes on."""
    op.execute(DDL)
