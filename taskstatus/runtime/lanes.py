"""Group-commit lanes: commands of one task, in order, many per transaction.

A lane takes whatever has queued while its last commit was in flight: no artificial wait when idle, big batches under
load. States of a lane: *idle* (queue empty) → *held* (a small batch, while another lane of the shard commits) →
*committing* (one transaction in flight, further commands queue) → …, and *draining* (no new commands; ends when its
queue is empty). Every command of a task goes to the same lane of this process; other replicas are kept apart by the row
locks.

Failures: the store retries passing causes itself; what it gives up on is answered UNAVAILABLE, and later items of the
same execution in the same call are answered likewise, unevaluated (E-10). Rows that the database refuses split the
batch until the poisonous command stands alone and is answered INTERNAL. A caller that goes away cancels only its own
waiting. Invariants: an answer comes after COMMIT; order within a task is the order of arrival; the queue is bounded.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from taskstatus.application.call_group import CallGroup
from taskstatus.application.ports_clock import Clock
from taskstatus.application.ports_definitions import StatusDefinitions
from taskstatus.application.ports_runtime import ServiceObserver, ShardMap, WakeUp
from taskstatus.application.ports_store import (
    StoreUnavailableError,
    TaskStore,
)
from taskstatus.domain.commands import TaskEventCommand
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.notifications import OutboxTools
from taskstatus.domain.quick_dataclasses import dataclass
from taskstatus.domain.reasons import Reason
from taskstatus.domain.verdicts import Accepted, Coalesced, Refused, Verdict
from taskstatus.runtime.batch_commit import BatchCommit, untold

logger = logging.getLogger(__name__)

FULL_QUEUE_RETRY_SECONDS = 0.2
UNAVAILABLE_RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class LaneConfig:
    """Sizes of the lanes; raises ValueError for values that cannot work."""

    lanes_per_shard: int = 3
    max_batch_commands: int = 100
    small_batch_commands: int = 50
    """A batch of fewer waits for a commit in flight rather than have one beside it: a transaction has a dozen
    statements, however few its events."""
    held_seconds: float = 0.05
    """How long at most: whatever holds one commit up, a row lock or an outage, is soon no reason for the others."""
    max_batch_bytes: int = 1024 * 1024
    max_queued_commands: int = 2_000
    """Per lane; beyond it a command is answered RATE_LIMITED."""
    oldest_accepted: timedelta = timedelta(days=7)
    cached_tasks: int = 10_000
    """Tasks kept in memory as last committed, about 4 KB each; all lanes together."""

    def __post_init__(self) -> None:
        sizes = (self.lanes_per_shard, self.max_batch_commands, self.max_batch_bytes, self.max_queued_commands)
        if min(*sizes, self.small_batch_commands, self.cached_tasks) < 1:
            raise ValueError("lane sizes must be at least 1")
        if self.held_seconds <= 0:
            raise ValueError("held_seconds must be above 0")


@dataclass(frozen=True, slots=True)
class _Submission:
    command: TaskEventCommand
    group: CallGroup
    position: int
    answer: asyncio.Future[Verdict]

    @property
    def stream(self) -> bytes:
        """What E-10 keeps in order: the execution, or the task for the coordinator's events."""
        return self.command.execution_id or self.command.task_id

    @property
    def size_bytes(self) -> int:
        return len(self.command.canonical) + 512

    @property
    def is_broken(self) -> bool:
        """Whether an earlier item of the same stream and call failed in passing."""
        return self.group.is_broken(self.stream, self.position)

    def resolve(self, verdict: Verdict) -> None:
        if isinstance(verdict, Refused) and verdict.error.reason in _BREAKING:
            self.group.break_stream(self.stream, self.position, self.command.content.event_id)
        if not self.answer.done():
            self.answer.set_result(verdict)


_BREAKING = frozenset({Reason.UNAVAILABLE, Reason.INTERNAL, Reason.RATE_LIMITED, Reason.BUCKET_MOVED})


