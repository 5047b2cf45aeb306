"""Signs of life against what was recorded of them: STALE is true, is told, ends, and is told and ended once (H-2…H-5).

Silence is judged with three outcomes: while the service or its database was hindered (``HealthWatch.disturbed``), or
the database's clock went back, an acknowledged beat proves nothing, and neither does its absence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from enum import StrEnum
from functools import partial
from itertools import pairwise

from taskstatus.domain.health_changes import HealthSign
from taskstatus.domain.lease import MAX_PATIENCE, patience_seconds
from tests.history.lifelines import HEALTH_FACTS, Lifeline, Sign, lifelines, sign_of, signs_of_life
from tests.history.model import Beat, HealthWatch, History, Outcome

HEALTH_AFTER = {
    HealthSign.BEATING: {HealthSign.SILENT},
    HealthSign.SILENT: {HealthSign.BEATING, HealthSign.LOST},
    HealthSign.LOST: {HealthSign.BEATING},
}
"""What may be recorded of an execution next; it begins as one that beats."""
CLOCK_SLACK_SECONDS = 0.05
"""Between the driver's reading of the database's clock and its own."""
ENDED_REASONS = frozenset({"TERMINAL", "STALE_ATTEMPT"})


class Finding(StrEnum):
    """What is known of one fact, or of one that is missing."""

    KEPT = "kept"
    BROKEN = "broken"
    UNKNOWN = "unknown"


Findings = Iterator[tuple[Finding, str]]


def health_alternates(history: History) -> Iterator[str]:
    """H-4, H-5: an execution goes STALE and comes back by turns, and is lost at most once in each silence."""
    for line in lifelines(history):
        last = HealthSign.BEATING
        for row in line.facts:
            if sign_of(row) not in HEALTH_AFTER[last]:
                yield f"{line.name}: version {row.task_version} says {row.reason} after {last}"
            last = sign_of(row)


def health_is_of_running_executions(history: History) -> Iterator[str]:
    """H-4, L-1: facts of health lie between an execution's start and its end, and name an execution."""
    for line in lifelines(history):
        for row in line.facts:
            if line.started is None or row.task_version < line.started.task_version:
                yield f"{line.name}: version {row.task_version} says {row.reason} before it started"
            if line.end is not None and row.task_version > line.end.task_version:
                yield f"{line.name}: version {row.task_version} says {row.reason} after {line.end.event_type}"
    known = {line.execution_id for line in lifelines(history)}
    for row in history.tables.events.values():
        if row.event_type in HEALTH_FACTS and row.execution_id not in known:
            yield f"version {row.task_version} of …{row.task_id.hex()[-6:]} says {row.reason} of no execution"


def health_flags_follow_facts(history: History) -> Iterator[str]:
    """H-4, H-5, L-1: the flags of step and lease are what the facts add up to; an end clears STALE."""
    for line in lifelines(history):
        last = sign_of(line.facts[-1]) if line.facts else HealthSign.BEATING
        is_stale = line.end is None and last is not HealthSign.BEATING
        if line.step.stale != is_stale:
            yield f"{line.name}: stale is {line.step.stale}, its facts say {is_stale}"
        lease = history.tables.leases.get(line.execution_id)
        if lease is None:
            continue
        recoveries = sum(sign_of(row) is HealthSign.BEATING for row in line.facts)
        if lease.recoveries != recoveries:
            yield f"{line.name}: its lease counts {lease.recoveries} recoveries, there were {recoveries}"
        if lease.is_open and (lease.stale_since is not None) != is_stale:
            yield f"{line.name}: its lease says stale since {lease.stale_since}, its facts say {is_stale}"
        if lease.is_open and (lease.lost_at is not None) != (last is HealthSign.LOST):
            yield f"{line.name}: its lease says lost at {lease.lost_at}, its last fact is {last}"


