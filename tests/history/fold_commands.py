"""What commands make of a task, stated once more for the replay: cancel, rerun, relabel, correct, revoke.

The product's own decisions are not asked: a replay that shares their mistakes would find none of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from taskstatus.domain.correction import CORRECTION_SCHEMA
from taskstatus.domain.events import EventType
from taskstatus.domain.evolve import with_version
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.metadata import METADATA_SCHEMA
from taskstatus.domain.progress import FULL_POINTS
from taskstatus.domain.records import EventRecord
from taskstatus.domain.state import SKIPPED, StepState, TaskEnvelope, TaskFailure, TaskState
from tests.history.model import AttemptKey

COMMANDS = frozenset(
    {
        EventType.TASK_CANCEL_REQUESTED,
        EventType.TASK_RERUN,
        EventType.STEP_SKIPPED,
        EventType.TASK_METADATA_UPDATED,
        EventType.TASK_CORRECTED,
        EventType.EXECUTION_REVOKED,
    }
)
LABELS: Mapping[str, str] = {"productId": "product_id", "title": "title", "priority": "priority"}
"""What may be relabelled, by its name in the timeline."""


def commanded(task: TaskState, record: EventRecord, failure: TaskFailure | None) -> TaskState:
    """The task after a cancel request, new labels or a correction; ``failure``: what the rows say of the run's."""
    task = with_version(task, record.committed_at)
    match record.event_type:
        case EventType.TASK_CANCEL_REQUESTED:
            assert not task.lifecycle.is_terminal, "an ended task was cancelled"
            cancelling = Lifecycle.CANCELLING
            return replace(task, lifecycle=cancelling, business_status=cancelling.value, cancel_requested=True)
        case EventType.TASK_METADATA_UPDATED:
            return replace(task, envelope=_relabelled(task.envelope, record))
        case _:
            return _corrected(task, record, failure)


def changed_values(record: EventRecord, schema: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """(old, new) as the timeline tells them."""
    assert record.data_schema == schema, f"{record.event_type} shows {record.data_schema}"
    value = orjson.loads(record.shown_data)
    return value["old"], value["new"]


def with_first_labels(envelope: TaskEnvelope, log: Sequence[EventRecord]) -> TaskEnvelope:
    """The labels of the creation: what the first change of each says that there was before."""
    for record in reversed(log):
        if record.event_type is EventType.TASK_METADATA_UPDATED:
            old, _ = changed_values(record, METADATA_SCHEMA)
            envelope = replace(envelope, **{field: old[name] for name, field in LABELS.items() if name in old})
    return envelope


def _relabelled(envelope: TaskEnvelope, record: EventRecord) -> TaskEnvelope:
    old, new = changed_values(record, METADATA_SCHEMA)
    known = {name: getattr(envelope, LABELS.get(name, ""), None) for name in old}
    assert old == known, f"the labels were {known}, the event says {old}"
    return replace(envelope, **{LABELS[name]: value for name, value in new.items() if name in LABELS})


def _corrected(task: TaskState, record: EventRecord, failure: TaskFailure | None) -> TaskState:
    old, new = changed_values(record, CORRECTION_SCHEMA)
    assert task.lifecycle.is_terminal, "a live task was corrected"
    assert old["lifecycleStatus"] == task.lifecycle, f"the task was {task.lifecycle}, the event says {old}"
    lifecycle = Lifecycle(new["lifecycleStatus"])
    assert lifecycle.is_terminal, "a task was corrected to life"
    corrected: TaskFailure | None = None
    if lifecycle is Lifecycle.FAILED:
        untold = failure or TaskFailure("", "", "", True, "")
        corrected = replace(
            untold, code=new["failureCode"], message=new["failureMessage"], failed_step_id=new["failedStepId"]
        )
    return replace(task, lifecycle=lifecycle, business_status=new["businessStatus"], failure=corrected)


def revoked(step: StepState) -> StepState:
    """An execution whose credentials ended."""
    assert not step.superseded, "an old attempt was revoked"
    assert not step.lifecycle.is_terminal, "an ended execution was revoked"
    return replace(step, generation=step.generation + 1, version=step.version + 1)


def rerun(
    task: TaskState,
    record: EventRecord,
    steps: Sequence[StepState],
    stored: Mapping[AttemptKey, StepState],
    seen: Mapping[str, EventRecord],
) -> tuple[TaskState, list[StepState]]:
    """The task and its steps at the beginning of the next run, before its skips are counted.

    ``steps``: every attempt of the run that ended. What the new rows freeze, executions and skips, is theirs; a skip
    must name a result among ``seen``.
    """
    assert task.lifecycle.is_terminal, "a live run was run again"
    last: dict[str, StepState] = {}
    for step in sorted(steps, key=lambda step: step.attempt):
        if not step.definition.dynamic:
            last[step.definition.step_id] = step
    begun = replace(
        with_version(task, record.committed_at),
        attempt=task.attempt + 1,
        lifecycle=Lifecycle.PENDING,
        business_status=Lifecycle.PENDING.value,
        cancel_requested=False,
        progress_points=0,
        open_steps=len(last),
        stale_steps=0,
        degraded_steps=0,
        open_dynamic=0,
        producer_seqs={},
        failure=None,
        started_at=None,
        finished_at=None,
        duration_ms=None,
        duration_source=None,
    )
    return begun, [_again(begun, step, stored[begun.attempt, step_id, 1], seen) for step_id, step in last.items()]


def _again(begun: TaskState, last: StepState, row: StepState, seen: Mapping[str, EventRecord]) -> StepState:
    step = StepState(
        task_id=last.task_id,
        bucket=last.bucket,
        task_attempt=begun.attempt,
        attempt=1,
        definition=last.definition,
        terms=row.terms,
        created_at=begun.committed_at,
        version=last.version + 1,
        business_status=Lifecycle.PENDING.value,
    )
    if row.skip is None:
        return step
    source = seen.get(row.skip.source_event_id)
    is_result = source is not None and (source.event_type, source.step_id) == (
        EventType.STEP_COMPLETED,
        last.definition.step_id,
    )
    assert is_result, f"{last.definition.step_id} is skipped for {row.skip.source_event_id}, which is no result of it"
    has_result = last.lifecycle is Lifecycle.SUCCEEDED
    return replace(
        step,
        lifecycle=Lifecycle.SUCCEEDED,
        business_status=Lifecycle.SUCCEEDED.value,
        end_reason=SKIPPED,
        finished_at=begun.committed_at,
        credited_points=FULL_POINTS,
        data_schema=last.data_schema if has_result else "",
        shown_data=last.shown_data if has_result else b"",
        skip=row.skip,
    )


def with_skip(task: TaskState, step: StepState) -> TaskState:
    """The task with one skip counted; all of a rerun have its moment."""
    return replace(
        task,
        version=task.version + 1,
        open_steps=task.open_steps - 1,
        progress_points=task.progress_points + step.definition.weight * FULL_POINTS,
    )
