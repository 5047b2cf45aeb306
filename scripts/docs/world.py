"""The real service over the in-memory store, and the document task of ``docs/one-event.md`` up to its event."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import grpc
import orjson
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2
from taskstatus_pb.v1 import common_pb2, register_service_pb2, report_service_pb2

from gateway_rest.json_codec import decode_message
from scripts.docs.ports import (
    START,
    CountingWakeUp,
    RecordingStore,
    SeededRandomness,
    SilentObserver,
    StandingClock,
)
from taskstatus.adapters.canonical import canonicalize
from taskstatus.adapters.definitions.catalogue import Catalogue
from taskstatus.adapters.definitions.schemas import CompiledSchemas
from taskstatus.adapters.memory.audit import MemoryAudit
from taskstatus.adapters.memory.clock import MemoryDatabaseClock
from taskstatus.adapters.memory.definitions import MemoryDefinitionTable, MemoryRegistry
from taskstatus.adapters.memory.health import MemoryStuckWork
from taskstatus.adapters.memory.lists import MemoryTaskLists
from taskstatus.adapters.memory.reader import MemoryTaskReader
from taskstatus.adapters.memory.renewal import MemoryRenewal
from taskstatus.adapters.memory.store import MemoryTaskStore
from taskstatus.adapters.memory.workflows import MemoryWorkflowReader
from taskstatus.adapters.tokens.dev_tokens import DevService, mint_service_token, write_dev_identity
from taskstatus.adapters.tokens.execution_credentials import JwtExecutionCredentials
from taskstatus.adapters.tokens.identity_verifier import JwtIdentityVerifier
from taskstatus.application.admin import Administration
from taskstatus.application.classification import Classification
from taskstatus.application.data_rules import DataRules
from taskstatus.application.definition_binding import DefinitionBinding
from taskstatus.application.definitions import Definitions
from taskstatus.application.executions import ExecutionCommands, ExecutionDirectory
from taskstatus.application.heartbeats import Heartbeats
from taskstatus.application.identity import Role
from taskstatus.application.ids_factory import IdFactory
from taskstatus.application.lookups import Lookups
from taskstatus.application.ports_credentials import RealtimeTokens
from taskstatus.application.query import Queries
from taskstatus.application.rate_limit import RateLimit, RateLimiter
from taskstatus.application.realtime import Realtime
from taskstatus.application.register import Registration
from taskstatus.application.report import Rejections, Reporting
from taskstatus.application.service import TaskStatusService
from taskstatus.application.task_commands import TaskCommands
from taskstatus.application.task_lists import TaskLists
from taskstatus.application.workflows import Workflows
from taskstatus.bootstrap import OneShard
from taskstatus.domain.definitions import ANY_TASK_TYPE, DataSchema, OperationDefinition
from taskstatus.domain.dynamic import DynamicLimits
from taskstatus.domain.events import EXECUTION_EVENTS, EventType
from taskstatus.domain.notifications import OutboxTools
from taskstatus.entrypoints.grpc.server import SERVICES
from taskstatus.entrypoints.grpc.unary import handlers_of
from taskstatus.entrypoints.wire.dispatch import Dispatcher
from taskstatus.entrypoints.wire.handlers import Handlers
from taskstatus.runtime.lanes import LaneConfig, Lanes

TENANT, SCOPE, OWNER = "t-01", "documents", "u-88"
COORDINATOR, WORKER = "document-service", "file-worker"
STEP = "01_prepare"
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
WORK_SECONDS = 1.84

PREPARE = OperationDefinition(
    operation_code="FILE.PREPARE",
    version=1,
    task_type=ANY_TASK_TYPE,
    display_name="Prepare the file",
    producers=("file-*",),
    events=EXECUTION_EVENTS,
    failure_policy=None,
    is_idempotent=True,
    schemas=(
        DataSchema(
            name="file.prepare.completed.v1",
            events=frozenset({EventType.STEP_COMPLETED}),
            json_schema='{"type":"object","required":["pages"],"properties":{"pages":{"type":"integer"}}}',
            detail_fields=("pages", "language"),
            summary_fields=("pages",),
            max_bytes=4096,
        ),
    ),
)
"""What ``file-worker`` may tell of its operation, and which of it each message may show."""

WORKFLOW = b"""{
  "commandId": "cmd-create-1", "clientWorkflowKey": "upload-4711", "ownerId": "u-88", "title": "Quarterly report",
  "initialTasks": [{
    "clientTaskKey": "document", "title": "Quarterly report.pdf", "taskType": "DOCUMENT",
    "inputRef": "obj://uploads/4711",
    "knownSteps": [
      {"stepId": "01_prepare", "operationCode": "FILE.PREPARE", "expectedProducer": "file-worker"},
      {"stepId": "02_parse", "operationCode": "DOCUMENT.PARSE", "expectedProducer": "parse-worker",
       "dependsOn": ["01_prepare"], "failurePolicy": "RETRY_THEN_FAIL_TASK", "weight": 2},
      {"stepId": "03_persist", "operationCode": "RESULT.PERSIST", "expectedProducer": "store-worker",
       "dependsOn": ["02_parse"]}
    ]}]
}"""


class CallRefusedError(Exception):
    """A call that ended with a gRPC status; ``reason`` is the one of its ErrorInfo."""

    def __init__(self, code: grpc.StatusCode, reason: str, message: str) -> None:
        super().__init__(f"{code.name} {reason}: {message}")
        self.code = code
        self.reason = reason


class World:
    """One service process without a socket: what gRPC would hand to ``unary.py`` is handed to it here."""

    def __init__(self, folder: Path, lanes: LaneConfig | None = None) -> None:
        self.clock, self.randomness = StandingClock(), SeededRandomness()
        self.store = MemoryTaskStore(clock=MemoryDatabaseClock(START))
        self.reader = MemoryTaskReader(self.store)
        self.recording = RecordingStore(self.store)
        self.wake_up = CountingWakeUp()
        self._identity = write_dev_identity(folder, self.randomness)
        ids = IdFactory(self.clock, self.randomness)
        tools = OutboxTools(new_id=ids.new, to_json=orjson.dumps)
        observer = SilentObserver()
        self.definitions = MemoryRegistry(PREPARE)
        self.lanes = Lanes(
            self.recording,
            self.definitions,
            OneShard(),
            self.clock,
            tools,
            self.wake_up,
            observer,
            lanes or LaneConfig(),
        )
        self._service = self._assemble(ids, tools, observer)
        verifier = JwtIdentityVerifier.from_file(self._identity.identity_file, self.clock)
        dispatch = Dispatcher(verifier, Handlers(self._service).by_method(), self.clock, observer)
        self._handlers = handlers_of(SERVICES, dispatch, self.clock)

    def _assemble(self, ids: IdFactory, tools: OutboxTools, observer: SilentObserver) -> TaskStatusService:
        credentials = JwtExecutionCredentials.from_file(self._identity.execution_keys_file, self.clock)
        executions = ExecutionCommands(credentials, ExecutionDirectory(self.reader), self.reader, self.clock)
        self.executions = executions
        queries = Queries(self.reader)
        definitions = self.definitions
        data_rules = DataRules(definitions, CompiledSchemas())
        self.data_rules = data_rules
        commands = TaskCommands(self.store, ExecutionDirectory(self.reader), definitions, tools, self.wake_up)
        workflows = Workflows(self.store, MemoryWorkflowReader(self.store), tools, self.wake_up)
        return TaskStatusService(
            registration=Registration(self.store, executions, ids, tools, self.wake_up, definitions, DynamicLimits()),
            executions=executions,
            reporting=Reporting(
                executions,
                data_rules,
                canonicalize,
                self.lanes,
                RateLimiter(self.clock, RateLimit()),
                Rejections(observer, MemoryAudit()),
                MemoryRenewal(),
            ),
            queries=queries,
            realtime=Realtime(cast(RealtimeTokens, None), queries, workflows, ""),
            heartbeats=cast(Heartbeats, None),
            administration=Administration(MemoryStuckWork(self.store)),
            workflows=workflows,
            lists=TaskLists(MemoryTaskLists(self.store)),
            lookups=Lookups(MemoryTaskLists(self.store)),
            definitions=Definitions(Catalogue(MemoryDefinitionTable(self.store.clock)), definitions),
            classification=Classification(commands, DefinitionBinding(definitions), tools),
            commands=commands,
        )

    def pass_time(self, seconds: float) -> None:
        """On every clock."""
        self.clock.elapsed += seconds
        self.store.clock.advance(seconds)

    def token(self, producer: str, *roles: Role, tenant: str = TENANT, lifetime_seconds: int = 3600) -> str:
        """A service's JWT."""
        service = DevService(tenant, SCOPE, producer, frozenset(roles))
        return mint_service_token(self._identity.identity_file, self.clock, service, ttl_seconds=lifetime_seconds)

    async def call(self, method: str, request: Message | bytes, bearer: str) -> Any:
        """The response of ``Service/Method``. Raises CallRefusedError."""
        name = f"taskstatus.v1.{method}"
        body = request if isinstance(request, bytes) else request.SerializeToString()
        metadata = (("authorization", f"Bearer {bearer}"),) if bearer else ()
        handler = self._handler(f"/{name}")
        return await handler.unary_unary(body, _Context((*metadata, ("traceparent", TRACEPARENT))))

    def _handler(self, path: str) -> Any:
        details = cast(grpc.HandlerCallDetails, _CallDetails(path))
        found = [handler for generic in self._handlers if (handler := generic.service(details)) is not None]
        return found[0]


