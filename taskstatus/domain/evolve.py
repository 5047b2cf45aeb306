"""How an accepted event changes its step and its task: pure functions from state to state (E-6, E-7, E-8, L-6)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from taskstatus.domain.business_status import RETRY_WAIT, WAITING_STATUSES, WAITING_USER_ACTION, generic_name
from taskstatus.domain.commands import EventContent
from taskstatus.domain.durations import milliseconds_between
from taskstatus.domain.events import EventType
from taskstatus.domain.lifecycle import TARGET_OF_EVENT, Lifecycle
from taskstatus.domain.progress import FULL_POINTS, Progress, goes_back
from taskstatus.domain.quick_dataclasses import dataclass, replace
from taskstatus.domain.state import (
    TASK_ENDED,
    DurationSource,
    FailurePolicy,
    StepState,
    TaskFailure,
    TaskState,
)

PROGRESS_OF_TASK = (
    "version",
    "row_revision",
    "business_status",
    "progress_points",
    "committed_at",
    "summary_schema",
    "summary_data",
)
PROGRESS_OF_STEP = (
    "source_seq",
    "version",
    "business_status",
    "progress",
    "progress_seq",
    "credited_points",
    "phase_code",
    "phase_label",
    "data_schema",
    "shown_data",
)
"""The only fields that a STEP_PROGRESS changes, of its task and of its step: most writes are of these (E-8)."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One event about to be committed: its content and the moment that the database gives it."""

    content: EventContent
    at: datetime
    own_sequence: bool
    """Whether ``sourceSeq`` belongs to the step's stream; the coordinator's ends of steps have the task's."""


def evolve_step(step: StepState, event: Recorded, version: int) -> StepState:
    """The attempt after one step event; ``version`` is the step version that the event makes."""
    content = event.content
    target = TARGET_OF_EVENT[content.event_type]
    moved = replace(
        step,
        version=version,
        lifecycle=target,
        started_at=step.started_at or (event.at if content.event_type is EventType.STEP_STARTED else None),
        source_seq=content.source_seq if event.own_sequence else step.source_seq,
        business_status=content.business_status or _step_status(step, target),
        phase_code=content.phase_code or step.phase_code,
        phase_label=content.phase_label or step.phase_label,
        data_schema=content.data.schema if content.data else step.data_schema,
        shown_data=content.data.shown if content.data else step.shown_data,
        progress=_furthest(step, content),
        progress_seq=max(step.progress_seq, content.progress_seq),
        credited_points=max(step.credited_points, _points(content)),
    )
    return _end_step(moved, content, event.at) if target.is_terminal else moved


def _step_status(step: StepState, target: Lifecycle) -> str:
    """The step's label when the event names none: kept, or the generic name of a lifecycle that it newly reaches."""
    return step.business_status if step.lifecycle is target else generic_name(target)


def _furthest(step: StepState, content: EventContent) -> Progress | None:
    """What is shown never goes back, not even by the end of the attempt."""
    if content.progress is None or goes_back(step.progress, content.progress):
        return step.progress
    return content.progress


def _points(content: EventContent) -> int:
    points = content.progress.points if content.progress else None
    return points or 0


def _end_step(step: StepState, content: EventContent, at: datetime) -> StepState:
    duration_ms, source = _measured(content, step.started_at, at)
    failed = step.lifecycle is Lifecycle.FAILED
    warns = failed and step.definition.failure_policy is FailurePolicy.CONTINUE_WITH_WARNING
    return replace(
        step,
        finished_at=at,
        duration_ms=duration_ms,
        duration_source=source,
        stale=False,
        degraded=warns,
        error=content.error.settled() if content.error else None,
        credited_points=FULL_POINTS if step.lifecycle is Lifecycle.SUCCEEDED else step.credited_points,
    )


def _measured(
    content: EventContent, started_at: datetime | None, at: datetime
) -> tuple[int | None, DurationSource | None]:
    if content.duration_ms is not None:
        return content.duration_ms, content.duration_source or DurationSource.WORKER_MONOTONIC
    if started_at is not None:
        return milliseconds_between(started_at, at), DurationSource.SERVER_WALL_CLOCK
    return None, None


def end_with_task(step: StepState, at: datetime) -> StepState:
    """An unfinished attempt whose task has ended: CANCELLED with TASK_ENDED; a finished one stays (L-1)."""
    if step.lifecycle.is_terminal:
        return step
    return replace(
        step,
        lifecycle=Lifecycle.CANCELLED,
        business_status=generic_name(Lifecycle.CANCELLED),
        end_reason=TASK_ENDED,
        finished_at=at,
        stale=False,
        version=step.version + 1,
    )


