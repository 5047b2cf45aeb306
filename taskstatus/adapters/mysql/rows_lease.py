"""Rows of ``task_execution_lease`` as health changes read and write them."""

from __future__ import annotations

from collections.abc import Sequence

from taskstatus.adapters.mysql.session import Row
from taskstatus.adapters.mysql.statements import Parameters
from taskstatus.domain.ids import ExecutionId
from taskstatus.domain.lease import LeaseState

COLUMNS = (
    "execution_id",
    "bucket",
    "interval_seconds",
    "timeout_seconds",
    "opened_at",
    "deadline_at",
    "heartbeat_seq",
    "last_heartbeat_at",
    "stale_since",
    "lost_at",
    "recoveries",
    "stuck_at",
    "closed_at",
)
CHANGED = ("deadline_at", "stale_since", "lost_at", "recoveries", "stuck_at")
"""What a health change writes; beats and terms are the heartbeats' own."""


def from_row(row: Row) -> LeaseState:
    """The lease of a row that begins with COLUMNS."""
    execution_id, *rest = row[: len(COLUMNS)]
    return LeaseState(ExecutionId(execution_id), *rest)


def changed_values(leases: Sequence[LeaseState], column: str) -> Parameters:
    """(execution id, value of one of CHANGED) of each lease, flat."""
    return tuple(value for lease in leases for value in (lease.execution_id, getattr(lease, column)))
