"""Any interleaving of beats, silence, observations old and new, reports and ends keeps the rules of health (H-4)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from taskstatus.application.ports_health import HealthCandidate
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import ExecutionId
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.records import EventRecord
from taskstatus.domain.state import StepState
from tests.unit.factories import TASK_ID, a_step, an_activation, an_id, progress, step_event, task_event
from tests.unit.health_kit import HealthKit
from tests.unit.service_kit import drive

HEALTH_EVENTS = (EventType.STEP_HEALTH_CHANGED, EventType.WORKER_LOST)

ACTIONS = (
    *["silence"] * 9,
    *["reconcile"] * 9,
    *["beat", "recover"] * 5,
    *["wait", "look", "signal", "record", "record", "progress"],
    *["complete", "retry", "end task"],
)
"""Weighted: most stories should go on for a while."""
SILENCES = (61, 130, 310)

actions = st.tuples(st.sampled_from(ACTIONS), st.integers(0, 5))


class Story:
    """Two executions of one task; observations are kept and may be recorded late, twice, and out of order."""

    def __init__(self) -> None:
        self.steps = [a_step(), a_step(step_id="03_store", execution_id=an_id(9), order=2)]
        self.kit = HealthKit(*self.steps)
        self.observed: list[Sequence[HealthCandidate]] = []
        self.sequence = 1

    def take(self, action: str, number: int) -> None:
        """One step of the story, then every rule of state."""
        step = self.steps[number % 2]
        match action:
            case "wait":
                self.kit.wait(10)
            case "silence":
                self.kit.wait(SILENCES[number % len(SILENCES)])
            case "reconcile":
                self.kit.record(self.kit.overdue())
            case "recover":
                self.take("beat", number)
                self.kit.record(self.kit.stale_or_not(self.execution_of(step)))
            case "beat":
                self.sequence += 1
                self.kit.beat(self.sequence, self.execution_of(step))
            case "look":
                self.observed.append(self.kit.overdue())
            case "signal":
                self.observed.append(self.kit.stale_or_not(self.execution_of(step)))
            case "record" if self.observed:
                self.kit.record(self.observed[number % len(self.observed)])
            case "progress":
                self.report(EventType.STEP_PROGRESS, step, progress=progress(self.sequence))
            case "complete":
                self.report(EventType.STEP_COMPLETED, step)
            case "retry":
                self.retry(step)
            case "end task":
                self.sequence += 1
                self.kit.report(task_event(EventType.TASK_CANCELLED, self.sequence))
        self.check()

    def execution_of(self, step: StepState) -> ExecutionId:
        assert step.terms is not None
        return step.terms.execution_id

    def report(self, event_type: EventType, step: StepState, **changes: object) -> None:
        self.sequence += 1
        event_id = f"{event_type}-{self.sequence}"
        self.kit.report(step_event(event_type, self.sequence, of=step, event_id=event_id, **changes))

    def retry(self, step: StepState) -> None:
        task = self.kit.only_task()
        current = self.kit.step(step.definition.step_id)
        if not task.lifecycle.is_terminal and not current.lifecycle.is_terminal and not current.superseded:
            activation = an_activation(TASK_ID, step.definition.step_id, 2)
            drive(self.kit.registration.activate(activation))

    def check(self) -> None:
        task, steps = self.kit.only_task(), list(self.kit.tables.steps.values())
        assert task.stale_steps == sum(step.stale for step in steps)
        assert not any(step.stale for step in steps if step.lifecycle.is_terminal or step.superseded)
        for step in steps:
            if step.terms is None or step.terms.execution_id not in self.kit.tables.leases:
                continue
            lease = self.kit.lease(step.terms.execution_id)
            assert lease.is_open is (step.lifecycle is Lifecycle.RUNNING)
            if lease.is_open:
                assert (lease.stale_since is not None) is step.stale
                assert lease.lost_at is None or step.stale


@given(st.lists(actions, max_size=50))
def test_h4_stale_and_back_alternate_in_any_interleaving(story: list[tuple[str, int]]) -> None:
    told = Story()
    for action, number in story:
        told.take(action, number)
    events = sorted(told.kit.tables.events.values(), key=lambda event: event.task_version)
    first = events[0].task_version
    assert [event.task_version for event in events] == list(range(first, first + len(events)))
    assert told.kit.only_task().version == events[-1].task_version
    for execution_id in {event.execution_id for event in events}:
        _check_health([event for event in events if event.execution_id == execution_id])


def _check_health(events: list[EventRecord]) -> None:
    """SILENT and BEATING alternate, LOST comes at most once in a silence, and none of them moves the lifecycle."""
    signs = [event.reason for event in events if event.event_type in HEALTH_EVENTS]
    changes = [sign for sign in signs if sign != "LOST"]
    assert all(one != other for one, other in pairwise(changes))
    assert changes[:1] in ([], ["SILENT"])
    assert all(before == "SILENT" for before, after in pairwise(signs) if after == "LOST")
    assert signs[:1] != ["LOST"]
    for before, after in pairwise(events):
        if after.event_type in HEALTH_EVENTS:
            assert after.lifecycle is before.lifecycle
    versions = [event.step_version for event in events if event.step_version]
    assert versions == sorted(set(versions))
