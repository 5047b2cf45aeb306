"""A ward of running executions over a real database: silence is made in the table, nothing waits for a timeout."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import orjson
from taskstatus_pb.v1 import common_pb2, heartbeat_service_pb2, query_service_pb2

from scripts.stack.devkeys import DevKeys
from taskstatus.adapters.clock import SystemClock, SystemRandomness
from taskstatus.adapters.memory.definitions import MemoryRegistry
from taskstatus.adapters.mysql.engine import Database, open_database
from taskstatus.adapters.mysql.reader import MySqlTaskReader
from taskstatus.adapters.mysql.transactions import MySqlTaskStore
from taskstatus.adapters.telemetry.metrics import ServiceMetrics
from taskstatus.adapters.wake_up import NoWakeUp
from taskstatus.application.ids_factory import IdFactory
from taskstatus.bootstrap import OneShard
from taskstatus.bootstrap.health import health_parts
from taskstatus.domain.ids import parse_execution_id, parse_task_id
from taskstatus.domain.notifications import OutboxTools
from taskstatus.runtime.health_reconciler import HealthReconciler
from taskstatus.runtime.lanes import LaneConfig, Lanes
from tests.integration.service.conftest import OpenSite, Site, settings_for
from tests.support.clients import activate, new_task
from tests.unit.service_kit import FakeClock

HEALTH = (common_pb2.STEP_HEALTH_CHANGED, common_pb2.WORKER_LOST)
PATIENCE_SECONDS = 30.0


@dataclass
class Ward:
    """Two replicas that believe silence at once, and a look into the tables."""

    sites: tuple[Site, Site]
    database: Database
    url: str

    @property
    def site(self) -> Site:
        """The first replica."""
        return self.sites[0]

    async def sql(self, statement: str, *parameters: Any) -> Any:
        """Run one statement; rows of a query."""
        async with self.database.writer.connect() as connection:
            result = await connection.exec_driver_sql(statement, parameters)
            return result.all() if result.returns_rows else result.rowcount

    async def running(self, **spec: Any) -> Any:
        """The context of an execution that has started."""
        task_id = await new_task(self.site.coordinator, **spec)
        context = await activate(self.site.coordinator, task_id)
        await self.report(context, 1, common_pb2.STEP_STARTED)
        return context

    async def report(self, context: Any, seq: int, event_type: Any, **more: Any) -> Any:
        """Report as the execution."""
        return await self.site.worker.report(
            event_type=event_type, source_seq=seq, execution_handle=context.execution_handle, **more
        )

    async def beat(self, context: Any, seq: int, site: Site | None = None) -> Any:
        """One heartbeat by a unary call."""
        worker = (site or self.site).worker
        beat = heartbeat_service_pb2.Heartbeat(execution_handle=context.execution_handle, heartbeat_seq=seq)
        request = heartbeat_service_pb2.BatchHeartbeatRequest(heartbeats=[beat])
        return (await worker.call(worker.heartbeats.BatchHeartbeat, request)).results[0]

    async def be_silent(self, *contexts: Any, seconds: int = 61) -> None:
        """Let the last sign of life, and STALE with its deadlines, lie so much further back."""
        for context in contexts:
            times = ("opened_at", "last_heartbeat_at", "deadline_at", "stale_since", "stuck_at")
            changes = ",".join(f"{column}={column}-INTERVAL {seconds} SECOND" for column in times)
            execution_id = parse_execution_id(context.execution_id)
            await self.sql(f"UPDATE task_execution_lease SET {changes} WHERE execution_id=%s", execution_id)

    async def look(self) -> int:
        """One round of both replicas at the same time; how many changes they recorded."""
        return sum(await asyncio.gather(*(site.service.reconciler.run_once() for site in self.sites)))

    async def events(self, context: Any) -> list[query_service_pb2.TimelineEvent]:
        """The task's timeline, whose versions have no gap."""
        coordinator = self.site.coordinator
        request = query_service_pb2.ListTaskEventsRequest(task_id=context.task_id, limit=500)
        events = list((await coordinator.call(coordinator.query.ListTaskEvents, request)).events)
        assert [event.task_version for event in events] == list(range(1, len(events) + 1))
        return events

    async def signs(self, context: Any) -> list[str]:
        """What was recorded about the task's health, in order."""
        return [event.reason for event in await self.events(context) if event.event_type in HEALTH]

    async def snapshot(self, context: Any) -> query_service_pb2.TaskSnapshot:
        """As a person sees it."""
        owner = self.site.owner
        request = query_service_pb2.GetTaskRequest(task_id=context.task_id)
        return (await owner.call(owner.query.GetTask, request)).task

    async def until(self, condition: Callable[[], Awaitable[bool]], what: str) -> None:
        """Return once the condition holds."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not await condition():
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"still not: {what}") from None

    async def until_back(self, context: Any) -> None:
        """Return once the task shows no STALE any more."""

        async def back() -> bool:
            return (await self.snapshot(context)).health != common_pb2.STALE

        await self.until(back, "the task is back from STALE")

    async def summaries(self, context: Any, event_type: str) -> list[tuple[dict[str, Any], bool]]:
        """(message, protected) of the summary rows of a fact."""
        rows = await self.sql(
            "SELECT payload,protected FROM task_outbox WHERE aggregate_id=%s AND event_type=%s"
            " AND projection='USER_SUMMARY' ORDER BY aggregate_version",
            parse_task_id(context.task_id),
            event_type,
        )
        return [(json.loads(payload), bool(protected)) for payload, protected in rows]


@asynccontextmanager
async def open_ward(open_site: OpenSite, url: str, **settings: str) -> AsyncIterator[Ward]:
    """Two replicas over the module's schema, without work of earlier tests to look at."""
    sites = [await open_site(health_grace_seconds="0", heartbeat_persist_seconds="1", **settings) for _ in range(2)]
    database = open_database(url)
    ward = Ward((sites[0], sites[1]), database, url)
    await ward.sql("UPDATE task_execution_lease SET deadline_at=NULL,stuck_at=NULL WHERE bucket>=0")
    try:
        yield ward
    finally:
        await database.dispose()


@asynccontextmanager
async def watching(url: str, keys: DevKeys, **settings: str) -> AsyncIterator[tuple[HealthReconciler, FakeClock]]:
    """The reconciler and lanes of a replica, on a clock that the test moves."""
    clock, metrics = FakeClock(), ServiceMetrics()
    database = open_database(url)
    tools = OutboxTools(new_id=IdFactory(clock, SystemRandomness()).new, to_json=orjson.dumps)
    store = MySqlTaskStore(database.writer, SystemClock(), SystemRandomness())
    lanes = Lanes(store, MemoryRegistry(), OneShard(), clock, tools, NoWakeUp(), metrics, LaneConfig())
    reader = MySqlTaskReader(database.reader)
    given = settings_for(url, keys, **settings)
    parts = health_parts(given, reader, lanes, clock, metrics)
    try:
        yield parts.reconciler(given, clock, SystemRandomness(), metrics), clock
    finally:
        await lanes.stop()
        await database.dispose()
