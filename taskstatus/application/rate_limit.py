"""A limit of events per service identity, so that one runaway caller cannot take the lanes from the others (N-4)."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from taskstatus.application.identity import ServiceIdentity
from taskstatus.application.ports_clock import Clock
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.reasons import Reason

REMEMBERED_IDENTITIES = 10_000


@dataclass(frozen=True, slots=True)
class RateLimit:
    """Events per second in the long run, and how many at once; raises ValueError for values that admit nothing."""

    events_per_second: float = 20_000.0
    burst_events: float = 40_000.0

    def __post_init__(self) -> None:
        if self.events_per_second <= 0 or self.burst_events < 1:
            raise ValueError("a rate limit must admit something")


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_at: float


class RateLimiter:
    """A token bucket for each (tenant, scope, producer); the least recently seen are forgotten, that is, full again."""

    def __init__(self, clock: Clock, limit: RateLimit, what: str = "reports more events") -> None:
        """``what`` the caller is told that it does too much of."""
        self._clock = clock
        self._limit = limit
        self._what = what
        self._buckets: OrderedDict[tuple[str, str, str], _Bucket] = OrderedDict()

    def admit(self, identity: ServiceIdentity, events: int) -> None:
        """Take ``events`` tokens. Raises RefusedError RATE_LIMITED with the pause after which they will be there.

        A call larger than the burst is admitted when its bucket is full, and paid for by waiting afterwards.
        """
        bucket = self._bucket(identity)
        needed = min(float(events), self._limit.burst_events)
        if bucket.tokens < needed:
            wait = (needed - bucket.tokens) / self._limit.events_per_second
            raise RefusedError(Reason.RATE_LIMITED, f"this service {self._what} than it may", retry_after_seconds=wait)
        bucket.tokens -= events

    def _bucket(self, identity: ServiceIdentity) -> _Bucket:
        key = (identity.tenant_id, identity.authority_scope, identity.producer_id)
        now = self._clock.monotonic_seconds()
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket(self._limit.burst_events, now)
            if len(self._buckets) > REMEMBERED_IDENTITIES:
                self._buckets.popitem(last=False)
            return bucket
        self._buckets.move_to_end(key)
        gained = (now - bucket.filled_at) * self._limit.events_per_second
        bucket.tokens = min(self._limit.burst_events, bucket.tokens + gained)
        bucket.filled_at = now
        return bucket
