"""Lists, states and look-ups over many tasks, on every implementation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from taskstatus.application.identity import UserIdentity
from taskstatus.application.ports_lists import TaskListQuery, TaskPosition
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import TaskId, WorkflowId
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.records import ChangeSet, ExternalRefRecord, OutboxKind, Projection
from taskstatus.domain.state import ExternalRef, Grant, TaskState, WorkflowState
from taskstatus.domain.task_filter import TaskFilter

from . import records
from .backends import Backend
from .list_story import ListStory

OTHER = "u-1"
PERSON = UserIdentity(records.TENANT, records.OWNER, frozenset(), frozenset(), 0.0)
MINUTE = timedelta(minutes=1)


def a_task(
    workflow: WorkflowState, key: str, minute: int = 0, lifecycle: Any = Lifecycle.PENDING, **changes: Any
) -> Any:
    """A task created so many minutes after START, with another envelope."""
    state = records.task(workflow.workflow_id, key, lifecycle=lifecycle)
    fields = {"created_at": records.START + minute * MINUTE, **changes}
    return replace(state, envelope=replace(state.envelope, **fields))


async def put(backend: Backend, workflow: WorkflowState, *tasks: TaskState) -> None:
    """The workflow with these tasks."""
    await backend.write(records.creation(workflow), *map(records.additional, tasks))


async def listed(
    backend: Backend,
    reader: UserIdentity | None = PERSON,
    chosen: TaskFilter = TaskFilter(),  # noqa: B008 - frozen
    *,
    limit: int = 2,
    oldest_first: bool = False,
) -> list[str]:
    """The keys of the tasks of every page."""
    keys: list[str] = []
    after: TaskPosition | None = None
    while True:
        page = await backend.lists.page(TaskListQuery(reader, chosen, limit, after, oldest_first))
        assert len(page.tasks) <= limit
        keys += keys_of(page.tasks)
        after = page.next_position
        if after is None:
            return keys


def keys_of(tasks: Sequence[TaskState]) -> list[str]:
    """The caller's keys."""
    return [task.envelope.client_task_key for task in tasks]


async def test_q1_own_and_granted_tasks_come_once_each_the_newest_first(backend: Backend) -> None:
    workflow = records.workflow()
    own = [a_task(workflow, f"own-{n}", n) for n in range(4)]
    given = [a_task(workflow, f"given-{n}", n, owner_id=OTHER) for n in range(4)]
    hidden = a_task(workflow, "hidden", 2, owner_id=OTHER)
    await put(backend, workflow, *own, hidden)
    await backend.write(
        records.additional(given[0], Grant("USER", records.OWNER, "VIEW"), Grant("ROLE", "audit", "ADMIN")),
        records.additional(given[1], Grant("PROJECT", "p-1", "VIEW")),
        records.additional(given[2], Grant("ROLE", "audit", "OPERATE")),
        records.additional(given[3], Grant("PROJECT", "audit", "VIEW"), Grant("USER", "p-1", "VIEW")),
        ChangeSet(new_task_grants=[(own[1], Grant("USER", records.OWNER, "ADMIN"))]),
    )
    member = replace(PERSON, projects=frozenset({"p-1", "p-2"}), roles=frozenset({"audit"}))

    # Created at the same time, they go by id: the granted ones were made later.
    assert await listed(backend, member) == ["own-3", "given-2", "own-2", "given-1", "own-1", "given-0", "own-0"]
    assert await listed(backend) == ["own-3", "own-2", "own-1", "given-0", "own-0"]
    assert await listed(backend, replace(member, tenant_id="t-02")) == []


@pytest.mark.parametrize("oldest_first", [True, False])
@pytest.mark.parametrize("limit", [1, 3, 7, 20])
async def test_q1_tasks_created_at_once_are_paged_by_id(backend: Backend, limit: int, oldest_first: bool) -> None:
    workflow = records.workflow()
    keys = [f"t-{n}" for n in range(7)]
    await put(backend, workflow, *(a_task(workflow, key) for key in keys))
    chosen = TaskFilter(workflow_id=workflow.workflow_id if oldest_first else None)

    shown = await listed(backend, PERSON, chosen, limit=limit, oldest_first=oldest_first)

    assert shown == (keys if oldest_first else keys[::-1])


