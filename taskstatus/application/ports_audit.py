"""Ports of the audit of rejected reports (E-2, N-4): bounded, asynchronous, never on the write path."""

from __future__ import annotations

from collections.abc import Sequence
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
    """Empty when the id itself was refused."""
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


class AuditStore(Protocol):
    """Where the records go; both methods raise StoreUnavailableError."""

    async def append(self, reports: Sequence[RejectedReport]) -> None:
        """Write all."""
        ...

    async def clean(self, before_unix: float, limit: int) -> int:
        """Delete up to ``limit`` records received before a time in Unix seconds; how many there were."""
        ...
