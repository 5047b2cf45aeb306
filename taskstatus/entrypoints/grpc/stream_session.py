"""One stream of StreamExecutions: its frames are handled in order, its answers come when they are decided (T-2).

States: *open* → *leaving* (told to go elsewhere; takes nothing new, answers what it has) → *over*. A frame of events is
submitted to the lanes at once, so that the events of an execution stay in the order sent, and a task of its own waits
for the verdicts; frames of other executions may overtake it. These tasks outlive the stream: what was submitted
commits, whether or not somebody is left to be told.

Bounds: the window counts events and beats that are taken and whose answer is not written; those beyond it are refused
unevaluated, and a client that goes on beyond twice the window is cut off, as is one that takes no answer for a while.
Frames without items (bind, renew) are read no further while too many bytes wait.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence

from taskstatus_pb.v1 import bind_execution_service_pb2 as pb
from taskstatus_pb.v1 import report_service_pb2

from taskstatus.application.call_group import StreamGroup
from taskstatus.application.executions import BoundExecution, execution_not_found
from taskstatus.application.identity import ExecutionGrant, ServiceIdentity
from taskstatus.application.ports_store import StoreUnavailableError
from taskstatus.application.report import EventDraft, UndecodedEvent
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.reasons import Reason
from taskstatus.domain.standing import ExecutionStanding
from taskstatus.domain.verdicts import Refused, Verdict
from taskstatus.entrypoints.grpc import stream_frames as frames
from taskstatus.entrypoints.grpc.stream_bindings import Bound, StreamBindings
from taskstatus.entrypoints.grpc.stream_config import StreamParts, leaving, store_unavailable, window_exceeded
from taskstatus.entrypoints.grpc.stream_outbox import StreamOutbox
from taskstatus.entrypoints.wire.call import CallInfo
from taskstatus.entrypoints.wire.compact import to_compact_draft
from taskstatus.entrypoints.wire.handlers import undecoded

_Item = tuple[Bound | None, EventDraft | UndecodedEvent]


class StreamSession:
    """The rules of one stream, apart from its transport."""

    def __init__(
        self,
        parts: StreamParts,
        identity: ServiceIdentity,
        traceparent: str,
        transport: str,
        spawn: Callable[[Coroutine[None, None, None]], asyncio.Task[None]],
        turn: asyncio.Semaphore,
    ) -> None:
        self.identity = identity
        self.config = parts.config
        self.over = asyncio.Event()
        """No further frame is taken."""
        self.stalled = asyncio.Event()
        """The client takes no answer: none is waited for any more."""
        self.failure: RefusedError | None = None
        self.is_finished = False
        self._parts = parts
        self._traceparent = traceparent
        self._transport = transport
        self._spawn = spawn
        self._turn = turn
        self._opened_at = parts.clock.monotonic_seconds()
        self._leave_by: float | None = None
        self._in_flight = 0
        self._group = StreamGroup()
        self._answering: set[asyncio.Task[None]] = set()
        self.outbox = StreamOutbox(parts.clock, parts.config.waiting_bytes, self._written)
        self.bindings = StreamBindings(parts.binder, parts.config.bound_executions, self.outbox.notify)
        self._open()

    @property
    def in_flight(self) -> int:
        """Items that were taken or refused and whose answer is not written."""
        return self._in_flight

    @property
    def is_leaving(self) -> bool:
        """Whether nothing new is taken any more."""
        return self._leave_by is not None

    def _open(self) -> None:
        opened = pb.StreamExecutionsResponse()
        opened.opened.window_items = self.config.window_items
        opened.opened.frame_items = self.config.frame_items
        opened.opened.bound_executions = self.config.bound_executions
        self.outbox.put(opened)

    async def handle(self, message: bytes) -> None:
        """Take one frame. Raises RefusedError for what ends the stream."""
        frame = frames.parse(message, self.config.frame_items)
        match frame.WhichOneof("frame"):
            case "report":
                await self._report(frame)
            case "heartbeat":
                self._heartbeat(frame)
            case "bind":
                await self._bind(frame)
            case "renew":
                await self._renew(frame)
            case _:
                await self._finish(frame)

    def end(self, failure: RefusedError) -> None:
        """End the stream with a refusal; the first one counts."""
        if self.failure is None and not self.is_finished:
            self.failure = failure
        self.over.set()

    def leave(self, leave_seconds: float) -> None:
        """Ask the client to go elsewhere, take nothing new, and end soon."""
        if self._leave_by is None:
            self._leave_by = self._parts.clock.monotonic_seconds() + leave_seconds
            self.outbox.announce_going_away()

    def tick(self) -> None:
        """Do what time asks for: expiries, age, clients that do not leave or do not read."""
        now = self._parts.clock.monotonic_seconds()
        unix = self._parts.clock.unix_seconds()
        if self.identity.expires_at <= unix:
            self.end(RefusedError(Reason.TOKEN_EXPIRED, "the caller's credential has expired; open another stream"))
        elif self.outbox.stuck_for() >= self.config.stall_seconds:
            self.stalled.set()
            self.end(RefusedError(Reason.WINDOW_EXCEEDED, "the answers of this stream are not read"))
        elif self._leave_by is not None and now >= self._leave_by:
            self.end(leaving())
        elif now - self._opened_at >= self.config.age_seconds:
            self.leave(self.config.leave_seconds)
        self.bindings.tell_expiries(unix)

    async def settle(self) -> None:
        """Wait until everything that was taken is answered."""
        while self._answering:
            await asyncio.wait(self._answering)

    def close(self) -> None:
        """The stream is no more; what was submitted still commits."""
        self.over.set()
        self.outbox.drop()
        self.bindings.close()

    # ---- events

    async def _report(self, frame: frames.Request) -> None:
        events = frame.report.events
        call = self._call()
        taken = self._take(len(events))
        refusal = self._refusal_of_all(taken)
        if refusal is None:
            items = [self._item(event, call) for event in events[:taken]]
        else:
            items = [self._refused_item(event, call, refusal) for event in events[:taken]]
        pending = await self._submit(items)
        # After the others: what fails in passing stops what comes later, never what came before.
        beyond = [self._refused_item(event, call, window_exceeded()) for event in events[taken:]]
        items += beyond
        pending += await self._submit(beyond)
        bounds = {bound.key: bound for bound, _ in items if bound is not None}
        earlier = {task for bound in bounds.values() if (task := bound.answering) is not None and not task.done()}
        answering = self._spawn(self._answer(frame.correlation, items, pending, earlier))
        for bound in bounds.values():
            bound.answering = answering
        self._answering.add(answering)
        answering.add_done_callback(self._answering.discard)

    def _refusal_of_all(self, events: int) -> RefusedError | None:
        if self.is_leaving:
            return leaving()
        try:
            if events:
                self._parts.reporting.admit(self.identity, events)
        except RefusedError as refusal:
            return refusal
        return None

    async def _submit(self, items: Sequence[_Item]) -> list[Awaitable[Verdict] | Refused]:
        return await self._parts.reporting.submit([draft for _, draft in items], self._group)

    def _item(self, event: report_service_pb2.CompactEvent, call: CallInfo) -> _Item:
        bound = self.bindings.get(event.stream_execution_key)
        try:
            if bound is None:
                raise execution_not_found()
            bound.in_flight += 1
            return bound, to_compact_draft(event, self.identity, call, bound.grant)
        except RefusedError as error:
            return bound, undecoded(event.event_id.hex(), error, self.identity, call)

    def _refused_item(self, event: report_service_pb2.CompactEvent, call: CallInfo, refusal: RefusedError) -> _Item:
        """An event that fails in passing before it is looked at; later ones of its execution must not overtake it."""
        event_id, bound = event.event_id.hex(), self.bindings.get(event.stream_execution_key)
        if bound is not None:
            bound.in_flight += 1
            self._group.break_stream(bound.execution_id, event_id=event_id)
        return bound, undecoded(event_id, refusal, self.identity, call)

    async def _answer(
        self,
        correlation: int,
        items: Sequence[_Item],
        pending: Sequence[Awaitable[Verdict] | Refused],
        earlier: set[asyncio.Task[None]],
    ) -> None:
        drafts = [draft for _, draft in items]
        verdicts = await self._parts.reporting.decided(drafts, pending)
        if earlier:
            # Answers about one execution never overtake one another.
            await asyncio.wait(earlier)
        answer = pb.StreamExecutionsResponse(correlation=correlation)
        answer.reported.results.extend(map(frames.event_result, verdicts))
        for (bound, draft), verdict in zip(items, verdicts, strict=True):
            if bound is not None:
                self._judged(bound, draft, verdict)
        self.outbox.put(answer, len(items))

    def _judged(self, bound: Bound, draft: EventDraft | UndecodedEvent, verdict: Verdict) -> None:
        bound.in_flight -= 1
        if not bound.in_flight:
            self._group.settled(bound.execution_id)
        if isinstance(draft, EventDraft):
            self.bindings.judged(bound, draft.content.event_type, verdict)

    # ---- heartbeats

    def _heartbeat(self, frame: frames.Request) -> None:
        beats = frame.heartbeat.beats
        taken = self._take(len(beats))
        refusal = self._refusal_of_beats(taken)
        now = self._parts.clock.unix_seconds()
        answer = pb.StreamExecutionsResponse(correlation=frame.correlation)
        beaten = answer.beaten
        accepted = 0
        unjudged: Counter[Reason] = Counter()
        for place, beat in enumerate(beats):
            bound = self.bindings.get(beat.stream_execution_key)
            reason = (refusal or _refusal_of(beat, bound, now)) if place < taken else Reason.WINDOW_EXCEEDED
            if reason is not None:
                unjudged[reason] += 1
            elif bound is not None and bound.beats is not None:
                reason = bound.beats.beat(beat.heartbeat_seq, beat.round_trip_ms)
            if reason is None:
                accepted += 1
            else:
                beaten.refused.append(frames.beat_refused(beat, reason))
        beaten.accepted = accepted
        if unjudged:
            self._parts.heartbeats.refused(unjudged)
        self.outbox.put(answer, len(beats))

    def _refusal_of_beats(self, beats: int) -> Reason | None:
        if self.is_leaving:
            return Reason.UNAVAILABLE
        try:
            self._parts.heartbeats.admit(self.identity, beats)
        except RefusedError as refusal:
            return refusal.reason
        return None

    # ---- bindings

    async def _bind(self, frame: frames.Request) -> None:
        await self.outbox.has_room()
        if self.is_leaving:
            self.outbox.put(frames.all_refused(frame, leaving()))
            return
        answer = pb.StreamExecutionsResponse(correlation=frame.correlation)
        try:
            async with self._turn:
                answer.bound.results.extend(await self._bound_results(frame.bind.executions))
        except StoreUnavailableError:
            answer = frames.all_refused(frame, store_unavailable())
        self.outbox.put(answer)

    async def _bound_results(self, wanted: Sequence[pb.BindExecutionRequest]) -> list[pb.StreamBoundResult]:
        executions = self._parts.executions
        credentials = [(each.execution_token, each.execution_handle) for each in wanted]
        opened = await executions.open_all(self.identity, credentials)
        grants = [grant for grant in opened if isinstance(grant, ExecutionGrant)]
        found = iter(await executions.bind_all(grants))
        standings = await self._parts.leases.standings(sorted({grant.binding.execution_id for grant in grants}))
        return [
            frames.bind_refused(grant)
            if isinstance(grant, RefusedError)
            else self._bound_result(grant, next(found), standings.get(grant.binding.execution_id))
            for grant in opened
        ]

    def _bound_result(
        self, grant: ExecutionGrant, found: BoundExecution | RefusedError, standing: ExecutionStanding | None
    ) -> pb.StreamBoundResult:
        try:
            if isinstance(found, RefusedError):
                raise found
            if standing is None:
                raise execution_not_found()
            bound = self.bindings.add(grant, standing)
        except RefusedError as refusal:
            return frames.bind_refused(refusal)
        self._group.start_anew(bound.execution_id)
        return frames.bound_result(bound.key, found)

    async def _renew(self, frame: frames.Request) -> None:
        await self.outbox.has_room()
        keys = frame.renew.stream_execution_keys
        live = {key: bound for key in keys if (bound := self.bindings.get(key)) is not None}
        answer = pb.StreamExecutionsResponse(correlation=frame.correlation)
        try:
            async with self._turn:
                renewed = await self._parts.executions.bind_all([bound.grant for bound in live.values()])
        except StoreUnavailableError:
            self.outbox.put(frames.all_refused(frame, store_unavailable()))
            return
        outcomes: dict[int, BoundExecution | RefusedError] = dict(zip(live, renewed, strict=True))
        for key in keys:
            answer.renewed.results.append(self._renewed_result(key, outcomes.get(key, execution_not_found())))
        self.outbox.put(answer)

    def _renewed_result(self, key: int, outcome: BoundExecution | RefusedError) -> pb.StreamRenewedResult:
        bound = self.bindings.get(key)
        if isinstance(outcome, RefusedError) or bound is None:
            refusal = outcome if isinstance(outcome, RefusedError) else execution_not_found()
            if bound is not None:
                self.bindings.retire(bound, refusal.reason)
            return frames.renewal_refused(key, refusal)
        self.bindings.renewed(bound, outcome.credentials.token_expires_at)
        return frames.renewed_result(key, outcome.credentials)

    # ---- the end, and the window

    async def _finish(self, frame: frames.Request) -> None:
        self.is_finished = True
        await self.settle()
        answer = pb.StreamExecutionsResponse(correlation=frame.correlation)
        answer.finished.SetInParent()
        self.outbox.put(answer)
        self.over.set()

    def _take(self, items: int) -> int:
        """How many of the items are within the window. Raises RefusedError WINDOW_EXCEEDED far beyond it."""
        taken = min(items, max(0, self.config.window_items - self._in_flight))
        self._in_flight += items
        if self._in_flight > 2 * self.config.window_items:
            raise window_exceeded()
        return taken

    def _written(self, items: int) -> None:
        self._in_flight -= items

    def _call(self) -> CallInfo:
        clock = self._parts.clock
        return CallInfo(self._transport, None, self._traceparent, clock.monotonic_seconds(), clock.unix_seconds())


def _refusal_of(beat: pb.StreamBeat, bound: Bound | None, now_unix: float) -> Reason | None:
    """Why a beat cannot be judged; nobody else counts it."""
    if bound is None:
        return Reason.EXECUTION_NOT_FOUND
    if bound.beats is None:
        return bound.end
    if bound.grant.expires_at <= now_unix:
        return Reason.TOKEN_EXPIRED
    if beat.heartbeat_seq < 1 or not 0 <= beat.round_trip_ms < math.inf:
        return Reason.INVALID_ARGUMENT
    return None
