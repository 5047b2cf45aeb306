"""Commands of the fake on what exists, in the frame that the service's own share (R-6…R-8, R-11, L-1, L-7, ID-5)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Protocol, TypeVar

from google.protobuf.message import Message
from taskstatus_pb.v1 import common_pb2, task_commands_pb2, workflow_pb2

from taskstatus.sdk.testing.model import TERMINAL, FakeAttempt, FakeTask, content_of, invalid, refuse
from taskstatus.sdk.testing.state import FakeState
from taskstatus.sdk.testing.views import run_snapshot
from taskstatus.sdk.testing.workflows import settle, workflow_snapshot

MAX_EXTERNAL_REFS = 20
_M = TypeVar("_M", bound=Message)


class _Command(Protocol):
    command_id: str


class FakeCommands:
    """Each is judged in this order: exists, caller may, seen before, expected version, the state."""

    def __init__(self, state: FakeState) -> None:
        self._state = state

    def request_cancel(
        self, producer: str, request: task_commands_pb2.RequestCancelRequest
    ) -> task_commands_pb2.RequestCancelResponse:
        """CANCELLING, until somebody gives the evidence."""

        def work(task: FakeTask) -> bool:
            if task.lifecycle in TERMINAL:
                refuse("NOT_CANCELLABLE", f"the task has ended: it is {task.lifecycle}")
            if task.lifecycle == "CANCELLING":
                return False
            task.lifecycle = task.business_status = "CANCELLING"
            task.cancel_requested = True
            self._state.record(task, "TASK_CANCEL_REQUESTED", request.command_id, producer, reason=request.reason)
            return True

        task = self._state.task(request.task_id)
        return task_commands_pb2.RequestCancelResponse(change=self._run(producer, request, task, work))

    def rerun(self, producer: str, request: task_commands_pb2.RerunTaskRequest) -> task_commands_pb2.RerunTaskResponse:
        """Run n + 1 of an ended task."""

        def work(task: FakeTask) -> bool:
            if request.task_attempt not in (0, task.attempt):
                refuse("STALE_ATTEMPT", f"run {task.attempt} of the task is current")
            if task.lifecycle not in TERMINAL:
                refuse("TRANSITION_NOT_ALLOWED", f"the task is {task.lifecycle}; only an ended one can run again")
            self._check_skips(task, request)
            self._open_run(task, request.reason)
            self._state.record(task, "TASK_RERUN", request.command_id, producer, reason=request.reason)
            skips = {skip.step_id: skip for skip in request.skipped_steps}
            for step_id, attempts in task.steps.items():
                if step_id in skips:
                    self._skip(task, attempts[0], skips[step_id], request.command_id, producer)
            return True

        task = self._state.task(request.task_id)
        return task_commands_pb2.RerunTaskResponse(change=self._run(producer, request, task, work))

    def _check_skips(self, task: FakeTask, request: task_commands_pb2.RerunTaskRequest) -> None:
        results = {
            (event.event_id, event.step_id) for event in task.timeline if event.event_type == common_pb2.STEP_COMPLETED
        }
        for index, skip in enumerate(request.skipped_steps):
            if skip.step_id not in task.steps or task.steps[skip.step_id][0].dynamic:
                invalid(f"skippedSteps[{index}].stepId", "is no step of the task's manifest")
            if not skip.reason.strip():
                invalid(f"skippedSteps[{index}].reason", "is required")
            if (skip.source_event_id, skip.step_id) not in results:
                invalid(f"skippedSteps[{index}].sourceEventId", "is no STEP_COMPLETED of this step and task")

    def _open_run(self, task: FakeTask, reason: str) -> None:
        task.earlier_runs.append(run_snapshot(task))
        at = self._state.now()
        for step_id, attempts in task.steps.items():
            task.step_versions[step_id] = attempts[-1].version
        task.attempt += 1
        task.steps = {
            step_id: [FakeAttempt(attempts[-1].spec, 1, task.attempt, version=attempts[-1].version + 1)]
            for step_id, attempts in task.steps.items()
            if not attempts[-1].dynamic
        }
        task.lifecycle = task.business_status = "PENDING"
        task.run_reason, task.run_created_at, task.cancel_requested = reason, at, False
        task.failure = task.started_at = task.finished_at = task.duration_ms = None
        task.task_seqs = {}

    def _skip(
        self, task: FakeTask, attempt: FakeAttempt, skip: task_commands_pb2.SkippedStep, command_id: str, producer: str
    ) -> None:
        attempt.lifecycle, attempt.end_reason, attempt.credited = "SUCCEEDED", "SKIPPED", 1.0
        attempt.finished_at = self._state.now()
        attempt.skip = _copy(skip)
        named = hashlib.sha256(f"{command_id}\x1f{skip.step_id}".encode()).hexdigest()[:40]
        self._state.record(task, "STEP_SKIPPED", f"skip-{named}", producer, attempt, skip.reason)

    def classify(
        self, producer: str, request: task_commands_pb2.ClassifyTaskRequest
    ) -> task_commands_pb2.ClassifyTaskResponse:
        """The type, once; the fake knows no definitions, and binds the versions that are asked for."""

        def work(task: FakeTask) -> bool:
            if task.spec.task_type:
                refuse("ALREADY_CLASSIFIED", f"the task is classified as {task.spec.task_type}")
            if task.lifecycle in TERMINAL:
                refuse("TERMINAL", "the task has ended")
            task.spec.task_type = request.task_type
            task.spec.status_definition_version = request.status_definition_version
            task.spec.operation_definition_version = request.operation_definition_version
            if request.HasField("product_id"):
                task.spec.product_id = request.product_id
            self._state.record(task, "TASK_CLASSIFIED", request.command_id, producer)
            return True

        task = self._state.task(request.task_id)
        if not request.task_type:
            invalid("taskType", "is required")
        change = self._run(producer, request, task, work, expected=request.expected_task_version)
        return task_commands_pb2.ClassifyTaskResponse(
            change=change,
            status_definition_version=task.spec.status_definition_version,
            operation_definition_version=task.spec.operation_definition_version,
        )

    def update_metadata(
        self, producer: str, request: task_commands_pb2.UpdateTaskMetadataRequest
    ) -> task_commands_pb2.UpdateTaskMetadataResponse:
        """Label, title and priority."""
        named = [name for name in ("product_id", "title", "priority") if request.HasField(name)]
        task = self._state.task(request.task_id)
        if not named:
            invalid("productId", "or title or priority is required")

        def work(task: FakeTask) -> bool:
            if all(getattr(task.spec, name) == getattr(request, name) for name in named):
                return False
            for name in named:
                setattr(task.spec, name, getattr(request, name))
            self._state.record(task, "TASK_METADATA_UPDATED", request.command_id, producer, reason=request.reason)
            return True

        change = self._run(producer, request, task, work, expected=request.expected_task_version)
        return task_commands_pb2.UpdateTaskMetadataResponse(change=change)

    def attach_external_ref(
        self, producer: str, request: task_commands_pb2.AttachExternalRefRequest
    ) -> task_commands_pb2.AttachExternalRefResponse:
        """One more number; any service may."""

        def work(task: FakeTask) -> bool:
            ref = (request.external_ref.ref_type, request.external_ref.ref_value)
            holder = self._state.refs.get(ref)
            if holder is task:
                return False
            if holder is not None:
                refuse("IDEMPOTENCY_CONFLICT", "this number names another task")
            if len(task.external_refs) >= MAX_EXTERNAL_REFS:
                invalid("externalRef", f"the task has {MAX_EXTERNAL_REFS} numbers already")
            self._state.attach(task, ref)
            self._state.record(task, "TASK_METADATA_UPDATED", request.command_id, producer)
            return True

        task = self._state.task(request.task_id)
        change = self._run(producer, request, task, work, of_scope=True)
        return task_commands_pb2.AttachExternalRefResponse(change=change)

    def revoke(
        self, producer: str, request: task_commands_pb2.RevokeExecutionRequest
    ) -> task_commands_pb2.RevokeExecutionResponse:
        """The execution's next generation."""
        task, attempt = self._state.execution_by_id(request.execution_id)

        def work(task: FakeTask) -> bool:
            self._state.require_current(task, attempt)
            attempt.revoke()
            attempt.version += 1
            self._state.record(task, "EXECUTION_REVOKED", request.command_id, producer, attempt, request.reason)
            return True

        change = self._run(producer, request, task, work)
        return task_commands_pb2.RevokeExecutionResponse(change=change, credential_generation=attempt.generation)

    def _run(
        self,
        producer: str,
        request: _Command,
        task: FakeTask,
        work: Callable[[FakeTask], bool],
        *,
        expected: int = 0,
        of_scope: bool = False,
    ) -> task_commands_pb2.TaskChange:
        """``work`` changes the task and records it, or says that it stands there already."""
        if not (of_scope or task.may_rule(producer)):
            refuse("PERMISSION_DENIED", "this caller may not do this with the task")
        assert isinstance(request, Message)
        content = content_of(request, "task_id", "execution_id", "expected_task_version")
        seen = self._state.seen(task.task_id, request.command_id, content)
        if isinstance(seen, task_commands_pb2.TaskChange):
            again = _copy(seen)
            again.duplicate = True
            return again
        if expected not in (0, task.version):
            refuse("VERSION_MISMATCH", f"the task is at version {task.version}; read it again")
        changed = work(task)
        change = task_commands_pb2.TaskChange(
            task_id=task.task_id,
            task_version=task.version,
            task_attempt=task.attempt,
            lifecycle_status=common_pb2.LifecycleStatus.Value(task.lifecycle),
            business_status=task.business_status,
            changed=changed,
            cancel_requested=task.cancel_requested,
        )
        change.committed_at.FromDatetime(task.committed_at)
        if changed:
            self._state.first_results[task.task_id, request.command_id] = (content, change)
        return change

    def update_workflow(
        self, producer: str, request: workflow_pb2.UpdateWorkflowRequest
    ) -> workflow_pb2.UpdateWorkflowResponse:
        """Title, ruling, or the end of a ruling."""
        workflow = self._state.workflow(request.workflow_id)
        ruling = request.lifecycle_status
        if not (request.HasField("title") or ruling or request.withdraw_ruling):
            invalid("title", "nothing to change is named: title, lifecycleStatus or withdrawRuling")
        if ruling and not request.reason.strip():
            invalid("reason", "is required with a ruling")
        if producer != workflow.coordinator:
            refuse("PERMISSION_DENIED", "only the workflow's recorded coordinator may do this")
        content = content_of(request, "workflow_id", "expected_workflow_version")
        seen = self._state.seen(workflow.workflow_id, request.command_id, content)
        if isinstance(seen, workflow_pb2.UpdateWorkflowResponse):
            again = _copy(seen)
            again.duplicate = True
            return again
        if request.expected_workflow_version not in (0, workflow.version):
            refuse("VERSION_MISMATCH", f"the workflow is at version {workflow.version}; read it again")
        workflow.title = request.title if request.HasField("title") else workflow.title
        if ruling:
            workflow.ruling = common_pb2.LifecycleStatus.Name(ruling)
            workflow.ruling_reason = request.reason
        elif request.withdraw_ruling:
            workflow.ruling = workflow.ruling_reason = ""
        tasks, now = self._state.tasks_of(workflow.workflow_id), self._state.now()
        changed = settle(workflow, tasks, now)
        response = workflow_pb2.UpdateWorkflowResponse(
            workflow=workflow_snapshot(workflow, tasks, now), changed=changed
        )
        if changed:
            self._state.first_results[workflow.workflow_id, request.command_id] = (content, response)
        return response


def _copy(message: _M) -> _M:
    copy = type(message)()
    copy.CopyFrom(message)
    return copy
