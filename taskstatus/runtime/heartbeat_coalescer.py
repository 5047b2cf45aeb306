"""Keeps the latest beat of every execution in memory and persists them together, once per persist period (H-2).

A beat is: *pending* (latest wins) → *in flight* (one guarded statement per ``MAX_PERSISTED_BEATS``, sorted) →
persisted, whereupon its execution's standing is read back and told to the streams that have bound it. What a flush
finds ended, superseded or unknown is what the next beat of a bound execution is answered with (H-3). A beat of an
execution known to be STALE does not wait for the period, and once it is persisted the health part is told (H-4). Nor
does one that was asked for: silent workers are asked over the streams that have bound them here (H-6).

Failures: a flush that the store cannot take keeps its beats, with their true times of receipt, unless newer ones came;
the next try comes after a pause. Memory is bounded: an execution without a pending beat is turned away when there are
too many. ``stop`` persists what is pending, and says what it could not. Invariants: what is persisted is never newer
than what was received, never goes back, and lags by one period and one flush at most while the store answers.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from taskstatus.application.heartbeats import ACCEPTED
from taskstatus.application.links import Links
from taskstatus.application.ports_clock import Clock
from taskstatus.application.ports_health import HealthCandidate
from taskstatus.application.ports_heartbeats import (
    MAX_PERSISTED_BEATS,
    Beat,
    BoundBeats,
    HealthSignals,
    HeartbeatObserver,
    LeaseStore,
)
from taskstatus.application.ports_store import StoreUnavailableError
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.health import Health
from taskstatus.domain.heartbeat import TermBounds, base_terms, terms_for
from taskstatus.domain.ids import ExecutionId
from taskstatus.domain.reasons import Reason
from taskstatus.domain.standing import ExecutionStanding
from taskstatus.runtime.bound_beats import BoundExecution, OnAsked, OnStanding, StreamBeats
from taskstatus.runtime.pending_beats import PendingBeats
from taskstatus.runtime.worker_probe import Asking

logger = logging.getLogger(__name__)

FULL_RETRY_SECONDS = 5.0
READ_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class CoalescerConfig:
    """Sizes and times, in seconds; raises ValueError for values that cannot work."""

    persist_every_seconds: float = 15.0
    flush_executions: int = 20_000
    """So many pending executions are flushed before the period is over."""
    max_pending_executions: int = 100_000
    max_bindings: int = 200_000
    soon_seconds: float = 0.2
    """How long the beats of STALE executions, and questions about bound ones, gather before they are handled."""
    ask_again_seconds: float = 1.0
    """A bound execution is not asked about more often than this before its turn."""
    first_pause_seconds: float = 0.5
    longest_pause_seconds: float = 5.0
    answer_seconds: float = 1.5
    """How long silent workers have to answer; less than the reconciler waits for it."""

    def __post_init__(self) -> None:
        sizes = (self.flush_executions, self.max_pending_executions, self.max_bindings)
        times = (
            *(self.persist_every_seconds, self.soon_seconds, self.ask_again_seconds),
            *(self.first_pause_seconds, self.answer_seconds),
        )
        if min(sizes) < 1 or min(times) <= 0 or self.longest_pause_seconds < self.first_pause_seconds:
            raise ValueError("coalescer sizes and times must be positive")


class HeartbeatCoalescer:
    """The ports BeatTaker, HeartbeatBinder, LeaseRenewal, WorkerProbe; ``start``, idempotent ``stop``, ``run_once``."""

    def __init__(
        self,
        store: LeaseStore,
        clock: Clock,
        signals: HealthSignals,
        observer: HeartbeatObserver,
        links: Links,
        bounds: TermBounds,
        config: CoalescerConfig,
    ) -> None:
        self._store = store
        self._clock = clock
        self._signals = signals
        self._observer = observer
        self._links = links
        self._bounds = bounds
        self._config = config
        self._woken = asyncio.Event()
        self._pending = PendingBeats(config.max_pending_executions, config.flush_executions, self._woken.set)
        self._bound: dict[ExecutionId, BoundExecution] = {}
        self._bindings = 0
        self._outcomes: Counter[str] = Counter()
        self._soon: set[ExecutionId] = set()
        self._soon_at = 0.0
        self._next_full = clock.monotonic_seconds() + config.persist_every_seconds
        self._not_before = 0.0
        self._failures = 0
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    @property
    def pending_executions(self) -> int:
        """How many executions have a beat in memory."""
        return len(self._pending)

    def last_seq(self, execution_id: ExecutionId) -> int:
        """See BeatTaker."""
        bound = self._bound.get(execution_id)
        return max(self._pending.last_seq(execution_id), bound.last_seq if bound is not None else 0)

    def take(self, beat: Beat, standing: ExecutionStanding) -> bool:
        """See BeatTaker."""
        if self._stopping or not self._pending.put(beat):
            return False
        bound = self._bound.get(beat.execution_id)
        if bound is not None:
            bound.last_seq = max(bound.last_seq, beat.heartbeat_seq)
        if standing.health is Health.STALE:
            self._handle_soon(beat.execution_id)
        self._answered(bound)
        return True

    def renew(self, execution_id: ExecutionId, received_monotonic: float) -> None:
        """See LeaseRenewal; when memory is full the lease waits for the execution's next sign of life."""
        bound = self._bound.get(execution_id)
        if self._stopping or not self._pending.note(execution_id, 0, received_monotonic):
            return
        if bound is not None and bound.is_stale:
            self._handle_soon(execution_id)
        self._answered(bound)

    async def alive(self, candidates: Sequence[HealthCandidate]) -> Collection[ExecutionId]:
        """See WorkerProbe; what is in memory and not persisted yet is an answer too."""
        asking, now = Asking(), self._clock.monotonic_seconds()
        for candidate in candidates:
            execution_id = candidate.execution_id
            received_at, bound = self._pending.received_at(execution_id), self._bound.get(execution_id)
            if received_at is not None and now - received_at < candidate.timeout_seconds:
                asking.heard(execution_id)
                self._handle_soon(execution_id)
            elif bound is not None:
                bound.ask(asking)
        return await asking.answers(self._config.answer_seconds)

    def bind(self, standing: ExecutionStanding, on_standing: OnStanding, on_asked: OnAsked | None = None) -> BoundBeats:
        """See HeartbeatBinder."""
        if self._bindings >= self._config.max_bindings:
            raise RefusedError(
                Reason.RATE_LIMITED, "too many executions are bound here", retry_after_seconds=FULL_RETRY_SECONDS
            )
        execution_id = standing.execution_id
        bound = self._bound.get(execution_id)
        if bound is None:
            last_seq = max(standing.heartbeat_seq, self._pending.last_seq(execution_id))
            bound = self._bound[execution_id] = BoundExecution(standing, last_seq, self._links.of(standing))
        else:
            bound.settle(standing)
        self._bindings += 1
        beats = StreamBeats(self, bound, standing.generation, on_standing, on_asked)
        bound.listeners.append(beats)
        return beats

    def unbind(self, beats: StreamBeats) -> None:
        """Forget one binding; the execution itself when it was the last."""
        bound = beats.bound
        if beats not in bound.listeners:
            return
        bound.listeners.remove(beats)
        self._bindings -= 1
        if not bound.listeners:
            del self._bound[bound.standing.execution_id]

    def keep(self, bound: BoundExecution, heartbeat_seq: int) -> Reason | None:
        """Take a beat of a bound execution that nothing speaks against."""
        execution_id = bound.standing.execution_id
        if self._stopping or not self._pending.note(execution_id, heartbeat_seq, self._clock.monotonic_seconds()):
            return self.answer(Reason.UNAVAILABLE)
        if bound.is_stale:
            self._handle_soon(execution_id)
        if bound.asking is not None:
            self._answered(bound)
        self._outcomes[ACCEPTED] += 1
        return None

    def answer(self, reason: Reason) -> Reason:
        """Count a beat that is not taken."""
        self._outcomes[reason] += 1
        return reason

    def ask_soon(self, bound: BoundExecution) -> None:
        """Read a bound execution anew before its turn: it beats, although it had not started when last read."""
        now = self._clock.monotonic_seconds()
        if now - bound.asked_monotonic >= self._config.ask_again_seconds:
            bound.asked_monotonic = now
            self._handle_soon(bound.standing.execution_id)

    def _answered(self, bound: BoundExecution | None) -> None:
        """A sign of life came; the one that was asked for is persisted soon, before another replica looks."""
        if bound is not None and bound.asking is not None:
            bound.heard()
            self._handle_soon(bound.standing.execution_id)

    def _handle_soon(self, execution_id: ExecutionId) -> None:
        if not self._soon:
            self._soon_at = self._clock.monotonic_seconds() + self._config.soon_seconds
            self._woken.set()
        self._soon.add(execution_id)

    def start(self) -> None:
        """Begin persisting in the background."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Take nothing more, persist what is pending, say what could not be; may be called twice."""
        self._stopping = True
        self._woken.set()
        if self._task is not None:
            await self._task
        await self._flush_everything(read_others=False)
        lost = self._pending.discard()
        if lost:
            logger.warning("heartbeats could not be persisted before the end", extra={"beats": lost})
            self._observer.heartbeats_lost(lost)
        self._tell_figures()

    async def run_once(self) -> None:
        """Do what is due: everything at the end of a period or when much is pending, else what must not wait."""
        now = self._clock.monotonic_seconds()
        if now < self._not_before:
            return
        if now >= self._next_full or len(self._pending) >= self._config.flush_executions:
            self._next_full = now + self._config.persist_every_seconds
            await self._flush_everything(read_others=True)
        elif self._soon and now >= self._soon_at:
            await self._flush_soon()
        self._tell_figures()

    async def _run(self) -> None:
        while not self._stopping:
            await self._until_due()
            if self._stopping:
                return
            try:
                await self.run_once()
            except Exception:
                logger.exception("heartbeats could not be handled")
                self._pause()

    async def _until_due(self) -> None:
        while not self._stopping:
            seconds = self._seconds_until_due()
            if seconds <= 0:
                return
            self._woken.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._woken.wait()
            except TimeoutError:
                return

    def _seconds_until_due(self) -> float:
        now = self._clock.monotonic_seconds()
        due = self._next_full
        if self._soon:
            due = min(due, self._soon_at)
        if len(self._pending) >= self._config.flush_executions:
            due = now
        return max(due, self._not_before) - now

    async def _flush_everything(self, *, read_others: bool) -> None:
        self._soon.clear()
        beating = self._pending.ids()
        if await self._persist(beating) and read_others:
            beaten = set(beating)
            await self._read([execution_id for execution_id in self._bound if execution_id not in beaten])

    async def _flush_soon(self) -> None:
        soon, self._soon = self._soon, set()
        beating = [execution_id for execution_id in soon if execution_id in self._pending]
        if await self._persist(beating):
            await self._read([execution_id for execution_id in soon.difference(beating) if execution_id in self._bound])
        else:
            self._soon |= soon

    async def _persist(self, execution_ids: Iterable[ExecutionId]) -> bool:
        """Whether the store took everything; at its first refusal to answer the rest stays pending."""
        for group in _groups(sorted(execution_ids), MAX_PERSISTED_BEATS):
            beats = [self._with_terms(beat) for beat in self._pending.begin(group)]
            try:
                standings = await self._store.persist(beats, self._clock.monotonic_seconds)
            except StoreUnavailableError as error:
                self._pending.put_back()
                return self._failed(error)
            except Exception:
                # Beats that can never be written must not keep the others from it; the next ones may be better.
                logger.exception("heartbeats could not be written", extra={"beats": len(beats)})
                self._pending.end()
                self._observer.heartbeats_lost(len(beats))
                continue
            self._pending.end()
            self._told(group, standings, beating=True)
        self._failures, self._not_before = 0, 0.0
        return True

    def _with_terms(self, beat: Beat) -> Beat:
        """A stream's beat with the terms of its link (H-6); a unary one has got them already."""
        bound = self._bound.get(beat.execution_id)
        if bound is None or beat.timeout_seconds:
            return beat
        terms = terms_for(bound.link.round_trip_ms, base_terms(bound.standing), self._bounds)
        received = beat.received_monotonic
        return Beat(beat.execution_id, beat.heartbeat_seq, received, terms.interval_seconds, terms.timeout_seconds)

    async def _read(self, execution_ids: Sequence[ExecutionId]) -> None:
        for group in _groups(execution_ids, READ_AT_ONCE):
            try:
                standings = await self._store.standings(group)
            except StoreUnavailableError as error:
                self._failed(error)
                return
            self._told(group, standings, beating=False)

    def _failed(self, error: StoreUnavailableError) -> bool:
        logger.warning("heartbeats stay in memory: %s", error, extra={"executions": len(self._pending)})
        self._pause()
        return False

    def _pause(self) -> None:
        pause = min(self._config.first_pause_seconds * 2**self._failures, self._config.longest_pause_seconds)
        self._failures = min(self._failures + 1, 32)
        now = self._clock.monotonic_seconds()
        self._not_before = now + pause
        self._next_full = min(self._next_full, self._not_before)

    def _told(
        self,
        execution_ids: Iterable[ExecutionId],
        standings: Mapping[ExecutionId, ExecutionStanding],
        *,
        beating: bool,
    ) -> None:
        for execution_id in execution_ids:
            standing, bound = standings.get(execution_id), self._bound.get(execution_id)
            if bound is not None:
                bound.told(standing)
            if beating and standing is not None and standing.health is Health.STALE and standing.has_open_lease:
                self._signals.beating(standing)

    def _tell_figures(self) -> None:
        for outcome, beats in self._outcomes.items():
            self._observer.heartbeats_judged(outcome, beats)
        self._outcomes.clear()
        self._observer.heartbeats_pending(len(self._pending))


def _groups(ids: Sequence[ExecutionId], size: int) -> Iterable[list[ExecutionId]]:
    rest = iter(ids)
    while group := list(islice(rest, size)):
        yield group
