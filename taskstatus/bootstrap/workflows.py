"""Wires the workflow axis: what every process has, and the projector that only ``taskstatus serve`` starts."""

from __future__ import annotations

from dataclasses import dataclass

from taskstatus.adapters.mysql.reader import MySqlTaskReader
from taskstatus.adapters.mysql.workflow_table import WorkflowTable
from taskstatus.application.ports_clock import Clock
from taskstatus.application.ports_runtime import WakeUp
from taskstatus.application.ports_store import TaskStore
from taskstatus.application.ports_workflows import WorkflowObserver
from taskstatus.application.workflow_projection import WorkflowProjections
from taskstatus.application.workflows import Workflows
from taskstatus.domain.notifications import OutboxTools
from taskstatus.runtime.workflow_projector import ProjectorConfig, WorkflowProjector


@dataclass(frozen=True, slots=True)
class Hints:
    """A ``WakeUp`` for commands: what they commit is for the relay, and perhaps for the projector."""

    relay: WakeUp
    projector: WakeUp

    def hint(self) -> None:
        """See the port."""
        self.relay.hint()
        self.projector.hint()


@dataclass(frozen=True, slots=True)
class WorkflowParts:
    """What follows tasks, and what serves workflows."""

    projector: WorkflowProjector
    hints: Hints
    workflows: Workflows


def workflow_parts(
    store: TaskStore,
    reader: MySqlTaskReader,
    tools: OutboxTools,
    wake_up: WakeUp,
    clock: Clock,
    observer: WorkflowObserver,
) -> WorkflowParts:
    """The parts over one database; nothing is started yet."""
    table = WorkflowTable(reader)
    projections = WorkflowProjections(store, tools, wake_up)
    projector = WorkflowProjector(table, projections, clock, observer, ProjectorConfig())
    return WorkflowParts(projector, Hints(wake_up, projector), Workflows(store, table, tools, wake_up))
