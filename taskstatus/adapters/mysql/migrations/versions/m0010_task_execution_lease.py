"""task_execution_lease: the narrow table that heartbeats touch; deadline_at is NULL once closed (H-2).

While the step is STALE, ``stale_since`` says since when and ``deadline_at`` is when its worker counts as lost (H-5);
``lost_at`` when that was recorded; ``recoveries`` how often the execution came back (flap suppression). ``stuck_at`` is
from when on an open lease is listed as stuck work: beyond its step's run time, or STALE for long (H-8).
"""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision: str | None = "0009"

DDL = """
CREATE TABLE IF NOT EXISTS task_execution_lease (
    bucket SMALLINT UNSIGNED NOT NULL,
    execution_id BINARY(16) NOT NULL,
    task_id BINARY(16) NOT NULL,
    task_attempt INT UNSIGNED NOT NULL,
    step_id VARBINARY(64) NOT NULL,
    step_attempt INT UNSIGNED NOT NULL,
    producer_id VARBINARY(128) NOT NULL,
    interval_seconds INT UNSIGNED NOT NULL,
    timeout_seconds INT UNSIGNED NOT NULL,
    opened_at DATETIME(6) NOT NULL,
    deadline_at DATETIME(6) NULL,
    heartbeat_seq BIGINT UNSIGNED NOT NULL,
    last_heartbeat_at DATETIME(6) NULL,
    stale_since DATETIME(6) NULL,
    lost_at DATETIME(6) NULL,
    recoveries INT UNSIGNED NOT NULL DEFAULT 0,
    stuck_at DATETIME(6) NULL,
    closed_at DATETIME(6) NULL,
    PRIMARY KEY (execution_id),
    KEY lease_deadline (deadline_at, execution_id),
    KEY lease_stuck (stuck_at, execution_id),
    KEY lease_task (task_id, task_attempt)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin
"""


def upgrade() -> None:
    """Create the table; a run that was cut off finds it and goes on."""
    op.execute(DDL)
