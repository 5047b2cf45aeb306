"""The statements of the workflow axis: triggers, members as they are counted, workflows as they are read (L-7).

Members are read without locks: no statement here waits for a task, or makes one wait. DUE_TRIGGERS names no bucket: it
goes by time, on each shard for itself.
"""

from __future__ import annotations

from functools import lru_cache

from taskstatus.adapters.mysql import rows_workflow
from taskstatus.adapters.mysql.hot_sql import qualified
from taskstatus.adapters.mysql.statements import marks

_CACHED_TEXTS = 512
_WORKFLOW = qualified("workflow", rows_workflow.COLUMNS)
_EVENT = qualified("workflow_event_log", rows_workflow.EVENT_COLUMNS)
_STANDING = (
    "task.lifecycle_status,task.is_sensitive,task.stale_steps>0 AS is_stale,task.degraded_steps>0 AS is_degraded,"
    "task.attempt>1 AS runs_again"
)
_BY_STANDING = "task.lifecycle_status,task.is_sensitive,is_stale,is_degraded,runs_again"

DUE_TRIGGERS = (
    "SELECT task_outbox.id,task_outbox.workflow_id,task_outbox.due_at,"
    "TIMESTAMPDIFF(MICROSECOND,task_outbox.committed_at,NOW(6)) AS age "
    "FROM task_outbox FORCE INDEX (outbox_due) "
    "WHERE task_outbox.for_projector=1 AND task_outbox.due_at>=%s "
    "AND (task_outbox.due_at>%s OR task_outbox.id>%s) ORDER BY task_outbox.due_at,task_outbox.id LIMIT %s"
)
"""Parameters: time, time and id of the position, number of rows."""

EVENT_OF_COMMAND = (
    f"SELECT {_EVENT} FROM workflow_event_log FORCE INDEX (workflow_event_log_event) "
    "WHERE workflow_event_log.workflow_id=%s AND workflow_event_log.event_id=%s AND workflow_event_log.bucket=%s "
    "ORDER BY workflow_event_log.workflow_version LIMIT 1"
)
"""The index ends with the primary key, so that the first version comes first without a sort."""

WORKFLOW = f"SELECT {_WORKFLOW},SYSDATE(6) AS now FROM workflow WHERE workflow.id=%s AND workflow.bucket=%s"


@lru_cache(maxsize=_CACHED_TEXTS)
def lock_free_workflows(count: int) -> str:
    """Parameters: ``count`` ids, as many buckets. Those that another transaction holds are passed over."""
    return (
        f"SELECT {_WORKFLOW},SYSDATE(6) AS now FROM workflow FORCE INDEX (PRIMARY) "
        f"WHERE workflow.id IN ({marks(count)}) AND workflow.bucket IN ({marks(count)}) "
        "ORDER BY workflow.id FOR UPDATE SKIP LOCKED"
    )


@lru_cache(maxsize=_CACHED_TEXTS)
def existing_workflows(count: int) -> str:
    """Parameters: ``count`` ids, as many buckets."""
    return (
        f"SELECT workflow.id FROM workflow FORCE INDEX (PRIMARY) WHERE workflow.id IN ({marks(count)}) "
        f"AND workflow.bucket IN ({marks(count)})"
    )


@lru_cache(maxsize=_CACHED_TEXTS)
def existing_triggers(count: int) -> str:
    """Parameters: ``count`` outbox ids, as many buckets."""
    return (
        f"SELECT task_outbox.id FROM task_outbox FORCE INDEX (PRIMARY) WHERE task_outbox.id IN ({marks(count)}) "
        f"AND task_outbox.bucket IN ({marks(count)}) AND task_outbox.for_projector=1"
    )


@lru_cache(maxsize=_CACHED_TEXTS)
def delete_triggers(count: int) -> str:
    """Parameters: ``count`` outbox ids, as many buckets."""
    return (
        f"DELETE FROM task_outbox WHERE task_outbox.id IN ({marks(count)}) "
        f"AND task_outbox.bucket IN ({marks(count)}) AND task_outbox.for_projector=1"
    )


@lru_cache(maxsize=_CACHED_TEXTS)
def count_members(count: int) -> str:
    """Parameters: ``count`` workflow ids, as many buckets. Costs a look at each member."""
    return (
        f"SELECT task.workflow_id,{_STANDING},COUNT(*) AS members FROM task FORCE INDEX (task_workflow) "
        f"WHERE task.workflow_id IN ({marks(count)}) AND task.bucket IN ({marks(count)}) "
        f"GROUP BY task.workflow_id,{_BY_STANDING}"
    )


@lru_cache(maxsize=_CACHED_TEXTS)
def count_seen_members(projects: int, roles: int) -> str:
    """Parameters: workflow, bucket, user, ``projects`` ids, ``roles`` names. Counts what one person may see (P-4)."""
    principals = ["task_acl.principal_type='USER' AND task_acl.principal_id=%s"]
    if projects:
        principals.append(f"task_acl.principal_type='PROJECT' AND task_acl.principal_id IN ({marks(projects)})")
    if roles:
        principals.append(f"task_acl.principal_type='ROLE' AND task_acl.principal_id IN ({marks(roles)})")
    return (
        f"SELECT task.workflow_id,{_STANDING},COUNT(*) AS members,"
        "MIN(task.started_at) AS started_at,MAX(task.finished_at) AS finished_at "
        "FROM task FORCE INDEX (task_workflow) WHERE task.workflow_id=%s AND task.bucket=%s "
        "AND EXISTS (SELECT 1 FROM task_acl FORCE INDEX (PRIMARY) WHERE task_acl.task_id=task.id "
        f"AND task_acl.bucket=task.bucket AND task_acl.revoked_at IS NULL AND (({') OR ('.join(principals)}))) "
        f"GROUP BY task.workflow_id,{_BY_STANDING}"
    )


@lru_cache(maxsize=_CACHED_TEXTS)
def workflow_grants(count: int) -> str:
    """Parameters: ``count`` workflow ids, as many buckets."""
    return (
        "SELECT workflow_acl.workflow_id,workflow_acl.principal_type,workflow_acl.principal_id,workflow_acl.permission "
        f"FROM workflow_acl FORCE INDEX (PRIMARY) WHERE workflow_acl.workflow_id IN ({marks(count)}) "
        f"AND workflow_acl.bucket IN ({marks(count)}) AND workflow_acl.revoked_at IS NULL "
        "ORDER BY workflow_acl.workflow_id,workflow_acl.principal_type,workflow_acl.principal_id"
    )
