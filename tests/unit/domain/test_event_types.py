"""Who may report each type of event, written out once more by hand (E-1)."""

from __future__ import annotations

import pytest

from taskstatus.domain.events import (
    COORDINATOR_STEP_EVENTS,
    EXECUTION_EVENTS,
    REPORTABLE_EVENTS,
    TASK_EVENTS,
    EventType,
)

#            execution  task's   coordinator
#            itself     rulers   for a step
REPORTERS = {
    "STEP_STARTED":    (True,  False, False),
    "STEP_PROGRESS":   (True,  False, False),
    "STEP_COMPLETED":  (True,  False, False),
    "STEP_FAILED":     (True,  False, False),
    "STEP_CANCELLED":  (True,  False, True),
    "STEP_TIMED_OUT":  (False, False, True),
    "TASK_STARTED":    (False, True,  False),
    "TASK_COMPLETED":  (False, True,  False),
    "TASK_FAILED":     (False, True,  False),
    "TASK_CANCELLED":  (False, True,  False),
    "TASK_TIMED_OUT":  (False, True,  False),
}  # fmt: skip
NOBODY = (False, False, False)


@pytest.mark.parametrize("event_type", EventType)
def test_e1_event_type_has_its_reporters(event_type: EventType) -> None:
    reporters = REPORTERS.get(event_type, NOBODY)
    sets = (EXECUTION_EVENTS, TASK_EVENTS, COORDINATOR_STEP_EVENTS)
    assert tuple(event_type in members for members in sets) == reporters
    assert (event_type in REPORTABLE_EVENTS) is any(reporters)
