"""What was answered against what is in the log: nothing lost, nothing doubled, nothing left of what was refused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from taskstatus.domain.events import EventType
from taskstatus.domain.ids import TaskId
from taskstatus.domain.reasons import RETRYABLE_REASONS
from taskstatus.domain.records import EventRecord
from tests.history.model import History, Invocation, Outcome

EventKey = tuple[TaskId, str]

ACKNOWLEDGED = frozenset({Outcome.OK, Outcome.ABSORBED})
BREAKING = frozenset(reason.value for reason in RETRYABLE_REASONS)
BEFORE_THE_DEDUP = frozenset(
    {"UNAUTHENTICATED", "TOKEN_EXPIRED", "TOKEN_MISMATCH", "PRODUCER_MISMATCH", "TASK_NOT_FOUND", "STEP_NOT_FOUND"}
    | {"EXECUTION_NOT_FOUND", "IDEMPOTENCY_CONFLICT", "PERMISSION_DENIED"}
    | BREAKING
)
"""Reasons that E-2 gives before (or instead of) the first result of a committed event."""
UNRESOLVED = frozenset({"UNAUTHENTICATED", "EXECUTION_NOT_FOUND", "INVALID_ARGUMENT"})
"""Reasons of an item that was refused before it could be told whose stream it belongs to."""


def acknowledged_exists_once_with_its_version(history: History) -> Iterator[str]:
    """C2-1, B-3: every acknowledged event is in the log once, under the version that was acknowledged."""
    log = _log_by_event(history)
    for call in history.invocations:
        if call.outcome is Outcome.OK and call.version is not None:
            versions = [answered_version(history, row) for row in log.get(_key(call), ())]
            if versions != [call.version] and not (_may_be_anothers(call) and not versions):
                yield f"{_name(call)}: acknowledged as version {call.version}, the log has it as {versions}"
        elif call.outcome is Outcome.ABSORBED:
            yield from _absorbed_is_recorded(history, call)


def _absorbed_is_recorded(history: History, call: Invocation) -> Iterator[str]:
    dedup = history.tables.dedups.get(_key(call))
    if dedup is None or not dedup.result.coalesced or dedup.result.task_version != call.version:
        yield f"{_name(call)}: absorbed into version {call.version}, its dedup row says {dedup and dedup.result}"
    absorber = history.tables.events.get((call.task_id, call.version or 0))
    if absorber is None or absorber.event_type is not EventType.STEP_PROGRESS or absorber.execution_id != call.stream:
        yield f"{_name(call)}: version {call.version} is no progress of its execution"


def unknown_is_there_once_or_not_at_all(history: History) -> Iterator[str]:
    """C2-2, E-3: an unanswered event is in the log at most once; after a retry with its original version."""
    log = _log_by_event(history)
    for key, calls in _calls_by_event(history).items():
        if not any(call.outcome is Outcome.UNKNOWN for call in calls):
            continue
        rows = log.get(key, [])
        if len(rows) > 1:
            yield f"{key[1]}: unknown, and in the log {len(rows)} times"
        recorded = _recorded_version(history, rows, key)
        answers = {call.version for call in calls if call.outcome in ACKNOWLEDGED and call.version is not None}
        if recorded is None and all(_may_be_anothers(call) for call in calls if call.outcome is Outcome.OK):
            continue
        if answers and answers != {recorded}:
            yield f"{key[1]}: retried after an unknown outcome, answered {sorted(answers)}, recorded as {recorded}"


def _recorded_version(history: History, rows: list[EventRecord], key: EventKey) -> int | None:
    if rows:
        return answered_version(history, rows[0])
    dedup = history.tables.dedups.get(key)
    return dedup.result.task_version if dedup else None


def committed_event_is_answered_with_its_first_result(history: History) -> Iterator[str]:
    """E-2, E-3: once acknowledged, the same event is never judged anew: no later send of it is refused or a no-op."""
    first: dict[EventKey, Invocation] = {}
    for call in sorted(history.invocations, key=lambda call: call.done_at):
        if call.outcome in ACKNOWLEDGED and call.version is not None:
            first.setdefault(_key(call), call)
    for call in history.invocations:
        known = first.get(_key(call))
        if known is None or call.invoked_at <= known.done_at or call.content != known.content:
            continue
        judged_anew = call.outcome is Outcome.NO_OP or (
            call.outcome is Outcome.REFUSED and call.reason not in BEFORE_THE_DEDUP
        )
        if judged_anew:
            answer = call.reason or "NO_OP"
            yield f"{_name(call)}: committed as version {known.version}, sent again and answered {answer}"
        if call.outcome in ACKNOWLEDGED and call.outcome is not known.outcome:
            yield f"{_name(call)}: first answered {known.outcome}, then {call.outcome}"


def rejected_left_nothing(history: History) -> Iterator[str]:
    """C2-3, E-4: what was only ever refused or a no-op has no log, dedup or outbox row."""
    log = _log_by_event(history)
    for key, calls in _calls_by_event(history).items():
        if all(call.outcome in (Outcome.REFUSED, Outcome.NO_OP) for call in calls):
            if key in log:
                yield f"{key[1]}: only refused ({calls[-1].reason}), yet in the log"
            if key in history.tables.dedups:
                yield f"{key[1]}: only refused ({calls[-1].reason}), yet it has a dedup row"


def one_effect_per_event_id(history: History) -> Iterator[str]:
    """C2-7, E-3: dedup rows are the log rows and the absorbed progress; one id never succeeds with two contents."""
    log = _log_by_event(history)
    absorbed = {key for key, row in history.tables.dedups.items() if row.result.coalesced}
    for key in history.tables.dedups.keys() - log.keys() - absorbed:
        yield f"{key[1]}: a dedup row without an event that is not absorbed"
    for key in log.keys() - history.tables.dedups.keys():
        yield f"{key[1]}: an event without a dedup row"
    for key in absorbed & log.keys():
        yield f"{key[1]}: absorbed, yet it has an event of its own"
    for key, rows in log.items():
        if len(rows) > 1:
            yield f"{key[1]}: {len(rows)} events under one id"
        dedup = history.tables.dedups.get(key)
        answered = answered_version(history, rows[0])
        if dedup and (dedup.digest, dedup.result.task_version) != (rows[0].digest, answered):
            yield f"{key[1]}: event and dedup row differ in digest or version"
    yield from _one_content(history)


def _one_content(history: History) -> Iterator[str]:
    for key, calls in _calls_by_event(history).items():
        contents = {call.content for call in calls if call.outcome in ACKNOWLEDGED}
        if len(contents) > 1:
            yield f"{key[1]}: acknowledged with {len(contents)} different contents"


def broken_stream_waits(history: History) -> Iterator[str]:
    """E-10: after a retryable failure, later items of that execution in the call are not evaluated; order is kept."""
    streams: defaultdict[tuple[int, bytes], list[Invocation]] = defaultdict(list)
    for call in history.invocations:
        streams[call.call, call.stream].append(call)
    for items in streams.values():
        broken: Invocation | None = None
        last_version = 0
        for item in sorted(items, key=lambda one: one.number):
            if broken is not None and item.reason not in BREAKING | UNRESOLVED:
                yield f"{_name(item)}: evaluated after {broken.event_id} of its stream got {broken.reason}"
            if item.reason in BREAKING:
                broken = broken or item
            if item.outcome is Outcome.OK and item.version is not None and not item.duplicate:
                if item.version <= last_version:
                    yield f"{_name(item)}: version {item.version} after {last_version} in one call"
                last_version = item.version


def one_execution_per_attempt(history: History) -> Iterator[str]:
    """ID-3, R-4: every activation of the same (task, run, step, attempt) gave the execution that its row holds."""
    for call in history.invocations:
        if call.outcome is not Outcome.OK or call.coordinates is None:
            continue
        step = history.tables.steps.get(call.coordinates)
        stored = step.terms.execution_id if step and step.terms else None
        if stored != call.execution_id:
            yield f"{_name(call)}: an activation gave {call.execution_id!r}, its row holds {stored!r}"


def one_task_per_client_key(history: History) -> Iterator[str]:
    """ID-3: every acknowledged creation is there, and one client key made one task."""
    by_key: defaultdict[tuple[bytes, str], set[TaskId]] = defaultdict(set)
    for task_id, task in history.tables.tasks.items():
        by_key[task.envelope.workflow_id, task.envelope.client_task_key].add(task_id)
    for creation in history.creations:
        stored = by_key[creation.workflow_id, creation.client_task_key]
        if stored != {creation.task_id}:
            ids = [one.hex() for one in stored]
            yield f"{creation.client_task_key}: created as {creation.task_id.hex()}, stored as {ids}"


def every_event_is_answered(history: History) -> Iterator[str]:
    """C2-12: after the faults, the last send of every event has an answer."""
    if not history.converged:
        yield "the run did not converge"
    yield from history.notes
    for calls in _calls_by_event(history).values():
        last = max(calls, key=lambda call: call.number)
        answered = [call for call in calls if call.outcome is not Outcome.UNKNOWN]
        if last.outcome is Outcome.UNKNOWN and not any(call.invoked_at >= last.invoked_at for call in answered):
            yield f"{_name(last)}: never answered ({last.reason or 'no reply'})"


def answered_version(history: History, row: EventRecord) -> int:
    """The version that the writer of an event is told: of a rerun, that of the last step which it skips (X-3)."""
    version = row.task_version
    if row.event_type is EventType.TASK_RERUN:
        while is_skip(history.tables.events.get((row.task_id, version + 1))):
            version += 1
    return version


def is_skip(row: EventRecord | None) -> bool:
    """Whether there is such a row, and a step was skipped by it."""
    return row is not None and row.event_type is EventType.STEP_SKIPPED


def _may_be_anothers(call: Invocation) -> bool:
    """Whether another command may have made the attempt that this one was answered with (ID-3)."""
    return call.coordinates is not None and call.duplicate


def _key(call: Invocation) -> EventKey:
    return (call.task_id, call.event_id)


def _name(call: Invocation) -> str:
    return f"{call.client} {call.task_id.hex()[-6:]}/{call.event_id} (call {call.call})"


def _log_by_event(history: History) -> Mapping[EventKey, list[EventRecord]]:
    log: defaultdict[EventKey, list[EventRecord]] = defaultdict(list)
    for row in history.tables.events.values():
        log[row.task_id, row.event_id].append(row)
    return dict(log)


def _calls_by_event(history: History) -> Mapping[EventKey, list[Invocation]]:
    calls: defaultdict[EventKey, list[Invocation]] = defaultdict(list)
    for call in history.invocations:
        calls[_key(call)].append(call)
    return calls
