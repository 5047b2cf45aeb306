"""The statements of the write path, each written once: fixed columns, any number of rows, ``bucket`` in every one.

The bucket is bound as a plain integer, once per key, and named for each table of a join: that is what a router by
bucket can follow. Texts are cached by their number of keys. FORCE INDEX keeps a locking read a range over the primary
key even where statistics of a small or new table would favour a scan, which would lock rows of others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from taskstatus.adapters.mysql import (
    rows_command,
    rows_event,
    rows_lease,
    rows_outbox,
    rows_run,
    rows_standing,
    rows_step,
    rows_task,
    rows_workflow,
)
from taskstatus.adapters.mysql.stand_ins import stand_ins, stand_ins_beside
from taskstatus.adapters.mysql.statements import MultiRow, marks
from taskstatus.domain.lease import MAX_PATIENCE

_CACHED_TEXTS = 1024


def qualified(table: str, columns: tuple[str, ...]) -> str:
    """The columns with their table, for a SELECT list."""
    return ",".join(f"{table}.{column}" for column in columns)


def either(condition: str, count: int) -> str:
    """``count`` alternatives of a condition on several columns: a range on both products, unlike row constructors."""
    return f"({' OR '.join([condition] * count)})"


_TASK = qualified("task", rows_task.COLUMNS)
_STEP = qualified("task_step", rows_step.COLUMNS)
_SEEN = qualified("task_event_dedup", rows_event.SEEN_COLUMNS)
_LEASE = qualified("task_execution_lease", rows_lease.COLUMNS)
_WORKFLOW = qualified("workflow", rows_workflow.COLUMNS)
_RUN = qualified("task_run", rows_run.COLUMNS + rows_run.OUTCOME)
_EVENT = qualified("task_event_log", rows_event.COLUMNS)
_REF = qualified("task_external_ref", rows_command.REF_COLUMNS)
_TASK_GRANT = qualified("task_acl", rows_task.GRANT_COLUMNS)
_WORKFLOW_GRANT = qualified("workflow_acl", rows_task.GRANT_COLUMNS)
_STANDING = ",".join(rows_standing.COLUMNS)

NOW = "SELECT SYSDATE(6) AS now"

FIND_WORKFLOW_BY_KEY = (
    f"SELECT {_WORKFLOW} FROM workflow "
    "WHERE workflow.tenant_id=%s AND workflow.authority_scope=%s AND workflow.client_workflow_key=%s"
)
"""By a caller's key: the one look-up that cannot name a bucket (a lookup vindex there)."""

LOCK_WORKFLOW = (
    f"SELECT {_WORKFLOW},SYSDATE(6) AS now FROM workflow WHERE workflow.id=%s AND workflow.bucket=%s FOR UPDATE"
)
WORKFLOW_GRANTS = (
    f"SELECT {_WORKFLOW_GRANT} FROM workflow_acl "
    "WHERE workflow_acl.workflow_id=%s AND workflow_acl.bucket=%s AND workflow_acl.revoked_at IS NULL"
)

RELABEL_TASK = (
    f"UPDATE task SET {','.join(f'{column}=%s' for column in rows_task.RELABELLED)} WHERE task.id=%s AND task.bucket=%s"
)
STEPS_OF_RUN = (
    f"SELECT {_STEP} FROM task_step FORCE INDEX (PRIMARY) "
    "WHERE task_step.task_id=%s AND task_step.task_attempt=%s AND task_step.bucket=%s"
)
LAST_STEP_VERSION = (
    "SELECT MAX(task_step.version) AS version FROM task_step FORCE INDEX (PRIMARY) "
    "WHERE task_step.task_id=%s AND task_step.step_id=%s AND task_step.bucket=%s"
)
"""Over all runs of a task: asked when a dynamic step is registered in a later run, never for an event."""
EVENT_BY_ID = (
    f"SELECT {_EVENT} FROM task_event_log FORCE INDEX (task_event_log_event) "
    "WHERE task_event_log.event_id=%s AND task_event_log.task_id=%s AND task_event_log.bucket=%s"
)
EXTERNAL_REF = (
    f"SELECT {_REF} FROM task_external_ref WHERE task_external_ref.tenant_id=%s "
    "AND task_external_ref.authority_scope=%s AND task_external_ref.ref_type=%s AND task_external_ref.ref_value=%s"
)
"""By a number of another system: it cannot name a bucket (a lookup vindex there)."""
REFS_OF_TASK = (
    f"SELECT {_REF} FROM task_external_ref FORCE INDEX (task_external_ref_task) "
    "WHERE task_external_ref.task_id=%s AND task_external_ref.bucket=%s "
    "ORDER BY task_external_ref.ref_type,task_external_ref.ref_value"
)