def patience_grows(history: History) -> Iterator[str]:
    """H-4, H-5: silence is recorded a whole timeout after the start, and ever later after each return."""
    if history.clock_stepped:
        return
    for line in lifelines(history):
        since, recoveries = line.started.received_at if line.started else None, 0
        for row in line.facts:
            if sign_of(row) is HealthSign.SILENT and since is not None:
                # A return was heard less than a timeout before it was recorded.
                least = line.timeout_seconds * (min(recoveries, MAX_PATIENCE) or 1)
                waited = (row.committed_at - since).total_seconds()
                if waited < least:
                    yield f"{line.name}: STALE at version {row.task_version} after {waited:.3f} s of at least {least}"
            elif sign_of(row) is HealthSign.BEATING:
                since, recoveries = row.committed_at, recoveries + 1


def lost_comes_late(history: History) -> Iterator[str]:
    """H-5: WORKER_LOST follows its STALE by the escalation threshold at least."""
    watch = history.health
    if watch is None or history.clock_stepped:
        return
    for line in lifelines(history):
        for earlier, later in pairwise(line.facts):
            waited = (later.committed_at - earlier.committed_at).total_seconds()
            if sign_of(later) is HealthSign.LOST and waited < watch.lost_after_seconds:
                yield f"{line.name}: lost {waited:.3f} s after it went STALE"


def stale_is_true(history: History) -> Iterator[str]:
    """H-4: no STALE while an acknowledged sign of life lay within the patience before it."""
    yield from _broken(history, judge_stale)


def silence_is_told(history: History) -> Iterator[str]:
    """H-4: an execution that sent nothing for its patience is STALE by then."""
    yield from _broken(history, judge_silence)


def signs_of_life_end_stale(history: History) -> Iterator[str]:
    """H-4: the next acknowledged sign of life ends STALE, and nothing else does."""
    yield from _broken(history, judge_returns)


def beats_are_answered_truly(history: History) -> Iterator[str]:
    """H-3: a beat is accepted of running executions only, and refused with what is true of them."""
    yield from _broken(history, judge_answers)


def acknowledged_beats_are_kept(history: History) -> Iterator[str]:
    """H-2: an acknowledged beat is persisted within a period, and no lease has heard what was never sent."""
    yield from _broken(history, judge_persistence)


def _broken(history: History, judge: Callable[[History, HealthWatch], Findings]) -> Iterator[str]:
    if history.health is not None:
        yield from (what for finding, what in judge(history, history.health) if finding is Finding.BROKEN)


def judge_stale(history: History, watch: HealthWatch) -> Findings:
    """Whether each STALE was true."""
    signs = signs_of_life(history)
    for line in lifelines(history):
        recoveries = 0
        for row in line.facts:
            if sign_of(row) is HealthSign.SILENT:
                at = watch.seconds(row.committed_at)
                heard_after = at - patience_seconds(line.timeout_seconds, recoveries) + CLOCK_SLACK_SECONDS
                within = [sign for sign in signs.get(line.execution_id, ()) if heard_after < sign.sent_at < at]
                finding = _known(history, within, partial(_is_persisted, watch, at))
                yield finding, f"{line.name}: STALE at version {row.task_version} although it was heard"
            recoveries += sign_of(row) is HealthSign.BEATING


def _known(history: History, against: list[Sign], counts: Callable[[Sign], bool]) -> Finding:
    """BROKEN by a sure sign that counts, UNKNOWN by any other, KEPT without one."""
    if any(sign.is_sure and counts(sign) for sign in against) and not history.clock_stepped:
        return Finding.BROKEN
    return Finding.UNKNOWN if against else Finding.KEPT


def _is_persisted(watch: HealthWatch, at: float, sign: Sign) -> bool:
    until = sign.done_at + watch.persist_seconds
    return until < at and not watch.is_disturbed(sign.sent_at, until)


