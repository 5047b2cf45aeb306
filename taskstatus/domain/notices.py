"""Notices: what a person must be told besides the new state (P-3, names.md *Vocabulary*)."""

from __future__ import annotations

from taskstatus.domain.business_status import WAITING_USER_ACTION
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import TaskId, format_task_id
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.quick_dataclasses import dataclass
from taskstatus.domain.scrubbing import scrubbed
from taskstatus.domain.state import FailurePolicy, StepState, TaskState

WARNING = "WARNING"
ERROR = "ERROR"

RETRY_TASK = "RETRY_TASK"
REUPLOAD_FILE = "REUPLOAD_FILE"
VIEW_DETAILS = "VIEW_DETAILS"
CONTACT_SUPPORT = "CONTACT_SUPPORT"

_STALE_MESSAGE = "It may still be running; its worker has not been heard for a while."
_LOST_MESSAGE = "Its worker has not been heard for a long time. Nothing has failed; somebody should look."

_ENDS_OF_TASK = frozenset({EventType.TASK_FAILED, EventType.TASK_TIMED_OUT, EventType.TASK_CORRECTED})
"""Facts that may leave a task failed or timed out; a correction is news to whoever had seen it succeed (L-3)."""

INPUT_CATEGORY = "INPUT"
"""Failures that another input would mend."""


@dataclass(frozen=True, slots=True)
class Notice:
    """One notice; deduplicated by its id on its own gate, apart from the state."""

    notice_id: str
    type: str
    level: str
    title: str
    message: str
    operation_code: str
    error_code: str
    retryable: bool
    requires_action: bool
    actions: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        """Its form in a summary message."""
        return {
            "id": self.notice_id,
            "type": self.type,
            "level": self.level,
            "title": self.title,
            "message": self.message,
            "operationCode": self.operation_code,
            "errorCode": self.error_code,
            "retryable": self.retryable,
            "requiresAction": self.requires_action,
            "actions": list(self.actions),
        }


def notice_id(task_id: TaskId, task_version: int) -> str:
    """``taskId:taskVersion``: one notice per version at most."""
    return f"{format_task_id(task_id)}:{task_version}"


def notice_for(
    event_type: EventType, task: TaskState, step: StepState | None, *, was_waiting: bool = False
) -> Notice | None:
    """The notice of a committed fact, or None when the new state says enough.

    ``was_waiting``: the task waited for a person before this fact already, so that its waiting is no news.
    """
    if event_type in (EventType.STEP_FAILED, EventType.STEP_TIMED_OUT) and step is not None:
        return _step_failed(event_type, task, step)
    if event_type in _ENDS_OF_TASK and task.lifecycle in (Lifecycle.FAILED, Lifecycle.TIMED_OUT):
        return _task_failed(event_type, task)
    if step is not None and (event_type is EventType.WORKER_LOST or _went_stale(event_type, step)):
        return _not_heard(event_type, task, step)
    if waits_for_person(task) and not was_waiting:
        return _needs_action(event_type, task, step)
    return None


def waits_for_person(task: TaskState) -> bool:
    """Whether the task shows that a person must act."""
    return task.business_status == WAITING_USER_ACTION


def _went_stale(event_type: EventType, step: StepState) -> bool:
    return event_type is EventType.STEP_HEALTH_CHANGED and step.stale


def _not_heard(event_type: EventType, task: TaskState, step: StepState) -> Notice:
    """Silence is no failure, and the text must not sound like one; only after the escalation somebody should act."""
    is_lost = event_type is EventType.WORKER_LOST
    name = step.definition.display_name or step.definition.step_id
    return Notice(
        notice_id=notice_id(task.envelope.task_id, task.version),
        type=event_type,
        level=WARNING,
        title=f"{task.envelope.title}: {name} {'is still silent' if is_lost else 'cannot be confirmed'}",
        message=_LOST_MESSAGE if is_lost else _STALE_MESSAGE,
        operation_code=step.definition.operation_code,
        error_code="",
        retryable=False,
        requires_action=is_lost,
        actions=(CONTACT_SUPPORT, VIEW_DETAILS) if is_lost else (VIEW_DETAILS,),
    )


def _needs_action(event_type: EventType, task: TaskState, step: StepState | None) -> Notice:
    return Notice(
        notice_id=notice_id(task.envelope.task_id, task.version),
        type=event_type,
        level=WARNING,
        title=f"{task.envelope.title} waits for you",
        message=scrubbed(step.phase_label) if step else "",
        operation_code=step.definition.operation_code if step else "",
        error_code="",
        retryable=False,
        requires_action=True,
        actions=(VIEW_DETAILS,),
    )


def _step_failed(event_type: EventType, task: TaskState, step: StepState) -> Notice:
    error = step.error
    timed_out = event_type is EventType.STEP_TIMED_OUT
    waits_for_user = step.definition.failure_policy is FailurePolicy.WAIT_FOR_USER and not timed_out
    retryable = error.retryable if error else True
    actions = (
        (*_mending_actions(retryable, error.category if error else ""), VIEW_DETAILS)
        if waits_for_user
        else (VIEW_DETAILS,)
    )
    name = step.definition.display_name or step.definition.step_id
    return Notice(
        notice_id=notice_id(task.envelope.task_id, task.version),
        type=event_type,
        level=WARNING,
        title=f"{task.envelope.title}: {name} {'timed out' if timed_out else 'failed'}",
        message=error.message if error else "",
        operation_code=step.definition.operation_code,
        error_code=error.code if error else "",
        retryable=retryable,
        requires_action=waits_for_user,
        actions=actions,
    )


def _task_failed(event_type: EventType, task: TaskState) -> Notice:
    failure = task.failure
    timed_out = task.lifecycle is Lifecycle.TIMED_OUT
    retryable = failure.retryable if failure else True
    mending = _mending_actions(retryable, failure.category if failure else "")
    return Notice(
        notice_id=notice_id(task.envelope.task_id, task.version),
        type=event_type,
        level=ERROR,
        title=f"{task.envelope.title} {'timed out' if timed_out else 'failed'}",
        message=failure.message if failure else "",
        operation_code="",
        error_code=failure.code if failure else "",
        retryable=retryable,
        requires_action=bool(mending),
        actions=(*(mending or (CONTACT_SUPPORT,)), VIEW_DETAILS),
    )


def _mending_actions(retryable: bool, category: str) -> tuple[str, ...]:
    if category == INPUT_CATEGORY:
        return (REUPLOAD_FILE,)
    return (RETRY_TASK,) if retryable else ()
