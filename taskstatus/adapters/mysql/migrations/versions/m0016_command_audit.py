"""command_audit: who ruled what on a task, with the value before and after (L-3, R-8)."""

from __future__ import annotations

from alembic import op

revision = "0016"
down_revision: str | None = "0015"

DDL = """
CREATE TABLE IF NOT EXISTS command_audit (
    bucket SMALLINT UNSIGNED NOT NULL,
    id BINARY(16) NOT NULL,
    tenant_id VARBINARY(64) NOT NULL,
    authority_scope VARBINARY(64) NOT NULL,
    task_id BINARY(16) NOT NULL,
    command_id VARBINARY(64) NOT NULL,
    action VARBINARY(32) NOT NULL,
    actor VARBINARY(200) NOT NULL,
    reason VARCHAR(512) NOT NULL,
    old_value BLOB NOT NULL,
    new_value BLOB NOT NULL,
    committed_at DATETIME(6) NOT NULL,
    PRIMARY KEY (id),
    KEY command_audit_task (task_id, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin
"""


def upgrade() -> None:
    """Create the table; a run that was cut off finds it and goes on."""
    op.execute(DDL)
