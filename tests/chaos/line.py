"""The line between clients and the processes: every call is recorded as its sender saw it, answered or not."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from taskstatus_pb.v1 import common_pb2, register_service_pb2, report_service_pb2, task_commands_pb2

from taskstatus.application.identity import ServiceIdentity
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import ExecutionId, TaskId, format_task_id, parse_execution_id
from taskstatus.domain.reasons import RETRYABLE_REASONS
from taskstatus.domain.state import FailurePolicy
from tests.chaos.commander import TaskOrder
from tests.chaos.options import Options, stream
from tests.chaos.streams import BrokenStreamError, response_of
from tests.chaos.terms import INTERVAL_SECONDS, TIMEOUT_SECONDS
from tests.chaos.transports import TransportError, Transports
from tests.chaos.wire import compact_event, event_id_of, fits_compact, full_request, heartbeat
from tests.history.model import Beat, Creation, Invocation, Outcome
from tests.simulation.items import OPERATION, WORKER, Item, Pulse

PATIENCE_SECONDS = 2.5
LONGEST_HASTE_SECONDS = 0.15
RETRY_PAUSE_SECONDS = 0.1
FORMS = ("unary", "batch", "compact", "compact", "compact", "rest", "rest-batch", "stream", "stream", "stream")
BEAT_FORMS = ("beats", "rest-beats", "stream-beats", "stream-beats")
_NUMBERS_PER_CALL = 1_000
_RETRYABLE = frozenset(reason.value for reason in RETRYABLE_REASONS)
_UNKNOWN_REASONS = frozenset({"", "UNAVAILABLE", "INTERNAL"})

ReportAnswer = report_service_pb2.ReportEventResponse | TransportError


@dataclass(frozen=True, slots=True)
class StepCommand:
    """ActivateStep, or RegisterExecution of a dynamic step."""

    identity: ServiceIdentity
    task_id: TaskId
    step_id: str
    attempt: int
    command_id: str
    input_ref: str
    is_dynamic: bool

    @property
    def content(self) -> str:
        """The same for the same command, whatever its id."""
        return f"{self.task_id.hex()}/{self.step_id}/{self.attempt}/{self.input_ref}/{self.is_dynamic}"


class Line:
    """Sends calls over any transport to any process and keeps the history of all clients."""

    def __init__(self, options: Options, transports: Transports) -> None:
        self._options = options
        self._transports = transports
        self._random = stream(options.seed, "line")
        self._calls = 0
        self.hurried = options.hasty_rate > 0
        """Whether some deadlines are too short; off once the run shall converge."""
        self.invocations: list[Invocation] = []
        self.creations: list[Creation] = []
        self.results: dict[TaskId, dict[str, str]] = {}
        """The events that were acknowledged as the end of a step, by task and step."""
        self.beats: list[Beat] = []
        self.forms: Counter[str] = Counter()
        self.internal_faults = 0

    async def report(self, client: str, items: Sequence[Item]) -> list[Invocation]:
        """Report the items in their order, one call for each run of items that fit together; what became of each."""
        done: list[Invocation] = []
        apart = self._random.randrange(2) == 0
        for (identity, _), group in groupby(items, key=lambda item: (item.identity, apart and fits_compact(item))):
            done.extend(await self._report(client, identity, list(group)))
        return done

    async def _report(self, client: str, identity: ServiceIdentity, items: list[Item]) -> list[Invocation]:
        form = self._form(items)
        begun = [
            self._begin(client, item.stream, item.task_id, event_id_of(item), item.text, place)
            for place, item in enumerate(items)
        ]
        answers = await self._send(form, identity, items)
        judged = [self._judge(one, answer) for one, answer in zip(begun, answers, strict=True)]
        for item, one in zip(items, judged, strict=True):
            if one.outcome is Outcome.OK and item.content.event_type is EventType.STEP_COMPLETED:
                step_id = item.content.event_id.partition(".")[0]
                self.results.setdefault(item.task_id, {})[step_id] = one.event_id
        return self._keep(judged)

    async def order(self, client: str, order: TaskOrder) -> tuple[Invocation, task_commands_pb2.TaskChange | None]:
        """Give a command on a task: what became of it, and what it left."""
        self._calls += 1
        begun = self._begin(client, order.task_id, order.task_id, order.request.command_id, order.content, 0)
        try:
            change = await self._transports.order(order.identity, order.request, self._timeout())
        except TransportError as error:
            (judged,) = self._keep([self._judge(begun, error)])
            return judged, None
        done = replace(begun, outcome=Outcome.NO_OP)
        if change.changed:
            done = replace(begun, outcome=Outcome.OK, version=change.task_version, duplicate=change.duplicate)
        (kept,) = self._keep([done])
        return kept, change

    def _form(self, items: list[Item]) -> str:
        form = self._random.choice(FORMS)
        if len(items) > 1:
            form = {"unary": "batch", "rest": "rest-batch"}.get(form, form)
        if form in ("compact", "stream") and not all(map(fits_compact, items)):
            form = "batch"
        self.forms[form] += 1
        self._calls += 1
        return form

    async def _send(self, form: str, identity: ServiceIdentity, items: list[Item]) -> Sequence[ReportAnswer]:
        transports, timeout = self._transports, self._timeout()
        try:
            if form == "stream":
                return await self._stream(identity, items, timeout)
            if form == "compact":
                return _results(await transports.compact(identity, [compact_event(item) for item in items], timeout))
            requests = [full_request(item) for item in items]
            if form in ("unary", "rest"):
                return [await transports.one(identity, requests[0], timeout, by_rest=form == "rest")]
            return _results(await transports.batch(identity, requests, timeout, by_rest=form == "rest-batch"))
        except TransportError as error:
            return [error] * len(items)

    async def _stream(self, identity: ServiceIdentity, items: list[Item], timeout: float) -> Sequence[ReportAnswer]:
        """On a stream; by a call when one of the executions can be bound no more, as its repeated events need."""
        try:
            stream = await self._transports.stream(identity)
            if await stream.bind([item.handle for item in items], timeout):
                events = [compact_event(item) for item in items]
                return _results(await self._transports.compact(identity, events, timeout))
            results = await stream.report(items, timeout)
        except BrokenStreamError as error:
            raise TransportError("", repr(error)) from error
        return [_error(result.error) if result.HasField("error") else response_of(result) for result in results]

    async def beat(self, identity: ServiceIdentity, pulses: Sequence[Pulse]) -> list[Beat]:
        """Beat for executions of one caller, in one call or frame."""
        form, timeout = self._random.choice(BEAT_FORMS), self._timeout()
        self.forms[form] += 1
        loop = asyncio.get_running_loop()
        sent_at = loop.time()
        reasons: Sequence[str] | None = None
        try:
            reasons = await self._beat(form, identity, pulses, timeout)
        except (TransportError, BrokenStreamError) as error:
            self._note_internal(getattr(error, "reason", ""))
        finally:
            # One that is cancelled may have been sent as well.
            beats = _judged_beats(pulses, reasons, sent_at, loop.time())
            self.beats.extend(beats)
        return beats

    async def _beat(
        self, form: str, identity: ServiceIdentity, pulses: Sequence[Pulse], timeout: float
    ) -> Sequence[str]:
        if form != "stream-beats":
            beats = [heartbeat(pulse) for pulse in pulses]
            answer = await self._transports.beat(identity, beats, timeout, by_rest=form == "rest-beats")
            return [common_pb2.Reason.Name(one.reason) if not one.accepted else "" for one in answer.results]
        stream = await self._transports.stream(identity)
        unbound = await stream.bind([pulse.assignment.handle for pulse in pulses], timeout)
        bound = [pulse for pulse in pulses if pulse.assignment.handle not in unbound]
        answers = iter(await stream.beat(bound, timeout) if bound else ())
        return [unbound.get(pulse.assignment.handle) or next(answers) for pulse in pulses]

    def _timeout(self) -> float:
        if self.hurried and self._random.random() < self._options.hasty_rate:
            return self._random.random() * LONGEST_HASTE_SECONDS
        return PATIENCE_SECONDS

    async def activate(self, client: str, command: StepCommand) -> common_pb2.ExecutionContext | TransportError:
        """Activate an attempt; its context, or why not."""
        self._calls += 1
        begun = self._begin(
            client, command.task_id, command.task_id, command.command_id, f"activate {command.content}", 0
        )
        try:
            context = await self._activate(command)
        except TransportError as error:
            self._keep([self._judge(begun, error)])
            return error
        self._keep([_activated(begun, command, context)])
        return context

    async def _activate(self, command: StepCommand) -> common_pb2.ExecutionContext:
        task_id, timeout = format_task_id(command.task_id), self._timeout()
        if command.is_dynamic:
            registering = register_service_pb2.RegisterExecutionRequest(
                command_id=command.command_id,
                task_id=task_id,
                client_step_key=command.step_id,
                step_attempt=command.attempt,
                operation_code=OPERATION,
                producer_id=WORKER,
                failure_policy=common_pb2.FailurePolicy.Value(FailurePolicy.FAIL_TASK.value),
                input_ref=command.input_ref,
                heartbeat_interval_seconds=INTERVAL_SECONDS,
                heartbeat_timeout_seconds=TIMEOUT_SECONDS,
            )
            return await self._transports.register(command.identity, registering, timeout)
        activating = register_service_pb2.ActivateStepRequest(
            command_id=command.command_id,
            task_id=task_id,
            step_id=command.step_id,
            step_attempt=command.attempt,
            input_ref=command.input_ref,
            heartbeat_interval_seconds=INTERVAL_SECONDS,
            heartbeat_timeout_seconds=TIMEOUT_SECONDS,
        )
        return await self._transports.activate(command.identity, activating, timeout)

    async def create(self, identity: ServiceIdentity, request: Any) -> Any:
        """Create a workflow or a task, asking again with the same key until it is answered.

        Raises TransportError for a refusal: creations of a run are right.
        """
        while True:
            try:
                return await self._transports.create(identity, request, self._timeout())
            except TransportError as error:
                self._note_internal(error.reason)
                if not is_open(error.reason) and error.reason != "UNAUTHENTICATED":
                    raise
            await asyncio.sleep(RETRY_PAUSE_SECONDS)

    def _begin(
        self, client: str, stream_id: bytes, task_id: TaskId, event_id: str, content: str, place: int
    ) -> Invocation:
        now = asyncio.get_running_loop().time()
        number = self._calls * _NUMBERS_PER_CALL + place
        return Invocation(number, self._calls, client, stream_id, task_id, event_id, content, now, now, Outcome.UNKNOWN)

    def _judge(self, begun: Invocation, answer: ReportAnswer) -> Invocation:
        if isinstance(answer, TransportError):
            self._note_internal(answer.reason)
            outcome = Outcome.UNKNOWN if answer.reason in _UNKNOWN_REASONS else Outcome.REFUSED
            return replace(begun, outcome=outcome, reason=answer.reason)
        if not answer.accepted:
            return replace(begun, outcome=Outcome.REFUSED, reason=common_pb2.Reason.Name(answer.reason))
        if not answer.changed:
            return replace(begun, outcome=Outcome.NO_OP)
        return replace(
            begun,
            outcome=Outcome.ABSORBED if answer.coalesced else Outcome.OK,
            version=answer.task_version,
            duplicate=answer.duplicate,
            committed_at=answer.committed_at.ToDatetime(),
        )

    def _note_internal(self, reason: str) -> None:
        self.internal_faults += reason == "INTERNAL"

    def _keep(self, done: list[Invocation]) -> list[Invocation]:
        now = asyncio.get_running_loop().time()
        timed = [replace(one, done_at=now) for one in done]
        self.invocations.extend(timed)
        return timed


def is_open(reason: str) -> bool:
    """Whether an error leaves it open what became of the item, or asks for another try."""
    return reason in _UNKNOWN_REASONS or reason in _RETRYABLE


def is_unsettled(answer: Invocation) -> bool:
    """Whether the same item must be sent again."""
    return answer.outcome is Outcome.UNKNOWN or answer.reason in _RETRYABLE


def _activated(begun: Invocation, command: StepCommand, context: common_pb2.ExecutionContext) -> Invocation:
    writes_event = command.attempt > 1 or command.is_dynamic
    return replace(
        begun,
        outcome=Outcome.OK,
        version=context.task_version if writes_event else None,
        duplicate=not context.created,
        coordinates=(command.task_id, context.task_attempt, context.step_id, context.step_attempt),
        execution_id=parse_execution_id(context.execution_id) or ExecutionId(b""),
    )


def _results(response: Any) -> list[ReportAnswer]:
    return [result.response if result.HasField("response") else _error(result.error) for result in response.results]


def _error(error: common_pb2.ItemError) -> TransportError:
    return TransportError(common_pb2.Reason.Name(error.reason), error.message)


def _judged_beats(pulses: Sequence[Pulse], reasons: Sequence[str] | None, sent_at: float, done_at: float) -> list[Beat]:
    beats = []
    for place, pulse in enumerate(pulses):
        reason = reasons[place] if reasons is not None else ""
        outcome = Outcome.UNKNOWN if reasons is None else Outcome.REFUSED if reason else Outcome.OK
        execution_id = pulse.assignment.binding.execution_id
        beats.append(Beat(execution_id, pulse.heartbeat_seq, sent_at, done_at, outcome, reason))
    return beats
