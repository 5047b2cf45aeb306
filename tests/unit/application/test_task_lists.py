"""Lists of tasks and the statuses of many: rights, cursors and limits (Q-1, P-4)."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taskstatus.adapters.memory.lists import MemoryTaskLists
from taskstatus.application.cursors import from_micros, read_cursor, to_micros, write_cursor
from taskstatus.application.identity import Identity, Role, UserIdentity
from taskstatus.application.task_lists import (
    MEMBERSHIPS_MAX,
    PAGE_LIMIT_DEFAULT,
    PAGE_LIMIT_MAX,
    STATUSES_MAX,
    TaskListing,
    TaskLists,
)
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.ids import TaskId, WorkflowId, format_task_id, format_workflow_id
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.reasons import Reason
from taskstatus.domain.state import Grant, TaskState, WorkflowState
from taskstatus.domain.task_filter import TaskFilter
from tests.contract import records
from tests.contract.backends import memory_backend
from tests.contract.list_story import ListStory
from tests.unit.factories import OWNER, SCOPE, START, TENANT, WORKFLOW_ID, a_task, an_id
from tests.unit.service_kit import Kit, a_service, drive

WORKFLOW = format_workflow_id(WORKFLOW_ID)
ANY = TaskFilter()


def a_person(user_id: str = OWNER, *, tenant_id: str = TENANT, projects: str = "", roles: str = "") -> UserIdentity:
    """A verified person."""
    return UserIdentity(tenant_id, user_id, frozenset(projects.split()), frozenset(roles.split()), 0.0)


@pytest.fixture
def lists(kit: Kit) -> TaskLists:
    """Over the kit's store."""
    return TaskLists(MemoryTaskLists(kit.store))


def put_tasks(kit: Kit, count: int = 5, **changes: object) -> list[TaskState]:
    """So many tasks of the owner, a minute apart."""
    tasks = [
        a_task(
            **{
                "task_id": TaskId(an_id(500 + n)),
                "client_task_key": f"t-{n}",
                "created_at": START + timedelta(minutes=n),
                **changes,
            }
        )
        for n in range(count)
    ]
    for task in tasks:
        kit.put(task)
    return tasks


def put_workflow(kit: Kit, *grants: Grant, **changes: object) -> WorkflowState:
    """The workflow of the tasks."""
    state = records.workflow(
        workflow_id=WORKFLOW_ID, tenant_id=TENANT, authority_scope=SCOPE, owner_id=OWNER, grants=grants, **changes
    )
    kit.tables.workflows[WORKFLOW_ID] = state
    return state


def refusal(read: Awaitable[object]) -> RefusedError:
    """How a read was refused."""
    with pytest.raises(RefusedError) as caught:
        drive(read)  # type: ignore[arg-type]
    return caught.value


def fields_of(error: RefusedError) -> list[str]:
    """The fields that an INVALID_ARGUMENT names."""
    assert error.reason is Reason.INVALID_ARGUMENT
    return [violation.field for violation in error.violations]


def test_q1_my_tasks_page_by_cursor_to_the_end(kit: Kit, lists: TaskLists) -> None:
    put_tasks(kit, 5)
    shown, cursor = list[str](), ""
    for _ in range(3):
        page = drive(lists.my_tasks(a_person(), ANY, 2, cursor))
        shown += [task.envelope.client_task_key for task in page.tasks]
        cursor = page.next_cursor
    assert shown == ["t-4", "t-3", "t-2", "t-1", "t-0"]
    assert cursor == ""


def test_q1_a_page_has_fifty_tasks_unless_told_otherwise(kit: Kit, lists: TaskLists) -> None:
    put_tasks(kit, PAGE_LIMIT_DEFAULT + 1)
    assert len(drive(lists.my_tasks(a_person(), ANY, 0, "")).tasks) == PAGE_LIMIT_DEFAULT


@pytest.mark.parametrize("limit", [-1, PAGE_LIMIT_MAX + 1])
def test_q1_limit_beyond_its_bounds_is_refused(kit: Kit, lists: TaskLists, limit: int) -> None:
    put_workflow(kit)
    assert fields_of(refusal(lists.my_tasks(a_person(), ANY, limit, ""))) == ["limit"]
    assert fields_of(refusal(lists.workflow_tasks(a_person(), WORKFLOW, ANY, limit, ""))) == ["limit"]


