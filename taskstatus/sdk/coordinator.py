"""The coordinator's side: creates work, gives attempts their executions, and rules how a task ends (W-5).

A worker's success says nothing about the task, and its failure never fails it: both are this side's decisions. Every
command may be sent again: by default the keys (workflow, task, attempt) make it idempotent, whatever its command id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from taskstatus_pb.v1 import common_pb2, register_service_pb2
from taskstatus_pb.v1.report_service_pb2 import ReportEventRequest as Event

from taskstatus.sdk.answers import ReportAnswer
from taskstatus.sdk.connection import Connection
from taskstatus.sdk.context import ExecutionContext
from taskstatus.sdk.errors import TaskStatusError
from taskstatus.sdk.event_ids import EventIds, random_command_id, random_event_ids
from taskstatus.sdk.failures import StepError, to_message
from taskstatus.sdk.manifest import (
    CreatedTask,
    CreatedWorkflow,
    FailurePolicy,
    Grant,
    TaskSpec,
    created_task,
)
from taskstatus.sdk.sequences import TaskSequences

_ENDS: Final = frozenset({"SUCCEEDED", "FAILED", "CANCELLED", "TIMED_OUT"})


class Coordinator:
    """Speaks for the producer ``producer_id``, the one in the connection's JWT. Every method raises TaskStatusError."""

    def __init__(self, connection: Connection, producer_id: str, *, event_ids: EventIds = random_event_ids) -> None:
        self._connection = connection
        self._event_ids = event_ids
        self._sequences = TaskSequences(connection, producer_id)

    async def create_workflow(
        self,
        client_workflow_key: str,
        *,
        owner_id: str,
        title: str,
        tasks: Sequence[TaskSpec] = (),
        workflow_type: str = "",
        coordinator_producer: str = "",
        grants: Sequence[Grant] = (),
        command_id: str = "",
    ) -> CreatedWorkflow:
        """Create a workflow with its first tasks, or get the one that the key names (R-1, ID-3)."""
        request = register_service_pb2.CreateWorkflowRequest(
            command_id=command_id or random_command_id(),
            client_workflow_key=client_workflow_key,
            owner_id=owner_id,
            title=title,
            workflow_type=workflow_type,
            coordinator_producer=coordinator_producer,
            grants=[grant.to_message() for grant in grants],
            initial_tasks=[task.to_message() for task in tasks],
        )
        answer = await self._connection.call(self._connection.register.CreateWorkflow, request)
        created = tuple(created_task(task) for task in answer.tasks)
        return CreatedWorkflow(answer.workflow_id, answer.workflow_version, answer.created, created)

    async def create_task(self, workflow_id: str, task: TaskSpec, *, command_id: str = "") -> CreatedTask:
        """Add a task to a workflow, or get the one that its key names."""
        request = register_service_pb2.CreateTaskRequest(
            command_id=command_id or random_command_id(), workflow_id=workflow_id, task=task.to_message()
        )
        answer = await self._connection.call(self._connection.register.CreateTask, request)
        return created_task(answer.task)

    async def activate(
        self,
        task_id: str,
        step_id: str,
        *,
        attempt: int = 1,
        input_ref: str = "",
        heartbeat_interval_seconds: int = 0,
        heartbeat_timeout_seconds: int = 0,
        command_id: str = "",
    ) -> ExecutionContext:
        """Give an attempt of a known step its execution; hand the context to the worker (R-10).

        A retry is the last attempt + 1. It supersedes the one before, whose late reports are answered STALE_ATTEMPT.
        """
        request = register_service_pb2.ActivateStepRequest(
            command_id=command_id or random_command_id(),
            task_id=task_id,
            step_id=step_id,
            step_attempt=attempt,
            input_ref=input_ref,
            heartbeat_interval_seconds=heartbeat_interval_seconds,
            heartbeat_timeout_seconds=heartbeat_timeout_seconds,
        )
        answer = await self._connection.call(self._connection.register.ActivateStep, request)
        return ExecutionContext.from_message(answer.context)

    async def register(
        self,
        task_id: str,
        client_step_key: str,
        *,
        operation_code: str,
        producer_id: str,
        attempt: int = 1,
        parent_execution_id: str = "",
        display_name: str = "",
        failure_policy: FailurePolicy = FailurePolicy.FAIL_TASK,
        input_ref: str = "",
        max_run_seconds: int = 0,
        command_id: str = "",
    ) -> ExecutionContext:
        """Register an execution of a step that was not known at creation; the step is ``dyn_`` + the key (R-4)."""
        request = register_service_pb2.RegisterExecutionRequest(
            command_id=command_id or random_command_id(),
            task_id=task_id,
            client_step_key=client_step_key,
            parent_execution_id=parent_execution_id,
            operation_code=operation_code,
            producer_id=producer_id,
            step_attempt=attempt,
            display_name=display_name,
            failure_policy=common_pb2.FailurePolicy.Value(failure_policy),
            input_ref=input_ref,
            max_run_seconds=max_run_seconds,
        )
        answer = await self._connection.call(self._connection.register.RegisterExecution, request)
        return ExecutionContext.from_message(answer.context)

    async def complete_task(
        self, task_id: str, *, duration_ms: float | None = None, event_id: str = ""
    ) -> ReportAnswer:
        """Rule that the task succeeded. ``duration_ms`` is as this side measured it."""
        event = Event(event_id=event_id, event_type=common_pb2.TASK_COMPLETED, duration_ms=duration_ms)
        return await self._report(task_id, event)

    async def fail_task(
        self,
        task_id: str,
        error: StepError,
        *,
        failed_step_id: str,
        duration_ms: float | None = None,
        event_id: str = "",
    ) -> ReportAnswer:
        """Rule that the task failed, and through which step (E-12)."""
        event = Event(
            event_id=event_id,
            event_type=common_pb2.TASK_FAILED,
            error=to_message(error),
            failed_step_id=failed_step_id,
            duration_ms=duration_ms,
        )
        return await self._report(task_id, event)

    async def cancel_task(self, task_id: str, reason: str, *, event_id: str = "") -> ReportAnswer:
        """Confirm that the task is cancelled, and why."""
        event = Event(event_id=event_id, event_type=common_pb2.TASK_CANCELLED, reason=reason)
        return await self._report(task_id, event)

    async def _report(self, task_id: str, event: Event) -> ReportAnswer:
        event.task_id = task_id
        event.source_seq = await self._sequences.next(task_id)
        if not event.event_id:
            name = common_pb2.EventType.Name(event.event_type)
            event.event_id = self._event_ids(task_id, name, event.source_seq)
        event.occurred_at.FromDatetime(self._connection.timing.now())
        try:
            response = await self._connection.call(self._connection.report.ReportEvent, event)
        except TaskStatusError as error:
            if not error.retryable:
                self._sequences.give_back(task_id, event.source_seq)
            raise
        answer = ReportAnswer.from_message(event.event_id, response)
        if answer.lifecycle_status in _ENDS:
            self._sequences.forget(task_id)
        return answer
