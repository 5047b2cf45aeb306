"""task_external_ref: numbers of other systems; within tenant and scope each names one task (ID-5).

The key lacks the bucket on purpose: a number is looked up without it (a lookup vindex on a sharded store). The scope
comes last in it: people look in every scope of their tenant.
"""

from __future__ import annotations

from alembic import op

revision = "0015"
down_revision: str | None = "0014"

DDL = """
CREATE TABLE IF NOT EXISTS task_external_ref (
    bucket SMALLINT UNSIGNED NOT NULL,
    tenant_id VARBINARY(64) NOT NULL,
    authority_scope VARBINARY(64) NOT NULL,
    ref_type VARBINARY(64) NOT NULL,
    ref_value VARBINARY(255) NOT NULL,
    task_id BINARY(16) NOT NULL,
    created_at DATETIME(6) NOT NULL,
    PRIMARY KEY (tenant_id, ref_type, ref_value, authority_scope),
    KEY task_external_ref_task (task_id, ref_type, ref_value)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin
"""


def upgrade() -> None:
    """Create the table; a run that was cut off finds it and goes on."""
    op.execute(DDL)