OTHER_QUERIES: dict[str, Callable[[TaskLists, str], Awaitable[TaskListing]]] = {
    "another person": lambda lists, cursor: lists.my_tasks(a_person("u-99"), ANY, 2, cursor),
    "another tenant": lambda lists, cursor: lists.my_tasks(a_person(tenant_id="t-02"), ANY, 2, cursor),
    "a lifecycle": lambda lists, cursor: lists.my_tasks(
        a_person(), TaskFilter(lifecycles=frozenset({Lifecycle.PENDING})), 2, cursor
    ),
    "a type": lambda lists, cursor: lists.my_tasks(a_person(), TaskFilter(task_type="A"), 2, cursor),
    "a batch": lambda lists, cursor: lists.my_tasks(a_person(), TaskFilter(batch_id="b"), 2, cursor),
    "a title": lambda lists, cursor: lists.my_tasks(a_person(), TaskFilter(title_contains="A"), 2, cursor),
    "a time": lambda lists, cursor: lists.my_tasks(a_person(), TaskFilter(created_from=START), 2, cursor),
    "another end": lambda lists, cursor: lists.my_tasks(a_person(), TaskFilter(created_before=START), 2, cursor),
    "a parent": lambda lists, cursor: lists.my_tasks(
        a_person(), TaskFilter(parent_task_id=TaskId(an_id(9))), 2, cursor
    ),
    "a workflow": lambda lists, cursor: lists.my_tasks(a_person(), TaskFilter(workflow_id=WORKFLOW_ID), 2, cursor),
    "another list": lambda lists, cursor: lists.workflow_tasks(a_person(), WORKFLOW, ANY, 2, cursor),
}


@pytest.mark.parametrize("other", OTHER_QUERIES)
def test_q1_cursor_of_another_query_is_refused(kit: Kit, lists: TaskLists, other: str) -> None:
    put_tasks(kit)
    put_workflow(kit)
    cursor = drive(lists.my_tasks(a_person(), ANY, 2, "")).next_cursor
    assert cursor
    assert fields_of(refusal(OTHER_QUERIES[other](lists, cursor))) == ["cursor"]


@pytest.mark.parametrize(
    "reader", [a_person(), a_service("any", Role.WORKER), a_service("any", Role.WORKER, tenant_id="t-02")]
)
def test_q1_cursor_of_a_workflow_is_its_readers_own(kit: Kit, lists: TaskLists, reader: Identity) -> None:
    put_tasks(kit)
    put_workflow(kit, Grant("USER", "u-99", "VIEW"))
    other = WorkflowId(an_id(77))
    kit.tables.workflows[other] = replace(kit.tables.workflows[WORKFLOW_ID], workflow_id=other)
    asked = a_service("another", Role.ADMIN) if reader.tenant_id != TENANT else reader
    cursor = drive(lists.workflow_tasks(asked, WORKFLOW, ANY, 2, "")).next_cursor
    assert cursor

    assert fields_of(refusal(lists.workflow_tasks(asked, format_workflow_id(other), ANY, 2, cursor))) == ["cursor"]
    if reader is not asked:
        assert fields_of(refusal(lists.workflow_tasks(reader, WORKFLOW, ANY, 2, cursor))) == ["cursor"]
    assert len(drive(lists.workflow_tasks(asked, WORKFLOW, ANY, 2, cursor)).tasks) == 2


def test_q1_cursor_is_good_with_another_limit_and_with_other_memberships(kit: Kit, lists: TaskLists) -> None:
    put_tasks(kit)
    cursor = drive(lists.my_tasks(a_person(), ANY, 2, "")).next_cursor
    rest = drive(lists.my_tasks(a_person(projects="p-1"), ANY, 200, cursor))
    assert [task.envelope.client_task_key for task in rest.tasks] == ["t-2", "t-1", "t-0"]


@given(st.data())
def test_q1_changed_cursor_is_refused(data: st.DataObject) -> None:
    query = ("List", "t-01", 7)
    cursor = write_cursor(query, bytes(range(24)))
    at = data.draw(st.integers(0, len(cursor) - 1))
    letter = data.draw(st.characters(codec="utf-8"))
    changed = data.draw(st.sampled_from((cursor[:at], cursor + letter, cursor[:at] + letter + cursor[at + 1 :])))
    if changed != cursor:
        with pytest.raises(RefusedError) as caught:
            read_cursor(query, changed, 24)
        assert [violation.field for violation in caught.value.violations] == ["cursor"]


@given(st.text(max_size=80))
def test_q1_any_text_is_no_cursor(text: str) -> None:
    with pytest.raises(RefusedError) as caught:
        read_cursor(("List",), text, 24)
    assert caught.value.reason is Reason.INVALID_ARGUMENT


