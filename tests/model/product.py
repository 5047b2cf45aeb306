"""The product's side: the application's commands over any store, without transports."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeVar

import orjson

from taskstatus.adapters.memory.definitions import MemoryRegistry
from taskstatus.application.classification import Classification
from taskstatus.application.definition_binding import DefinitionBinding
from taskstatus.application.executions import BoundExecution, ExecutionCommands, ExecutionDirectory
from taskstatus.application.ids_factory import IdFactory
from taskstatus.application.ports_store import TaskReader, TaskStore
from taskstatus.application.ports_workflows import AggregateTriggers, WorkflowReader
from taskstatus.application.register import Registration
from taskstatus.application.task_commands import TaskCommands
from taskstatus.application.workflow_projection import WorkflowProjections
from taskstatus.application.workflows import Workflows
from taskstatus.domain.business_status import BusinessStatus, StatusDefinition
from taskstatus.domain.classification import ClassifyTask
from taskstatus.domain.commands import TaskEventCommand
from taskstatus.domain.dynamic import DynamicLimits
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.ids import TaskId, WorkflowId
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.notifications import OutboxTools
from taskstatus.domain.records import ReportResult, TaskView
from taskstatus.domain.state import WorkflowState
from taskstatus.domain.task_commands import CommandOutcome
from taskstatus.domain.verdicts import Accepted, Coalesced, Duplicate, NoOp, Refused, Stale, Verdict
from taskstatus.runtime.batch_commit import BatchCommit
from tests.model.expected import Expected, refused
from tests.model.parts import TYPED
from tests.unit.service_kit import CountingRandomness, FakeClock, FakeCredentials, RecordingObserver, RecordingWakeUp

T = TypeVar("T")
MODEL_TYPE = "MODEL"
STATUSES = StatusDefinition(
    MODEL_TYPE,
    1,
    tuple(
        BusinessStatus(code, Lifecycle(lifecycle), None if allowed is None else frozenset(allowed))
        for code, (lifecycle, allowed) in TYPED.items()
    ),
)


@dataclass(frozen=True)
class Backend:
    """A store with its reads, and the loop in which both live."""

    store: TaskStore
    reader: TaskReader
    triggers: AggregateTriggers
    workflows: WorkflowReader
    runner: asyncio.Runner


class Product:
    """The application over one backend; every method answers in the model's words."""

    def __init__(self, backend: Backend, serial: int, limits: DynamicLimits) -> None:
        self._backend = backend
        clock, randomness = FakeClock(), CountingRandomness(serial << 24)
        self._ids = IdFactory(clock, randomness)
        tools = OutboxTools(new_id=self._ids.new, to_json=orjson.dumps)
        directory = ExecutionDirectory(backend.reader)
        executions = ExecutionCommands(FakeCredentials(clock), directory, backend.reader, clock)
        registry, wake_up = MemoryRegistry(STATUSES), RecordingWakeUp()
        self.registration = Registration(backend.store, executions, self._ids, tools, wake_up, registry, limits)
        self.commands = TaskCommands(backend.store, directory, registry, tools, wake_up)
        self._classification = Classification(self.commands, DefinitionBinding(registry), tools)
        self._projections = WorkflowProjections(backend.store, tools, wake_up)
        self.workflows = Workflows(backend.store, backend.workflows, tools, wake_up)
        self._commit = BatchCommit(backend.store, registry, clock, tools, RecordingObserver(), timedelta(days=7), 100)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """In the backend's loop."""
        return self._backend.runner.run(coroutine)

    def command(self, coroutine: Coroutine[Any, Any, CommandOutcome]) -> Expected:
        """What became of a command."""
        try:
            outcome = self.run(coroutine)
        except RefusedError as refusal:
            return refused(refusal.reason)
        result = outcome.result
        kind = "duplicate" if result.duplicate else "done" if result.changed else "unchanged"
        return Expected(kind, result.task_version, result.lifecycle)

    def activate(self, command: Any) -> tuple[Expected, BoundExecution | None]:
        """What became of an activation or a registration, with the execution."""
        try:
            bound = self.run(self.registration.activate(command))
        except RefusedError as refusal:
            return refused(refusal.reason), None
        changed = "done" if bound.created else "duplicate"
        return Expected(changed, bound.task.version, bound.task.lifecycle), bound

    def report(self, command: TaskEventCommand) -> Expected:
        """What became of an event."""
        (verdict,) = self.run(self._commit([command]))
        return _said(verdict)

    def classify(self, command: ClassifyTask) -> Coroutine[Any, Any, CommandOutcome]:
        """ClassifyTask."""
        return self._classification.classify(command)

    def follow(self, workflow_id: WorkflowId) -> None:
        """Let a workflow follow its tasks: every trigger that is there is gone through."""
        due = self.run(self._backend.triggers.due(10_000, None))
        own = [trigger for trigger in due if trigger.workflow_id == workflow_id]
        if own:
            self.run(self._projections.project(own))

    def workflow(self, workflow_id: WorkflowId) -> WorkflowState:
        """The workflow as it is read."""
        reading = self.run(self._backend.workflows.workflow(workflow_id, None))
        assert reading is not None
        return reading.workflow

    def view(self, task_id: TaskId) -> TaskView:
        """The task as it is read."""
        return self.run(self._backend.reader.task_views([task_id], with_trigger=True))[task_id]

    def event_versions(self, task_id: TaskId) -> list[int]:
        """The versions that have an event."""
        page = self.run(self._backend.reader.timeline(task_id, 0, 10_000))
        return [event.task_version for event in page.events]


def _said(verdict: Verdict) -> Expected:
    match verdict:
        case Refused(error):
            return refused(error.reason)
        case Accepted(result) | Coalesced(result):
            return _answer("done", result)
        case Duplicate(result):
            return _answer("duplicate", replace(result, reason=None))
        case NoOp(result):
            return _answer("unchanged", result)
        case Stale(result):
            return _answer("stale", result)


def _answer(kind: str, result: ReportResult) -> Expected:
    return Expected(kind, result.task_version, result.lifecycle, result.reason)
