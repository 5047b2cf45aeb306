"""The publishing loop: claim → render → publish → mark, until it is stopped (O-1, O-2, O-6)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from opentelemetry.trace import Tracer

from relay.config import RelayConfig
from relay.metrics import RelayMetrics
from relay.pacing import Pacing
from relay.publisher import OutageError, Published, Publisher, bounded_requests
from relay.rendering import Message, Rendering
from relay.rows import Claim, ClaimedRow, Outbox, OutboxUnavailableError
from relay.settling import Pause, Settlement, Settler, log_fields
from relay.tracing import publish_span
from relay.wakeup import WakeUpListener
from taskstatus.application.ports_clock import Clock, Randomness
from taskstatus.application.ports_store import StoreUnavailableError

_logger = logging.getLogger(__name__)

TOKEN_BITS = 128


class Renderer(Protocol):
    """Turns claimed rows into messages."""

    async def render(self, rows: Sequence[ClaimedRow]) -> Rendering:
        """Place every row; raises StoreUnavailableError."""
        ...


class RelayLoop:
    """One publishing loop. ``run_once`` is one turn; ``start`` repeats it until ``stop``, a few at once if it must."""

    def __init__(
        self,
        *,
        outbox: Outbox,
        renderer: Renderer,
        publisher: Publisher,
        wakeup: WakeUpListener,
        clock: Clock,
        randomness: Randomness,
        config: RelayConfig,
        metrics: RelayMetrics,
        tracer: Tracer,
        pause: Pause = asyncio.sleep,
    ) -> None:
        self._outbox = outbox
        self._renderer = renderer
        self._publisher = publisher
        self._wakeup = wakeup
        self._clock = clock
        self._randomness = randomness
        self._config = config
        self._metrics = metrics
        self._tracer = tracer
        self._pacing = Pacing(config, randomness)
        self._settler = Settler(outbox, config, self._pacing, metrics, pause)
        self._stopping = asyncio.Event()
        self._hinted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> asyncio.Task[None]:
        """Begin in the background; the task ends after ``stop``, or earlier with the defect that killed it."""
        if self._task is None:
            await self._wakeup.start(self._hinted.set)
            self._task = asyncio.create_task(self._run(), name="relay-loop")
        return self._task

    async def stop(self) -> None:
        """Claim nothing more, finish what is claimed, and wait for it; may be called again."""
        self._stopping.set()
        self._hinted.set()
        await self._wakeup.stop()
        if self._task is not None:
            await asyncio.wait([self._task])

    async def run_once(self) -> int:
        """One turn; the number of rows claimed. Outages of the database or of Centrifugo end it early, never raise."""
        self._pacing.begin_round()
        return await self._turn()

    async def _turn(self) -> int:
        try:
            claim, claimed_at = await self._claim()
            outage = await self._carry(claim, claimed_at) if claim.rows else False
        except OutboxUnavailableError as error:
            self._pacing.outage()
            _logger.warning("the outbox is not available", extra={"cause": str(error)})
            return 0
        if not outage:
            self._pacing.worked(len(claim.rows))
        return len(claim.rows)

    @property
    def next_wait_seconds(self) -> float:
        """How long the loop waits before its next turn, unless a hint comes."""
        return self._pacing.wait_seconds

    async def _run(self) -> None:
        while not self._stopping.is_set():
            if await self.run_once() >= self._config.batch_rows:
                await self._drain()
            await self._wait()

    async def _drain(self) -> None:
        """Turns side by side while claims come back full. They share no row: each has a claim of its own.

        A defect in one ends the others after their turn, so that what they have sent is marked; then it is raised.
        """
        self._pacing.begin_round()
        failed = asyncio.Event()
        turns = (self._turns(failed) for _ in range(self._config.turns_at_once))
        for defect in await asyncio.gather(*turns, return_exceptions=True):
            if isinstance(defect, BaseException):
                raise defect

    async def _turns(self, failed: asyncio.Event) -> None:
        while not (self._stopping.is_set() or self._pacing.in_outage or failed.is_set()):
            try:
                if await self._turn() < self._config.batch_rows:
                    return
            except BaseException:
                failed.set()
                raise

    async def _wait(self) -> None:
        """Until the wait is over or a hint comes; during an outage only a stop ends it early."""
        cut_short = self._stopping if self._pacing.in_outage else self._hinted
        if self._pacing.wait_seconds > 0:
            try:
                async with asyncio.timeout(self._pacing.wait_seconds):
                    await cut_short.wait()
            except TimeoutError:
                pass
        # Cleared before the claim: a hint that comes while a turn runs leads to one more turn.
        self._hinted.clear()

    async def _claim(self) -> tuple[Claim, float]:
        """The claim, and this process's monotonic time before it: the lease began no earlier than that."""
        token = self._randomness.bits(TOKEN_BITS).to_bytes(TOKEN_BITS // 8, "big")
        before = self._clock.monotonic_seconds()
        claim = await self._outbox.claim(token, self._config.batch_rows, self._config.lease_seconds)
        self._metrics.claims.inc(len(claim.rows))
        self._metrics.lease_timeouts.inc(sum(row.lease_expired for row in claim.rows))
        return claim, before

    async def _carry(self, claim: Claim, claimed_at: float) -> bool:
        """Bring every claimed row to its fate; whether an outage was met."""
        settlement = Settlement()
        try:
            rendering = await self._renderer.render(claim.rows)
        except StoreUnavailableError as error:
            self._release_all(settlement, claim.rows, str(error) or "the store is not available")
            await self._settler.settle(claim, settlement)
            return True
        settlement.published.extend(rendering.done)
        for row, outcome in rendering.failed:
            settlement.add([row], outcome)
        outage = await self._publish(claimed_at, rendering.messages, settlement)
        await self._settler.settle(claim, settlement)
        return outage

    async def _publish(self, claimed_at: float, messages: Sequence[Message], settlement: Settlement) -> bool:
        sent = 0
        for request in bounded_requests([message.publication for message in messages]):
            part = messages[sent : sent + len(request)]
            if not self._lease_lasts(claimed_at):
                self._release_late(settlement, _rows_of(messages[sent:]))
                return False
            try:
                with publish_span(self._tracer, len(part), [row.traceparent for row in _rows_of(part)]):
                    outcomes = await self._publisher.publish(request)
            except OutageError as error:
                self._release_all(settlement, _rows_of(messages[sent:]), str(error))
                return True
            for message, outcome in zip(part, outcomes, strict=True):
                settlement.add(message.rows, outcome)
                if isinstance(outcome, Published):
                    self._note_published(claimed_at, message)
            sent += len(request)
        return False

    def _lease_lasts(self, claimed_at: float) -> bool:
        """Whether a request begun now ends within the lease, also after this process was suspended for a while."""
        left = claimed_at + self._config.lease_seconds - self._clock.monotonic_seconds()
        return left > self._config.publish_timeout_seconds

    def _release_all(self, settlement: Settlement, rows: Sequence[ClaimedRow], cause: str) -> None:
        settlement.released.extend(rows)
        self._metrics.failures.labels("outage").inc(len(rows))
        pause = self._pacing.outage()
        _logger.warning("outage, rows released", extra={"cause": cause, "rows": len(rows), "pauseSeconds": pause})

    def _release_late(self, settlement: Settlement, rows: Sequence[ClaimedRow]) -> None:
        settlement.released.extend(rows)
        self._metrics.failures.labels("lease").inc(len(rows))
        _logger.warning("the lease is nearly over, rows released unsent", extra={"rows": len(rows)})

    def _note_published(self, claimed_at: float, message: Message) -> None:
        self._metrics.published.inc()
        since_claim = self._clock.monotonic_seconds() - claimed_at
        for row in message.rows:
            self._metrics.commit_to_publish.observe(max(0.0, row.age_seconds + since_claim))
            if _logger.isEnabledFor(logging.DEBUG):
                _logger.debug("published", extra=log_fields(row) | {"channel": message.publication.channels[0]})


def _rows_of(messages: Sequence[Message]) -> list[ClaimedRow]:
    return [row for message in messages for row in message.rows]
