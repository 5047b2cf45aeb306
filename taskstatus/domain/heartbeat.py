"""Heartbeats: which beat counts, and how often to beat over which link (H-1, H-3, H-6).

``BEAT_GUARDS`` is the order of E-2 for what is no event: the first guard that objects answers, on every transport.
An end (STALE_ATTEMPT, TERMINAL) is told before a low sequence, since it is what the worker has to act on.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from taskstatus.domain.commands import Caller, Credential
from taskstatus.domain.quick_dataclasses import dataclass
from taskstatus.domain.reasons import Reason
from taskstatus.domain.standing import ExecutionStanding

LONGEST_PERSIST_SECONDS = 15
"""How long a beat may wait in memory; every timeout has room for it (names.md, *Figures*)."""
BEATS_PER_TIMEOUT = 3
"""So many intervals may pass in silence, and a persist period, before a step is STALE."""
SECONDS_PER_MILLISECOND = 3.0
"""A link that takes 15 ms longer is asked 45 s later: 15 ms → 60 s, 35 ms → 120 s for the default terms (004 5.2)."""
LONGEST_ROUND_TRIP_MS = 3_600_000.0
TERM_STEP_SECONDS = 5
"""Terms move in steps, so that the noise of a good link leaves them alone."""
_MEAN_WEIGHT, _DEVIATION_WEIGHT = 0.125, 0.25


@dataclass(frozen=True, slots=True)
class BeatClaim:
    """One beat whose credential is genuine, and what its caller says of itself."""

    caller: Caller
    bound: Caller
    """Whose credential it is."""
    contradicts: bool
    """The fields stated name something else than the credential binds."""
    credential: Credential
    heartbeat_seq: int
    received_unix: float
    last_seq: int = 0
    """The highest sequence that this process has taken and not persisted yet."""


@dataclass(frozen=True, slots=True)
class BeatGuard:
    """One rule: its name, the spec id it comes from, the reasons it can give, and its check."""

    name: str
    spec: str
    reasons: tuple[Reason, ...]
    check: Callable[[BeatClaim, ExecutionStanding], Reason | None]


def _credential_is_the_callers(claim: BeatClaim, _standing: ExecutionStanding | None) -> Reason | None:
    caller, bound = claim.caller, claim.bound
    if (caller.tenant_id, caller.authority_scope) != (bound.tenant_id, bound.authority_scope):
        return Reason.TOKEN_MISMATCH
    if caller.producer_id != bound.producer_id:
        return Reason.PRODUCER_MISMATCH
    return Reason.TOKEN_MISMATCH if claim.contradicts else None


def _credential_is_live(claim: BeatClaim, standing: ExecutionStanding) -> Reason | None:
    expires_at = claim.credential.expires_at
    if expires_at is not None and expires_at <= claim.received_unix:
        return Reason.TOKEN_EXPIRED
    return Reason.TOKEN_REVOKED if claim.credential.generation < standing.generation else None


def _producer_is_expected(claim: BeatClaim, standing: ExecutionStanding) -> Reason | None:
    return None if claim.caller.producer_id == standing.producer_id else Reason.PRODUCER_MISMATCH


def _execution_can_beat(_claim: BeatClaim, standing: ExecutionStanding) -> Reason | None:
    return refusal_of(standing)


def _sequence_does_not_fall(claim: BeatClaim, standing: ExecutionStanding) -> Reason | None:
    last = max(standing.heartbeat_seq, claim.last_seq)
    return Reason.STALE_SEQUENCE if claim.heartbeat_seq < last else None


BEAT_GUARDS: tuple[BeatGuard, ...] = (
    BeatGuard("credential is live", "R-11", (Reason.TOKEN_EXPIRED, Reason.TOKEN_REVOKED), _credential_is_live),
    BeatGuard("producer matches", "E-2", (Reason.PRODUCER_MISMATCH,), _producer_is_expected),
    BeatGuard(
        "execution is current and runs",
        "H-3",
        (Reason.STALE_ATTEMPT, Reason.TERMINAL, Reason.TRANSITION_NOT_ALLOWED),
        _execution_can_beat,
    ),
    BeatGuard("sequence does not fall", "H-3", (Reason.STALE_SEQUENCE,), _sequence_does_not_fall),
)
"""What is asked of a beat of a known execution, after *credential is the caller's own* and *execution exists*."""


