"""The projector's loop: rounds, failures, replicas, hints (L-7)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from taskstatus.adapters.memory.workflows import MemoryAggregateTriggers
from taskstatus.application.ports_workflows import AggregateTrigger, TriggerPosition
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import TaskId, WorkflowId
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.runtime.batch_commit import BatchCommit
from taskstatus.runtime.workflow_projector import ProjectorConfig, WorkflowProjector
from tests.unit.factories import a_task_in, a_task_spec, a_workflow_command, task_event
from tests.unit.service_kit import drive
from tests.unit.workflow_kit import RecordingWorkflowObserver, WorkflowKit, ids_of


def several(kit: WorkflowKit, count: int) -> list[tuple[WorkflowId, TaskId]]:
    """Workflows of one running task each, which they have not followed yet."""
    found = []
    for number in range(count):
        created = kit.create(False, client_workflow_key=f"order-{number}")
        (task_id,) = ids_of(created)
        kit.start(task_id)
        found.append((kit.workflow_id, task_id))
    return found


def lifecycles(kit: WorkflowKit) -> list[Lifecycle]:
    """Of all workflows, by id."""
    return [kit.tables.workflows[key].lifecycle for key in sorted(kit.tables.workflows)]


def test_l7_a_round_follows_all_workflows_some_at_a_time() -> None:
    kit = WorkflowKit(ProjectorConfig(group=2))
    several(kit, 5)

    assert kit.project() == 5

    assert lifecycles(kit) == [Lifecycle.RUNNING] * 5
    assert kit.followed.outcomes == {"changed": 5, "unchanged": 0}
    assert kit.wake_up.hints == 5 + 3


def test_l7_a_full_round_goes_on_behind_its_last_trigger_and_then_from_the_beginning() -> None:
    kit = WorkflowKit(ProjectorConfig(batch=2))
    workflows = several(kit, 5)
    kit.store.held_workflows = {workflows[0][0], workflows[1][0]}

    assert [kit.project() for _ in range(3)] == [0, 2, 1]
    kit.store.held_workflows = set()
    assert [kit.project() for _ in range(3)] == [2, 0, 0]
    assert lifecycles(kit) == [Lifecycle.RUNNING] * 5


def test_l7_a_workflow_that_cannot_be_projected_rests_and_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    kit = WorkflowKit()
    workflows = several(kit, 3)
    poison = workflows[1][0]
    kit.store.refuse = lambda changes: any(row.workflow_id == poison for row in changes.workflows)

    assert kit.project() == 2
    assert kit.followed.outcomes["failed"] == 1
    assert kit.project() == 0
    assert kit.followed.outcomes["failed"] == 1

    kit.clock.advance(kit.config.rest_seconds + 1)
    kit.store.refuse = lambda _changes: False
    assert kit.project() == 1
    assert lifecycles(kit) == [Lifecycle.RUNNING] * 3


def test_l7_the_triggers_of_a_workflow_that_is_gone_go_too() -> None:
    kit = WorkflowKit()
    kit.put(a_task_in(Lifecycle.PENDING))
    kit.report(task_event(EventType.TASK_STARTED))

    kit.project()

    assert kit.due() == []
    assert kit.tables.workflows == {}


def test_l7_an_outage_ends_the_round_and_loses_nothing() -> None:
    kit = WorkflowKit()
    several(kit, 1)
    kit.store.unavailable = True
    assert kit.project() == 0
    kit.store.unavailable = False
    assert kit.project() == 1


def test_l7_an_outage_on_a_later_page_begins_again_from_the_beginning() -> None:
    kit = WorkflowKit(ProjectorConfig(batch=2))
    workflows = several(kit, 3)
    kit.store.held_workflows = {workflow_id for workflow_id, _ in workflows}
    kit.project()
    kit.store.unavailable = True
    kit.project()
    kit.store.unavailable, kit.store.held_workflows = False, set()
    assert kit.project() == 2
    assert lifecycles(kit)[:2] == [Lifecycle.RUNNING] * 2


def test_l7_two_replicas_that_read_the_same_triggers_make_one_version() -> None:
    kit = WorkflowKit()
    several(kit, 1)
    seen = kit.due()

    first, second = (drive(kit.projections.project(seen)) for _ in range(2))

    assert ((first.changed, first.unchanged), (second.changed, second.unchanged)) == ((1, 0), (0, 1))
    assert kit.workflow.version == 2


def test_l7_a_trigger_that_is_committed_meanwhile_stays() -> None:
    kit = WorkflowKit()
    ((_, task_id),) = several(kit, 1)
    seen = kit.due()
    kit.complete(task_id)

    drive(kit.projections.project(seen))

    assert kit.workflow.lifecycle is Lifecycle.SUCCEEDED
    (left,) = kit.due()
    assert left not in seen
    assert drive(kit.projections.project([left])).changed == 0


def test_n3_the_lag_is_the_age_of_the_oldest_trigger() -> None:
    kit = WorkflowKit()
    several(kit, 2)
    kit.project()
    kit.project()
    first, second = kit.followed.lags
    assert first > 0
    assert second == 0.0


def test_l7_hints_come_only_with_commits_that_leave_a_trigger() -> None:
    kit, told = WorkflowKit(), list[int]()
    several(kit, 1)
    sizes = (kit.oldest_accepted, 100)
    commit = BatchCommit(kit.store, kit.definitions, kit.clock, kit.tools, kit.observer, *sizes, lambda: told.append(1))
    (task_id,) = kit.tables.tasks

    drive(commit([task_event(EventType.TASK_STARTED, 50, task_id=task_id)]))
    assert told == []
    drive(commit([task_event(EventType.TASK_COMPLETED, 51, task_id=task_id)]))
    assert told == [1]


class _Watched:
    """Port ``AggregateTriggers`` that tells of each look, and can fail."""

    def __init__(self, inner: MemoryAggregateTriggers) -> None:
        self._inner = inner
        self.looks: asyncio.Queue[int] = asyncio.Queue()
        self.fails = False

    async def due(self, limit: int, after: TriggerPosition | None) -> Sequence[AggregateTrigger]:
        self.looks.put_nowait(1)
        if self.fails:
            self.fails = False
            raise RuntimeError("a defect")
        return await self._inner.due(limit, after)


async def test_l7_the_loop_follows_hints_survives_defects_and_stops_twice(caplog: pytest.LogCaptureFixture) -> None:
    kit = WorkflowKit()
    watched = _Watched(kit.triggers)
    patient = ProjectorConfig(busy_pause_seconds=0.001, idle_pause_seconds=3_600)
    projector = WorkflowProjector(watched, kit.projections, kit.clock, RecordingWorkflowObserver(), patient)
    watched.fails = True
    projector.start()
    await watched.looks.get()

    created = await kit.registration.create_workflow(a_workflow_command(a_task_spec()))
    (task_id,) = ids_of(created)
    await kit.commit([task_event(EventType.TASK_STARTED, task_id=task_id)])
    while kit.tables.workflows[created.workflow.workflow_id].lifecycle is Lifecycle.PENDING:
        projector.hint()
        await watched.looks.get()
        await asyncio.sleep(0)

    await projector.stop()
    await projector.stop()
    assert "a round of the workflow projector failed" in caplog.text


async def test_l7_a_projector_that_never_started_stops_and_takes_hints() -> None:
    kit = WorkflowKit()
    kit.projector.hint()
    await kit.projector.stop()


@pytest.mark.parametrize(
    "figures",
    [
        {"batch": 0},
        {"group": 0},
        {"busy_pause_seconds": 0.0},
        {"idle_pause_seconds": 0.001},
        {"outage_pause_seconds": 0.0},
    ],
)
def test_l7_figures_that_cannot_work_are_refused(figures: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"projector|pause"):
        ProjectorConfig(**figures)  # type: ignore[arg-type]
