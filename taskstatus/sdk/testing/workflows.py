"""A workflow of the fake follows its tasks at once; the real one's projector does so soon after (L-7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from taskstatus_pb.v1 import common_pb2, workflow_pb2

from taskstatus.sdk.testing.model import TERMINAL, FakeTask, FakeWorkflow


def settle(workflow: FakeWorkflow, tasks: Sequence[FakeTask], at: datetime) -> bool:
    """Count the tasks; whether that, or what was changed before, made a version."""
    shown = _shown(workflow, tasks)
    if shown == workflow.shown:
        return False
    workflow.shown = shown
    workflow.version += 1
    workflow.updated_at = at
    lifecycle = lifecycle_of(workflow, tasks)
    workflow.started_at = None if lifecycle == "PENDING" else workflow.started_at or at
    workflow.finished_at = workflow.finished_at or at if lifecycle in TERMINAL else None
    return True


def _shown(workflow: FakeWorkflow, tasks: Sequence[FakeTask]) -> tuple[object, ...]:
    counts = tuple(sorted(Counter(task.lifecycle for task in tasks).items()))
    health = health_of(workflow, tasks)
    return (workflow.title, workflow.ruling, workflow.ruling_reason, counts, lifecycle_of(workflow, tasks), health)


def lifecycle_of(workflow: FakeWorkflow, tasks: Sequence[FakeTask]) -> str:
    """The ruling, or what the policy makes of the tasks."""
    if workflow.ruling:
        return workflow.ruling
    found = [task.lifecycle for task in tasks]
    policy = workflow.request.aggregation_policy
    if all(task.lifecycle == "PENDING" and task.attempt == 1 for task in tasks):
        return "PENDING"
    if policy == workflow_pb2.COORDINATOR_RULES or not TERMINAL.issuperset(found):
        return "RUNNING"
    if policy == workflow_pb2.ANY_SUCCEEDS and "SUCCEEDED" in found:
        return "SUCCEEDED"
    return next((name for name in ("FAILED", "TIMED_OUT", "CANCELLED") if name in found), "SUCCEEDED")


def health_of(workflow: FakeWorkflow, tasks: Sequence[FakeTask]) -> str:
    """DEGRADED when a running task is, or when one has failed while others go on."""
    if lifecycle_of(workflow, tasks) in TERMINAL:
        return "HEALTHY"
    failed = any(task.lifecycle in ("FAILED", "TIMED_OUT") for task in tasks)
    degraded = any(task.health == "DEGRADED" for task in tasks if task.lifecycle not in TERMINAL)
    return "DEGRADED" if failed or degraded else "HEALTHY"


def workflow_snapshot(
    workflow: FakeWorkflow, tasks: Sequence[FakeTask], as_of: datetime
) -> workflow_pb2.WorkflowSnapshot:
    """The workflow as everyone sees it: the fake has no grants."""
    counts = Counter(task.lifecycle.lower() for task in tasks)
    snapshot = workflow_pb2.WorkflowSnapshot(
        workflow_id=workflow.workflow_id,
        workflow_version=workflow.version,
        title=workflow.title,
        workflow_type=workflow.request.workflow_type,
        lifecycle_status=common_pb2.LifecycleStatus.Value(lifecycle_of(workflow, tasks)),
        health=common_pb2.Health.Value(health_of(workflow, tasks)),
        aggregation_policy=workflow.request.aggregation_policy or workflow_pb2.ALL_SUCCEED,
        ruled=bool(workflow.ruling),
        ruling_reason=workflow.ruling_reason,
        task_count=len(tasks),
        task_counts=workflow_pb2.TaskCounts(**counts),
        scope=workflow_pb2.WorkflowSnapshot.FULL,
    )
    for name in ("created_at", "started_at", "finished_at", "updated_at"):
        at = getattr(workflow, name)
        if at is not None:
            getattr(snapshot, name).FromDatetime(at)
    snapshot.as_of.FromDatetime(as_of)
    return snapshot
