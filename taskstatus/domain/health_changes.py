"""What the service observes about the health of an execution, and what an observation that holds changes (H-4, H-5).

States of a RUNNING step: *healthy* → SILENT → *stale* → BEATING → *healthy* …; a stale one is told LOST once. Only the
flags of health move: the lifecycle never does, and nobody is declared FAILED for being silent (B-1).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum

from taskstatus.domain.events import EventType
from taskstatus.domain.ids import ExecutionId
from taskstatus.domain.lease import LeaseState, patience_seconds
from taskstatus.domain.quick_dataclasses import dataclass, replace
from taskstatus.domain.state import StepState, TaskState

SERVICE_PRODUCER = "taskstatus"
"""Producer and actor of the facts that the service observes itself."""


class HealthSign(StrEnum):
    """What was observed."""

    SILENT = "SILENT"
    """No sign of life before the deadline."""
    BEATING = "BEATING"
    """A STALE execution was heard again."""
    LOST = "LOST"
    """STALE for so long that a person or the coordinator should look."""


EVENT_OF_SIGN: Mapping[HealthSign, EventType] = {
    HealthSign.SILENT: EventType.STEP_HEALTH_CHANGED,
    HealthSign.BEATING: EventType.STEP_HEALTH_CHANGED,
    HealthSign.LOST: EventType.WORKER_LOST,
}
"""The fact that an observation is recorded as."""


@dataclass(frozen=True, slots=True)
class HealthTerms:
    """How long STALE may last; all times in seconds, raises ValueError for values that cannot work."""

    lost_after_seconds: int = 300
    """From STALE to WORKER_LOST: the escalation threshold (H-5)."""
    stuck_after_seconds: int = 120
    """From STALE to being listed as stuck work (H-8)."""

    def __post_init__(self) -> None:
        if min(self.lost_after_seconds, self.stuck_after_seconds) < 1:
            raise ValueError("times of health must be at least 1 second")


@dataclass(frozen=True, slots=True)
class HealthObservation:
    """What a look at a lease without locks showed; judged again under the locks before it becomes a fact."""

    sign: HealthSign
    heartbeat_seq: int
    """Of the last beat seen."""
    terms: HealthTerms


def observation_id(sign: HealthSign, execution_id: ExecutionId, moment: datetime) -> str:
    """The id of the event: the same for every replica that observes the same.

    ``moment`` tells one silence of an execution from the next: the deadline that passed for SILENT, ``stale_since``
    for the others.
    """
    return f"{sign.lower()}-{execution_id.hex()}-{moment:%Y%m%d%H%M%S%f}"


def step_after(step: StepState, sign: HealthSign) -> StepState:
    """The attempt with its next version; DEGRADED is a flag of its own and shows again after STALE (L-6)."""
    return replace(step, version=step.version + 1, stale=sign is not HealthSign.BEATING)


def lease_after(lease: LeaseState, observed: HealthObservation, step: StepState, now: datetime) -> LeaseState:
    """The lease once the observation is recorded at ``now``, by the database's clock."""
    run_until = run_deadline(step, lease.opened_at)
    match observed.sign:
        case HealthSign.SILENT:
            stuck_at = now + timedelta(seconds=observed.terms.stuck_after_seconds)
            return replace(
                lease,
                stale_since=now,
                deadline_at=now + timedelta(seconds=observed.terms.lost_after_seconds),
                stuck_at=stuck_at if run_until is None else min(stuck_at, run_until),
            )
        case HealthSign.BEATING:
            recoveries = lease.recoveries + 1
            patience = timedelta(seconds=patience_seconds(lease.timeout_seconds, recoveries))
            return replace(
                lease,
                stale_since=None,
                lost_at=None,
                recoveries=recoveries,
                deadline_at=lease.last_sign_at + patience,
                stuck_at=run_until,
            )
        case HealthSign.LOST:
            return replace(lease, lost_at=now, deadline_at=None)


def run_deadline(step: StepState, opened_at: datetime) -> datetime | None:
    """When the execution has run longer than its step allows (H-8); None without such a limit."""
    limit = step.definition.max_run_seconds
    return opened_at + timedelta(seconds=limit) if limit else None


def task_deadline(task: TaskState) -> datetime | None:
    """When the open run of a task has taken longer than the task allows (H-8); None without a limit or an open run."""
    limit = task.envelope.terms.max_run_seconds
    if not limit or task.started_at is None or task.finished_at is not None:
        return None
    return task.started_at + timedelta(seconds=limit)
