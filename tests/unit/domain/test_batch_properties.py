"""Random histories of several tasks, batched at random, against a naive model (E-3…E-6, E-8, L-1, L-6, R-6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskstatus.domain.errors import RefusedError
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import ExecutionId, TaskId
from taskstatus.domain.projections import task_percent
from taskstatus.domain.state import FailurePolicy, StepState
from taskstatus.domain.verdicts import Refused, Verdict, result_or_raise
from tests.unit.factories import a_step, a_task, an_activation, an_id, progress, step_event, task_event
from tests.unit.service_kit import Kit, drive, reason_of

from .reference import Expected, Sent, Step, Task

TASKS = (TaskId(an_id(200)), TaskId(an_id(201)))
WEIGHTS = {"01_a": (1, FailurePolicy.CONTINUE_WITH_WARNING), "02_b": (3, FailurePolicy.FAIL_TASK)}
STEP_TYPES = (
    *[EventType.STEP_STARTED] * 3,
    *[EventType.STEP_PROGRESS] * 8,
    EventType.STEP_COMPLETED,
    EventType.STEP_FAILED,
    EventType.STEP_CANCELLED,
)
TASK_TYPES = (*[EventType.TASK_STARTED] * 4, EventType.TASK_COMPLETED, EventType.TASK_FAILED)


@dataclass(frozen=True)
class Move:
    """One drawn action; numbers are taken relative to the state that it meets."""

    actor: str
    task: int
    step: str
    event_type: EventType
    seq_ahead: int
    old_attempt: bool
    percent_ahead: int
    resend: int
    times: int = 1


tasks = st.sampled_from((0, 0, 0, 1))
steps = st.sampled_from(sorted(WEIGHTS))
ahead = st.sampled_from((10, 10, 10, 10, 0, -10))
worker_moves = st.builds(
    Move,
    st.just("worker"),
    tasks,
    steps,
    st.sampled_from(STEP_TYPES),
    st.sampled_from((1, 1, 1, 1, 1, 2, 0)),
    st.sampled_from((False, False, False, False, True)),
    ahead,
    st.just(0),
    st.integers(1, 3),
)
other_moves = st.builds(
    Move,
    st.sampled_from(("coordinator", "ruling", "activate", "resend", "resend", "reuse")),
    tasks,
    steps,
    st.sampled_from(TASK_TYPES),
    st.sampled_from((1, 1, 2, 0)),
    st.just(False),
    ahead,
    st.integers(0, 20),
)
move_lists = st.lists(st.one_of(worker_moves, worker_moves, worker_moves, other_moves), min_size=1, max_size=8)
START_OF_A = Move("worker", 0, "01_a", EventType.STEP_STARTED, 1, False, 0, 0)
histories = st.lists(move_lists, min_size=2, max_size=5)


@dataclass
class Run:
    """The product and the model side by side."""

    kit: Kit = field(default_factory=Kit)
    models: list[Task] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    percents: list[float] = field(default_factory=lambda: [0.0, 0.0])

    def __post_init__(self) -> None:
        for number, task_id in enumerate(TASKS):
            self.models.append(
                Task({name: Step(w, p is not FailurePolicy.FAIL_TASK) for name, (w, p) in WEIGHTS.items()})
            )
            task = a_task(task_id=task_id, client_task_key=f"t{number}", weight_total=4, open_steps=2)
            self.kit.put(task, *(self._first_attempt(task_id, number, name) for name in WEIGHTS))

    def _first_attempt(self, task_id: TaskId, number: int, name: str) -> StepState:
        weight, policy = WEIGHTS[name]
        execution = ExecutionId(an_id(300 + 10 * number + weight))
        return a_step(task_id=task_id, step_id=name, weight=weight, failure_policy=policy, execution_id=execution)

    def batch(self, moves: Sequence[Move]) -> None:
        """Activations first, then everything else in one commit."""
        for model in self.models:
            model.begin_batch()
        for move in moves:
            if move.actor == "activate":
                self._activate(move)
        events, expected = [], []
        reports = [move for move in moves if move.actor != "activate" for _ in range(move.times)]
        for move in reports:
            events.append(self._event(move))
            expected.append(self.models[events[-1].task].send(events[-1]))
        verdicts = self.kit.report(*(self._command(event) for event in events))
        for verdict, outcome in zip(verdicts, expected, strict=True):
            assert_as_expected(verdict, outcome)
        for number in range(len(TASKS)):
            self._check_percent(number)

    def _activate(self, move: Move) -> None:
        model = self.models[move.task]
        attempt = len(model.steps[move.step].attempts) + 1
        command = an_activation(TASKS[move.task], move.step, attempt)
        if model.activate_next(move.step):
            assert drive(self.kit.registration.activate(command)).created
        else:
            with pytest.raises(RefusedError):
                drive(self.kit.registration.activate(command))

    def _event(self, move: Move) -> Sent:
        if move.actor in ("resend", "reuse") and self.sent:
            again = self.sent[move.resend % len(self.sent)]
            return again if move.actor == "resend" else self._new(move, again.task, again.event_id)
        return self._new(move, move.task, f"evt-{len(self.sent)}")

    def _new(self, move: Move, task: int, event_id: str) -> Sent:
        model = self.models[task]
        if move.actor == "worker":
            attempts = model.steps[move.step].attempts
            number = max(1, len(attempts) - move.old_attempt)
            subject, source_seq = (move.step, number), attempts[number - 1].seq + move.seq_ahead
        else:
            subject = (move.step if move.actor == "ruling" else "", 0)
            source_seq = model.coordinator_seq + move.seq_ahead
        event_type = EventType.STEP_CANCELLED if move.actor == "ruling" else move.event_type
        percent = 0
        if event_type is EventType.STEP_PROGRESS:
            shown = model.steps[move.step].attempts[subject[1] - 1].shown or 0
            percent = min(100, max(0, shown + move.percent_ahead))
        sent = Sent(task, *subject, event_type, source_seq, event_id, percent)
        self.sent.append(sent)
        return sent

    def _command(self, sent: Sent) -> Any:
        fields = {"event_id": sent.event_id}
        if not sent.attempt:
            return task_event(sent.event_type, sent.source_seq, task_id=TASKS[sent.task], step_id=sent.step, **fields)
        step = self.kit.tables.steps[(TASKS[sent.task], 1, sent.step, sent.attempt)]
        more = {"progress": progress(sent.percent)} if sent.what == "PROGRESS" else {}
        return step_event(sent.event_type, sent.source_seq, of=step, **fields, **more)

    def _check_percent(self, number: int) -> None:
        percent = task_percent(self.kit.tables.tasks[TASKS[number]])
        assert percent is not None
        assert percent >= self.percents[number]
        self.percents[number] = percent


def assert_as_expected(verdict: Verdict, expected: Expected) -> None:
    """The same kind, reason and version."""
    assert (type(verdict).__name__, reason_of(verdict)) == (expected.kind, expected.reason)
    if not isinstance(verdict, Refused):
        assert result_or_raise(verdict).task_version == expected.version


def assert_same_end(run: Run, number: int) -> None:
    """The product's rows say what the model says."""
    task, model = run.kit.tables.tasks[TASKS[number]], run.models[number]
    assert (task.version, task.lifecycle.value) == (model.version, model.lifecycle)
    assert task.producer_seqs.get("coordinator", 0) == model.coordinator_seq
    for name, step in model.steps.items():
        rows = sorted(
            (s for s in run.kit.tables.steps_in(TASKS[number], 1) if s.definition.step_id == name),
            key=lambda row: row.attempt,
        )
        assert [row.lifecycle.value for row in rows] == [attempt.lifecycle for attempt in step.attempts]
        assert [row.source_seq for row in rows] == [attempt.seq for attempt in step.attempts]
        assert [row.superseded for row in rows] == [True] * (len(rows) - 1) + [False]
        assert [row.degraded for row in rows] == [attempt.degraded for attempt in step.attempts]
        assert rows[-1].credited_points == step.points


