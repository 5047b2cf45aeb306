"""The kit with a projector, and workflows whose tasks a test moves by real events."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any

from taskstatus.adapters.memory.workflows import MemoryAggregateTriggers
from taskstatus.application.ports_workflows import AggregateTrigger
from taskstatus.application.register import CreatedWorkflow
from taskstatus.application.workflow_projection import WorkflowProjections
from taskstatus.domain.commands import actor_of
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import TaskId
from taskstatus.domain.records import Audience, OutboxRecord, WorkflowEventRecord
from taskstatus.domain.state import WorkflowState
from taskstatus.domain.task_commands import CommandHead, RequestCancel, RerunTask
from taskstatus.domain.workflow_aggregate import AggregationPolicy
from taskstatus.runtime.workflow_projector import ProjectorConfig, WorkflowProjector
from tests.unit.factories import (
    COORDINATOR_CALLER,
    a_digest,
    a_task_command,
    a_task_spec,
    a_workflow_command,
    task_event,
)
from tests.unit.service_kit import Kit, drive


@dataclass
class RecordingWorkflowObserver:
    """Keeps what the projector tells about itself."""

    lags: list[float] = field(default_factory=list)
    outcomes: dict[str, int] = field(default_factory=dict)

    def projector_lag(self, seconds: float) -> None:
        """Keep it."""
        self.lags.append(seconds)

    def workflows_projected(self, outcome: str, count: int) -> None:
        """Add it."""
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + count


class WorkflowKit(Kit):
    """One workflow, its tasks, and a projector that runs when told."""

    def __init__(self, config: ProjectorConfig | None = None) -> None:
        super().__init__()
        self.triggers = MemoryAggregateTriggers(self.store)
        self.projections = WorkflowProjections(self.store, self.tools, self.wake_up)
        self.followed = RecordingWorkflowObserver()
        self.config = config or ProjectorConfig()
        self.projector = WorkflowProjector(self.triggers, self.projections, self.clock, self.followed, self.config)
        self._sequence = 0

    def create(
        self, *sensitive: bool, policy: AggregationPolicy = AggregationPolicy.ALL_SUCCEED, **changes: Any
    ) -> Any:
        """A workflow with a task for each flag, which says whether that task is sensitive."""
        specs = [a_task_spec(key=f"task-{n}", sensitive=flag) for n, flag in enumerate(sensitive)]
        command = a_workflow_command(*specs, aggregation_policy=policy, **changes)
        created: CreatedWorkflow = drive(self.registration.create_workflow(command))
        self.workflow_id = created.workflow.workflow_id
        return created

    def add(self, key: str, *, sensitive: bool = False) -> TaskId:
        """One more task."""
        command = a_task_command(self.workflow_id, a_task_spec(key=key, sensitive=sensitive), command_id=f"add-{key}")
        return drive(self.registration.create_task(command)).task.envelope.task_id

    def move(self, task_id: TaskId, event_type: EventType) -> None:
        """An event of the task's own, by its coordinator; one that the lifecycle refuses changes nothing."""
        self._sequence += 1
        self.report(task_event(event_type, self._sequence, task_id=task_id, event_id=f"move-{self._sequence}"))

    def command(self, task_id: TaskId, kind: str) -> None:
        """``rerun`` or ``cancel`` a task; one that may not be changes nothing."""
        self._sequence += 1
        what = f"{kind}-{self._sequence}"
        head = CommandHead(actor_of(COORDINATOR_CALLER), what, task_id, what.encode(), a_digest(what))
        with contextlib.suppress(RefusedError):
            if kind == "rerun":
                drive(self.commands.rerun(RerunTask(head, 0, "again", ())))
            else:
                drive(self.commands.request_cancel(RequestCancel(head, "no longer needed")))

    def start(self, *task_ids: TaskId) -> None:
        """They run."""
        for task_id in task_ids:
            self.move(task_id, EventType.TASK_STARTED)

    def complete(self, *task_ids: TaskId) -> None:
        """They succeed."""
        for task_id in task_ids:
            self.move(task_id, EventType.TASK_COMPLETED)

    def project(self) -> int:
        """One round of the projector."""
        return drive(self.projector.run_once())

    def due(self) -> list[AggregateTrigger]:
        """Every trigger that is left."""
        return list(drive(self.triggers.due(1_000, None)))

    @property
    def workflow(self) -> WorkflowState:
        """As committed."""
        return self.tables.workflows[self.workflow_id]

    def events(self) -> list[WorkflowEventRecord]:
        """Of the workflow, by version."""
        return [
            event for _, event in sorted(self.tables.workflow_events.items()) if event.workflow_id == self.workflow_id
        ]

    def messages(self, audience: Audience) -> list[OutboxRecord]:
        """The workflow's summaries for an audience, by version."""
        rows = [row for row in self.tables.outbox.values() if row.aggregate_id == self.workflow_id]
        return sorted((row for row in rows if row.audience is audience), key=lambda row: row.aggregate_version)


def ids_of(created: CreatedWorkflow) -> list[TaskId]:
    """The tasks of a new workflow."""
    return [task.envelope.task_id for task in created.tasks]
