"""Rows of ``workflow``, ``workflow_acl`` and ``workflow_event_log``."""

from __future__ import annotations

from taskstatus.adapters.mysql.session import Row
from taskstatus.adapters.mysql.statements import Parameters
from taskstatus.adapters.mysql.values import text
from taskstatus.domain.ids import WorkflowId
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.records import WorkflowEventRecord
from taskstatus.domain.state import Grant, WorkflowState

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
)
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
    )


def from_row(row: Row, grants: tuple[Grant, ...]) -> WorkflowState:
    """The state of a row that begins with COLUMNS, with the grants in force."""
    bucket, workflow_id, tenant_id, scope, owner_id, key, digest, workflow_type, title = row[:9]
    coordinator, lifecycle, version, task_count, created_at, committed_at = row[9:15]
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
    )


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
    )
