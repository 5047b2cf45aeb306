"""The limit of events per service identity (N-4)."""

from __future__ import annotations

import pytest

from taskstatus.application.identity import Role, ServiceIdentity
from taskstatus.application.rate_limit import REMEMBERED_IDENTITIES, RateLimit, RateLimiter
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.reasons import Reason
from tests.unit.service_kit import FakeClock, a_service

WORKER = a_service("parser", Role.WORKER)


def a_limiter() -> tuple[RateLimiter, FakeClock]:
    """Ten events per second, twenty at once."""
    clock = FakeClock()
    return RateLimiter(clock, RateLimit(10.0, 20.0)), clock


def pause(limiter: RateLimiter, events: int, caller: ServiceIdentity = WORKER) -> float | None:
    """After how many seconds to come again; None when admitted."""
    try:
        limiter.admit(caller, events)
    except RefusedError as refusal:
        return refusal.retry_after_seconds if refusal.reason is Reason.RATE_LIMITED else -1.0
    return None


def test_n4_burst_is_admitted_and_the_rest_told_to_wait() -> None:
    limiter, clock = a_limiter()
    assert [pause(limiter, 15), pause(limiter, 10)] == [None, 0.5]
    clock.advance(0.5)
    assert pause(limiter, 10) is None


def test_n4_bucket_never_holds_more_than_the_burst() -> None:
    limiter, clock = a_limiter()
    clock.advance(3600)
    assert [pause(limiter, 20), pause(limiter, 1)] == [None, 0.1]


def test_n4_call_larger_than_the_burst_is_paid_for_afterwards() -> None:
    limiter, clock = a_limiter()
    assert pause(limiter, 50) is None
    assert pause(limiter, 1) == pytest.approx(3.1)
    clock.advance(3.1)
    assert pause(limiter, 1) is None


def test_n4_refused_call_takes_nothing() -> None:
    limiter, _ = a_limiter()
    pause(limiter, 15)
    assert [pause(limiter, 10), pause(limiter, 5)] == [0.5, None]


@pytest.mark.parametrize(
    "other",
    [
        a_service("other", Role.WORKER),
        a_service("parser", Role.WORKER, scope="other"),
        a_service("parser", Role.WORKER, tenant_id="t-02"),
    ],
)
def test_n4_each_identity_has_its_own_limit(other: ServiceIdentity) -> None:
    limiter, _ = a_limiter()
    assert pause(limiter, 20) is None
    assert pause(limiter, 20, other) is None


def test_n4_remembered_identities_are_bounded() -> None:
    limiter, _ = a_limiter()
    pause(limiter, 20)
    for number in range(REMEMBERED_IDENTITIES):
        limiter.admit(a_service(f"p{number}", Role.WORKER), 1)
    assert pause(limiter, 20) is None


@pytest.mark.parametrize(("per_second", "burst"), [(0, 1), (-1, 1), (1, 0)])
def test_n4_limit_that_admits_nothing_is_refused(per_second: float, burst: float) -> None:
    with pytest.raises(ValueError, match="admit"):
        RateLimit(per_second, burst)
