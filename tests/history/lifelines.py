"""One execution from its start to its end, as the log tells it, and the signs of life that its worker sent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from taskstatus.domain.events import EventType
from taskstatus.domain.health_changes import EVENT_OF_SIGN, HealthSign
from taskstatus.domain.ids import ExecutionId, TaskId
from taskstatus.domain.lifecycle import TARGET_OF_EVENT
from taskstatus.domain.records import EventRecord
from taskstatus.domain.state import StepState
from tests.history.model import History, Outcome

HEALTH_FACTS = frozenset(EVENT_OF_SIGN.values())


@dataclass(slots=True)
class Lifeline:
    """What the log says of one execution."""

    step: StepState
    execution_id: ExecutionId
    started: EventRecord | None = None
    end: EventRecord | None = None
    """Its own end, its supersession or the task's end, whichever came first."""
    facts: list[EventRecord] = field(default_factory=list)
    """Of its health, by version."""

    @property
    def timeout_seconds(self) -> int:
        """As activated; drivers report no round trips, so that it stays in force."""
        assert self.step.terms is not None
        return self.step.terms.heartbeat_timeout_seconds

    @property
    def name(self) -> str:
        """For sentences."""
        step = self.step
        return f"task …{step.task_id.hex()[-6:]}: {step.definition.step_id}/{step.attempt}"


@dataclass(frozen=True, slots=True)
class Sign:
    """A sign of life on the driver's clock: received at some moment between the two."""

    sent_at: float
    done_at: float
    is_sure: bool
    """Acknowledged; otherwise it may have been received or not."""


def lifelines(history: History) -> Iterator[Lifeline]:
    """Every activated execution."""
    found = {
        step.terms.execution_id: Lifeline(step, step.terms.execution_id)
        for step in history.tables.steps.values()
        if step.terms is not None
    }
    of_task: defaultdict[TaskId, list[Lifeline]] = defaultdict(list)
    for line in found.values():
        of_task[line.step.task_id].append(line)
    for task_id, lines in of_task.items():
        for row in history.tables.log_of(task_id):
            _take(row, lines, found)
    yield from found.values()


def _take(row: EventRecord, lines: list[Lifeline], found: Mapping[ExecutionId, Lifeline]) -> None:
    own = found.get(row.execution_id) if row.execution_id else None
    if own is not None and row.event_type in HEALTH_FACTS:
        own.facts.append(row)
    elif own is not None and row.event_type is EventType.STEP_STARTED:
        own.started = row
    ended = found.get(row.superseded_execution_id) if row.superseded_execution_id else None
    target = TARGET_OF_EVENT.get(row.event_type)
    if target is not None and target.is_terminal:
        ended = own
        if not row.step_id:
            for line in lines:
                if line.step.task_attempt == row.task_attempt and line.end is None:
                    line.end = row
    if ended is not None and ended.end is None:
        ended.end = row


def sign_of(row: EventRecord) -> HealthSign:
    """What a fact of health says."""
    return HealthSign(row.reason)


def signs_of_life(history: History) -> Mapping[bytes, list[Sign]]:
    """By execution, in the order sent: its beats, and its events, of which only progress is a sure sign (H-7)."""
    signs: defaultdict[bytes, list[Sign]] = defaultdict(list)
    watch = history.health
    assert watch is not None
    for beat in watch.beats:
        if beat.outcome is not Outcome.REFUSED:
            signs[beat.execution_id].append(Sign(beat.sent_at, beat.done_at, beat.outcome is Outcome.OK))
    progress = {
        (row.task_id, row.event_id)
        for row in history.tables.events.values()
        if row.event_type is EventType.STEP_PROGRESS
    }
    for call in history.invocations:
        if call.outcome is not Outcome.REFUSED:
            is_progress = call.outcome is Outcome.ABSORBED or (call.task_id, call.event_id) in progress
            is_sure = is_progress and call.outcome is not Outcome.UNKNOWN and not call.duplicate
            signs[call.stream].append(Sign(call.invoked_at, call.done_at, is_sure))
    for sent in signs.values():
        sent.sort(key=lambda sign: sign.sent_at)
    return signs
