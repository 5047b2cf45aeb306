"""Real gRPC clients of a running service, as the identities of a test."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import grpc
import grpc.aio
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from taskstatus_pb.v1 import (
    admin_service_pb2_grpc,
    bind_execution_service_pb2_grpc,
    common_pb2,
    heartbeat_service_pb2_grpc,
    query_service_pb2_grpc,
    realtime_service_pb2_grpc,
    register_service_pb2,
    register_service_pb2_grpc,
    report_service_pb2,
    report_service_pb2_grpc,
    task_commands_pb2,
)

from taskstatus.adapters.clock import SystemClock
from taskstatus.adapters.tokens.dev_tokens import DevPerson, DevService, mint_person_token, mint_service_token
from taskstatus.application.identity import Role

TENANT, SCOPE = "t-01", "content-platform"
OWNER = "u-88"
COORDINATOR, WORKER = "task-coordinator", "document-parser"


@dataclass(frozen=True)
class Refusal:
    """How a call was refused."""

    code: grpc.StatusCode
    reason: str
    message: str
    fields: tuple[str, ...] = ()
    retry_after: float | None = None


def refusal_of(error: grpc.aio.AioRpcError) -> Refusal:
    """The refusal behind an error, from its rich details."""
    reason, fields, retry_after = "", (), None
    status = rpc_status.from_call(error)  # type: ignore[arg-type]
    for detail in status.details if status else ():
        info, bad, retry = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest(), error_details_pb2.RetryInfo()
        if detail.Unpack(info):
            reason = info.reason
        elif detail.Unpack(bad):
            fields = tuple(violation.field for violation in bad.field_violations)
        elif detail.Unpack(retry):
            retry_after = retry.retry_delay.ToTimedelta().total_seconds()
    return Refusal(error.code(), reason, error.details() or "", fields, retry_after)


class Tokens:
    """JWTs of the development issuers."""

    def __init__(self, identity_file: Path) -> None:
        self._file = identity_file

    def service(
        self, producer: str, *roles: Role, tenant: str = TENANT, scope: str = SCOPE, seconds: int = 3600
    ) -> str:
        """A service's token."""
        return mint_service_token(
            self._file, SystemClock(), DevService(tenant, scope, producer, frozenset(roles)), ttl_seconds=seconds
        )

    def person(
        self,
        user: str,
        tenant: str = TENANT,
        projects: frozenset[str] = frozenset(),
        roles: frozenset[str] = frozenset(),
    ) -> str:
        """A person's token."""
        return mint_person_token(self._file, SystemClock(), DevPerson(tenant, user, projects, roles))


@dataclass
class Caller:
    """One identity with every stub; raises nothing but ``grpc.aio.AioRpcError``."""

    channel: grpc.aio.Channel
    token: str
    metadata: tuple[tuple[str, str], ...] = field(init=False)

    def __post_init__(self) -> None:
        self.metadata = (("authorization", f"Bearer {self.token}"),) if self.token else ()
        self.register = register_service_pb2_grpc.RegisterServiceStub(self.channel)
        self.report_service = report_service_pb2_grpc.ReportServiceStub(self.channel)
        self.bind_service = bind_execution_service_pb2_grpc.BindExecutionServiceStub(self.channel)
        self.heartbeats = heartbeat_service_pb2_grpc.HeartbeatServiceStub(self.channel)
        self.admin = admin_service_pb2_grpc.AdminServiceStub(self.channel)
        self.query = query_service_pb2_grpc.QueryServiceStub(self.channel)
        self.realtime = realtime_service_pb2_grpc.RealtimeServiceStub(self.channel)

    @property
    def stubs(self) -> Mapping[str, Any]:
        """Every stub, by the name of its service."""
        return {
            "RegisterService": self.register,
            "ReportService": self.report_service,
            "BindExecutionService": self.bind_service,
            "HeartbeatService": self.heartbeats,
            "AdminService": self.admin,
            "QueryService": self.query,
            "RealtimeService": self.realtime,
        }

    async def call(self, method: Any, request: Any) -> Any:
        """Call a stub's method as this identity."""
        return await method(request, metadata=self.metadata, timeout=30)

    async def refused(self, method: Any, request: Any) -> Refusal:
        """Call a stub's method that must be refused."""
        try:
            response = await self.call(method, request)
        except grpc.aio.AioRpcError as error:
            return refusal_of(error)
        raise AssertionError(f"was not refused: {response}")

    async def report(self, **event: Any) -> report_service_pb2.ReportEventResponse:
        """ReportEvent."""
        return await self.call(self.report_service.ReportEvent, event_request(**event))

    async def report_refused(self, **event: Any) -> Refusal:
        """A ReportEvent that must be refused."""
        return await self.refused(self.report_service.ReportEvent, event_request(**event))


_numbers = itertools.count(1)


def unique(prefix: str) -> str:
    """An id that no other test uses."""
    return f"{prefix}-{next(_numbers)}-{uuid4().hex[:12]}"


def event_request(**event: Any) -> report_service_pb2.ReportEventRequest:
    """An event with an id of its own unless one is given."""
    return report_service_pb2.ReportEventRequest(**{"event_id": unique("evt"), **event})


def step(step_id: str = "02_parse", **fields: Any) -> register_service_pb2.StepSpec:
    """A step of the document task."""
    defaults = {
        "step_id": step_id,
        "operation_code": "DOCUMENT.PARSE",
        "expected_producer": WORKER,
        "failure_policy": common_pb2.RETRY_THEN_FAIL_TASK,
    }
    return register_service_pb2.StepSpec(**{**defaults, **fields})


def task_spec(**fields: Any) -> register_service_pb2.TaskSpec:
    """A task with one step."""
    defaults: dict[str, Any] = {"client_task_key": unique("task"), "title": "Contract", "known_steps": [step()]}
    return register_service_pb2.TaskSpec(**{**defaults, **fields})


def workflow_request(
    *tasks: register_service_pb2.TaskSpec, **fields: Any
) -> register_service_pb2.CreateWorkflowRequest:
    """A workflow with its tasks."""
    defaults: dict[str, Any] = {
        "command_id": unique("cmd"),
        "client_workflow_key": unique("wf"),
        "owner_id": OWNER,
        "title": "Material",
        "initial_tasks": tasks,
    }
    return register_service_pb2.CreateWorkflowRequest(**{**defaults, **fields})


async def new_task(coordinator: Caller, **fields: Any) -> str:
    """The id of a new task."""
    response = await coordinator.call(coordinator.register.CreateWorkflow, workflow_request(task_spec(**fields)))
    return str(response.tasks[0].task_id)


async def activate(coordinator: Caller, task_id: str, attempt: int = 1, step_id: str = "02_parse") -> Any:
    """The context of an attempt."""
    request = register_service_pb2.ActivateStepRequest(
        command_id=unique("cmd"), task_id=task_id, step_id=step_id, step_attempt=attempt
    )
    return (await coordinator.call(coordinator.register.ActivateStep, request)).context


async def request_cancel(caller: Caller, task_id: str, **fields: Any) -> Any:
    """What RequestCancel left behind."""
    request = task_commands_pb2.RequestCancelRequest(**{"command_id": unique("cmd"), "task_id": task_id, **fields})
    return (await caller.call(caller.register.RequestCancel, request)).change


async def revoke(caller: Caller, execution_id: str, **fields: Any) -> Any:
    """The answer of RevokeExecution."""
    named = {"command_id": unique("cmd"), "execution_id": execution_id, **fields}
    return await caller.call(caller.register.RevokeExecution, task_commands_pb2.RevokeExecutionRequest(**named))