@given(st.binary(min_size=24, max_size=24), st.lists(st.text(), max_size=3))
def test_q1_cursor_gives_its_position_back_and_is_safe_in_a_url(position: bytes, parts: list[str]) -> None:
    cursor = write_cursor(tuple(parts), position)
    assert read_cursor(tuple(parts), cursor, 24) == position
    assert set(cursor) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@given(st.datetimes(datetime(1970, 1, 1)))
def test_q1_time_of_a_position_is_exact(moment: datetime) -> None:
    assert from_micros(to_micros(moment)) == moment


@pytest.mark.parametrize("micros", [-1, 2**62])
def test_q1_position_in_no_time_is_no_cursor(kit: Kit, lists: TaskLists, micros: int) -> None:
    put_tasks(kit)
    cursor = drive(lists.my_tasks(a_person(), ANY, 2, "")).next_cursor
    packed = base64.urlsafe_b64decode(cursor)
    forged = write_cursor(
        ("ListMyTasks", TENANT, OWNER, (), "", None, None, None, "", "", None),
        micros.to_bytes(8, "big", signed=True) + packed[8:24],
    )
    assert fields_of(refusal(lists.my_tasks(a_person(), ANY, 2, forged))) == ["cursor"]


def test_p4_forged_position_shows_no_more_than_the_callers_own(kit: Kit, lists: TaskLists) -> None:
    put_tasks(kit, owner_id="u-99")
    bound = ("ListMyTasks", TENANT, OWNER, (), "", None, None, None, "", "", None)
    forged = write_cursor(bound, to_micros(START + timedelta(hours=1)).to_bytes(8, "big") + an_id(9))
    assert drive(lists.my_tasks(a_person(), ANY, 2, forged)).tasks == ()


def test_q1_person_of_more_memberships_than_lists_are_made_for_is_refused(kit: Kit, lists: TaskLists) -> None:
    put_workflow(kit)
    names = " ".join(f"p-{n}" for n in range(MEMBERSHIPS_MAX))
    assert drive(lists.my_tasks(a_person(projects=names), ANY, 1, "")).tasks == ()
    for read in (
        lists.my_tasks(a_person(projects=names, roles="audit"), ANY, 1, ""),
        lists.workflow_tasks(a_person(projects=names, roles="audit"), WORKFLOW, ANY, 1, ""),
    ):
        assert fields_of(refusal(read)) == ["authorization"]


@pytest.mark.parametrize(
    ("reader", "grants", "shown"),
    [
        (a_service("any", Role.WORKER), (), 5),
        (a_person(), (), 5),
        (a_person("u-99"), (Grant("USER", "u-99", "VIEW"),), 0),
        (a_person("u-99", projects="p-1"), (Grant("PROJECT", "p-1", "OPERATE"),), 0),
        (a_person("u-99"), (), None),
        (a_person("u-99", projects="u-99"), (Grant("USER", "p-1", "VIEW"),), None),
        (a_person(tenant_id="t-02"), (), None),
        (a_person("u-99", tenant_id="t-02"), (Grant("USER", "u-99", "VIEW"),), None),
        (a_service("any", Role.ADMIN, scope="other"), (), None),
        (a_service("any", Role.ADMIN, tenant_id="t-02"), (), None),
    ],
)
def test_p4_who_sees_which_tasks_of_a_workflow(
    kit: Kit, lists: TaskLists, reader: Identity, grants: tuple[Grant, ...], shown: int | None
) -> None:
    put_tasks(kit)
    put_workflow(kit, *grants)
    if shown is None:
        found = refusal(lists.workflow_tasks(reader, WORKFLOW, ANY, 0, ""))
        assert (found.reason, found.message) == (Reason.WORKFLOW_NOT_FOUND, "no such workflow")
    else:
        tasks = drive(lists.workflow_tasks(reader, WORKFLOW, ANY, 0, "")).tasks
        assert [task.envelope.client_task_key for task in tasks] == [f"t-{n}" for n in range(shown)]


def test_p4_one_granted_task_shows_its_workflow_even_when_the_filter_hides_it(kit: Kit, lists: TaskLists) -> None:
    tasks = put_tasks(kit)
    put_workflow(kit)
    kit.tables.grants[(tasks[3].envelope.task_id, "USER", "u-99")] = Grant("USER", "u-99", "VIEW")

    found = drive(lists.workflow_tasks(a_person("u-99"), WORKFLOW, ANY, 0, ""))
    hidden = drive(lists.workflow_tasks(a_person("u-99"), WORKFLOW, TaskFilter(task_type="another"), 0, ""))

    assert [task.envelope.client_task_key for task in found.tasks] == ["t-3"]
    assert hidden.tasks == ()


