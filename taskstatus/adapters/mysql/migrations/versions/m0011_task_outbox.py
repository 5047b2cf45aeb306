"""task_outbox: what the relay has to publish; due_at is NULL once PUBLISHED or DEAD (O-1).

Rows of kind AGGREGATE are the workflow projector's: ``for_projector`` leads the index, so that neither claims, locks or
counts what is the other's.
"""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision: str | None = "0010"

DDL = """
CREATE TABLE IF NOT EXISTS task_outbox (
    bucket SMALLINT UNSIGNED NOT NULL,
    id BINARY(16) NOT NULL,
    aggregate_type VARBINARY(32) NOT NULL,
    aggregate_id BINARY(16) NOT NULL,
    aggregate_version BIGINT UNSIGNED NOT NULL,
    kind VARBINARY(32) NOT NULL,
    projection VARBINARY(32) NOT NULL,
    audience VARBINARY(32) NOT NULL,
    tenant_id VARBINARY(64) NOT NULL,
    owner_id VARBINARY(64) NOT NULL,
    workflow_id BINARY(16) NOT NULL,
    event_type VARBINARY(32) NOT NULL,
    protected BOOLEAN NOT NULL,
    payload MEDIUMBLOB NULL,
    traceparent VARBINARY(128) NOT NULL,
    committed_at DATETIME(6) NOT NULL,
    for_projector BOOLEAN NOT NULL,
    status VARBINARY(32) NOT NULL,
    due_at DATETIME(6) NULL,
    attempts INT UNSIGNED NOT NULL,
    failures INT UNSIGNED NOT NULL,
    claim_token BINARY(16) NULL,
    claimed_by VARBINARY(128) NULL,
    last_error VARCHAR(1024) NULL,
    published_at DATETIME(6) NULL,
    dead_at DATETIME(6) NULL,
    PRIMARY KEY (id),
    UNIQUE KEY outbox_message (aggregate_type, aggregate_id, aggregate_version, kind, projection, audience),
    KEY outbox_due (for_projector, due_at, id),
    KEY outbox_dead (dead_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin
"""


def upgrade() -> None:
    """Create the table; a run that was cut off finds it and goes on."""
    op.execute(DDL)
