"""Binding a task to the definitions of its type, at its creation or once by ClassifyTask (L-5, R-8)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskstatus.application.ports_store import StoreUnavailableError
from taskstatus.domain.business_status import BusinessStatus, StatusDefinition
from taskstatus.domain.classification import (
    BoundVersions,
    ClassifyTask,
    TypeBinding,
    TypeVersions,
    bound_versions,
    classify,
)
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.events import EventType
from taskstatus.domain.lifecycle import TERMINAL, Lifecycle
from taskstatus.domain.reasons import Reason
from taskstatus.domain.state import FailurePolicy, TaskEnvelope
from taskstatus.domain.task_commands import CommandRows
from tests.unit.factories import (
    REVIEWED,
    START,
    TASK_ID,
    a_head,
    a_running_step,
    a_step,
    a_step_spec,
    a_task,
    a_task_command,
    a_task_in,
    a_task_spec,
    a_workflow_command,
    an_activation,
    an_operation,
    step_event,
)
from tests.unit.service_kit import Kit, drive

DOCUMENT = REVIEWED.task_type
RUNNING = Lifecycle.RUNNING
versions = st.dictionaries(st.integers(1, 5), st.booleans())


def classification(statuses: int = 0, operations: int = 0, **changes: Any) -> ClassifyTask:
    """Classify the task as a document."""
    return replace(ClassifyTask(a_head(), DOCUMENT, statuses, operations, None), **changes)


@given(versions, versions, st.integers(0, 6), st.integers(0, 6))
def test_r8_a_version_is_bound_just_when_it_is_published_and_not_retired(
    statuses: dict[int, bool], operations: dict[int, bool], asked_statuses: int, asked_operations: int
) -> None:
    try:
        bound = bound_versions(TypeVersions(DOCUMENT, statuses, operations), asked_statuses, asked_operations)
    except RefusedError as refusal:
        faults = {
            field: Reason.DEFINITION_INCOMPATIBLE if asked in published else Reason.DEFINITION_NOT_FOUND
            for field, published, asked in (
                ("operationDefinitionVersion", operations, asked_operations),
                ("statusDefinitionVersion", statuses, asked_statuses),
            )
            if asked and not published.get(asked)
        }
        assert faults[refusal.metadata["field"]] is refusal.reason
        return
    for published, asked, version in (
        (statuses, asked_statuses, bound.statuses),
        (operations, asked_operations, bound.operations),
    ):
        open_versions = [number for number, is_open in published.items() if is_open]
        assert version == (asked or max(open_versions, default=0))


@pytest.fixture
def published(kit: Kit) -> Kit:
    """Statuses of documents in version 1, operations of documents in 1 and 3, of any type in 2."""
    kit.definitions.add(REVIEWED)
    kit.definitions.add(an_operation(version=1, task_type=DOCUMENT, failure_policy=FailurePolicy.WAIT_FOR_USER))
    kit.definitions.add(an_operation(version=3, task_type=DOCUMENT))
    kit.definitions.add(an_operation(version=2), an_operation("SEARCH.WEB", version=2))
    return kit


def put_untyped(kit: Kit, lifecycle: Lifecycle = RUNNING, **changes: Any) -> None:
    """An unclassified task with one running step."""
    kit.put(a_task_in(lifecycle, task_type="", version=4, **changes), a_running_step())


def test_r8_the_newest_versions_are_bound_unless_others_are_named(published: Kit) -> None:
    put_untyped(published)
    outcome = drive(published.classification.classify(classification()))
    envelope = published.only_task().envelope
    assert (envelope.task_type, envelope.product_id) == (DOCUMENT, "")
    assert (envelope.status_definition_version, envelope.operation_definition_version) == (1, 3)
    assert outcome.task.envelope == envelope
    assert envelope.is_classified


def test_r8_named_versions_and_the_label_are_bound_and_told(published: Kit) -> None:
    put_untyped(published, product_id="p-1")
    drive(published.classification.classify(classification(1, 1, product_id="p-2")))
    envelope = published.only_task().envelope
    assert (envelope.status_definition_version, envelope.operation_definition_version) == (1, 1)

    event = published.tables.events[(TASK_ID, 5)]
    (audit,) = published.tables.audits.values()
    old = {"taskType": "", "statusDefinitionVersion": None, "operationDefinitionVersion": None, "productId": "p-1"}
    new = {"taskType": DOCUMENT, "statusDefinitionVersion": 1, "operationDefinitionVersion": 1, "productId": "p-2"}
    assert (event.event_type, event.data_schema) == (EventType.TASK_CLASSIFIED, "taskstatus.classification.v1")
    assert orjson.loads(event.shown_data) == new
    assert (orjson.loads(audit.old_value), orjson.loads(audit.new_value)) == (old, new)
    assert (audit.action, audit.actor) == (EventType.TASK_CLASSIFIED, "service:coordinator")


def test_r8_a_type_without_definitions_keeps_the_generic_ones(kit: Kit) -> None:
    put_untyped(kit)
    drive(kit.classification.classify(classification(task_type="UNHEARD_OF")))
    envelope = kit.only_task().envelope
    assert (envelope.status_definition_version, envelope.operation_definition_version) == (0, 0)
    progress = step_event(EventType.STEP_PROGRESS, 2, business_status="RETRY_WAIT", of=a_running_step())
    assert kit.result(progress).business_status == "RETRY_WAIT"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (classification(2), Reason.DEFINITION_NOT_FOUND),
        (classification(0, 2), Reason.DEFINITION_NOT_FOUND),
        (classification(1, task_type="VIDEO"), Reason.DEFINITION_NOT_FOUND),
        (classification(3), Reason.DEFINITION_INCOMPATIBLE),
        (classification(0, 4), Reason.DEFINITION_INCOMPATIBLE),
    ],
)
def test_r8_an_unknown_or_retired_version_is_refused(published: Kit, command: ClassifyTask, reason: Reason) -> None:
    retired = replace(REVIEWED, version=3)
    published.definitions.add(retired, an_operation(version=4, task_type=DOCUMENT), retired_at=START)
    put_untyped(published)
    assert refused(published, command) is reason


def refused(kit: Kit, command: ClassifyTask) -> Reason:
    """Why a command is refused; checks that nothing was written."""
    tables = kit.tables
    before = [dict(part) for part in (tables.tasks, tables.events, tables.dedups, tables.outbox, tables.audits)]
    with pytest.raises(RefusedError) as raised:
        drive(kit.classification.classify(command))
    after = [dict(part) for part in (tables.tasks, tables.events, tables.dedups, tables.outbox, tables.audits)]
    assert after == before
    return raised.value.reason


def test_r8_a_task_is_classified_once(published: Kit) -> None:
    put_untyped(published)
    first = drive(published.classification.classify(classification(1)))
    again = drive(published.classification.classify(classification(1)))
    assert again.result == replace(first.result, duplicate=True)
    other = classification(1, head=a_head("cmd-2"))
    assert refused(published, other) is Reason.ALREADY_CLASSIFIED


def test_r8_a_type_given_at_creation_is_a_classification_already(published: Kit) -> None:
    created = drive(published.registration.create_workflow(a_workflow_command(a_task_spec(task_type="VIDEO"))))
    head = a_head(task_id=created.tasks[0].envelope.task_id)
    assert refused(published, classification(head=head)) is Reason.ALREADY_CLASSIFIED


@pytest.mark.parametrize("lifecycle", sorted(TERMINAL))
def test_r8_an_ended_task_stays_unclassified(published: Kit, lifecycle: Lifecycle) -> None:
    put_untyped(published, lifecycle)
    assert refused(published, classification()) is Reason.TERMINAL


def test_l4_a_definition_that_contradicts_the_tasks_own_status_is_incompatible(kit: Kit) -> None:
    """No definition that can be published does: the generic statuses keep their lifecycles."""
    task = a_task_in(RUNNING, task_type="")
    odd = StatusDefinition(DOCUMENT, 1, (BusinessStatus("RUNNING", Lifecycle.FAILED),))
    rows = CommandRows(task, (), None, START)
    for statuses, is_refused in ((odd, True), (REVIEWED, False), (None, False)):
        binding = TypeBinding(BoundVersions(1, 0), statuses)
        try:
            classify(classification(), rows, lambda _task, _command, found=binding: found, kit.tools)  # type: ignore[misc]
        except RefusedError as refusal:
            assert (refusal.reason, is_refused) == (Reason.DEFINITION_INCOMPATIBLE, True)
        else:
            assert not is_refused


def test_l5_running_executions_keep_their_definition_and_new_ones_take_the_tasks(published: Kit) -> None:
    put_untyped(published)
    drive(published.classification.classify(classification(0, 1)))
    event = step_event(EventType.STEP_PROGRESS, 2, business_status="PARSING", of=a_running_step())
    assert published.result(event).business_status == "PARSING"
    step = published.step()
    assert step.terms is not None
    assert step.terms.definition_version == 0


# Tasks with a type from their creation on.


def envelope_of(kit: Kit, **spec: Any) -> TaskEnvelope:
    """The envelope of a new task."""
    created = drive(kit.registration.create_workflow(a_workflow_command(a_task_spec("02_parse", **spec))))
    return created.tasks[0].envelope


@pytest.mark.parametrize(
    ("asked", "bound"),
    [((0, 0), (1, 3)), ((1, 1), (1, 1)), ((0, 1), (1, 1)), ((None, None), (1, 3))],
)
def test_r8_a_typed_task_is_bound_when_it_is_created(published: Kit, asked: Any, bound: Any) -> None:
    envelope = envelope_of(published, status_definition_version=asked[0], operation_definition_version=asked[1])
    assert (envelope.status_definition_version, envelope.operation_definition_version) == bound


def test_r8_a_task_without_a_type_stays_unclassified(published: Kit) -> None:
    envelope = envelope_of(published, task_type="")
    assert (envelope.status_definition_version, envelope.operation_definition_version) == (None, None)
    assert not envelope.is_classified


@pytest.mark.parametrize("where", ["workflow", "task"])
def test_r8_creation_with_an_unknown_version_writes_nothing_and_a_repeat_is_answered_all_the_same(
    published: Kit, where: str
) -> None:
    workflow = drive(published.registration.create_workflow(a_workflow_command())).workflow

    def create(key: str, version: int) -> Any:
        spec = a_task_spec("02_parse", key=key, status_definition_version=version)
        if where == "task":
            command = a_task_command(workflow.workflow_id, spec, command_id=key)
            return drive(published.registration.create_task(command))
        whole = a_workflow_command(spec, client_workflow_key=key, command_id=key)
        return drive(published.registration.create_workflow(whole))

    def reason_of(key: str, version: int) -> Reason:
        before = [dict(table) for table in (published.tables.tasks, published.tables.workflows)]
        with pytest.raises(RefusedError) as raised:
            create(key, version)
        assert [dict(table) for table in (published.tables.tasks, published.tables.workflows)] == before
        return raised.value.reason

    assert reason_of("task-1", 9) is Reason.DEFINITION_NOT_FOUND
    assert create("task-1", 1).created
    published.definitions.add(REVIEWED, retired_at=START)
    assert not create("task-1", 1).created
    assert reason_of("task-2", 1) is Reason.DEFINITION_INCOMPATIBLE


def test_l6_steps_take_the_policy_of_the_version_that_the_task_is_bound_to(published: Kit) -> None:
    for key, version in (("task-1", 1), ("task-3", 3)):
        spec = a_task_spec(key=key, operation_definition_version=version, steps=(a_step_spec(failure_policy=None),))
        command = a_workflow_command(spec, client_workflow_key=key, command_id=key)
        drive(published.registration.create_workflow(command))
    policies = [step.definition.failure_policy for step in published.tables.steps.values()]
    assert policies == [FailurePolicy.WAIT_FOR_USER, FailurePolicy.FAIL_TASK]


@pytest.mark.parametrize(
    ("bound", "expected"),
    [(3, (3, DOCUMENT)), (2, (1, DOCUMENT)), (0, (2, "*")), (None, (3, DOCUMENT))],
)
def test_l5_an_execution_binds_the_newest_version_within_the_tasks_bound(
    published: Kit, bound: int | None, expected: tuple[int, str]
) -> None:
    task = a_task(status_definition_version=None if bound is None else 0, operation_definition_version=bound)
    published.put(task, a_step(activated=False))
    published.definitions.add(an_operation(version=4, task_type="VIDEO"))
    binding = drive(published.registration.activate(an_activation())).binding
    assert (binding.definition_version, binding.definition_task_type) == expected


def test_l5_a_new_version_changes_nothing_for_a_task_that_is_bound(published: Kit) -> None:
    envelope = envelope_of(published)
    published.definitions.add(an_operation(version=9, task_type=DOCUMENT), replace(REVIEWED, version=2))
    binding = drive(published.registration.activate(an_activation(envelope.task_id))).binding
    assert binding.definition_version == 3
    assert published.only_task().envelope.status_definition_version == 1


def test_l5_what_cannot_be_read_is_not_guessed(kit: Kit) -> None:
    kit.definitions.unavailable = True
    with pytest.raises(StoreUnavailableError):
        envelope_of(kit)
    assert not kit.tables.tasks
