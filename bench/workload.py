"""The events of every load: executions that start, tell of their progress and complete.

A task's three executions follow one another, and a call holds one event of a task, so that no build can save work by
absorbing progress (E-8); bursts, in which it can, are asked for. The first execution at each position of a window skips
some of its progress, so that from then on calls hold all kinds of events.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

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
DATA_SCHEMA = "generic.progress.v1"
DATA: dict[str, str | float] = {
    "message": (
        "Parsing contract-2026-000173.pdf with the layout engine: the tables of the annex are read cell by cell,"
        " footnotes are kept with their pages, and scanned parts wait for the text recognition."
    ),
    "items": 17.0,
}
"""About 200 bytes, valid under the generic profile."""


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
    last: int = EVENTS_PER_EXECUTION - 1
    """The number of the execution's last event."""

    @property
    def traceparent(self) -> str:
        """The trace context that the builds without RPC store with it, as long as the service's own."""
        return f"00-{self.trace_id.hex()}-{self.trace_id[:8].hex()}-01"

    @property
    def event_type(self) -> EventType:
        """Started, then progress, then completed."""
        if self.number == 0:
            return EventType.STEP_STARTED
        return EventType.STEP_COMPLETED if self.number == self.last else EventType.STEP_PROGRESS

    @property
    def source_seq(self) -> int:
        """Its place in the execution's stream, from 1."""
        return self.number + 1


Task = Sequence[Execution]


class Window:
    """What one sender sends: each call holds the next event (or the next ``burst``) of each of ``width`` tasks."""

    def __init__(
        self,
        tasks: Sequence[Task],
        width: int,
        phase: int = 0,
        progress_events: int = PROGRESS_EVENTS,
        burst: int = 1,
    ) -> None:
        if len(tasks) < width:
            raise ValueError(f"{len(tasks)} tasks do not fill a window of {width}")
        self.executions = list(chain.from_iterable(tasks))
        self._burst = burst
        self._positions = [
            _events(tasks[position::width], phase + position, progress_events) for position in range(width)
        ]

    def next_call(self) -> list[Event]:
        """The next call's events; empty once a position has run out of tasks, and not to be asked again then."""
        bursts = [list(islice(position, self._burst)) for position in self._positions]
        return list(chain.from_iterable(bursts)) if all(bursts) else []


def deal(
    tasks: Sequence[Task], senders: int, width: int, progress_events: int = PROGRESS_EVENTS, burst: int = 1
) -> list[Window]:
    """Windows over disjoint tasks, one per sender."""
    return [Window(tasks[sender::senders], width, sender * width, progress_events, burst) for sender in range(senders)]


def _events(tasks: Iterable[Task], phase: int, progress_events: int) -> Iterator[Event]:
    skipped, last = phase % (progress_events + 1), progress_events + 1
    for execution in chain.from_iterable(tasks):
        for number in chain((0,), range(1 + skipped, last + 1)):
            yield Event(execution, number, secrets.token_hex(16), secrets.token_bytes(16), last)
        skipped = 0
