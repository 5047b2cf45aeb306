"""One projection: lock workflows, count their members, write what has changed, settle the triggers (L-7)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from taskstatus.application.ports_runtime import WakeUp
from taskstatus.application.ports_store import TaskStore, TransactionAttempt, WriteTransaction
from taskstatus.application.ports_workflows import AggregateTrigger
from taskstatus.domain.ids import WorkflowId, bucket_of_id
from taskstatus.domain.notifications import OutboxTools
from taskstatus.domain.records import ChangeSet
from taskstatus.domain.workflow_aggregate import NOBODY
from taskstatus.domain.workflow_projection import project


@dataclass(frozen=True, slots=True)
class Projected:
    """What one projection came to, in workflows."""

    changed: int = 0
    """With a new version."""
    unchanged: int = 0
    """Nobody sees a difference, or another replica was quicker."""
    held: int = 0
    """Passed over: another transaction has them locked, and their triggers stay."""


class WorkflowProjections:
    """Carries out projections; safe to repeat, to cut off at any point, and to run on any number of replicas.

    The workflow's lock comes first. Whatever trigger is seen under it was committed with its member's change, so the
    count that follows, at READ COMMITTED, has that change. No task is locked. Exactly the triggers that were seen are
    deleted; one that is committed meanwhile stays for the next projection.
    """

    def __init__(self, store: TaskStore, tools: OutboxTools, wake_up: WakeUp) -> None:
        self._store = store
        self._tools = tools
        self._wake_up = wake_up

    async def project(self, triggers: Sequence[AggregateTrigger]) -> Projected:
        """Follow the changes behind these triggers, in one transaction.

        Raises StoreUnavailableError, and StoreRefusedError for rows that the database will not take.
        """
        workflow_ids = sorted({trigger.workflow_id for trigger in triggers})

        async def body(tx: WriteTransaction, _: TransactionAttempt) -> Projected:
            locked = await tx.lock_free_workflows(workflow_ids)
            held = await _held(tx, [workflow_id for workflow_id in workflow_ids if workflow_id not in locked])
            there = await tx.existing_triggers([t.trigger_id for t in triggers if t.workflow_id not in held])
            seen = [trigger for trigger in triggers if trigger.trigger_id in there]
            moved = sorted({trigger.workflow_id for trigger in seen} & locked.keys())
            tallies = await tx.count_members(moved) if moved else {}
            changes = ChangeSet(settled_triggers=[(bucket_of_id(t.trigger_id), t.trigger_id) for t in seen])
            changed = 0
            for workflow_id in moved:
                before, now = locked[workflow_id].state, locked[workflow_id].now
                after = project(changes, before, tallies.get(workflow_id, NOBODY), now, self._tools)
                changed += after.version > before.version
            if not changes.is_empty:
                await tx.write(changes)
            return Projected(changed, len(workflow_ids) - len(held) - changed, len(held))

        projected = await self._store.transact(body)
        if projected.changed:
            self._wake_up.hint()
        return projected


async def _held(tx: WriteTransaction, workflow_ids: Sequence[WorkflowId]) -> Collection[WorkflowId]:
    """Those that exist; the triggers of a workflow that is gone have nothing left to tell."""
    return await tx.existing_workflows(workflow_ids) if workflow_ids else ()
