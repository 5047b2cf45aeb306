"""task_status_definition: published versions of the business statuses of a task type, immutable (L-4, L-5)."""

from __future__ import annotations

from alembic import op

revision = "0014"
down_revision: str | None = "0013"

DDL = """
CREATE TABLE IF NOT EXISTS task_status_definition (
    tenant_id VARBINARY(64) NOT NULL,
    authority_scope VARBINARY(64) NOT NULL,
    task_type VARBINARY(128) NOT NULL,
    definition_version INT UNSIGNED NOT NULL,
    body MEDIUMBLOB NOT NULL,
    digest BINARY(32) NOT NULL,
    published_by VARBINARY(200) NOT NULL,
    published_at DATETIME(6) NOT NULL,
    retired_at DATETIME(6) NULL,
    changed_at DATETIME(6) NOT NULL,
    PRIMARY KEY (tenant_id, authority_scope, task_type, definition_version),
    KEY task_status_definition_changed (changed_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin
"""


def upgrade() -> None:
    """Create the table; a run that was cut off finds it and goes on."""
    op.execute(DDL)