def judge_silence(history: History, watch: HealthWatch) -> Findings:
    """Whether every long silence was told by its end."""
    signs = signs_of_life(history)
    for line in lifelines(history):
        if line.started is None:
            continue
        until = min(watch.ended_at, watch.seconds(line.end.committed_at) if line.end else watch.ended_at)
        heard = watch.seconds(line.started.committed_at)
        last = Sign(until, until, is_sure=False)
        for sign in [*signs.get(line.execution_id, ()), last]:
            yield from _judge_gap(history, watch, line, heard, min(sign.sent_at, until))
            heard = max(heard, sign.done_at)


def _judge_gap(history: History, watch: HealthWatch, line: Lifeline, begin: float, end: float) -> Findings:
    before = [row for row in line.facts if watch.seconds(row.committed_at) <= end]
    recoveries = sum(sign_of(row) is HealthSign.BEATING for row in before)
    needed = patience_seconds(line.timeout_seconds, recoveries) + watch.detect_seconds
    if end - begin <= needed:
        return
    is_told = bool(before) and sign_of(before[-1]) is not HealthSign.BEATING
    is_known = not history.clock_stepped and not watch.is_disturbed(begin - watch.disbelief_seconds, end)
    finding = Finding.KEPT if is_told else Finding.BROKEN if is_known else Finding.UNKNOWN
    yield finding, f"{line.name}: silent from {begin:.2f} to {end:.2f} s and not STALE"


def judge_returns(history: History, watch: HealthWatch) -> Findings:
    """Whether each STALE ended by a sign of life, and each sign of life ended STALE."""
    signs = signs_of_life(history)
    for line in lifelines(history):
        own = signs.get(line.execution_id, [])
        for silent, back in _silences(line):
            begin = watch.seconds(silent)
            end = watch.seconds(back) if back is not None else None
            if end is not None and not any(_may_end(s, line, begin, end) for s in own) and not history.clock_stepped:
                yield Finding.BROKEN, f"{line.name}: came back at {end:.2f} s without a sign of life"
            until = min(watch.ended_at, watch.seconds(line.end.committed_at) if line.end else watch.ended_at)
            late = [s for s in own if s.is_sure and _is_overdue(watch, s, begin, until if end is None else end)]
            finding = _known(
                history, late, lambda s: not watch.is_disturbed(s.sent_at, s.done_at + watch.recover_seconds)
            )
            yield finding, f"{line.name}: STALE since {begin:.2f} s, beaten, and not back in time"


def _may_end(sign: Sign, line: Lifeline, silent_at: float, back_at: float) -> bool:
    """A sign that was kept back while the silence was recorded may end it too."""
    return sign.sent_at <= back_at + CLOCK_SLACK_SECONDS and sign.done_at > silent_at - line.timeout_seconds


def _is_overdue(watch: HealthWatch, sign: Sign, silent_at: float, until: float) -> bool:
    return sign.sent_at > silent_at + CLOCK_SLACK_SECONDS and sign.done_at + watch.recover_seconds < until


def _silences(line: Lifeline) -> Iterator[tuple[datetime, datetime | None]]:
    """When each silence was recorded, and its end, if it came back from it."""
    silent: datetime | None = None
    for row in line.facts:
        if sign_of(row) is HealthSign.SILENT:
            silent = silent or row.committed_at
        elif sign_of(row) is HealthSign.BEATING and silent is not None:
            yield silent, row.committed_at
            silent = None
    if silent is not None:
        yield silent, None


def judge_answers(history: History, watch: HealthWatch) -> Findings:
    """Whether each answered beat was answered as its execution stood."""
    highest = _highest_sent(watch)
    lines = {line.execution_id: line for line in lifelines(history)}
    for beat in watch.beats:
        line = lines.get(beat.execution_id)
        if line is None or beat.outcome is Outcome.UNKNOWN:
            continue
        untrue = _untruth(watch, beat, line, highest)
        if untrue is None:
            yield Finding.KEPT, ""
            continue
        is_lag, why = untrue
        lags = is_lag and watch.is_disturbed(beat.sent_at - watch.persist_seconds, beat.done_at)
        finding = Finding.UNKNOWN if lags or history.clock_stepped else Finding.BROKEN
        yield finding, f"{line.name}: beat {beat.heartbeat_seq} sent at {beat.sent_at:.2f} s {why}"


