"""Commands and queries that are refused: gRPC and REST name the same reason, sentence and fields (T-3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from google.protobuf.message import Message
from taskstatus_pb.v1 import (
    bind_execution_service_pb2,
    query_service_pb2,
    realtime_service_pb2,
    register_service_pb2,
)

from taskstatus.domain.reasons import Reason
from tests.parity.calls import Command, ways_of
from tests.parity.cases import RETRIED, RUNNING, TASK_DONE
from tests.parity.conftest import Theatre
from tests.parity.stage import STEP_ID, Activate, Revoke, Stage, other_id, set_stage
from tests.support.clients import task_spec, workflow_request

pytestmark = pytest.mark.asyncio(loop_scope="module")


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
    request, caller = command.request(stage), theatre.callers[command.by]
    ways = ways_of(command.method)
    assert len(ways) > 1
    by_grpc = await ways["gRPC"](theatre.lines, caller, request)
    assert by_grpc.reason == command.reason
    for way_name, way in ways.items():
        assert await way(theatre.lines, caller, request) == by_grpc, way_name