class _CallDetails:
    def __init__(self, path: str) -> None:
        self.method = path
        self.invocation_metadata = ()


class _Context:
    """The part of a servicer context that ``unary.py`` uses."""

    def __init__(self, metadata: tuple[tuple[str, str], ...]) -> None:
        self._metadata = metadata

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return self._metadata

    async def abort_with_status(self, status: grpc.Status) -> None:
        rich = status_pb2.Status.FromString(dict(status.trailing_metadata or ())["grpc-status-details-bin"])
        info = error_details_pb2.ErrorInfo()
        rich.details[0].Unpack(info)
        raise CallRefusedError(status.code, info.reason, rich.message)


class Story:
    """The document task: created (version 1), its first step started (version 2), and the worker's next event."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.coordinator = world.token(COORDINATOR, Role.BUSINESS, Role.COORDINATOR)
        self.worker = world.token(WORKER, Role.WORKER)
        self.context = common_pb2.ExecutionContext()

    async def begin(self) -> None:
        """Create, activate, start, and let the work take its time."""
        request = register_service_pb2.CreateWorkflowRequest()
        decode_message(WORKFLOW, request)
        created = await self.world.call("RegisterService/CreateWorkflow", request, self.coordinator)
        self.context = await self.activate(created.tasks[0].task_id, 1)
        self.world.pass_time(2.5)
        await self.report(self.event("evt-started", common_pb2.STEP_STARTED, 1))
        self.world.pass_time(WORK_SECONDS)

    async def activate(self, task_id: str, attempt: int) -> common_pb2.ExecutionContext:
        """An attempt of the step, by the coordinator."""
        request = register_service_pb2.ActivateStepRequest(
            command_id=f"cmd-activate-{attempt}", task_id=task_id, step_id=STEP, step_attempt=attempt
        )
        response = await self.world.call("RegisterService/ActivateStep", request, self.coordinator)
        return cast(common_pb2.ExecutionContext, response.context)

    def event(
        self, event_id: str, event_type: common_pb2.EventType.ValueType, source_seq: int
    ) -> report_service_pb2.ReportEventRequest:
        """An event of the execution in its compact form."""
        return report_service_pb2.ReportEventRequest(
            event_id=event_id,
            event_type=event_type,
            source_seq=source_seq,
            execution_handle=self.context.execution_handle,
        )

    def completed_json(self) -> dict[str, Any]:
        """The event that the page follows, as REST would carry it."""
        return {
            "eventId": "evt-prepared",
            "eventType": "STEP_COMPLETED",
            "sourceSeq": "2",
            "executionHandle": self.context.execution_handle,
            "occurredAt": "2026-11-30T09:00:04.340Z",
            "durationMs": 1840,
            "data": {"schema": "file.prepare.completed.v1", "value": {"pages": 12, "language": "en", "host": "w-7"}},
        }

    def completed(self) -> report_service_pb2.ReportEventRequest:
        """The same as the message that both transports make of it."""
        request = report_service_pb2.ReportEventRequest()
        decode_message(orjson.dumps(self.completed_json()), request)
        return request

    async def report(
        self, request: report_service_pb2.ReportEventRequest | bytes, bearer: str | None = None
    ) -> report_service_pb2.ReportEventResponse:
        """Report as the worker, or with another credential."""
        token = self.worker if bearer is None else bearer
        return cast(
            report_service_pb2.ReportEventResponse, await self.world.call("ReportService/ReportEvent", request, token)
        )


@contextmanager
def a_story(lanes: LaneConfig | None = None) -> Iterator[Story]:
    """A story in a world of its own; call ``begin`` first."""
    with TemporaryDirectory(prefix="taskstatus-docs-") as folder:
        yield Story(World(Path(folder), lanes))
