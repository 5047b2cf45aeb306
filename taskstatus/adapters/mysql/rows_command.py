"""Rows of ``task_external_ref`` and ``command_audit``."""

from __future__ import annotations

from taskstatus.adapters.mysql.session import Row
from taskstatus.adapters.mysql.statements import Parameters
from taskstatus.adapters.mysql.values import text
from taskstatus.domain.ids import TaskId
from taskstatus.domain.records import AuditRecord, ExternalRefRecord
from taskstatus.domain.state import ExternalRef

REF_COLUMNS = ("bucket", "tenant_id", "authority_scope", "ref_type", "ref_value", "task_id", "created_at")
AUDIT_COLUMNS = (
    "bucket",
    "id",
    "tenant_id",
    "authority_scope",
    "task_id",
    "command_id",
    "action",
    "actor",
    "reason",
    "old_value",
    "new_value",
    "committed_at",
)


def ref_to_row(record: ExternalRefRecord) -> Parameters:
    """The values of REF_COLUMNS."""
    return (
        record.bucket,
        record.tenant_id,
        record.authority_scope,
        record.ref.ref_type,
        record.ref.ref_value,
        record.task_id,
        record.created_at,
    )


def ref_from_row(row: Row) -> ExternalRefRecord:
    """The reference of a row of REF_COLUMNS."""
    bucket, tenant_id, scope, ref_type, ref_value, task_id, created_at = row
    ref = ExternalRef(text(ref_type), text(ref_value))
    return ExternalRefRecord(bucket, text(tenant_id), text(scope), ref, TaskId(task_id), created_at)


def audit_to_row(record: AuditRecord) -> Parameters:
    """The values of AUDIT_COLUMNS."""
    return (
        record.bucket,
        record.audit_id,
        record.tenant_id,
        record.authority_scope,
        record.task_id,
        record.command_id,
        record.action.value,
        record.actor,
        record.reason,
        record.old_value,
        record.new_value,
        record.committed_at,
    )
