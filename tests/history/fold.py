"""Replay of a task's event log through the pure domain: what its rows must be (pitfalls.md C2, *fold equality*).

What is frozen at creation and activation (envelope, definitions, terms) is taken from the rows; everything that events
change begins at its first value and is evolved from the log alone. The guards do not run: whether an event should have
been accepted is for other validators; here an accepted one must explain the state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from google.protobuf.message import DecodeError
from taskstatus_pb.storage.v1 import canonical_pb2

from taskstatus.domain.activation import ActivationRows, DefinitionOf, activate
from taskstatus.domain.commands import ActivateAttempt, Caller, DynamicStep, EventContent, EventData, ReportedError
from taskstatus.domain.definitions import generic_profile
from taskstatus.domain.dynamic import DynamicLimits
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.events import EventType
from taskstatus.domain.evolve import (
    Recorded,
    end_with_task,
    evolve_step,
    evolve_task,
    evolve_task_by_step,
    with_sequence,
    with_step_counted,
    with_version,
)
from taskstatus.domain.health_changes import EVENT_OF_SIGN, HealthSign, step_after
from taskstatus.domain.ids import TaskId
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.notifications import OutboxTools
from taskstatus.domain.progress import Progress
from taskstatus.domain.records import EventRecord, RunRecord
from taskstatus.domain.state import DurationSource, StepState, TaskFailure, TaskState
from tests.history.fold_commands import COMMANDS, commanded, rerun, revoked, with_first_labels, with_skip
from tests.history.model import AttemptKey, FinalTables, Fold, History, StepStatus

_EPOCH = datetime(1970, 1, 1)
_ACTIVATIONS = frozenset({EventType.STEP_ATTEMPT_ACTIVATED, EventType.EXECUTION_REGISTERED})
_HEALTH = frozenset(EVENT_OF_SIGN.values())
_NO_OUTBOX = OutboxTools(new_id=lambda _: bytes(16), to_json=lambda _: b"")
_NO_LIMITS = DynamicLimits(*[2**31] * 4)
"""Whether a registration was within the task's bounds is for other rules."""


@dataclass(slots=True)
class Replay:
    """The state after the events so far."""

    task: TaskState
    steps: dict[AttemptKey, StepState]
    stored: dict[AttemptKey, StepState]
    """The rows, for what they freeze."""
    failures: Mapping[int, TaskFailure | None]
    """What the rows say of each run's failure, for what a correction does not tell."""
    ends: dict[int, TaskState] = field(default_factory=dict)
    seen: dict[str, EventRecord] = field(default_factory=dict)
    """The events so far, by their ids."""

    def apply(self, record: EventRecord) -> None:
        """Go on by one event. Raises RefusedError or KeyError when the state does not allow it."""
        if record.event_type in _ACTIVATIONS:
            self._activate(record)
        elif record.event_type in _HEALTH:
            self._change_health(record)
        elif record.event_type in COMMANDS:
            self._command(record)
        else:
            self._report(record)
        self.seen[record.event_id] = record

    def _command(self, record: EventRecord) -> None:
        match record.event_type:
            case EventType.TASK_RERUN:
                self.ends[self.task.attempt] = self.task
                self.task, steps = rerun(self.task, record, self._of_run(self.task.attempt), self.stored, self.seen)
                self._put(steps)
            case EventType.STEP_SKIPPED:
                self.task = with_skip(self.task, self.steps[_key(record)])
            case EventType.EXECUTION_REVOKED:
                self.task = with_version(self.task, record.committed_at)
                self.steps[_key(record)] = revoked(self.steps[_key(record)])
            case _:
                self.task = commanded(self.task, record, self.failures.get(self.task.attempt))

    def _of_run(self, run: int) -> list[StepState]:
        return [step for step in self.steps.values() if step.task_attempt == run]

    def _change_health(self, record: EventRecord) -> None:
        key = _key(record)
        before = self.steps[key]
        self.steps[key] = step_after(before, HealthSign(record.reason))
        self.task = with_step_counted(with_version(self.task, record.committed_at), before, self.steps[key])

    def _report(self, record: EventRecord) -> None:
        content = content_of(record)
        is_own = bool(execution_of(record.canonical))
        task = with_version(self.task, record.committed_at)
        event = Recorded(content, task.committed_at, own_sequence=is_own)
        if not is_own:
            task = with_sequence(task, record.producer_id, record.source_seq)
        if not record.step_id:
            self._report_task(task, event)
            return
        key = _key(record)
        before = self.steps[key]
        after = evolve_step(before, event, before.version + 1)
        self.steps[key] = after
        self.task = evolve_task_by_step(task, before, after, event)

    def _report_task(self, task: TaskState, event: Recorded) -> None:
        self.task = evolve_task(task, event)
        if self.task.lifecycle.is_terminal:
            self._put(end_with_task(step, self.task.committed_at) for step in self._of_run(self.task.attempt))

    def _activate(self, record: EventRecord) -> None:
        row = self.stored[_key(record)]
        assert row.terms is not None
        all_attempts = [step for step in self.steps.values() if step.definition.step_id == record.step_id]
        attempts = sorted(
            (step for step in all_attempts if step.task_attempt == self.task.attempt), key=lambda step: step.attempt
        )
        parent_id = row.definition.parent_execution_id
        parents = [step for step in self.steps.values() if step.terms and step.terms.execution_id == parent_id]
        envelope = self.task.envelope
        rows = ActivationRows(
            self.task,
            attempts,
            parents[0] if parents else None,
            None,
            record.committed_at,
            RunRecord(envelope.task_id, envelope.bucket, self.task.attempt, "", 0, envelope.created_at),
            max((step.version for step in all_attempts), default=0),
        )
        done = activate(
            _activation_command(self.task, row, record),
            rows,
            row.terms.execution_id,
            _NO_OUTBOX,
            _bound_definition(row),
            _NO_LIMITS,
        )
        self.task = done.task
        self._put(done.changes.steps)
        self._put(done.changes.new_steps)

    def _put(self, steps: Iterable[StepState]) -> None:
        self.steps |= {step.key[1:]: step for step in steps}


