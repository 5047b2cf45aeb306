"""Rows of ``task``, ``task_run`` and ``task_acl``."""

from __future__ import annotations

from taskstatus.adapters.mysql.rows_failure import failure_from_row, failure_to_row
from taskstatus.adapters.mysql.rows_terms import terms_from_json, terms_to_json
from taskstatus.adapters.mysql.session import Row
from taskstatus.adapters.mysql.statements import Parameters
from taskstatus.adapters.mysql.values import from_json, optional_enum, plain, text, to_json, value_or_null
from taskstatus.domain.evolve import PROGRESS_OF_TASK
from taskstatus.domain.ids import TaskId, WorkflowId
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.state import DurationSource, Grant, TaskEnvelope, TaskState

_ENVELOPE = (
    "bucket",
    "id",
    "workflow_id",
    "tenant_id",
    "authority_scope",
    "owner_id",
    "client_task_key",
    "creation_digest",
    "title",
    "task_type",
    "product_id",
    "priority",
    "coordinator_producer",
    "policy_executors",
    "input_ref",
    "created_at",
    "status_definition_version",
    "operation_definition_version",
    "batch_id",
    "parent_task_id",
    "is_sensitive",
    "terms",
    "max_run_seconds",
)
RELABELLED = (
    "title",
    "task_type",
    "product_id",
    "priority",
    "status_definition_version",
    "operation_definition_version",
)
"""What commands may change of the envelope, in a statement of its own: no event pays for it (R-8)."""
MUTABLE = (
    "attempt",
    "version",
    "row_revision",
    "lifecycle_status",
    "business_status",
    "cancel_requested",
    "shared",
    "weight_total",
    "progress_points",
    "open_steps",
    "stale_steps",
    "degraded_steps",
    "producer_seqs",
    "failure_code",
    "failure_message",
    "failure_category",
    "failure_retryable",
    "failed_step_id",
    "started_at",
    "finished_at",
    "duration_ms",
    "duration_source",
    "committed_at",
    "summary_schema",
    "summary_data",
    "open_dynamic",
)
PROGRESSED = PROGRESS_OF_TASK
"""Their columns have the fields' names."""
COLUMNS = _ENVELOPE + MUTABLE
KEY = ("bucket", "id")
FROZEN = _ENVELOPE[len(KEY) :]
"""What no event changes (ID-1)."""
_MUTABLE_AT = len(_ENVELOPE)
_ID_AT = COLUMNS.index("id")
_REVISION_AT = COLUMNS.index("row_revision")

ACL_COLUMNS = (
    "bucket",
    "task_id",
    "tenant_id",
    "principal_type",
    "principal_id",
    "permission",
    "created_at",
    "task_created_at",
)
GRANT_COLUMNS = ("principal_type", "principal_id", "permission")


def to_row(state: TaskState) -> Parameters:
    """The values of COLUMNS."""
    return (*_envelope_row(state.envelope), *_mutable_row(state))


def to_update_row(state: TaskState) -> Parameters:
    """The values of KEY and MUTABLE."""
    return (state.envelope.bucket, state.envelope.task_id, *_mutable_row(state))


def to_progress_row(state: TaskState) -> Parameters:
    """The values of KEY and PROGRESSED."""
    return (
        state.envelope.bucket,
        state.envelope.task_id,
        state.version,
        state.row_revision,
        state.business_status,
        state.progress_points,
        state.committed_at,
        state.summary_schema,
        state.summary_data or None,
    )


def id_of(row: Row) -> TaskId:
    """The task of a row that begins with COLUMNS."""
    return TaskId(row[_ID_AT])


def revision_of(row: Row) -> int:
    """The ``row_revision`` of a row that begins with COLUMNS."""
    revision: int = row[_REVISION_AT]
    return revision


