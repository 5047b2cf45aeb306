"""Mutants of E-2's guards: each switched off, each of its answers withheld, each blind to one thing it looks at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any

from taskstatus.domain.business_status import StatusDefinition
from taskstatus.domain.commands import StatedFields
from taskstatus.domain.events import EXECUTION_EVENTS, EventType
from taskstatus.domain.guards import GUARDS, Guard, Judgement
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.verdicts import Duplicate, NoOp, Refused, Stale, Verdict

from .mutant import Mutant
from .patching import NothingToMutateError, rebind

Check = Callable[[Judgement], Verdict | None]

ANSWERS_WITHOUT_REASON = {
    ("event id is new", Duplicate.__name__): "E-3",
    ("progress rises", NoOp.__name__): "E-8",
    ("lifecycle allows", NoOp.__name__): "L-2",
}
"""What a guard answers besides its reasons, with the spec id of that answer."""

SPEC_OF_REASON = {
    ("data is valid", "PAYLOAD_TOO_LARGE"): "E-2",
    ("data is valid", "INVALID_ARGUMENT"): "E-2",
    ("data is valid", "SCHEMA_VIOLATION"): "E-2",
    ("business status fits", "TRANSITION_NOT_ALLOWED"): "L-4",
}
"""Reasons whose rule stands elsewhere than their guard's."""


def guard_mutants() -> Iterator[Mutant]:
    """Every mutant of this module."""
    for guard in GUARDS:
        yield Mutant("guard", f"{guard.name}: off", guard.spec, partial(_put_check, guard.name, _never))
        outcomes = _outcomes_of(guard)
        if len(outcomes) > 1:
            for outcome, spec in outcomes.items():
                withheld = partial(_withhold, guard.check, outcome)
                yield Mutant("guard", f"{guard.name}: never {outcome}", spec, partial(_put_check, guard.name, withheld))
    for guard_name, blinds in BLIND.items():
        for blind in blinds:
            check = partial(_seen_through, _guard(guard_name).check, blind.sees)
            label = f"{guard_name}: blind to {blind.to}"
            yield Mutant("guard", label, blind.spec, partial(_put_check, guard_name, check))


def _guard(name: str) -> Guard:
    return next(guard for guard in GUARDS if guard.name == name)


def _outcomes_of(guard: Guard) -> dict[str, str]:
    outcomes = {reason.value: SPEC_OF_REASON.get((guard.name, reason.value), guard.spec) for reason in guard.reasons}
    return outcomes | {kind: spec for (name, kind), spec in ANSWERS_WITHOUT_REASON.items() if name == guard.name}


def _put_check(name: str, check: Check) -> None:
    mutated = tuple(replace(guard, check=check) if guard.name == name else guard for guard in GUARDS)
    if mutated == GUARDS:
        raise NothingToMutateError(f"there is no guard {name!r}")
    rebind(GUARDS, mutated)


def _never(_: Judgement) -> None:
    return None


def _withhold(check: Check, outcome: str, j: Judgement) -> Verdict | None:
    verdict = check(j)
    return None if verdict is None or outcome_of(verdict) == outcome else verdict


def outcome_of(verdict: Verdict) -> str:
    """The reason of a verdict, or its kind where it has none."""
    if isinstance(verdict, Refused):
        return verdict.error.reason.value
    if isinstance(verdict, Stale) and verdict.result.reason is not None:
        return verdict.result.reason.value
    return type(verdict).__name__


def _seen_through(check: Check, sees: Callable[[Judgement], Judgement], j: Judgement) -> Verdict | None:
    return check(sees(j))


@dataclass(frozen=True, slots=True)
class Blindness:
    """One thing that a guard does not notice: it judges what ``sees`` makes of the case."""

    to: str
    spec: str
    sees: Callable[[Judgement], Judgement]


def _command(j: Judgement, **changes: Any) -> Judgement:
    return replace(j, command=replace(j.command, **changes))


def _content(j: Judgement, **changes: Any) -> Judgement:
    return _command(j, content=replace(j.command.content, **changes))


def _bound(j: Judgement, **changes: Any) -> Judgement:
    return _command(j, bound=replace(j.command.bound, **changes))


def _caller(j: Judgement, **changes: Any) -> Judgement:
    return _command(j, caller=replace(j.command.caller, **changes))


def _stated(j: Judgement, **changes: Any) -> Judgement:
    return _command(j, stated=replace(j.command.stated, **changes))