class Lanes:
    """The port EventWriter over group commits."""

    def __init__(
        self,
        store: TaskStore,
        definitions: StatusDefinitions,
        shards: ShardMap,
        clock: Clock,
        tools: OutboxTools,
        wake_up: WakeUp,
        observer: ServiceObserver,
        config: LaneConfig,
        on_trigger: Callable[[], None] = untold,
    ) -> None:
        """``on_trigger`` is called after commits that leave workflows something to follow (L-7)."""
        self._shards = shards
        self._config = config
        self._observer = observer
        self._commit = BatchCommit(
            store, definitions, clock, tools, observer, config.oldest_accepted, config.cached_tasks, on_trigger
        )
        self._wake_up = wake_up
        self._clock = clock
        self._lanes: dict[tuple[str, int], _Lane] = {}
        self._commits: dict[str, _Commits] = {}
        self._draining = False

    def submit(self, command: TaskEventCommand, group: CallGroup) -> Awaitable[Verdict]:
        """See the port; never raises."""
        answer: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        submission = _Submission(command, group, group.next_position(), answer)
        if self._draining:
            submission.resolve(_unavailable("the service is shutting down"))
        elif submission.is_broken:
            submission.resolve(_unavailable("an earlier item of this execution must be sent again first"))
        elif not self._lane_of(command).offer(submission):
            submission.resolve(_queue_full())
        return answer

    def _lane_of(self, command: TaskEventCommand) -> _Lane:
        task_id = command.task_id
        bucket = int.from_bytes(task_id[6:8], "big") & 0x0FFF
        index = int.from_bytes(task_id[8:], "big") % self._config.lanes_per_shard
        shard = self._shards.shard_of(bucket)
        lane = self._lanes.get((shard, index))
        if lane is None:
            commits = self._commits.setdefault(shard, _Commits())
            lane = self._lanes[shard, index] = _Lane(self._config, self._run_batch, commits)
        return lane

    async def stop(self) -> None:
        """Take nothing more, commit and answer what is queued, then return; may be called twice."""
        self._draining = True
        await asyncio.gather(*(lane.drain() for lane in self._lanes.values()))

    @property
    def depth(self) -> int:
        """Commands waiting in all lanes."""
        return sum(lane.depth for lane in self._lanes.values())

    async def _run_batch(self, batch: Sequence[_Submission]) -> None:
        ready = [item for item in batch if not self._answer_if_broken(item)]
        if not ready:
            return
        started = self._clock.monotonic_seconds()
        try:
            verdicts = await self._commit([item.command for item in ready])
        except StoreUnavailableError:
            logger.warning("store unavailable", extra={"commands": len(ready)})
            for item in ready:
                item.resolve(_unavailable("the store cannot be reached now"))
            return
        except Exception:  # noqa: BLE001  (whatever one command provokes must not take its neighbours along)
            await self._split(ready)
            return
        self._observer.batch_committed(len(ready), self._clock.monotonic_seconds() - started)
        self._observer.lane_depth(self.depth)
        if any(isinstance(verdict, Accepted | Coalesced) for verdict in verdicts):
            self._wake_up.hint()
        for item, verdict in zip(ready, verdicts, strict=True):
            item.resolve(verdict)

    def _answer_if_broken(self, item: _Submission) -> bool:
        if not item.is_broken:
            return False
        item.resolve(_unavailable("an earlier item of this execution must be sent again first"))
        return True

    async def _split(self, batch: Sequence[_Submission]) -> None:
        """Commit the halves one after the other, so that one poisonous command fails alone."""
        if len(batch) > 1:
            middle = len(batch) // 2
            await self._run_batch(batch[:middle])
            await self._run_batch(batch[middle:])
            return
        item = batch[0]
        logger.exception("an event could not be committed", extra={"eventId": item.command.content.event_id})
        item.resolve(_not_recorded())


def _not_recorded() -> Refused:
    return Refused(RefusedError(Reason.INTERNAL, "the event could not be recorded"))