@lru_cache(maxsize=_CACHED_TEXTS)
def runs(count: int) -> str:
    """Parameters: ``count`` times (task, run), as many buckets. Under the locks of their tasks."""
    return (
        f"SELECT {_RUN} FROM task_run FORCE INDEX (PRIMARY) "
        f"WHERE {either('task_run.task_id=%s AND task_run.task_attempt=%s', count)} "
        f"AND task_run.bucket IN ({marks(count)})"
    )


@lru_cache(maxsize=_CACHED_TEXTS)
def tasks_unlocked(count: int) -> str:
    """Parameters: ``count`` ids, as many buckets."""
    return (
        f"SELECT {_TASK} FROM task FORCE INDEX (PRIMARY) WHERE task.id IN ({marks(count)}) "
        f"AND task.bucket IN ({marks(count)})"
    )


@lru_cache(maxsize=_CACHED_TEXTS)
def task_grants(count: int) -> str:
    """Parameters: ``count`` task ids, as many buckets."""
    return (
        f"SELECT task_acl.task_id,{_TASK_GRANT} FROM task_acl FORCE INDEX (PRIMARY) "
        f"WHERE task_acl.task_id IN ({marks(count)}) AND task_acl.bucket IN ({marks(count)}) "
        "AND task_acl.revoked_at IS NULL"
    )


@lru_cache(maxsize=_CACHED_TEXTS)
def tasks_by_key(count: int) -> str:
    """Parameters: workflow, ``count`` client task keys, bucket."""
    return (
        f"SELECT {_TASK} FROM task FORCE INDEX (task_client_key) "
        f"WHERE task.workflow_id=%s AND task.client_task_key IN ({marks(count)}) AND task.bucket=%s"
    )


@lru_cache(maxsize=_CACHED_TEXTS)
def lock_tasks(count: int) -> str:
    """Parameters: ``count`` ids, as many buckets. SYSDATE is read per row, after its lock was obtained."""
    return (
        f"SELECT {_TASK},SYSDATE(6) AS now FROM task FORCE INDEX (PRIMARY) WHERE task.id IN ({marks(count)}) "
        f"AND task.bucket IN ({marks(count)}) ORDER BY task.id FOR UPDATE"
    )


@lru_cache(maxsize=_CACHED_TEXTS)
def executions(count: int) -> str:
    """Parameters: ``count`` execution ids, as many buckets."""
    return (
        f"SELECT {_STEP} FROM task_step FORCE INDEX (task_step_execution) "
        f"WHERE task_step.execution_id IN ({marks(count)}) AND task_step.bucket IN ({marks(count)})"
    )


@lru_cache(maxsize=_CACHED_TEXTS)
def step_attempts(count: int) -> str:
    """Parameters: ``count`` times (task, run, step id), as many buckets."""
    key = "task_step.task_id=%s AND task_step.task_attempt=%s AND task_step.step_id=%s"
    return (
        f"SELECT {_STEP} FROM task_step FORCE INDEX (PRIMARY) WHERE {either(key, count)} "
        f"AND task_step.bucket IN ({marks(count)})"
    )


@lru_cache(maxsize=_CACHED_TEXTS)
def seen_events(count: int) -> str:
    """Parameters: ``count`` times (task, event id), as many buckets."""
    key = "task_event_dedup.task_id=%s AND task_event_dedup.event_id=%s"
    return (
        f"SELECT {_SEEN} FROM task_event_dedup FORCE INDEX (PRIMARY) WHERE {either(key, count)} "
        f"AND task_event_dedup.bucket IN ({marks(count)})"
    )


