"""report_audit: reports that were refused, kept for a while for the service's operators (N-4)."""

from __future__ import annotations

from alembic import op

revision = "0013"
down_revision: str | None = "0012"

DDL = """
CREATE TABLE IF NOT EXISTS report_audit (
    id BINARY(16) NOT NULL,
    tenant_id VARBINARY(64) NOT NULL,
    authority_scope VARBINARY(64) NOT NULL,
    producer_id VARBINARY(128) NOT NULL,
    transport VARBINARY(16) NOT NULL,
    reason VARBINARY(64) NOT NULL,
    event_id VARBINARY(64) NOT NULL,
    event_type VARBINARY(32) NOT NULL,
    task_id BINARY(16) NULL,
    step_id VARBINARY(64) NOT NULL,
    trace_id BINARY(16) NULL,
    received_at DATETIME(6) NOT NULL,
    PRIMARY KEY (id),
    KEY report_audit_producer_idx (tenant_id, producer_id, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin
"""


def upgrade() -> None:
    """Create the table; a run that was cut off finds it and goes on."""
    op.execute(DDL)
