"""The application service over the in-memory store, with fakes of the other ports and a clock that a test moves."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

import orjson
import pytest

from taskstatus.adapters.memory.clock import MemoryDatabaseClock
from taskstatus.adapters.memory.definitions import MemoryRegistry
from taskstatus.adapters.memory.reader import MemoryTaskReader
from taskstatus.adapters.memory.store import MemoryTaskStore
from taskstatus.adapters.memory.workflows import MemoryWorkflowReader
from taskstatus.application.classification import Classification
from taskstatus.application.definition_binding import DefinitionBinding
from taskstatus.application.executions import ExecutionCommands, ExecutionDirectory
from taskstatus.application.identity import ExecutionBinding, ExecutionGrant, HandleClaim, Role, ServiceIdentity
from taskstatus.application.ids_factory import IdFactory
from taskstatus.application.query import Queries
from taskstatus.application.register import Registration
from taskstatus.application.task_commands import TaskCommands
from taskstatus.application.workflows import Workflows
from taskstatus.domain.commands import TaskEventCommand
from taskstatus.domain.dynamic import DynamicLimits
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.events import EXECUTION_EVENTS
from taskstatus.domain.ids import ExecutionId
from taskstatus.domain.notifications import OutboxTools
from taskstatus.domain.reasons import Reason
from taskstatus.domain.records import ChangeSet, ReportResult, RunRecord
from taskstatus.domain.state import StepState, TaskState
from taskstatus.domain.verdicts import Refused, Verdict, result_or_raise
from taskstatus.runtime.batch_commit import BatchCommit
from tests.unit.factories import MONOTONIC_NOW, SCOPE, START, TENANT, UNIX_NOW

T = TypeVar("T")
TOKEN_SECONDS = 900.0


def drive(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run what never waits for anything but its own turn, without an event loop."""
    while True:
        try:
            coroutine.send(None)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]


@dataclass
class FakeClock:
    """Moves only when told to."""

    unix: float = UNIX_NOW
    monotonic: float = MONOTONIC_NOW

    def unix_seconds(self) -> float:
        """The wall clock."""
        return self.unix

    def monotonic_seconds(self) -> float:
        """The monotonic clock."""
        return self.monotonic

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.unix += seconds
        self.monotonic += seconds


@dataclass
class CountingRandomness:
    """Different at each call, the same in each run."""

    count: int = 0

    def bits(self, count: int) -> int:
        """The next number, spread over the bits."""
        self.count += 1
        return self.count * 0x9E3779B97F4A7C15 & (1 << count) - 1

    def fraction(self) -> float:
        """Always the middle."""
        return 0.5


@dataclass
class FakeCredentials:
    """Credentials kept in a dictionary: genuine is what was issued here."""

    clock: FakeClock
    tokens: dict[str, ExecutionGrant] = field(default_factory=dict)
    handles: dict[str, HandleClaim] = field(default_factory=dict)

    def issue_token(self, binding: ExecutionBinding, generation: int) -> tuple[str, float]:
        """A token that lives for ``TOKEN_SECONDS``."""
        token, expires_at = f"token-{len(self.tokens) + 1}", self.clock.unix + TOKEN_SECONDS
        self.tokens[token] = ExecutionGrant(binding, EXECUTION_EVENTS, generation, expires_at)
        return token, expires_at

    def make_handle(self, binding: ExecutionBinding, generation: int) -> str:
        """The same handle for the same arguments."""
        handle = f"exh_{binding.execution_id.hex()}.{generation}"
        self.handles[handle] = HandleClaim(binding.execution_id, generation)
        return handle

    def open_token(self, token: str) -> ExecutionGrant:
        """What was issued under it."""
        return _known(self.tokens, token)

    def open_handle(self, handle: str) -> HandleClaim:
        """What was made under it."""
        return _known(self.handles, handle)


def _known(issued: dict[str, T], credential: str) -> T:
    if credential not in issued:
        raise RefusedError(Reason.UNAUTHENTICATED, "the credential is forged")
    return issued[credential]


@dataclass
class RecordingWakeUp:
    """Counts hints."""

    hints: int = 0

    def hint(self) -> None:
        """One more."""
        self.hints += 1


