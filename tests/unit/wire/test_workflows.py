"""UpdateWorkflow requests and workflow snapshots; message and snapshot have the same fields (R-6, L-7, P-5)."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from google.protobuf import json_format
from taskstatus_pb.v1 import common_pb2, register_service_pb2, workflow_pb2

from taskstatus.domain.errors import RefusedError
from taskstatus.domain.events import EventType
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.records import ChangeSet
from taskstatus.domain.state import WorkflowState
from taskstatus.domain.workflow_aggregate import AggregationPolicy, MemberCounts
from taskstatus.domain.workflow_commands import UpdateWorkflow, WorkflowOutcome
from taskstatus.domain.workflow_messages import render_workflow_summary
from taskstatus.domain.workflow_views import WorkflowScope, WorkflowView, full_cut, shared_cut
from taskstatus.entrypoints.wire.decode import to_create_workflow
from taskstatus.entrypoints.wire.decode_workflow import to_update_workflow
from taskstatus.entrypoints.wire.encode_workflow import updated_workflow, workflow_snapshot
from tests.unit.domain.test_workflow_aggregate import a_workflow
from tests.unit.factories import START

from .requests import COORDINATOR, a_call

WORKFLOW = "wf_0191e0a27cf77d0d8cf01a2b3c4d5e6f"


def decode(**fields: object) -> UpdateWorkflow:
    """The command of a request."""
    defaults = {"command_id": "c-1", "workflow_id": WORKFLOW}
    return to_update_workflow(workflow_pb2.UpdateWorkflowRequest(**{**defaults, **fields}), COORDINATOR, a_call())


def digest(**fields: object) -> bytes:
    """Of its content."""
    return decode(**fields).digest


def test_r6_keys_and_the_expected_version_are_no_content() -> None:
    plain = digest(title="A")
    assert digest(title="A", command_id="c-2", workflow_id=WORKFLOW[:-1] + "0", expected_workflow_version=4) == plain
    others = [
        digest(title="B"),
        digest(title="A", reason="why"),
        digest(title="A", withdraw_ruling=True),
        digest(title="A", lifecycle_status=common_pb2.FAILED, reason="why"),
    ]
    assert len({plain, *others}) == 5


def test_l7_a_ruling_and_a_title_come_as_they_are() -> None:
    command = decode(title="  Second  ", lifecycle_status=common_pb2.TIMED_OUT, reason="too late")
    assert (command.title, command.ruling, command.withdraw, command.reason) == (
        "Second",
        Lifecycle.TIMED_OUT,
        False,
        "too late",
    )


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({}, "title"),
        ({"title": ""}, "title"),
        ({"title": "x", "command_id": "with space"}, "commandId"),
        ({"lifecycle_status": common_pb2.FAILED}, "reason"),
        ({"lifecycle_status": common_pb2.FAILED, "reason": "a\x00b"}, "reason"),
        ({"lifecycle_status": common_pb2.PENDING, "reason": "x"}, "lifecycleStatus"),
        ({"lifecycle_status": 12, "reason": "x"}, "lifecycleStatus"),
        ({"lifecycle_status": common_pb2.FAILED, "reason": "x", "withdraw_ruling": True}, "withdrawRuling"),
    ],
)
def test_l7_a_malformed_update_names_its_field(fields: dict[str, object], path: str) -> None:
    with pytest.raises(RefusedError) as caught:
        decode(**fields)
    assert [violation.field for violation in caught.value.violations] == [path]


def test_l7_the_policy_is_all_succeed_unless_told() -> None:
    request = register_service_pb2.CreateWorkflowRequest(
        command_id="c-1", client_workflow_key="w", owner_id="ada", title="Import"
    )
    assert to_create_workflow(request, COORDINATOR, a_call()).aggregation_policy is AggregationPolicy.ALL_SUCCEED
    request.aggregation_policy = workflow_pb2.COORDINATOR_RULES
    assert to_create_workflow(request, COORDINATOR, a_call()).aggregation_policy is AggregationPolicy.COORDINATOR_RULES


NAMES = {"id": "workflowId", "version": "workflowVersion"}
COUNTS = MemberCounts(1, 2, 3, 4, 5, 6, 7, 1, 1, 1)
BUSY = a_workflow(
    lifecycle=Lifecycle.RUNNING,
    version=7,
    task_count=COUNTS.total,
    counts=COUNTS,
    shared_counts=MemberCounts(pending=1),
    started_at=START,
    ruling_reason="why",
    workflow_type="nightly",
)


@pytest.mark.parametrize("workflow", [BUSY, a_workflow(), replace(BUSY, ruled=True, finished_at=START)])
def test_p5_the_message_has_the_fields_of_the_snapshot(workflow: WorkflowState) -> None:
    for cut in (full_cut(workflow), shared_cut(workflow)):
        view = WorkflowView(workflow, cut, START + timedelta(seconds=1))
        snapshot = json.loads(
            json_format.MessageToJson(workflow_snapshot(view), always_print_fields_with_no_presence=True)
        )
        message = render_workflow_summary(workflow, cut, EventType.WORKFLOW_AGGREGATED)
        fields: dict[str, object] = message["workflow"]  # type: ignore[assignment]
        renamed = {NAMES.get(name, name): value for name, value in fields.items() if value is not None}
        assert renamed == {name: value for name, value in snapshot.items() if name not in ("asOf", "scope")}
        assert message["scope"] == snapshot["scope"] == cut.scope


def test_l7_the_answer_to_an_update_is_whole() -> None:
    answer = updated_workflow(WorkflowOutcome(BUSY, ChangeSet(), changed=True, duplicate=True))
    assert (answer.workflow.task_count, answer.changed, answer.duplicate) == (COUNTS.total, True, True)
    assert workflow_pb2.WorkflowSnapshot.Scope.Name(answer.workflow.scope) == WorkflowScope.FULL
