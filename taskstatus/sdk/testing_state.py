"""What the fake service knows: the rules of ``taskstatus.v1`` that a worker or coordinator can run into, in memory.

Not the service: no tenants, grants, projections or size limits. The bearer token *is* the producer's id.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Final, NoReturn

from taskstatus_pb.v1 import common_pb2, query_service_pb2, register_service_pb2, report_service_pb2

Event = report_service_pb2.ReportEventRequest
Answer = report_service_pb2.ReportEventResponse

TARGETS: Final = {
    common_pb2.STEP_STARTED: "RUNNING",
    common_pb2.STEP_PROGRESS: "RUNNING",
    common_pb2.STEP_COMPLETED: "SUCCEEDED",
    common_pb2.STEP_FAILED: "FAILED",
    common_pb2.STEP_CANCELLED: "CANCELLED",
    common_pb2.TASK_STARTED: "RUNNING",
    common_pb2.TASK_COMPLETED: "SUCCEEDED",
    common_pb2.TASK_FAILED: "FAILED",
    common_pb2.TASK_CANCELLED: "CANCELLED",
    common_pb2.TASK_TIMED_OUT: "TIMED_OUT",
}
TERMINAL: Final = frozenset({"SUCCEEDED", "FAILED", "CANCELLED", "TIMED_OUT"})
FIRST_RUN: Final = 1


class FakeRefusal(Exception):  # noqa: N818 - a refusal of the service under test, told over gRPC
    """A refused call, by the name of its reason."""

    def __init__(self, reason: str, message: str, violations: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.violations = violations or {}


def refuse(reason: str, message: str) -> NoReturn:
    """Raise the refusal."""
    raise FakeRefusal(reason, message)


@dataclass
class FakeAttempt:
    """One attempt of one step."""

    spec: register_service_pb2.StepSpec
    number: int
    execution_id: str = ""
    input_ref: str = ""
    lifecycle: str = "PENDING"
    superseded: bool = False
    revoked: bool = False
    source_seq: int = 0
    heartbeat_interval_seconds: int = 0
    """What its worker is told; 0: not to beat. May be changed at any time."""
    heartbeat_seq: int = 0
    """Of the last accepted beat."""
    token_serial: int = 1

    @property
    def handle(self) -> str:
        """The only handle that is accepted."""
        return f"exh_{self.execution_id}"


@dataclass
class FakeTask:
    """One task; ``events`` are the committed ones as they were reported."""

    task_id: str
    workflow_id: str
    coordinator: str
    spec: register_service_pb2.TaskSpec
    version: int = 1
    lifecycle: str = "PENDING"
    cancel_requested: bool = False
    steps: dict[str, list[FakeAttempt]] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    timeline: list[query_service_pb2.TimelineEvent] = field(default_factory=list)
    task_seqs: dict[str, int] = field(default_factory=dict)

    def current(self, step_id: str) -> FakeAttempt:
        """The latest attempt of a step."""
        if step_id not in self.steps:
            refuse("STEP_NOT_FOUND", "the task has no such step")
        return self.steps[step_id][-1]


class FakeState:
    """Tasks and workflows, changed one call at a time."""

    def __init__(self) -> None:
        self.heartbeat_interval_seconds = 0
        """For executions activated from now on."""
        self.tasks: dict[str, FakeTask] = {}
        self._workflows: dict[str, tuple[str, bytes]] = {}
        self._coordinators: dict[str, str] = {}
        self._executions: dict[str, tuple[FakeTask, FakeAttempt]] = {}
        self._answers: dict[tuple[str, str], tuple[bytes, Answer]] = {}
        self._ids = itertools.count(1)

    def new_id(self, prefix: str) -> str:
        """An id that is easy to read in a failed test."""
        return f"{prefix}_{next(self._ids):032x}"

    def create_workflow(
        self, producer: str, request: register_service_pb2.CreateWorkflowRequest
    ) -> tuple[str, list[FakeTask], bool]:
        """The workflow of the key, its tasks, and whether it is new."""
        key, content = request.client_workflow_key, _content_of(request)
        if key in self._workflows:
            workflow_id, known = self._workflows[key]
            if known != content:
                refuse("IDEMPOTENCY_CONFLICT", "the key exists with other content")
            return workflow_id, [task for task in self.tasks.values() if task.workflow_id == workflow_id], False
        workflow_id = self.new_id("wf")
        self._workflows[key] = (workflow_id, content)
        self._coordinators[workflow_id] = request.coordinator_producer or producer
        return workflow_id, [self._new_task(workflow_id, spec) for spec in request.initial_tasks], True

    def create_task(self, request: register_service_pb2.CreateTaskRequest) -> tuple[FakeTask, bool]:
        """The task of the key, and whether it is new."""
        if request.workflow_id not in self._coordinators:
            refuse("WORKFLOW_NOT_FOUND", "no such workflow")
        for task in self.tasks.values():
            same_key = task.spec.client_task_key == request.task.client_task_key
            if task.workflow_id == request.workflow_id and same_key:
                return task, False
        return self._new_task(request.workflow_id, request.task), True

    def _new_task(self, workflow_id: str, spec: register_service_pb2.TaskSpec) -> FakeTask:
        coordinator = spec.coordinator_producer or self._coordinators[workflow_id]
        task = FakeTask(self.new_id("task"), workflow_id, coordinator, spec)
        task.steps = {step.step_id: [FakeAttempt(step, 1)] for step in spec.known_steps}
        self.tasks[task.task_id] = task
        return task

    def activate(
        self, producer: str, task_id: str, step_id: str, number: int, input_ref: str
    ) -> tuple[FakeTask, FakeAttempt, bool]:
        """An attempt with its execution, and whether it is new."""
        task = self.task(task_id)
        if producer != task.coordinator:
            refuse("PERMISSION_DENIED", "only the task's recorded coordinator may do this")
        last = task.current(step_id)
        if number == last.number and last.execution_id:
            return task, last, False
        if task.lifecycle in TERMINAL:
            refuse("TERMINAL", "the task has ended")
        if number < last.number:
            refuse("STALE_ATTEMPT", "a later attempt exists")
        if number > last.number + 1 or (number == last.number + 1 and last.lifecycle == "SUCCEEDED"):
            refuse("TRANSITION_NOT_ALLOWED", "not the next attempt")
        attempt = last if number == last.number else self._supersede(task, last)
        attempt.execution_id, attempt.input_ref = self.new_id("exec"), input_ref or task.spec.input_ref
        attempt.heartbeat_interval_seconds = self.heartbeat_interval_seconds
        self._executions[attempt.execution_id] = (task, attempt)
        return task, attempt, True

    def _supersede(self, task: FakeTask, last: FakeAttempt) -> FakeAttempt:
        last.superseded = True
        attempt = FakeAttempt(last.spec, last.number + 1)
        task.steps[last.spec.step_id].append(attempt)
        task.version += 1
        return attempt

    def register(
        self, producer: str, request: register_service_pb2.RegisterExecutionRequest
    ) -> tuple[FakeTask, FakeAttempt, bool]:
        """A dynamic step's execution, and whether it is new."""
        task, step_id = self.task(request.task_id), f"dyn_{request.client_step_key}"
        if step_id not in task.steps:
            spec = register_service_pb2.StepSpec(
                step_id=step_id, operation_code=request.operation_code, expected_producer=request.producer_id
            )
            task.steps[step_id] = [FakeAttempt(spec, 1)]
            task.version += 1
        return self.activate(producer, task.task_id, step_id, request.step_attempt, request.input_ref)

    def task(self, task_id: str) -> FakeTask:
        """A known task."""
        return self.tasks.get(task_id) or refuse("TASK_NOT_FOUND", "no such task")

    def execution(self, producer: str, token: str, handle: str) -> tuple[FakeTask, FakeAttempt]:
        """The execution behind a token (``token-<execution>-<serial>``) or a handle."""
        name = handle.removeprefix("exh_") if handle else token.removeprefix("token-").rpartition("-")[0]
        if name not in self._executions:
            refuse("UNAUTHENTICATED", "an execution token or handle is required")
        task, attempt = self._executions[name]
        if attempt.spec.expected_producer != producer:
            refuse("PRODUCER_MISMATCH", "the credential is bound to another producer")
        return task, attempt

    def live_execution(self, producer: str, token: str, handle: str) -> tuple[FakeTask, FakeAttempt]:
        """The same, when it is still current."""
        task, attempt = self.execution(producer, token, handle)
        if attempt.revoked:
            refuse("TOKEN_REVOKED", "the execution's credentials were revoked")
        if attempt.superseded:
            refuse("STALE_ATTEMPT", "a later attempt is current")
        if attempt.lifecycle in TERMINAL or task.lifecycle in TERMINAL:
            refuse("TERMINAL", "the execution has ended")
        return task, attempt

    def report(self, producer: str, event: Event) -> Answer:
        """Judge one event in the order of the service's own guards."""
        task, attempt = self._subject(producer, event)
        content = _content_of(event)
        seen = self._answers.get((task.task_id, event.event_id))
        if seen is not None:
            if seen[0] != content:
                refuse("IDEMPOTENCY_CONFLICT", "this event id was committed with other content")
            return _changed(seen[1], duplicate=True)
        if attempt is not None and attempt.revoked:
            refuse("TOKEN_REVOKED", "the execution's credentials were revoked")
        answer = self._late(task, attempt, producer, event) or self._commit(task, attempt, producer, event)
        if answer.accepted and answer.changed:
            self._answers[task.task_id, event.event_id] = (content, answer)
        return answer

    def _subject(self, producer: str, event: Event) -> tuple[FakeTask, FakeAttempt | None]:
        if event.execution_token or event.execution_handle:
            return self.execution(producer, event.execution_token, event.execution_handle)
        task = self.task(event.task_id)
        if producer != task.coordinator:
            refuse("EVENT_TYPE_NOT_ALLOWED", "this caller may not report this here")
        return task, None

    def _late(self, task: FakeTask, attempt: FakeAttempt | None, producer: str, event: Event) -> Answer | None:
        if attempt is not None and attempt.superseded:
            return _answer(task, accepted=False, stale=True, reason=common_pb2.STALE_ATTEMPT)
        last = attempt.source_seq if attempt else task.task_seqs.get(producer, 0)
        if event.source_seq <= last:
            return _answer(task, accepted=False, stale=True, reason=common_pb2.STALE_SEQUENCE)
        state, target = attempt.lifecycle if attempt else task.lifecycle, TARGETS[event.event_type]
        if state == target and event.event_type != common_pb2.STEP_PROGRESS:
            return _answer(task, accepted=True)
        if state in TERMINAL or task.lifecycle in TERMINAL:
            return _answer(task, accepted=False, reason=common_pb2.TERMINAL)
        if event.event_type == common_pb2.STEP_PROGRESS and state != "RUNNING":
            refuse("TRANSITION_NOT_ALLOWED", f"progress is not allowed while {state}")
        return None

    def _commit(self, task: FakeTask, attempt: FakeAttempt | None, producer: str, event: Event) -> Answer:
        if attempt is None:
            task.task_seqs[producer] = event.source_seq
            task.lifecycle = TARGETS[event.event_type]
        else:
            attempt.source_seq, attempt.lifecycle = event.source_seq, TARGETS[event.event_type]
            task.lifecycle = "RUNNING"
        task.version += 1
        task.events.append(_copy(event))
        task.timeline.append(_timeline_event(task, attempt, producer, event))
        return _answer(task, accepted=True, changed=True)