def _credential(j: Judgement, **changes: Any) -> Judgement:
    credential = j.command.credential
    return j if credential is None else _command(j, credential=replace(credential, **changes))


def _task(j: Judgement, **changes: Any) -> Judgement:
    return j if j.task is None else replace(j, task=replace(j.task, **changes))


def _step(j: Judgement, **changes: Any) -> Judgement:
    return j if j.step is None else replace(j, step=replace(j.step, **changes))


def _expected_producer_is_the_caller(j: Judgement) -> Judgement:
    if j.step is None:
        return j
    return _step(j, definition=replace(j.step.definition, expected_producer=j.command.caller.producer_id))


def _as_the_tasks_own(j: Judgement, *names: str) -> Judgement:
    if j.task is None:
        return j
    return _caller(j, **{name: getattr(j.task.envelope, name) for name in names})


def _as_the_recorded_coordinator(j: Judgement) -> Judgement:
    if j.task is None or j.command.credential is not None:
        return j
    return _caller(j, producer_id=j.task.envelope.coordinator_producer)


def _as_a_task_event(j: Judgement) -> Judgement:
    return j if j.command.credential is not None else _command(j, step_id="")


def _as_the_same_digest(j: Judgement) -> Judgement:
    return j if j.seen is None else replace(j, seen=replace(j.seen, digest=j.command.digest))


def _as_the_current_run(j: Judgement) -> Judgement:
    return _command(j, task_attempt=0)


def _step_of_the_current_run(j: Judgement) -> Judgement:
    return j if j.task is None else _step(j, task_attempt=j.task.attempt)


def _execution_holds_the_attempt(j: Judgement) -> Judgement:
    if j.step is None or j.step.terms is None or j.command.execution_id is None:
        return j
    return _step(j, terms=replace(j.step.terms, execution_id=j.command.execution_id))


def _shifted_sequence(j: Judgement) -> Judgement:
    return _content(j, source_seq=j.command.content.source_seq + 1)


def _first_of_its_producer(j: Judgement) -> Judgement:
    """The sequence of the other stream: the task's own for an execution, nothing at all for a coordinator."""
    if j.command.credential is not None:
        return _command(j, credential=None)
    return _task(j, producer_seqs={})


def _counted_for_all_producers(j: Judgement) -> Judgement:
    if j.task is None or j.command.credential is not None:
        return j
    highest = max(j.task.producer_seqs.values(), default=0)
    return _task(j, producer_seqs={j.command.caller.producer_id: highest})


def _without_lower_progress_seq(j: Judgement) -> Judgement:
    if j.step is None or j.command.content.progress_seq >= j.step.progress_seq:
        return j
    return _content(j, progress_seq=0)


def _without_equal_progress_seq(j: Judgement) -> Judgement:
    if j.step is None or j.command.content.progress_seq != j.step.progress_seq:
        return j
    return _content(j, progress_seq=0)


def _ended_task_as_running(j: Judgement) -> Judgement:
    return _task(j, lifecycle=Lifecycle.RUNNING) if j.is_step_event else j


def _progressing_step_as_running(j: Judgement) -> Judgement:
    if j.step is None or j.step.lifecycle.is_terminal or j.command.content.event_type != "STEP_PROGRESS":
        return j
    return _step(j, lifecycle=Lifecycle.RUNNING)


def _cancelling_as_running(j: Judgement) -> Judgement:
    if j.step is not None and j.step.lifecycle is Lifecycle.CANCELLING:
        j = _step(j, lifecycle=Lifecycle.RUNNING)
    if j.task is not None and j.task.lifecycle is Lifecycle.CANCELLING:
        j = _task(j, lifecycle=Lifecycle.RUNNING)
    return j


def _following_anything(j: Judgement) -> Judgement:
    if j.statuses is None:
        return j
    free = tuple(replace(status, allowed_from=None) for status in j.statuses.statuses)
    return replace(j, statuses=StatusDefinition(j.statuses.task_type, j.statuses.version, free))


def _following_nothing_but_what_is_named(j: Judgement) -> Judgement:
    """A task that has its status already as if it had none."""
    if j.task is None or j.command.content.business_status != j.task.business_status:
        return j
    return _task(j, business_status="")


def _not_started_by_the_event(j: Judgement) -> Judgement:
    if j.task is None or j.command.content.event_type != "STEP_STARTED":
        return j
    return _content(j, event_type=EventType.STEP_PROGRESS)


