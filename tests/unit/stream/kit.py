"""A stream over the in-memory store, with real lanes whose transactions a test can hold back."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import uuid4

from taskstatus_pb.v1 import bind_execution_service_pb2 as pb
from taskstatus_pb.v1 import common_pb2, report_service_pb2

from taskstatus.adapters.canonical import canonicalize
from taskstatus.adapters.definitions.schemas import CompiledSchemas
from taskstatus.adapters.memory.audit import MemoryAudit
from taskstatus.adapters.memory.lease_store import MemoryLeaseStore
from taskstatus.adapters.memory.renewal import MemoryRenewal
from taskstatus.application.data_rules import DataRules
from taskstatus.application.executions import BoundExecution
from taskstatus.application.heartbeats import Heartbeats
from taskstatus.application.identity import Role, ServiceIdentity
from taskstatus.application.rate_limit import RateLimit, RateLimiter
from taskstatus.application.report import Rejections, Reporting
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.ids import ExecutionId
from taskstatus.domain.reasons import Reason
from taskstatus.domain.standing import ExecutionStanding
from taskstatus.entrypoints.grpc.stream_config import StreamConfig, StreamParts
from taskstatus.entrypoints.grpc.stream_session import StreamSession
from tests.unit.factories import PARSER, a_task_spec, a_workflow_command, an_activation
from tests.unit.runtime.lane_kit import LaneKit
from tests.unit.service_kit import a_service, drive

Response = pb.StreamExecutionsResponse


@dataclass
class FakeBeats:
    """The beats of one binding."""

    binder: FakeBinder
    standing: ExecutionStanding
    on_standing: Callable[[ExecutionStanding], None]
    on_asked: Callable[[], None] | None = None
    taken: list[int] = field(default_factory=list)
    is_closed: bool = False

    def beat(self, heartbeat_seq: int, round_trip_ms: float) -> Reason | None:
        """Takes what runs."""
        if not self.standing.has_open_lease:
            return Reason.TRANSITION_NOT_ALLOWED
        self.taken.append(heartbeat_seq)
        return None

    def close(self) -> None:
        """Forget it."""
        self.is_closed = True
        self.binder.live.pop(self.standing.execution_id, None) if self.binder.live.get(
            self.standing.execution_id
        ) is self else None


@dataclass
class FakeBinder:
    """Keeps the latest binding of each execution."""

    live: dict[ExecutionId, FakeBeats] = field(default_factory=dict)
    full: bool = False

    def bind(
        self,
        standing: ExecutionStanding,
        on_standing: Callable[[ExecutionStanding], None],
        on_asked: Callable[[], None] | None = None,
    ) -> FakeBeats:
        """See the port."""
        if self.full:
            raise RefusedError(Reason.RATE_LIMITED, "too many executions are bound here")
        beats = self.live[standing.execution_id] = FakeBeats(self, standing, on_standing, on_asked)
        return beats


class StreamKit:
    """One stream of the parsing service; ``answers`` are those written so far, by correlation."""

    def __init__(self, *, limit: RateLimit | None = None, lanes: dict[str, Any] | None = None, **config: Any) -> None:
        self.lanes = LaneKit(**(lanes or {}))
        self.kit = self.lanes.kit
        self.binder = FakeBinder()
        self.admission = _Admits()
        self.leases = MemoryLeaseStore(self.kit.store)
        self.renewal = MemoryRenewal()
        self.answers: dict[int, Response] = {}
        self.notices: list[pb.StreamExecutionNotice] = []
        self.going_away = 0
        self.is_writing = False
        self.order: list[int] = []
        self.may_write = asyncio.Event()
        self.may_write.set()
        self._correlations = itertools.count(1)
        self._tasks = itertools.count(1)
        limiter = RateLimiter(self.kit.clock, limit or RateLimit())
        reporting = Reporting(
            self.kit.executions,
            DataRules(self.kit.definitions, CompiledSchemas()),
            canonicalize,
            self.lanes.lanes,
            limiter,
            Rejections(self.kit.observer, MemoryAudit()),
            self.renewal,
        )
        self.parts = StreamParts(
            self.kit.executions,
            reporting,
            cast(Heartbeats, self.admission),
            self.leases,
            self.binder,
            self.kit.clock,
            StreamConfig(**config),
        )
        self.turn = asyncio.Semaphore(self.parts.config.binding_at_once)
        self.session = self.open()

    def open(self, identity: ServiceIdentity | None = None) -> StreamSession:
        """A stream, with a client that reads when ``may_write`` lets it."""
        session = StreamSession(self.parts, identity or a_service(PARSER, Role.WORKER), "", "stream", _spawn, self.turn)
        _spawn(session.outbox.run(self._write))
        return session

    async def _write(self, message: bytes) -> None:
        self.is_writing = True
        await self.may_write.wait()
        self.is_writing = False
        frame = Response.FromString(message)
        if frame.correlation:
            self.answers[frame.correlation] = frame
            self.order.append(frame.correlation)
        self.going_away += frame.notice.going_away
        self.notices.extend(frame.notice.executions)

    def activate(self, attempt: int = 1, task: int | None = None) -> BoundExecution:
        """An attempt of the step of a new task, or of an earlier one."""
        number = next(self._tasks) if task is None else task
        command = a_workflow_command(
            a_task_spec("02_parse"), client_workflow_key=f"wf-{number}", command_id=f"c-{number}"
        )
        task_id = drive(self.kit.registration.create_workflow(command)).tasks[0].envelope.task_id
        activation = an_activation(task_id, attempt=attempt, command_id=f"a-{number}-{attempt}")
        return drive(self.kit.registration.activate(activation))

    async def frame(self, **frame: Any) -> int:
        """Let the session take one frame; its correlation."""
        correlation = next(self._correlations)
        message = pb.StreamExecutionsRequest(correlation=correlation, **frame).SerializeToString()
        await self.session.handle(message)
        return correlation

    async def answer(self, correlation: int) -> Response:
        """Wait for the answer to a frame."""
        await until(lambda: correlation in self.answers)
        return self.answers[correlation]

    async def bind(self, *executions: BoundExecution, by: str = "handle") -> list[pb.StreamBoundResult]:
        """Bind executions by handle or token."""
        wanted = [
            pb.BindExecutionRequest(execution_handle=each.credentials.handle)
            if by == "handle"
            else pb.BindExecutionRequest(execution_token=each.credentials.token)
            for each in executions
        ]
        correlation = await self.frame(bind=pb.StreamBind(executions=wanted))
        return list((await self.answer(correlation)).bound.results)

    async def key_of(self, execution: BoundExecution, by: str = "handle") -> int:
        """The number of an execution."""
        (result,) = await self.bind(execution, by=by)
        assert result.stream_execution_key, result
        return result.stream_execution_key

    async def send(self, *events: report_service_pb2.CompactEvent) -> int:
        """Send events in one frame."""
        return await self.frame(report=pb.StreamReport(events=events))

    async def report(self, *events: report_service_pb2.CompactEvent) -> list[str]:
        """Send events in one frame and wait: each event's reason, or nothing."""
        return reasons_of(await self.answer(await self.send(*events)))

    async def beat(self, *beats: tuple[int, int]) -> list[str]:
        """Send beats and wait: the reasons of those refused."""
        frame = pb.StreamHeartbeat(
            beats=[pb.StreamBeat(stream_execution_key=key, heartbeat_seq=seq) for key, seq in beats]
        )
        answer = await self.answer(await self.frame(heartbeat=frame))
        return [common_pb2.Reason.Name(refused.reason) for refused in answer.beaten.refused]

    def told(self) -> list[tuple[int, str]]:
        """(number, reason) of each notice."""
        return [(each.stream_execution_key, common_pb2.Reason.Name(each.reason)) for each in self.notices]


