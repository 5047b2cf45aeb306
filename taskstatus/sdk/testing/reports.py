"""Events of the fake: judged in the order of the service's own guards, and what they change (E-2…E-8, L-1, L-6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from taskstatus_pb.v1 import common_pb2, query_service_pb2

from taskstatus.sdk.testing.model import TERMINAL, Answer, Event, FakeAttempt, FakeTask, content_of, refuse
from taskstatus.sdk.testing.state import FakeState, is_late

TARGETS: Final[Mapping[int, str]] = {
    common_pb2.STEP_STARTED: "RUNNING",
    common_pb2.STEP_PROGRESS: "RUNNING",
    common_pb2.STEP_COMPLETED: "SUCCEEDED",
    common_pb2.STEP_FAILED: "FAILED",
    common_pb2.STEP_CANCELLED: "CANCELLED",
    common_pb2.STEP_TIMED_OUT: "TIMED_OUT",
    common_pb2.TASK_STARTED: "RUNNING",
    common_pb2.TASK_COMPLETED: "SUCCEEDED",
    common_pb2.TASK_FAILED: "FAILED",
    common_pb2.TASK_CANCELLED: "CANCELLED",
    common_pb2.TASK_TIMED_OUT: "TIMED_OUT",
}
_BY_EXECUTIONS: Final = frozenset(
    {
        *(common_pb2.STEP_STARTED, common_pb2.STEP_PROGRESS, common_pb2.STEP_COMPLETED),
        *(common_pb2.STEP_FAILED, common_pb2.STEP_CANCELLED),
    }
)
_STEP_ENDS: Final = frozenset({common_pb2.STEP_CANCELLED, common_pb2.STEP_TIMED_OUT})
_TASK_EVENTS: Final = frozenset(TARGETS) - _BY_EXECUTIONS - _STEP_ENDS
_MOVES: Final[Mapping[str, frozenset[str]]] = {
    "PENDING": frozenset({"RUNNING"}) | TERMINAL,
    "RUNNING": TERMINAL,
    "CANCELLING": TERMINAL - {"SUCCEEDED"},
}
_GENERIC: Final[Mapping[str, str]] = {"RETRY_WAIT": "RUNNING", "WAITING_USER_ACTION": "RUNNING"}
_LIFECYCLES: Final = frozenset(common_pb2.LifecycleStatus.keys())


class _Subject:
    """One event with what it is about; ``own_sequence``: it counts in the execution's own stream (E-5)."""

    def __init__(self, state: FakeState, producer: str, event: Event) -> None:
        self.producer, self.event = producer, event
        self.own_sequence = bool(event.execution_token or event.execution_handle)
        self.revoked = False
        self.attempt: FakeAttempt | None = None
        if self.own_sequence:
            held = state.held(producer, event.execution_token, event.execution_handle)
            self.task, self.attempt, self.revoked = held.task, held.attempt, held.revoked
            return
        self.task = state.task(event.task_id)
        if event.step_id:
            attempts = self.task.steps.get(event.step_id, [])
            number = event.step_attempt or (attempts[-1].number if attempts else 0)
            self.attempt = next((attempt for attempt in attempts if attempt.number == number), None)
            if self.attempt is None:
                refuse("STEP_NOT_FOUND", "the task has no such step")

    @property
    def target(self) -> str:
        """The lifecycle that the event asks for."""
        return TARGETS[self.event.event_type]

    @property
    def last_seq(self) -> int:
        """The last number of the event's stream."""
        if self.own_sequence and self.attempt is not None:
            return self.attempt.source_seq
        return self.task.task_seqs.get(self.producer, 0)


