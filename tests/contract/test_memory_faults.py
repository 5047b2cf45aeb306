"""The faults that the in-memory store gives on request, as a database would."""

from __future__ import annotations

import pytest

from taskstatus.adapters.memory.reader import MemoryTaskReader
from taskstatus.adapters.memory.store import MemoryTaskStore
from taskstatus.application.ports_store import (
    StoreRefusedError,
    StoreUnavailableError,
    TransactionAttempt,
    WriteTransaction,
)
from taskstatus.domain.ids import TaskId

from . import records


@pytest.mark.parametrize("committed", [True, False])
async def test_n1_lost_reply_runs_the_body_again_settling(committed: bool) -> None:
    store = MemoryTaskStore()
    workflow = records.workflow()
    seen: list[tuple[TransactionAttempt, bool]] = []

    async def body(transaction: WriteTransaction, attempt: TransactionAttempt) -> None:
        found = await transaction.lock_workflow(workflow.workflow_id) is not None
        seen.append((attempt, found))
        if not found:
            await transaction.write(records.creation(workflow))

    store.lose_next_commit_reply(committed=committed)
    await store.transact(body)

    assert seen == [(TransactionAttempt(1, settling=False), False), (TransactionAttempt(2, settling=True), committed)]
    assert list(store.tables.workflows) == [workflow.workflow_id]


async def test_poison_rows_are_refused_and_others_are_not() -> None:
    store = MemoryTaskStore()
    good, poison = records.workflow("good"), records.workflow("poison")
    store.refuse = lambda changes: poison in changes.new_workflows

    with pytest.raises(StoreRefusedError):
        await store.transact(lambda transaction, _attempt: transaction.write(records.creation(poison)))
    await store.transact(lambda transaction, _attempt: transaction.write(records.creation(good)))

    assert list(store.tables.workflows) == [good.workflow_id]


async def test_outage_refuses_writes_and_reads_until_it_ends() -> None:
    store = MemoryTaskStore()
    reader, task_id = MemoryTaskReader(store), TaskId(records.new_id())
    store.unavailable = True

    with pytest.raises(StoreUnavailableError):
        await store.transact(lambda transaction, _attempt: transaction.now())
    with pytest.raises(StoreUnavailableError):
        await reader.timeline(task_id, 0, 1)

    store.unavailable = False
    assert (await reader.timeline(task_id, 0, 1)).task_version == 0


async def test_clock_of_the_database_moves_only_when_read_or_told() -> None:
    store = MemoryTaskStore()
    first, second = store.clock.read(), store.clock.read()
    store.clock.advance(60)
    assert (second - first).total_seconds() == 0.000001
    assert (store.clock.read() - second).total_seconds() == 60.000001
