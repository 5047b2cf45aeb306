"""Commands and queries that are refused: gRPC and REST name the same reason, sentence and fields (T-3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import grpc.aio
import pytest
from google.protobuf.message import Message
from taskstatus_pb.v1 import (
    bind_execution_service_pb2,
    query_service_pb2,
    realtime_service_pb2,
    register_service_pb2,
)

from gateway_rest.routes import Binding, load_bindings, stub_files
from taskstatus.domain.reasons import Reason
from tests.parity.cases import RETRIED, RUNNING, TASK_DONE
from tests.parity.conftest import Theatre
from tests.parity.outcome import Outcome
from tests.parity.stage import STEP_ID, Activate, Preparation, Revoke, Stage, other_id, set_stage
from tests.parity.transports import json_of, refused_by_grpc, refused_by_rest
from tests.support.clients import task_spec, workflow_request

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass(frozen=True)
class Command:
    """A request that must be refused."""

    method: str
    request: Callable[[Stage], Message]
    reason: Reason
    by: str = "coordinator"
    before: tuple[Preparation, ...] = ()


def activation(attempt: int, **fields: Any) -> Callable[[Stage], Message]:
    """ActivateStep on the stage's task."""
    return lambda stage: register_service_pb2.ActivateStepRequest(
        **{"command_id": "cmd-x", "task_id": stage.task_id, "step_id": STEP_ID, "step_attempt": attempt, **fields}
    )


def renewal(of: int = -1, **fields: Any) -> Callable[[Stage], Message]:
    """RenewExecution of one of the stage's attempts."""

    def build(stage: Stage) -> Message:
        context = stage.contexts[of]
        known = {"execution_id": context.execution_id, "execution_handle": context.execution_handle}
        return register_service_pb2.RenewExecutionRequest(**{**known, **fields})

    return build


def binding(stage: Stage) -> Message:
    """BindExecution by the first attempt's token."""
    return bind_execution_service_pb2.BindExecutionRequest(execution_token=stage.contexts[0].execution_token)


CREATE_WORKFLOW, CREATE_TASK = "RegisterService/CreateWorkflow", "RegisterService/CreateTask"
ACTIVATE, RENEW = "RegisterService/ActivateStep", "RegisterService/RenewExecution"
BIND, GET_TASK = "BindExecutionService/BindExecution", "QueryService/GetTask"
SUBSCRIBE = "RealtimeService/CreateSubscriptionToken"

COMMANDS: Mapping[str, Command] = {
    "no title": Command(CREATE_WORKFLOW, lambda _: workflow_request(title=" "), Reason.INVALID_ARGUMENT),
    "worker creates": Command(CREATE_WORKFLOW, lambda _: workflow_request(), Reason.PERMISSION_DENIED, by="worker"),
    "nobody creates": Command(CREATE_WORKFLOW, lambda _: workflow_request(), Reason.UNAUTHENTICATED, by="nobody"),
    "unknown workflow": Command(
        CREATE_TASK,
        lambda _: register_service_pb2.CreateTaskRequest(
            command_id="c", workflow_id=other_id("wf"), task=task_spec(client_task_key="k")
        ),
        Reason.WORKFLOW_NOT_FOUND,
    ),
    "same task key, other content": Command(
        CREATE_TASK,
        lambda stage: register_service_pb2.CreateTaskRequest(
            command_id="c", workflow_id=stage.workflow_id, task=task_spec(client_task_key="parity", title="Other")
        ),
        Reason.IDEMPOTENCY_CONFLICT,
    ),
    "unknown task": Command(ACTIVATE, activation(1, task_id=other_id("task")), Reason.TASK_NOT_FOUND),
    "unknown step": Command(ACTIVATE, activation(1, step_id="99_none"), Reason.STEP_NOT_FOUND),
    "attempt left out": Command(ACTIVATE, activation(2), Reason.TRANSITION_NOT_ALLOWED),
    "same attempt, other input": Command(
        ACTIVATE, activation(1, input_ref="other"), Reason.IDEMPOTENCY_CONFLICT, before=(Activate(1),)
    ),
    "task ended": Command(ACTIVATE, activation(2), Reason.TERMINAL, before=(*RUNNING, TASK_DONE)),
    "unknown execution": Command(
        RENEW, renewal(execution_id=other_id("exec"), execution_handle=""), Reason.EXECUTION_NOT_FOUND, before=RUNNING
    ),
    "superseded execution": Command(RENEW, renewal(of=0), Reason.STALE_ATTEMPT, by="worker", before=RETRIED),
    "revoked execution": Command(RENEW, renewal(), Reason.TOKEN_REVOKED, by="worker", before=(*RUNNING, Revoke())),
    "other producer binds": Command(BIND, binding, Reason.PRODUCER_MISMATCH, by="other producer", before=RUNNING),
    "other tenant binds": Command(BIND, binding, Reason.TOKEN_MISMATCH, by="other tenant", before=RUNNING),
    "bound after the end": Command(BIND, binding, Reason.TERMINAL, by="worker", before=(*RUNNING, TASK_DONE)),
    "other tenant reads": Command(
        GET_TASK,
        lambda stage: query_service_pb2.GetTaskRequest(task_id=stage.task_id),
        Reason.TASK_NOT_FOUND,
        by="other tenant",
    ),
    "service subscribes": Command(
        SUBSCRIBE,
        lambda stage: realtime_service_pb2.CreateSubscriptionTokenRequest(task_id=stage.task_id),
        Reason.PERMISSION_DENIED,
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
async def test_t3_a_refused_command_is_refused_alike_by_grpc_and_rest(theatre: Theatre, name: str) -> None:
    command = COMMANDS[name]
    now = theatre.now()
    stage = await set_stage(theatre.callers, theatre.forger, theatre.database.writer, now, command.before)
    request = command.request(stage)
    by_grpc = await refused_on_grpc(theatre, command, request)
    assert by_grpc.reason == command.reason
    bindings = [each for each in load_bindings(stub_files()) if each.method == f"taskstatus.v1.{command.method}"]
    assert bindings
    for route in bindings:
        assert await refused_on_rest(theatre, command, route, request) == by_grpc, route.template.text


async def refused_on_grpc(theatre: Theatre, command: Command, request: Message) -> Outcome:
    """The refusal of the unary call."""
    caller = theatre.callers[command.by]
    service, _, method = command.method.partition("/")
    stubs = {
        "RegisterService": caller.register,
        "BindExecutionService": caller.bind_service,
        "QueryService": caller.query,
        "RealtimeService": caller.realtime,
    }
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await caller.call(getattr(stubs[service], method), request)
    return refused_by_grpc(caught.value)


async def refused_on_rest(theatre: Theatre, command: Command, route: Binding, request: Message) -> Outcome:
    """The refusal of the same request by one of its routes."""
    document = json_of(request)
    path = route.template.text
    for variable, (field,) in zip(route.template.variables, route.path_fields, strict=True):
        path = path.replace(f"{{{variable}}}", document.pop(field.json_name))
    token = theatre.callers[command.by].token
    headers = {"authorization": f"Bearer {token}"} if token else {}
    sent = {"json": document} if route.body else {"params": document}
    return refused_by_rest(await theatre.lines.rest.request(route.http_method, path, headers=headers, **sent))
