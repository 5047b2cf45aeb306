"""What the fake service knows, and how work comes into being: in memory, changed one call at a time.

Not the service: no tenants, grants, definitions, limits of registration or of size. The bearer token *is* the
producer's id.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TypeVar

from google.protobuf.message import Message
from taskstatus_pb.v1 import common_pb2, query_service_pb2, register_service_pb2

from taskstatus.sdk.testing.model import (
    TERMINAL,
    WAITING,
    FakeAttempt,
    FakeTask,
    FakeWorkflow,
    Held,
    content_of,
    refuse,
)
from taskstatus.sdk.testing.workflows import settle

_Copied = TypeVar("_Copied", bound=Message)
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
Ref = tuple[str, str]


class FakeState:
    """Workflows, tasks and executions, and every id that was used for a fact."""

    def __init__(self) -> None:
        self.heartbeat_interval_seconds = 0
        """For executions activated from now on, where the coordinator names none."""
        self.workflows: dict[str, FakeWorkflow] = {}
        self.tasks: dict[str, FakeTask] = {}
        self.refs: dict[Ref, FakeTask] = {}
        """The task that each number of another system names."""
        self.first_results: dict[tuple[str, str], tuple[bytes, Message]] = {}
        """By task (or workflow) and event or command id: the content, and the answer."""
        self.traceparent = ""
        """Of the call that is being answered."""
        self._executions: dict[str, tuple[FakeTask, FakeAttempt]] = {}
        self._ids = itertools.count(1)

    def new_id(self, prefix: str) -> str:
        """An id that is easy to read in a failed test."""
        return f"{prefix}_{next(self._ids):032x}"

    def now(self) -> datetime:
        """The service's clock."""
        return datetime.now(UTC)

    def task(self, task_id: str) -> FakeTask:
        """A known task."""
        return self.tasks.get(task_id) or refuse("TASK_NOT_FOUND", "no such task")

    def workflow(self, workflow_id: str) -> FakeWorkflow:
        """A known workflow."""
        return self.workflows.get(workflow_id) or refuse("WORKFLOW_NOT_FOUND", "no such workflow")

    def tasks_of(self, workflow_id: str) -> list[FakeTask]:
        """The tasks of a workflow, the oldest first."""
        return [task for task in self.tasks.values() if task.workflow_id == workflow_id]

    def seen(self, owner_id: str, fact_id: str, content: bytes) -> Message | None:
        """The first answer to a fact of this id; other content is refused."""
        known = self.first_results.get((owner_id, fact_id))
        if known is None:
            return None
        if known[0] != content:
            refuse("IDEMPOTENCY_CONFLICT", "this id was used for something else")
        return known[1]

    # ---- creation

    def create_workflow(
        self, producer: str, request: register_service_pb2.CreateWorkflowRequest
    ) -> tuple[FakeWorkflow, list[FakeTask], bool]:
        """The workflow of the key, its first tasks, and whether it is new."""
        key, content = request.client_workflow_key, content_of(request)
        for workflow in self.workflows.values():
            if workflow.request.client_workflow_key == key:
                if workflow.content != content:
                    refuse("IDEMPOTENCY_CONFLICT", "the key exists with other content")
                keys = [spec.client_task_key for spec in request.initial_tasks]
                tasks = {task.spec.client_task_key: task for task in self.tasks_of(workflow.workflow_id)}
                return workflow, [tasks[key] for key in keys], False
        self._check_relations(request.initial_tasks)
        at = self.now()
        workflow = FakeWorkflow(
            self.new_id("wf"),
            request=_copy(request),
            content=content,
            coordinator=request.coordinator_producer or producer,
            title=request.title,
            created_at=at,
            updated_at=at,
        )
        self.workflows[workflow.workflow_id] = workflow
        tasks_made = [self._new_task(workflow, spec, producer, request.command_id) for spec in request.initial_tasks]
        settle(workflow, self.tasks_of(workflow.workflow_id), at)
        workflow.version = 1
        return workflow, tasks_made, True

    def create_task(self, producer: str, request: register_service_pb2.CreateTaskRequest) -> tuple[FakeTask, bool]:
        """The task of the key, and whether it is new."""
        workflow = self.workflow(request.workflow_id)
        for task in self.tasks_of(request.workflow_id):
            if task.spec.client_task_key == request.task.client_task_key:
                if task.content != content_of(request.task):
                    refuse("IDEMPOTENCY_CONFLICT", "the key exists with other content")
                return task, False
        self._check_relations([request.task])
        task = self._new_task(workflow, request.task, producer, request.command_id)
        self.settle(task)
        return task, True

    def _check_relations(self, specs: Iterable[register_service_pb2.TaskSpec]) -> None:
        for spec in specs:
            if spec.parent_task_id:
                self.task(spec.parent_task_id)
            for ref in spec.external_refs:
                if (ref.ref_type, ref.ref_value) in self.refs:
                    refuse("IDEMPOTENCY_CONFLICT", "this number names another task")

    def _new_task(
        self, workflow: FakeWorkflow, spec: register_service_pb2.TaskSpec, producer: str, command_id: str
    ) -> FakeTask:
        at = self.now()
        task = FakeTask(
            self.new_id("task"),
            workflow.workflow_id,
            coordinator=spec.coordinator_producer or workflow.coordinator,
            spec=_copy(spec),
            content=content_of(spec),
            created_at=at,
            committed_at=at,
            run_created_at=at,
        )
        task.steps = {step.step_id: [FakeAttempt(_with_policy(step), 1)] for step in spec.known_steps}
        self.tasks[task.task_id] = task
        for ref in spec.external_refs:
            self.attach(task, (ref.ref_type, ref.ref_value))
        self.note(task, "TASK_CREATED", command_id, producer)
        return task

    def attach(self, task: FakeTask, ref: Ref) -> None:
        """Let a number name the task."""
        self.refs[ref] = task
        task.external_refs.append(ref)

    # ---- versions

    def record(
        self,
        task: FakeTask,
        event_type: str,
        event_id: str,
        producer: str,
        attempt: FakeAttempt | None = None,
        reason: str = "",
    ) -> query_service_pb2.TimelineEvent:
        """One version more, with its event; what it changes has been changed already."""
        task.version += 1
        task.committed_at = self.now()
        event = self.note(task, event_type, event_id, producer, attempt, reason)
        self.settle(task)
        return event

    def note(
        self,
        task: FakeTask,
        event_type: str,
        event_id: str,
        producer: str,
        attempt: FakeAttempt | None = None,
        reason: str = "",
    ) -> query_service_pb2.TimelineEvent:
        """The event of the task's present version."""
        trace = _TRACEPARENT.fullmatch(self.traceparent)
        event = query_service_pb2.TimelineEvent(
            event_id=event_id,
            task_version=task.version,
            event_type=common_pb2.EventType.Value(event_type),
            task_attempt=task.attempt,
            producer_id=producer,
            lifecycle_status=common_pb2.LifecycleStatus.Value(task.lifecycle),
            business_status=task.business_status,
            health=common_pb2.Health.Value(task.health),
            reason=reason,
            trace_id=trace[1] if trace else "",
            actor=f"service:{producer}",
        )
        if attempt is not None:
            event.step_id, event.step_attempt = attempt.spec.step_id, attempt.number
            event.step_version, event.execution_id = attempt.version, attempt.execution_id
            event.operation_code = attempt.spec.operation_code
        event.received_at.FromDatetime(task.committed_at)
        event.committed_at.FromDatetime(task.committed_at)
        task.timeline.append(event)
        return event

    def settle(self, task: FakeTask) -> None:
        """Let the task's workflow follow it."""
        settle(self.workflows[task.workflow_id], self.tasks_of(task.workflow_id), self.now())

    # ---- executions

    def new_execution(self, task: FakeTask, attempt: FakeAttempt) -> None:
        """Give an attempt its execution."""
        attempt.execution_id = self.new_id("exec")
        self._executions[attempt.execution_id] = (task, attempt)

    def execution_by_id(self, execution_id: str) -> tuple[FakeTask, FakeAttempt]:
        """The task and attempt of an execution."""
        return self._executions.get(execution_id) or refuse("EXECUTION_NOT_FOUND", "no such execution")

    def held(self, producer: str, token: str, handle: str) -> Held:
        """What a token or a handle names, whether or not it is over."""
        parts = (handle.removeprefix("exh_") if handle else token.removeprefix("token_")).split("-")
        if parts[0] not in self._executions or len(parts) < 2 or not parts[1].isdecimal():
            refuse("UNAUTHENTICATED", "an execution token or handle is required")
        task, attempt = self._executions[parts[0]]
        if attempt.spec.expected_producer != producer:
            refuse("PRODUCER_MISMATCH", "the credential is bound to another producer")
        return Held(task, attempt, revoked=int(parts[1]) < attempt.generation)

    def live(self, producer: str, token: str, handle: str) -> Held:
        """The same, when it is still current."""
        held = self.held(producer, token, handle)
        if held.revoked:
            refuse("TOKEN_REVOKED", "the execution's credentials were revoked")
        self.require_current(held.task, held.attempt)
        return held

    def require_current(self, task: FakeTask, attempt: FakeAttempt) -> None:
        """Refuse an execution of an earlier attempt or run, or one that has ended."""
        if is_late(task, attempt):
            refuse("STALE_ATTEMPT", "a later attempt is current")
        if attempt.lifecycle in TERMINAL or task.lifecycle in TERMINAL:
            refuse("TERMINAL", "the execution has ended")


def is_late(task: FakeTask, attempt: FakeAttempt) -> bool:
    """Whether a later attempt or run is current."""
    return attempt.superseded or attempt.task_attempt != task.attempt


def without_waiting(task: FakeTask) -> None:
    """A retry ends the waiting that a failure policy had shown."""
    if task.business_status in WAITING:
        task.business_status = task.lifecycle


def _copy(message: _Copied) -> _Copied:
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def _with_policy(step: register_service_pb2.StepSpec) -> register_service_pb2.StepSpec:
    """The step with the policy that stands for none: the fake knows no definitions."""
    settled = _copy(step)
    settled.failure_policy = step.failure_policy or common_pb2.FAIL_TASK
    return settled
