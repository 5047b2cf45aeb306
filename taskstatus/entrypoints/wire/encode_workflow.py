"""Workflows as one reader may see them → snapshots."""

from __future__ import annotations

from datetime import datetime

from google.protobuf import timestamp_pb2
from taskstatus_pb.v1 import common_pb2, workflow_pb2

from taskstatus.domain.ids import format_workflow_id
from taskstatus.domain.workflow_aggregate import MemberCounts
from taskstatus.domain.workflow_commands import WorkflowOutcome
from taskstatus.domain.workflow_views import WorkflowView, full_cut
from taskstatus.entrypoints.wire.values import to_timestamp


def workflow_snapshot(view: WorkflowView) -> workflow_pb2.WorkflowSnapshot:
    """The snapshot of one view."""
    workflow, cut = view.workflow, view.cut
    return workflow_pb2.WorkflowSnapshot(
        workflow_id=format_workflow_id(workflow.workflow_id),
        workflow_version=workflow.version,
        title=workflow.title,
        workflow_type=workflow.workflow_type,
        lifecycle_status=common_pb2.LifecycleStatus.Value(cut.lifecycle),
        health=common_pb2.Health.Value(cut.health),
        aggregation_policy=workflow_pb2.AggregationPolicy.Value(workflow.aggregation_policy),
        ruled=workflow.ruled,
        ruling_reason=workflow.ruling_reason,
        task_count=cut.counts.total,
        task_counts=_counts(cut.counts),
        created_at=to_timestamp(workflow.created_at),
        started_at=_stamp(cut.started_at),
        finished_at=_stamp(cut.finished_at),
        updated_at=to_timestamp(workflow.committed_at),
        as_of=to_timestamp(view.as_of),
        scope=workflow_pb2.WorkflowSnapshot.Scope.Value(cut.scope),
    )


def updated_workflow(outcome: WorkflowOutcome) -> workflow_pb2.UpdateWorkflowResponse:
    """Response of UpdateWorkflow; what it shows was true when its version was committed."""
    workflow = outcome.workflow
    view = WorkflowView(workflow, full_cut(workflow), workflow.committed_at)
    return workflow_pb2.UpdateWorkflowResponse(
        workflow=workflow_snapshot(view), changed=outcome.changed, duplicate=outcome.duplicate
    )


def _counts(counts: MemberCounts) -> workflow_pb2.TaskCounts:
    return workflow_pb2.TaskCounts(
        pending=counts.pending,
        running=counts.running,
        cancelling=counts.cancelling,
        succeeded=counts.succeeded,
        failed=counts.failed,
        timed_out=counts.timed_out,
        cancelled=counts.cancelled,
    )


def _stamp(at: datetime | None) -> timestamp_pb2.Timestamp | None:
    return None if at is None else to_timestamp(at)
