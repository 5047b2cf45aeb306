"""Lists and look-ups → responses.

``TaskSummary`` shows what a ``task.summary`` message shows of a task, by the same rules; a test holds the two against
each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from google.protobuf import timestamp_pb2
from taskstatus_pb.v1 import common_pb2, task_list_pb2

from taskstatus.application.lookups import NamedTasks, Trace
from taskstatus.application.ports_lists import NotificationState, RecordedEvent
from taskstatus.application.task_lists import TaskListing, TaskStatuses
from taskstatus.domain.ids import format_execution_id, format_task_id, format_workflow_id
from taskstatus.domain.projections import elapsed_ms, task_percent, total_duration_ms
from taskstatus.domain.state import TaskState
from taskstatus.entrypoints.wire.values import to_timestamp


def my_tasks(listing: TaskListing) -> task_list_pb2.ListMyTasksResponse:
    """Response of ListMyTasks."""
    return task_list_pb2.ListMyTasksResponse(
        tasks=_summaries(listing.tasks, listing.as_of),
        next_cursor=listing.next_cursor,
        as_of=to_timestamp(listing.as_of),
    )


def workflow_tasks(listing: TaskListing) -> task_list_pb2.ListWorkflowTasksResponse:
    """Response of ListWorkflowTasks."""
    return task_list_pb2.ListWorkflowTasksResponse(
        tasks=_summaries(listing.tasks, listing.as_of),
        next_cursor=listing.next_cursor,
        as_of=to_timestamp(listing.as_of),
    )


def task_statuses(statuses: TaskStatuses) -> task_list_pb2.BatchGetTaskStatusResponse:
    """Response of BatchGetTaskStatus."""
    return task_list_pb2.BatchGetTaskStatusResponse(
        tasks=_summaries(statuses.tasks, statuses.as_of),
        unchanged_task_ids=statuses.unchanged,
        missing_task_ids=statuses.missing,
        as_of=to_timestamp(statuses.as_of),
    )


def named_tasks(named: NamedTasks) -> task_list_pb2.LookupExternalRefResponse:
    """Response of LookupExternalRef."""
    return task_list_pb2.LookupExternalRefResponse(tasks=_summaries(named.tasks, named.as_of))


def events_of_id(events: Sequence[RecordedEvent]) -> task_list_pb2.LookupEventResponse:
    """Response of LookupEvent."""
    return task_list_pb2.LookupEventResponse(events=map(_event, events))


def events_of_trace(trace: Trace) -> task_list_pb2.ListTraceEventsResponse:
    """Response of ListTraceEvents."""
    return task_list_pb2.ListTraceEventsResponse(events=map(_event, trace.events), truncated=trace.truncated)


def task_summary(task: TaskState, as_of: datetime) -> task_list_pb2.TaskSummary:
    """One task in a list."""
    envelope = task.envelope
    return task_list_pb2.TaskSummary(
        workflow_id=format_workflow_id(envelope.workflow_id),
        task_id=format_task_id(envelope.task_id),
        task_version=task.version,
        title=envelope.title,
        task_type=envelope.task_type,
        product_id=envelope.product_id,
        priority=envelope.priority,
        task_attempt=task.attempt,
        lifecycle_status=common_pb2.LifecycleStatus.Value(task.lifecycle),
        business_status=task.business_status,
        status_definition_version=envelope.status_definition_version or 0,
        health=common_pb2.Health.Value(task.health),
        progress_percent=task_percent(task),
        cancel_requested=task.cancel_requested,
        created_at=to_timestamp(envelope.created_at),
        started_at=_stamp(task.started_at),
        finished_at=_stamp(task.finished_at),
        updated_at=to_timestamp(task.committed_at),
        elapsed_ms=elapsed_ms(task.started_at, task.lifecycle, as_of),
        total_duration_ms=total_duration_ms(task),
    )


def _summaries(tasks: Sequence[TaskState], as_of: datetime) -> list[task_list_pb2.TaskSummary]:
    return [task_summary(task, as_of) for task in tasks]


def _event(event: RecordedEvent) -> task_list_pb2.RecordedEvent:
    return task_list_pb2.RecordedEvent(
        workflow_id=format_workflow_id(event.workflow_id),
        task_id=format_task_id(event.task_id),
        event_id=event.event_id,
        task_version=event.task_version,
        event_type=common_pb2.EventType.Value(event.event_type),
        step_id=event.step_id,
        execution_id=format_execution_id(event.execution_id) if event.execution_id else "",
        actor=event.actor,
        trace_id=event.trace_id.hex() if event.trace_id else "",
        committed_at=to_timestamp(event.committed_at),
        notifications=map(_notification, event.notifications),
    )


def _notification(state: NotificationState) -> task_list_pb2.OutboxEntry:
    return task_list_pb2.OutboxEntry(
        outbox_id=state.outbox_id.hex(),
        projection=state.projection,
        status=state.status,
        attempts=state.attempts,
        last_error=state.last_error,
        published_at=_stamp(state.published_at),
    )


def _stamp(at: datetime | None) -> timestamp_pb2.Timestamp | None:
    return None if at is None else to_timestamp(at)
