"""Rejected reports in memory (port ``RejectionAudit``)."""

from __future__ import annotations

from taskstatus.application.ports_audit import RejectedReport


class MemoryAudit:
    """Keeps every record."""

    def __init__(self) -> None:
        self.records: list[RejectedReport] = []

    def record(self, report: RejectedReport) -> None:
        """See the port."""
        self.records.append(report)
