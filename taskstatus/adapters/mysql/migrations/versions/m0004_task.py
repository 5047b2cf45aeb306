"""task: the aggregate root, with the counters of its current run.

``run_deadline_at`` is from when on its open run is beyond the task's run time: stuck work by one index (H-8). No
statement writes it, and it changes only when a run starts or ends.
"""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision: str | None = "0003"

DDL = """
CREATE TABLE IF NOT EXISTS task (
    bucket SMALLINT UNSIGNED NOT NULL,
    id BINARY(16) NOT NULL,
    workflow_id BINARY(16) NOT NULL,
    tenant_id VARBINARY(64) NOT NULL,
    authority_scope VARBINARY(64) NOT NULL,
    owner_id VARBINARY(64) NOT NULL,
    client_task_key VARBINARY(128) NOT NULL,
    creation_digest BINARY(32) NOT NULL,
    title VARCHAR(200) NOT NULL,
    task_type VARBINARY(128) NOT NULL,
    product_id VARBINARY(64) NOT NULL,
    priority SMALLINT NOT NULL,
    coordinator_producer VARBINARY(128) NOT NULL,
    policy_executors VARBINARY(8192) NOT NULL,
    input_ref VARCHAR(1024) NOT NULL,
    created_at DATETIME(6) NOT NULL,
    status_definition_version INT UNSIGNED NULL,
    operation_definition_version INT UNSIGNED NULL,
    batch_id VARBINARY(64) NOT NULL,
    parent_task_id BINARY(16) NULL,
    is_sensitive BOOLEAN NOT NULL,
    terms BLOB NOT NULL,
    max_run_seconds INT UNSIGNED NOT NULL,
    attempt INT UNSIGNED NOT NULL,
    version BIGINT UNSIGNED NOT NULL,
    row_revision BIGINT UNSIGNED NOT NULL,
    lifecycle_status VARBINARY(32) NOT NULL,
    business_status VARBINARY(64) NOT NULL,
    cancel_requested BOOLEAN NOT NULL,
    shared BOOLEAN NOT NULL,
    weight_total BIGINT UNSIGNED NOT NULL,
    progress_points BIGINT UNSIGNED NOT NULL,
    open_steps INT UNSIGNED NOT NULL,
    stale_steps INT UNSIGNED NOT NULL,
    degraded_steps INT UNSIGNED NOT NULL,
    producer_seqs VARBINARY(8192) NOT NULL,
    failure_code VARBINARY(128) NULL,
    failure_message VARCHAR(512) NULL,
    failure_category VARCHAR(64) NULL,
    failure_retryable BOOLEAN NULL,
    failed_step_id VARBINARY(64) NULL,
    started_at DATETIME(6) NULL,
    finished_at DATETIME(6) NULL,
    duration_ms BIGINT UNSIGNED NULL,
    duration_source VARBINARY(32) NULL,
    committed_at DATETIME(6) NOT NULL,
    summary_schema VARBINARY(128) NOT NULL,
    summary_data BLOB NULL,
    open_dynamic INT UNSIGNED NOT NULL,
    run_deadline_at DATETIME(6) GENERATED ALWAYS AS (
        CASE WHEN max_run_seconds > 0 AND finished_at IS NULL THEN started_at + INTERVAL max_run_seconds SECOND END
    ) STORED,
    PRIMARY KEY (id),
    UNIQUE KEY task_client_key (workflow_id, client_task_key),
    KEY task_workflow (workflow_id, created_at, id),
    KEY task_owner (tenant_id, owner_id, created_at, id),
    KEY task_batch (tenant_id, batch_id, created_at, id),
    KEY task_parent (parent_task_id, created_at, id),
    KEY task_run_deadline (run_deadline_at, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin
"""


def upgrade() -> None:
    """Create the table; a run that was cut off finds it and goes on."""
    op.execute(DDL)
