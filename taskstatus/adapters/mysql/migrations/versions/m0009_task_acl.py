"""task_acl: who may see a task; the owner needs no row (P-4)."""

from __future__ import annotations

from alembic import op

revision = "0009"
down_revision: str | None = "0008"

DDL = """
CREATE TABLE IF NOT EXISTS task_acl (
    bucket SMALLINT UNSIGNED NOT NULL,
    task_id BINARY(16) NOT NULL,
    tenant_id VARBINARY(64) NOT NULL,
    principal_type VARBINARY(32) NOT NULL,
    principal_id VARBINARY(64) NOT NULL,
    permission VARBINARY(32) NOT NULL,
    created_at DATETIME(6) NOT NULL,
    revoked_at DATETIME(6) NULL,
    task_created_at DATETIME(6) NOT NULL,
    PRIMARY KEY (task_id, principal_type, principal_id),
    KEY task_acl_principal (tenant_id, principal_type, principal_id, revoked_at, task_created_at, task_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin
"""


def upgrade() -> None:
    """Create the table; a run that was cut off finds it and goes on."""
    op.execute(DDL)
