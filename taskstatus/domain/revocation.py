"""Revoking an execution's credentials: the generation on its row moves past theirs (R-11)."""

from __future__ import annotations

from dataclasses import replace

from taskstatus.domain.errors import RefusedError
from taskstatus.domain.events import EventType
from taskstatus.domain.evolve import with_version
from taskstatus.domain.notifications import OutboxTools
from taskstatus.domain.reasons import Reason
from taskstatus.domain.state import StepState
from taskstatus.domain.task_commands import CommandOutcome, CommandRows, Fact, RevokeExecution, admitted, recorded


def revoke(command: RevokeExecution, rows: CommandRows, step: StepState | None, tools: OutboxTools) -> CommandOutcome:
    """The execution with its next generation; it stays current, and goes STALE if nobody beats for it again.

    Every revocation counts, also one after another: credentials that were given out between them end too. Raises
    RefusedError EXECUTION_NOT_FOUND, STALE_ATTEMPT, TERMINAL.
    """
    task = admitted(command.head, rows)
    if isinstance(task, CommandOutcome):
        return task
    if step is None:
        raise RefusedError(Reason.EXECUTION_NOT_FOUND, "no such execution")
    if step.superseded or step.task_attempt != task.attempt:
        raise RefusedError(Reason.STALE_ATTEMPT, "a later attempt is current")
    if step.lifecycle.is_terminal or task.lifecycle.is_terminal:
        raise RefusedError(Reason.TERMINAL, "the execution has ended")
    after = with_version(task, rows.now)
    revoked = replace(step, generation=step.generation + 1, version=step.version + 1)
    fact = Fact(EventType.EXECUTION_REVOKED, reason=command.reason)
    outcome = recorded(command.head, task, after, revoked, fact, rows.now, tools)
    outcome.changes.steps.append(revoked)
    return outcome
