"""RegisterService of the fake."""

from __future__ import annotations

from taskstatus_pb.v1 import common_pb2, register_service_pb2_grpc, task_commands_pb2, workflow_pb2
from taskstatus_pb.v1 import register_service_pb2 as pb

from taskstatus.sdk.testing.activation import activate, context_of, register
from taskstatus.sdk.testing.commands import FakeCommands
from taskstatus.sdk.testing.model import FakeTask, refuse
from taskstatus.sdk.testing.serving import Context, Serve
from taskstatus.sdk.testing.state import FakeState
from taskstatus.sdk.testing.stream import FakeStreams


class FakeRegister(register_service_pb2_grpc.RegisterServiceServicer):
    """Every method over one state; who has bound an execution on a stream is told of its cancellation or revocation."""

    def __init__(self, serve: Serve, state: FakeState, streams: FakeStreams) -> None:
        self._serve = serve
        self._state = state
        self._streams = streams
        self._commands = FakeCommands(state)

    async def CreateWorkflow(  # noqa: N802 - the method's name on the wire
        self, request: pb.CreateWorkflowRequest, context: Context
    ) -> pb.CreateWorkflowResponse:
        """The workflow of the key."""
        return await self._serve(request, context, self._create_workflow)

    async def CreateTask(self, request: pb.CreateTaskRequest, context: Context) -> pb.CreateTaskResponse:  # noqa: N802
        """The task of the key."""
        return await self._serve(request, context, self._create_task)

    async def ActivateStep(  # noqa: N802
        self, request: pb.ActivateStepRequest, context: Context
    ) -> pb.ActivateStepResponse:
        """The execution of an attempt."""
        return await self._serve(request, context, self._activate)

    async def RegisterExecution(  # noqa: N802
        self, request: pb.RegisterExecutionRequest, context: Context
    ) -> pb.RegisterExecutionResponse:
        """The execution of a dynamic step's attempt."""
        return await self._serve(request, context, self._register)

    async def RenewExecution(  # noqa: N802
        self, request: pb.RenewExecutionRequest, context: Context
    ) -> pb.RenewExecutionResponse:
        """The next token, for the execution itself or for the coordinator."""
        return await self._serve(request, context, self._renew)

    async def RequestCancel(  # noqa: N802
        self, request: task_commands_pb2.RequestCancelRequest, context: Context
    ) -> task_commands_pb2.RequestCancelResponse:
        """CANCELLING."""
        response = await self._serve(request, context, self._commands.request_cancel)
        for attempt in self._state.task(request.task_id).attempts():
            await self._streams.notify(attempt.execution_id, cancel_requested=True)
        return response

    async def RerunTask(  # noqa: N802
        self, request: task_commands_pb2.RerunTaskRequest, context: Context
    ) -> task_commands_pb2.RerunTaskResponse:
        """The next run."""
        return await self._serve(request, context, self._commands.rerun)

    async def ClassifyTask(  # noqa: N802
        self, request: task_commands_pb2.ClassifyTaskRequest, context: Context
    ) -> task_commands_pb2.ClassifyTaskResponse:
        """The type."""
        return await self._serve(request, context, self._commands.classify)

    async def UpdateTaskMetadata(  # noqa: N802
        self, request: task_commands_pb2.UpdateTaskMetadataRequest, context: Context
    ) -> task_commands_pb2.UpdateTaskMetadataResponse:
        """Label, title, priority."""
        return await self._serve(request, context, self._commands.update_metadata)

    async def AttachExternalRef(  # noqa: N802
        self, request: task_commands_pb2.AttachExternalRefRequest, context: Context
    ) -> task_commands_pb2.AttachExternalRefResponse:
        """One more number."""
        return await self._serve(request, context, self._commands.attach_external_ref)

    async def RevokeExecution(  # noqa: N802
        self, request: task_commands_pb2.RevokeExecutionRequest, context: Context
    ) -> task_commands_pb2.RevokeExecutionResponse:
        """The next generation of credentials."""
        response = await self._serve(request, context, self._commands.revoke)
        await self._streams.notify(request.execution_id, reason=common_pb2.TOKEN_REVOKED)
        return response

    async def UpdateWorkflow(  # noqa: N802
        self, request: workflow_pb2.UpdateWorkflowRequest, context: Context
    ) -> workflow_pb2.UpdateWorkflowResponse:
        """Title or ruling."""
        return await self._serve(request, context, self._commands.update_workflow)

    def _create_workflow(self, producer: str, request: pb.CreateWorkflowRequest) -> pb.CreateWorkflowResponse:
        workflow, tasks, created = self._state.create_workflow(producer, request)
        return pb.CreateWorkflowResponse(
            workflow_id=workflow.workflow_id,
            workflow_version=workflow.version,
            created=created,
            tasks=[_created(task) for task in tasks],
        )

    def _create_task(self, producer: str, request: pb.CreateTaskRequest) -> pb.CreateTaskResponse:
        task, created = self._state.create_task(producer, request)
        version = self._state.workflow(task.workflow_id).version
        return pb.CreateTaskResponse(
            workflow_id=task.workflow_id, workflow_version=version, task=_created(task), created=created
        )

    def _activate(self, producer: str, request: pb.ActivateStepRequest) -> pb.ActivateStepResponse:
        return pb.ActivateStepResponse(context=activate(self._state, producer, request))

    def _register(self, producer: str, request: pb.RegisterExecutionRequest) -> pb.RegisterExecutionResponse:
        return pb.RegisterExecutionResponse(context=register(self._state, producer, request))

    def _renew(self, producer: str, request: pb.RenewExecutionRequest) -> pb.RenewExecutionResponse:
        if request.execution_token or request.execution_handle:
            held = self._state.live(producer, request.execution_token, request.execution_handle)
            task, attempt = held.task, held.attempt
        else:
            task, attempt = self._state.execution_by_id(request.execution_id)
            if not task.may_rule(producer):
                refuse("PERMISSION_DENIED", "only the execution itself or its coordinator may renew it")
            self._state.require_current(task, attempt)
        attempt.token_serial += 1
        context = context_of(task, attempt, created=False)
        return pb.RenewExecutionResponse(
            execution_token=context.execution_token,
            execution_token_expire_time=context.execution_token_expire_time,
            execution_handle=context.execution_handle,
        )


def _created(task: FakeTask) -> pb.CreatedTask:
    key = task.spec.client_task_key
    return pb.CreatedTask(client_task_key=key, task_id=task.task_id, task_version=task.version)
