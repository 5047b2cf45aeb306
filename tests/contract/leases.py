"""Tasks whose steps run under leases, and how they are read back."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from taskstatus.application.ports_health import StuckPage
from taskstatus.application.ports_store import TransactionAttempt, WriteTransaction
from taskstatus.domain.ids import ExecutionId
from taskstatus.domain.lease import LeaseState
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.records import ChangeSet
from taskstatus.domain.state import StepState, TaskState

from . import records
from .backends import Backend

AGO = timedelta(seconds=600)
"""Far more than a statement takes on a busy machine."""


async def database_now(backend: Backend) -> datetime:
    async def body(transaction: WriteTransaction, _attempt: TransactionAttempt) -> datetime:
        return await transaction.now()

    return await backend.store.transact(body)


async def running(backend: Backend, count: int = 1, **changes: object) -> tuple[TaskState, list[StepState]]:
    """A task whose steps have started ten minutes ago, with open leases of one minute."""
    workflow = records.workflow()
    task = records.task(workflow.workflow_id, steps=count, lifecycle=Lifecycle.RUNNING)
    now = await database_now(backend)
    started: dict[str, object] = {"lifecycle": Lifecycle.RUNNING, "started_at": now - AGO, **changes}
    steps = [records.step(task, n + 1, **started) for n in range(count)]  # type: ignore[arg-type]
    creation = records.creation(workflow, (task, steps))
    creation.opened_leases += [records.lease(step, now - AGO) for step in steps]
    await backend.write(creation)
    return task, steps


async def states(backend: Backend) -> dict[ExecutionId, LeaseState]:
    return await backend.lease_states()


async def change(backend: Backend, step: StepState, **changes: object) -> LeaseState:
    """Write a lease as a health change does."""
    before = (await states(backend))[records.execution_of(step)]
    after = replace(before, **changes)  # type: ignore[arg-type]
    await backend.write(ChangeSet(leases=[after]))
    return after


async def stuck(backend: Backend, limit: int = 100) -> StuckPage:
    return await backend.stuck.page(records.TENANT, records.SCOPE, None, limit)
