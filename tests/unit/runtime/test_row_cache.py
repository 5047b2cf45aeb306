"""Rows kept between transactions, and dedup rows not read: cheaper, and never another answer (E-3, E-6)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pytest

from taskstatus.application.ports_store import TransactionAttempt, WriteTransaction
from taskstatus.domain.events import EventType
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.reasons import Reason
from taskstatus.domain.state import StepState
from taskstatus.domain.verdicts import Verdict
from taskstatus.runtime.batch_commit import BatchCommit
from taskstatus.runtime.row_cache import MAX_STEPS_PER_TASK, RowCache
from tests.unit.factories import a_step, a_task, an_id, progress, step_event, task_event
from tests.unit.service_kit import Kit, kinds_of, reason_of

T = TypeVar("T")
STARTED, PROGRESSED = EventType.STEP_STARTED, EventType.STEP_PROGRESS


class _CountingTransaction:
    def __init__(self, inner: Any, reads: list[str]) -> None:
        self._inner = inner
        self._reads = reads

    def __getattr__(self, name: str) -> Any:
        if name in ("executions", "seen_events", "step_attempts"):
            self._reads.append(name)
        return getattr(self._inner, name)


@dataclass
class CountingStore:
    """Notes which reads besides the lock each transaction makes."""

    inner: Any
    reads: list[str] = field(default_factory=list)

    async def transact(self, body: Callable[[WriteTransaction, TransactionAttempt], Awaitable[T]]) -> T:
        """See the port."""

        async def counted(tx: WriteTransaction, attempt: TransactionAttempt) -> T:
            counting: Any = _CountingTransaction(tx, self.reads)
            return await body(counting, attempt)

        value: T = await self.inner.transact(counted)
        return value

    def take(self) -> list[str]:
        """The reads since the last call."""
        reads, self.reads = self.reads, []
        return reads


@dataclass
class Bench:
    """A batch committer with one running step, and a second committer that stands for another replica."""

    kit: Kit
    store: CountingStore
    step: StepState
    ours: BatchCommit
    theirs: BatchCommit

    async def report(self, *commands: Any) -> list[Verdict]:
        """Commit on our side."""
        return await self.ours(commands)

    def version(self) -> int:
        """Of the task."""
        return self.kit.tables.tasks[self.step.task_id].version


@pytest.fixture
async def bench(kit: Kit) -> Bench:
    store = CountingStore(kit.store)
    step = a_step()
    kit.put(a_task(), step)

    def committer() -> BatchCommit:
        return BatchCommit(
            store, kit.definitions, kit.clock, kit.tools, kit.observer, kit.oldest_accepted, cached_tasks=10
        )

    made = Bench(kit, store, step, committer(), committer())
    await made.report(step_event(STARTED, 1, of=step, event_id="start"))
    store.take()
    return made


def at(bench: Bench, current: float, source_seq: int, **more: Any) -> Any:
    """A progress with an id of its own."""
    return step_event(
        PROGRESSED, source_seq, of=bench.step, **{"event_id": f"p-{source_seq}", "progress": progress(current), **more}
    )


async def test_e6_the_next_event_of_a_task_reads_its_lock_and_nothing_else(bench: Bench) -> None:
    assert kinds_of(await bench.report(at(bench, 10, 2), at(bench, 20, 3))) == ["Coalesced", "Accepted"]
    assert bench.store.take() == []
    assert bench.version() == 3


async def test_e3_known_event_is_looked_up_before_it_is_answered(bench: Bench) -> None:
    await bench.report(at(bench, 10, 2))
    bench.store.take()
    again, stale = await bench.report(at(bench, 10, 2), at(bench, 11, 1, event_id="other"))
    assert bench.store.take() == ["seen_events"]
    assert kinds_of([again]) == ["Duplicate"]
    assert reason_of(stale) is Reason.STALE_SEQUENCE


async def test_e3_same_event_id_with_rising_sequence_conflicts(bench: Bench) -> None:
    await bench.report(at(bench, 10, 2))
    before = bench.version()
    conflict, accepted = await bench.report(at(bench, 20, 3, event_id="p-2"), at(bench, 30, 4))
    assert reason_of(conflict) is Reason.IDEMPOTENCY_CONFLICT
    assert kinds_of([accepted]) == ["Accepted"]
    assert bench.version() == before + 1


async def test_e4_what_another_replica_committed_is_seen(bench: Bench) -> None:
    await bench.theirs([at(bench, 50, 9)])
    bench.store.take()
    (verdict,) = await bench.report(at(bench, 40, 8))
    assert "executions" in bench.store.take()
    assert reason_of(verdict) is Reason.STALE_SEQUENCE


async def test_r11_a_change_without_a_version_is_seen(bench: Bench) -> None:
    key = bench.step.key
    task = bench.kit.tables.tasks[bench.step.task_id]
    bench.kit.tables.steps[key] = replace(bench.kit.tables.steps[key], generation=7)
    bench.kit.tables.tasks[bench.step.task_id] = replace(task, row_revision=task.row_revision + 1)
    (verdict,) = await bench.report(at(bench, 10, 2))
    assert reason_of(verdict) is Reason.TOKEN_REVOKED


async def test_l1_steps_that_the_end_of_their_task_cancelled_are_not_remembered(bench: Bench) -> None:
    await bench.report(task_event(EventType.TASK_COMPLETED, 1))
    bench.store.take()
    (late,) = await bench.report(at(bench, 10, 2))
    assert "executions" in bench.store.take()
    assert reason_of(late) is Reason.TERMINAL


async def test_n1_after_a_lost_reply_everything_is_read_anew(bench: Bench) -> None:
    bench.kit.store.lose_next_commit_reply(committed=True)
    assert kinds_of(await bench.report(at(bench, 10, 2))) == ["Accepted"]
    assert "seen_events" in bench.store.take()
    assert kinds_of(await bench.report(at(bench, 20, 3))) == ["Accepted"]
    assert bench.version() == 4


async def test_e6_rows_of_a_refused_batch_are_read_anew(bench: Bench) -> None:
    bench.kit.store.refuse = lambda changes: bool(changes.events)
    with pytest.raises(Exception, match="refuse"):
        await bench.report(at(bench, 10, 2))
    bench.kit.store.refuse = lambda _changes: False
    bench.store.take()
    await bench.report(at(bench, 10, 2))
    assert bench.store.take() == ["executions"]


def _numbered(count: int) -> Sequence[StepState]:
    return [a_step(step_id=f"s{number}", execution_id=an_id(900 + number)) for number in range(count)]


def test_n4_the_cache_is_bounded_in_tasks_and_in_steps() -> None:
    cache = RowCache(max_tasks=2)
    tasks = [a_task(task_id=an_id(number)) for number in range(3)]
    for task in tasks:
        cache.keep(task, task, [])
    assert len(cache) == 2
    assert cache.tasks([tasks[0].envelope.task_id]) == {}
    steps = _numbered(MAX_STEPS_PER_TASK + 1)
    cache.keep(tasks[2], tasks[2], steps[:-1])
    assert cache.step(tasks[2], steps[0].terms.execution_id) is steps[0]  # type: ignore[union-attr]
    cache.keep(tasks[2], tasks[2], steps)
    assert cache.step(tasks[2], steps[0].terms.execution_id) is None  # type: ignore[union-attr]


def test_e6_a_step_belongs_to_one_state_of_its_task_only() -> None:
    cache, before, step = RowCache(max_tasks=2), a_task(), a_step()
    after = replace(before, version=before.version + 1)
    cache.keep(before, before, [step])
    cache.keep(before, after, [])
    assert cache.step(before, step.terms.execution_id) is None  # type: ignore[union-attr]
    assert cache.step(after, step.terms.execution_id) is step  # type: ignore[union-attr]
    other = replace(after, version=after.version + 5)
    cache.keep(replace(after), other, [])
    assert cache.step(other, step.terms.execution_id) is None  # type: ignore[union-attr]
    cache.keep(other, replace(other, lifecycle=Lifecycle.SUCCEEDED), [step])
    assert len(cache) == 0
