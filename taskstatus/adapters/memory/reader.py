"""Reads in memory (port ``TaskReader``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from taskstatus.adapters.memory.store import MemoryTaskStore
from taskstatus.application.executions import binding_of
from taskstatus.application.identity import ExecutionBinding
from taskstatus.application.ports_store import StoreUnavailableError
from taskstatus.domain.ids import ExecutionId, TaskId, WorkflowId
from taskstatus.domain.records import RUNS_SHOWN, TaskView, TimelinePage
from taskstatus.domain.state import Grant, StepState, TaskState


class MemoryTaskReader:
    """What a ``MemoryTaskStore`` has committed."""

    def __init__(self, store: MemoryTaskStore) -> None:
        self._store = store
        self._tables = store.tables

    async def execution_bindings(self, ids: Sequence[ExecutionId]) -> Mapping[ExecutionId, ExecutionBinding]:
        """See the port."""
        found = {execution_id: await self.execution_state(execution_id) for execution_id in ids}
        return {execution_id: binding_of(*state) for execution_id, state in found.items() if state is not None}

    async def execution_state(self, execution_id: ExecutionId) -> tuple[TaskState, StepState] | None:
        """See the port."""
        self._check_available()
        key = self._tables.execution_keys.get(execution_id)
        if key is None:
            return None
        step = self._tables.steps[key]
        return self._tables.tasks[step.task_id], step

    async def execution_states(
        self, execution_ids: Sequence[ExecutionId]
    ) -> Mapping[ExecutionId, tuple[TaskState, StepState]]:
        """See the port."""
        found = {execution_id: await self.execution_state(execution_id) for execution_id in execution_ids}
        return {execution_id: state for execution_id, state in found.items() if state is not None}

    async def task_views(self, task_ids: Sequence[TaskId], *, with_trigger: bool) -> Mapping[TaskId, TaskView]:
        """See the port."""
        self._check_available()
        known = [task_id for task_id in task_ids if task_id in self._tables.tasks]
        return {task_id: self._view(task_id, with_trigger) for task_id in known}

    async def timeline(self, task_id: TaskId, after_version: int, limit: int) -> TimelinePage:
        """See the port."""
        self._check_available()
        task = self._tables.tasks.get(task_id)
        versions = sorted(version for of, version in self._tables.events if of == task_id)
        later = [version for version in versions if version > after_version]
        events = tuple(self._tables.events[(task_id, version)] for version in later[:limit])
        oldest = versions[0] if versions else 0
        return TimelinePage(events, task.version if task else 0, len(later) > limit, oldest)

    async def task_grants(self, task_ids: Sequence[TaskId]) -> Mapping[TaskId, tuple[Grant, ...]]:
        """See the port."""
        self._check_available()
        return self._tables.grants_of(task_ids)

    async def workflow_grants(self, workflow_ids: Sequence[WorkflowId]) -> Mapping[WorkflowId, tuple[Grant, ...]]:
        """See the port."""
        self._check_available()
        known = [self._tables.workflows[key] for key in workflow_ids if key in self._tables.workflows]
        return {workflow.workflow_id: workflow.grants for workflow in known if workflow.grants}

    def _view(self, task_id: TaskId, with_trigger: bool) -> TaskView:
        task = self._tables.tasks[task_id]
        steps = sorted(
            self._tables.steps_in(task_id, task.attempt),
            key=lambda step: (step.definition.order, step.definition.step_id, step.attempt),
        )
        trigger = self._tables.events.get((task_id, task.version)) if with_trigger else None
        last = sorted(key for key in self._tables.runs if key[0] == task_id)[-RUNS_SHOWN:]
        runs = tuple(self._tables.runs[key].view() for key in last)
        refs = self._tables.refs_of(task_id)
        return TaskView(task, tuple(steps), self._store.clock.read(), trigger, runs, refs)

    def _check_available(self) -> None:
        if self._store.unavailable:
            raise StoreUnavailableError("the in-memory store was told to be unavailable")
