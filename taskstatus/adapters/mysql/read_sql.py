"""The statements of ``reader``: every join on ``bucket`` too, every key with its bucket.

STRAIGHT_JOIN reads the tasks first: MariaDB would otherwise read all events of a task to find the one of its version.
"""

from __future__ import annotations

from functools import lru_cache

from taskstatus.adapters.mysql import rows_command, rows_event, rows_run, rows_step, rows_task
from taskstatus.adapters.mysql.hot_sql import qualified
from taskstatus.adapters.mysql.statements import marks
from taskstatus.domain.records import RUNS_SHOWN

_CACHED_TEXTS = 512
_TASK = qualified("task", rows_task.COLUMNS)
_STEP = qualified("task_step", rows_step.COLUMNS)
_EVENT = qualified("task_event_log", rows_event.COLUMNS)
_RUN = qualified("task_run", rows_run.COLUMNS + rows_run.OUTCOME)
_REF = qualified("task_external_ref", rows_command.REF_COLUMNS)
_BINDING = (
    "task.tenant_id,task.authority_scope,task.workflow_id,task_step.task_id,task_step.task_attempt,task_step.step_id,"
    "task_step.attempt,task_step.operation_code,task_step.expected_producer,task_step.definition_version,"
    "task_step.definition_task_type,task.terms,task_step.execution_id"
)
_OF_EXECUTION = (
    "FROM task_step JOIN task ON task.id=task_step.task_id AND task.bucket=task_step.bucket "
    "WHERE task_step.execution_id=%s AND task_step.bucket=%s"
)

EXECUTION_STATE = f"SELECT {_TASK},{_STEP} {_OF_EXECUTION}"

TIMELINE_POSITION = (
    "SELECT task.version,(SELECT MIN(task_event_log.task_version) FROM task_event_log "
    "WHERE task_event_log.task_id=%s AND task_event_log.bucket=%s) AS oldest "
    "FROM task WHERE task.id=%s AND task.bucket=%s"
)
TIMELINE_PAGE = (
    f"SELECT {_EVENT} FROM task_event_log WHERE task_event_log.task_id=%s AND task_event_log.bucket=%s "
    "AND task_event_log.task_version>%s ORDER BY task_event_log.task_version LIMIT %s"
)


@lru_cache(maxsize=_CACHED_TEXTS)
def execution_bindings(count: int) -> str:
    """Parameters: ``count`` execution ids, then as many buckets."""
    return (
        f"SELECT STRAIGHT_JOIN {_BINDING} FROM task_step FORCE INDEX (task_step_execution) "
        "JOIN task ON task.id=task_step.task_id AND task.bucket=task_step.bucket "
        f"WHERE task_step.execution_id IN ({marks(count)}) AND task_step.bucket IN ({marks(count)})"
    )


@lru_cache(maxsize=_CACHED_TEXTS)
def execution_states(count: int) -> str:
    """Parameters: ``count`` execution ids, then as many buckets."""
    return (
        f"SELECT STRAIGHT_JOIN {_TASK},{_STEP} FROM task_step FORCE INDEX (task_step_execution) "
        "JOIN task ON task.id=task_step.task_id AND task.bucket=task_step.bucket "
        f"WHERE task_step.execution_id IN ({marks(count)}) AND task_step.bucket IN ({marks(count)})"
    )


@lru_cache(maxsize=_CACHED_TEXTS)
def tasks(count: int) -> str:
    """Parameters: ``count`` ids, as many buckets."""
    return f"SELECT {_TASK},SYSDATE(6) AS now FROM task FORCE INDEX (PRIMARY) WHERE {_tasks_are(count)}"


@lru_cache(maxsize=_CACHED_TEXTS)
def steps_of_current_runs(count: int) -> str:
    """Parameters: ``count`` task ids, as many buckets."""
    return (
        f"SELECT {_STEP} FROM task FORCE INDEX (PRIMARY) STRAIGHT_JOIN task_step FORCE INDEX (PRIMARY) "
        "ON task_step.task_id=task.id AND task_step.bucket=task.bucket AND task_step.task_attempt=task.attempt "
        f"WHERE {_tasks_are(count)}"
    )


@lru_cache(maxsize=_CACHED_TEXTS)
def events_of_current_versions(count: int) -> str:
    """Parameters: ``count`` task ids, as many buckets."""
    return (
        f"SELECT {_EVENT} FROM task FORCE INDEX (PRIMARY) STRAIGHT_JOIN task_event_log FORCE INDEX (PRIMARY) "
        "ON task_event_log.task_id=task.id AND task_event_log.bucket=task.bucket "
        f"AND task_event_log.task_version=task.version WHERE {_tasks_are(count)}"
    )


@lru_cache(maxsize=_CACHED_TEXTS)
def runs_of_tasks(count: int) -> str:
    """Parameters: ``count`` task ids, as many buckets."""
    return (
        f"SELECT {_RUN} FROM task FORCE INDEX (PRIMARY) STRAIGHT_JOIN task_run FORCE INDEX (PRIMARY) "
        "ON task_run.task_id=task.id AND task_run.bucket=task.bucket "
        f"AND task_run.task_attempt+{RUNS_SHOWN}>task.attempt WHERE {_tasks_are(count)}"
    )


@lru_cache(maxsize=_CACHED_TEXTS)
def refs_of_tasks(count: int) -> str:
    """Parameters: ``count`` task ids, as many buckets."""
    return (
        f"SELECT {_REF} FROM task_external_ref FORCE INDEX (task_external_ref_task) "
        f"WHERE task_external_ref.task_id IN ({marks(count)}) AND task_external_ref.bucket IN ({marks(count)}) "
        "ORDER BY task_external_ref.task_id,task_external_ref.ref_type,task_external_ref.ref_value"
    )


def _tasks_are(count: int) -> str:
    return f"task.id IN ({marks(count)}) AND task.bucket IN ({marks(count)})"