def _unavailable(message: str) -> Refused:
    return Refused(RefusedError(Reason.UNAVAILABLE, message, retry_after_seconds=UNAVAILABLE_RETRY_SECONDS))


def _queue_full() -> Refused:
    return Refused(
        RefusedError(Reason.RATE_LIMITED, "too many events are waiting", retry_after_seconds=FULL_QUEUE_RETRY_SECONDS)
    )


_RunBatch = Callable[[Sequence[_Submission]], Awaitable[None]]


class _Commits:
    """Those in flight of one shard, and the lanes that wait for the end of one."""

    def __init__(self) -> None:
        self._in_flight = 0
        self._held: deque[asyncio.Future[bool]] = deque()

    @property
    def any_in_flight(self) -> bool:
        """Whether some lane commits."""
        return self._in_flight > 0

    def hold(self) -> asyncio.Future[bool]:
        """Done with True when the last commit in flight has ended and hands its turn over, to whom it held longest.

        Without the handing over, a lane whose queue never empties would begin again before any other is awake. Whoever
        sets it to False lets the lane begin beside the others.
        """
        held: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._held.append(held)
        return held

    def begin(self) -> None:
        """One more is in flight."""
        self._in_flight += 1

    def end(self) -> None:
        """One has ended; the turn of the last one is the next held lane's."""
        while self._held and self._held[0].done():
            self._held.popleft()
        if self._held and self._in_flight == 1:
            self._held.popleft().set_result(True)
        else:
            self._in_flight -= 1


def _let_go(held: asyncio.Future[bool]) -> None:
    if not held.done():
        held.set_result(False)


class _Lane:
    """One queue and the task that empties it; the task lives only while there is something to commit."""

    def __init__(self, config: LaneConfig, run_batch: _RunBatch, commits: _Commits) -> None:
        self._config = config
        self._run_batch = run_batch
        self._commits = commits
        self._held: asyncio.Future[bool] | None = None
        self._queue: deque[_Submission] = deque()
        self._worker: asyncio.Task[None] | None = None

    @property
    def depth(self) -> int:
        return len(self._queue)

    def offer(self, submission: _Submission) -> bool:
        if len(self._queue) >= self._config.max_queued_commands:
            return False
        self._queue.append(submission)
        if self._worker is None or self._worker.done():
            self._worker = asyncio.get_running_loop().create_task(self._empty())
        elif self._held is not None and not self._is_small:
            _let_go(self._held)
        return True

    @property
    def _is_small(self) -> bool:
        return len(self._queue) < min(self._config.small_batch_commands, self._config.max_batch_commands)

    async def drain(self) -> None:
        if self._worker is not None:
            await self._worker

    async def _empty(self) -> None:
        while self._queue:
            await self._begin()
            batch: list[_Submission] = []
            try:
                batch = self._take()
                await self._run_batch(batch)
            except Exception:
                # A fault of our own around the commit. Whoever waits must be told, or would wait for ever.
                logger.exception("a lane failed", extra={"commands": len(batch)})
                for item in batch:
                    if not item.answer.done():
                        item.answer.set_result(_not_recorded())
            finally:
                self._commits.end()

    async def _begin(self) -> None:
        if self._commits.any_in_flight and self._is_small:
            held = self._held = self._commits.hold()
            limit = asyncio.get_running_loop().call_later(self._config.held_seconds, _let_go, held)
            try:
                if await held:
                    return
            except asyncio.CancelledError:
                if held.done() and not held.cancelled() and held.result():
                    self._commits.end()
                raise
            finally:
                limit.cancel()
        self._commits.begin()

    def _take(self) -> list[_Submission]:
        batch: list[_Submission] = []
        size = 0
        while self._queue and len(batch) < self._config.max_batch_commands:
            size += self._queue[0].size_bytes
            if batch and size > self._config.max_batch_bytes:
                break
            batch.append(self._queue.popleft())
        return batch