def fold_of(history: History, task_id: TaskId) -> Fold:
    """The replay of a task's whole log, made once."""
    if task_id not in history.folds:
        history.folds[task_id] = _fold(history.tables, task_id)
    return history.folds[task_id]


def _fold(tables: FinalTables, task_id: TaskId) -> Fold:
    replay = begin(tables.tasks[task_id], tables.steps_of(task_id), tables.log_of(task_id))
    replay.failures = {
        run: view.outcome.failure for (owner, run), view in tables.runs.items() if owner == task_id and view.outcome
    }
    shown: dict[int, tuple[str, list[StepStatus]]] = {}
    contradictions: list[str] = []
    is_complete = True
    for record in tables.log_of(task_id):
        try:
            if record.task_version > 1:
                replay.apply(record)
        except (RefusedError, KeyError, AssertionError, DecodeError) as error:
            contradictions.append(f"version {record.task_version} ({record.event_type}) cannot be replayed: {error!r}")
            is_complete = False
            break
        contradictions.extend(_contradiction(replay, record))
        shown[record.task_version] = _as_shown(replay)
    return Fold(replay.task, replay.steps, shown, replay.ends, tuple(contradictions), is_complete)


def _contradiction(replay: Replay, record: EventRecord) -> Iterator[str]:
    task, step = replay.task, replay.steps.get(_key(record))
    folded = (task.version, task.lifecycle, task.business_status, task.health, step.version if step else 0)
    recorded = (record.task_version, record.lifecycle, record.business_status, record.health, record.step_version)
    if folded != recorded:
        yield f"version {record.task_version} recorded {recorded}, the fold says {folded}"


def _as_shown(replay: Replay) -> tuple[str, list[StepStatus]]:
    steps = [
        (step_id, attempt, str(step.version), step.lifecycle.value)
        for (run, step_id, attempt), step in replay.steps.items()
        if run == replay.task.attempt
    ]
    return replay.task.lifecycle.value, sorted(steps)