@lru_cache(maxsize=_CACHED_TEXTS)
def cancel_unfinished_steps(count: int) -> str:
    """Parameters: ``count`` times (task, run, ended at), ``count`` times (task, run), as many buckets (L-1)."""
    return (
        "UPDATE task_step FORCE INDEX (PRIMARY) SET task_step.lifecycle_status='CANCELLED',"
        "task_step.business_status='CANCELLED',"
        f"task_step.end_reason='TASK_ENDED',task_step.is_stale=0,task_step.finished_at={_case('task_step', count)},"
        "task_step.version=task_step.version+1,task_step.write_count=task_step.write_count+1 "
        f"WHERE {either('task_step.task_id=%s AND task_step.task_attempt=%s', count)} "
        f"AND task_step.bucket IN ({marks(count)}) "
        "AND task_step.lifecycle_status IN ('PENDING','RUNNING','CANCELLING')"
    )


@lru_cache(maxsize=_CACHED_TEXTS)
def lock_leases(count: int) -> str:
    """Parameters: ``count`` execution ids, as many buckets."""
    return (
        f"SELECT {_LEASE} FROM task_execution_lease FORCE INDEX (PRIMARY) "
        f"WHERE task_execution_lease.execution_id IN ({marks(count)}) "
        f"AND task_execution_lease.bucket IN ({marks(count)}) ORDER BY task_execution_lease.execution_id FOR UPDATE"
    )


@lru_cache(maxsize=_CACHED_TEXTS)
def change_leases(count: int) -> str:
    """Parameters: for each of CHANGED ``count`` times (execution id, value); ``count`` execution ids, as many buckets.

    Guarded: a lease that has been closed is not touched.
    """
    cases = f"CASE task_execution_lease.execution_id {' '.join(['WHEN %s THEN %s'] * count)} END"
    changes = ",".join(f"task_execution_lease.{column}={cases}" for column in rows_lease.CHANGED)
    return (
        f"UPDATE task_execution_lease FORCE INDEX (PRIMARY) SET {changes} "
        f"WHERE task_execution_lease.execution_id IN ({marks(count)}) "
        f"AND task_execution_lease.bucket IN ({marks(count)}) AND task_execution_lease.closed_at IS NULL"
    )


@lru_cache(maxsize=_CACHED_TEXTS)
def close_leases_of_runs(count: int) -> str:
    """Parameters: ``count`` times (task, run, ended at), ``count`` times (task, run), as many buckets (L-1)."""
    return (
        "UPDATE task_execution_lease FORCE INDEX (lease_task) "
        f"SET task_execution_lease.closed_at={_case('task_execution_lease', count)},"
        "task_execution_lease.deadline_at=NULL,task_execution_lease.stuck_at=NULL "
        f"WHERE {either('task_execution_lease.task_id=%s AND task_execution_lease.task_attempt=%s', count)} "
        f"AND task_execution_lease.bucket IN ({marks(count)}) AND task_execution_lease.closed_at IS NULL"
    )


@lru_cache(maxsize=_CACHED_TEXTS)
def close_leases(count: int) -> str:
    """Parameters: ``count`` execution ids, as many buckets. Guarded: a closed lease keeps its time (H-3)."""
    return (
        "UPDATE task_execution_lease FORCE INDEX (PRIMARY) "
        "SET task_execution_lease.closed_at=SYSDATE(6),task_execution_lease.deadline_at=NULL,"
        "task_execution_lease.stuck_at=NULL "
        f"WHERE task_execution_lease.execution_id IN ({marks(count)}) "
        f"AND task_execution_lease.bucket IN ({marks(count)}) AND task_execution_lease.closed_at IS NULL"
    )


