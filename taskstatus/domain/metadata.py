"""What may be relabelled of a task after its creation, audited (R-8, ID-5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from taskstatus.domain.errors import RefusedError, invalid
from taskstatus.domain.events import EventType
from taskstatus.domain.evolve import with_version
from taskstatus.domain.notifications import OutboxTools
from taskstatus.domain.quick_dataclasses import dataclass, replace
from taskstatus.domain.reasons import Reason
from taskstatus.domain.records import ExternalRefRecord
from taskstatus.domain.state import ExternalRef, TaskEnvelope
from taskstatus.domain.task_commands import (
    AttachExternalRef,
    CommandOutcome,
    CommandRows,
    Fact,
    UpdateMetadata,
    admitted,
    audited,
    recorded,
    unchanged,
)

METADATA_SCHEMA = "taskstatus.metadata.v1"
"""Of what the timeline shows with TASK_METADATA_UPDATED: ``old`` and ``new``."""
MAX_EXTERNAL_REFS = 20
"""Numbers that may name one task."""


@dataclass(frozen=True, slots=True)
class RefRows:
    """What attaching looks at besides the task."""

    holder: ExternalRefRecord | None
    """Who has the number."""
    attached: Sequence[ExternalRef]
    """The task's own numbers."""


def update_metadata(command: UpdateMetadata, rows: CommandRows, tools: OutboxTools) -> CommandOutcome:
    """Label, title and priority, of an ended task too. Raises RefusedError as ``admitted`` says."""
    task = admitted(command.head, rows)
    if isinstance(task, CommandOutcome):
        return task
    envelope = task.envelope
    relabelled = replace(
        envelope,
        product_id=envelope.product_id if command.product_id is None else command.product_id,
        title=envelope.title if command.title is None else command.title,
        priority=envelope.priority if command.priority is None else command.priority,
    )
    old, new = _labels(envelope), _labels(relabelled)
    if old == new:
        return unchanged(task)
    after = replace(with_version(task, rows.now), envelope=relabelled)
    changed = [name for name in old if old[name] != new[name]]
    old, new = {name: old[name] for name in changed}, {name: new[name] for name in changed}
    fact = Fact(
        EventType.TASK_METADATA_UPDATED,
        reason=command.reason,
        shown=(METADATA_SCHEMA, tools.to_json({"old": old, "new": new})),
    )
    outcome = recorded(command.head, task, after, None, fact, rows.now, tools)
    outcome.changes.relabelled.append(after)
    audit_id = tools.new_id(envelope.bucket)
    outcome.changes.audits.append(audited(command.head, after, fact, tools.to_json(old), tools.to_json(new), audit_id))
    return outcome


def attach_external_ref(
    command: AttachExternalRef, rows: CommandRows, refs: RefRows, tools: OutboxTools
) -> CommandOutcome:
    """One more number for the task; its own again changes nothing.

    Raises RefusedError IDEMPOTENCY_CONFLICT when the number names another task, INVALID_ARGUMENT beyond the limit.
    """
    task = admitted(command.head, rows, of_scope=True)
    if isinstance(task, CommandOutcome):
        return task
    if command.ref in refs.attached:
        return unchanged(task)
    refuse_taken(command.ref, refs.holder, "externalRef")
    if len(refs.attached) >= MAX_EXTERNAL_REFS:
        raise invalid("externalRef", f"the task has {MAX_EXTERNAL_REFS} numbers already")
    after = with_version(task, rows.now)
    new = {"refType": command.ref.ref_type, "refValue": command.ref.ref_value}
    fact = Fact(
        EventType.TASK_METADATA_UPDATED,
        shown=(METADATA_SCHEMA, tools.to_json({"old": {}, "new": {"externalRef": new}})),
    )
    outcome = recorded(command.head, task, after, None, fact, rows.now, tools)
    envelope = task.envelope
    outcome.changes.external_refs.append(
        ExternalRefRecord(
            envelope.bucket,
            envelope.tenant_id,
            envelope.authority_scope,
            command.ref,
            envelope.task_id,
            after.committed_at,
        )
    )
    return outcome


def refuse_taken(ref: ExternalRef, holder: ExternalRefRecord | None, field: str) -> None:
    """Raises RefusedError IDEMPOTENCY_CONFLICT when a number names another task already (ID-5)."""
    if holder is not None:
        raise RefusedError(
            Reason.IDEMPOTENCY_CONFLICT,
            "this number names another task",
            metadata={"field": field, "refType": ref.ref_type},
        )


def _labels(envelope: TaskEnvelope) -> Mapping[str, object]:
    return {"productId": envelope.product_id, "title": envelope.title, "priority": envelope.priority}
