"""Fakes of the relay's ports on a virtual clock, and builders of rows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from opentelemetry.trace import NoOpTracer
from prometheus_client import CollectorRegistry

from relay.config import RelayConfig
from relay.loop import RelayLoop
from relay.metrics import RelayMetrics
from relay.publisher import Outcome, Publication, Published
from relay.rendering import BatchRenderer, RenderDetail, RenderReader
from relay.rows import Backlog, Claim, ClaimedRow, OutboxUnavailableError
from relay.wakeup import OnHint
from taskstatus.domain.ids import TaskId, WorkflowId, make_id
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.records import AggregateType, Audience, OutboxKind, Projection, TaskView
from taskstatus.domain.state import Grant, TaskEnvelope, TaskState

START = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC).replace(tzinfo=None)
TENANT = "acme"
OWNER = "auth0|ada"


class VirtualTime:
    """Ports ``Clock`` and ``Randomness`` and the loop's pause; time moves only when told."""

    def __init__(self) -> None:
        self.now = 0.0
        self.paused: list[float] = []
        self._bits = 0

    def unix_seconds(self) -> float:
        """The virtual wall clock."""
        return START.replace(tzinfo=UTC).timestamp() + self.now

    def monotonic_seconds(self) -> float:
        """Seconds since the start."""
        return self.now

    def bits(self, count: int) -> int:
        """A different number each time."""
        self._bits += 1
        return self._bits % (1 << count)

    def fraction(self) -> float:
        """The most jitter."""
        return 1.0

    async def pause(self, seconds: float) -> None:
        """Move the time."""
        self.paused.append(seconds)
        self.now += seconds


def task_id(number: int) -> TaskId:
    """A task id that is the same in every run."""
    return TaskId(make_id(1_700_000_000_000, 7, number))


def summary_row(number: int, **changes: object) -> ClaimedRow:
    """A USER_SUMMARY row of task ``number`` for its owner."""
    row = ClaimedRow(
        outbox_id=make_id(1_700_000_000_000 + number, 7, number),
        bucket=7,
        aggregate_type=AggregateType.TASK,
        aggregate_id=task_id(number),
        aggregate_version=1,
        kind=OutboxKind.PUBLISH,
        projection=Projection.USER_SUMMARY,
        audience=Audience.OWNER,
        tenant_id=TENANT,
        owner_id=OWNER,
        payload=b'{"kind":"task.summary"}',
        traceparent="",
        age_seconds=0.0,
        failures=0,
    )
    return replace(row, **changes)  # type: ignore[arg-type]


def detail_row(number: int, version: int, task: int) -> ClaimedRow:
    """A TASK_DETAIL row of a task's version."""
    return summary_row(
        number,
        aggregate_id=task_id(task),
        aggregate_version=version,
        projection=Projection.TASK_DETAIL,
        audience=Audience.VIEWERS,
        payload=None,
    )


def task_view(task: int, version: int) -> TaskView:
    """A task without steps at a version."""
    envelope = TaskEnvelope(
        task_id=task_id(task),
        workflow_id=WorkflowId(make_id(1_700_000_000_000, 7, 0)),
        bucket=7,
        tenant_id=TENANT,
        authority_scope="scope",
        owner_id=OWNER,
        client_task_key=f"task-{task}",
        creation_digest=bytes(32),
        title="A task",
        task_type="DOCUMENT",
        product_id="",
        priority=0,
        coordinator_producer="coordinator",
        policy_executors=(),
        input_ref="",
        created_at=START,
    )
    state = TaskState(
        envelope=envelope,
        attempt=1,
        version=version,
        row_revision=version,
        lifecycle=Lifecycle.PENDING,
        business_status="PENDING",
        cancel_requested=False,
        shared=False,
        weight_total=1,
        progress_points=0,
        open_steps=0,
        stale_steps=0,
        degraded_steps=0,
        producer_seqs={},
        failure=None,
        started_at=None,
        finished_at=None,
        duration_ms=None,
        duration_source=None,
        committed_at=START,
    )
    return TaskView(task=state, steps=(), as_of=START)


