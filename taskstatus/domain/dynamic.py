"""Bounds of dynamic registration, exact under the task's lock (R-2, R-5).

How many dynamic steps a run has and when the last ones were registered stands on its ``task_run`` row, which no event
writes; how many of their executions are open stands on the task's row, changed by difference.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from taskstatus.domain.commands import DynamicStep, ParentCredential
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.quick_dataclasses import dataclass, replace
from taskstatus.domain.reasons import Reason
from taskstatus.domain.records import RunRecord
from taskstatus.domain.registration_terms import DynamicPolicy, RegistrationMode
from taskstatus.domain.state import StepState, TaskState

MINUTE = timedelta(seconds=60)
PARALLEL_RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class DynamicLimits:
    """The service's own bounds, for tasks that name none; raises ValueError for values below 1."""

    max_steps: int = 100
    max_depth: int = 4
    max_parallel: int = 10
    max_per_minute: int = 120

    def __post_init__(self) -> None:
        if min(self.max_steps, self.max_depth, self.max_parallel, self.max_per_minute) < 1:
            raise ValueError("limits of dynamic registration must be at least 1")

    def of(self, policy: DynamicPolicy) -> DynamicLimits:
        """The bounds in force for a task."""
        return DynamicLimits(
            policy.max_steps or self.max_steps,
            policy.max_depth or self.max_depth,
            policy.max_parallel or self.max_parallel,
            policy.max_per_minute or self.max_per_minute,
        )


def check_parent(credential: ParentCredential | None, parent: StepState | None) -> None:
    """Judge a parent that registers a child itself, as E-2 judges a report; the coordinator's own call passes.

    Raises RefusedError TOKEN_EXPIRED, TOKEN_REVOKED, STALE_ATTEMPT, TERMINAL, TRANSITION_NOT_ALLOWED (it has not
    started) and PERMISSION_DENIED (its credential does not grant children).
    """
    if credential is None:
        return
    assert parent is not None, "the caller refuses an unknown parent first"
    expires_at = credential.credential.expires_at
    if expires_at is not None and expires_at <= credential.received_unix:
        raise RefusedError(Reason.TOKEN_EXPIRED, "the parent's execution token has expired; renew it")
    if credential.credential.generation < parent.generation:
        raise RefusedError(Reason.TOKEN_REVOKED, "the parent's credentials were revoked")
    if not credential.grants_children:
        raise RefusedError(Reason.PERMISSION_DENIED, "this execution may not register children")
    if parent.superseded:
        raise RefusedError(Reason.STALE_ATTEMPT, "a later attempt of the parent is current")
    if parent.lifecycle.is_terminal:
        raise RefusedError(Reason.TERMINAL, "the parent execution has ended")
    if parent.lifecycle is Lifecycle.PENDING:
        raise RefusedError(Reason.TRANSITION_NOT_ALLOWED, "the parent execution has not started")


def check_policy(task: TaskState, dynamic: DynamicStep, parent: StepState | None) -> None:
    """Raises RefusedError TRANSITION_NOT_ALLOWED (fixed manifest), PERMISSION_DENIED (operation of child or parent)."""
    terms = task.envelope.terms
    if terms.mode is RegistrationMode.FIXED:
        raise RefusedError(Reason.TRANSITION_NOT_ALLOWED, "the task's manifest is fixed: no step is added to it")
    if not terms.dynamic.admits_child(dynamic.operation_code):
        raise RefusedError(
            Reason.PERMISSION_DENIED,
            "the task's policy does not allow this operation",
            metadata={"operationCode": dynamic.operation_code},
        )
    if parent is not None and terms.dynamic.parent_operations:
        code = parent.definition.operation_code
        if not terms.dynamic.admits_parent(code):
            raise RefusedError(
                Reason.PERMISSION_DENIED,
                "the task's policy does not allow children under this operation",
                metadata={"operationCode": code},
            )


def depth_below(parent: StepState | None) -> int:
    """How deep a child of the parent lies; without a parent it lies right below the manifest."""
    return 1 if parent is None else parent.definition.depth + 1


def count_registration(
    task: TaskState, run: RunRecord, limits: DynamicLimits, *, is_new_step: bool, depth: int, now: datetime
) -> RunRecord:
    """The run with one registration more; ``task`` is the task with the new execution counted.

    Raises RefusedError DYNAMIC_LIMIT_REACHED, with the time to wait where waiting helps.
    """
    steps = run.dynamic_steps + is_new_step
    if depth > limits.max_depth:
        raise _reached("depth", limits.max_depth)
    if steps > limits.max_steps:
        raise _reached("dynamic steps", limits.max_steps)
    if task.open_dynamic > limits.max_parallel:
        raise _reached("open executions of dynamic steps", limits.max_parallel, PARALLEL_RETRY_SECONDS)
    recent = tuple(moment for moment in run.registered_at if moment > now - MINUTE)
    if len(recent) >= limits.max_per_minute:
        frees_at = recent[-limits.max_per_minute] + MINUTE
        raise _reached("registrations in 60 seconds", limits.max_per_minute, (frees_at - now).total_seconds())
    return replace(run, dynamic_steps=steps, registered_at=(*recent, now))


def _reached(what: str, limit: int, retry_after_seconds: float | None = None) -> RefusedError:
    return RefusedError(
        Reason.DYNAMIC_LIMIT_REACHED,
        f"the task may have at most {limit} {what}",
        metadata={"limit": str(limit), "limited": what},
        retry_after_seconds=retry_after_seconds,
    )
