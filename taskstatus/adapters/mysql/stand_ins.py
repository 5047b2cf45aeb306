"""Values for the columns that an upsert must name and never changes: its insert is always rolled back.

They need only be values that the column takes: '' where nothing else is said.
"""

from __future__ import annotations

_BLANKS = {
    "created_at": "'2000-01-01'",
    **dict.fromkeys(
        (
            "parent_execution_id",
            "parent_task_id",
            "status_definition_version",
            "operation_definition_version",
            "skip_source_event_id",
            "skip_reason",
            "execution_id",
            "activation_digest",
            "heartbeat_interval_seconds",
            "heartbeat_timeout_seconds",
            "definition_version",
            "definition_task_type",
            "failure_code",
            "failure_message",
            "failure_category",
            "failure_retryable",
            "failed_step_id",
            "error_category",
            "error_code",
            "error_message",
            "error_retryable",
            "error_diagnostics_ref",
            "started_at",
            "finished_at",
            "duration_ms",
            "duration_source",
        ),
        "NULL",
    ),
    **dict.fromkeys(
        (
            "priority",
            "step_order",
            "is_dynamic",
            "weight",
            "max_run_seconds",
            "depth",
            "is_sensitive",
            "weight_total",
            "attempt",
            "cancel_requested",
            "shared",
            "open_steps",
            "stale_steps",
            "degraded_steps",
            "open_dynamic",
            "generation",
            "superseded",
            "is_stale",
            "is_degraded",
        ),
        "0",
    ),
}


def stand_ins(columns: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """(column, SQL) of each."""
    return tuple((column, _BLANKS.get(column, "''")) for column in columns)


def stand_ins_beside(columns: tuple[str, ...], given: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """The same for those of ``columns`` whose values are not given."""
    return stand_ins(tuple(column for column in columns if column not in given))
