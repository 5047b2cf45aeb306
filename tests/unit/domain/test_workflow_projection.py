"""Workflows follow their tasks: triggers, projections, versions and messages, over the in-memory store (L-7)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskstatus.adapters.memory.members import tally_of
from taskstatus.application.ports_workflows import AggregateTrigger
from taskstatus.domain.events import EventType
from taskstatus.domain.health import Health
from taskstatus.domain.ids import TaskId
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.notifications import aggregate_trigger
from taskstatus.domain.records import AggregateType, Audience, ChangeSet, OutboxKind, Projection
from taskstatus.domain.state import TaskState
from taskstatus.domain.workflow_aggregate import AggregationPolicy, MemberCounts, health_of, lifecycle_of
from tests.unit.factories import (
    TASK_ID,
    WORKFLOW_ID,
    a_running_step,
    a_step,
    a_task_in,
    an_activation,
    progress,
    step_event,
)
from tests.unit.service_kit import drive
from tests.unit.workflow_kit import WorkflowKit, ids_of

AUDIENCES = (Audience.OWNER, Audience.VIEWERS)


@pytest.fixture
def kit() -> WorkflowKit:
    """An empty store with a projector."""
    return WorkflowKit()


def test_l7_only_a_change_of_lifecycle_or_health_leaves_a_trigger(kit: WorkflowKit) -> None:
    kit.put(a_task_in(Lifecycle.PENDING), a_step())
    kit.report(step_event(EventType.STEP_STARTED, 1))
    (trigger,) = kit.tables.triggers.values()

    kit.report(step_event(EventType.STEP_PROGRESS, 2, progress=progress(10), progress_seq=1))
    kit.report(step_event(EventType.STEP_COMPLETED, 3))

    assert list(kit.tables.triggers.values()) == [trigger]
    assert (trigger.aggregate_type, trigger.aggregate_id) == (AggregateType.TASK, TASK_ID)
    assert (trigger.kind, trigger.projection, trigger.audience) == (
        OutboxKind.AGGREGATE,
        Projection.WORKFLOW_SUMMARY,
        Audience.NOBODY,
    )
    assert (trigger.workflow_id, trigger.payload, trigger.protected) == (WORKFLOW_ID, None, False)
    assert trigger.aggregate_version == 2


def test_l7_a_retry_that_ends_staleness_leaves_a_trigger(kit: WorkflowKit) -> None:
    stale = a_running_step(stale=True)
    kit.put(a_task_in(Lifecycle.RUNNING, stale_steps=1), stale)

    drive(kit.registration.activate(an_activation(attempt=2)))

    (trigger,) = kit.tables.triggers.values()
    assert trigger.event_type is EventType.STEP_ATTEMPT_ACTIVATED
    assert kit.only_task().health is Health.HEALTHY


def test_r1_creation_counts_its_tasks_in_the_first_version_and_leaves_no_trigger(kit: WorkflowKit) -> None:
    kit.create(False, True, False)

    workflow = kit.workflow
    assert (workflow.version, workflow.task_count, workflow.counts, workflow.shared_counts) == (
        1,
        3,
        MemberCounts(pending=3),
        MemberCounts(pending=2),
    )
    assert kit.due() == []
    kit.add("later", sensitive=True)
    assert (kit.workflow.version, kit.workflow.task_count, kit.workflow.shared_counts.total) == (2, 4, 2)


def test_l7_the_aggregate_follows_committed_facts_a_version_for_each_difference_seen(kit: WorkflowKit) -> None:
    one, two = ids_of(kit.create(False, False))

    kit.start(one)
    kit.project()
    kit.complete(one)
    kit.complete(two)
    kit.project()

    workflow = kit.workflow
    assert (workflow.version, workflow.lifecycle, workflow.counts) == (
        3,
        Lifecycle.SUCCEEDED,
        MemberCounts(succeeded=2),
    )
    assert [event.event_type for event in kit.events()] == [
        EventType.WORKFLOW_CREATED,
        EventType.WORKFLOW_AGGREGATED,
        EventType.WORKFLOW_AGGREGATED,
    ]
    assert {event.actor for event in kit.events()[1:]} == {"taskstatus"}
    assert kit.due() == []
    assert kit.project() == 0
    assert kit.workflow == workflow


def test_l7_counts_that_nobody_sees_are_kept_without_a_version(kit: WorkflowKit) -> None:
    (one, two) = ids_of(kit.create(False, False))
    kit.start(one, two)
    kit.project()
    version = kit.workflow.version
    for count, task_id in ((1, one), (2, two)):
        before = kit.tables.tasks[task_id]
        kit.tables.tasks[task_id] = _stale(before)
        drive(kit.projections.project(_triggers_of(kit, task_id)))
        assert (kit.workflow.counts.stale, kit.workflow.version) == (count, version + 1)
    assert kit.workflow.health is Health.STALE


def _stale(task: TaskState) -> TaskState:
    return replace(task, stale_steps=1)


def _triggers_of(kit: WorkflowKit, task_id: TaskId) -> list[AggregateTrigger]:
    """With a trigger as the task's health change leaves it."""
    task = kit.tables.tasks[task_id]
    row = aggregate_trigger(kit.tools, replace(task, stale_steps=0), task, EventType.STEP_HEALTH_CHANGED)
    assert row is not None
    kit.tables.apply(ChangeSet(outbox=[replace(row, aggregate_version=99)]), kit.store.clock.read())
    return kit.due()


