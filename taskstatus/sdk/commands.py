"""Commands on a task or workflow that exists: cancel, rerun, classify, relabel, attach, revoke, rule (R-6).

Each is one fact with an id of its own. Sent again after a lost answer it carries the same id; ``key`` makes the id the
same after a restart of the caller too: name what caused the command, such as the number of a request. A command that
was carried out before gives its first result (``duplicate``); the same key with other content is a ConflictError
IDEMPOTENCY_CONFLICT.

``expected_version`` is the version that the caller has seen: another one is a ConflictError VERSION_MISMATCH, read the
task again; 0 stands for any.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from enum import StrEnum
from typing import Final

from taskstatus_pb.v1 import common_pb2, register_service_pb2, task_commands_pb2, workflow_pb2

from taskstatus.sdk.answers import Classification, Revocation, TaskChange, WorkflowChange
from taskstatus.sdk.connection import Connection
from taskstatus.sdk.context import ExecutionContext
from taskstatus.sdk.event_ids import command_id_of
from taskstatus.sdk.manifest import ExternalRef

_NO_RULING: Final = common_pb2.LIFECYCLE_STATUS_UNSPECIFIED


class WorkflowRuling(StrEnum):
    """What a coordinator may rule of a workflow."""

    RUNNING = "RUNNING"
    CANCELLING = "CANCELLING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    CANCELLED = "CANCELLED"


@dataclass(frozen=True, slots=True)
class SkippedStep:
    """A step of the manifest that a rerun does not repeat, since an earlier run has its result (X-3)."""

    step_id: str
    reason: str
    """Why; for people, and required."""
    source_event_id: str
    """The STEP_COMPLETED of the step whose result stands in."""

    def to_message(self) -> task_commands_pb2.SkippedStep:
        """The wire form."""
        return task_commands_pb2.SkippedStep(
            step_id=self.step_id, reason=self.reason, source_event_id=self.source_event_id
        )


class Commands:
    """The part of :class:`~taskstatus.sdk.coordinator.Coordinator` that changes what exists.

    Every method raises TaskStatusError; a refused command has written nothing.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def request_cancel(self, task_id: str, reason: str = "", *, key: str = "") -> TaskChange:
        """Ask for a task's cancellation: it is CANCELLING, and can no longer succeed (L-1).

        Workers see ``cancel_requested`` in their next answer. End it by ``cancel_task`` once they have stopped, or by
        ``fail_task`` or ``time_out_task``. Asked again nothing changes; an ended task is NOT_CANCELLABLE.
        """
        request = task_commands_pb2.RequestCancelRequest(
            command_id=command_id_of("RequestCancel", task_id, key), task_id=task_id, reason=reason
        )
        answer = await self._connection.call(self._connection.register.RequestCancel, request)
        return TaskChange.from_message(answer.change)

    async def rerun(
        self,
        task_id: str,
        reason: str = "",
        *,
        task_attempt: int = 0,
        skipped: Sequence[SkippedStep] = (),
        plan_id: str = "",
        key: str = "",
    ) -> TaskChange:
        """Open a new run of an ended task, with its manifest and input as they were (R-7).

        For one failed step of a task that still runs use ``retry``. The earlier run stays as it is; steps are activated
        again from attempt 1, but for the ``skipped`` ones, and dynamic steps are registered again. ``task_attempt``
        names the run that has ended, so that of two reruns of it only one opens a run (the other is STALE_ATTEMPT); 0
        is the current one. Give a ``key``, or the run: a rerun whose answer was lost with its process opens a second
        run otherwise, once the first has ended.
        """
        request = task_commands_pb2.RerunTaskRequest(
            command_id=command_id_of("RerunTask", task_id, key),
            task_id=task_id,
            task_attempt=task_attempt,
            reason=reason,
            skipped_steps=[step.to_message() for step in skipped],
            plan_id=plan_id,
        )
        answer = await self._connection.call(self._connection.register.RerunTask, request)
        return TaskChange.from_message(answer.change)

    async def classify(
        self,
        task_id: str,
        task_type: str,
        *,
        status_definition_version: int = 0,
        operation_definition_version: int = 0,
        product_id: str | None = None,
        expected_version: int = 0,
        key: str = "",
    ) -> Classification:
        """Give a task that was created without a type its type and definitions, once and for good (R-8).

        A second time is a PreconditionFailedError ALREADY_CLASSIFIED. Version 0 is the newest published.
        """
        request = task_commands_pb2.ClassifyTaskRequest(
            command_id=command_id_of("ClassifyTask", task_id, key),
            task_id=task_id,
            expected_task_version=expected_version,
            task_type=task_type,
            status_definition_version=status_definition_version,
            operation_definition_version=operation_definition_version,
            product_id=product_id,
        )
        answer = await self._connection.call(self._connection.register.ClassifyTask, request)
        change = TaskChange.from_message(answer.change)
        return Classification(change, answer.status_definition_version, answer.operation_definition_version)

    async def update_metadata(
        self,
        task_id: str,
        *,
        title: str | None = None,
        product_id: str | None = None,
        priority: int | None = None,
        reason: str = "",
        expected_version: int = 0,
        key: str = "",
    ) -> TaskChange:
        """Change what a task is called, labelled or how urgent it is, of an ended one too; audited (R-8).

        None leaves a field as it is, an empty ``product_id`` takes the label away.
        """
        request = task_commands_pb2.UpdateTaskMetadataRequest(
            command_id=command_id_of("UpdateTaskMetadata", task_id, key),
            task_id=task_id,
            expected_task_version=expected_version,
            product_id=product_id,
            title=title,
            priority=priority,
            reason=reason,
        )
        answer = await self._connection.call(self._connection.register.UpdateTaskMetadata, request)
        return TaskChange.from_message(answer.change)

    async def attach_external_ref(self, task_id: str, ref: ExternalRef, *, key: str = "") -> TaskChange:
        """Make a number of another system name the task, when it is known only after the creation (ID-5).

        Its own number again changes nothing; one that names another task is a ConflictError IDEMPOTENCY_CONFLICT.
        """
        request = task_commands_pb2.AttachExternalRefRequest(
            command_id=command_id_of("AttachExternalRef", task_id, key), task_id=task_id, external_ref=ref.to_message()
        )
        answer = await self._connection.call(self._connection.register.AttachExternalRef, request)
        return TaskChange.from_message(answer.change)

    async def revoke(self, execution_id: str, reason: str = "", *, key: str = "") -> Revocation:
        """Make every credential of an execution worthless at once: a leaked one, or a worker that must not go on.

        The execution itself goes on to exist (R-11): give it new credentials by ``renew``, or supersede it by the next
        attempt. Every revocation counts, so give a ``key`` where it may be repeated.
        """
        request = task_commands_pb2.RevokeExecutionRequest(
            command_id=command_id_of("RevokeExecution", execution_id, key), execution_id=execution_id, reason=reason
        )
        answer = await self._connection.call(self._connection.register.RevokeExecution, request)
        return Revocation(TaskChange.from_message(answer.change), answer.credential_generation)

    async def renew(self, context: ExecutionContext) -> ExecutionContext:
        """The same execution with fresh credentials to hand over: after ``revoke``, or for one that waited long."""
        request = register_service_pb2.RenewExecutionRequest(execution_id=context.execution_id)
        answer = await self._connection.call(self._connection.register.RenewExecution, request)
        return replace(
            context,
            execution_token=answer.execution_token,
            execution_token_expires_at=answer.execution_token_expire_time.ToDatetime(tzinfo=UTC),
            execution_handle=answer.execution_handle,
        )

    async def update_workflow(
        self,
        workflow_id: str,
        *,
        title: str | None = None,
        ruling: WorkflowRuling | None = None,
        withdraw_ruling: bool = False,
        reason: str = "",
        expected_version: int = 0,
        key: str = "",
    ) -> WorkflowChange:
        """Change a workflow's title, or rule on its status whatever its tasks say (L-7); its tasks stay as they are.

        A ruling needs a ``reason``; ``withdraw_ruling`` lets the tasks decide again.
        """
        request = workflow_pb2.UpdateWorkflowRequest(
            command_id=command_id_of("UpdateWorkflow", workflow_id, key),
            workflow_id=workflow_id,
            expected_workflow_version=expected_version,
            title=title,
            lifecycle_status=common_pb2.LifecycleStatus.Value(ruling) if ruling is not None else _NO_RULING,
            withdraw_ruling=withdraw_ruling,
            reason=reason,
        )
        answer = await self._connection.call(self._connection.register.UpdateWorkflow, request)
        return WorkflowChange.from_message(answer)