async def test_p4_revoked_grant_shows_nothing_and_one_given_again_shows_again(backend: Backend) -> None:
    workflow = records.workflow(owner_id=OTHER)
    task, grant = a_task(workflow, "t", owner_id=OTHER), Grant("USER", records.OWNER, "VIEW")
    await put(backend, workflow)
    await backend.write(records.additional(task, grant))
    in_workflow = TaskFilter(workflow_id=workflow.workflow_id)
    assert [await listed(backend), await listed(backend, PERSON, in_workflow)] == [["t"], ["t"]]

    await backend.revoke(task.envelope.task_id, grant)

    assert [await listed(backend), await listed(backend, PERSON, in_workflow)] == [[], []]


async def test_q1_a_person_of_very_many_projects_has_all_their_tasks(backend: Backend) -> None:
    workflow = records.workflow(owner_id=OTHER)
    tasks = [a_task(workflow, f"t-{n:03d}", n, owner_id=OTHER) for n in range(0, 200, 20)]
    await put(backend, workflow)
    await backend.write(
        *(records.additional(t, Grant("PROJECT", f"p-{t.envelope.client_task_key}", "VIEW")) for t in tasks)
    )
    member = replace(PERSON, projects=frozenset(f"p-t-{n:03d}" for n in range(200)))

    assert await listed(backend, member, limit=3) == [f"t-{n:03d}" for n in range(180, -1, -20)]
    in_workflow = TaskFilter(workflow_id=workflow.workflow_id)
    assert await listed(backend, member, in_workflow, limit=3) == [f"t-{n:03d}" for n in range(180, -1, -20)]


PARENT = TaskId(records.new_id())
A_WORKFLOW = WorkflowId(records.new_id())
FILTERS = (
    TaskFilter(lifecycles=frozenset({Lifecycle.RUNNING})),
    TaskFilter(lifecycles=frozenset({Lifecycle.RUNNING, Lifecycle.FAILED})),
    TaskFilter(task_type="B"),
    TaskFilter(created_from=records.START + 2 * MINUTE),
    TaskFilter(created_before=records.START + 2 * MINUTE),
    TaskFilter(created_from=records.START + MINUTE, created_before=records.START + 3 * MINUTE),
    TaskFilter(created_from=records.START + 9 * MINUTE),
    TaskFilter(created_before=records.START.replace(year=1)),
    TaskFilter(created_from=records.START.replace(year=1), created_before=records.START.replace(year=9999)),
    TaskFilter(title_contains="REPORT"),
    TaskFilter(batch_id="b-1"),
    TaskFilter(parent_task_id=PARENT),
    TaskFilter(parent_task_id=PARENT, batch_id="b-1"),
    TaskFilter(workflow_id=A_WORKFLOW),
    TaskFilter(workflow_id=A_WORKFLOW, batch_id="b-1", parent_task_id=PARENT),
    TaskFilter(
        workflow_id=A_WORKFLOW,
        lifecycles=frozenset({Lifecycle.PENDING, Lifecycle.RUNNING}),
        task_type="A",
        created_from=records.START,
        created_before=records.START + 4 * MINUTE,
        title_contains="report",
        batch_id="b-1",
    ),
)