@dataclass(slots=True)
class StoredRow:
    """One row of the fake table."""

    row: ClaimedRow
    status: str = "PENDING"
    due_at: float | None = 0.0
    token: bytes | None = None
    last_error: str = ""


class FakeOutbox:
    """Ports ``Outbox`` and ``OutboxUpkeep`` in memory, on the virtual clock."""

    def __init__(self, time: VirtualTime, rows: Sequence[ClaimedRow] = ()) -> None:
        self._time = time
        self.table = {row.outbox_id: StoredRow(row) for row in rows}
        self.failing: dict[str, int] = {}
        """How often each method still fails."""
        self.cleaned: list[tuple[bytes, int, int]] = []
        self.clean_answers: list[tuple[int, bytes | None]] = []

    def status_of(self, row: ClaimedRow) -> str:
        """The row's status."""
        return self.table[row.outbox_id].status

    def statuses(self) -> list[str]:
        """Of all rows."""
        return [one.status for one in self.table.values()]

    async def claim(self, token: bytes, limit: int, lease_seconds: float) -> Claim:
        """See ``Outbox``."""
        self._fail("claim")
        due = [one for one in self.table.values() if one.due_at is not None and one.due_at <= self._time.now]
        due.sort(key=lambda one: (one.due_at, one.row.outbox_id))
        rows = []
        for one in due[:limit]:
            rows.append(replace(one.row, lease_expired=one.status == "PROCESSING"))
            one.status, one.token, one.due_at = "PROCESSING", token, self._time.now + lease_seconds
        return Claim(token, tuple(rows))

    async def mark_published(self, token: bytes, rows: Sequence[ClaimedRow]) -> int:
        """See ``Outbox``."""
        return self._mark("mark_published", token, rows, "PUBLISHED", None)

    async def mark_failed(self, token: bytes, rows: Sequence[ClaimedRow], delay_seconds: float, cause: str) -> int:
        """See ``Outbox``."""
        return self._mark("mark_failed", token, rows, "PENDING", self._time.now + delay_seconds, cause)

    async def mark_dead(self, token: bytes, rows: Sequence[ClaimedRow], cause: str) -> int:
        """See ``Outbox``."""
        return self._mark("mark_dead", token, rows, "DEAD", None, cause)

    async def release(self, token: bytes, rows: Sequence[ClaimedRow], delay_seconds: float) -> int:
        """See ``Outbox``."""
        return self._mark("release", token, rows, "PENDING", self._time.now + delay_seconds)

    async def backlog(self) -> Backlog:
        """See ``OutboxUpkeep``."""
        self._fail("backlog")
        left = sum(one.due_at is not None for one in self.table.values())
        return Backlog(self._time.now, {"READY": left, "WAITING": 0, "DEAD": 0})

    async def clean_batch(self, after: bytes, retention_seconds: int, limit: int) -> tuple[int, bytes | None]:
        """See ``OutboxUpkeep``; answers what the test prepared."""
        self.cleaned.append((after, retention_seconds, limit))
        return self.clean_answers.pop(0) if self.clean_answers else (0, None)

    def _mark(
        self,
        name: str,
        token: bytes,
        rows: Sequence[ClaimedRow],
        status: str,
        due_at: float | None,
        cause: str | None = None,
    ) -> int:
        self._fail(name)
        ours = [self.table[row.outbox_id] for row in rows if self.table[row.outbox_id].token == token]
        for one in ours:
            one.status, one.due_at, one.token = status, due_at, None
            if cause is not None:
                one.last_error = cause
                one.row = replace(one.row, failures=one.row.failures + 1)
        return len(ours)

    def _fail(self, name: str) -> None:
        if self.failing.get(name, 0) > 0:
            self.failing[name] -= 1
            raise OutboxUnavailableError(f"{name} fails")


Answer = Callable[[Publication], Outcome]


