"""Asking for a cancellation: a request, until somebody gives the evidence (L-1)."""

from __future__ import annotations

from dataclasses import replace

from taskstatus.domain.business_status import generic_name
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.events import EventType
from taskstatus.domain.evolve import with_version
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.notifications import OutboxTools
from taskstatus.domain.reasons import Reason
from taskstatus.domain.task_commands import (
    CommandOutcome,
    CommandRows,
    Fact,
    RequestCancel,
    admitted,
    recorded,
    unchanged,
)


def request_cancel(command: RequestCancel, rows: CommandRows, tools: OutboxTools) -> CommandOutcome:
    """CANCELLING, which blocks SUCCEEDED; asked again it stays as it is. Raises RefusedError NOT_CANCELLABLE.

    Steps are not touched: their workers see the request in their next answers, and report how they ended.
    """
    task = admitted(command.head, rows)
    if isinstance(task, CommandOutcome):
        return task
    if task.lifecycle.is_terminal:
        raise RefusedError(
            Reason.NOT_CANCELLABLE,
            f"the task has ended: it is {task.lifecycle}",
            metadata={"lifecycleStatus": task.lifecycle},
        )
    if task.lifecycle is Lifecycle.CANCELLING:
        return unchanged(task)
    after = replace(
        with_version(task, rows.now),
        lifecycle=Lifecycle.CANCELLING,
        business_status=generic_name(Lifecycle.CANCELLING),
        cancel_requested=True,
    )
    fact = Fact(EventType.TASK_CANCEL_REQUESTED, reason=command.reason)
    return recorded(command.head, task, after, None, fact, rows.now, tools)