def test_r7_a_rerun_reopens_the_workflow_also_when_its_run_has_not_started(kit: WorkflowKit) -> None:
    (task_id,) = ids_of(kit.create(False))
    kit.complete(task_id)
    kit.project()
    started_at = kit.workflow.started_at

    kit.command(task_id, "rerun")
    kit.project()

    assert (kit.workflow.lifecycle, kit.workflow.counts) == (Lifecycle.RUNNING, MemberCounts(pending=1, reopened=1))
    assert (kit.workflow.started_at, kit.workflow.finished_at) == (started_at, None)


def test_l1_a_cancel_request_shows_as_cancelling_in_a_running_workflow(kit: WorkflowKit) -> None:
    (task_id,) = ids_of(kit.create(False))

    kit.command(task_id, "cancel")
    kit.project()

    assert (kit.workflow.lifecycle, kit.workflow.counts) == (Lifecycle.RUNNING, MemberCounts(cancelling=1))


def test_p4_owner_and_viewers_get_their_own_message_of_each_version(kit: WorkflowKit) -> None:
    common, secret = ids_of(kit.create(False, True))
    kit.start(secret)
    kit.project()
    kit.complete(secret, common)
    kit.project()

    whole, shared = ([json.loads(row.payload or b"") for row in kit.messages(audience)] for audience in AUDIENCES)

    assert [message["workflowVersion"] for message in whole] == [message["workflowVersion"] for message in shared]
    assert {message["scope"] for message in whole} == {"FULL"}
    assert {message["scope"] for message in shared} == {"SHARED"}
    assert [message["workflow"]["taskCount"] for message in whole] == [2, 2, 2]
    assert [message["workflow"]["taskCount"] for message in shared] == [1, 1, 1]
    assert [message["workflow"]["lifecycleStatus"] for message in whole] == ["PENDING", "RUNNING", "SUCCEEDED"]
    assert [message["workflow"]["lifecycleStatus"] for message in shared] == ["PENDING", "PENDING", "SUCCEEDED"]
    assert shared[1]["workflow"]["startedAt"] is None
    assert whole[2]["workflow"]["taskCounts"] == {
        "pending": 0,
        "running": 0,
        "cancelling": 0,
        "succeeded": 2,
        "failed": 0,
        "timedOut": 0,
        "cancelled": 0,
    }


def test_o3_an_end_is_protected_and_a_passing_aggregate_is_not(kit: WorkflowKit) -> None:
    (task_id,) = ids_of(kit.create(False))
    kit.start(task_id)
    kit.project()
    kit.complete(task_id)
    kit.project()

    assert [row.protected for row in kit.messages(Audience.OWNER)] == [True, False, True]


