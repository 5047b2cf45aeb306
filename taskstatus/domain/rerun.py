"""A new run of an ended task: its manifest and input frozen, everything else from the beginning (R-7)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime

from taskstatus.domain.business_status import generic_name
from taskstatus.domain.errors import RefusedError, invalid
from taskstatus.domain.events import EventType
from taskstatus.domain.evolve import with_version
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.notifications import OutboxTools, task_notifications
from taskstatus.domain.own_events import own_event, own_result
from taskstatus.domain.progress import FULL_POINTS
from taskstatus.domain.quick_dataclasses import dataclass, replace
from taskstatus.domain.reasons import Reason
from taskstatus.domain.records import DedupRecord, EventRecord, RunRecord
from taskstatus.domain.state import SKIPPED, SkipRecord, StepState, TaskState
from taskstatus.domain.task_commands import (
    CommandHead,
    CommandOutcome,
    CommandRows,
    Fact,
    RerunTask,
    SkippedStep,
    admitted,
    recorded,
)


@dataclass(frozen=True, slots=True)
class RerunRows:
    """What the decision looks at besides the task."""

    steps: Sequence[StepState]
    """Every attempt of every step of the current run."""
    sources: Mapping[str, EventRecord]
    """The events that skipped steps name, by event id, as far as they exist."""


def rerun(command: RerunTask, rows: CommandRows, run: RerunRows, tools: OutboxTools) -> CommandOutcome:
    """Run n + 1, PENDING; the earlier run's rows are not touched.

    Every skipped step is a fact of its own after TASK_RERUN, with a version of its own. Raises RefusedError
    TRANSITION_NOT_ALLOWED (a live run), STALE_ATTEMPT (another run), INVALID_ARGUMENT (a skip without a result),
    PERMISSION_DENIED (a person who skips).
    """
    head = command.head
    task = admitted(head, rows)
    if isinstance(task, CommandOutcome):
        return task
    if command.task_attempt not in (0, task.attempt):
        raise RefusedError(Reason.STALE_ATTEMPT, f"run {task.attempt} of the task is current")
    if not task.lifecycle.is_terminal:
        raise RefusedError(
            Reason.TRANSITION_NOT_ALLOWED,
            f"the task is {task.lifecycle}; only an ended one can run again",
            metadata={"lifecycleStatus": task.lifecycle},
        )
    manifest = _manifest(run.steps)
    skips = _checked_skips(command, manifest, run.sources)
    begun = _first_state(with_version(task, rows.now), len(manifest))
    steps = [_first_attempt(begun, last, skips.get(step_id)) for step_id, last in manifest.items()]
    after = _with_skips(begun, [step for step in steps if step.skip])
    outcome = recorded(head, task, begun, None, Fact(EventType.TASK_RERUN, reason=command.reason), rows.now, tools)
    outcome.changes.new_steps.extend(steps)
    outcome.changes.new_runs.append(_run_record(after, command.reason))
    _record_skips(outcome, head, begun, [step for step in steps if step.skip], rows.now, tools)
    outcome.changes.tasks[:] = [after]
    result = replace(outcome.result, task_version=after.version)
    outcome.changes.dedups[0] = replace(outcome.changes.dedups[0], result=result)
    return CommandOutcome(after, result, outcome.changes)


def _manifest(steps: Sequence[StepState]) -> dict[str, StepState]:
    """The last attempt of each step of the manifest, by the step's order; dynamic steps register again."""
    last: dict[str, StepState] = {}
    for step in sorted(steps, key=lambda step: (step.definition.order, step.attempt)):
        if not step.definition.dynamic:
            last[step.definition.step_id] = step
    return last


def _checked_skips(
    command: RerunTask, manifest: Mapping[str, StepState], sources: Mapping[str, EventRecord]
) -> dict[str, SkippedStep]:
    if command.skipped and command.head.actor.is_person:
        raise RefusedError(Reason.PERMISSION_DENIED, "only the coordinator may skip steps")
    for index, skipped in enumerate(command.skipped):
        if skipped.step_id not in manifest:
            raise invalid(f"skippedSteps[{index}].stepId", "is no step of the task's manifest")
        source = sources.get(skipped.source_event_id)
        is_result = source is not None and (source.event_type, source.step_id) == (
            EventType.STEP_COMPLETED,
            skipped.step_id,
        )
        if not is_result:
            raise invalid(f"skippedSteps[{index}].sourceEventId", "is no STEP_COMPLETED of this step and task")
    return {skipped.step_id: skipped for skipped in command.skipped}


