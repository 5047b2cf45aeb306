"""The lease of a running execution: how long it may be silent, and since when it has been (H-2, H-4, H-5)."""

from __future__ import annotations

from datetime import datetime

from taskstatus.domain.ids import ExecutionId
from taskstatus.domain.quick_dataclasses import dataclass

MAX_PATIENCE = 4
"""How many timeouts flapping can add to the first one."""


@dataclass(frozen=True, slots=True)
class LeaseState:
    """One row of ``task_execution_lease``; it is open from STEP_STARTED until the execution ends."""

    execution_id: ExecutionId
    bucket: int
    interval_seconds: int
    timeout_seconds: int
    """In force; both adapt to a slow link within bounds (H-6)."""
    opened_at: datetime
    deadline_at: datetime | None
    """When silence becomes STALE; while STALE, when the worker counts as lost; None once lost or closed."""
    heartbeat_seq: int = 0
    last_heartbeat_at: datetime | None = None
    stale_since: datetime | None = None
    """Since when the step is STALE; None while it is not."""
    lost_at: datetime | None = None
    recoveries: int = 0
    """How often the execution came back from STALE."""
    stuck_at: datetime | None = None
    """From when on the execution counts as stuck work (H-8): beyond its run time, or STALE for long."""
    closed_at: datetime | None = None

    @property
    def is_open(self) -> bool:
        """Whether the execution may still beat."""
        return self.closed_at is None

    @property
    def last_sign_at(self) -> datetime:
        """The last sign of life that is persisted; the start is the first one."""
        return self.last_heartbeat_at or self.opened_at


def patience_seconds(timeout_seconds: int, recoveries: int) -> int:
    """How long an execution may be silent: one timeout, and one more for each time that it came back (H-5).

    An execution that flaps is shown STALE ever later instead of ever again; bounded by ``MAX_PATIENCE``.
    """
    return timeout_seconds * (1 + min(recoveries, MAX_PATIENCE))
