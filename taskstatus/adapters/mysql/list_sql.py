"""The statements of ``list_table``: keys of a list in its order by one index, then the rows of those keys.

Each branch of a person's list reads one index from the position on and stops at its limit; nothing is sorted, and
``list_table`` merges the branches. Where a list is that of one workflow, batch or parent, its index is read and each
task's grants are probed by their key; the probe has a LIMIT, so that MariaDB does not turn it into a join.

A person's tasks lie in many buckets: what goes by owner, grantee, batch, parent, event, trace or number names none.
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache

from taskstatus.adapters.mysql.hot_sql import either, qualified
from taskstatus.adapters.mysql.statements import marks

_CACHED_TEXTS = 256
MAX_BRANCHES = 64
"""Grantees of one statement; a person with more projects and roles gets several statements."""
SAME_EVENT_ID = 10_000
"""How many events with one id are looked at, in all tenants together: an id is unique within its task only."""
MAX_SCOPES = 100
"""Tasks that one number names in different scopes of a tenant."""

EVENT_COLUMNS = (
    "workflow_id",
    "task_id",
    "event_id",
    "task_version",
    "event_type",
    "step_id",
    "execution_id",
    "actor",
    "trace_id",
    "committed_at",
)
NOTIFICATION_COLUMNS = (
    "aggregate_id",
    "aggregate_version",
    "id",
    "projection",
    "status",
    "attempts",
    "last_error",
    "published_at",
)
_EVENT = qualified("task_event_log", EVENT_COLUMNS)
_NOTIFICATION = qualified("task_outbox", NOTIFICATION_COLUMNS)


class Source(StrEnum):
    """Whose index gives the keys of a list."""

    WORKFLOW = "WORKFLOW"
    BATCH = "BATCH"
    PARENT = "PARENT"


_OF_SOURCE = {
    Source.WORKFLOW: ("task_workflow", "task.workflow_id=%s AND task.bucket=%s"),
    Source.BATCH: ("task_batch", "task.tenant_id=%s AND task.batch_id=%s"),
    Source.PARENT: ("task_parent", "task.parent_task_id=%s"),
}
"""(index, condition); parameters: workflow and bucket, tenant and batch, parent."""

WORKFLOW_OWNER = (
    "SELECT workflow.tenant_id,workflow.authority_scope,workflow.owner_id FROM workflow "
    "WHERE workflow.id=%s AND workflow.bucket=%s"
)
REFERENCED = (
    "SELECT task_external_ref.task_id FROM task_external_ref FORCE INDEX (PRIMARY) "
    "WHERE task_external_ref.tenant_id=%s AND task_external_ref.ref_type=%s AND task_external_ref.ref_value=%s"
)
REFERENCED_IN_SCOPE = f"{REFERENCED} AND task_external_ref.authority_scope=%s"
REFERENCED_ANYWHERE = f"{REFERENCED} ORDER BY task_external_ref.authority_scope LIMIT {MAX_SCOPES}"

EVENTS_BY_ID = (
    f"SELECT {qualified('named', EVENT_COLUMNS)} FROM (SELECT {_EVENT},task_event_log.bucket FROM task_event_log "
    "FORCE INDEX (task_event_log_event) WHERE task_event_log.event_id=%s "
    f"ORDER BY task_event_log.task_id DESC LIMIT {SAME_EVENT_ID}) AS named STRAIGHT_JOIN task FORCE INDEX (PRIMARY) "
    "ON task.id=named.task_id AND task.bucket=named.bucket WHERE task.tenant_id=%s AND task.authority_scope=%s LIMIT %s"
)
EVENTS_OF_TRACE = (
    f"SELECT {_EVENT} FROM task_event_log FORCE INDEX (task_event_log_trace) STRAIGHT_JOIN task FORCE INDEX (PRIMARY) "
    "ON task.id=task_event_log.task_id AND task.bucket=task_event_log.bucket "
    "WHERE task_event_log.trace_id=%s AND task.tenant_id=%s AND task.authority_scope=%s "
    "ORDER BY task_event_log.committed_at,task_event_log.task_id,task_event_log.task_version LIMIT %s"
)


@lru_cache(maxsize=_CACHED_TEXTS)
def own_keys(*, owned: bool, grantees: int) -> str:
    """(created at, id, branch, bucket) of a person's tasks, branch by branch, each the newest first.

    Parameters: with ``owned`` tenant, owner, range, limit; for each grantee tenant, type, id, range, limit. A range is
    what ``_after`` asks for.
    """
    branches = [_OWNED, *[_GRANTED] * grantees] if owned else [_GRANTED] * grantees
    return " UNION ALL ".join(branch.format(number=number) for number, branch in enumerate(branches))


@lru_cache(maxsize=_CACHED_TEXTS)
def keys_of(source: Source, *, oldest_first: bool, projects: int, roles: int, everything: bool) -> str:
    """(created at, id, branch) of the tasks of one workflow, batch or parent, in order.

    Parameters: those of the source, range; unless ``everything``: tenant, owner, user, projects, roles; limit.
    """
    index, condition = _OF_SOURCE[source]
    visible = "" if everything else f" AND task.tenant_id=%s AND (task.owner_id=%s OR {_granted(projects, roles)})"
    after, order = _after(*_CREATED, oldest_first=oldest_first), _order(*_CREATED, oldest_first=oldest_first)
    return (
        f"SELECT task.created_at,task.id,0 AS branch FROM task FORCE INDEX ({index}) "
        f"WHERE {condition} AND {after}{visible} ORDER BY {order} LIMIT %s"
    )


@lru_cache(maxsize=_CACHED_TEXTS)
def matching(count: int, lifecycles: int, *, task_type: bool, batch: bool, parent: bool) -> str:
    """(id, title) of those tasks that fulfil the conditions; the title is judged by ``TaskFilter``.

    Parameters: ``count`` ids, as many buckets, the lifecycles, then task type, batch and parent where given.
    """
    conditions = [f"task.id IN ({marks(count)}) AND task.bucket IN ({marks(count)})"]
    if lifecycles:
        conditions.append(f"task.lifecycle_status IN ({marks(lifecycles)})")
    given = (("task_type", task_type), ("batch_id", batch), ("parent_task_id", parent))
    conditions += [f"task.{column}=%s" for column, is_given in given if is_given]
    return f"SELECT task.id,task.title FROM task FORCE INDEX (PRIMARY) WHERE {' AND '.join(conditions)}"


@lru_cache(maxsize=_CACHED_TEXTS)
def notifications(count: int) -> str:
    """Parameters: ``count`` times (task, version), as many buckets. Those for the service itself are left out."""
    key = "task_outbox.aggregate_type='TASK' AND task_outbox.aggregate_id=%s AND task_outbox.aggregate_version=%s"
    return (
        f"SELECT {_NOTIFICATION} FROM task_outbox FORCE INDEX (outbox_message) WHERE {either(key, count)} "
        f"AND task_outbox.bucket IN ({marks(count)}) AND task_outbox.for_projector=0"
    )


def _granted(projects: int, roles: int) -> str:
    """Whether a grant names the person. Parameters: user, projects, roles."""
    principals = ["task_acl.principal_type='USER' AND task_acl.principal_id=%s"]
    for principal_type, count in (("PROJECT", projects), ("ROLE", roles)):
        if count:
            principals.append(
                f"task_acl.principal_type='{principal_type}' AND task_acl.principal_id IN ({marks(count)})"
            )
    return (
        "(SELECT 1 FROM task_acl FORCE INDEX (PRIMARY) WHERE task_acl.task_id=task.id AND task_acl.bucket=task.bucket "
        f"AND task_acl.revoked_at IS NULL AND ({' OR '.join(principals)}) LIMIT 1) IS NOT NULL"
    )


def _after(created_at: str, key: str, *, oldest_first: bool = False) -> str:
    """What comes after a position.

    Parameters: the other end of the range, which belongs to it only where the newest come first; the position's time
    twice; its id.
    """
    if oldest_first:
        return f"{created_at}<%s AND {created_at}>=%s AND ({created_at}>%s OR {key}>%s)"
    return f"{created_at}>=%s AND {created_at}<=%s AND ({created_at}<%s OR {key}<%s)"


def _order(created_at: str, key: str, *, oldest_first: bool = False) -> str:
    return f"{created_at},{key}" if oldest_first else f"{created_at} DESC,{key} DESC"


_CREATED = ("task.created_at", "task.id")
_GRANTED_AT = ("task_acl.task_created_at", "task_acl.task_id")
# The bucket is in neither index: MySQL would rather scan an index that covers all than read a range of it.
_OWNED = (
    "(SELECT task.created_at,task.id,{number} AS branch,task.bucket FROM task FORCE INDEX (task_owner) "
    "WHERE task.tenant_id=%s AND task.owner_id=%s "
    f"AND {_after(*_CREATED)} ORDER BY {_order(*_CREATED)} LIMIT %s)"
)
_GRANTED = (
    "(SELECT task_acl.task_created_at,task_acl.task_id,{number} AS branch,task_acl.bucket "
    "FROM task_acl FORCE INDEX (task_acl_principal) "
    "WHERE task_acl.tenant_id=%s AND task_acl.principal_type=%s AND task_acl.principal_id=%s "
    f"AND task_acl.revoked_at IS NULL AND {_after(*_GRANTED_AT)} ORDER BY {_order(*_GRANTED_AT)} LIMIT %s)"
)
