"""The sealed union of what can become of one event (E-3, E-4, E-8, L-2), flattened into one result at the edge."""

from __future__ import annotations

from typing import assert_never

from taskstatus.domain.errors import RefusedError
from taskstatus.domain.quick_dataclasses import dataclass, replace
from taskstatus.domain.reasons import STALE_REASONS, Reason
from taskstatus.domain.records import ReportResult
from taskstatus.domain.state import StepState, TaskState


@dataclass(frozen=True, slots=True)
class Accepted:
    """Committed with a version of its own."""

    result: ReportResult
    sequence_gap: int = 0
    """How many sequence numbers were skipped upward; accepted and counted (E-4)."""


@dataclass(frozen=True, slots=True)
class Coalesced:
    """Committed inside a newer progress of the same execution; it has a dedup row and no event row (E-8)."""

    result: ReportResult


@dataclass(frozen=True, slots=True)
class Duplicate:
    """Committed before; the first result again (E-3)."""

    result: ReportResult


@dataclass(frozen=True, slots=True)
class NoOp:
    """The state was already reached; nothing is written (L-2)."""

    result: ReportResult


@dataclass(frozen=True, slots=True)
class Stale:
    """A late fact, answered and not written (E-4, L-1, E-8): ``result.reason`` says which way it is late."""

    result: ReportResult


@dataclass(frozen=True, slots=True)
class Refused:
    """An error of the call or of the item; nothing is written."""

    error: RefusedError


Verdict = Accepted | Coalesced | Duplicate | NoOp | Stale | Refused


def outcome_of(verdict: Verdict) -> str:
    """A bounded label of the verdict's kind, for metrics."""
    return type(verdict).__name__.lower()


def result_or_raise(verdict: Verdict) -> ReportResult:
    """The answer for the wire; raises the RefusedError of a refusal."""
    match verdict:
        case Refused(error):
            raise error
        case Duplicate(result):
            return replace(result, duplicate=True)
        case Accepted(result) | Coalesced(result) | NoOp(result) | Stale(result):
            return result
        case _:
            assert_never(verdict)


def refused(reason: Reason, message: str, **metadata: str) -> Refused:
    """A refusal with its message and the values that the message names."""
    return Refused(RefusedError(reason, message, metadata=metadata))


def late(reason: Reason, task: TaskState, step: StepState | None) -> Stale:
    """An answer that leaves everything as it is."""
    return Stale(_unchanged(task, step, accepted=False, reason=reason))


def no_op(task: TaskState, step: StepState | None) -> NoOp:
    """The state is already reached: accepted, unchanged, unwritten."""
    return NoOp(_unchanged(task, step, accepted=True, reason=None))


def _unchanged(task: TaskState, step: StepState | None, *, accepted: bool, reason: Reason | None) -> ReportResult:
    return ReportResult(
        accepted=accepted,
        stale=reason in STALE_REASONS,
        reason=reason,
        task_id=task.envelope.task_id,
        step_id=step.definition.step_id if step else "",
        operation_code=step.definition.operation_code if step else "",
        task_version=task.version,
        step_version=step.version if step else 0,
        lifecycle=task.lifecycle,
        business_status=task.business_status,
        changed=False,
        committed_at=task.committed_at,
        cancel_requested=task.cancel_requested,
    )


def settle_as_first(verdict: Verdict) -> Verdict:
    """A duplicate found while settling an ambiguous commit is our own commit: it is the first result, not a repeat."""
    if not isinstance(verdict, Duplicate):
        return verdict
    return Coalesced(verdict.result) if verdict.result.coalesced else Accepted(verdict.result)
