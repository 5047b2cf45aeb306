"""What of a workflow a reader may see: a cut through its members, with the status that the cut has (L-7, P-4)."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from taskstatus.domain.health import Health
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.quick_dataclasses import dataclass
from taskstatus.domain.state import WorkflowState
from taskstatus.domain.workflow_aggregate import MemberCounts, health_of
from taskstatus.domain.workflow_changes import status_for


class WorkflowScope(StrEnum):
    """Which of a workflow's tasks a view is about; views of two scopes are never compared."""

    FULL = "FULL"
    """All: for the owner and services."""
    SHARED = "SHARED"
    """Those that every viewer of the workflow may see."""
    READER = "READER"
    """Those that one reader may see, by their own grants."""


@dataclass(frozen=True, slots=True)
class WorkflowCut:
    """The part of a workflow that follows from the tasks one may see."""

    scope: WorkflowScope
    lifecycle: Lifecycle
    health: Health
    counts: MemberCounts
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class SeenMembers:
    """The tasks of a workflow that one reader may see, as they stand."""

    counts: MemberCounts
    started_at: datetime | None
    """The first start among them."""
    finished_at: datetime | None
    """The last end among them."""


@dataclass(frozen=True, slots=True)
class WorkflowView:
    """A workflow as one reader may see it, read in one consistent view."""

    workflow: WorkflowState
    cut: WorkflowCut
    as_of: datetime


def full_cut(workflow: WorkflowState) -> WorkflowCut:
    """All of it."""
    return WorkflowCut(
        WorkflowScope.FULL,
        workflow.lifecycle,
        workflow.health,
        workflow.counts,
        workflow.started_at,
        workflow.finished_at,
    )


def shared_cut(workflow: WorkflowState) -> WorkflowCut:
    """Without the sensitive tasks; a ruling shows as it is."""
    lifecycle = status_for(workflow, workflow.shared_counts)
    return WorkflowCut(
        WorkflowScope.SHARED,
        lifecycle,
        health_of(lifecycle, workflow.shared_counts),
        workflow.shared_counts,
        workflow.shared_started_at,
        workflow.shared_finished_at,
    )


def reader_cut(workflow: WorkflowState, seen: SeenMembers) -> WorkflowCut:
    """Of the tasks that one reader may see; a ruling shows as it is, with its times."""
    lifecycle = status_for(workflow, seen.counts)
    started_at, finished_at = seen.started_at, seen.finished_at
    if workflow.ruled:
        started_at, finished_at = workflow.shared_started_at, workflow.shared_finished_at
    return WorkflowCut(
        WorkflowScope.READER,
        lifecycle,
        health_of(lifecycle, seen.counts),
        seen.counts,
        None if lifecycle is Lifecycle.PENDING else started_at,
        finished_at if lifecycle.is_terminal else None,
    )