def _first_state(task: TaskState, open_steps: int) -> TaskState:
    return replace(
        task,
        attempt=task.attempt + 1,
        lifecycle=Lifecycle.PENDING,
        business_status=generic_name(Lifecycle.PENDING),
        cancel_requested=False,
        progress_points=0,
        open_steps=open_steps,
        stale_steps=0,
        degraded_steps=0,
        open_dynamic=0,
        producer_seqs={},
        failure=None,
        started_at=None,
        finished_at=None,
        duration_ms=None,
        duration_source=None,
        summary_schema="",
        summary_data=b"",
    )


def _first_attempt(task: TaskState, last: StepState, skipped: SkippedStep | None) -> StepState:
    """Attempt 1 of a step in the new run; its version goes on from the earlier run's (E-6)."""
    step = StepState(
        task_id=last.task_id,
        bucket=last.bucket,
        task_attempt=task.attempt,
        attempt=1,
        definition=last.definition,
        terms=None,
        created_at=task.committed_at,
        version=last.version + 1,
        business_status=generic_name(Lifecycle.PENDING),
    )
    if skipped is None:
        return step
    has_result = last.lifecycle is Lifecycle.SUCCEEDED
    return replace(
        step,
        lifecycle=Lifecycle.SUCCEEDED,
        business_status=generic_name(Lifecycle.SUCCEEDED),
        end_reason=SKIPPED,
        finished_at=task.committed_at,
        credited_points=FULL_POINTS,
        data_schema=last.data_schema if has_result else "",
        shown_data=last.shown_data if has_result else b"",
        skip=SkipRecord(skipped.reason, skipped.source_event_id),
    )


def _with_skips(begun: TaskState, skipped: Sequence[StepState]) -> TaskState:
    """The task after the last of its skips: a version each, and the skipped share done."""
    return replace(
        begun,
        version=begun.version + len(skipped),
        open_steps=begun.open_steps - len(skipped),
        progress_points=sum(step.definition.weight * FULL_POINTS for step in skipped),
    )


def _run_record(task: TaskState, reason: str) -> RunRecord:
    envelope = task.envelope
    return RunRecord(
        envelope.task_id,
        envelope.bucket,
        task.attempt,
        envelope.input_ref,
        task.weight_total,
        task.committed_at,
        reason=reason,
    )


def _record_skips(
    outcome: CommandOutcome,
    head: CommandHead,
    begun: TaskState,
    skipped: Sequence[StepState],
    now: datetime,
    tools: OutboxTools,
) -> None:
    """An event and a dedup row for each skip; the last one's notification stands for those before it (O-6)."""
    changes, origin = outcome.changes, head.origin(now)
    for number, step in enumerate(skipped, start=1):
        task = _with_skips(begun, skipped[:number])
        assert step.skip is not None
        event_id = _skip_id(head, step.definition.step_id)
        event = own_event(
            task,
            step,
            EventType.STEP_SKIPPED,
            origin,
            canonical=head.canonical,
            digest=head.digest,
            reason=step.skip.reason,
            event_id=event_id,
        )
        changes.events.append(event)
        bucket = task.envelope.bucket
        changes.dedups.append(DedupRecord(head.task_id, bucket, event_id, head.digest, own_result(task, step)))
        if number == len(skipped):
            changes.outbox.extend(task_notifications(tools, task, step, EventType.STEP_SKIPPED, head.traceparent))


def _skip_id(head: CommandHead, step_id: str) -> str:
    """The id of a skip's event, the same whenever the command is carried out again."""
    named = hashlib.sha256(f"{head.command_id}\x1f{step_id}".encode())
    return f"skip-{named.hexdigest()[:40]}"