def from_row(row: Row) -> TaskState:
    """The state of a row of COLUMNS; further columns are ignored."""
    (attempt, version, row_revision, lifecycle, business, cancel_requested, shared, weight_total, points) = row[
        _MUTABLE_AT : _MUTABLE_AT + 9
    ]
    (open_steps, stale_steps, degraded_steps, producer_seqs) = row[_MUTABLE_AT + 9 : _MUTABLE_AT + 13]
    (started_at, finished_at, duration_ms, duration_source, committed_at) = row[_MUTABLE_AT + 18 : _MUTABLE_AT + 23]
    summary_schema, summary_data, open_dynamic = row[_MUTABLE_AT + 23 : _MUTABLE_AT + 26]
    return TaskState(
        envelope=_envelope(row),
        attempt=attempt,
        version=version,
        row_revision=row_revision,
        lifecycle=Lifecycle(text(lifecycle)),
        business_status=text(business),
        cancel_requested=bool(cancel_requested),
        shared=bool(shared),
        weight_total=weight_total,
        progress_points=points,
        open_steps=open_steps,
        stale_steps=stale_steps,
        degraded_steps=degraded_steps,
        producer_seqs=from_json(producer_seqs),
        failure=failure_from_row(row[_MUTABLE_AT + 13 : _MUTABLE_AT + 18]),
        started_at=started_at,
        finished_at=finished_at,
        duration_ms=duration_ms,
        duration_source=optional_enum(DurationSource, duration_source),
        committed_at=committed_at,
        summary_schema=text(summary_schema),
        summary_data=summary_data or b"",
        open_dynamic=open_dynamic,
    )


def acl_to_row(task: TaskState, grant: Grant) -> Parameters:
    """The values of ACL_COLUMNS for a grant given at creation."""
    envelope = task.envelope
    return (
        envelope.bucket,
        envelope.task_id,
        envelope.tenant_id,
        grant.principal_type,
        grant.principal_id,
        grant.permission,
        task.committed_at,
        envelope.created_at,
    )


def relabelled_to_row(state: TaskState) -> Parameters:
    """The values of KEY and RELABELLED."""
    envelope = state.envelope
    return (
        envelope.bucket,
        envelope.task_id,
        envelope.title,
        envelope.task_type,
        envelope.product_id,
        envelope.priority,
        envelope.status_definition_version,
        envelope.operation_definition_version,
    )


def grant_from_row(row: Row) -> Grant:
    """The grant of a row that ends with GRANT_COLUMNS."""
    principal_type, principal_id, permission = row[-3:]
    return Grant(text(principal_type), text(principal_id), text(permission))


def _envelope_row(envelope: TaskEnvelope) -> Parameters:
    return (
        envelope.bucket,
        envelope.task_id,
        envelope.workflow_id,
        envelope.tenant_id,
        envelope.authority_scope,
        envelope.owner_id,
        envelope.client_task_key,
        envelope.creation_digest,
        envelope.title,
        envelope.task_type,
        envelope.product_id,
        envelope.priority,
        envelope.coordinator_producer,
        to_json(envelope.policy_executors),
        envelope.input_ref,
        envelope.created_at,
        envelope.status_definition_version,
        envelope.operation_definition_version,
        envelope.batch_id,
        envelope.parent_task_id,
        envelope.sensitive,
        terms_to_json(envelope.terms),
        envelope.terms.max_run_seconds,
    )


def _mutable_row(state: TaskState) -> Parameters:
    return (
        state.attempt,
        state.version,
        state.row_revision,
        plain(state.lifecycle),
        state.business_status,
        state.cancel_requested,
        state.shared,
        state.weight_total,
        state.progress_points,
        state.open_steps,
        state.stale_steps,
        state.degraded_steps,
        to_json(dict(state.producer_seqs)),
        *failure_to_row(state.failure),
        state.started_at,
        state.finished_at,
        state.duration_ms,
        value_or_null(state.duration_source),
        state.committed_at,
        state.summary_schema,
        state.summary_data or None,
        state.open_dynamic,
    )


def _envelope(row: Row) -> TaskEnvelope:
    (bucket, task_id, workflow_id, tenant_id, scope, owner_id, client_task_key, digest) = row[:8]
    (title, task_type, product_id, priority, coordinator, executors, input_ref, created_at) = row[8:16]
    status_version, operation_version, batch_id, parent_task_id, sensitive, terms, max_run_seconds = row[16:23]
    return TaskEnvelope(
        task_id=TaskId(task_id),
        workflow_id=WorkflowId(workflow_id),
        bucket=bucket,
        tenant_id=text(tenant_id),
        authority_scope=text(scope),
        owner_id=text(owner_id),
        client_task_key=text(client_task_key),
        creation_digest=digest,
        title=title,
        task_type=text(task_type),
        product_id=text(product_id),
        priority=priority,
        coordinator_producer=text(coordinator),
        policy_executors=tuple(from_json(executors)),
        input_ref=input_ref,
        created_at=created_at,
        status_definition_version=status_version,
        operation_definition_version=operation_version,
        batch_id=text(batch_id),
        parent_task_id=None if parent_task_id is None else TaskId(parent_task_id),
        sensitive=bool(sensitive),
        terms=terms_from_json(terms, max_run_seconds),
    )
