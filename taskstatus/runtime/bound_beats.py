"""What live streams have bound: the standing of each execution as last read, and how its beats are answered (H-3)."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Protocol

from taskstatus.domain.health import Health
from taskstatus.domain.heartbeat import Link, refusal_of
from taskstatus.domain.reasons import Reason
from taskstatus.domain.standing import ExecutionStanding
from taskstatus.runtime.worker_probe import Asking

logger = logging.getLogger(__name__)

OnStanding = Callable[[ExecutionStanding], None]
OnAsked = Callable[[], None]


class BoundExecution:
    """One execution that at least one stream has bound, shared by all that have."""

    __slots__ = ("asked_monotonic", "asking", "is_stale", "last_seq", "link", "listeners", "refusal", "standing")

    def __init__(self, standing: ExecutionStanding, last_seq: int, link: Link) -> None:
        self.standing = standing
        self.last_seq = last_seq
        self.link = link
        self.listeners: list[StreamBeats] = []
        self.refusal = refusal_of(standing)
        self.is_stale = standing.health is Health.STALE
        self.asked_monotonic = -math.inf
        self.asking: Asking | None = None
        """Who waits for its next sign of life."""

    def settle(self, standing: ExecutionStanding) -> None:
        """Take over a standing, unless a later one is known."""
        if standing.as_of < self.standing.as_of:
            return
        self.standing = standing
        self.last_seq = max(self.last_seq, standing.heartbeat_seq)
        self.refusal = refusal_of(standing)
        self.is_stale = standing.health is Health.STALE

    def told(self, standing: ExecutionStanding | None) -> None:
        """What the store says now; None when it knows the execution no more."""
        if standing is None:
            self.refusal = Reason.EXECUTION_NOT_FOUND
            return
        self.settle(standing)
        for listener in list(self.listeners):
            try:
                listener.on_standing(standing)
            except Exception:
                # One stream's fault must not keep the others, or the next flush, from what they are due.
                logger.exception("a stream could not take in how its execution stands")

    def ask(self, asking: Asking) -> None:
        """Have its worker asked for a beat by every stream that can."""
        for listener in list(self.listeners):
            if listener.on_asked is None:
                continue
            self.asking = asking
            asking.asked(self.standing.execution_id)
            try:
                listener.on_asked()
            except Exception:
                logger.exception("a stream could not ask for a beat")

    def heard(self) -> None:
        """It has given a sign of life."""
        asking, self.asking = self.asking, None
        if asking is not None:
            asking.heard(self.standing.execution_id)


class Keeper(Protocol):
    """Where accepted beats go: the coalescer."""

    def keep(self, bound: BoundExecution, heartbeat_seq: int) -> Reason | None:
        """Take a beat; UNAVAILABLE when it cannot be kept."""
        ...

    def answer(self, reason: Reason) -> Reason:
        """Count a beat that is not taken."""
        ...

    def ask_soon(self, bound: BoundExecution) -> None:
        """Have the execution read anew before its turn."""
        ...

    def unbind(self, beats: StreamBeats) -> None:
        """Forget a binding."""
        ...


class StreamBeats:
    """The port BoundBeats: the beats of one execution on one stream."""

    __slots__ = ("_generation", "_keeper", "bound", "on_asked", "on_standing")

    def __init__(
        self,
        keeper: Keeper,
        bound: BoundExecution,
        generation: int,
        on_standing: OnStanding,
        on_asked: OnAsked | None = None,
    ) -> None:
        self._keeper = keeper
        self._generation = generation
        self.bound = bound
        self.on_standing = on_standing
        self.on_asked = on_asked

    def beat(self, heartbeat_seq: int, round_trip_ms: float) -> Reason | None:
        """See the port; the guards in the order of ``BEAT_GUARDS``, over what was last read."""
        bound = self.bound
        if self._generation < bound.standing.generation:
            return self._keeper.answer(Reason.TOKEN_REVOKED)
        if bound.refusal is not None:
            if bound.refusal is Reason.TRANSITION_NOT_ALLOWED:
                self._keeper.ask_soon(bound)
            return self._keeper.answer(bound.refusal)
        if heartbeat_seq < bound.last_seq:
            return self._keeper.answer(Reason.STALE_SEQUENCE)
        reason = self._keeper.keep(bound, heartbeat_seq)
        if reason is None:
            bound.last_seq = heartbeat_seq
            if round_trip_ms:
                bound.link.measured(round_trip_ms)
        return reason

    def close(self) -> None:
        """See the port; may be called twice."""
        self._keeper.unbind(self)