def assert_counters_are_the_sums(run: Run, number: int) -> None:
    """Counters kept by difference are what a recount of the current attempts gives (L-6, E-8)."""
    task = run.kit.tables.tasks[TASKS[number]]
    current = [step for step in run.kit.tables.steps_in(TASKS[number], 1) if not step.superseded]
    assert task.open_steps == sum(not step.lifecycle.is_terminal for step in current)
    assert task.degraded_steps == sum(step.degraded for step in current)
    assert task.stale_steps == sum(step.stale for step in current)
    assert task.progress_points == sum(step.definition.weight * step.credited_points for step in current)


def assert_versions_have_no_gap(run: Run, number: int) -> None:
    """Each version has exactly one event, committed no earlier than the one before (E-6)."""
    events = [event for (task_id, _), event in sorted(run.kit.tables.events.items()) if task_id == TASKS[number]]
    version = run.kit.tables.tasks[TASKS[number]].version
    assert [event.task_version for event in events] == list(range(2, version + 1))
    times = [event.committed_at for event in events]
    assert times == sorted(times)
    for name in WEIGHTS:
        of_step = [event.step_version for event in events if event.step_id == name]
        assert of_step == sorted(set(of_step))
    details = [row for row in run.kit.tables.outbox.values() if row.aggregate_id == TASKS[number]]
    assert len(details) == 2 * len(events)


@given(histories)
def test_e6_any_history_in_any_batches_ends_as_the_naive_model_says(history: list[list[Move]]) -> None:
    run = Run()
    run.batch([START_OF_A])
    for moves in history:
        run.batch(moves)
    for number in range(len(TASKS)):
        assert_same_end(run, number)
        assert_counters_are_the_sums(run, number)
        assert_versions_have_no_gap(run, number)


@given(st.lists(worker_moves, max_size=12), st.integers(1, 5))
def test_e6_without_progress_the_batching_makes_no_difference(moves: list[Move], size: int) -> None:
    moves = [move for move in moves if move.event_type is not EventType.STEP_PROGRESS]
    together, singly = Run(), Run()
    for start in range(0, len(moves), size):
        together.batch(moves[start : start + size])
    for event in together.sent:
        singly.sent.append(event)
        singly.kit.report(singly._command(event))
    for number in range(len(TASKS)):
        one, other = (run.kit.tables.tasks[TASKS[number]] for run in (together, singly))
        assert (one.version, one.lifecycle, one.open_steps) == (other.version, other.lifecycle, other.open_steps)
