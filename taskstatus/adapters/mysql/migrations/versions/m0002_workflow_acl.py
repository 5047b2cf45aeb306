"""workflow_acl: who may see a workflow; the owner needs no row (P-4)."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision: str | None = "0001"

DDL = """
CREATE TABLE IF NOT EXISTS workflow_acl (
    bucket SMALLINT UNSIGNED NOT NULL,
    workflow_id BINARY(16) NOT NULL,
    tenant_id VARBINARY(64) NOT NULL,
    principal_type VARBINARY(32) NOT NULL,
    principal_id VARBINARY(64) NOT NULL,
    permission VARBINARY(32) NOT NULL,
    created_at DATETIME(6) NOT NULL,
    revoked_at DATETIME(6) NULL,
    PRIMARY KEY (workflow_id, principal_type, principal_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin
"""


def upgrade() -> None:
    """Create the table; a run that was cut off finds it and goes on."""
    op.execute(DDL)