@lru_cache(maxsize=_CACHED_TEXTS)
def persist_beats(count: int) -> str:
    """Parameters: ``count`` times (bucket, execution id, sequence, microseconds waited, interval, timeout) (H-2).

    Guarded: a closed lease stays closed, nothing goes back, 0 s leave the terms, and while the step is STALE the
    deadline is the reconciler's. NOW is when the statement began: waiting for a row's lock makes no beat younger.
    No column says the parameters' types: each must keep its kind, which MySQL fixes at the first execution.
    """
    first = "SELECT %s AS bucket,%s AS execution_id,%s AS seq,%s AS waited,%s AS every,%s AS within"
    at = "NOW(6)-INTERVAL beat.waited MICROSECOND"
    lease = "task_execution_lease"
    timeout = f"IF(beat.within=0,{lease}.timeout_seconds,beat.within)"
    deadline = f"{at}+INTERVAL {timeout}*(1+LEAST({lease}.recoveries,{MAX_PATIENCE})) SECOND"
    return (
        f"UPDATE ({' UNION ALL '.join([first, *['SELECT %s,%s,%s,%s,%s,%s'] * (count - 1)])}) AS beat "
        f"STRAIGHT_JOIN {lease} FORCE INDEX (PRIMARY) "
        f"ON {lease}.execution_id=beat.execution_id AND {lease}.bucket=beat.bucket SET "
        f"{lease}.deadline_at=IF({lease}.stale_since IS NULL,"
        f"GREATEST(COALESCE({lease}.deadline_at,{deadline}),{deadline}),{lease}.deadline_at),"
        f"{lease}.last_heartbeat_at=GREATEST(COALESCE({lease}.last_heartbeat_at,{at}),{at}),"
        f"{lease}.heartbeat_seq=GREATEST({lease}.heartbeat_seq,beat.seq),"
        f"{lease}.interval_seconds=IF(beat.every=0,{lease}.interval_seconds,beat.every),"
        f"{lease}.timeout_seconds={timeout} "
        f"WHERE {lease}.closed_at IS NULL"
    )


@lru_cache(maxsize=_CACHED_TEXTS)
def standings(count: int) -> str:
    """Parameters: ``count`` execution ids, as many buckets. Reads without locks: heartbeats never wait for a task."""
    return (
        f"SELECT STRAIGHT_JOIN {_STANDING},SYSDATE(6) AS now FROM task_step FORCE INDEX (task_step_execution) "
        "JOIN task FORCE INDEX (PRIMARY) ON task.id=task_step.task_id AND task.bucket=task_step.bucket "
        "LEFT JOIN task_execution_lease FORCE INDEX (PRIMARY) "
        "ON task_execution_lease.execution_id=task_step.execution_id "
        "AND task_execution_lease.bucket=task_step.bucket "
        f"WHERE task_step.execution_id IN ({marks(count)}) AND task_step.bucket IN ({marks(count)})"
    )


def _case(table: str, count: int) -> str:
    return f"CASE {' '.join([f'WHEN {table}.task_id=%s AND {table}.task_attempt=%s THEN %s'] * count)} END"


INSERT_WORKFLOWS = MultiRow("workflow", rows_workflow.COLUMNS)
UPDATE_WORKFLOWS = MultiRow(
    "workflow",
    rows_workflow.KEY + rows_workflow.MUTABLE,
    updated=rows_workflow.MUTABLE,
    fixed=stand_ins(rows_workflow.FROZEN),
)
INSERT_WORKFLOW_GRANTS = MultiRow("workflow_acl", rows_workflow.ACL_COLUMNS)
INSERT_WORKFLOW_EVENTS = MultiRow("workflow_event_log", rows_workflow.EVENT_COLUMNS)
INSERT_TASKS = MultiRow("task", rows_task.COLUMNS)
UPDATE_TASKS = MultiRow(
    "task", rows_task.KEY + rows_task.MUTABLE, updated=rows_task.MUTABLE, fixed=stand_ins(rows_task.FROZEN)
)
PROGRESS_TASKS = MultiRow(
    "task",
    rows_task.KEY + rows_task.PROGRESSED,
    updated=rows_task.PROGRESSED,
    fixed=stand_ins_beside(rows_task.COLUMNS, rows_task.KEY + rows_task.PROGRESSED),
)
"""Most events are progress: a quarter of the columns, for two thirds of the server's time."""
INSERT_RUNS = MultiRow("task_run", rows_run.COLUMNS)
END_RUNS = MultiRow(
    "task_run",
    rows_run.KEY + rows_run.OUTCOME,
    updated=rows_run.OUTCOME,
    fixed=(*stand_ins(rows_run.FROZEN), ("dynamic_steps", "0")),
)
COUNT_REGISTRATIONS = MultiRow(
    "task_run",
    rows_run.KEY + rows_run.REGISTRATIONS,
    updated=rows_run.REGISTRATIONS,
    fixed=stand_ins(rows_run.FROZEN),
)
INSERT_STEPS = MultiRow("task_step", rows_step.COLUMNS, fixed=(("write_count", "0"),))
UPDATE_STEPS = MultiRow(
    "task_step",
    rows_step.KEY + rows_step.MUTABLE,
    updated=rows_step.MUTABLE,
    fixed=(*stand_ins(rows_step.FROZEN), ("write_count", "0")),
    computed=(("write_count", "task_step.write_count+1"),),
)
PROGRESS_STEPS = MultiRow(
    "task_step",
    rows_step.KEY + rows_step.PROGRESSED,
    updated=rows_step.PROGRESSED,
    fixed=(*stand_ins_beside(rows_step.COLUMNS, rows_step.KEY + rows_step.PROGRESSED), ("write_count", "0")),
    computed=(("write_count", "task_step.write_count+1"),),
)
INSERT_LEASES = MultiRow("task_execution_lease", rows_outbox.LEASE_COLUMNS, fixed=(("heartbeat_seq", "0"),))
INSERT_EXTERNAL_REFS = MultiRow("task_external_ref", rows_command.REF_COLUMNS)
INSERT_AUDITS = MultiRow("command_audit", rows_command.AUDIT_COLUMNS)
INSERT_TASK_GRANTS = MultiRow("task_acl", rows_task.ACL_COLUMNS)
INSERT_DEDUPS = MultiRow("task_event_dedup", rows_event.DEDUP_COLUMNS, fixed=(("created_at", "SYSDATE(6)"),))
INSERT_EVENTS = MultiRow("task_event_log", rows_event.COLUMNS)
INSERT_OUTBOX = MultiRow(
    "task_outbox", rows_outbox.COLUMNS, fixed=(("status", "'PENDING'"), ("attempts", "0"), ("failures", "0"))
)