STATED_BINDING = ("workflow_id", "task_id", "execution_id", "step_id", "task_attempt", "step_attempt")
"""The fields of the full form that must match what the credential binds (E-9)."""


def _silent(field: str) -> Callable[[Judgement], Judgement]:
    """The case with one stated field left out."""
    return lambda j: _stated(j, **{field: getattr(StatedFields(), field)})


BLIND: dict[str, tuple[Blindness, ...]] = {
    "credential is the caller's own": (
        Blindness("the tenant", "E-2", lambda j: _bound(j, tenant_id=j.command.caller.tenant_id)),
        Blindness("the scope", "E-2", lambda j: _bound(j, authority_scope=j.command.caller.authority_scope)),
        Blindness("the producer", "E-2", lambda j: _bound(j, producer_id=j.command.caller.producer_id)),
        *(Blindness(f"the stated {field}", "E-9", _silent(field)) for field in STATED_BINDING),
    ),
    "task exists": (
        Blindness("the tenant", "ID-1", lambda j: _as_the_tasks_own(j, "tenant_id")),
        Blindness("the scope", "ID-1", lambda j: _as_the_tasks_own(j, "authority_scope")),
        Blindness("the stated workflow", "E-9", _silent("workflow_id")),
    ),
    "event id is new": (Blindness("other content", "E-3", _as_the_same_digest),),
    "credential is live": (
        Blindness("the expiry", "R-11", lambda j: _credential(j, expires_at=None)),
        Blindness("the last moment", "R-11", lambda j: _command(j, received_unix=j.command.received_unix - 1e-3)),
        Blindness("the generation", "R-11", lambda j: _step(j, generation=0)),
    ),
    "operation and producer match": (
        Blindness("the stated producer", "E-2", _silent("producer_id")),
        Blindness("the stated task type", "E-2", _silent("task_type")),
        Blindness("the stated operation", "E-2", _silent("operation_code")),
        Blindness("the bound operation", "E-2", lambda j: _command(j, operation_code="")),
        Blindness("the expected producer", "E-2", _expected_producer_is_the_caller),
    ),
    "run, attempt and execution are current": (
        Blindness("the run of the command", "E-4", _as_the_current_run),
        Blindness("the run of the step", "E-4", _step_of_the_current_run),
        Blindness("supersession", "E-4", lambda j: _step(j, superseded=False)),
        Blindness("the execution", "E-4", _execution_holds_the_attempt),
        Blindness("the execution that a coordinator states", "E-9", _silent("execution_id")),
    ),
    "event type is allowed": (
        Blindness("the credential's events", "E-1", lambda j: _credential(j, allowed_events=EXECUTION_EVENTS)),
        Blindness("who rules the task", "E-1", _as_the_recorded_coordinator),
        Blindness("what is an execution's to say", "E-1", _as_a_task_event),
    ),
    "event is young enough": (
        Blindness(
            "the first moment beyond the age", "E-4", lambda j: replace(j, now=j.now - timedelta(microseconds=1))
        ),
        Blindness("the age that is still accepted", "E-4", lambda j: replace(j, now=j.now + timedelta(microseconds=1))),
    ),
    "source sequence rises": (
        Blindness("an equal number", "E-4", _shifted_sequence),
        Blindness("whose stream it is", "E-5", _first_of_its_producer),
        Blindness("which producer counts", "E-5", _counted_for_all_producers),
    ),
    "progress rises": (
        Blindness("a lower progressSeq", "E-8", _without_lower_progress_seq),
        Blindness("an equal progressSeq", "E-8", _without_equal_progress_seq),
        Blindness("a lower progress", "E-8", lambda j: _step(j, progress=None)),
    ),
    "lifecycle allows": (
        Blindness("the end of the task", "L-1", _ended_task_as_running),
        Blindness("CANCELLING", "L-1", _cancelling_as_running),
        Blindness("progress before the start", "E-8", _progressing_step_as_running),
    ),
    "business status fits": (
        Blindness("the task's own definition", "L-4", lambda j: replace(j, statuses=None)),
        Blindness("what a status may follow", "L-4", _following_anything),
        Blindness("staying where one is", "L-4", _following_nothing_but_what_is_named),
        Blindness("the status that the task has", "L-4", lambda j: _task(j, business_status="RUNNING")),
        Blindness("the start of the run", "E-7", _not_started_by_the_event),
    ),
}
"""By guard, what it is made blind to."""
