"""How an execution stands for its heartbeats: its lease and whatever ends it, as last committed (H-2, H-3)."""

from __future__ import annotations

from datetime import datetime

from taskstatus.domain.health import Health
from taskstatus.domain.ids import ExecutionId, TaskId
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.quick_dataclasses import dataclass
from taskstatus.domain.reasons import Reason


@dataclass(frozen=True, slots=True)
class ExecutionStanding:
    """One execution, read without locks; a lease exists from STEP_STARTED until the execution ends."""

    execution_id: ExecutionId
    bucket: int
    task_id: TaskId
    producer_id: str
    generation: int
    """Credential generation in force (R-11)."""
    is_current: bool
    """Neither superseded by a later attempt nor of an earlier run."""
    lifecycle: Lifecycle
    """The step's."""
    task_lifecycle: Lifecycle
    health: Health
    """The step's."""
    cancel_requested: bool
    has_open_lease: bool
    heartbeat_seq: int
    """Of the last persisted beat; 0 before the first."""
    interval_seconds: int
    timeout_seconds: int
    """In force; both adapt to a slow link within bounds (H-6)."""
    as_of: datetime
    """The database's clock when it was read."""
    base_interval_seconds: int = 15
    base_timeout_seconds: int = 60
    """As the execution was activated; the terms in force never fall below them (H-6)."""
    tenant_id: str = ""
    authority_scope: str = ""
    """With ``producer_id``: whose link it is (H-6)."""

    @property
    def end(self) -> Reason | None:
        """Why the execution can beat no more, in the order of E-2; None while it can."""
        if not self.is_current:
            return Reason.STALE_ATTEMPT
        if self.lifecycle.is_terminal or self.task_lifecycle.is_terminal:
            return Reason.TERMINAL
        return None