HOT_STATEMENTS: Mapping[str, Callable[[int], str]] = {
    "lock_workflow": lambda _count: LOCK_WORKFLOW,
    "workflow_grants": lambda _count: WORKFLOW_GRANTS,
    "update_workflows": UPDATE_WORKFLOWS.text,
    "tasks_by_key": tasks_by_key,
    "lock_tasks": lock_tasks,
    "executions": executions,
    "step_attempts": step_attempts,
    "seen_events": seen_events,
    "insert_workflows": INSERT_WORKFLOWS.text,
    "insert_workflow_grants": INSERT_WORKFLOW_GRANTS.text,
    "insert_workflow_events": INSERT_WORKFLOW_EVENTS.text,
    "insert_tasks": INSERT_TASKS.text,
    "update_tasks": UPDATE_TASKS.text,
    "progress_tasks": PROGRESS_TASKS.text,
    "insert_runs": INSERT_RUNS.text,
    "end_runs": END_RUNS.text,
    "count_registrations": COUNT_REGISTRATIONS.text,
    "relabel_task": lambda _count: RELABEL_TASK,
    "runs": runs,
    "tasks_unlocked": tasks_unlocked,
    "steps_of_run": lambda _count: STEPS_OF_RUN,
    "last_step_version": lambda _count: LAST_STEP_VERSION,
    "event_by_id": lambda _count: EVENT_BY_ID,
    "task_grants": task_grants,
    "insert_external_refs": INSERT_EXTERNAL_REFS.text,
    "insert_audits": INSERT_AUDITS.text,
    "insert_steps": INSERT_STEPS.text,
    "update_steps": UPDATE_STEPS.text,
    "progress_steps": PROGRESS_STEPS.text,
    "cancel_unfinished_steps": cancel_unfinished_steps,
    "insert_leases": INSERT_LEASES.text,
    "lock_leases": lock_leases,
    "change_leases": change_leases,
    "close_leases": close_leases,
    "close_leases_of_runs": close_leases_of_runs,
    "persist_beats": persist_beats,
    "standings": standings,
    "insert_task_grants": INSERT_TASK_GRANTS.text,
    "insert_dedups": INSERT_DEDUPS.text,
    "insert_events": INSERT_EVENTS.text,
    "insert_outbox": INSERT_OUTBOX.text,
}
"""Every statement of a write transaction, and the beats', by name; NOW and FIND_WORKFLOW_BY_KEY name no bucket."""
