"""A cursor is one word of one query: nothing is added to it, and nobody else's is taken (Q-1)."""

from __future__ import annotations

import pytest

from taskstatus.adapters.memory.lists import MemoryTaskLists
from taskstatus.application.cursors import read_cursor, write_cursor
from taskstatus.application.identity import Role, ServiceIdentity
from taskstatus.application.task_lists import TaskLists
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.ids import TaskId, format_workflow_id
from taskstatus.domain.reasons import Reason
from taskstatus.domain.task_filter import TaskFilter
from tests.contract import records
from tests.unit.factories import OWNER, SCOPE, TENANT, WORKFLOW_ID, a_task, an_id
from tests.unit.service_kit import Kit, a_service, drive

QUERY = ("a list", "t-01")
SIZE = 24


@pytest.mark.parametrize("form", ["{}=", "{}==", " {}", "{} ", "{}\n", "{}A", "{}AAAA"])
def test_q1_nothing_is_added_to_a_cursor(form: str) -> None:
    for position in (bytes(SIZE), bytes(range(SIZE))):
        with pytest.raises(RefusedError) as caught:
            read_cursor(QUERY, form.format(write_cursor(QUERY, position)), SIZE)
        assert caught.value.reason is Reason.INVALID_ARGUMENT


@pytest.mark.parametrize(
    "reader",
    [a_service("any", Role.WORKER, scope="billing"), a_service("any", Role.WORKER, tenant_id="t-02")],
)
def test_q1_cursor_of_another_scope_is_no_cursor(kit: Kit, reader: ServiceIdentity) -> None:
    lists = TaskLists(MemoryTaskLists(kit.store))
    for number in range(2):
        kit.put(a_task(task_id=TaskId(an_id(500 + number)), client_task_key=f"t-{number}"))
    kit.tables.workflows[WORKFLOW_ID] = records.workflow(
        workflow_id=WORKFLOW_ID, tenant_id=TENANT, authority_scope=SCOPE, owner_id=OWNER
    )
    workflow = format_workflow_id(WORKFLOW_ID)
    own = a_service("any", Role.WORKER)
    cursor = drive(lists.workflow_tasks(own, workflow, TaskFilter(), 1, "")).next_cursor

    with pytest.raises(RefusedError) as caught:
        drive(lists.workflow_tasks(reader, workflow, TaskFilter(), 1, cursor))

    assert [violation.field for violation in caught.value.violations] == ["cursor"]
    assert drive(lists.workflow_tasks(own, workflow, TaskFilter(), 1, cursor)).tasks