@dataclass
class RecordingObserver:
    """Keeps what the service tells about itself."""

    judged: list[tuple[str, Verdict]] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)

    def event_judged(self, transport: str, verdict: Verdict) -> None:
        """Keep it."""
        self.judged.append((transport, verdict))

    def batch_committed(self, commands: int, commit_seconds: float) -> None:
        """Keep its size."""
        self.batches.append(commands)

    def rows_locked(self, seconds: float) -> None:
        """Of no interest here."""

    def lane_depth(self, queued: int) -> None:
        """Of no interest here."""


class Kit:
    """Everything over one in-memory store."""

    oldest_accepted = timedelta(days=7)

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = MemoryTaskStore(clock=MemoryDatabaseClock(START))
        self.tables = self.store.tables
        self.reader = MemoryTaskReader(self.store)
        self.credentials = FakeCredentials(self.clock)
        self.wake_up = RecordingWakeUp()
        self.definitions = MemoryRegistry()
        self.observer = RecordingObserver()
        ids = IdFactory(self.clock, CountingRandomness())
        self.tools = OutboxTools(new_id=ids.new, to_json=orjson.dumps)
        self.executions = ExecutionCommands(self.credentials, ExecutionDirectory(self.reader), self.reader, self.clock)
        self.registration = Registration(
            self.store, self.executions, ids, self.tools, self.wake_up, self.definitions, DynamicLimits()
        )
        self.commands = TaskCommands(
            self.store, ExecutionDirectory(self.reader), self.definitions, self.tools, self.wake_up
        )
        self.classification = Classification(self.commands, DefinitionBinding(self.definitions), self.tools)
        self.queries = Queries(self.reader)
        self.workflows = Workflows(self.store, MemoryWorkflowReader(self.store), self.tools, self.wake_up)
        self.commit = BatchCommit(
            self.store, self.definitions, self.clock, self.tools, self.observer, self.oldest_accepted, 100
        )

    def put(self, task: TaskState, *steps: StepState) -> None:
        """Let a task and its steps exist."""
        of = task.envelope
        run = RunRecord(of.task_id, of.bucket, task.attempt, of.input_ref, task.weight_total, of.created_at)
        changes = ChangeSet(new_tasks=[task], new_runs=[run], new_steps=list(steps))
        self.tables.apply(changes, self.store.clock.read())

    def report(self, *commands: TaskEventCommand) -> list[Verdict]:
        """Commit the commands in one transaction."""
        return drive(self.commit(commands))

    def result(self, command: TaskEventCommand) -> ReportResult:
        """The answer to one command; raises its refusal."""
        return result_or_raise(self.report(command)[0])

    def reason(self, command: TaskEventCommand) -> Reason | None:
        """Why one command was not simply accepted."""
        return reason_of(self.report(command)[0])

    def only_task(self) -> TaskState:
        """The task as committed, where there is one."""
        (task,) = self.tables.tasks.values()
        return task

    def step(self, step_id: str = "02_parse", attempt: int = 1) -> StepState:
        """An attempt of a step of the only task."""
        task = self.only_task()
        return self.tables.steps[(task.envelope.task_id, task.attempt, step_id, attempt)]


def reason_of(verdict: Verdict) -> Reason | None:
    """The reason of a refusal or of an answer."""
    if isinstance(verdict, Refused):
        return verdict.error.reason
    return result_or_raise(verdict).reason


def kinds_of(verdicts: Iterable[Verdict]) -> list[str]:
    """The names of the verdicts' classes."""
    return [type(verdict).__name__ for verdict in verdicts]


def a_service(producer_id: str, *roles: Role, tenant_id: str = TENANT, scope: str = SCOPE) -> ServiceIdentity:
    """A verified service."""
    return ServiceIdentity(tenant_id, scope, producer_id, frozenset(roles), producer_id, UNIX_NOW + 600)


def execution_of(step: StepState) -> ExecutionId:
    """The execution of an activated attempt."""
    assert step.terms is not None
    return step.terms.execution_id


def contents(kit: Kit) -> Any:
    """Everything that a refused command must leave alone."""
    tables = kit.tables
    parts = (tables.tasks, tables.steps, tables.runs, tables.events, tables.dedups, tables.outbox, tables.audits)
    return [dict(part) for part in parts]


def refusal(kit: Kit, call: Coroutine[Any, Any, object]) -> RefusedError:
    """Why it is refused; checks that nothing was written."""
    before = contents(kit)
    with pytest.raises(RefusedError) as caught:
        drive(call)
    assert contents(kit) == before
    return caught.value
