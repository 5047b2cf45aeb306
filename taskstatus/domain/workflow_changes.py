"""How a workflow's status follows its members and its coordinator: pure functions, no version of their own (L-7)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.state import WorkflowState
from taskstatus.domain.workflow_aggregate import MemberCounts, MemberTally, health_of, lifecycle_of


def status_for(workflow: WorkflowState, counts: MemberCounts) -> Lifecycle:
    """What the counts mean for the workflow; a ruling goes before them."""
    return workflow.lifecycle if workflow.ruled else lifecycle_of(workflow.aggregation_policy, counts)


def with_members(workflow: WorkflowState, tally: MemberTally, at: datetime) -> WorkflowState:
    """The workflow with these members and all that follows from them; ``at``: when what changes did so.

    But for the times it is a function of policy, ruling and members alone: how often and after which of their changes
    they were counted does not matter.
    """
    counts, shared = tally.counts, tally.shared_counts
    lifecycle, shared_lifecycle = status_for(workflow, counts), status_for(workflow, shared)
    return replace(
        workflow,
        lifecycle=lifecycle,
        health=health_of(lifecycle, counts),
        task_count=counts.total,
        counts=counts,
        shared_counts=shared,
        started_at=_started(workflow.started_at, lifecycle, at),
        finished_at=_finished(workflow.finished_at, lifecycle, at),
        shared_started_at=_started(workflow.shared_started_at, shared_lifecycle, at),
        shared_finished_at=_finished(workflow.shared_finished_at, shared_lifecycle, at),
    )


def with_new_members(workflow: WorkflowState, common: int, sensitive: int, at: datetime) -> WorkflowState:
    """The workflow with so many more PENDING tasks; what everyone may see leaves the sensitive ones out (P-4)."""
    counts, shared = workflow.counts, workflow.shared_counts
    tally = MemberTally(
        replace(counts, pending=counts.pending + common + sensitive), replace(shared, pending=shared.pending + common)
    )
    return with_members(workflow, tally, at)


def with_ruling(workflow: WorkflowState, lifecycle: Lifecycle, reason: str, at: datetime) -> WorkflowState:
    """The workflow with a status of its coordinator's; its members go on being counted."""
    ruled = replace(workflow, lifecycle=lifecycle, ruled=True, ruling_reason=reason)
    return with_members(ruled, _tally_of(workflow), at)


def without_ruling(workflow: WorkflowState, at: datetime) -> WorkflowState:
    """The workflow whose members decide again."""
    return with_members(replace(workflow, ruled=False, ruling_reason=""), _tally_of(workflow), at)


def _tally_of(workflow: WorkflowState) -> MemberTally:
    return MemberTally(workflow.counts, workflow.shared_counts)


def _started(known: datetime | None, lifecycle: Lifecycle, at: datetime) -> datetime | None:
    return None if lifecycle is Lifecycle.PENDING else known or at


def _finished(known: datetime | None, lifecycle: Lifecycle, at: datetime) -> datetime | None:
    return known or at if lifecycle.is_terminal else None
