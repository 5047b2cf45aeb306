"""Mutants of heartbeats: each guard of a beat switched off, and the rules of what is kept, told and persisted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from taskstatus.application.heartbeats import Heartbeats
from taskstatus.application.rate_limit import RateLimiter
from taskstatus.domain import heartbeat
from taskstatus.domain.heartbeat import BEAT_GUARDS, BeatClaim, Link, TermBounds, Terms
from taskstatus.domain.standing import ExecutionStanding
from taskstatus.runtime.bound_beats import BoundExecution, StreamBeats
from taskstatus.runtime.heartbeat_coalescer import HeartbeatCoalescer
from taskstatus.runtime.pending_beats import PendingBeats

from .mutant import Mutant
from .patching import Apply, always, around, instead_of, method, rebind


def heartbeat_mutants() -> Iterator[Mutant]:
    """Every mutant of this module."""
    for guard in BEAT_GUARDS:
        yield Mutant("heartbeat", f"{guard.name}: off", guard.spec, partial(_switch_off, guard.name))
    for name, (spec, apply) in RULES.items():
        yield Mutant("heartbeat", name, spec, apply)


def _switch_off(name: str) -> None:
    _switch_to(name, always(None))


def _switch_to(name: str, change: Callable[..., Any]) -> None:
    """Put ``change(original, …)`` in the place of a guard's check."""
    changed = [replace(g, check=partial(change, g.check)) if g.name == name else g for g in BEAT_GUARDS]
    rebind(BEAT_GUARDS, tuple(changed))


def _own_whatever_it_states(original: Callable[..., Any], claim: BeatClaim, standing: ExecutionStanding) -> Any:
    return original(replace(claim, contradicts=False), standing)


def _unrelated_to_memory(original: Callable[..., Any], claim: BeatClaim, standing: ExecutionStanding) -> Any:
    return original(replace(claim, last_seq=0), standing)


def _base(_round_trip_ms: float, base: Terms, _bounds: TermBounds) -> Terms:
    return base


def _boundless(original: Callable[..., Any], round_trip_ms: float, base: Terms, bounds: TermBounds) -> Any:
    return original(round_trip_ms, base, replace(bounds, longest_interval_seconds=28_795))


def _latest_only(_original: object, link: Link, round_trip_ms: float) -> None:
    link._mean, link._measured = round_trip_ms, True


def _forget_what_failed(_original: object, pending: PendingBeats) -> None:
    pending.end()


def _first_wins(
    original: Callable[..., Any], pending: PendingBeats, execution_id: Any, seq: int, received: float
) -> Any:
    return execution_id in pending or original(pending, execution_id, seq, received)


def _older_wins(_original: object, pending: PendingBeats) -> None:
    pending._waiting.update(pending._in_flight)
    pending._in_flight.clear()


def _whatever_number(original: Callable[..., Any], pending: PendingBeats, *beat: Any) -> Any:
    pending._most = 10**9
    return original(pending, *beat)


def _without_the_rest(original: Callable[..., Any], coalescer: HeartbeatCoalescer, **_options: Any) -> Any:
    return original(coalescer, read_others=False)


async def _nothing(*_: object, **__: object) -> bool:
    return True


def _as_a_beat(original: Callable[..., Any], coalescer: HeartbeatCoalescer, *told: Any, beating: bool) -> Any:
    return original(coalescer, *told, beating=False)


def _as_of_now(original: Callable[..., Any], heartbeats: Heartbeats, *arguments: Any) -> Any:
    return replace(original(heartbeats, *arguments), received_at=None)


def _young(original: Callable[..., Any], heartbeats: Heartbeats, draft: Any, grant: Any) -> Any:
    return original(heartbeats, replace(draft, received_unix=0.0), grant)


RULES: Mapping[str, tuple[str, Apply]] = {
    "stated fields never contradict": (
        "E-2",
        around(heartbeat._credential_is_the_callers, _own_whatever_it_states),
    ),
    "anybody's credential": ("E-2", instead_of(heartbeat._credential_is_the_callers, always(None))),
    "sequence is compared with what is persisted only": (
        "H-3",
        partial(_switch_to, "sequence does not fall", _unrelated_to_memory),
    ),
    "terms never adapt": ("H-6", instead_of(heartbeat.terms_for, _base)),
    "terms without bound": ("H-6", around(heartbeat.terms_for, _boundless)),
    "link is its latest round trip": ("H-6", method(Link, "measured", _latest_only)),
    "failed flush loses its beats": ("H-2", method(PendingBeats, "put_back", _forget_what_failed)),
    "failed beat outlives the newer one": ("H-2", method(PendingBeats, "put_back", _older_wins)),
    "first beat of a period wins": ("H-2", method(PendingBeats, "note", _first_wins)),
    "memory without bound": ("H-2", method(PendingBeats, "note", _whatever_number)),
    "stale executions wait for the period": ("H-4", method(HeartbeatCoalescer, "_handle_soon", always(None))),
    "recovery is not told": ("H-4", method(HeartbeatCoalescer, "_told", _as_a_beat)),
    "silent bindings are not read anew": ("H-3", method(HeartbeatCoalescer, "_flush_everything", _without_the_rest)),
    "progress is no sign of life": ("H-7", method(HeartbeatCoalescer, "renew", always(None))),
    "stop persists nothing": ("N-1", method(HeartbeatCoalescer, "_flush_everything", _nothing)),
    "standing is never taken over": ("H-3", method(BoundExecution, "settle", always(None))),
    "closed binding goes on": ("T-2", method(StreamBeats, "close", always(None))),
    "receipt has no time": ("H-3", method(Heartbeats, "_answer", _as_of_now)),
    "tokens are not renewed": ("R-11", method(Heartbeats, "_renewal", _young)),
    "beats without limit": ("N-4", method(RateLimiter, "admit", always(None))),
    "refused beats are not audited": ("N-4", method(Heartbeats, "_note", always(None))),
}
"""By name: the spec id and the change."""