def judge_beat(claim: BeatClaim, standing: ExecutionStanding | None) -> Reason | None:
    """Why a beat does not count, in the order of E-2; None when it does. ``standing`` is None for no such execution."""
    objection = _credential_is_the_callers(claim, standing)
    if objection is not None:
        return objection
    if standing is None:
        return Reason.EXECUTION_NOT_FOUND
    for guard in BEAT_GUARDS:
        objection = guard.check(claim, standing)
        if objection is not None:
            return objection
    return None


def refusal_of(standing: ExecutionStanding) -> Reason | None:
    """Why no beat of this execution counts, whoever sends it: it is over, or has not started and holds no lease."""
    return standing.end or (None if standing.has_open_lease else Reason.TRANSITION_NOT_ALLOWED)


@dataclass(frozen=True, slots=True)
class Terms:
    """How often to beat, and after how much silence the step is STALE; in seconds."""

    interval_seconds: int
    timeout_seconds: int


@dataclass(frozen=True, slots=True)
class TermBounds:
    """How far terms may adapt; raises ValueError for bounds that cannot work."""

    longest_interval_seconds: int = 120
    """For links only: an execution activated with a longer interval keeps it."""
    persist_seconds: int = LONGEST_PERSIST_SECONDS

    def __post_init__(self) -> None:
        if self.longest_interval_seconds < 1 or not 1 <= self.persist_seconds <= LONGEST_PERSIST_SECONDS:
            raise ValueError(f"an interval of at least 1 s, and a persist period of 1 to {LONGEST_PERSIST_SECONDS} s")


def terms_for(round_trip_ms: float, base: Terms, bounds: TermBounds) -> Terms:
    """The terms of an execution over a link with this round trip (H-6).

    Never below the base terms, never above the bounds unless the base is, and always with room for three intervals and
    a persist period.
    """
    bounded_ms = min(round_trip_ms, LONGEST_ROUND_TRIP_MS)
    # Rounded first: three times 15 ms must not be a hair below 45 s.
    extra = math.floor(round(bounded_ms * SECONDS_PER_MILLISECOND / TERM_STEP_SECONDS, 6)) * TERM_STEP_SECONDS
    interval = max(base.interval_seconds, min(base.interval_seconds + extra, bounds.longest_interval_seconds))
    timeout = max(base.timeout_seconds, BEATS_PER_TIMEOUT * interval + bounds.persist_seconds)
    return Terms(interval, timeout)


def base_terms(standing: ExecutionStanding) -> Terms:
    """The terms that the execution was activated with."""
    return Terms(standing.base_interval_seconds, standing.base_timeout_seconds)


class Link:
    """The round trips of one producer, smoothed as TCP does: their mean, and how much they vary."""

    __slots__ = ("_deviation", "_mean", "_measured")

    def __init__(self) -> None:
        self._mean = 0.0
        self._deviation = 0.0
        self._measured = False

    def measured(self, round_trip_ms: float) -> None:
        """Take one measurement; 0, negative or not finite is none."""
        if not 0.0 < round_trip_ms < math.inf:
            return
        if round_trip_ms > LONGEST_ROUND_TRIP_MS:
            round_trip_ms = LONGEST_ROUND_TRIP_MS
        if not self._measured:
            self._measured, self._mean = True, round_trip_ms
            return
        error = round_trip_ms - self._mean
        self._mean += _MEAN_WEIGHT * error
        self._deviation += _DEVIATION_WEIGHT * ((error if error > 0.0 else -error) - self._deviation)

    @property
    def round_trip_ms(self) -> float:
        """What to reckon with: the mean and one deviation; 0 before the first measurement."""
        return self._mean + self._deviation
