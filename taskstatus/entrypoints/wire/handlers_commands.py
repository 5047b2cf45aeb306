"""The handlers of commands on a task that exists."""

from __future__ import annotations

from collections.abc import Mapping

from google.protobuf.message import Message
from taskstatus_pb.v1 import common_pb2, task_commands_pb2

from taskstatus.application.identity import Identity, ServiceIdentity
from taskstatus.application.service import TaskStatusService
from taskstatus.domain.ids import format_task_id
from taskstatus.domain.task_commands import CommandOutcome
from taskstatus.entrypoints.wire import decode_commands
from taskstatus.entrypoints.wire.call import CallInfo, Handler
from taskstatus.entrypoints.wire.decode import known_execution_id
from taskstatus.entrypoints.wire.values import to_timestamp


class CommandHandlers:
    """Cancel, rerun, relabel, attach, revoke and correct over one service."""

    def __init__(self, service: TaskStatusService) -> None:
        self._commands = service.commands

    def by_method(self) -> Mapping[str, Handler]:
        """Every method's handler by its full name."""
        return {
            "taskstatus.v1.RegisterService/RequestCancel": self.request_cancel,
            "taskstatus.v1.RegisterService/RerunTask": self.rerun_task,
            "taskstatus.v1.RegisterService/UpdateTaskMetadata": self.update_task_metadata,
            "taskstatus.v1.RegisterService/AttachExternalRef": self.attach_external_ref,
            "taskstatus.v1.RegisterService/RevokeExecution": self.revoke_execution,
            "taskstatus.v1.AdminService/CorrectTask": self.correct_task,
        }

    async def request_cancel(
        self, request: task_commands_pb2.RequestCancelRequest, caller: Identity, call: CallInfo
    ) -> Message:
        outcome = await self._commands.request_cancel(decode_commands.to_request_cancel(request, caller, call))
        return task_commands_pb2.RequestCancelResponse(change=task_change(outcome))

    async def rerun_task(
        self, request: task_commands_pb2.RerunTaskRequest, caller: Identity, call: CallInfo
    ) -> Message:
        outcome = await self._commands.rerun(decode_commands.to_rerun(request, caller, call))
        return task_commands_pb2.RerunTaskResponse(change=task_change(outcome))

    async def update_task_metadata(
        self, request: task_commands_pb2.UpdateTaskMetadataRequest, caller: ServiceIdentity, call: CallInfo
    ) -> Message:
        outcome = await self._commands.update_metadata(decode_commands.to_update_metadata(request, caller, call))
        return task_commands_pb2.UpdateTaskMetadataResponse(change=task_change(outcome))

    async def attach_external_ref(
        self, request: task_commands_pb2.AttachExternalRefRequest, caller: ServiceIdentity, call: CallInfo
    ) -> Message:
        command = decode_commands.to_attach_external_ref(request, caller, call)
        outcome = await self._commands.attach_external_ref(command)
        return task_commands_pb2.AttachExternalRefResponse(change=task_change(outcome))

    async def revoke_execution(
        self, request: task_commands_pb2.RevokeExecutionRequest, caller: ServiceIdentity, call: CallInfo
    ) -> Message:
        execution_id = known_execution_id(request.execution_id)
        actor = decode_commands.actor_of_identity(caller)
        task_id = await self._commands.task_of_execution(actor, execution_id)
        outcome = await self._commands.revoke(decode_commands.to_revoke(request, task_id, caller, call))
        return task_commands_pb2.RevokeExecutionResponse(
            change=task_change(outcome), credential_generation=outcome.result.generation
        )

    async def correct_task(
        self, request: task_commands_pb2.CorrectTaskRequest, caller: ServiceIdentity, call: CallInfo
    ) -> Message:
        outcome = await self._commands.correct(decode_commands.to_correct(request, caller, call))
        return task_commands_pb2.CorrectTaskResponse(change=task_change(outcome))


def task_change(outcome: CommandOutcome) -> task_commands_pb2.TaskChange:
    """What a command left behind, or left behind when it was carried out first."""
    result = outcome.result
    return task_commands_pb2.TaskChange(
        task_id=format_task_id(result.task_id),
        task_version=result.task_version,
        task_attempt=result.task_attempt or outcome.task.attempt,
        lifecycle_status=common_pb2.LifecycleStatus.Value(result.lifecycle),
        business_status=result.business_status,
        changed=result.changed,
        duplicate=result.duplicate,
        cancel_requested=result.cancel_requested,
        committed_at=to_timestamp(result.committed_at) if result.committed_at else None,
    )
