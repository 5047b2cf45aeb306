"""The coordinator's side: creates work, gives attempts their executions, and rules how a task ends (W-5).

A worker's success says nothing about the task, and its failure never fails it: both are this side's decisions.
Creating, activating and registering may be done again: their keys (workflow, task, attempt) make them idempotent,
whatever the command id. What changes a task that exists stands in ``taskstatus.sdk.commands``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from taskstatus_pb.v1 import common_pb2, query_service_pb2, register_service_pb2, workflow_pb2
from taskstatus_pb.v1.report_service_pb2 import ReportEventRequest as Event

from taskstatus.sdk.answers import ReportAnswer
from taskstatus.sdk.commands import Commands
from taskstatus.sdk.connection import Connection
from taskstatus.sdk.context import ExecutionContext
from taskstatus.sdk.errors import TaskStatusError
from taskstatus.sdk.event_ids import EventIds, random_command_id, random_event_ids
from taskstatus.sdk.failures import StepError, to_message
from taskstatus.sdk.manifest import (
    AggregationPolicy,
    CreatedTask,
    CreatedWorkflow,
    DynamicStep,
    Grant,
    TaskSpec,
    created_task,
)
from taskstatus.sdk.sequences import TaskSequences
from taskstatus.sdk.step_retry import MOST_ATTEMPTS, RetryOutcome, judge

_NO_AGGREGATION: Final = "AGGREGATION_POLICY_UNSPECIFIED"
_ENDS: Final = frozenset({"SUCCEEDED", "FAILED", "CANCELLED", "TIMED_OUT"})


class Coordinator(Commands):
    """Speaks for the producer ``producer_id``, the one in the connection's JWT. Every method raises TaskStatusError."""

    def __init__(self, connection: Connection, producer_id: str, *, event_ids: EventIds = random_event_ids) -> None:
        super().__init__(connection)
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
        aggregation: AggregationPolicy | None = None,
        command_id: str = "",
    ) -> CreatedWorkflow:
        """Create a workflow with its first tasks, or get the one that the key names (R-1, ID-3).

        ``aggregation``: how its status follows from its tasks; None is ALL_SUCCEED.
        """
        request = register_service_pb2.CreateWorkflowRequest(
            command_id=command_id or random_command_id(),
            client_workflow_key=client_workflow_key,
            owner_id=owner_id,
            title=title,
            workflow_type=workflow_type,
            coordinator_producer=coordinator_producer,
            grants=[grant.to_message() for grant in grants],
            initial_tasks=[task.to_message() for task in tasks],
            aggregation_policy=workflow_pb2.AggregationPolicy.Value(aggregation or _NO_AGGREGATION),
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
        self, task_id: str, step: DynamicStep, *, parent_execution_id: str = "", command_id: str = ""
    ) -> ExecutionContext:
        """Register an execution of a step that was not known at creation; hand the context to the worker (R-4).

        Under ``parent_execution_id`` where it belongs to one. A parent that finds its children itself registers them by
        ``register_child`` of its reporter. Raises LimitError DYNAMIC_LIMIT_REACHED with ``retry_after_seconds`` where
        waiting helps, PermissionDeniedError where the task's policy does not allow the operation.
        """
        request = step.to_request(task_id, command_id or random_command_id())
        request.parent_execution_id = parent_execution_id
        answer = await self._connection.call(self._connection.register.RegisterExecution, request)
        return ExecutionContext.from_message(answer.context)

    async def retry(
        self, task_id: str, step_id: str, *, most_attempts: int = MOST_ATTEMPTS, input_ref: str = ""
    ) -> RetryOutcome:
        """Activate a failed step's next attempt, if its policy, its error and the bound of attempts allow it (W-5).

        Otherwise nothing is changed, and ``not_retried`` says why: rule then by ``fail_task``, or ``activate`` the next
        attempt where you know better, as after a person's decision (WAIT_FOR_USER). Of two processes that retry at once
        both get the same execution; ``context.created`` says whose call made it.
        """
        request = query_service_pb2.GetTaskRequest(task_id=task_id)
        answer = await self._connection.call(self._connection.query.GetTask, request)
        judged = judge(answer.task, step_id, most_attempts)
        if judged.not_retried is not None:
            return judged
        attempt = judged.attempt + 1
        context = await self.activate(task_id, step_id, attempt=attempt, input_ref=input_ref)
        return RetryOutcome(attempt=attempt, context=context, error=judged.error)

    async def complete_task(
        self, task_id: str, *, duration_ms: float | None = None, task_attempt: int = 0, event_id: str = ""
    ) -> ReportAnswer:
        """Rule that the task succeeded. ``duration_ms`` is as this side measured it.

        ``task_attempt``, here and in the other rulings, is the run that is meant, so that a late ruling does not end
        the run after it (STALE_ATTEMPT); 0 is whichever is current.
        """
        event = Event(
            event_id=event_id,
            event_type=common_pb2.TASK_COMPLETED,
            duration_ms=duration_ms,
            task_attempt=task_attempt,
        )
        return await self._report(task_id, event)

    async def fail_task(
        self,
        task_id: str,
        error: StepError,
        *,
        failed_step_id: str,
        duration_ms: float | None = None,
        task_attempt: int = 0,
        event_id: str = "",
    ) -> ReportAnswer:
        """Rule that the task failed, and through which step (E-12)."""
        event = Event(
            event_id=event_id,
            event_type=common_pb2.TASK_FAILED,
            error=to_message(error),
            failed_step_id=failed_step_id,
            duration_ms=duration_ms,
            task_attempt=task_attempt,
        )
        return await self._report(task_id, event)

    async def cancel_task(
        self, task_id: str, reason: str, *, task_attempt: int = 0, event_id: str = ""
    ) -> ReportAnswer:
        """Confirm that the task is cancelled, and why; ``request_cancel`` asks for it, so that workers may stop."""
        event = Event(event_id=event_id, event_type=common_pb2.TASK_CANCELLED, reason=reason, task_attempt=task_attempt)
        return await self._report(task_id, event)

    async def time_out_task(
        self, task_id: str, reason: str, *, task_attempt: int = 0, event_id: str = ""
    ) -> ReportAnswer:
        """Give the task up because of time, and say why; the service never does so by itself."""
        event = Event(event_id=event_id, event_type=common_pb2.TASK_TIMED_OUT, reason=reason, task_attempt=task_attempt)
        return await self._report(task_id, event)

    async def cancel_step(self, execution: ExecutionContext, reason: str, *, event_id: str = "") -> ReportAnswer:
        """End an execution whose worker cannot say any more that it stopped (E-1)."""
        return await self._end_step(execution, common_pb2.STEP_CANCELLED, reason, event_id)

    async def time_out_step(self, execution: ExecutionContext, reason: str, *, event_id: str = "") -> ReportAnswer:
        """Give an execution up because of time; ``retry`` may follow (E-1)."""
        return await self._end_step(execution, common_pb2.STEP_TIMED_OUT, reason, event_id)

    async def _end_step(
        self, execution: ExecutionContext, event_type: common_pb2.EventType.ValueType, reason: str, event_id: str
    ) -> ReportAnswer:
        event = Event(
            event_id=event_id,
            event_type=event_type,
            reason=reason,
            task_attempt=execution.task_attempt,
            step_id=execution.step_id,
            step_attempt=execution.step_attempt,
            execution_id=execution.execution_id,
        )
        return await self._report(execution.task_id, event)

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
