"""The guards of a health change: the observation is repeated under the locks, so that a late beat, an end or another
replica always wins (H-4).

Like ``GUARDS`` an ordered tuple of named guards: the first that objects answers. An objection writes nothing.
"""

from __future__ import annotations

from datetime import timedelta

from taskstatus.domain.guards import GUARDS, Guard, Judgement
from taskstatus.domain.health_changes import HealthObservation, HealthSign
from taskstatus.domain.lease import LeaseState
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.reasons import Reason
from taskstatus.domain.verdicts import Verdict, late, no_op, refused


def _step_is_running(j: Judgement) -> Verdict | None:
    task, step = j.known_task, j.known_step
    if step.lifecycle.is_terminal or task.lifecycle.is_terminal:
        return late(Reason.TERMINAL, task, step)
    if step.lifecycle is not Lifecycle.RUNNING:
        return refused(Reason.TRANSITION_NOT_ALLOWED, "only a running step has a health that can change")
    return None


def _lease_is_open(j: Judgement) -> Verdict | None:
    return None if j.lease is not None and j.lease.is_open else no_op(j.known_task, j.step)


def _health_would_change(j: Judgement) -> Verdict | None:
    stale, lost = j.known_step.stale, _lease(j).lost_at is not None
    match _observed(j).sign:
        case HealthSign.SILENT:
            changes = not stale
        case HealthSign.BEATING:
            changes = stale
        case HealthSign.LOST:
            changes = stale and not lost
    return None if changes else no_op(j.known_task, j.step)


def _no_beat_came_between(j: Judgement) -> Verdict | None:
    """A beat that is newer than the one seen makes a silence that was observed before it void."""
    observed, lease = _observed(j), _lease(j)
    is_heard = observed.sign is not HealthSign.BEATING and lease.heartbeat_seq != observed.heartbeat_seq
    return no_op(j.known_task, j.step) if is_heard else None


def _times_say_so_still(j: Judgement) -> Verdict | None:
    observed, lease = _observed(j), _lease(j)
    is_overdue = lease.deadline_at is not None and lease.deadline_at <= j.now
    is_heard = lease.last_sign_at + timedelta(seconds=lease.timeout_seconds) > j.now
    match observed.sign:
        case HealthSign.SILENT:
            holds = is_overdue
        case HealthSign.BEATING:
            holds = is_heard
        case HealthSign.LOST:
            holds = is_overdue and not is_heard
    return None if holds else no_op(j.known_task, j.step)


def _observed(j: Judgement) -> HealthObservation:
    assert j.command.observed is not None
    return j.command.observed


def _lease(j: Judgement) -> LeaseState:
    assert j.lease is not None
    return j.lease


_SHARED = {guard.name: guard for guard in GUARDS}

HEALTH_GUARDS: tuple[Guard, ...] = (
    _SHARED["task exists"],
    _SHARED["step exists"],
    _SHARED["event id is new"],
    _SHARED["run, attempt and execution are current"],
    Guard("step is running", "H-4", (Reason.TERMINAL, Reason.TRANSITION_NOT_ALLOWED), _step_is_running),
    Guard("lease is open", "H-4", (), _lease_is_open),
    Guard("health would change", "H-4", (), _health_would_change),
    Guard("no beat came between", "H-4", (), _no_beat_came_between),
    Guard("times say so still", "H-5", (), _times_say_so_still),
)
"""A guard without a reason answers ``accepted=true, changed=false``: there is nothing to record."""


def judge_health(j: Judgement) -> Verdict | None:
    """The answer of the first guard that objects; None when the change is to be recorded."""
    for guard in HEALTH_GUARDS:
        verdict = guard.check(j)
        if verdict is not None:
            return verdict
    return None
