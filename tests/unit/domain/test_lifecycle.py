"""The lifecycle table, every cell of it written out by hand, for tasks and for steps (L-1, L-2)."""

from __future__ import annotations

import pytest

from taskstatus.domain.events import EventType
from taskstatus.domain.lifecycle import TERMINAL, TRANSITIONS, Lifecycle, may_move
from taskstatus.domain.reasons import Reason
from taskstatus.domain.state import StepState
from taskstatus.domain.verdicts import Verdict
from tests.unit.factories import START, a_running_step, a_step, a_task, a_task_in, step_event, task_event
from tests.unit.service_kit import Kit, kinds_of, reason_of

STATES = tuple(Lifecycle)
ACCEPTED, NO_OP, TERMINAL_ANSWER, REFUSED = "A", "=", "T", "x"

MOVES = {  # to: PENDING RUNNING CANCELLING SUCCEEDED FAILED TIMED_OUT CANCELLED
    Lifecycle.PENDING:    ". y y y y y y",
    Lifecycle.RUNNING:    ". . y y y y y",
    Lifecycle.CANCELLING: ". . . . y y y",
    Lifecycle.SUCCEEDED:  ". . . . . . .",
    Lifecycle.FAILED:     ". . . . . . .",
    Lifecycle.TIMED_OUT:  ". . . . . . .",
    Lifecycle.CANCELLED:  ". . . . . . .",
}  # fmt: skip

TASK_COLUMNS = (
    EventType.TASK_STARTED,
    EventType.TASK_COMPLETED,
    EventType.TASK_FAILED,
    EventType.TASK_TIMED_OUT,
    EventType.TASK_CANCELLED,
)
TASK_TABLE = {
    Lifecycle.PENDING:    "A A A A A",
    Lifecycle.RUNNING:    "= A A A A",
    Lifecycle.CANCELLING: "x x A A A",
    Lifecycle.SUCCEEDED:  "T = T T T",
    Lifecycle.FAILED:     "T T = T T",
    Lifecycle.TIMED_OUT:  "T T T = T",
    Lifecycle.CANCELLED:  "T T T T =",
}  # fmt: skip

STEP_COLUMNS = (
    EventType.STEP_STARTED,
    EventType.STEP_PROGRESS,
    EventType.STEP_COMPLETED,
    EventType.STEP_FAILED,
    EventType.STEP_TIMED_OUT,
    EventType.STEP_CANCELLED,
)
STEP_TABLE = {
    Lifecycle.PENDING:    "A x A A A A",
    Lifecycle.RUNNING:    "= A A A A A",
    Lifecycle.CANCELLING: "x x x A A A",
    Lifecycle.SUCCEEDED:  "T T = T T T",
    Lifecycle.FAILED:     "T T T = T T",
    Lifecycle.TIMED_OUT:  "T T T T = T",
    Lifecycle.CANCELLED:  "T T T T T =",
}  # fmt: skip

TASK_CELLS = [
    (state, event, row.split()[column])
    for state, row in TASK_TABLE.items()
    for column, event in enumerate(TASK_COLUMNS)
]
STEP_CELLS = [
    (state, event, row.split()[column])
    for state, row in STEP_TABLE.items()
    for column, event in enumerate(STEP_COLUMNS)
]


def cell_of(verdict: Verdict) -> str:
    """The letter of what became of an event."""
    kind = kinds_of([verdict])[0]
    if kind == "Stale" and reason_of(verdict) is Reason.TERMINAL:
        return TERMINAL_ANSWER
    if kind == "Refused" and reason_of(verdict) is Reason.TRANSITION_NOT_ALLOWED:
        return REFUSED
    return {"Accepted": ACCEPTED, "NoOp": NO_OP}[kind]


def report_of_step(event_type: EventType, step: StepState) -> object:
    """The event as the execution reports it, or as the coordinator rules it where only the coordinator may."""
    if event_type is EventType.STEP_TIMED_OUT:
        return task_event(event_type, step_id=step.definition.step_id)
    return step_event(event_type, source_seq=9, of=step, phase_code="ocr")


def test_l1_the_tables_know_every_state() -> None:
    assert set(MOVES) == set(TASK_TABLE) == set(STEP_TABLE) == set(TRANSITIONS) == set(Lifecycle)
    assert {state for state, targets in TRANSITIONS.items() if not targets} == TERMINAL


@pytest.mark.parametrize("source", MOVES)
def test_l1_moves_from(source: Lifecycle) -> None:
    cells = ["y" if may_move(source, target) else "." for target in STATES]
    assert " ".join(cells) == MOVES[source]


@pytest.mark.parametrize(("state", "event_type", "expected"), TASK_CELLS)
def test_l1_task_event_in_state(kit: Kit, state: Lifecycle, event_type: EventType, expected: str) -> None:
    kit.put(a_task_in(state))

    (verdict,) = kit.report(task_event(event_type))

    assert cell_of(verdict) == expected


