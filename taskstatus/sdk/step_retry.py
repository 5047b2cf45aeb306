"""Whether a failed step is tried again: its failure policy, its error and a bound of attempts decide (W-5, L-6)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from taskstatus_pb.v1 import common_pb2, query_service_pb2

from taskstatus.sdk.context import ExecutionContext
from taskstatus.sdk.failures import StepError

MOST_ATTEMPTS: Final = 3
_FAILURES: Final = frozenset({common_pb2.FAILED, common_pb2.TIMED_OUT})
_TASK_ENDS: Final = frozenset(
    {common_pb2.SUCCEEDED, common_pb2.FAILED, common_pb2.TIMED_OUT, common_pb2.CANCELLED},
)


class NotRetried(StrEnum):
    """Why a step was not tried again; the first that holds."""

    TASK_ENDED = "TASK_ENDED"
    """Only a rerun goes on."""
    CANCEL_REQUESTED = "CANCEL_REQUESTED"
    """Nothing more is to begin."""
    NO_SUCH_STEP = "NO_SUCH_STEP"
    """The current run has no such step."""
    NOT_FAILED = "NOT_FAILED"
    """The latest attempt waits, runs, succeeded or was cancelled."""
    POLICY = "POLICY"
    """The step's failure policy is not RETRY_THEN_FAIL_TASK: fail the task, go on without the step, or ask somebody."""
    NOT_RETRYABLE = "NOT_RETRYABLE"
    """The error says that another attempt would not help."""
    ATTEMPTS_USED_UP = "ATTEMPTS_USED_UP"
    """As many attempts were made as may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryOutcome:
    """The next attempt's context to hand over, or why there is none."""

    attempt: int
    """The attempt that was activated, or else the latest one; 0 when there is no such step."""
    context: ExecutionContext | None = None
    not_retried: NotRetried | None = None
    error: StepError | None = None
    """What the attempt before failed with, if it did: for ``fail_task``."""


def judge(task: query_service_pb2.TaskSnapshot, step_id: str, most_attempts: int) -> RetryOutcome:
    """The last attempt, its error, and what speaks against another one; ``not_retried`` is None when nothing does."""
    last = next((step for step in task.steps if step.step_id == step_id and step.current), None)
    why_not = _objection(task, last, most_attempts)
    if last is None:
        return RetryOutcome(attempt=0, not_retried=why_not)
    error = None
    if last.HasField("error"):
        found = last.error
        error = StepError(found.code, found.message, category=found.category, retryable=found.retryable)
    return RetryOutcome(attempt=last.step_attempt, not_retried=why_not, error=error)


def _objection(
    task: query_service_pb2.TaskSnapshot, last: query_service_pb2.StepSnapshot | None, most_attempts: int
) -> NotRetried | None:
    if task.lifecycle_status in _TASK_ENDS:
        return NotRetried.TASK_ENDED
    if task.cancel_requested:
        return NotRetried.CANCEL_REQUESTED
    if last is None:
        return NotRetried.NO_SUCH_STEP
    if last.lifecycle_status not in _FAILURES:
        return NotRetried.NOT_FAILED
    if last.failure_policy != common_pb2.RETRY_THEN_FAIL_TASK:
        return NotRetried.POLICY
    if last.HasField("error") and last.error.HasField("retryable") and not last.error.retryable:
        return NotRetried.NOT_RETRYABLE
    return NotRetried.ATTEMPTS_USED_UP if last.step_attempt >= most_attempts else None
