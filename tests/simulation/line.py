"""The line between clients and the fleet: every call is recorded as its sender saw it, answered or not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from taskstatus.application.executions import BoundExecution
from taskstatus.application.ports_store import StoreUnavailableError
from taskstatus.application.register import Registration
from taskstatus.application.task_commands import TaskCommands
from taskstatus.domain.commands import ActivateAttempt
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import TaskId
from taskstatus.domain.reasons import RETRYABLE_REASONS, Reason
from taskstatus.domain.task_commands import (
    AttachExternalRef,
    CommandHead,
    CommandOutcome,
    CorrectTask,
    RequestCancel,
    RerunTask,
    RevokeExecution,
    UpdateMetadata,
)
from taskstatus.domain.verdicts import Verdict, result_or_raise
from tests.history.model import Beat, Creation, Invocation, Outcome
from tests.simulation.faults import Faults, Trace
from tests.simulation.items import Item, Pulse
from tests.simulation.loop import SimulatedLoop
from tests.simulation.options import Fault, Options, stream
from tests.simulation.replicas import Fleet, Replica

T = TypeVar("T")
TaskOrder = RequestCancel | RerunTask | UpdateMetadata | AttachExternalRef | RevokeExecution | CorrectTask

LONGEST_PATIENCE_SECONDS = 0.1
_UNKNOWN_REASONS = frozenset({Reason.UNAVAILABLE, Reason.INTERNAL})


@dataclass(frozen=True, slots=True)
class Refusal:
    """A call that was refused, or whose outcome is unknown (then ``reason`` may be None: no reply)."""

    reason: Reason | None

    @property
    def is_final(self) -> bool:
        """Whether sending it again is of no use."""
        return self.reason is not None and self.reason not in RETRYABLE_REASONS

    def of(self, begun: Invocation) -> Invocation:
        """What the sender knows of an item then."""
        is_known = self.reason is not None and self.reason not in _UNKNOWN_REASONS
        outcome = Outcome.REFUSED if is_known else Outcome.UNKNOWN
        return replace(begun, outcome=outcome, reason=self.reason.value if self.reason else "")


class Line:
    """Sends calls to any replica and keeps the history of all clients."""

    def __init__(self, loop: SimulatedLoop, options: Options, faults: Faults, fleet: Fleet, trace: Trace) -> None:
        self._loop = loop
        self._latency_seconds = options.latency_seconds
        self._faults = faults
        self._fleet = fleet
        self._trace = trace
        self._random = stream(options.seed, "line")
        self._calls = 0
        self.invocations: list[Invocation] = []
        self.creations: list[Creation] = []
        self.results: dict[TaskId, dict[str, str]] = {}
        """The events that were acknowledged as the end of a step, by task and step."""
        self.beats: list[Beat] = []
        self.defects: list[str] = []

    async def report(self, client: str, items: Sequence[Item]) -> list[Invocation]:
        """Report the items in one call; what became of each."""
        begun = self._begin(client, items)
        replica = await self._reach()
        drafts = [item.draft(replica.clock) for item in items]
        answer = await self._call(replica, replica.reporting.report_all(drafts), begun)
        if isinstance(answer, Refusal):
            return self._keep([answer.of(one) for one in begun])
        answered = [_answered(one, verdict) for one, verdict in zip(begun, answer, strict=True)]
        for item, one in zip(items, answered, strict=True):
            if one.outcome is Outcome.OK and item.content.event_type is EventType.STEP_COMPLETED:
                step_id = item.content.event_id.partition(".")[0]
                self.results.setdefault(item.task_id, {})[step_id] = item.content.event_id
        return self._keep(answered)

    async def order(self, client: str, order: TaskOrder) -> CommandOutcome | Refusal:
        """Give a command on a task; what it left, or why it did nothing."""
        head = order.head
        begun = self._begin_command(client, head, type(order).__name__)
        replica = await self._reach()
        answer = await self._call(replica, carried_out(order, replica.commands), [begun])
        if isinstance(answer, Refusal):
            self._keep([answer.of(begun)])
            return answer
        result = answer.result
        if result.changed:
            done = replace(begun, outcome=Outcome.OK, version=result.task_version, duplicate=result.duplicate)
        else:
            done = replace(begun, outcome=Outcome.NO_OP)
        self._keep([done])
        return answer

    async def beat(self, client: str, pulses: list[Pulse]) -> None:
        """Beat for executions of one caller in one call, by unary call or as on a stream."""
        sent_at, is_unary = self._loop.time(), self._random.randrange(2) == 0
        answer: list[Reason | None] | Refusal = Refusal(None)
        try:
            replica = await self._reach()
            watch = replica.watch
            answer = await self._call(replica, (watch.beat_unary if is_unary else watch.beat_bound)(pulses), [])
        finally:
            # A sender that was cancelled does not know, and must say so.
            self._keep_beats(client, sent_at, pulses, answer)

    def _keep_beats(
        self, client: str, sent_at: float, pulses: list[Pulse], answer: list[Reason | None] | Refusal
    ) -> None:
        reasons = [answer.reason] * len(pulses) if isinstance(answer, Refusal) else answer
        is_unknown = isinstance(answer, Refusal) and answer.reason is None
        for pulse, reason in zip(pulses, reasons, strict=True):
            outcome = Outcome.UNKNOWN if is_unknown else Outcome.REFUSED if reason else Outcome.OK
            execution_id, seq, done_at = pulse.assignment.binding.execution_id, pulse.heartbeat_seq, self._loop.time()
            self.beats.append(Beat(execution_id, seq, sent_at, done_at, outcome, reason or ""))
            if self._trace.wanted:
                what = f"beat {seq} of …{execution_id.hex()[-4:]} sent at {sent_at:.4f}"
                self._trace.add(client, f"{what}: {outcome} {reason or ''}")

    async def activate(self, client: str, command: ActivateAttempt) -> BoundExecution | Refusal:
        """Activate an attempt; the execution, or why not."""
        begun = self._begin_command(client, command, f"activates {command.step_id}/{command.step_attempt}")
        replica = await self._reach()
        answer = await self._call(replica, replica.registration.activate(command), [begun])
        if isinstance(answer, Refusal):
            self._keep([answer.of(begun)])
            return answer
        step = answer.step
        assert step.terms is not None
        writes_event = step.attempt > 1 or step.definition.dynamic
        done = replace(
            begun,
            outcome=Outcome.OK,
            version=answer.task.version if writes_event else None,
            duplicate=not answer.created,
            coordinates=step.key,
            execution_id=step.terms.execution_id,
        )
        self._keep([done])
        return answer

    async def create(self, make: Callable[[Registration], Coroutine[object, object, T]]) -> T:
        """Send a creating command, each time to any replica, until it is answered. Raises RefusedError."""
        while True:
            replica = await self._reach()
            answer = await self._call(replica, make(replica.registration), [])
            if not isinstance(answer, Refusal):
                return answer
            if answer.is_final:
                raise RefusedError(answer.reason or Reason.INTERNAL, "a valid creation was refused")

    async def _reach(self) -> Replica:
        """The time on the way, and the replica that the balancer chose."""
        await asyncio.sleep(self._latency_seconds * self._random.random())
        return self._random.choice(self._fleet.replicas)

    async def _call(self, replica: Replica, work: Coroutine[object, object, T], begun: list[Invocation]) -> T | Refusal:
        patience = None
        if self._faults.happens(Fault.CALLER_CANCELLED, f"call {self._calls}"):
            patience = self._random.random() * LONGEST_PATIENCE_SECONDS
        try:
            answer = await replica.serve(work, patience)
        except RefusedError as refused:
            return Refusal(refused.reason)
        except StoreUnavailableError:
            if len({one.stream for one in begun}) > 1:
                self.defects.append(f"E-10: call {begun[0].call} was sunk whole by StoreUnavailableError")
            return Refusal(Reason.UNAVAILABLE)
        except Exception as error:
            self.defects.append(f"a call raised {error!r}")
            return Refusal(None)
        return Refusal(None) if answer is None else answer

    def _begin(self, client: str, items: Sequence[Item]) -> list[Invocation]:
        self._calls += 1
        now = self._loop.time()
        begun = []
        for place, item in enumerate(items):
            number = self._calls * 1_000 + place
            event_id = item.content.event_id
            begun.append(
                Invocation(
                    number,
                    self._calls,
                    client,
                    item.stream,
                    item.task_id,
                    event_id,
                    item.text,
                    now,
                    now,
                    Outcome.UNKNOWN,
                )
            )
            if self._trace.wanted:
                what = f"call {self._calls} sends {event_id} {item.content.event_type} seq {item.content.source_seq}"
                self._trace.add(client, f"{what} of task …{item.task_id.hex()[-4:]}")
        return begun

    def _begin_command(self, client: str, command: ActivateAttempt | CommandHead, what: str) -> Invocation:
        self._calls += 1
        now = self._loop.time()
        self._trace.add(
            client, f"call {self._calls} {what} ({command.command_id}) of task …{command.task_id.hex()[-4:]}"
        )
        return Invocation(
            self._calls * 1_000,
            self._calls,
            client,
            command.task_id,
            command.task_id,
            command.command_id,
            command.canonical.decode(),
            now,
            now,
            Outcome.UNKNOWN,
        )

    def _keep(self, done: list[Invocation]) -> list[Invocation]:
        now = self._loop.time()
        timed = [replace(one, done_at=now) for one in done]
        self.invocations.extend(timed)
        for one in timed:
            repeat = "again " if one.duplicate else ""
            self._trace.add(
                one.client, f"call {one.call} {one.event_id}: {repeat}{one.outcome} {one.version or ''} {one.reason}"
            )
        return timed


async def carried_out(order: TaskOrder, commands: TaskCommands) -> CommandOutcome:
    """The order, by the method of its kind."""
    match order:
        case RequestCancel():
            return await commands.request_cancel(order)
        case RerunTask():
            return await commands.rerun(order)
        case UpdateMetadata():
            return await commands.update_metadata(order)
        case AttachExternalRef():
            return await commands.attach_external_ref(order)
        case RevokeExecution():
            return await commands.revoke(order)
        case CorrectTask():
            return await commands.correct(order)


def _answered(begun: Invocation, verdict: Verdict) -> Invocation:
    try:
        result = result_or_raise(verdict)
    except RefusedError as refused:
        outcome = Outcome.UNKNOWN if refused.reason in _UNKNOWN_REASONS else Outcome.REFUSED
        return replace(begun, outcome=outcome, reason=refused.reason.value)
    if not result.accepted:
        return replace(begun, outcome=Outcome.REFUSED, reason=result.reason.value if result.reason else "")
    if not result.changed:
        return replace(begun, outcome=Outcome.NO_OP)
    return replace(
        begun,
        outcome=Outcome.ABSORBED if result.coalesced else Outcome.OK,
        version=result.task_version,
        duplicate=result.duplicate,
        committed_at=result.committed_at,
    )
