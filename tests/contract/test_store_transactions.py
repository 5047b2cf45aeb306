"""How transactions run beside one another and fail, on every implementation."""

from __future__ import annotations

import asyncio

import pytest

from taskstatus.application.ports_store import TransactionAttempt, WriteTransaction
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.ids import TaskId
from taskstatus.domain.reasons import Reason

from . import records
from .backends import Backend


async def _created(backend: Backend, steps: int = 1) -> tuple[TaskId, ...]:
    workflow = records.workflow()
    task = records.task(workflow.workflow_id)
    await backend.write(records.creation(workflow, (task, [records.step(task, n + 1) for n in range(steps)])))
    return (task.envelope.task_id,)


async def test_value_of_the_body_is_returned_after_the_commit(backend: Backend) -> None:
    async def body(_transaction: WriteTransaction, attempt: TransactionAttempt) -> TransactionAttempt:
        return attempt

    assert await backend.store.transact(body) == TransactionAttempt(number=1, settling=False)


async def test_exception_of_the_body_passes_through_and_nothing_is_written(backend: Backend) -> None:
    workflow = records.workflow()

    async def body(transaction: WriteTransaction, _attempt: TransactionAttempt) -> None:
        await transaction.write(records.creation(workflow))
        raise RefusedError(Reason.TASK_NOT_FOUND, "no such task")

    with pytest.raises(RefusedError):
        await backend.store.transact(body)

    async def look(transaction: WriteTransaction, _attempt: TransactionAttempt) -> None:
        assert await transaction.lock_workflow(workflow.workflow_id) is None

    await backend.store.transact(look)


async def test_e6_concurrent_writers_of_one_task_leave_no_gap_and_no_repeat(backend: Backend) -> None:
    (task_id,) = await _created(backend)

    async def one_event(number: int) -> int:
        async def body(transaction: WriteTransaction, _attempt: TransactionAttempt) -> int:
            locked = (await transaction.lock_tasks([task_id]))[task_id]
            (attempts,) = (await transaction.step_attempts([(task_id, 1, "01_parse")])).values()
            after, _, changes = records.progress_of(locked.state, attempts[0], f"e-{number}")
            await transaction.write(changes)
            return after.version

        return await backend.store.transact(body)

    versions = await asyncio.gather(*map(one_event, range(12)))

    assert sorted(versions) == list(range(2, 14))
    page = await backend.reader.timeline(task_id, 0, 100)
    assert [event.task_version for event in page.events] == list(range(1, 14))


async def test_changes_are_invisible_until_the_commit(backend: Backend) -> None:
    (task_id,) = await _created(backend)

    async def body(transaction: WriteTransaction, _attempt: TransactionAttempt) -> None:
        state = (await transaction.lock_tasks([task_id]))[task_id].state
        (attempts,) = (await transaction.step_attempts([(task_id, 1, "01_parse")])).values()
        await transaction.write(records.progress_of(state, attempts[0], "e-1")[2])
        views = await backend.reader.task_views([task_id], with_trigger=False)
        assert views[task_id].task.version == 1

    await backend.store.transact(body)
    assert (await backend.reader.task_views([task_id], with_trigger=False))[task_id].task.version == 2
