"""Lets workflows follow their tasks, by the triggers that committed changes leave; any number of replicas (L-7).

One round: read the oldest triggers, without locks → sort them by workflow → project some workflows at a time, each
group in one transaction. States of a workflow here: *followed* → (a member's change commits) → *triggered* → (a
projection commits) → *followed*. A projection recounts the members, so it does not matter how many changes lie behind
it, in which order they came, or whether an earlier one was cut off: a trigger outlives everything but the projection
that has seen it.

Failures: a store that cannot be reached ends the round. A group that the database refuses is tried workflow by
workflow; one that fails alone rests for a while. Workflows that other replicas hold are passed over, and a full round
goes on behind its last trigger, so that triggers that stay never hide others. Invariants: rounds are bounded by the
batch, and the pause after a round that found work is at least as long as the round: with a workflow of many thousand
tasks, whose counting takes long, more changes share one version. Nothing here locks a task.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from taskstatus.application.ports_clock import Clock
from taskstatus.application.ports_store import StoreUnavailableError
from taskstatus.application.ports_workflows import (
    AggregateTrigger,
    AggregateTriggers,
    TriggerPosition,
    WorkflowObserver,
)
from taskstatus.application.workflow_projection import WorkflowProjections
from taskstatus.domain.ids import WorkflowId

logger = logging.getLogger(__name__)

MOST_RESTING = 1_000
"""Workflows remembered as failing; beyond it all are tried again."""


@dataclass(frozen=True, slots=True)
class ProjectorConfig:
    """Sizes, and times in seconds; raises ValueError for values that cannot work."""

    batch: int = 1_000
    """Triggers per round."""
    group: int = 50
    """Workflows per transaction."""
    busy_pause_seconds: float = 0.01
    """Between rounds that find work: changes within it share a version."""
    idle_pause_seconds: float = 0.25
    """Until the next look when nobody hints: what other processes commit is seen by then."""
    outage_pause_seconds: float = 1.0
    """After a round that met a store out of reach; hints do not cut it short."""
    rest_seconds: float = 30.0
    """How long a workflow that cannot be projected is left alone."""

    def __post_init__(self) -> None:
        if min(self.batch, self.group) < 1 or self._shortest <= 0:
            raise ValueError("sizes and times of the workflow projector must be positive")
        if self.idle_pause_seconds < self.busy_pause_seconds:
            raise ValueError("the idle pause must not be shorter than the busy one")

    @property
    def _shortest(self) -> float:
        return min(self.busy_pause_seconds, self.outage_pause_seconds, self.rest_seconds)


class WorkflowProjector:
    """``start``, idempotent ``stop``, public ``run_once``; a ``WakeUp`` for this process's own commits."""

    def __init__(
        self,
        triggers: AggregateTriggers,
        projections: WorkflowProjections,
        clock: Clock,
        observer: WorkflowObserver,
        config: ProjectorConfig,
    ) -> None:
        self._triggers = triggers
        self._projections = projections
        self._clock = clock
        self._observer = observer
        self._config = config
        self._position: TriggerPosition | None = None
        self._resting: dict[WorkflowId, float] = {}
        """Until when, by this process's monotonic clock."""
        self._in_outage = False
        self._hinted = asyncio.Event()
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def hint(self) -> None:
        """A trigger was committed by this process; never raises, and needs no started loop."""
        self._hinted.set()

    async def run_once(self) -> int:
        """One round; how many triggers it went through. A store that cannot be reached ends it."""
        try:
            followed = await self._look()
        except StoreUnavailableError as error:
            logger.warning("workflows cannot follow their tasks now: %s", error)
            self._position, self._in_outage = None, True
            return 0
        self._in_outage = False
        return followed

    def start(self) -> None:
        """Begin following in the background."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """End the round that runs and begin no other; may be called twice, and without a start."""
        self._stopping.set()
        self._hinted.set()
        if self._task is not None:
            await self._task

    async def _look(self) -> int:
        found = await self._triggers.due(self._config.batch, self._position)
        if self._position is None:
            self._observer.projector_lag(found[0].age_seconds if found else 0.0)
        is_full = len(found) == self._config.batch
        self._position = TriggerPosition(found[-1].due_at, found[-1].trigger_id) if is_full else None
        followed = 0
        for group in self._groups(found):
            followed += await self._project(group)
        return followed

    def _groups(self, found: Sequence[AggregateTrigger]) -> list[list[AggregateTrigger]]:
        """The triggers of workflows that do not rest, so many workflows at a time."""
        now = self._clock.monotonic_seconds()
        self._resting = {workflow_id: until for workflow_id, until in self._resting.items() if until > now}
        of_workflow: dict[WorkflowId, list[AggregateTrigger]] = {}
        for trigger in found:
            if trigger.workflow_id not in self._resting:
                of_workflow.setdefault(trigger.workflow_id, []).append(trigger)
        ids, size = sorted(of_workflow), self._config.group
        return [
            [trigger for workflow_id in ids[first : first + size] for trigger in of_workflow[workflow_id]]
            for first in range(0, len(ids), size)
        ]

    async def _project(self, group: Sequence[AggregateTrigger]) -> int:
        """Project one group, and after a failure each workflow by itself; how many triggers were gone through."""
        try:
            projected = await self._projections.project(group)
        except StoreUnavailableError:
            raise
        except Exception:  # noqa: BLE001 - whatever one workflow provokes must not keep the others from following
            return await self._project_singly(group)
        self._observer.workflows_projected("changed", projected.changed)
        self._observer.workflows_projected("unchanged", projected.unchanged)
        return 0 if projected.held and not (projected.changed or projected.unchanged) else len(group)

    async def _project_singly(self, group: Sequence[AggregateTrigger]) -> int:
        workflow_ids = sorted({trigger.workflow_id for trigger in group})
        if len(workflow_ids) > 1:
            parts = [[t for t in group if t.workflow_id == workflow_id] for workflow_id in workflow_ids]
            return sum([await self._project(part) for part in parts])
        (workflow_id,) = workflow_ids
        logger.exception("a workflow cannot follow its tasks", extra={"workflowId": workflow_id.hex()})
        self._observer.workflows_projected("failed", 1)
        if len(self._resting) >= MOST_RESTING:
            self._resting.clear()
        self._resting[workflow_id] = self._clock.monotonic_seconds() + self._config.rest_seconds
        return 0

    async def _run(self) -> None:
        while not self._stopping.is_set():
            # Cleared before the look: a hint that comes meanwhile leads to one more.
            self._hinted.clear()
            began = self._clock.monotonic_seconds()
            followed = await self._round()
            took = self._clock.monotonic_seconds() - began
            if self._in_outage:
                await _wait(self._stopping, self._config.outage_pause_seconds)
                continue
            await _wait(self._stopping, max(self._config.busy_pause_seconds, took if followed else 0.0))
            if not followed and self._position is None and not self._stopping.is_set():
                await _wait(self._hinted, self._config.idle_pause_seconds)

    async def _round(self) -> int:
        try:
            return await self.run_once()
        except Exception:
            # A fault in one round must not leave all workflows behind.
            logger.exception("a round of the workflow projector failed")
            return 0


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
