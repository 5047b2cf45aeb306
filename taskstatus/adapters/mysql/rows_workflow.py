"""Rows of ``workflow``, ``workflow_acl`` and ``workflow_event_log``."""

from __future__ import annotations

from dataclasses import asdict

from taskstatus.adapters.mysql.session import Row
from taskstatus.adapters.mysql.statements import Parameters
from taskstatus.adapters.mysql.values import from_json, text, to_json
from taskstatus.domain.events import EventType
from taskstatus.domain.health import Health
from taskstatus.domain.ids import TaskId, WorkflowId
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.records import WorkflowEventRecord
from taskstatus.domain.state import Grant, WorkflowState
from taskstatus.domain.workflow_aggregate import AggregationPolicy, MemberCounts

COLUMNS = (
    "bucket",
    "id",
    "tenant_id",
    "authority_scope",
    "owner_id",
    "client_workflow_key",
    "creation_digest",
    "workflow_type",
    "title",
    "coordinator_producer",
    "lifecycle_status",
    "version",
    "task_count",
    "created_at",
    "committed_at",
    "aggregation_policy",
    "ruled",
    "ruling_reason",
    "counts",
    "shared_counts",
    "health",
    "started_at",
    "finished_at",
    "shared_started_at",
    "shared_finished_at",
)
MUTABLE = (
    "title",
    "lifecycle_status",
    "version",
    "task_count",
    "committed_at",
    "ruled",
    "ruling_reason",
    "counts",
    "shared_counts",
    "health",
    "started_at",
    "finished_at",
    "shared_started_at",
    "shared_finished_at",
)
KEY = ("bucket", "id")
FROZEN = tuple(column for column in COLUMNS if column not in KEY + MUTABLE)
ACL_COLUMNS = ("bucket", "workflow_id", "tenant_id", "principal_type", "principal_id", "permission", "created_at")
EVENT_COLUMNS = (
    "bucket",
    "workflow_id",
    "workflow_version",
    "event_id",
    "event_type",
    "task_id",
    "actor",
    "trace_id",
    "committed_at",
    "digest",
    "reason",
)


def to_row(state: WorkflowState) -> Parameters:
    """The values of COLUMNS."""
    return (
        state.bucket,
        state.workflow_id,
        state.tenant_id,
        state.authority_scope,
        state.owner_id,
        state.client_workflow_key,
        state.creation_digest,
        state.workflow_type,
        state.title,
        state.coordinator_producer,
        state.lifecycle.value,
        state.version,
        state.task_count,
        state.created_at,
        state.committed_at,
        state.aggregation_policy.value,
        state.ruled,
        state.ruling_reason,
        _counts_row(state.counts),
        _counts_row(state.shared_counts),
        state.health.value,
        state.started_at,
        state.finished_at,
        state.shared_started_at,
        state.shared_finished_at,
    )


def to_update_row(state: WorkflowState) -> Parameters:
    """The values of KEY + MUTABLE."""
    return (
        state.bucket,
        state.workflow_id,
        state.title,
        state.lifecycle.value,
        state.version,
        state.task_count,
        state.committed_at,
        state.ruled,
        state.ruling_reason,
        _counts_row(state.counts),
        _counts_row(state.shared_counts),
        state.health.value,
        state.started_at,
        state.finished_at,
        state.shared_started_at,
        state.shared_finished_at,
    )


def from_row(row: Row, grants: tuple[Grant, ...]) -> WorkflowState:
    """The state of a row that begins with COLUMNS, with the grants in force."""
    bucket, workflow_id, tenant_id, scope, owner_id, key, digest, workflow_type, title = row[:9]
    coordinator, lifecycle, version, task_count, created_at, committed_at = row[9:15]
    policy, ruled, ruling_reason, counts, shared_counts, health, started_at, finished_at = row[15:23]
    shared_started_at, shared_finished_at = row[23:25]
    return WorkflowState(
        workflow_id=WorkflowId(workflow_id),
        bucket=bucket,
        tenant_id=text(tenant_id),
        authority_scope=text(scope),
        owner_id=text(owner_id),
        client_workflow_key=text(key),
        creation_digest=digest,
        workflow_type=text(workflow_type),
        title=title,
        coordinator_producer=text(coordinator),
        lifecycle=Lifecycle(text(lifecycle)),
        version=version,
        task_count=task_count,
        created_at=created_at,
        committed_at=committed_at,
        grants=grants,
        aggregation_policy=AggregationPolicy(text(policy)),
        ruled=bool(ruled),
        ruling_reason=ruling_reason,
        counts=MemberCounts(**from_json(counts)),
        shared_counts=MemberCounts(**from_json(shared_counts)),
        health=Health(text(health)),
        started_at=started_at,
        finished_at=finished_at,
        shared_started_at=shared_started_at,
        shared_finished_at=shared_finished_at,
    )


def _counts_row(counts: MemberCounts) -> bytes:
    """What is not zero, as JSON."""
    return to_json({name: count for name, count in asdict(counts).items() if count})


def acl_to_row(workflow: WorkflowState, grant: Grant) -> Parameters:
    """The values of ACL_COLUMNS for a grant given at creation."""
    return (
        workflow.bucket,
        workflow.workflow_id,
        workflow.tenant_id,
        grant.principal_type,
        grant.principal_id,
        grant.permission,
        workflow.created_at,
    )


def event_to_row(event: WorkflowEventRecord) -> Parameters:
    """The values of EVENT_COLUMNS."""
    return (
        event.bucket,
        event.workflow_id,
        event.workflow_version,
        event.event_id,
        event.event_type.value,
        event.task_id,
        event.actor,
        event.trace_id,
        event.committed_at,
        event.digest,
        event.reason,
    )


def event_from_row(row: Row) -> WorkflowEventRecord:
    """The event of a row that begins with EVENT_COLUMNS."""
    bucket, workflow_id, version, event_id, event_type, task_id = row[:6]
    actor, trace_id, committed_at, digest, reason = row[6:11]
    return WorkflowEventRecord(
        workflow_id=WorkflowId(workflow_id),
        bucket=bucket,
        workflow_version=version,
        event_id=text(event_id),
        event_type=EventType(text(event_type)),
        task_id=None if task_id is None else TaskId(task_id),
        actor=text(actor),
        trace_id=trace_id,
        committed_at=committed_at,
        digest=digest,
        reason=reason,
    )
