"""The handlers of a workflow that exists."""

from __future__ import annotations

from collections.abc import Mapping

from google.protobuf.message import Message
from taskstatus_pb.v1 import query_service_pb2, workflow_pb2

from taskstatus.application.identity import Identity, ServiceIdentity
from taskstatus.application.service import TaskStatusService
from taskstatus.entrypoints.wire.call import CallInfo, Handler
from taskstatus.entrypoints.wire.decode_workflow import to_update_workflow
from taskstatus.entrypoints.wire.encode_workflow import updated_workflow, workflow_snapshot


class WorkflowHandlers:
    """Update and read workflows over one service."""

    def __init__(self, service: TaskStatusService) -> None:
        self._workflows = service.workflows

    def by_method(self) -> Mapping[str, Handler]:
        """Every method's handler by its full name."""
        return {
            "taskstatus.v1.RegisterService/UpdateWorkflow": self.update_workflow,
            "taskstatus.v1.QueryService/GetWorkflow": self.get_workflow,
        }

    async def update_workflow(
        self, request: workflow_pb2.UpdateWorkflowRequest, caller: ServiceIdentity, call: CallInfo
    ) -> Message:
        """UpdateWorkflow."""
        return updated_workflow(await self._workflows.update(to_update_workflow(request, caller, call)))

    async def get_workflow(
        self, request: query_service_pb2.GetWorkflowRequest, caller: Identity, call: CallInfo
    ) -> Message:
        """GetWorkflow."""
        view = await self._workflows.view(caller, request.workflow_id)
        return query_service_pb2.GetWorkflowResponse(workflow=workflow_snapshot(view))
