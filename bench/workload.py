"""The events of every load: executions that start, tell of their progress and complete.

A task's three executions follow one another, and a call never holds two events of one task, so that no build can save
work by absorbing progress. The positions of a window begin one call apart, so that calls hold all kinds of events.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from taskstatus.domain.events import EventType

PROGRESS_EVENTS = 18
EVENTS_PER_EXECUTION = PROGRESS_EVENTS + 2
STEPS_PER_TASK = 3
EVENTS_PER_TASK = EVENTS_PER_EXECUTION * STEPS_PER_TASK

TENANT, SCOPE = "bench", "bench"
WORKER, COORDINATOR = "bench.worker", "bench.coordinator"
OPERATION = "DOCUMENT.PARSE"
PROGRESS_UNIT = "page"
PHASE = "PARSING"
DATA_SCHEMA = "bench.progress.v1"
DATA: dict[str, str | float] = {
    "file": "contract-2026-000173.pdf",
    "engine": "layout-parser 4.2",
    "page": 17.0,
    "tables": 3.0,
    "language": "de",
    "note": "pages are counted after the cover",
}


@dataclass(frozen=True, slots=True)
class Execution:
    """One activated attempt of a step."""

    workflow_id: bytes
    task_id: bytes
    execution_id: bytes
    step_id: str
    handle: str


@dataclass(frozen=True, slots=True)
class Event:
    """One event to report; ``number`` counts from 0 within its execution."""

    execution: Execution
    number: int
    event_id: str
    trace_id: bytes

    @property
    def traceparent(self) -> str:
        """The trace context that the builds without RPC store with it, as long as the service's own."""
        return f"00-{self.trace_id.hex()}-{self.trace_id[:8].hex()}-01"

    @property
    def event_type(self) -> EventType:
        """Started, then progress, then completed."""
        if self.number == 0:
            return EventType.STEP_STARTED
        last = self.number == EVENTS_PER_EXECUTION - 1
        return EventType.STEP_COMPLETED if last else EventType.STEP_PROGRESS

    @property
    def source_seq(self) -> int:
        """Its place in the execution's stream, from 1."""
        return self.number + 1


Task = Sequence[Execution]


class Window:
    """What one sender sends: each call holds the next event of each of up to ``width`` tasks."""

    def __init__(self, tasks: Sequence[Task], width: int) -> None:
        if len(tasks) < width:
            raise ValueError(f"{len(tasks)} tasks do not fill a window of {width}")
        self._positions = [_events(tasks[position::width]) for position in range(width)]
        self._calls = 0

    def next_call(self) -> list[Event]:
        """The next call's events; empty for good once a position has run out of tasks."""
        self._calls += 1
        open_positions = self._positions[: _joined(self._calls, len(self._positions))]
        events = [event for event in (next(position, None) for position in open_positions) if event is not None]
        return events if len(events) == len(open_positions) else []


def _joined(calls: int, width: int) -> int:
    """How many positions take part in a call: all of them from the call on at which the first execution completes."""
    return min(width, max(1, width * calls // EVENTS_PER_EXECUTION))


def deal(tasks: Sequence[Task], senders: int, width: int) -> list[Window]:
    """Windows over disjoint tasks, one per sender."""
    return [Window(tasks[sender::senders], width) for sender in range(senders)]


def _events(tasks: Iterable[Task]) -> Iterator[Event]:
    for execution in chain.from_iterable(tasks):
        for number in range(EVENTS_PER_EXECUTION):
            yield Event(execution, number, secrets.token_hex(16), secrets.token_bytes(16))
