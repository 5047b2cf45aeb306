"""The workflow axis on every implementation: rows, triggers, counted members, projections, readers (L-7, P-4)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import orjson
import pytest

from taskstatus.adapters.memory.members import tally_of
from taskstatus.application.ports_store import StoreRefusedError, TransactionAttempt, WriteTransaction
from taskstatus.application.ports_workflows import Principals, TriggerPosition
from taskstatus.application.workflow_projection import WorkflowProjections
from taskstatus.domain.events import EventType
from taskstatus.domain.health import Health
from taskstatus.domain.ids import WorkflowId
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.notifications import OutboxTools, aggregate_trigger
from taskstatus.domain.records import Audience, ChangeSet, OutboxRecord
from taskstatus.domain.state import Grant, TaskState, WorkflowState
from taskstatus.domain.workflow_aggregate import AggregationPolicy, MemberCounts, MemberTally
from taskstatus.domain.workflow_views import SeenMembers

from . import records
from .backends import Backend

TOOLS = OutboxTools(new_id=records.new_id, to_json=orjson.dumps)
LATER = records.START + timedelta(seconds=7)


class NoWakeUp:
    """Port ``WakeUp`` without a relay."""

    def hint(self) -> None:
        """Nothing to tell."""


def within(backend: Backend, read: Callable[[WriteTransaction], Any]) -> Any:
    """The result of a read in a write transaction."""

    async def body(tx: WriteTransaction, _attempt: TransactionAttempt) -> Any:
        return await read(tx)

    return backend.store.transact(body)


async def locked(backend: Backend, workflow_id: WorkflowId) -> WorkflowState:
    """A workflow as committed, with its grants."""
    found = await within(backend, lambda tx: tx.lock_workflow(workflow_id))
    assert found is not None
    return found.state  # type: ignore[no-any-return]


def moved(task: TaskState, lifecycle: Lifecycle = Lifecycle.RUNNING) -> tuple[TaskState, OutboxRecord]:
    """A task one version later, with the trigger of that version."""
    after = records.next_version(task, lifecycle=lifecycle)
    trigger = aggregate_trigger(TOOLS, task, after, EventType.TASK_STARTED)
    assert trigger is not None
    return after, trigger


async def with_members(backend: Backend, *tasks: Callable[[bytes], TaskState], **changes: Any) -> WorkflowState:
    """A committed workflow with these members."""
    workflow = records.workflow(f"order-{records.new_id().hex()}", **changes)
    members = [make(workflow.workflow_id) for make in tasks]
    await backend.write(records.creation(workflow, *((task, []) for task in members)))
    return workflow


def a_member(key: str, **changes: Any) -> Callable[[bytes], TaskState]:
    """Makes a member of a workflow; ``sensitive`` may be named too."""
    sensitive = changes.pop("sensitive", False)

    def make(workflow_id: bytes) -> TaskState:
        task = records.task(workflow_id, key, steps=1, **changes)
        return replace(task, envelope=replace(task.envelope, sensitive=sensitive))

    return make


async def test_l7_a_workflow_keeps_policy_ruling_counts_health_and_times(backend: Backend) -> None:
    policy = AggregationPolicy.ANY_SUCCEEDS
    workflow = records.workflow(aggregation_policy=policy, grants=(Grant("USER", "u-99", "VIEW"),))
    await backend.write(records.creation(workflow))
    assert await locked(backend, workflow.workflow_id) == workflow

    after = replace(
        workflow,
        version=2,
        title="Another title",
        lifecycle=Lifecycle.TIMED_OUT,
        task_count=31,
        committed_at=LATER,
        ruled=True,
        ruling_reason="nobody answers — così è",
        counts=MemberCounts(1, 2, 3, 4, 5, 6, 7, 1, 2, 1),
        shared_counts=MemberCounts(pending=1, timed_out=5),
        health=Health.DEGRADED,
        started_at=records.START,
        finished_at=LATER,
        shared_started_at=LATER,
        shared_finished_at=None,
    )
    await backend.write(ChangeSet(workflows=[after]))

    assert await locked(backend, workflow.workflow_id) == after
    with pytest.raises(StoreRefusedError):
        await backend.write(ChangeSet(workflows=[records.workflow("never created")]))


async def test_l7_triggers_come_oldest_first_and_no_relay_sees_them(backend: Backend) -> None:
    workflow = records.workflow()
    tasks = [
        replace(records.task(workflow.workflow_id, f"t{n}"), committed_at=records.START + timedelta(seconds=5 - n))
        for n in range(4)
    ]
    await backend.write(records.creation(workflow, *((task, []) for task in tasks)))
    published = await backend.outbox()
    changed = [moved(task) for task in tasks]
    await backend.write(ChangeSet(tasks=[task for task, _ in changed], outbox=[row for _, row in changed]))

    first = await backend.triggers.due(3, None)
    rest = await backend.triggers.due(3, TriggerPosition(first[-1].due_at, first[-1].trigger_id))

    expected = [row.outbox_id for _, row in reversed(changed)]
    assert [trigger.trigger_id for trigger in (*first, *rest)] == expected
    assert {trigger.workflow_id for trigger in first} == {workflow.workflow_id}
    assert [trigger.due_at for trigger in first] == sorted(row.committed_at for _, row in changed)[:3]
    assert await backend.outbox() == published


async def test_l7_exactly_the_settled_triggers_go(backend: Backend) -> None:
    workflow = await with_members(backend, a_member("a"), a_member("b"))
    tasks = await within(backend, lambda tx: tx.tasks_of_workflow(workflow.workflow_id, ["a", "b"]))
    (one, first), (two, second) = (moved(task) for task in tasks.values())
    await backend.write(ChangeSet(tasks=[one, two], outbox=[first, second]))
    ids = [first.outbox_id, second.outbox_id, records.new_id()]
    assert await within(backend, lambda tx: tx.existing_triggers(ids)) == set(ids[:2])

    await backend.write(ChangeSet(settled_triggers=[(first.bucket, first.outbox_id), (first.bucket, ids[2])]))

    assert await within(backend, lambda tx: tx.existing_triggers(ids)) == {second.outbox_id}
    assert [trigger.trigger_id for trigger in await backend.triggers.due(9, None)] == [second.outbox_id]


STANDINGS = tuple(
    {"lifecycle": lifecycle, "stale_steps": stale, "degraded_steps": degraded, "attempt": attempt, "sensitive": hidden}
    for lifecycle, stale, degraded, attempt, hidden in itertools.product(
        Lifecycle, (0, 2), (0, 1), (1, 3), (False, True)
    )
)


async def test_l7_members_are_counted_wherever_they_stand(backend: Backend) -> None:
    full = await with_members(backend, *(a_member(f"t{n}", **at) for n, at in enumerate(STANDINGS)))
    few = await with_members(backend, a_member("one", lifecycle=Lifecycle.RUNNING, sensitive=True))
    empty = await with_members(backend)
    ids = [full.workflow_id, few.workflow_id, empty.workflow_id, WorkflowId(records.new_id())]

    tallies = await within(backend, lambda tx: tx.count_members(ids))

    expected = tally_of(a_member(f"x{n}", **at)(full.workflow_id) for n, at in enumerate(STANDINGS))
    running = MemberCounts(running=1)
    assert tallies == {full.workflow_id: expected, few.workflow_id: MemberTally(running, MemberCounts())}
    assert expected.counts.total == len(STANDINGS) == 2 * expected.shared_counts.total


async def test_l7_free_workflows_are_locked_in_order_and_unknown_ones_are_absent(backend: Backend) -> None:
    workflows = [await with_members(backend) for _ in range(3)]
    ids = [workflow.workflow_id for workflow in workflows]
    unknown = WorkflowId(records.new_id())

    found = await within(backend, lambda tx: tx.lock_free_workflows([*reversed(ids), unknown]))

    assert list(found) == sorted(ids)
    assert [row.state for row in found.values()] == sorted(workflows, key=lambda workflow: workflow.workflow_id)
    assert await within(backend, lambda tx: tx.existing_workflows([*ids, unknown])) == set(ids)


async def test_r6_the_first_event_of_a_command_is_found_by_its_id(backend: Backend) -> None:
    workflow = await with_members(backend)
    later = replace(workflow, version=2)
    again = records.workflow_event(later, "update-1", EventType.WORKFLOW_UPDATED)
    third = records.workflow_event(replace(workflow, version=3), "update-1", EventType.TASK_CREATED)
    await backend.write(ChangeSet(workflow_events=[replace(again, reason="why", trace_id=bytes(16)), third]))

    found = await within(backend, lambda tx: tx.workflow_event(workflow.workflow_id, "update-1"))
    missing = await within(backend, lambda tx: tx.workflow_event(workflow.workflow_id, "UPDATE-1"))

    assert found == replace(again, reason="why", trace_id=bytes(16))
    assert missing is None


async def test_l7_a_projection_counts_writes_and_settles_at_once_and_only_once(backend: Backend) -> None:
    workflow = await with_members(backend, a_member("a"), a_member("b", sensitive=True))
    other = await with_members(backend, a_member("c"))
    tasks = [
        *(await within(backend, lambda tx: tx.tasks_of_workflow(workflow.workflow_id, ["a", "b"]))).values(),
        *(await within(backend, lambda tx: tx.tasks_of_workflow(other.workflow_id, ["c"]))).values(),
    ]
    changed = [moved(task) for task in tasks]
    await backend.write(ChangeSet(tasks=[task for task, _ in changed], outbox=[row for _, row in changed]))
    projections = WorkflowProjections(backend.store, TOOLS, NoWakeUp())
    due = await backend.triggers.due(9, None)

    first, second = await projections.project(due), await projections.project(due)

    assert ((first.changed, first.unchanged, first.held), second.changed) == ((2, 0, 0), 0)
    assert await backend.triggers.due(9, None) == []
    after = await locked(backend, workflow.workflow_id)
    assert (after.version, after.lifecycle, after.task_count) == (2, Lifecycle.RUNNING, 2)
    assert (after.counts, after.shared_counts) == (MemberCounts(running=2), MemberCounts(running=1))
    rows = [row for row in await backend.outbox() if row.aggregate_id == workflow.workflow_id]
    assert sorted((row.audience, row.aggregate_version) for row in rows) == [
        (Audience.OWNER, 2),
        (Audience.VIEWERS, 2),
    ]


GRANTS = {
    "own": (Grant("USER", "u-99", "VIEW"),),
    "project": (Grant("PROJECT", "p-7", "VIEW"), Grant("USER", "u-99", "ADMIN")),
    "role": (Grant("ROLE", "audit", "OPERATE"),),
    "nobody": (),
}


async def with_grants(backend: Backend) -> WorkflowState:
    """A workflow that p-7 may see, with a task for each entry of GRANTS, ended in this order."""
    workflow = records.workflow(grants=(Grant("PROJECT", "p-7", "VIEW"),))
    tasks = [
        records.task(
            workflow.workflow_id,
            key,
            lifecycle=Lifecycle.SUCCEEDED,
            started_at=records.START + timedelta(seconds=number),
            finished_at=LATER + timedelta(seconds=number),
        )
        for number, key in enumerate(GRANTS)
    ]
    creation = records.creation(workflow, *((task, []) for task in tasks))
    creation.new_task_grants += [(task, grant) for task in tasks for grant in GRANTS[task.envelope.client_task_key]]
    await backend.write(creation)
    return workflow


@pytest.mark.parametrize(
    ("user", "projects", "roles", "seen"),
    [
        ("u-99", (), (), (0, 1)),
        ("U-99", (), (), ()),
        ("u-5", ("p-7", "p-8"), (), (1,)),
        ("u-5", (), ("audit",), (2,)),
        ("u-99", ("p-7",), ("audit", "p-7"), (0, 1, 2)),
        ("u-5", ("audit",), ("p-7",), ()),
    ],
)
async def test_p4_a_reader_is_shown_the_members_that_are_granted_to_them(
    backend: Backend, user: str, projects: tuple[str, ...], roles: tuple[str, ...], seen: Sequence[int]
) -> None:
    workflow = await with_grants(backend)

    reading = await backend.workflows.workflow(workflow.workflow_id, Principals(user, projects, roles))

    assert reading is not None
    assert reading.workflow == workflow
    assert reading.seen == SeenMembers(
        MemberCounts(succeeded=len(seen)),
        _time(records.START, seen[:1]),
        _time(LATER, seen[-1:]),
    )


def _time(base: Any, numbers: Iterable[int]) -> Any:
    return next((base + timedelta(seconds=number) for number in numbers), None)


async def test_p4_a_revoked_grant_shows_nothing(backend: Backend) -> None:
    workflow = await with_grants(backend)
    (task,) = (await within(backend, lambda tx: tx.tasks_of_workflow(workflow.workflow_id, ["own"]))).values()
    await backend.revoke(task.envelope.task_id, GRANTS["own"][0])

    reading = await backend.workflows.workflow(workflow.workflow_id, Principals("u-99", (), ()))

    assert reading is not None
    assert reading.seen is not None
    assert reading.seen.counts.total == 1


async def test_p4_an_unknown_workflow_is_none_and_nobody_is_asked_about_without_need(backend: Backend) -> None:
    workflow = await with_grants(backend)
    reading = await backend.workflows.workflow(workflow.workflow_id, None)
    assert reading is not None
    assert reading.seen is None
    assert await backend.workflows.workflow(WorkflowId(records.new_id()), Principals("u-99", (), ())) is None


async def test_p1_grants_of_workflows_are_read_together(backend: Backend) -> None:
    workflow, bare = await with_grants(backend), await with_members(backend)

    grants = await backend.reader.workflow_grants([workflow.workflow_id, bare.workflow_id])

    assert grants == {workflow.workflow_id: (Grant("PROJECT", "p-7", "VIEW"),)}
    assert await backend.reader.workflow_grants([]) == {}
