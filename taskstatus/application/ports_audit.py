"""Port of the audit of rejected reports (E-2, N-4): bounded, asynchronous, never on the write path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from taskstatus.domain.ids import TaskId
from taskstatus.domain.reasons import Reason


@dataclass(frozen=True, slots=True)
class RejectedReport:
    """One report that was refused, without its content and without any credential."""

    tenant_id: str
    authority_scope: str
    producer_id: str
    transport: str
    reason: Reason
    event_id: str
    event_type: str
    task_id: TaskId | None
    step_id: str
    trace_id: bytes | None
    received_unix: float


class RejectionAudit(Protocol):
    """Keeps rejected reports for a while."""

    def record(self, report: RejectedReport) -> None:
        """Queue one record without waiting; when the queue is full the record is counted and dropped."""
        ...
