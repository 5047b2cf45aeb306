"""Correcting a terminal state: an administrator's command with a reason, never an ordinary event (L-3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from taskstatus.domain.business_status import StatusDefinition, generic_name, lifecycle_of
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.events import EventType
from taskstatus.domain.evolve import with_version
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.notifications import OutboxTools
from taskstatus.domain.reasons import Reason
from taskstatus.domain.records import EndedRun
from taskstatus.domain.state import TaskFailure, TaskState
from taskstatus.domain.task_commands import (
    CommandOutcome,
    CommandRows,
    CorrectTask,
    Fact,
    admitted,
    audited,
    recorded,
    unchanged,
)

CORRECTION_SCHEMA = "taskstatus.correction.v1"
"""Of what the timeline shows with TASK_CORRECTED: ``old`` and ``new``."""


def correct(
    command: CorrectTask, rows: CommandRows, statuses: StatusDefinition | None, tools: OutboxTools
) -> CommandOutcome:
    """Another terminal state for the current run, with old and new value in timeline and audit.

    ``statuses``: what the task is bound to; None for the generic ones. It says which lifecycle a business status means;
    after which others it may come is not asked, since a correction is no transition. Steps keep what they reported.
    Raises RefusedError TRANSITION_NOT_ALLOWED (the task has not ended) and BUSINESS_STATUS_NOT_REGISTERED.
    """
    task = admitted(command.head, rows)
    if isinstance(task, CommandOutcome):
        return task
    if not task.lifecycle.is_terminal:
        raise RefusedError(
            Reason.TRANSITION_NOT_ALLOWED,
            f"the task is {task.lifecycle}; only a terminal state can be corrected",
            metadata={"lifecycleStatus": task.lifecycle},
        )
    corrected = replace(
        with_version(task, rows.now),
        lifecycle=command.lifecycle,
        business_status=_business_status(command, statuses),
        failure=_failure(command),
    )
    old, new = _value(task), _value(corrected)
    if old == new:
        return unchanged(task)
    fact = Fact(
        EventType.TASK_CORRECTED,
        reason=command.reason,
        error_code=corrected.failure.code if corrected.failure else "",
        shown=(CORRECTION_SCHEMA, tools.to_json({"old": old, "new": new})),
    )
    outcome = recorded(command.head, task, corrected, None, fact, rows.now, tools)
    outcome.changes.ended_runs.append(EndedRun(corrected, corrected.committed_at))
    outcome.changes.audits.append(
        audited(
            command.head,
            corrected,
            fact,
            tools.to_json(old),
            tools.to_json(new),
            tools.new_id(corrected.envelope.bucket),
        )
    )
    return outcome


def _business_status(command: CorrectTask, statuses: StatusDefinition | None) -> str:
    status = command.business_status
    if not status:
        return generic_name(command.lifecycle)
    if lifecycle_of(status, statuses) is not command.lifecycle:
        raise RefusedError(
            Reason.BUSINESS_STATUS_NOT_REGISTERED,
            "the business status is not registered for the lifecycle",
            metadata={"businessStatus": status},
        )
    return status


def _failure(command: CorrectTask) -> TaskFailure | None:
    if command.lifecycle is not Lifecycle.FAILED:
        return None
    error = command.error.settled() if command.error else None
    return TaskFailure(
        code=error.code if error else "",
        message=error.message if error else "",
        category=error.category if error else "",
        retryable=error.retryable if error else True,
        failed_step_id=command.failed_step_id,
    )


def _value(task: TaskState) -> Mapping[str, object]:
    failure = task.failure
    return {
        "lifecycleStatus": task.lifecycle,
        "businessStatus": task.business_status,
        "failureCode": failure.code if failure else "",
        "failureMessage": failure.message if failure else "",
        "failedStepId": failure.failed_step_id if failure else "",
    }
