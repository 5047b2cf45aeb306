"""Mutants of the tables: the lifecycle, who may call what, reasons and statuses, event types; one cell at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from http import HTTPStatus

import grpc

from gateway_rest.problems import HTTP_MAPPINGS, HttpMapping
from taskstatus.application.access import METHOD_ROLES
from taskstatus.application.identity import Role
from taskstatus.domain.business_status import GENERIC_STATUSES, WAITING_STATUSES
from taskstatus.domain.events import (
    COORDINATOR_STEP_EVENTS,
    EXECUTION_EVENTS,
    REPORTABLE_EVENTS,
    TASK_EVENTS,
    EventType,
)
from taskstatus.domain.guards import GUARDS, Guard, Judgement
from taskstatus.domain.lifecycle import TARGET_OF_EVENT, TERMINAL, TRANSITIONS, Lifecycle
from taskstatus.domain.notifications import PASSING_FACTS
from taskstatus.domain.reasons import ANSWER_REASONS, RETRYABLE_REASONS, STALE_REASONS, Reason
from taskstatus.domain.verdicts import Verdict, refused
from taskstatus.entrypoints.wire.statuses import GRPC_STATUS

from .mutant import NAMES, Mutant
from .patching import rebind, set_member, table_entry

ROLE_MATRIX, LIFECYCLE, REASONS, EVENTS, STATUSES = "role matrix", "lifecycle", "reasons", "event types", "statuses"


def table_mutants() -> Iterator[Mutant]:
    """Every mutant of this module."""
    yield from _moves()
    yield from _cells_of_events(is_step_event=False)
    yield from _cells_of_events(is_step_event=True)
    yield from _roles()
    yield from _reasons()
    yield from _event_types()
    yield from _business_statuses()


def _moves() -> Iterator[Mutant]:
    for source in Lifecycle:
        for target in Lifecycle:
            flip = table_entry(TRANSITIONS, source, TRANSITIONS[source] ^ {target})
            yield Mutant(LIFECYCLE, f"move {source} → {target}", "L-1", flip, (f"{source}-{target}",))
    for state in Lifecycle:
        yield Mutant(LIFECYCLE, f"whether {state} is terminal", "L-1", set_member(TERMINAL, state))


def _cells_of_events(*, is_step_event: bool) -> Iterator[Mutant]:
    kind = "step" if is_step_event else "task"
    for event_type in TARGET_OF_EVENT:
        if event_type.startswith("STEP_") is not is_step_event:
            continue
        for state in Lifecycle:
            apply = partial(_flip_answer, event_type, state)
            yield Mutant(LIFECYCLE, f"{kind} in {state} meets {event_type}", "L-1", apply, (f"{state}-{event_type}",))


def _flip_answer(event_type: EventType, state: Lifecycle) -> None:
    """Accept the event in this state where it is answered otherwise, and refuse it where it is accepted."""

    def flipped(guard: Guard, j: Judgement) -> Verdict | None:
        verdict = guard.check(j)
        current = j.known_step.lifecycle if j.is_step_event else j.known_task.lifecycle
        if (j.command.content.event_type, current) != (event_type, state):
            return verdict
        return refused(Reason.TRANSITION_NOT_ALLOWED, "flipped") if verdict is None else None

    rebind(
        GUARDS,
        tuple(
            Guard(guard.name, guard.spec, guard.reasons, partial(flipped, guard))
            if guard.name == "lifecycle allows"
            else guard
            for guard in GUARDS
        ),
    )


def _roles() -> Iterator[Mutant]:
    for method, roles in METHOD_ROLES.items():
        for role in Role:
            flip = table_entry(METHOD_ROLES, method, roles ^ {role})
            label = f"{method.rpartition('.')[2]} × {role}"
            yield Mutant(ROLE_MATRIX, label, NAMES, flip, (f"{method}-{role}",))


def _reasons() -> Iterator[Mutant]:
    sets = {"retryable": RETRYABLE_REASONS, "stale": STALE_REASONS, "an answer": ANSWER_REASONS}
    for reason in Reason:
        for what, members in sets.items():
            flip = set_member(members, reason)
            yield Mutant(REASONS, f"whether {reason} is {what}", NAMES, flip, ("vocabulary",))
        other_status = table_entry(GRPC_STATUS, reason, grpc.StatusCode.DATA_LOSS)
        yield Mutant(REASONS, f"{reason} over gRPC", NAMES, other_status, ("grpc_status",))
        teapot = HttpMapping(HTTPStatus.IM_A_TEAPOT, HTTP_MAPPINGS[reason].title)
        yield Mutant(REASONS, f"{reason} over HTTP", "T-3", table_entry(HTTP_MAPPINGS, reason, teapot), (reason,))


def _event_types() -> Iterator[Mutant]:
    sets: Mapping[str, frozenset[EventType]] = {
        "an execution's": EXECUTION_EVENTS,
        "a task's": TASK_EVENTS,
        "a step's end by its coordinator": COORDINATOR_STEP_EVENTS,
        "reportable": REPORTABLE_EVENTS,
    }
    for event_type in EventType:
        for what, members in sets.items():
            flip = set_member(members, event_type)
            yield Mutant(EVENTS, f"whether {event_type} is {what}", "E-1", flip, (event_type,))
        passing = set_member(PASSING_FACTS, event_type)
        yield Mutant(EVENTS, f"whether {event_type} may be superseded", "O-3", passing, (event_type,))
    for event_type, target in TARGET_OF_EVENT.items():
        other = Lifecycle.FAILED if target is Lifecycle.TIMED_OUT else Lifecycle.TIMED_OUT
        yield Mutant(
            EVENTS, f"target of {event_type}", "L-1", table_entry(TARGET_OF_EVENT, event_type, other), (event_type,)
        )


def _business_statuses() -> Iterator[Mutant]:
    for status, lifecycle in GENERIC_STATUSES.items():
        other = Lifecycle.CANCELLING if lifecycle is Lifecycle.PENDING else Lifecycle.PENDING
        yield Mutant(STATUSES, f"lifecycle of {status}", "L-4", table_entry(GENERIC_STATUSES, status, other))
    for status in GENERIC_STATUSES:
        yield Mutant(STATUSES, f"whether {status} is a waiting", "L-6", set_member(WAITING_STATUSES, status))
