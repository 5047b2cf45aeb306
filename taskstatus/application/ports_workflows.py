"""Ports of the workflow axis: what waits for the projector, workflows as people read them, what is counted (L-7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from taskstatus.domain.ids import WorkflowId
from taskstatus.domain.state import WorkflowState
from taskstatus.domain.workflow_views import SeenMembers


@dataclass(frozen=True, slots=True)
class AggregateTrigger:
    """A committed change of a member that its workflow has not followed yet."""

    trigger_id: bytes
    workflow_id: WorkflowId
    due_at: datetime
    age_seconds: float
    """Since its commit, by the database's clock."""


@dataclass(frozen=True, slots=True)
class TriggerPosition:
    """A place in the order of triggers."""

    due_at: datetime
    trigger_id: bytes


class AggregateTriggers(Protocol):
    """Finds triggers by their age, without locks; raises StoreUnavailableError."""

    async def due(self, limit: int, after: TriggerPosition | None) -> Sequence[AggregateTrigger]:
        """Up to ``limit`` triggers, the oldest first, after a position."""
        ...


@dataclass(frozen=True, slots=True)
class Principals:
    """A person of one tenant, with what their claims say."""

    user_id: str
    projects: tuple[str, ...]
    roles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WorkflowReading:
    """A workflow, with its grants, and the members that one reader may see, of one moment."""

    workflow: WorkflowState
    seen: SeenMembers | None
    """None when nobody was asked about."""
    as_of: datetime


class WorkflowReader(Protocol):
    """Reads workflows from the writer database; every method raises StoreUnavailableError."""

    async def workflow(self, workflow_id: WorkflowId, reader: Principals | None) -> WorkflowReading | None:
        """A workflow in one consistent view, with what ``reader`` sees of its tasks by task grants."""
        ...


class WorkflowObserver(Protocol):
    """What is measured of the projector; bounded labels only (N-3)."""

    def projector_lag(self, seconds: float) -> None:
        """Age of the oldest trigger at the last look; 0 when there is none."""
        ...

    def workflows_projected(self, outcome: str, count: int) -> None:
        """So many workflows were looked into: ``changed``, ``unchanged`` or ``failed``."""
        ...
