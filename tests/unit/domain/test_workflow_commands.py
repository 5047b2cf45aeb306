"""UpdateWorkflow: title and ruling, judged in order, safe to send again (L-7, R-6)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taskstatus.domain.commands import Caller
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import WorkflowId
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.reasons import Reason
from taskstatus.domain.workflow_commands import UpdateWorkflow, WorkflowOutcome
from tests.unit.factories import COORDINATOR_CALLER, PARSER_CALLER, a_digest, a_task_command, a_task_spec, an_id
from tests.unit.service_kit import drive
from tests.unit.workflow_kit import WorkflowKit


@pytest.fixture
def kit() -> WorkflowKit:
    """A workflow of one task."""
    kit = WorkflowKit()
    kit.create(False)
    return kit


def an_update(kit: WorkflowKit, **changes: object) -> UpdateWorkflow:
    """A new title."""
    command = UpdateWorkflow(
        caller=COORDINATOR_CALLER,
        command_id="update-1",
        workflow_id=kit.workflow_id,
        expected_version=0,
        title="Import, second try",
        ruling=None,
        withdraw=False,
        reason="",
        digest=a_digest("update-1"),
    )
    return replace(command, **changes)  # type: ignore[arg-type]


def a_ruling(kit: WorkflowKit, lifecycle: Lifecycle, command_id: str = "rule-1") -> UpdateWorkflow:
    """A status of the coordinator's."""
    changes = {"title": None, "ruling": lifecycle, "reason": "as agreed", "digest": a_digest(command_id)}
    return an_update(kit, command_id=command_id, **changes)


def update(kit: WorkflowKit, command: UpdateWorkflow) -> WorkflowOutcome:
    """Carry it out."""
    return drive(kit.workflows.update(command))


def refusal(kit: WorkflowKit, command: UpdateWorkflow) -> RefusedError:
    """Why it is refused; nothing is written then."""
    before = (kit.workflow, len(kit.events()), len(kit.tables.outbox))
    with pytest.raises(RefusedError) as caught:
        update(kit, command)
    assert (kit.workflow, len(kit.events()), len(kit.tables.outbox)) == before
    return caught.value


def test_l7_a_title_raises_the_workflows_own_version_and_touches_no_task(kit: WorkflowKit) -> None:
    tasks = dict(kit.tables.tasks)

    outcome = update(kit, an_update(kit))

    assert (outcome.changed, outcome.duplicate) == (True, False)
    assert (kit.workflow.version, kit.workflow.title) == (2, "Import, second try")
    event = kit.events()[-1]
    assert (event.event_type, event.event_id, event.actor) == (
        EventType.WORKFLOW_UPDATED,
        "update-1",
        "service:coordinator",
    )
    assert kit.tables.tasks == tasks


def test_l7_a_ruling_keeps_its_status_while_counts_go_on_and_withdrawal_ends_it(kit: WorkflowKit) -> None:
    (task_id,) = list(kit.tables.tasks)
    update(kit, a_ruling(kit, Lifecycle.CANCELLED))
    kit.start(task_id)
    kit.project()

    assert (kit.workflow.lifecycle, kit.workflow.counts.running) == (Lifecycle.CANCELLED, 1)
    assert kit.events()[1].reason == "as agreed"
    withdrawn = update(kit, an_update(kit, title=None, withdraw=True, command_id="free", digest=a_digest("free")))
    assert (withdrawn.workflow.lifecycle, withdrawn.workflow.ruled) == (Lifecycle.RUNNING, False)
    assert withdrawn.workflow.finished_at is None


def test_r6_the_same_command_again_gives_its_first_version_also_with_an_old_expected_version(kit: WorkflowKit) -> None:
    first = update(kit, an_update(kit, expected_version=1))
    update(kit, an_update(kit, command_id="update-2", title="Another", digest=a_digest("update-2")))

    again = update(kit, an_update(kit, expected_version=1))

    assert (first.workflow.version, again.workflow.version) == (2, 2)
    assert (again.changed, again.duplicate) == (True, True)
    assert kit.workflow.version == 3


def test_r6_the_same_id_with_other_content_is_a_conflict_also_with_a_creation(kit: WorkflowKit) -> None:
    update(kit, an_update(kit))
    drive(kit.registration.create_task(a_task_command(kit.workflow_id, a_task_spec(key="b"), command_id="add-b")))

    for command_id in ("update-1", "add-b", "cmd-workflow"):
        refused = refusal(kit, an_update(kit, command_id=command_id, digest=a_digest("other")))
        assert refused.reason is Reason.IDEMPOTENCY_CONFLICT


def test_r6_a_lost_commit_reply_is_no_duplicate(kit: WorkflowKit) -> None:
    kit.store.lose_next_commit_reply(committed=True)

    outcome = update(kit, an_update(kit))

    assert (outcome.workflow.version, outcome.changed, outcome.duplicate) == (2, True, False)
    assert kit.workflow.version == 2


def test_l2_nothing_new_is_written_for_a_title_or_a_ruling_that_stands_already(kit: WorkflowKit) -> None:
    update(kit, a_ruling(kit, Lifecycle.FAILED))

    for command in (
        an_update(kit, title=kit.workflow.title),
        a_ruling(kit, Lifecycle.FAILED, "rule-2"),
    ):
        outcome = update(kit, command)
        assert (outcome.changed, outcome.workflow.version, kit.workflow.version) == (False, 2, 2)
    free = an_update(kit, title=None, withdraw=True, command_id="free")
    update(kit, free)
    assert not update(kit, replace(free, command_id="free-2")).changed


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"workflow_id": WorkflowId(an_id(99))}, Reason.WORKFLOW_NOT_FOUND),
        ({"caller": replace(COORDINATOR_CALLER, tenant_id="t-02")}, Reason.WORKFLOW_NOT_FOUND),
        ({"caller": Caller("t-01", "other", "coordinator")}, Reason.WORKFLOW_NOT_FOUND),
        ({"caller": PARSER_CALLER}, Reason.PERMISSION_DENIED),
        ({"expected_version": 7}, Reason.VERSION_MISMATCH),
        ({"caller": PARSER_CALLER, "expected_version": 7}, Reason.PERMISSION_DENIED),
    ],
)
def test_l7_an_update_that_may_not_be_is_refused_and_writes_nothing(
    kit: WorkflowKit, changes: dict[str, object], reason: Reason
) -> None:
    assert refusal(kit, an_update(kit, **changes)).reason is reason


def test_l7_a_task_added_to_a_ruled_workflow_leaves_the_ruling(kit: WorkflowKit) -> None:
    update(kit, a_ruling(kit, Lifecycle.SUCCEEDED))

    kit.add("late")

    assert (kit.workflow.lifecycle, kit.workflow.task_count) == (Lifecycle.SUCCEEDED, 2)
