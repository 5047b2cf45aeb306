"""A fresh task for each way in, all of them equal but for their ids and times."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from google.protobuf import struct_pb2
from google.protobuf.message import Message
from sqlalchemy.ext.asyncio import AsyncEngine
from taskstatus_pb.v1 import common_pb2, register_service_pb2, report_service_pb2

from tests.parity.forging import Forger
from tests.parity.transports import Request
from tests.support.clients import Caller, step, task_spec, unique, workflow_request

OPERATION = "PARITY.PARSE"
STEP_ID = "02_parse"
Form = Literal["full", "handle"]
"""The full form states all that the token binds; the compact form is the handle and the event (E-9)."""
FORMS: tuple[Form, ...] = ("full", "handle")
CREDENTIALS_OF_ONE_FORM: Mapping[str, Form] = {"expired": "full", "unknown": "handle"}


@dataclass(frozen=True)
class Stage:
    """One task and the contexts of its attempts."""

    workflow_id: str
    task_id: str
    contexts: list[common_pb2.ExecutionContext]
    now: datetime
    """The same for every stage of a case."""
    forger: Forger
    answers: list[Message] = field(default_factory=list)
    """What the orders before the case were answered with, in order."""


@dataclass(frozen=True)
class Sent:
    """One event as a case describes it."""

    fields: Mapping[str, Any]
    """Fields of the request beside credential and binding."""
    number: int
    """Becomes the event id: the same number is the same id."""
    by: str = "worker"
    credential: str = "current"
    """Whose: ``current`` attempt, ``first`` attempt, ``forged``, ``expired``, ``unknown`` execution, ``none``."""
    stated: Mapping[str, Any] | Callable[[Stage], Mapping[str, Any]] = field(default_factory=dict)
    """What the event states of its binding in either form, right or wrong."""
    age: timedelta = timedelta(minutes=1)


@dataclass(frozen=True)
class Activate:
    """The coordinator activates an attempt of the step."""

    attempt: int


@dataclass(frozen=True)
class Revoke:
    """The execution's credential generation moves on, as a revocation does."""


@dataclass(frozen=True)
class Spec:
    """What the stage's task is created with, besides or instead of what it has else."""

    fields: Mapping[str, Any]


@dataclass(frozen=True)
class Order:
    """A command or a read that is carried out before the case begins."""

    method: str
    """``RegisterService/RequestCancel``."""
    request: Callable[[Stage], Message]
    by: str = "coordinator"


Preparation = Sent | Activate | Revoke | Spec | Order
REVOKE = (
    "UPDATE task_step SET generation = generation + 1 WHERE task_id = %s",
    "UPDATE task SET row_revision = row_revision + 1 WHERE id = %s",
)
"""Every writer of a task's rows raises its revision."""
CONTEXTS = frozenset({"RegisterService/ActivateStep", "RegisterService/RegisterExecution"})
"""Methods that answer with the context of an execution."""
OnActivated = Callable[[str], Awaitable[object]]


def data(schema: str, **value: Any) -> report_service_pb2.EventData:
    """Data of an event."""
    struct = struct_pb2.Struct()
    struct.update(value)
    return report_service_pb2.EventData(schema=schema, value=struct)


def other_id(prefix: str) -> str:
    """A well-formed id of nothing."""
    return f"{prefix}_01890000000070008000000000000001"


def expressible(sent: Sent, form: Form) -> bool:
    """Whether the event can be said in this form; without a credential there is one form only."""
    if sent.credential == "none":
        return form == "full"
    return CREDENTIALS_OF_ONE_FORM.get(sent.credential, form) == form


def build(sent: Sent, stage: Stage, form: Form) -> Request:
    """The request of an event in a form."""
    request = Request(event_id=f"{sent.number:032x}", **sent.fields)
    request.occurred_at.FromDatetime(stage.now - sent.age)
    for name, value in _credential(sent.credential, stage, form).items():
        setattr(request, name, value)
    stated = sent.stated(stage) if callable(sent.stated) else sent.stated
    for name, value in stated.items():
        setattr(request, name, value)
    return request


