"""Which tasks a list holds, and which text is found in a title (Q-1).

Case is Unicode's, not a database's: its functions leave hundreds of letters as they are, and its collations take
accents for nothing (docs/decisions/task-lists.md). No character of the text is a pattern.
"""

from __future__ import annotations

import unicodedata
from datetime import datetime

from taskstatus.domain.ids import TaskId, WorkflowId
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.quick_dataclasses import dataclass
from taskstatus.domain.state import TaskState


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """Conditions that hold all together; what is empty or None is no condition."""

    lifecycles: frozenset[Lifecycle] = frozenset()
    task_type: str = ""
    workflow_id: WorkflowId | None = None
    created_from: datetime | None = None
    """At this time or later."""
    created_before: datetime | None = None
    """Before this time."""
    title_contains: str = ""
    batch_id: str = ""
    parent_task_id: TaskId | None = None

    def admits(self, task: TaskState) -> bool:
        """Whether the task fulfils every condition."""
        envelope = task.envelope
        return (
            (not self.lifecycles or task.lifecycle in self.lifecycles)
            and self.task_type in ("", envelope.task_type)
            and self.workflow_id in (None, envelope.workflow_id)
            and (self.created_from is None or envelope.created_at >= self.created_from)
            and (self.created_before is None or envelope.created_at < self.created_before)
            and self.batch_id in ("", envelope.batch_id)
            and self.parent_task_id in (None, envelope.parent_task_id)
            and self.admits_title(envelope.title)
        )

    def admits_title(self, title: str) -> bool:
        """Whether the title holds the text, whatever the case of either."""
        return not self.title_contains or folded(self.title_contains) in folded(title)


def folded(text: str) -> str:
    """A form in which texts that differ in case only, or in how an accent is written, are the same."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