@pytest.mark.parametrize(
    "chosen", FILTERS, ids=lambda chosen: "-".join(n for n in chosen.__slots__ if getattr(chosen, n))
)
async def test_q1_filters_hold_all_together(backend: Backend, chosen: TaskFilter) -> None:
    random = Random(7)
    workflows = [records.workflow("w-1"), records.workflow("w-2", workflow_id=A_WORKFLOW)]
    await backend.write(*map(records.creation, workflows))
    tasks = []
    for n in range(60):
        task = a_task(
            random.choice(workflows),
            f"t-{n}",
            random.randrange(5),
            random.choice((Lifecycle.PENDING, Lifecycle.RUNNING, Lifecycle.FAILED)),
            owner_id=random.choice((records.OWNER, OTHER)),
            task_type=random.choice(("A", "B")),
            title=random.choice(("Annual Report", "Invoice")),
            batch_id=random.choice(("", "b-1")),
            parent_task_id=random.choice((None, PARENT)),
        )
        tasks.append(task)
        await backend.write(records.additional(task, *random.choice(((), (Grant("USER", records.OWNER, "VIEW"),)))))
    grants = await backend.reader.task_grants([task.envelope.task_id for task in tasks])
    visible = [t for t in tasks if t.envelope.owner_id == records.OWNER or t.envelope.task_id in grants]
    in_order = sorted(visible, key=lambda task: (task.envelope.created_at, task.envelope.task_id))
    expected = keys_of([task for task in in_order if chosen.admits(task)])

    assert await listed(backend, PERSON, chosen, limit=4) == expected[::-1]
    if chosen.workflow_id is not None:
        assert await listed(backend, PERSON, chosen, limit=4, oldest_first=True) == expected
        whole = sorted(filter(chosen.admits, tasks), key=lambda t: (t.envelope.created_at, t.envelope.task_id))
        assert await listed(backend, None, chosen, limit=4, oldest_first=True) == keys_of(whole)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("100%", ["100% done"]),
        ("%", ["100% done"]),
        ("_", ["snake_case"]),
        ("\\", ["C:\\temp"]),
        ("C:\\T", ["C:\\temp"]),
        ("straße", ["Hauptstraße", "HAUPTSTRASSE"]),
        ("STRASSE", ["Hauptstraße", "HAUPTSTRASSE"]),
        ("éclair", ["Éclair"]),
        ("e\u0301clair", ["Éclair"]),
        ("eclair", []),
        ("报告", ["年度报告"]),
        ("σας", ["ΣΑΣ"]),
        ("'", ["it's"]),
        (" ", ["100% done"]),
    ],
)
async def test_q1_title_text_is_literal_and_without_case(backend: Backend, asked: str, found: list[str]) -> None:
    titles = ["100% done", "snake_case", "C:\\temp", "Hauptstraße", "HAUPTSTRASSE", "Éclair", "年度报告", "ΣΑΣ", "it's"]
    workflow = records.workflow()
    await put(backend, workflow, *(a_task(workflow, title, n, title=title) for n, title in enumerate(titles)))

    assert sorted(await listed(backend, PERSON, TaskFilter(title_contains=asked))) == sorted(found)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("limit", [1, 3])
async def test_q1_each_task_is_in_one_page_whatever_is_written_meanwhile(
    backend: Backend, seed: int, limit: int
) -> None:
    story = ListStory(backend, Random(seed))
    await story.begin(12)
    story.check(await story.read(story.my_tasks(limit)), oldest_first=False)
    story.check(await story.read(story.workflow_tasks(limit)), oldest_first=True)


async def test_l7_workflow_access_says_who_may_see_it(backend: Backend) -> None:
    grants = (Grant("PROJECT", "p-7", "VIEW"), Grant("USER", "u-99", "OPERATE"))
    workflow = records.workflow(grants=grants)
    await backend.write(records.creation(workflow))

    access = await backend.lists.workflow_access(workflow.workflow_id)

    assert access is not None
    assert (access.tenant_id, access.authority_scope, access.owner_id) == (records.TENANT, records.SCOPE, records.OWNER)
    assert set(access.grants) == set(grants)
    assert await backend.lists.workflow_access(WorkflowId(records.new_id())) is None


async def test_q1_states_by_id_with_their_grants(backend: Backend) -> None:
    workflow = records.workflow()
    tasks = [a_task(workflow, f"t-{n}") for n in range(3)]
    await put(backend, workflow, *tasks[1:])
    grant = Grant("USER", "u-99", "VIEW")
    await backend.write(records.additional(tasks[0], grant))
    ids = [task.envelope.task_id for task in tasks]

    found = await backend.lists.states([*ids, TaskId(records.new_id()), ids[0]], with_grants=True)

    assert found.tasks == {task.envelope.task_id: task for task in tasks}
    assert found.grants == {ids[0]: (grant,)}
    assert (await backend.lists.states(ids, with_grants=False)).grants == {}
    assert (await backend.lists.states([], with_grants=True)).tasks == {}