def _credential(kind: str, stage: Stage, form: Form) -> dict[str, Any]:
    if kind == "none":
        return {"task_id": stage.task_id, "workflow_id": stage.workflow_id}
    context = stage.contexts[0 if kind == "first" else -1]
    token, handle = context.execution_token, context.execution_handle
    match kind:
        case "forged":
            token, handle = _spoiled(token), _spoiled(handle)
        case "expired":
            token = stage.forger.expired(context)
        case "unknown":
            handle = stage.forger.handle_of_nothing()
    return {"execution_handle": handle} if form == "handle" else {"execution_token": token, **_binding(context)}


def _spoiled(text: str) -> str:
    return text[:-4] + ("AAAA" if not text.endswith("AAAA") else "BBBB")


def _binding(context: common_pb2.ExecutionContext) -> dict[str, Any]:
    names = (
        "workflow_id",
        "task_id",
        "task_attempt",
        "step_id",
        "step_attempt",
        "execution_id",
        "operation_code",
        "producer_id",
        "task_type",
    )
    return {name: getattr(context, name) for name in names}


async def set_stage(
    callers: Mapping[str, Caller],
    forger: Forger,
    writer: AsyncEngine,
    now: datetime,
    before: tuple[Preparation, ...],
    on_activated: OnActivated | None = None,
) -> Stage:
    """A new workflow with its one task, brought to where the case begins; ``on_activated`` sees each new handle."""
    coordinator = callers["coordinator"]
    fields: dict[str, Any] = {
        "client_task_key": "parity",
        "task_type": "contract",
        "known_steps": [step(STEP_ID, operation_code=OPERATION)],
    }
    for changes in before:
        if isinstance(changes, Spec):
            fields |= changes.fields
    spec = task_spec(**fields)
    created = await coordinator.call(
        coordinator.register.CreateWorkflow,
        workflow_request(spec, client_workflow_key=unique("parity"), command_id="cmd-create"),
    )
    stage = Stage(created.workflow_id, created.tasks[0].task_id, [], now, forger)
    for action in before:
        await _carry_out(action, stage, callers, writer)
        if isinstance(action, Activate) and on_activated is not None:
            await on_activated(stage.contexts[-1].execution_handle)
    return stage


async def unary(caller: Caller, method: str, request: Message) -> Message:
    """The response to ``RegisterService/RequestCancel`` and its like; raises ``grpc.aio.AioRpcError``."""
    service, _, name = method.partition("/")
    response: Message = await caller.call(getattr(caller.stubs[service], name), request)
    return response


def remember(stage: Stage, method: str, answer: Mapping[str, Any]) -> None:
    """Let the stage know the execution that a command was answered with, in the answer's JSON form."""
    if method in CONTEXTS and "context" in answer:
        told = answer["context"]
        stage.contexts.append(
            common_pb2.ExecutionContext(execution_id=told["executionId"], step_attempt=told["stepAttempt"])
        )


async def _carry_out(action: Preparation, stage: Stage, callers: Mapping[str, Caller], writer: AsyncEngine) -> None:
    match action:
        case Activate(attempt):
            coordinator = callers["coordinator"]
            request = register_service_pb2.ActivateStepRequest(
                command_id=f"cmd-{attempt}", task_id=stage.task_id, step_id=STEP_ID, step_attempt=attempt
            )
            response = await coordinator.call(coordinator.register.ActivateStep, request)
            stage.contexts.append(response.context)
        case Revoke():
            task_id = bytes.fromhex(stage.task_id.removeprefix("task_"))
            async with writer.connect() as connection:
                for statement in REVOKE:
                    await connection.exec_driver_sql(statement, (task_id,))
        case Order():
            answer = await unary(callers[action.by], action.method, action.request(stage))
            stage.answers.append(answer)
            if isinstance(answer, register_service_pb2.RegisterExecutionResponse):
                stage.contexts.append(answer.context)
        case Sent():
            caller = callers[action.by]
            form: Form = "handle" if expressible(action, "handle") else "full"
            answer = await caller.call(caller.report_service.ReportEvent, build(action, stage, form))
            assert answer.accepted
