"""What a new task may relate to: parents of its scope, and numbers that name no other task (ID-5)."""

from __future__ import annotations

from typing import Any

import pytest

from taskstatus.domain.errors import RefusedError
from taskstatus.domain.ids import TaskId
from taskstatus.domain.reasons import Reason
from taskstatus.domain.records import ExternalRefRecord
from taskstatus.domain.state import ExternalRef
from tests.unit.factories import (
    BUCKET,
    SCOPE,
    START,
    TASK_ID,
    TENANT,
    a_task,
    a_task_command,
    a_task_spec,
    a_workflow_command,
    an_id,
)
from tests.unit.service_kit import Kit, drive

REF = ExternalRef("ORDER_ID", "4711")


def create(kit: Kit, *, is_later: bool, **changes: Any) -> Any:
    """A task with a relation, created with its workflow or added later."""
    spec = a_task_spec(key="related", **changes)
    if not is_later:
        return drive(kit.registration.create_workflow(a_workflow_command(spec))).tasks[0]
    created = drive(kit.registration.create_workflow(a_workflow_command()))
    return drive(kit.registration.create_task(a_task_command(created.workflow.workflow_id, spec))).task


def refusal(kit: Kit, *, is_later: bool, **changes: Any) -> Reason:
    """Why it is not created; checks that no task was."""
    before = dict(kit.tables.tasks)
    with pytest.raises(RefusedError) as caught:
        create(kit, is_later=is_later, **changes)
    assert kit.tables.tasks == before
    return caught.value.reason


@pytest.mark.parametrize("is_later", [False, True])
def test_id5_parent_and_numbers_stand_on_the_new_task(kit: Kit, is_later: bool) -> None:
    kit.put(a_task())

    task = create(kit, is_later=is_later, parent_task_id=TASK_ID, batch_id="b-1", external_refs=(REF,))

    assert (task.envelope.parent_task_id, task.envelope.batch_id) == (TASK_ID, "b-1")
    assert kit.tables.refs_of(task.envelope.task_id) == (REF,)


@pytest.mark.parametrize("is_later", [False, True])
@pytest.mark.parametrize("parent", [{"tenant_id": "t-02"}, {"authority_scope": "billing"}, None])
def test_id5_parent_is_a_task_of_the_callers_scope(kit: Kit, parent: dict[str, str] | None, is_later: bool) -> None:
    if parent is not None:
        kit.put(a_task(**parent))
    assert refusal(kit, is_later=is_later, parent_task_id=TASK_ID) is Reason.TASK_NOT_FOUND


@pytest.mark.parametrize("is_later", [False, True])
def test_id5_number_of_another_task_is_not_taken_by_a_new_one(kit: Kit, is_later: bool) -> None:
    kit.put(a_task())
    row = ExternalRefRecord(BUCKET, TENANT, SCOPE, REF, TASK_ID, START)
    kit.tables.external_refs[(TENANT, SCOPE, REF)] = row

    assert refusal(kit, is_later=is_later, external_refs=(REF,)) is Reason.IDEMPOTENCY_CONFLICT
    assert kit.tables.external_refs[(TENANT, SCOPE, REF)] == row


def test_id5_two_tasks_of_one_request_have_not_the_same_number(kit: Kit) -> None:
    tasks = [a_task_spec(key=key, external_refs=(REF,)) for key in ("one", "two")]
    with pytest.raises(RefusedError) as caught:
        drive(kit.registration.create_workflow(a_workflow_command(*tasks)))
    assert (caught.value.reason, kit.tables.tasks) == (Reason.INVALID_ARGUMENT, {})


def test_id5_number_in_another_scope_is_another_number(kit: Kit) -> None:
    other = TaskId(an_id(60))
    kit.put(a_task(task_id=other, authority_scope="billing"))
    row = ExternalRefRecord(BUCKET, TENANT, "billing", REF, other, START)
    kit.tables.external_refs[(TENANT, "billing", REF)] = row

    task = create(kit, is_later=False, external_refs=(REF,))

    assert kit.tables.refs_of(task.envelope.task_id) == (REF,)