def report(state: FakeState, producer: str, event: Event) -> Answer:
    """The answer to one event. Raises FakeRefusal."""
    subject = _Subject(state, producer, event)
    task, content = subject.task, content_of(event)
    seen = state.seen(task.task_id, event.event_id, content)
    if isinstance(seen, Answer):
        return _as_duplicate(seen)
    if subject.revoked:
        refuse("TOKEN_REVOKED", "the execution's credentials were revoked")
    answer = _late(subject) or _commit(state, subject)
    if answer.accepted and answer.changed:
        state.first_results[task.task_id, event.event_id] = (content, answer)
    return answer


def _late(subject: _Subject) -> Answer | None:
    task, attempt, event = subject.task, subject.attempt, subject.event
    if _is_of_another_run(subject) or (attempt is not None and is_late(task, attempt)):
        return _answer(subject, accepted=False, stale=True, reason=common_pb2.STALE_ATTEMPT)
    if attempt is not None and event.execution_id not in ("", attempt.execution_id):
        return _answer(subject, accepted=False, stale=True, reason=common_pb2.STALE_EXECUTION)
    _check_type(subject)
    if event.source_seq <= subject.last_seq:
        return _answer(subject, accepted=False, stale=True, reason=common_pb2.STALE_SEQUENCE)
    state = attempt.lifecycle if attempt else task.lifecycle
    if state == subject.target and event.event_type != common_pb2.STEP_PROGRESS:
        return _answer(subject, accepted=True)
    if state in TERMINAL or task.lifecycle in TERMINAL:
        return _answer(subject, accepted=False, reason=common_pb2.TERMINAL)
    _check_move(subject, state)
    return None


def _is_of_another_run(subject: _Subject) -> bool:
    return not subject.own_sequence and subject.event.task_attempt not in (0, subject.task.attempt)


def _check_type(subject: _Subject) -> None:
    """Each kind of caller has its own kinds of events (E-1)."""
    kind = subject.event.event_type
    if subject.own_sequence:
        allowed = kind in _BY_EXECUTIONS
    else:
        of_its_own = kind in _STEP_ENDS if subject.attempt is not None else kind in _TASK_EVENTS
        allowed = subject.task.may_rule(subject.producer) and of_its_own
    if not allowed:
        refuse("EVENT_TYPE_NOT_ALLOWED", "this caller may not report this here")


def _check_move(subject: _Subject, state: str) -> None:
    is_progress = subject.event.event_type == common_pb2.STEP_PROGRESS
    if (state != "RUNNING") if is_progress else (subject.target not in _MOVES[state]):
        name = common_pb2.EventType.Name(subject.event.event_type)
        refuse("TRANSITION_NOT_ALLOWED", f"{name} is not allowed while {state}")
    status = subject.event.business_status
    means = _GENERIC.get(status, status)
    if means in _LIFECYCLES and means != _task_after(subject):
        refuse("BUSINESS_STATUS_NOT_REGISTERED", "the business status means another lifecycle")


def _task_after(subject: _Subject) -> str:
    if subject.attempt is None:
        return subject.target
    starts = subject.event.event_type == common_pb2.STEP_STARTED and subject.task.lifecycle == "PENDING"
    return "RUNNING" if starts else subject.task.lifecycle


def _commit(state: FakeState, subject: _Subject) -> Answer:
    task, attempt, event = subject.task, subject.attempt, subject.event
    lifecycle = _task_after(subject)
    if attempt is not None and subject.own_sequence:
        attempt.source_seq = event.source_seq
    else:
        task.task_seqs[subject.producer] = event.source_seq
    if attempt is not None:
        _change_step(state, subject, attempt)
    status = event.business_status or (_policy_status(attempt, event) if lifecycle == "RUNNING" and attempt else "")
    if lifecycle != task.lifecycle:
        status = status or lifecycle
    task.lifecycle, task.business_status = lifecycle, status or task.business_status
    if lifecycle == "RUNNING":
        task.started_at = task.started_at or state.now()
    if lifecycle in TERMINAL:
        _end_task(state, task, event)
    copy = Event()
    copy.CopyFrom(event)
    task.events.append(copy)
    name = common_pb2.EventType.Name(event.event_type)
    _describe(state.record(task, name, event.event_id, subject.producer, attempt, event.reason), event)
    return _answer(subject, accepted=True, changed=True)