@dataclass(slots=True)
class FakePublisher:
    """Port ``Publisher``: answers each publication by a function, or raises ``error``."""

    answer: Answer = lambda _: Published()
    error: Exception | None = None
    before: Callable[[], None] = lambda: None
    """Runs at the beginning of each request."""
    requests: list[list[Publication]] = field(default_factory=list)

    async def publish(self, batch: Sequence[Publication]) -> list[Outcome]:
        """See ``Publisher``."""
        self.before()
        if self.error is not None:
            raise self.error
        # As a real one: whoever else is ready goes on meanwhile.
        await asyncio.sleep(0)
        self.requests.append(list(batch))
        return [self.answer(item) for item in batch]

    async def close(self) -> None:
        """Nothing to close."""


@dataclass(slots=True)
class FakeReader:
    """Port ``RenderReader``; counts its calls."""

    views: dict[TaskId, TaskView] = field(default_factory=dict)
    grants: dict[TaskId, tuple[Grant, ...]] = field(default_factory=dict)
    viewers: dict[WorkflowId, tuple[Grant, ...]] = field(default_factory=dict)
    unreadable: frozenset[TaskId] = frozenset()
    error: Exception | None = None
    calls: list[str] = field(default_factory=list)

    async def task_views(self, task_ids: Sequence[TaskId], *, with_trigger: bool) -> Mapping[TaskId, TaskView]:
        """See ``RenderReader``."""
        assert with_trigger
        self.calls.append("views")
        if self.error is not None:
            raise self.error
        if self.unreadable & set(task_ids):
            raise ValueError("not a lifecycle: NONSENSE")
        return {one: self.views[one] for one in task_ids if one in self.views}

    async def task_grants(self, task_ids: Sequence[TaskId]) -> Mapping[TaskId, tuple[Grant, ...]]:
        """See ``RenderReader``."""
        self.calls.append("grants")
        return {one: self.grants[one] for one in task_ids if one in self.grants}

    async def workflow_grants(self, workflow_ids: Sequence[WorkflowId]) -> Mapping[WorkflowId, tuple[Grant, ...]]:
        """See ``RenderReader``."""
        self.calls.append("workflow grants")
        return {one: self.viewers[one] for one in workflow_ids if one in self.viewers}


class FakeWakeUp:
    """Port ``WakeUpListener``: the test gives the hints."""

    def __init__(self) -> None:
        self.on_hint: OnHint | None = None
        self.stopped = 0

    async def start(self, on_hint: OnHint) -> None:
        """See ``WakeUpListener``."""
        self.on_hint = on_hint

    async def stop(self) -> None:
        """See ``WakeUpListener``."""
        self.stopped += 1


def plain_detail(view: TaskView) -> dict[str, object]:
    """A small detail message."""
    return {"kind": "task.detail", "taskVersion": str(view.task.version)}


class Bench:
    """A relay loop with a fake on every side."""

    def __init__(
        self,
        rows: Sequence[ClaimedRow] = (),
        *,
        config: RelayConfig | None = None,
        reader: RenderReader | None = None,
        render_detail: RenderDetail = plain_detail,
    ) -> None:
        self.time = VirtualTime()
        self.outbox = FakeOutbox(self.time, rows)
        self.publisher = FakePublisher()
        self.wakeup = FakeWakeUp()
        self.registry = CollectorRegistry()
        self.config = config or RelayConfig()
        self.loop = RelayLoop(
            outbox=self.outbox,
            renderer=BatchRenderer(reader or FakeReader(), render_detail, "1"),
            publisher=self.publisher,
            wakeup=self.wakeup,
            clock=self.time,
            randomness=self.time,
            config=self.config,
            metrics=RelayMetrics(self.registry),
            tracer=NoOpTracer(),
            pause=self.time.pause,
        )

    def metric(self, name: str, **labels: str) -> float:
        """A metric's value; 0 when it was never set."""
        return self.registry.get_sample_value(name, labels) or 0.0

    def published_keys(self) -> list[str]:
        """The idempotency keys of everything sent, in order."""
        return [item.idempotency_key for request in self.publisher.requests for item in request]