class Story:
    """Tasks move, triggers are seen late, twice and out of order, commits fail or lose their reply, tasks come."""

    def __init__(self, policy: AggregationPolicy) -> None:
        self.kit = WorkflowKit()
        self.tasks = ids_of(self.kit.create(False, True, False, policy=policy))
        self.seen = [self.kit.due()]

    def take(self, action: str, number: int) -> None:
        """One step."""
        kit, task_id = self.kit, self.tasks[number % len(self.tasks)]
        match action:
            case "look":
                self.seen.append(kit.due())
            case "project late":
                drive(kit.projections.project(self.seen[number % len(self.seen)][::-1]))
            case "project part":
                drive(kit.projections.project(self.seen[-1][: number % 3]))
            case "project":
                kit.project()
            case "lose commit" | "lose reply":
                kit.store.lose_next_commit_reply(committed=action == "lose reply")
                kit.project()
            case "hold":
                kit.store.held_workflows = {kit.workflow_id}
                kit.project()
                kit.store.held_workflows = set()
            case "rerun" | "cancel":
                kit.command(task_id, action)
            case "add" if len(self.tasks) < 6:
                self.tasks.append(kit.add(f"task-{len(self.tasks)}", sensitive=number % 2 == 0))
            case _:
                kit.move(task_id, MOVES[number % len(MOVES)])
        self.check()

    def check(self) -> None:
        """Versions rise by one, each with its event and its two messages, and no message repeats the one before."""
        kit = self.kit
        versions = list(range(1, kit.workflow.version + 1))
        assert [event.workflow_version for event in kit.events()] == versions
        for audience in AUDIENCES:
            assert [row.aggregate_version for row in kit.messages(audience)] == versions
        whole = [_content(row.payload) for row in kit.messages(Audience.OWNER)]
        shared = [_content(row.payload) for row in kit.messages(Audience.VIEWERS)]
        for version, event in enumerate(kit.events()[1:], start=1):
            if event.event_type is EventType.WORKFLOW_AGGREGATED:
                assert (whole[version - 1], shared[version - 1]) != (whole[version], shared[version])

    def end(self) -> None:
        """Once every trigger is gone, the aggregate is what the members make of it."""
        kit = self.kit
        while kit.due():
            kit.project()
        workflow, tally = kit.workflow, tally_of(kit.tables.members_of(kit.workflow_id))
        lifecycle = lifecycle_of(workflow.aggregation_policy, tally.counts)
        assert (workflow.counts, workflow.shared_counts) == (tally.counts, tally.shared_counts)
        assert (workflow.lifecycle, workflow.health) == (lifecycle, health_of(lifecycle, tally.counts))
        assert workflow.task_count == len(self.tasks)
        self.check()


def _content(payload: bytes | None) -> dict[str, object]:
    message: dict[str, Any] = json.loads(payload or b"")
    return {name: value for name, value in message["workflow"].items() if name not in ("version", "updatedAt")}


MOVES = (
    EventType.TASK_STARTED,
    EventType.TASK_COMPLETED,
    EventType.TASK_FAILED,
    EventType.TASK_STARTED,
    EventType.TASK_TIMED_OUT,
    EventType.TASK_CANCELLED,
    EventType.TASK_COMPLETED,
)
LOOKS = ("look", "project late", "project part", "project")
ACTIONS = (*["move"] * 12, *["rerun"] * 4, "cancel", *LOOKS, *LOOKS, "lose commit", "lose reply", "hold", "add")
stories = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 41)), max_size=40)


@given(stories, st.sampled_from(AggregationPolicy))
def test_l7_order_repeats_and_cut_off_projections_never_matter(
    steps: list[tuple[str, int]], policy: AggregationPolicy
) -> None:
    story = Story(policy)
    for action, number in steps:
        story.take(action, number)
    story.end()
