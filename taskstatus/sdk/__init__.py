"""What a worker or a coordinator installs: report over gRPC in a few lines; needs the stubs and grpc, nothing else.

A worker team adopts it in ten lines; ``command`` is a message of its own queue, with the context that the coordinator
put there, and ``parse`` the team's own function::

    from taskstatus.sdk import ExecutionContext, Worker, connect

    async def handle(command, target, service_token):
        context = ExecutionContext.from_dict(command["context"])
        async with connect(target, service_token) as connection:
            async with Worker(connection).execution(context) as execution:
                for page in range(1, command["pages"] + 1):
                    parse(page)
                    await execution.progress(page, command["pages"], "page", phase="PARSING")

A normal end of the body is reported as the step's completion, an exception as its failure. A restarted worker goes on
in its execution's sequence; a service that is down for a while is waited for, with the same event id; an answer may say
that the attempt is no longer wanted (``must_stop``). ``taskstatus.sdk.testing`` is a fake service for users' own tests.

While the body runs, heartbeats go out in the background, as often as the service asks; ``cancel_requested`` and
``over`` say what they were told.

A worker with many executions at a time keeps one stream for all of them: ``StreamReporter`` has the same
``execution(context)``, sends without waiting for other executions, and beats in the same frames.

A coordinator creates work, hands out its executions and rules how it ends: ``activate`` and ``register`` begin,
``retry`` tries a failed step again within its policy, ``request_cancel`` asks workers to stop, ``complete_task`` and
its like end a run, and ``rerun`` opens the next one. A worker that stops because it was asked to says ``cancelled()``.

Not there yet: the durable local outbox (a fact that outlasts the policy's patience raises UnavailableError) and
throttled progress.
"""

from taskstatus.sdk.answers import Classification, ReportAnswer, Revocation, TaskChange, WorkflowChange
from taskstatus.sdk.commands import SkippedStep, WorkflowRuling
from taskstatus.sdk.connection import Connection, Tls, TokenProvider, TraceProvider, connect
from taskstatus.sdk.context import ExecutionContext
from taskstatus.sdk.coordinator import Coordinator
from taskstatus.sdk.errors import (
    ConflictError,
    InvalidArgumentError,
    LimitError,
    NotFoundError,
    PermissionDeniedError,
    PreconditionFailedError,
    TaskStatusError,
    UnauthenticatedError,
    UnavailableError,
    Violation,
)
from taskstatus.sdk.event_ids import EventIds, deterministic_event_ids, random_event_ids
from taskstatus.sdk.failures import StepError
from taskstatus.sdk.manifest import (
    AggregationPolicy,
    CreatedTask,
    CreatedWorkflow,
    DynamicPolicy,
    DynamicStep,
    ExternalRef,
    FailurePolicy,
    Grant,
    Permission,
    PrincipalType,
    RegistrationMode,
    StepSpec,
    TaskSpec,
)
from taskstatus.sdk.reporter import EventData, Reporter
from taskstatus.sdk.retry import RetryPolicy, Timing
from taskstatus.sdk.step_retry import NotRetried, RetryOutcome
from taskstatus.sdk.stream import StreamReporter
from taskstatus.sdk.stream_execution import StreamExecution
from taskstatus.sdk.worker import Worker

__all__ = [
    "AggregationPolicy",
    "Classification",
    "ConflictError",
    "Connection",
    "Coordinator",
    "CreatedTask",
    "CreatedWorkflow",
    "DynamicPolicy",
    "DynamicStep",
    "EventData",
    "EventIds",
    "ExecutionContext",
    "ExternalRef",
    "FailurePolicy",
    "Grant",
    "InvalidArgumentError",
    "LimitError",
    "NotFoundError",
    "NotRetried",
    "Permission",
    "PermissionDeniedError",
    "PreconditionFailedError",
    "PrincipalType",
    "RegistrationMode",
    "ReportAnswer",
    "Reporter",
    "RetryOutcome",
    "RetryPolicy",
    "Revocation",
    "SkippedStep",
    "StepError",
    "StepSpec",
    "StreamExecution",
    "StreamReporter",
    "TaskChange",
    "TaskSpec",
    "TaskStatusError",
    "Timing",
    "Tls",
    "TokenProvider",
    "TraceProvider",
    "UnauthenticatedError",
    "UnavailableError",
    "Violation",
    "Worker",
    "WorkflowChange",
    "WorkflowRuling",
    "connect",
    "deterministic_event_ids",
    "random_event_ids",
]