async def test_id5_number_names_one_task_in_each_scope(backend: Backend) -> None:
    workflow = records.workflow()
    tasks = {scope: a_task(workflow, scope, authority_scope=scope) for scope in ("billing", "documents")}
    await put(backend, workflow, *tasks.values())
    ref = ExternalRef("ORDER_ID", "4711")
    refs = [
        ExternalRefRecord(records.BUCKET, records.TENANT, scope, ref, task.envelope.task_id, records.START)
        for scope, task in tasks.items()
    ]
    await backend.write(ChangeSet(external_refs=refs))
    lists, ids = backend.lists, {scope: task.envelope.task_id for scope, task in tasks.items()}

    assert list(await lists.referenced(records.TENANT, "documents", ref)) == [ids["documents"]]
    assert list(await lists.referenced(records.TENANT, None, ref)) == [ids["billing"], ids["documents"]]
    assert list(await lists.referenced(records.TENANT, "elsewhere", ref)) == []
    assert list(await lists.referenced("t-02", None, ref)) == []
    for other in (ExternalRef("ORDER_ID", "471"), ExternalRef("order_id", "4711"), ExternalRef("ORDER_ID", "4711 ")):
        assert list(await lists.referenced(records.TENANT, None, other)) == []


async def test_q3_event_is_found_in_the_scope_with_its_notifications(backend: Backend) -> None:
    workflow = records.workflow()
    task = a_task(workflow, "t-1")
    step = records.step(task, 1)
    foreign = a_task(workflow, "t-2", authority_scope="billing")
    second = a_task(workflow, "t-3")
    await put(backend, workflow, task, foreign, second)
    await backend.write(ChangeSet(new_steps=[step]))
    after, _, changes = records.progress_of(task, step, "evt-1")
    trigger = records.outbox(after, Projection.WORKFLOW_SUMMARY, kind=OutboxKind.AGGREGATE, payload=None)
    changes.outbox.append(trigger)
    await backend.write(changes)
    for other in (foreign, second):
        moved = records.next_version(other)
        await backend.write(ChangeSet(tasks=[moved], events=[records.event(moved, "evt-1")]))

    found = await backend.lists.events_by_id(records.TENANT, records.SCOPE, "evt-1", 100)

    assert [event.task_id for event in found] == [second.envelope.task_id, task.envelope.task_id]
    event = found[1]
    assert (event.workflow_id, event.task_version, event.event_type) == (
        workflow.workflow_id,
        2,
        EventType.STEP_PROGRESS,
    )
    assert (event.step_id, event.execution_id) == ("01_parse", records.execution_of(step))
    assert (event.actor, event.trace_id) == ("service:parser", records.digest("evt-1")[:16])
    assert event.committed_at == after.committed_at
    assert {n.projection for n in event.notifications} == {Projection.USER_SUMMARY, Projection.TASK_DETAIL}
    assert {(n.status, n.attempts, n.last_error, n.published_at) for n in event.notifications} == {
        ("PENDING", 0, "", None)
    }
    assert found[0].notifications == ()
    assert len(await backend.lists.events_by_id(records.TENANT, records.SCOPE, "evt-1", 1)) == 1
    for nowhere in (
        ("t-02", records.SCOPE, "evt-1"),
        (records.TENANT, "x", "evt-1"),
        (records.TENANT, records.SCOPE, "evt"),
    ):
        assert list(await backend.lists.events_by_id(*nowhere, 100)) == []


async def test_q3_trace_goes_by_time_then_task_and_version(backend: Backend) -> None:
    workflow = records.workflow()
    trace = bytes(range(16))
    tasks = [a_task(workflow, f"t-{n}") for n in range(2)]
    foreign = a_task(workflow, "t-x", authority_scope="billing")
    await put(backend, workflow, *tasks, foreign)
    events = []
    for number, (of, late) in enumerate([(0, 3), (1, 1), (0, 1), (1, 2), (0, 1)]):
        tasks[of] = records.next_version(tasks[of], committed_at=records.START + late * MINUTE)
        events.append(records.event(tasks[of], f"e-{number}", trace_id=trace))
        await backend.write(ChangeSet(tasks=[tasks[of]], events=[events[-1]]))
    moved = records.next_version(foreign)
    await backend.write(ChangeSet(tasks=[moved], events=[records.event(moved, "e-x", trace_id=trace)]))

    found = await backend.lists.events_of_trace(records.TENANT, records.SCOPE, trace, 100)

    assert [event.event_id for event in found] == ["e-2", "e-4", "e-1", "e-3", "e-0"]
    first = await backend.lists.events_of_trace(records.TENANT, records.SCOPE, trace, 2)
    assert [event.event_id for event in first] == ["e-2", "e-4"]
    assert list(await backend.lists.events_of_trace(records.TENANT, records.SCOPE, bytes(16), 2)) == []
