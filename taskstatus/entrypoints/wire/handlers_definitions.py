"""The handlers of definitions, and of the command that binds a task to them."""

from __future__ import annotations

from collections.abc import Mapping

from google.protobuf.message import Message
from taskstatus_pb.v1 import definitions_pb2, task_commands_pb2

from taskstatus.application.identity import Identity, ServiceIdentity
from taskstatus.application.service import TaskStatusService
from taskstatus.domain.errors import RefusedError
from taskstatus.entrypoints.wire import decode_definitions, encode_definitions
from taskstatus.entrypoints.wire.call import CallInfo, Handler
from taskstatus.entrypoints.wire.handlers_commands import task_change
from taskstatus.entrypoints.wire.values import to_timestamp


class DefinitionHandlers:
    """Publish, list, retire, read and bind over one service."""

    def __init__(self, service: TaskStatusService) -> None:
        self._definitions = service.definitions
        self._classification = service.classification

    def by_method(self) -> Mapping[str, Handler]:
        """Every method's handler by its full name."""
        return {
            "taskstatus.v1.AdminService/PublishDefinitions": self.publish_definitions,
            "taskstatus.v1.AdminService/ListDefinitions": self.list_definitions,
            "taskstatus.v1.AdminService/RetireDefinition": self.retire_definition,
            "taskstatus.v1.QueryService/GetStatusDefinition": self.get_status_definition,
            "taskstatus.v1.RegisterService/ClassifyTask": self.classify_task,
        }

    async def publish_definitions(
        self, request: definitions_pb2.PublishDefinitionsRequest, caller: ServiceIdentity, call: CallInfo
    ) -> Message:
        document = decode_definitions.to_document(request)
        try:
            publication = await self._definitions.publish(caller, document, dry_run=request.dry_run)
        except RefusedError as refusal:
            raise decode_definitions.in_request_names(refusal) from None
        return encode_definitions.published(publication)

    async def list_definitions(
        self, request: definitions_pb2.ListDefinitionsRequest, caller: ServiceIdentity, call: CallInfo
    ) -> Message:
        found = await self._definitions.listing(caller, request.task_type, request.operation_code)
        return encode_definitions.listing(found)

    async def retire_definition(
        self, request: definitions_pb2.RetireDefinitionRequest, caller: ServiceIdentity, call: CallInfo
    ) -> Message:
        retired_at = await self._definitions.retire(caller, decode_definitions.to_definition_key(request))
        return definitions_pb2.RetireDefinitionResponse(retired_at=to_timestamp(retired_at))

    async def get_status_definition(
        self, request: definitions_pb2.GetStatusDefinitionRequest, caller: Identity, call: CallInfo
    ) -> Message:
        found = await self._definitions.statuses(caller, *decode_definitions.to_asked_statuses(request))
        return definitions_pb2.GetStatusDefinitionResponse(
            status_definition=encode_definitions.status_definition(found)
        )

    async def classify_task(
        self, request: task_commands_pb2.ClassifyTaskRequest, caller: ServiceIdentity, call: CallInfo
    ) -> Message:
        outcome = await self._classification.classify(decode_definitions.to_classify(request, caller, call))
        envelope = outcome.task.envelope
        # What is bound never changes, so that a repeat tells it too.
        return task_commands_pb2.ClassifyTaskResponse(
            change=task_change(outcome),
            status_definition_version=envelope.status_definition_version or 0,
            operation_definition_version=envelope.operation_definition_version or 0,
        )
