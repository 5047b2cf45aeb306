"""Tasks and steps as this process last saw them committed, so that a lane need not decode or read them again.

An entry is used only while its ``row_revision`` is the one that the locking read finds: every write to a task, its
steps or its executions raises it, whoever writes (architecture.md, *The write path*). The version would not do:
activating a first attempt makes none.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from taskstatus.domain.ids import ExecutionId, TaskId
from taskstatus.domain.state import StepState, TaskState

MAX_STEPS_PER_TASK = 64
"""A task with more executions at work than this is read again, rather than let one task fill the memory."""


@dataclass(frozen=True, slots=True)
class _Entry:
    task: TaskState
    steps: Mapping[ExecutionId, StepState]


class RowCache:
    """The tasks used last, at most ``max_tasks`` of them; one process's lanes share it."""

    def __init__(self, max_tasks: int) -> None:
        self._max_tasks = max_tasks
        self._entries: OrderedDict[TaskId, _Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def tasks(self, task_ids: Iterable[TaskId]) -> dict[TaskId, TaskState]:
        """The tasks of these that are known; perhaps no longer as they are in the store."""
        return {task_id: self._entries[task_id].task for task_id in task_ids if task_id in self._entries}

    def step(self, task: TaskState, execution_id: ExecutionId) -> StepState | None:
        """The attempt that belongs to this very state of its task; None when it is not known."""
        entry = self._entries.get(task.envelope.task_id)
        return entry.steps.get(execution_id) if entry is not None and entry.task is task else None

    def keep(self, before: TaskState, after: TaskState, steps: Iterable[StepState]) -> None:
        """Remember a task as committed, with its attempts that were read or written in that transaction.

        Attempts known with ``before`` stay known: the transaction held the task's lock and wrote none of them. A task
        that has ended is forgotten: its end wrote attempts that nobody had read.
        """
        task_id = after.envelope.task_id
        entry = self._entries.pop(task_id, None)
        if after.lifecycle.is_terminal:
            return
        known = dict(entry.steps) if entry is not None and entry.task is before else {}
        known |= {step.terms.execution_id: step for step in steps if step.terms is not None}
        if len(known) > MAX_STEPS_PER_TASK:
            known = {}
        self._entries[task_id] = _Entry(after, known)
        if len(self._entries) > self._max_tasks:
            self._entries.popitem(last=False)

    def clear(self) -> None:
        """Read everything anew: the store has failed, and a restored or promoted one may count its revisions anew."""
        self._entries.clear()