@pytest.mark.parametrize(("state", "event_type", "expected"), STEP_CELLS)
def test_l1_step_event_in_state(kit: Kit, state: Lifecycle, event_type: EventType, expected: str) -> None:
    step = a_step(lifecycle=state)
    kit.put(a_task_in(Lifecycle.RUNNING), step)

    (verdict,) = kit.report(report_of_step(event_type, step))

    assert cell_of(verdict) == expected


@pytest.mark.parametrize("event_type", STEP_COLUMNS)
def test_l1_step_event_on_an_ended_task_is_answered_terminal(kit: Kit, event_type: EventType) -> None:
    step = a_step(lifecycle=Lifecycle.CANCELLED, end_reason="TASK_ENDED")
    kit.put(a_task_in(Lifecycle.SUCCEEDED), step)

    (verdict,) = kit.report(report_of_step(event_type, step))

    # The execution that confirms what was done to it reaches the state that it finds (L-2).
    assert cell_of(verdict) == (NO_OP if event_type is EventType.STEP_CANCELLED else TERMINAL_ANSWER)


@pytest.mark.parametrize("ended", sorted(TERMINAL))
def test_l1_open_step_of_an_ended_task_is_answered_terminal(kit: Kit, ended: Lifecycle) -> None:
    kit.put(a_task_in(ended), a_running_step())
    assert kit.reason(step_event(EventType.STEP_COMPLETED, 2)) is Reason.TERMINAL


@pytest.mark.parametrize("event_type", [EventType.TASK_COMPLETED, EventType.STEP_COMPLETED])
def test_l1_cancelling_never_succeeds(kit: Kit, event_type: EventType) -> None:
    step = a_step(lifecycle=Lifecycle.CANCELLING)
    kit.put(a_task_in(Lifecycle.CANCELLING), step)
    command = task_event(event_type) if event_type is EventType.TASK_COMPLETED else step_event(event_type, of=step)

    assert kit.reason(command) is Reason.TRANSITION_NOT_ALLOWED
    assert kit.only_task().lifecycle is Lifecycle.CANCELLING


def test_l2_reaching_the_state_one_is_in_writes_nothing(kit: Kit) -> None:
    step = a_running_step()
    task = a_task_in(Lifecycle.RUNNING, version=2)
    kit.put(task, step)

    result = kit.result(step_event(EventType.STEP_STARTED, 2, of=step))

    assert (result.accepted, result.changed, result.duplicate, result.stale) == (True, False, False, False)
    assert (result.task_version, result.step_version, result.reason) == (2, 2, None)
    assert (kit.only_task(), kit.step()) == (task, step)
    assert not kit.tables.dedups
    assert not kit.tables.events
    assert not kit.tables.outbox


@pytest.mark.parametrize("event_type", [EventType.TASK_COMPLETED, EventType.TASK_FAILED, EventType.TASK_CANCELLED])
def test_l2_same_terminal_state_again_is_a_no_op(kit: Kit, event_type: EventType) -> None:
    kit.put(a_task())
    kit.result(task_event(event_type, 1))

    again = kit.result(task_event(event_type, 2))

    assert (again.accepted, again.changed, again.task_version) == (True, False, 2)


def test_l1_late_event_is_answered_not_written(kit: Kit) -> None:
    step = a_step(lifecycle=Lifecycle.SUCCEEDED, source_seq=2)
    kit.put(a_task_in(Lifecycle.RUNNING), step)

    result = kit.result(step_event(EventType.STEP_FAILED, 3, of=step))

    assert (result.accepted, result.stale, result.reason) == (False, False, Reason.TERMINAL)
    assert not kit.tables.dedups


def test_l2_started_and_finished_are_set_once(kit: Kit) -> None:
    step = a_step()
    kit.put(a_task(), step)

    started = kit.result(step_event(EventType.STEP_STARTED, 1)).committed_at
    kit.store.clock.advance(5)
    kit.report(step_event(EventType.STEP_PROGRESS, 2, phase_code="ocr"))
    ended = kit.result(step_event(EventType.STEP_COMPLETED, 3)).committed_at

    assert started is not None
    assert started > START
    assert (kit.step().started_at, kit.step().finished_at) == (started, ended)
    assert (kit.only_task().started_at, kit.only_task().finished_at) == (started, None)


def test_b1_all_steps_succeeded_do_not_end_the_task(kit: Kit) -> None:
    kit.put(a_task(), a_step())

    kit.report(step_event(EventType.STEP_STARTED, 1), step_event(EventType.STEP_COMPLETED, 2))

    assert kit.only_task().open_steps == 0
    assert kit.only_task().lifecycle is Lifecycle.RUNNING
