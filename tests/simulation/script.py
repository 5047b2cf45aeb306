"""What the worker of one execution wants to tell: the right sequence of events, and the ways of getting it wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from random import Random

from google.protobuf import struct_pb2

from taskstatus.domain.commands import EventContent, EventData, ReportedError, StatedFields
from taskstatus.domain.events import EventType
from taskstatus.domain.progress import Progress
from tests.history.model import Invocation, Outcome
from tests.history.rules_events import BREAKING
from tests.simulation.faults import START
from tests.simulation.items import STRANGER, WORKER, Assignment, Item, a_service

ENDS = (EventType.STEP_COMPLETED, EventType.STEP_COMPLETED, EventType.STEP_FAILED, EventType.STEP_CANCELLED)
UNITS = 20


class ExecutionScript:
    """One execution's reports; ``open`` are those that have no final answer yet, in the order in which they go out."""

    def __init__(self, assignment: Assignment, random: Random, *, is_enduring: bool = False) -> None:
        """``is_enduring``: it does not end by itself, so that there is something to beat for."""
        self._assignment = assignment
        self._is_enduring = is_enduring
        self._random = random
        self._identity = a_service(assignment.binding.tenant_id, WORKER)
        self._source_seq = 0
        self._events = 0
        self._done_units = 0
        self._has_started = False
        self.has_ended = False
        self.open: list[Item] = []
        self._answered: list[Item] = []

    def next_item(self) -> Item:
        """The next right event; sent and not answered until ``learn`` says otherwise."""
        item = self._item(self._next_content())
        self.open.append(item)
        return item

    def last_item(self) -> Item:
        """Its end, now."""
        self._source_seq += 1
        item = self._item(self._end())
        self.open.append(item)
        return item

    def wrong_item(self) -> Item:
        """Something that a confused worker sends."""
        return self._random.choice(WRONGS)(self)

    def again(self) -> Item | None:
        """Something that was answered already."""
        return self._random.choice(self._answered) if self._answered else None

    def learn(self, item: Item, answer: Invocation) -> None:
        """Take in one answer; an unknown or passing one leaves the item open."""
        is_open = answer.outcome is Outcome.UNKNOWN or answer.reason in BREAKING
        if is_open and item not in self.open:
            self.open.append(item)
        elif not is_open:
            self._answered.append(item)
            if item in self.open:
                self.open.remove(item)

    def _item(self, content: EventContent) -> Item:
        """With the token or the handle, in full or in compact form: it must not matter (E-9)."""
        assignment, binding = self._assignment, self._assignment.binding
        stated = StatedFields()
        if self._random.randrange(3) == 0:
            stated = StatedFields(step_id=binding.step_id, operation_code=binding.operation_code, producer_id=WORKER)
        by_token = self._random.randrange(2) == 0
        return Item(
            identity=self._identity,
            task_id=binding.task_id,
            stream=binding.execution_id,
            content=content,
            stated=stated,
            token=assignment.token if by_token else "",
            handle="" if by_token else assignment.handle,
        )

    def _next_content(self) -> EventContent:
        # A gap upward is legal (E-4).
        self._source_seq += 1 + (self._random.randrange(8) == 0)
        if not self._has_started and self._random.randrange(12):
            self._has_started = True
            return self._content(EventType.STEP_STARTED)
        if self._random.randrange(5) or self._is_enduring:
            return self._progress()
        return self._end()

    def _content(self, event_type: EventType) -> EventContent:
        """Ids repeat over tasks and tenants on purpose: one is unique within its task only (E-3)."""
        self._events += 1
        binding = self._assignment.binding
        event_id = f"{binding.step_id}.{binding.step_attempt}.{self._events}"
        return EventContent(event_id=event_id, event_type=event_type, source_seq=self._source_seq)

    def _progress(self) -> EventContent:
        random = self._random
        self._done_units = min(UNITS, self._done_units + random.randrange(4))
        content = self._content(EventType.STEP_PROGRESS)
        if random.randrange(5):
            content = replace(content, progress=Progress(self._done_units, random.choice((UNITS, UNITS, 0)), "page"))
        if random.randrange(3) == 0:
            content = replace(content, phase_code=random.choice(("LAYOUT", "OCR")), phase_label="Phase")
        if random.randrange(6) == 0:
            content = replace(content, progress_seq=self._events)
        if random.randrange(8) == 0:
            content = replace(content, business_status=random.choice(("RUNNING", "WAITING_USER_ACTION")))
        if random.randrange(8) == 0:
            content = replace(content, data=_data(self._done_units))
        return content

    def _end(self) -> EventContent:
        self.has_ended = True
        content = self._content(self._random.choice(ENDS))
        if content.event_type is EventType.STEP_FAILED:
            retryable = self._random.choice((True, False, None))
            content = replace(content, error=ReportedError("SYSTEM", "PARSE_FAILED", "It failed.", retryable, ""))
        if self._random.randrange(2):
            content = replace(content, duration_ms=self._random.randrange(10_000))
        return content

    def _last_content(self) -> EventContent:
        items = self.open or self._answered
        return items[-1].content if items else self._content(EventType.STEP_PROGRESS)

    def under_a_used_id(self) -> Item:
        """Other content under an id that was sent: IDEMPOTENCY_CONFLICT, or the first of the two wins."""
        return self._item(replace(self._last_content(), reason="something else", source_seq=self._source_seq + 1))

    def with_an_old_sequence(self) -> Item:
        """STALE_SEQUENCE."""
        return self._item(replace(self._content(EventType.STEP_PROGRESS), source_seq=max(1, self._source_seq - 1)))

    def of_another_task(self) -> Item:
        """TOKEN_MISMATCH."""
        binding = self._assignment.binding
        stated = StatedFields(task_id=f"task_{binding.workflow_id.hex()}")
        return replace(self._item(self._content(EventType.STEP_PROGRESS)), stated=stated)

    def of_another_operation(self) -> Item:
        """OPERATION_MISMATCH."""
        stated = StatedFields(operation_code="DOCUMENT.SHRED")
        return replace(self._item(self._content(EventType.STEP_PROGRESS)), stated=stated)

    def by_a_stranger(self) -> Item:
        """PRODUCER_MISMATCH."""
        identity = a_service(self._assignment.binding.tenant_id, STRANGER)
        return replace(self._item(self._content(EventType.STEP_COMPLETED)), identity=identity)

    def by_another_tenant(self) -> Item:
        """TOKEN_MISMATCH."""
        item = self._item(self._content(EventType.STEP_COMPLETED))
        return replace(item, identity=a_service("t-99", WORKER))

    def with_a_forged_token(self) -> Item:
        """UNAUTHENTICATED."""
        return replace(self._item(self._content(EventType.STEP_COMPLETED)), token="forged", handle="")

    def too_old(self) -> Item:
        """EVENT_TOO_OLD."""
        self._source_seq += 1
        return self._item(replace(self._content(EventType.STEP_PROGRESS), occurred_at=START - timedelta(days=8)))

    def of_the_whole_task(self) -> Item:
        """EVENT_TYPE_NOT_ALLOWED: a worker never ends a task."""
        self._source_seq += 1
        return self._item(self._content(EventType.TASK_COMPLETED))

    def with_a_foreign_status(self) -> Item:
        """BUSINESS_STATUS_NOT_REGISTERED, whatever the task's lifecycle."""
        self._source_seq += 1
        return self._item(replace(self._content(EventType.STEP_PROGRESS), business_status="SHINY"))

    def going_back(self) -> Item:
        """PROGRESS_NOT_MONOTONIC, or TRANSITION_NOT_ALLOWED before the start."""
        self._source_seq += 1
        return self._item(replace(self._content(EventType.STEP_PROGRESS), progress=Progress(0, UNITS, "page")))

    def after_the_end(self) -> Item:
        """TERMINAL once the execution has ended, else a second end."""
        self._source_seq += 1
        return self._item(self._end())


def _data(units: int) -> EventData:
    """A value of the generic profile's one schema."""
    value = {"message": f"{units} pages"}
    wire = struct_pb2.Struct()
    wire.update(value)
    return EventData("generic.progress.v1", wire.SerializeToString(deterministic=True), value)


WRONGS: tuple[Callable[[ExecutionScript], Item], ...] = (
    ExecutionScript.under_a_used_id,
    ExecutionScript.with_an_old_sequence,
    ExecutionScript.of_another_task,
    ExecutionScript.of_another_operation,
    ExecutionScript.by_a_stranger,
    ExecutionScript.by_another_tenant,
    ExecutionScript.with_a_forged_token,
    ExecutionScript.too_old,
    ExecutionScript.of_the_whole_task,
    ExecutionScript.with_a_foreign_status,
    ExecutionScript.going_back,
    ExecutionScript.after_the_end,
)