def _describe(noted: query_service_pb2.TimelineEvent, event: Event) -> None:
    noted.source_seq, noted.error_code = event.source_seq, event.error.code
    if event.HasField("occurred_at"):
        noted.occurred_at.CopyFrom(event.occurred_at)
    if event.HasField("duration_ms"):
        noted.duration_ms = event.duration_ms


def _change_step(state: FakeState, subject: _Subject, attempt: FakeAttempt) -> None:
    event, target = subject.event, subject.target
    attempt.lifecycle = target
    attempt.version += 1
    attempt.phase_code = event.phase_code or attempt.phase_code
    attempt.phase_label = event.phase_label or attempt.phase_label
    attempt.started_at = attempt.started_at or (state.now() if target == "RUNNING" else None)
    if event.HasField("progress"):
        attempt.progress = common_pb2.Progress()
        attempt.progress.CopyFrom(event.progress)
        if event.progress.total:
            attempt.credited = max(attempt.credited, event.progress.current / event.progress.total)
    if target in TERMINAL:
        attempt.finished_at = state.now()
        attempt.credited = 1.0 if target == "SUCCEEDED" else attempt.credited
    if event.HasField("error"):
        attempt.error = settled(event.error)
    if event.HasField("duration_ms"):
        attempt.duration_ms = event.duration_ms


def settled(error: common_pb2.EventError) -> common_pb2.EventError:
    """The error as it is shown: another attempt may help unless it says otherwise, and no diagnostics."""
    retryable = error.retryable if error.HasField("retryable") else True
    return common_pb2.EventError(category=error.category, code=error.code, message=error.message, retryable=retryable)


def _policy_status(attempt: FakeAttempt, event: Event) -> str:
    """The waiting that a failure means (L-6)."""
    if event.event_type != common_pb2.STEP_FAILED:
        return ""
    if attempt.spec.failure_policy == common_pb2.WAIT_FOR_USER:
        return "WAITING_USER_ACTION"
    may_retry = attempt.error is None or attempt.error.retryable
    return "RETRY_WAIT" if attempt.spec.failure_policy == common_pb2.RETRY_THEN_FAIL_TASK and may_retry else ""


def _end_task(state: FakeState, task: FakeTask, event: Event) -> None:
    at = state.now()
    task.finished_at = at
    task.duration_ms = event.duration_ms if event.HasField("duration_ms") else None
    for attempt in task.attempts():
        attempt.end("CANCELLED", "TASK_ENDED", at)
    if event.event_type == common_pb2.TASK_FAILED:
        error = settled(event.error)
        task.failure = query_service_pb2.TaskFailure(
            code=error.code,
            message=error.message,
            category=error.category,
            retryable=error.retryable,
            failed_step_id=event.failed_step_id,
        )


def _answer(
    subject: _Subject,
    *,
    accepted: bool,
    changed: bool = False,
    stale: bool = False,
    reason: common_pb2.Reason.ValueType = common_pb2.REASON_UNSPECIFIED,
) -> Answer:
    task, attempt = subject.task, subject.attempt
    answer = Answer(
        accepted=accepted,
        changed=changed,
        stale=stale,
        reason=reason,
        task_id=task.task_id,
        step_id=attempt.spec.step_id if attempt else "",
        operation_code=attempt.spec.operation_code if attempt else "",
        task_version=task.version,
        step_version=attempt.version if attempt else 0,
        lifecycle_status=common_pb2.LifecycleStatus.Value(task.lifecycle),
        business_status=task.business_status,
        cancel_requested=task.cancel_requested,
    )
    answer.committed_at.FromDatetime(task.committed_at)
    return answer


def _as_duplicate(first: Answer) -> Answer:
    copy = Answer()
    copy.CopyFrom(first)
    copy.duplicate = True
    return copy
