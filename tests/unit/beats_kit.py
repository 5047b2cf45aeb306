"""What tests of heartbeats share: a standing, and the ports around the coalescer as recordings."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from taskstatus.domain.health import Health
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.standing import ExecutionStanding
from tests.unit.factories import BUCKET, EXECUTION_ID, PARSER, SCOPE, START, TASK_ID, TENANT


def a_standing(**changes: Any) -> ExecutionStanding:
    """A running execution with an open lease that has not beaten yet."""
    standing = ExecutionStanding(
        execution_id=EXECUTION_ID,
        bucket=BUCKET,
        task_id=TASK_ID,
        producer_id=PARSER,
        generation=1,
        is_current=True,
        lifecycle=Lifecycle.RUNNING,
        task_lifecycle=Lifecycle.RUNNING,
        health=Health.HEALTHY,
        cancel_requested=False,
        has_open_lease=True,
        heartbeat_seq=0,
        interval_seconds=15,
        timeout_seconds=60,
        as_of=START,
        tenant_id=TENANT,
        authority_scope=SCOPE,
    )
    return replace(standing, **changes)


@dataclass
class RecordingSignals:
    """The port HealthSignals: what it was told."""

    told: list[ExecutionStanding] = field(default_factory=list)

    def beating(self, standing: ExecutionStanding) -> None:
        """Keep it."""
        self.told.append(standing)


@dataclass
class RecordingBeats:
    """The port HeartbeatObserver."""

    judged: Counter[str] = field(default_factory=Counter)
    pending: int = 0
    lost: int = 0

    def heartbeats_judged(self, outcome: str, beats: int) -> None:
        """Add them."""
        self.judged[outcome] += beats

    def heartbeats_pending(self, executions: int) -> None:
        """Keep it."""
        self.pending = executions

    def heartbeats_lost(self, beats: int) -> None:
        """Add them."""
        self.lost += beats
