"""Event types and who may report each of them (E-1, names.md *Vocabulary*)."""

from __future__ import annotations

from enum import StrEnum


class EventType(StrEnum):
    """Every fact that the event log can hold."""

    STEP_STARTED = "STEP_STARTED"
    STEP_PROGRESS = "STEP_PROGRESS"
    STEP_COMPLETED = "STEP_COMPLETED"
    STEP_FAILED = "STEP_FAILED"
    STEP_CANCELLED = "STEP_CANCELLED"
    STEP_TIMED_OUT = "STEP_TIMED_OUT"
    STEP_HEARTBEAT = "STEP_HEARTBEAT"
    STEP_HEALTH_CHANGED = "STEP_HEALTH_CHANGED"
    TASK_STARTED = "TASK_STARTED"
    TASK_COMPLETED = "TASK_COMPLETED"
    TASK_FAILED = "TASK_FAILED"
    TASK_CANCELLED = "TASK_CANCELLED"
    TASK_TIMED_OUT = "TASK_TIMED_OUT"
    # Written by the service itself.
    WORKFLOW_CREATED = "WORKFLOW_CREATED"
    TASK_CREATED = "TASK_CREATED"
    EXECUTION_REGISTERED = "EXECUTION_REGISTERED"
    STEP_ATTEMPT_ACTIVATED = "STEP_ATTEMPT_ACTIVATED"
    TASK_CLASSIFIED = "TASK_CLASSIFIED"
    TASK_METADATA_UPDATED = "TASK_METADATA_UPDATED"
    TASK_CANCEL_REQUESTED = "TASK_CANCEL_REQUESTED"
    TASK_RERUN = "TASK_RERUN"
    TASK_CORRECTED = "TASK_CORRECTED"
    ACCESS_GRANTED = "ACCESS_GRANTED"
    ACCESS_REVOKED = "ACCESS_REVOKED"
    STEP_SKIPPED = "STEP_SKIPPED"
    WORKER_LOST = "WORKER_LOST"
    RETRY_DECIDED = "RETRY_DECIDED"
    EXECUTION_REVOKED = "EXECUTION_REVOKED"
    WORKFLOW_UPDATED = "WORKFLOW_UPDATED"
    WORKFLOW_AGGREGATED = "WORKFLOW_AGGREGATED"


EXECUTION_EVENTS = frozenset(
    {
        EventType.STEP_STARTED,
        EventType.STEP_PROGRESS,
        EventType.STEP_COMPLETED,
        EventType.STEP_FAILED,
        EventType.STEP_CANCELLED,
    }
)
"""What an execution may report about itself; every execution token grants these."""

TASK_EVENTS = frozenset(
    {
        EventType.TASK_STARTED,
        EventType.TASK_COMPLETED,
        EventType.TASK_FAILED,
        EventType.TASK_CANCELLED,
        EventType.TASK_TIMED_OUT,
    }
)
"""Facts about the whole task: the recorded coordinator or a listed policy executor only."""

COORDINATOR_STEP_EVENTS = frozenset({EventType.STEP_CANCELLED, EventType.STEP_TIMED_OUT})
"""Ends of a step that the coordinator may report on its own identity, in its task sequence."""

REPORTABLE_EVENTS = EXECUTION_EVENTS | TASK_EVENTS | COORDINATOR_STEP_EVENTS
"""Everything that ReportEvent takes; heartbeats and the service's own types are refused there."""