@dataclass
class _Admits:
    refused_beats: Counter[Reason] = field(default_factory=Counter)

    def admit(self, caller: ServiceIdentity, beats: int) -> None:
        """Everything."""

    def refused(self, reasons: Mapping[Reason, int]) -> None:
        """Count them."""
        self.refused_beats.update(reasons)


_running: set[asyncio.Task[None]] = set()


def _spawn(work: Coroutine[None, None, None]) -> asyncio.Task[None]:
    task = asyncio.get_running_loop().create_task(work)
    _running.add(task)
    task.add_done_callback(_running.discard)
    return task


async def until(condition: Callable[[], Any]) -> None:
    """Let the loop turn until something is so."""
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0)


def reasons_of(answer: Response) -> list[str]:
    """The reason of each event of a frame, or nothing."""
    results = answer.reported.results
    reasons = [result.error.reason if result.HasField("error") else result.reason for result in results]
    return [common_pb2.Reason.Name(reason) if reason else "" for reason in reasons]


def id_of(execution: BoundExecution) -> ExecutionId:
    """The execution."""
    return execution.binding.execution_id


def started(key: int, source_seq: int = 1, event_id: bytes = b"") -> report_service_pb2.CompactEvent:
    """STEP_STARTED."""
    return event(common_pb2.STEP_STARTED, key, source_seq, event_id)


def progress(key: int, source_seq: int, current: float = 1) -> report_service_pb2.CompactEvent:
    """STEP_PROGRESS of ten pages."""
    made = event(common_pb2.STEP_PROGRESS, key, source_seq)
    made.progress.current, made.progress.total = current, 10
    return made


def event(event_type: Any, key: int, source_seq: int, event_id: bytes = b"") -> report_service_pb2.CompactEvent:
    """An event with an id of its own."""
    return report_service_pb2.CompactEvent(
        stream_execution_key=key, event_id=event_id or uuid4().bytes, event_type=event_type, source_seq=source_seq
    )
