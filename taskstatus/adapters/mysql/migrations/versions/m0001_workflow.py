"""workflow: one row per workflow; its version is its own axis (L-7)."""

from __future__ import annotations

from alembic import op

revision = "0001"
down_revision: str | None = None

DDL = """
CREATE TABLE IF NOT EXISTS workflow (
    bucket SMALLINT UNSIGNED NOT NULL,
    id BINARY(16) NOT NULL,
    tenant_id VARBINARY(64) NOT NULL,
    authority_scope VARBINARY(64) NOT NULL,
    owner_id VARBINARY(64) NOT NULL,
    client_workflow_key VARBINARY(128) NOT NULL,
    creation_digest BINARY(32) NOT NULL,
    workflow_type VARBINARY(128) NOT NULL,
    title VARCHAR(200) NOT NULL,
    coordinator_producer VARBINARY(128) NOT NULL,
    lifecycle_status VARBINARY(32) NOT NULL,
    version BIGINT UNSIGNED NOT NULL,
    task_count INT UNSIGNED NOT NULL,
    aggregation_policy VARBINARY(32) NOT NULL,
    ruled BOOLEAN NOT NULL,
    ruling_reason VARCHAR(512) NOT NULL,
    counts VARBINARY(512) NOT NULL,
    shared_counts VARBINARY(512) NOT NULL,
    health VARBINARY(32) NOT NULL,
    created_at DATETIME(6) NOT NULL,
    started_at DATETIME(6) NULL,
    finished_at DATETIME(6) NULL,
    shared_started_at DATETIME(6) NULL,
    shared_finished_at DATETIME(6) NULL,
    committed_at DATETIME(6) NOT NULL,
    PRIMARY KEY (id),
    UNIQUE KEY workflow_client_key (tenant_id, authority_scope, client_workflow_key),
    KEY workflow_owner (tenant_id, owner_id, created_at, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin
"""


def upgrade() -> None:
    """Create the table; a run that was cut off finds it and goes on."""
    op.execute(DDL)