@pytest.mark.parametrize("odd", ["", "nonsense", WORKFLOW.upper(), f"task_{WORKFLOW_ID.hex()}", f"wf_{'0' * 32}"])
def test_id4_odd_workflow_id_is_not_found(kit: Kit, lists: TaskLists, odd: str) -> None:
    put_workflow(kit)
    assert refusal(lists.workflow_tasks(a_person(), odd, ANY, 0, "")).reason is Reason.WORKFLOW_NOT_FOUND


def test_q1_workflow_is_named_once(kit: Kit, lists: TaskLists) -> None:
    put_workflow(kit)
    twice = lists.workflow_tasks(a_person(), WORKFLOW, TaskFilter(workflow_id=WORKFLOW_ID), 0, "")
    assert fields_of(refusal(twice)) == ["filter.workflowId"]


def test_q1_every_id_is_in_exactly_one_list(kit: Kit, lists: TaskLists) -> None:
    tasks = put_tasks(kit, 4, version=7)
    kit.put(a_task(task_id=TaskId(an_id(600)), owner_id="u-99", client_task_key="other"))
    ids = [format_task_id(task.envelope.task_id) for task in tasks]
    asked = [*ids, format_task_id(an_id(600)), format_task_id(an_id(999)), "nonsense"]
    known = {ids[0]: 7, ids[1]: 6, ids[2]: 8, asked[4]: 1, "nonsense": 3}

    found = drive(lists.statuses(a_person(), asked, known))

    assert [format_task_id(task.envelope.task_id) for task in found.tasks] == [ids[1], ids[2], ids[3]]
    assert found.unchanged == (ids[0],)
    assert found.missing == (asked[4], asked[5], "nonsense")


@pytest.mark.parametrize(
    ("reader", "grants", "missing"),
    [
        (a_service("any", Role.WORKER), (), False),
        (a_service("any", Role.WORKER, scope="other"), (), True),
        (a_service("any", Role.WORKER, tenant_id="t-02"), (), True),
        (a_person(), (), False),
        (a_person(tenant_id="t-02"), (), True),
        (a_person("u-99"), (Grant("USER", "u-99", "VIEW"),), False),
        (a_person("u-99", roles="audit"), (Grant("PROJECT", "audit", "VIEW"),), True),
    ],
)
def test_p4_status_is_shown_to_who_may_see_the_task(
    kit: Kit, lists: TaskLists, reader: Identity, grants: tuple[Grant, ...], missing: bool
) -> None:
    (task,) = put_tasks(kit, 1)
    for given_ in grants:
        kit.tables.grants[(task.envelope.task_id, given_.principal_type, given_.principal_id)] = given_
    asked = [task.envelope.task_id.hex()]
    for known in ({}, {asked[0]: task.version}):
        assert (drive(lists.statuses(reader, asked, known)).missing == tuple(asked)) is missing


ONE = format_task_id(an_id(500))


@pytest.mark.parametrize(
    ("asked", "known", "field"),
    [
        ([], {}, "taskIds"),
        ([format_task_id(an_id(n)) for n in range(STATUSES_MAX + 1)], {}, "taskIds"),
        ([ONE, ONE], {}, "taskIds[1]"),
        ([ONE, an_id(500).hex()], {}, "taskIds[1]"),
        (["odd", "other", "odd"], {}, "taskIds[2]"),
        ([ONE, ""], {}, "taskIds[1]"),
        (["x" * 65], {}, "taskIds[0]"),
        (["with space"], {}, "taskIds[0]"),
        ([ONE], {an_id(500).hex(): 1}, "knownVersions"),
    ],
)
def test_q1_bad_ids_are_refused(
    kit: Kit, lists: TaskLists, asked: list[str], known: dict[str, int], field: str
) -> None:
    put_tasks(kit, 1)
    assert fields_of(refusal(lists.statuses(a_person(), asked, known))) == [field]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.randoms(use_true_random=False), st.integers(1, 4))
def test_q1_each_task_is_in_one_page_whatever_is_written_meanwhile(random: Random, limit: int) -> None:
    async def read() -> None:
        story = ListStory(memory_backend(), random)
        await story.begin(6)
        story.check(await story.read(story.my_tasks(limit)), oldest_first=False)
        story.check(await story.read(story.workflow_tasks(limit)), oldest_first=True)

    drive(read())