def _timeline_event(
    task: FakeTask, attempt: FakeAttempt | None, producer: str, event: Event
) -> query_service_pb2.TimelineEvent:
    return query_service_pb2.TimelineEvent(
        event_id=event.event_id,
        task_version=task.version,
        event_type=event.event_type,
        task_attempt=FIRST_RUN,
        step_id=attempt.spec.step_id if attempt else "",
        step_attempt=attempt.number if attempt else 0,
        execution_id=attempt.execution_id if attempt else "",
        producer_id=producer,
        source_seq=event.source_seq,
    )


def _answer(
    task: FakeTask,
    *,
    accepted: bool,
    changed: bool = False,
    stale: bool = False,
    reason: common_pb2.Reason.ValueType = common_pb2.REASON_UNSPECIFIED,
) -> Answer:
    return Answer(
        accepted=accepted,
        changed=changed,
        stale=stale,
        reason=reason,
        task_id=task.task_id,
        task_version=task.version,
        lifecycle_status=common_pb2.LifecycleStatus.Value(task.lifecycle),
        business_status=task.lifecycle,
        cancel_requested=task.cancel_requested,
    )


def _changed(answer: Answer, *, duplicate: bool) -> Answer:
    copy = Answer()
    copy.CopyFrom(answer)
    copy.duplicate = duplicate
    return copy


def _copy(event: Event) -> Event:
    copy = Event()
    copy.CopyFrom(event)
    return copy


def _content_of(request: Event | register_service_pb2.CreateWorkflowRequest) -> bytes:
    """What must be the same under the same id: everything but the id of the command and the credentials."""
    content = type(request)()
    content.CopyFrom(request)  # type: ignore[arg-type]
    for name in ("execution_token", "execution_handle", "command_id"):
        if name in content.DESCRIPTOR.fields_by_name:
            content.ClearField(name)  # type: ignore[arg-type]
    return content.SerializeToString(deterministic=True)
