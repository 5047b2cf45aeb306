"""Signs of life in memory (port ``LeaseRenewal``)."""

from __future__ import annotations

from dataclasses import dataclass, field

from taskstatus.domain.ids import ExecutionId


@dataclass
class MemoryRenewal:
    """Keeps when each execution was last alive."""

    renewed: dict[ExecutionId, float] = field(default_factory=dict)

    def renew(self, execution_id: ExecutionId, received_monotonic: float) -> None:
        """See the port."""
        self.renewed[execution_id] = received_monotonic
