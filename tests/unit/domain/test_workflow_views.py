"""A workflow version is made for whoever sees a difference, and degraded tasks are followed (L-7, P-4)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taskstatus.domain.events import EventType
from taskstatus.domain.health import Health
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.records import ChangeSet
from taskstatus.domain.state import FailurePolicy, WorkflowState
from taskstatus.domain.workflow_aggregate import MemberCounts, MemberTally
from taskstatus.domain.workflow_changes import with_members
from taskstatus.domain.workflow_projection import project
from tests.unit.factories import START, a_definition, a_running_step, a_task_in, step_event
from tests.unit.workflow_kit import WorkflowKit

RUNNING_BOTH = MemberTally(MemberCounts(running=2), MemberCounts(running=1))


@pytest.fixture
def kit() -> WorkflowKit:
    """A workflow with a common and a sensitive task."""
    kit = WorkflowKit()
    kit.create(False, True)
    return kit


def standing(kit: WorkflowKit, tally: MemberTally) -> WorkflowState:
    """The workflow as its members make it."""
    return with_members(kit.workflow, tally, START)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # Only the whole shows that a sensitive task has ended.
        (RUNNING_BOTH, MemberTally(MemberCounts(running=1, succeeded=1), MemberCounts(running=1))),
        # The whole is the same when a sensitive and a common task change places.
        (
            MemberTally(MemberCounts(running=1, succeeded=1), MemberCounts(running=1)),
            MemberTally(MemberCounts(running=1, succeeded=1), MemberCounts(succeeded=1)),
        ),
        # Only the whole shows that a sensitive task is stale.
        (RUNNING_BOTH, MemberTally(MemberCounts(running=2, stale=1), MemberCounts(running=1))),
    ],
)
def test_l7_a_version_is_made_for_whoever_sees_a_difference(
    kit: WorkflowKit, before: MemberTally, after: MemberTally
) -> None:
    workflow, changes = standing(kit, before), ChangeSet()

    projected = project(changes, workflow, after, START, kit.tools)

    assert projected.version == workflow.version + 1
    assert [event.event_type for event in changes.workflow_events] == [EventType.WORKFLOW_AGGREGATED]
    assert len(changes.outbox) == 2


def test_l7_no_version_is_made_for_what_nobody_sees(kit: WorkflowKit) -> None:
    stale = MemberTally(MemberCounts(running=2, stale=1), MemberCounts(running=1, stale=1))
    more = MemberTally(MemberCounts(running=2, stale=2), MemberCounts(running=1, stale=1))
    workflow, changes = standing(kit, stale), ChangeSet()

    projected = project(changes, workflow, more, START, kit.tools)

    assert (projected.version, projected.counts.stale) == (workflow.version, 2)
    assert changes.workflows == [projected]
    assert (changes.workflow_events, changes.outbox) == ([], [])


def test_l7_a_degraded_task_leaves_a_trigger() -> None:
    kit = WorkflowKit()
    step = a_running_step(definition=a_definition(failure_policy=FailurePolicy.CONTINUE_WITH_WARNING))
    kit.put(a_task_in(Lifecycle.RUNNING), step)

    kit.report(step_event(EventType.STEP_FAILED, 2, of=step))

    (trigger,) = kit.tables.triggers.values()
    assert (kit.only_task().health, trigger.event_type) == (Health.DEGRADED, EventType.STEP_FAILED)


def test_p4_common_cut_of_a_start_is_its_own(kit: WorkflowKit) -> None:
    workflow = replace(standing(kit, MemberTally(MemberCounts(pending=1, running=1), MemberCounts(pending=1))))
    assert (workflow.started_at, workflow.shared_started_at) == (START, None)
