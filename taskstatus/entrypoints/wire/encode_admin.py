"""Listings for operators → responses."""

from __future__ import annotations

from taskstatus_pb.v1 import admin_service_pb2

from taskstatus.application.admin import StuckListing
from taskstatus.application.ports_health import StuckExecution
from taskstatus.domain.ids import format_execution_id, format_task_id, format_workflow_id
from taskstatus.entrypoints.wire.values import to_timestamp


def stuck_listing(listing: StuckListing) -> admin_service_pb2.ListStuckTasksResponse:
    """Response of ListStuckTasks."""
    return admin_service_pb2.ListStuckTasksResponse(
        executions=map(_stuck, listing.executions),
        next_cursor=listing.next_cursor,
        as_of=to_timestamp(listing.as_of),
    )


def _stuck(execution: StuckExecution) -> admin_service_pb2.StuckExecution:
    return admin_service_pb2.StuckExecution(
        workflow_id=format_workflow_id(execution.workflow_id),
        task_id=format_task_id(execution.task_id),
        title=execution.title,
        task_attempt=execution.task_attempt,
        step_id=execution.step_id,
        step_attempt=execution.step_attempt,
        operation_code=execution.operation_code,
        producer_id=execution.producer_id,
        execution_id="" if execution.execution_id is None else format_execution_id(execution.execution_id),
        causes=[admin_service_pb2.StuckCause.Value(cause) for cause in execution.causes],
        since=to_timestamp(execution.since),
    )
