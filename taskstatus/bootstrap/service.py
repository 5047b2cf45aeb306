"""Wires one application service: every adapter and loop behind the ports of the application."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import orjson

from taskstatus.adapters.canonical import canonicalize
from taskstatus.adapters.clock import SystemClock, SystemRandomness
from taskstatus.adapters.definitions.catalogue import Catalogue
from taskstatus.adapters.definitions.registry import CachedRegistry
from taskstatus.adapters.definitions.schemas import CompiledSchemas
from taskstatus.adapters.mysql.audit_table import AuditTable
from taskstatus.adapters.mysql.definition_table import DefinitionTable
from taskstatus.adapters.mysql.engine import PoolLimits, open_database
from taskstatus.adapters.mysql.lease_table import LeaseTable
from taskstatus.adapters.mysql.list_table import ListTable
from taskstatus.adapters.mysql.reader import MySqlTaskReader
from taskstatus.adapters.mysql.transactions import MySqlTaskStore
from taskstatus.adapters.telemetry.metrics import ServiceMetrics
from taskstatus.adapters.tokens.execution_credentials import JwtExecutionCredentials
from taskstatus.adapters.tokens.identity_verifier import JwtIdentityVerifier
from taskstatus.adapters.tokens.realtime_tokens import EcdsaRealtimeTokens
from taskstatus.adapters.wake_up import NoWakeUp, RedisWakeUp
from taskstatus.application.admin import Administration
from taskstatus.application.classification import Classification
from taskstatus.application.data_rules import DataRules
from taskstatus.application.definition_binding import DefinitionBinding
from taskstatus.application.definitions import Definitions
from taskstatus.application.executions import ExecutionCommands, ExecutionDirectory
from taskstatus.application.heartbeats import Heartbeats
from taskstatus.application.ids_factory import IdFactory
from taskstatus.application.links import Links
from taskstatus.application.lookups import Lookups
from taskstatus.application.ports_audit import RejectionAudit
from taskstatus.application.ports_clock import Clock
from taskstatus.application.ports_definitions import DefinitionCatalogue, DefinitionRegistry
from taskstatus.application.ports_health import StuckWork
from taskstatus.application.ports_heartbeats import HealthSignals
from taskstatus.application.ports_lists import TaskListReader
from taskstatus.application.ports_runtime import EventWriter, WakeUp
from taskstatus.application.ports_store import TaskReader, TaskStore
from taskstatus.application.query import Queries
from taskstatus.application.rate_limit import RateLimit, RateLimiter
from taskstatus.application.realtime import Realtime
from taskstatus.application.register import Registration
from taskstatus.application.report import Rejections, Reporting
from taskstatus.application.service import TaskStatusService
from taskstatus.application.task_commands import TaskCommands
from taskstatus.application.task_lists import TaskLists
from taskstatus.application.workflows import Workflows
from taskstatus.bootstrap.health import health_parts
from taskstatus.bootstrap.probes import Announce, DatabaseProbe, GrpcHealth
from taskstatus.bootstrap.workflows import workflow_parts
from taskstatus.domain.dynamic import DynamicLimits
from taskstatus.domain.heartbeat import TermBounds
from taskstatus.domain.notifications import OutboxTools
from taskstatus.entrypoints.grpc.stream_config import StreamConfig, StreamParts
from taskstatus.entrypoints.grpc.stream_server import StreamServer
from taskstatus.entrypoints.wire.call import Dispatch
from taskstatus.entrypoints.wire.dispatch import Dispatcher
from taskstatus.entrypoints.wire.handlers import Handlers
from taskstatus.runtime.audit_writer import AuditConfig, AuditWriter
from taskstatus.runtime.health_reconciler import HealthReconciler
from taskstatus.runtime.heartbeat_coalescer import CoalescerConfig, HeartbeatCoalescer
from taskstatus.runtime.lanes import LaneConfig, Lanes
from taskstatus.runtime.readiness import Readiness, ReadinessConfig
from taskstatus.runtime.shielded_store import ShieldedStore
from taskstatus.runtime.workflow_projector import WorkflowProjector
from taskstatus.settings import Settings

logger = logging.getLogger(__name__)


class OneShard:
    """The ShardMap of a store that is not sharded."""

    def shard_of(self, bucket: int) -> str:
        """Everything is in one place."""
        return "0"


@dataclass(frozen=True, slots=True)
class RunningService:
    """The application service with everything around it, as a transport needs it."""

    dispatch: Dispatch
    clock: Clock
    readiness: Readiness
    metrics: ServiceMetrics
    streams: StreamServer
    reconciler: HealthReconciler
    """Not started: only the service process does."""
    projector: WorkflowProjector
    """Not started either."""

    def is_ready(self) -> bool:
        """Whether traffic should come here."""
        return self.readiness.is_ready


@asynccontextmanager
async def open_service(settings: Settings, server: GrpcHealth | None = None) -> AsyncIterator[RunningService]:
    """The service over the configured database; on leaving it drains its lanes and closes its pools.

    Raises SettingsError and CredentialConfigError for a configuration that cannot work. An unreachable database is no
    error: the service is unready until it answers.
    """
    settings.require("identity_file", "execution_keys_file", "realtime_key_file")
    clock, randomness = SystemClock(), SystemRandomness()
    metrics = ServiceMetrics()
    async with AsyncExitStack() as stack:
        database = open_database(
            settings.database_url.get_secret_value(),
            PoolLimits(writers=settings.database_writers, readers=settings.database_readers),
        )
        stack.push_async_callback(database.dispose)
        wake_up = RedisWakeUp(settings.redis_url.get_secret_value(), clock) if settings.redis_url else NoWakeUp()
        stack.push_async_callback(wake_up.stop)
        mysql_store = MySqlTaskStore(database.writer, clock, randomness, on_pool_wait=metrics.pool_waited)
        store = ShieldedStore(mysql_store)
        stack.push_async_callback(store.drain)
        ids = IdFactory(clock, randomness)
        tools = OutboxTools(new_id=ids.new, to_json=orjson.dumps)
        reader = MySqlTaskReader(database.reader)
        definition_table = DefinitionTable(mysql_store, reader)
        definitions = CachedRegistry(definition_table)
        await definitions.start()
        stack.push_async_callback(definitions.stop)
        axis = workflow_parts(store, reader, tools, wake_up, clock, metrics)
        stack.push_async_callback(axis.projector.stop)
        lanes = Lanes(
            store,
            definitions,
            OneShard(),
            clock,
            tools,
            wake_up,
            metrics,
            _lane_config(settings),
            axis.projector.hint,
        )
        stack.push_async_callback(lanes.stop)
        verifier = JwtIdentityVerifier.from_file(given(settings.identity_file), clock)
        stack.push_async_callback(verifier.aclose)
        heartbeats = _HeartbeatParts(LeaseTable(mysql_store, reader), Links(), _term_bounds(settings))
        health = health_parts(settings, reader, lanes, clock, metrics)
        health.recoveries.start()
        stack.push_async_callback(health.recoveries.stop)
        coalescer = heartbeats.coalescer(settings, clock, health.recoveries, metrics)
        coalescer.start()
        stack.push_async_callback(coalescer.stop)
        reconciler = health.reconciler(settings, clock, randomness, metrics, coalescer)
        stack.push_async_callback(reconciler.stop)
        audit = AuditWriter(AuditTable(database.writer, ids), clock, metrics.audit_dropped, AuditConfig())
        audit.start()
        stack.push_async_callback(audit.stop)
        parts = _Parts(
            settings,
            clock,
            reader,
            store,
            lanes,
            ids,
            tools,
            axis.hints,
            axis.workflows,
            metrics,
            definitions,
            Catalogue(definition_table),
            audit,
            heartbeats,
            coalescer,
            health.stuck,
            ListTable(reader),
        )
        readiness = Readiness(DatabaseProbe(database), Announce(server), clock, ReadinessConfig())
        await readiness.run_once()
        readiness.start()
        stack.push_async_callback(readiness.stop)
        application = parts.service()
        dispatch = Dispatcher(verifier, Handlers(application).by_method(), clock, metrics)
        stream_parts = StreamParts(
            application.executions,
            application.reporting,
            application.heartbeats,
            heartbeats.leases,
            coalescer,
            clock,
            _stream_config(settings),
        )
        streams = StreamServer(stream_parts, dispatch.authenticate, metrics)
        yield RunningService(dispatch, clock, readiness, metrics, streams, reconciler, axis.projector)


@dataclass(frozen=True, slots=True)
class _Parts:
    """What the application service is made of."""

    settings: Settings
    clock: Clock
    reader: TaskReader
    store: TaskStore
    lanes: EventWriter
    ids: IdFactory
    tools: OutboxTools
    wake_up: WakeUp
    workflows: Workflows
    metrics: ServiceMetrics
    definitions: DefinitionRegistry
    catalogue: DefinitionCatalogue
    audit: RejectionAudit
    heartbeats: _HeartbeatParts
    coalescer: HeartbeatCoalescer
    stuck: StuckWork
    list_reader: TaskListReader

    def service(self) -> TaskStatusService:
        settings, definitions = self.settings, self.definitions
        credentials = JwtExecutionCredentials.from_file(
            given(settings.execution_keys_file), self.clock, token_ttl_seconds=settings.execution_token_seconds
        )
        realtime_tokens = EcdsaRealtimeTokens.from_file(
            given(settings.realtime_key_file), settings.realtime_key_id, self.clock
        )
        directory = ExecutionDirectory(self.reader)
        executions = ExecutionCommands(credentials, directory, self.reader, self.clock)
        queries = Queries(self.reader)
        data_rules = DataRules(definitions, CompiledSchemas())
        commands = TaskCommands(self.store, directory, definitions, self.tools, self.wake_up)
        return TaskStatusService(
            registration=Registration(
                self.store, executions, self.ids, self.tools, self.wake_up, definitions, _dynamic_limits(settings)
            ),
            executions=executions,
            reporting=Reporting(
                executions,
                data_rules,
                canonicalize,
                self.lanes,
                RateLimiter(self.clock, RateLimit(settings.events_per_second, settings.burst_events)),
                Rejections(self.metrics, self.audit),
                self.coalescer,
            ),
            queries=queries,
            realtime=Realtime(realtime_tokens, queries, self.workflows, settings.centrifugo_public_url),
            heartbeats=Heartbeats(
                executions,
                self.heartbeats.leases,
                self.coalescer,
                self.heartbeats.links,
                RateLimiter(
                    self.clock,
                    RateLimit(settings.heartbeats_per_second, settings.burst_heartbeats),
                    "sends more heartbeats",
                ),
                self.clock,
                self.metrics,
                self.audit,
                self.heartbeats.bounds,
                token_ttl_seconds=settings.execution_token_seconds,
            ),
            administration=Administration(self.stuck),
            lists=TaskLists(self.list_reader),
            lookups=Lookups(self.list_reader),
            definitions=Definitions(self.catalogue, definitions),
            classification=Classification(commands, DefinitionBinding(definitions), self.tools),
            commands=commands,
            workflows=self.workflows,
        )


@dataclass(frozen=True, slots=True)
class _HeartbeatParts:
    """What unary heartbeats and the coalescer share."""

    leases: LeaseTable
    links: Links
    bounds: TermBounds

    def coalescer(
        self, settings: Settings, clock: Clock, signals: HealthSignals, metrics: ServiceMetrics
    ) -> HeartbeatCoalescer:
        config = CoalescerConfig(persist_every_seconds=settings.heartbeat_persist_seconds)
        return HeartbeatCoalescer(self.leases, clock, signals, metrics, self.links, self.bounds, config)


def given(path: Path | None) -> Path:
    """A file whose setting ``open_service`` has required."""
    assert path is not None
    return path


def _term_bounds(settings: Settings) -> TermBounds:
    return TermBounds(longest_interval_seconds=settings.heartbeat_longest_interval_seconds)


def _dynamic_limits(settings: Settings) -> DynamicLimits:
    return DynamicLimits(
        max_steps=settings.dynamic_steps,
        max_depth=settings.dynamic_depth,
        max_parallel=settings.dynamic_parallel,
        max_per_minute=settings.dynamic_per_minute,
    )


def _lane_config(settings: Settings) -> LaneConfig:
    return LaneConfig(
        lanes_per_shard=settings.lanes,
        max_batch_commands=settings.lane_batch_commands,
        max_queued_commands=settings.lane_queue_commands,
        oldest_accepted=timedelta(seconds=settings.oldest_accepted_event_seconds),
        cached_tasks=settings.lane_cached_tasks,
    )


def _stream_config(settings: Settings) -> StreamConfig:
    return StreamConfig(
        window_items=settings.stream_window_items,
        bound_executions=settings.stream_bound_executions,
        age_seconds=settings.stream_age_seconds,
    )
