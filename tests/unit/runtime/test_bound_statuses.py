"""The definitions by which a batch is judged: from memory, or read once, never at a neighbour's cost (L-4, E-10)."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from taskstatus.application.ports_store import StoreUnavailableError
from taskstatus.domain.business_status import StatusDefinition
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import ExecutionId, TaskId
from taskstatus.domain.reasons import Reason
from taskstatus.domain.state import StepState
from tests.unit.factories import REVIEWED, a_step, a_task, an_id, step_event
from tests.unit.service_kit import kinds_of, reason_of

from .lane_kit import LaneKit

STARTED = EventType.STEP_STARTED


@dataclass
class Shelf:
    """Port ``StatusDefinitions`` that tells what it was asked."""

    known: dict[int, StatusDefinition] = field(default_factory=dict)
    readable: dict[int, StatusDefinition] = field(default_factory=dict)
    is_down: bool = False
    reads: int = 0

    def known_statuses(
        self, tenant_id: str, authority_scope: str, task_type: str, version: int
    ) -> StatusDefinition | None:
        """See the port."""
        assert (tenant_id, authority_scope, task_type) == ("t-01", "documents", "DOCUMENT_PROCESS")
        return self.known.get(version)

    async def bound_statuses(
        self, tenant_id: str, authority_scope: str, task_type: str, version: int
    ) -> StatusDefinition:
        """See the port."""
        self.reads += 1
        if self.is_down:
            raise StoreUnavailableError("down")
        self.known[version] = self.readable[version]
        return self.known[version]


@pytest.fixture
def shelf() -> Shelf:
    """Nothing is known."""
    return Shelf()


@pytest.fixture
def bound_lanes(shelf: Shelf) -> LaneKit:
    """Lanes that judge by the shelf."""
    return LaneKit(definitions=shelf)


def bound_task(lanes: LaneKit, number: int, version: int | None) -> StepState:
    """A task bound to a version, with a step that waits for its start."""
    task_id = TaskId(an_id(500 + number))
    step = a_step(task_id=task_id, execution_id=ExecutionId(an_id(600 + number)))
    lanes.kit.put(a_task(task_id=task_id, client_task_key=f"task-{number}", status_definition_version=version), step)
    return step


async def test_l4_a_definition_is_read_once_and_only_for_events_that_name_a_status(
    shelf: Shelf, bound_lanes: LaneKit
) -> None:
    shelf.readable[1] = REVIEWED
    first, second = bound_task(bound_lanes, 1, 1), bound_task(bound_lanes, 2, 1)
    assert kinds_of([await bound_lanes.submit(step_event(STARTED, of=first))]) == ["Accepted"]
    assert shelf.reads == 0
    verdict = await bound_lanes.submit(step_event(STARTED, of=second, business_status="PARSING"))
    assert kinds_of([verdict]) == ["Accepted"]
    refused = await bound_lanes.submit(
        step_event(EventType.STEP_PROGRESS, 2, of=second, business_status="PUBLISHED", phase_code="x")
    )
    assert reason_of(refused) is Reason.BUSINESS_STATUS_NOT_REGISTERED
    assert shelf.reads == 1


@pytest.mark.parametrize("version", [None, 0])
async def test_l4_generic_statuses_need_no_definition(shelf: Shelf, bound_lanes: LaneKit, version: int | None) -> None:
    step = bound_task(bound_lanes, 1, version)
    verdict = await bound_lanes.submit(step_event(STARTED, of=step, business_status="RUNNING"))
    assert (kinds_of([verdict]), shelf.reads) == (["Accepted"], 0)


async def test_e10_a_definition_that_cannot_be_read_now_is_no_refusal(shelf: Shelf, bound_lanes: LaneKit) -> None:
    step, event = bound_task(bound_lanes, 1, 1), "evt-1"
    shelf.is_down = True
    failed = await bound_lanes.submit(step_event(STARTED, of=step, business_status="PARSING", event_id=event))
    assert reason_of(failed) is Reason.UNAVAILABLE
    shelf.is_down, shelf.readable[1] = False, REVIEWED
    again = await bound_lanes.submit(step_event(STARTED, of=step, business_status="PARSING", event_id=event))
    assert kinds_of([again]) == ["Accepted"]


async def test_e10_a_definition_that_is_gone_costs_its_own_task_only(shelf: Shelf, bound_lanes: LaneKit) -> None:
    shelf.readable[1] = REVIEWED
    lost, good, plain = (bound_task(bound_lanes, n, version) for n, version in ((1, 7), (2, 1), (3, None)))
    held = bound_lanes.held_back(bound_task(bound_lanes, 4, None))
    waiting = [
        bound_lanes.submit(step_event(STARTED, of=lost, business_status="PARSING", event_id="lost")),
        bound_lanes.submit(step_event(STARTED, of=good, business_status="PARSING", event_id="good")),
        bound_lanes.submit(step_event(STARTED, of=plain, event_id="plain")),
    ]
    bound_lanes.gate.open()
    await held
    verdicts = [await answer for answer in waiting]
    assert [reason_of(verdict) for verdict in verdicts] == [Reason.INTERNAL, None, None]
