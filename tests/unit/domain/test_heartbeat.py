"""Which beat counts, in which order it is judged, and the terms of a link (H-1, H-3, H-6)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskstatus.domain.commands import Caller, Credential
from taskstatus.domain.events import EXECUTION_EVENTS
from taskstatus.domain.health import Health
from taskstatus.domain.heartbeat import (
    BEAT_GUARDS,
    BEATS_PER_TIMEOUT,
    LONGEST_PERSIST_SECONDS,
    BeatClaim,
    Link,
    TermBounds,
    Terms,
    judge_beat,
    terms_for,
)
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.reasons import Reason
from taskstatus.domain.standing import ExecutionStanding
from tests.unit.beats_kit import a_standing
from tests.unit.factories import PARSER_CALLER, UNIX_NOW

BOUNDS = TermBounds()
OTHER_CALLER = replace(PARSER_CALLER, producer_id="other")
DEFAULT = Terms(15, 60)


def a_claim(**changes: Any) -> BeatClaim:
    """A beat that counts."""
    claim = BeatClaim(
        caller=PARSER_CALLER,
        bound=PARSER_CALLER,
        contradicts=False,
        credential=Credential(1, UNIX_NOW + 60, EXECUTION_EVENTS),
        heartbeat_seq=5,
        received_unix=UNIX_NOW,
    )
    return replace(claim, **changes)


@dataclass(frozen=True)
class Violation:
    """One thing that is wrong with a beat."""

    reason: Reason
    claim: Callable[[BeatClaim], BeatClaim] = lambda claim: claim
    standing: Callable[[ExecutionStanding], ExecutionStanding | None] = lambda standing: standing


IN_ORDER = [
    Violation(Reason.TOKEN_MISMATCH, lambda claim: replace(claim, bound=replace(claim.bound, tenant_id="t-02"))),
    Violation(
        Reason.PRODUCER_MISMATCH, lambda claim: replace(claim, caller=replace(claim.caller, producer_id="other"))
    ),
    Violation(Reason.TOKEN_MISMATCH, lambda claim: replace(claim, contradicts=True)),
    Violation(Reason.EXECUTION_NOT_FOUND, standing=lambda _standing: None),
    Violation(
        Reason.TOKEN_EXPIRED,
        lambda claim: replace(claim, credential=replace(claim.credential, expires_at=claim.received_unix)),
    ),
    Violation(Reason.TOKEN_REVOKED, standing=lambda standing: replace(standing, generation=2)),
    Violation(Reason.PRODUCER_MISMATCH, standing=lambda standing: replace(standing, producer_id="other")),
    Violation(Reason.STALE_ATTEMPT, standing=lambda standing: replace(standing, is_current=False)),
    Violation(Reason.TERMINAL, standing=lambda standing: replace(standing, lifecycle=Lifecycle.SUCCEEDED)),
    Violation(Reason.TERMINAL, standing=lambda standing: replace(standing, task_lifecycle=Lifecycle.CANCELLED)),
    Violation(Reason.TRANSITION_NOT_ALLOWED, standing=lambda standing: replace(standing, has_open_lease=False)),
    Violation(Reason.STALE_SEQUENCE, lambda claim: replace(claim, last_seq=claim.heartbeat_seq + 1)),
]
"""Every way to be refused, in the order of E-2."""


def test_h3_beat_of_a_running_execution_counts() -> None:
    assert judge_beat(a_claim(), a_standing()) is None


@pytest.mark.parametrize("violation", IN_ORDER, ids=lambda violation: str(violation.reason))
def test_h3_each_violation_alone_gives_its_reason(violation: Violation) -> None:
    assert judge_beat(violation.claim(a_claim()), violation.standing(a_standing())) is violation.reason


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations(IN_ORDER, 2)))
def test_e2_the_first_violation_answers(first: Violation, second: Violation) -> None:
    claim = second.claim(first.claim(a_claim()))
    standing = first.standing(a_standing())
    assert judge_beat(claim, second.standing(standing) if standing is not None else None) is first.reason


def test_h3_guards_are_data_with_their_spec_ids() -> None:
    assert [reason for guard in BEAT_GUARDS for reason in guard.reasons] == [
        *(Reason.TOKEN_EXPIRED, Reason.TOKEN_REVOKED, Reason.PRODUCER_MISMATCH),
        *(Reason.STALE_ATTEMPT, Reason.TERMINAL, Reason.TRANSITION_NOT_ALLOWED, Reason.STALE_SEQUENCE),
    ]
    assert {guard.spec for guard in BEAT_GUARDS} == {"R-11", "E-2", "H-3"}


@given(persisted=st.integers(0, 9), taken=st.integers(0, 9), sent=st.integers(1, 9))
def test_h3_only_a_lower_sequence_is_stale(persisted: int, taken: int, sent: int) -> None:
    reason = judge_beat(a_claim(heartbeat_seq=sent, last_seq=taken), a_standing(heartbeat_seq=persisted))
    assert (reason is Reason.STALE_SEQUENCE) == (sent < max(persisted, taken))


@pytest.mark.parametrize("health", list(Health))
@pytest.mark.parametrize("lifecycle", [Lifecycle.RUNNING, Lifecycle.CANCELLING])
def test_h3_health_and_a_cancel_request_refuse_no_beat(health: Health, lifecycle: Lifecycle) -> None:
    standing = a_standing(health=health, lifecycle=lifecycle, cancel_requested=True)
    assert judge_beat(a_claim(), standing) is None


def test_r11_handle_lives_as_long_as_its_generation() -> None:
    endless = Credential(1, None, EXECUTION_EVENTS)
    assert judge_beat(a_claim(credential=endless, received_unix=UNIX_NOW * 2), a_standing()) is None
    newer = Credential(2, None, EXECUTION_EVENTS)
    assert judge_beat(a_claim(credential=newer), a_standing()) is None


def test_id1_another_scope_is_another_caller() -> None:
    other = Caller(PARSER_CALLER.tenant_id, "elsewhere", PARSER_CALLER.producer_id)
    assert judge_beat(a_claim(caller=other), None) is Reason.TOKEN_MISMATCH


@pytest.mark.parametrize(
    ("round_trip_ms", "interval", "timeout"),
    [
        (0.0, 15, 60),
        (1.6, 15, 60),
        (1.7, 20, 75),
        (15.0, 60, 195),
        (35.0, 120, 375),
        (36.0, 120, 375),
        (1e12, 120, 375),
    ],
)
def test_h6_round_trip_lengthens_the_terms_as_the_figures_say(
    round_trip_ms: float, interval: int, timeout: int
) -> None:
    assert terms_for(round_trip_ms, DEFAULT, BOUNDS) == Terms(interval, timeout)


BASES = st.builds(
    lambda interval, more: Terms(interval, 3 * interval + LONGEST_PERSIST_SECONDS + more),
    st.integers(1, 28_795),
    st.integers(0, 1_000),
)
TRIPS = st.floats(0, 1e300, allow_nan=False)


@given(trip=TRIPS, base=BASES, longest=st.integers(1, 3_600))
def test_h6_terms_stay_within_their_bounds_and_leave_room_for_three_beats(
    trip: float, base: Terms, longest: int
) -> None:
    terms = terms_for(trip, base, TermBounds(longest_interval_seconds=longest))
    assert terms.interval_seconds >= base.interval_seconds
    assert terms.timeout_seconds >= base.timeout_seconds
    assert terms.interval_seconds <= max(longest, base.interval_seconds)
    assert terms.timeout_seconds >= BEATS_PER_TIMEOUT * terms.interval_seconds + LONGEST_PERSIST_SECONDS


@given(trips=st.tuples(TRIPS, TRIPS), base=BASES)
def test_h6_a_slower_link_never_gets_shorter_terms(trips: tuple[float, float], base: Terms) -> None:
    quick, slow = (terms_for(trip, base, BOUNDS) for trip in sorted(trips))
    assert quick.interval_seconds <= slow.interval_seconds
    assert quick.timeout_seconds <= slow.timeout_seconds


@pytest.mark.parametrize("bounds", [{"longest_interval_seconds": 0}, {"persist_seconds": 0}, {"persist_seconds": 16}])
def test_h6_bounds_that_cannot_work_are_refused(bounds: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="persist period"):
        TermBounds(**bounds)


def test_h6_steady_link_is_reckoned_with_its_round_trip() -> None:
    link = Link()
    for _ in range(5):
        link.measured(15.0)
    assert link.round_trip_ms == pytest.approx(15.0)


def test_h6_one_slow_exchange_weighs_less_than_a_slow_link() -> None:
    link = Link()
    for _ in range(50):
        link.measured(2.0)
    link.measured(400.0)
    once = link.round_trip_ms
    for _ in range(50):
        link.measured(400.0)
    assert 2.0 < once < 200.0 < link.round_trip_ms


@given(st.lists(st.floats(0.001, 1e6), min_size=1, max_size=60))
def test_h6_link_is_reckoned_between_its_extremes_and_their_spread(trips: list[float]) -> None:
    link = Link()
    for trip in trips:
        link.measured(trip)
    assert min(trips) * 0.999 <= link.round_trip_ms <= 2.001 * max(trips)


@pytest.mark.parametrize("nothing", [0.0, -1.0, math.nan, math.inf, -math.inf])
def test_h6_what_is_no_measurement_changes_nothing(nothing: float) -> None:
    link = Link()
    link.measured(20.0)
    link.measured(nothing)
    assert link.round_trip_ms == 20.0
    assert Link().round_trip_ms == 0.0
