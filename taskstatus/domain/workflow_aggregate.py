"""A workflow's status as it follows from its tasks: counts in, status and health out (L-7)."""

from __future__ import annotations

from enum import StrEnum

from taskstatus.domain.health import Health
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.quick_dataclasses import dataclass, replace


class AggregationPolicy(StrEnum):
    """How the status follows from the tasks; named per workflow."""

    ALL_SUCCEED = "ALL_SUCCEED"
    ANY_SUCCEEDS = "ANY_SUCCEEDS"
    COORDINATOR_RULES = "COORDINATOR_RULES"


@dataclass(frozen=True, slots=True)
class MemberCounts:
    """How many tasks stand where, and how many unfinished ones are stale or degraded."""

    pending: int = 0
    running: int = 0
    cancelling: int = 0
    succeeded: int = 0
    failed: int = 0
    timed_out: int = 0
    cancelled: int = 0
    stale: int = 0
    degraded: int = 0
    reopened: int = 0
    """Pending ones that have run before: a workflow whose task runs again has begun, and stays so (R-7)."""

    @property
    def total(self) -> int:
        """All members."""
        return self.unfinished + self.ended

    @property
    def unfinished(self) -> int:
        """Members that have not ended."""
        return self.pending + self.running + self.cancelling

    @property
    def ended(self) -> int:
        """Members that have ended."""
        return self.succeeded + self.failed + self.timed_out + self.cancelled


NO_MEMBERS = MemberCounts()


@dataclass(frozen=True, slots=True)
class MemberTally:
    """The members as they were counted at one moment."""

    counts: MemberCounts = NO_MEMBERS
    """All of them."""
    shared_counts: MemberCounts = NO_MEMBERS
    """Those that every viewer of the workflow may see: without the sensitive ones (P-4)."""


NOBODY = MemberTally()


@dataclass(frozen=True, slots=True)
class MemberStanding:
    """Where a task stands, as far as its workflow is concerned."""

    lifecycle: Lifecycle
    sensitive: bool = False
    stale: bool = False
    degraded: bool = False
    runs_again: bool = False
    """Whether its run is not its first (R-7)."""


def with_standing(tally: MemberTally, standing: MemberStanding, members: int = 1) -> MemberTally:
    """The tally with so many more members that stand there."""
    counts = _with_members(tally.counts, standing, members)
    shared = tally.shared_counts if standing.sensitive else _with_members(tally.shared_counts, standing, members)
    return MemberTally(counts, shared)


def _with_members(counts: MemberCounts, standing: MemberStanding, members: int) -> MemberCounts:
    lifecycle = standing.lifecycle
    name = lifecycle.value.lower()
    more = {name: getattr(counts, name) + members}
    if not lifecycle.is_terminal and standing.stale:
        more["stale"] = counts.stale + members
    elif not lifecycle.is_terminal and standing.degraded:
        more["degraded"] = counts.degraded + members
    if lifecycle is Lifecycle.PENDING and standing.runs_again:
        more["reopened"] = counts.reopened + members
    return replace(counts, **more)


def lifecycle_of(policy: AggregationPolicy, counts: MemberCounts) -> Lifecycle:
    """The status that the policy gives for the counts; a workflow of which no task has run yet is PENDING."""
    if counts.total == counts.pending and not counts.reopened:
        return Lifecycle.PENDING
    if counts.unfinished or policy is AggregationPolicy.COORDINATOR_RULES:
        return Lifecycle.RUNNING
    if counts.succeeded == counts.total or (policy is AggregationPolicy.ANY_SUCCEEDS and counts.succeeded):
        return Lifecycle.SUCCEEDED
    if counts.failed:
        return Lifecycle.FAILED
    return Lifecycle.TIMED_OUT if counts.timed_out else Lifecycle.CANCELLED


def health_of(lifecycle: Lifecycle, counts: MemberCounts) -> Health:
    """STALE and DEGRADED as unfinished members show them; DEGRADED too when one failed and others go on."""
    if lifecycle.is_terminal:
        return Health.HEALTHY
    if counts.stale:
        return Health.STALE
    return Health.DEGRADED if counts.degraded or counts.failed or counts.timed_out else Health.HEALTHY