def _untruth(watch: HealthWatch, beat: Beat, line: Lifeline, highest: Callable[[Beat], int]) -> tuple[bool, str] | None:
    """Whether streams may have lagged behind, and what was untrue; None for a true answer."""
    started = watch.seconds(line.started.committed_at) if line.started else None
    ended = watch.seconds(line.end.committed_at) if line.end else None
    answered_by, lag = beat.done_at + CLOCK_SLACK_SECONDS, watch.persist_seconds
    if beat.outcome is Outcome.OK:
        if started is None or started > answered_by:
            return False, "was accepted before the start"
        return (True, "was accepted long after the end") if ended and beat.sent_at > ended + lag else None
    if beat.reason in ENDED_REASONS:
        return None if ended is not None and ended <= answered_by else (False, f"was answered {beat.reason}")
    if beat.reason == "STALE_SEQUENCE":
        return None if highest(beat) > beat.heartbeat_seq else (False, "was stale, and the highest")
    if beat.reason == "TRANSITION_NOT_ALLOWED":
        has_long_started = started is not None and beat.sent_at > started + lag and not (ended and ended <= answered_by)
        return (True, "was refused long after the start") if has_long_started else None
    return None


def _highest_sent(watch: HealthWatch) -> Callable[[Beat], int]:
    """By execution, the highest sequence of all that was sent before the answer of a beat."""
    sent: dict[bytes, list[Beat]] = {}
    for beat in watch.beats:
        sent.setdefault(beat.execution_id, []).append(beat)
    return lambda beat: max(other.heartbeat_seq for other in sent[beat.execution_id] if other.sent_at <= beat.done_at)


def judge_persistence(history: History, watch: HealthWatch) -> Findings:
    """Whether each lease holds the acknowledged beats, and none that was not sent."""
    ends = {line.execution_id: line.end and watch.seconds(line.end.committed_at) for line in lifelines(history)}
    sent: Counter[bytes] = Counter()
    kept: Counter[bytes] = Counter()
    for beat in watch.beats:
        execution_id = beat.execution_id
        sent[execution_id] = max(sent[execution_id], beat.heartbeat_seq)
        until = min(watch.ended_at, ends.get(execution_id) or watch.ended_at)
        sign = Sign(beat.sent_at, beat.done_at, is_sure=True)
        if beat.outcome is Outcome.OK and _is_persisted(watch, until, sign):
            kept[execution_id] = max(kept[execution_id], beat.heartbeat_seq)
    for execution_id, lease in history.tables.leases.items():
        least, most = kept[execution_id], sent[execution_id]
        is_kept = least <= lease.heartbeat_seq <= most or history.clock_stepped
        what = f"has {lease.heartbeat_seq}, {least} was acknowledged long before the end, {most} was the last sent"
        yield Finding.KEPT if is_kept else Finding.BROKEN, f"lease …{execution_id.hex()[-6:]}: {what}"


def health_figures(history: History) -> dict[str, int]:
    """What a report tells: facts of health, and what the three judgements that may not know anything came to."""
    signs = Counter(row.reason for row in history.tables.events.values() if row.event_type in HEALTH_FACTS)
    figures = {
        "beats": 0,
        "stale": signs[HealthSign.SILENT],
        "recovered": signs[HealthSign.BEATING],
        "lost workers": signs[HealthSign.LOST],
        "spurious": 0,
        "unjudged": 0,
    }
    if history.health is not None:
        stale = Counter(finding for finding, _ in judge_stale(history, history.health))
        figures["beats"] = sum(beat.outcome is Outcome.OK for beat in history.health.beats)
        figures["spurious"], figures["unjudged"] = stale[Finding.BROKEN], stale[Finding.UNKNOWN]
    return figures