def evolve_task_by_step(task: TaskState, before: StepState, after: StepState, event: Recorded) -> TaskState:
    """The task after an event of one of its steps; counters change by difference, siblings are never read."""
    content = event.content
    starts = content.event_type is EventType.STEP_STARTED and task.lifecycle is Lifecycle.PENDING
    lifecycle = Lifecycle.RUNNING if starts else task.lifecycle
    business_status = content.business_status
    if not business_status and lifecycle is Lifecycle.RUNNING:
        business_status = _status_by_policy(after, content.event_type)
    if not business_status:
        business_status = generic_name(lifecycle) if starts else task.business_status
    data = content.data if content.data and content.data.summary else None
    return replace(
        task,
        lifecycle=lifecycle,
        business_status=business_status,
        started_at=event.at if starts else task.started_at,
        summary_schema=data.schema if data else task.summary_schema,
        summary_data=data.summary if data else task.summary_data,
        **_counts(task, before, after),
    )


def _status_by_policy(step: StepState, event_type: EventType) -> str:
    """The waiting that a failure means; both statuses map to RUNNING, so a task elsewhere keeps its own (L-4)."""
    if event_type is not EventType.STEP_FAILED:
        return ""
    policy = step.definition.failure_policy
    if policy is FailurePolicy.WAIT_FOR_USER:
        return WAITING_USER_ACTION
    may_retry = step.error is None or step.error.retryable
    return RETRY_WAIT if policy is FailurePolicy.RETRY_THEN_FAIL_TASK and may_retry else ""


def with_step_counted(task: TaskState, before: StepState | None, after: StepState) -> TaskState:
    """The task's counters after one attempt went from ``before`` (None: did not exist) to ``after``."""
    return replace(task, **_counts(task, before, after))


def _counts(task: TaskState, before: StepState | None, after: StepState) -> dict[str, Any]:
    """The fields of ``with_step_counted``."""
    opened = _is_open(after) - _is_open(before)
    credited = after.credited_points - (before.credited_points if before else 0)
    return {
        "progress_points": task.progress_points + after.definition.weight * credited,
        "open_steps": task.open_steps + opened,
        "stale_steps": task.stale_steps + after.stale - (before.stale if before else False),
        "degraded_steps": task.degraded_steps + after.degraded - (before.degraded if before else False),
        "open_dynamic": task.open_dynamic + (opened if after.definition.dynamic else 0),
    }


def _is_open(step: StepState | None) -> int:
    return 0 if step is None or step.lifecycle.is_terminal else 1


def evolve_task(task: TaskState, event: Recorded) -> TaskState:
    """The task after one of its own events, by its coordinator or a policy executor."""
    content = event.content
    target = TARGET_OF_EVENT[content.event_type]
    task = replace(
        task,
        lifecycle=target,
        business_status=content.business_status or generic_name(target),
        started_at=task.started_at or (event.at if target is Lifecycle.RUNNING else None),
    )
    return _end_task(task, content, event.at) if target.is_terminal else task


def _end_task(task: TaskState, content: EventContent, at: datetime) -> TaskState:
    duration_ms, source = _measured(content, task.started_at, at)
    return replace(
        task,
        finished_at=at,
        duration_ms=duration_ms,
        duration_source=source,
        open_steps=0,
        stale_steps=0,
        open_dynamic=0,
        failure=_failure(content) if content.event_type is EventType.TASK_FAILED else None,
    )


def _failure(content: EventContent) -> TaskFailure:
    error = content.error.settled() if content.error else None
    return TaskFailure(
        code=error.code if error else "",
        message=error.message if error else "",
        category=error.category if error else "",
        retryable=error.retryable if error else True,
        failed_step_id=content.failed_step_id,
    )


def with_sequence(task: TaskState, producer_id: str, source_seq: int) -> TaskState:
    """The task after an event in a producer's task sequence (E-5)."""
    seqs: Mapping[str, int] = {**task.producer_seqs, producer_id: source_seq}
    return replace(task, producer_seqs=seqs)


def with_version(task: TaskState, now: datetime) -> TaskState:
    """The next version, committed now and never before the version it follows (E-6)."""
    return replace(
        task, version=task.version + 1, row_revision=task.row_revision + 1, committed_at=max(now, task.committed_at)
    )


def without_waiting_status(task: TaskState) -> TaskState:
    """A retry ends the waiting that a failure policy had shown."""
    if task.business_status not in WAITING_STATUSES:
        return task
    return replace(task, business_status=generic_name(task.lifecycle))
