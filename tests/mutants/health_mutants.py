"""Mutants of the guards of a health change: each switched off, or blind to one thing it looks at (H-4, H-5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from taskstatus.domain.guards import Judgement
from taskstatus.domain.health_changes import HealthSign
from taskstatus.domain.health_guards import HEALTH_GUARDS
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.verdicts import Verdict

from .mutant import Mutant
from .patching import NothingToMutateError, rebind

GROUP = "health guard"
Check = Callable[[Judgement], Verdict | None]
Sees = Callable[[Judgement], Judgement]


def health_mutants() -> Iterator[Mutant]:
    """Every mutant of this module."""
    for guard in HEALTH_GUARDS:
        own = guard.spec if guard.spec.startswith("H-") else "H-4"
        yield Mutant(GROUP, f"{guard.name}: off", own, partial(_put_check, guard.name, _never))
    for name, blinds in BLIND.items():
        for to, (spec, sees) in blinds.items():
            yield Mutant(GROUP, f"{name}: blind to {to}", spec, partial(_put_blind, name, sees))


def _put_blind(name: str, sees: Sees) -> None:
    check = next(guard.check for guard in HEALTH_GUARDS if guard.name == name)
    _put_check(name, lambda j: check(sees(j)))


def _put_check(name: str, check: Check) -> None:
    mutated = tuple(replace(guard, check=check) if guard.name == name else guard for guard in HEALTH_GUARDS)
    if mutated == HEALTH_GUARDS:
        raise NothingToMutateError(f"there is no guard {name!r} of health changes")
    rebind(HEALTH_GUARDS, mutated)


def _never(_: Judgement) -> None:
    return None


def _lease(j: Judgement, **changes: Any) -> Judgement:
    return j if j.lease is None else replace(j, lease=replace(j.lease, **changes))


def _sign(j: Judgement) -> HealthSign:
    assert j.command.observed is not None
    return j.command.observed.sign


def _running_task(j: Judgement) -> Judgement:
    return replace(j, task=replace(j.known_task, lifecycle=Lifecycle.RUNNING))


def _unfinished_step(j: Judgement) -> Judgement:
    ended = j.known_step.lifecycle.is_terminal
    return replace(j, step=replace(j.known_step, lifecycle=Lifecycle.RUNNING)) if ended else j


def _step_that_runs(j: Judgement) -> Judgement:
    waits = not j.known_step.lifecycle.is_terminal
    return replace(j, step=replace(j.known_step, lifecycle=Lifecycle.RUNNING)) if waits else j


def _whatever_health_for(sign: HealthSign) -> Sees:
    """As if the observation were news."""

    def sees(j: Judgement) -> Judgement:
        if _sign(j) is not sign:
            return j
        stale = sign is not HealthSign.SILENT
        return _lease(replace(j, step=replace(j.known_step, stale=stale)), lost_at=None)

    return sees


def _not_lost_yet(j: Judgement) -> Judgement:
    return _lease(j, lost_at=None)


def _same_sequence_for(sign: HealthSign) -> Sees:
    def sees(j: Judgement) -> Judgement:
        assert j.command.observed is not None
        return _lease(j, heartbeat_seq=j.command.observed.heartbeat_seq) if _sign(j) is sign else j

    return sees


def _overdue(j: Judgement) -> Judgement:
    return j if _sign(j) is HealthSign.BEATING else _lease(j, deadline_at=j.now)


def _overdue_without_deadline(j: Judgement) -> Judgement:
    return _lease(j, deadline_at=j.now) if j.lease is not None and j.lease.deadline_at is None else j


def _heard_now(j: Judgement) -> Judgement:
    return _lease(j, last_heartbeat_at=j.now) if _sign(j) is HealthSign.BEATING else j


def _never_heard(j: Judgement) -> Judgement:
    if _sign(j) is not HealthSign.LOST or j.lease is None:
        return j
    return _lease(j, last_heartbeat_at=j.now - timedelta(seconds=j.lease.timeout_seconds))


def _a_moment_earlier(j: Judgement) -> Judgement:
    return replace(j, now=j.now - timedelta(microseconds=1))


def _a_moment_later(j: Judgement) -> Judgement:
    return replace(j, now=j.now + timedelta(microseconds=1))


BLIND: dict[str, dict[str, tuple[str, Sees]]] = {
    "step is running": {
        "the end of the task": ("H-4", _running_task),
        "the end of the step": ("H-4", _unfinished_step),
        "steps that do not run yet or any more": ("H-4", _step_that_runs),
    },
    "health would change": {
        "a step that is STALE already": ("H-4", _whatever_health_for(HealthSign.SILENT)),
        "a step that is back already": ("H-4", _whatever_health_for(HealthSign.BEATING)),
        "a healthy step that would be lost": ("H-5", _whatever_health_for(HealthSign.LOST)),
        "a worker that is lost already": ("H-4", _not_lost_yet),
    },
    "no beat came between": {
        "a beat after silence was seen": ("H-4", _same_sequence_for(HealthSign.SILENT)),
    },
    "times say so still": {
        "the deadline": ("H-4", _overdue),
        "a missing deadline": ("H-5", _overdue_without_deadline),
        "the age of the beat that recovers": ("H-4", _heard_now),
        "a young beat that makes the escalation void": ("H-5", _never_heard),
        "the very moment of the deadline": ("H-4", _a_moment_earlier),
        "the moment before the deadline": ("H-4", _a_moment_later),
    },
}
"""By guard: what it is made blind to, with the spec id whose tests notice."""