def begin(task: TaskState, steps: Sequence[StepState], log: Sequence[EventRecord]) -> Replay:
    """The task as its TASK_CREATED left it, with the manifest steps that its rows show."""
    manifest = [step for step in steps if step.key[1] == step.attempt == 1 and not step.definition.dynamic]
    first = {step.key[1:]: _first_state(step) for step in manifest}
    created_at = task.envelope.created_at
    start = replace(
        task,
        envelope=with_first_labels(task.envelope, log),
        attempt=1,
        version=1,
        lifecycle=Lifecycle.PENDING,
        business_status="PENDING",
        cancel_requested=False,
        progress_points=0,
        open_steps=len(first),
        stale_steps=0,
        degraded_steps=0,
        open_dynamic=0,
        producer_seqs={},
        failure=None,
        started_at=None,
        finished_at=None,
        duration_ms=None,
        duration_source=None,
        committed_at=created_at,
    )
    return Replay(start, first, {step.key[1:]: step for step in steps}, {})


def _key(record: EventRecord) -> AttemptKey:
    return record.task_attempt, record.step_id, record.step_attempt


def _first_state(step: StepState) -> StepState:
    return StepState(
        task_id=step.task_id,
        bucket=step.bucket,
        task_attempt=step.task_attempt,
        attempt=1,
        definition=step.definition,
        terms=step.terms,
        created_at=step.created_at,
        version=1,
        business_status="PENDING",
    )


def _activation_command(task: TaskState, row: StepState, record: EventRecord) -> ActivateAttempt:
    definition, terms, envelope = row.definition, row.terms, task.envelope
    assert terms is not None
    dynamic = DynamicStep(
        definition.parent_execution_id,
        definition.operation_code,
        definition.expected_producer,
        definition.display_name,
        definition.failure_policy,
        definition.max_run_seconds,
    )
    return ActivateAttempt(
        # A parent may have registered it with its own credential; here the coordinator stands for any caller.
        caller=Caller(envelope.tenant_id, envelope.authority_scope, envelope.coordinator_producer),
        command_id=record.event_id,
        task_id=row.task_id,
        task_attempt=row.task_attempt,
        step_id=definition.step_id,
        step_attempt=row.attempt,
        input_ref=terms.input_ref,
        heartbeat_interval_seconds=terms.heartbeat_interval_seconds,
        heartbeat_timeout_seconds=terms.heartbeat_timeout_seconds,
        dynamic=dynamic if definition.dynamic else None,
        canonical=record.canonical,
        digest=terms.activation_digest,
    )


def _bound_definition(row: StepState) -> DefinitionOf:
    """A definition of the version that the row froze: only its number and task type matter to a replay."""
    terms = row.terms
    assert terms is not None
    version, task_type = terms.definition_version, terms.definition_task_type
    return lambda _, code: replace(generic_profile(code), version=version, task_type=task_type)


def execution_of(canonical: bytes) -> bytes:
    """The execution that reported the event; empty for the coordinator's."""
    return canonical_pb2.CanonicalEvent.FromString(canonical).execution_id


def content_of(record: EventRecord) -> EventContent:
    """The content that the canonical bytes, version 1, were made from (E-3), with what of its data may be shown."""
    event = canonical_pb2.CanonicalEvent.FromString(record.canonical)
    data = EventData(event.data_schema, event.data_value, shown=record.shown_data) if event.data_schema else None
    return EventContent(
        event_id=event.event_id,
        event_type=EventType(event.event_type),
        source_seq=event.source_seq,
        business_status=event.business_status,
        occurred_at=_EPOCH + timedelta(microseconds=event.occurred_at_us) if event.occurred_at_us else None,
        duration_ms=event.duration_ms if event.HasField("duration_ms") else None,
        duration_source=DurationSource(event.duration_source) if event.duration_source else None,
        progress=_progress(event),
        progress_seq=event.progress_seq,
        phase_code=event.phase_code,
        phase_label=event.phase_label,
        data=data,
        error=_error(event),
        failed_step_id=event.failed_step_id,
        reason=event.reason,
    )


def _progress(event: canonical_pb2.CanonicalEvent) -> Progress | None:
    if not event.has_progress:
        return None
    return Progress(event.progress_current, event.progress_total, event.progress_unit)


def _error(event: canonical_pb2.CanonicalEvent) -> ReportedError | None:
    if not event.has_error:
        return None
    retryable = event.error_retryable if event.HasField("error_retryable") else None
    return ReportedError(event.error_category, event.error_code, event.error_message, retryable, event.diagnostics_ref)
