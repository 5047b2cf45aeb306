"""Wires the processes: the one place where entrypoints, adapters and runtime meet through the application's ports."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import grpc
import orjson

from taskstatus.adapters.canonical import canonicalize
from taskstatus.adapters.clock import SystemClock, SystemRandomness
from taskstatus.adapters.definitions.registry import CachedRegistry
from taskstatus.adapters.definitions.schemas import CompiledSchemas
from taskstatus.adapters.mysql.audit_table import AuditTable
from taskstatus.adapters.mysql.definition_table import DefinitionTable
from taskstatus.adapters.mysql.engine import Database, PoolLimits, open_database
from taskstatus.adapters.mysql.reader import MySqlTaskReader
from taskstatus.adapters.mysql.server_check import ServerNotUsableError, check_server
from taskstatus.adapters.mysql.transactions import MySqlTaskStore
from taskstatus.adapters.telemetry.logs import configure_logs
from taskstatus.adapters.telemetry.metrics import ServiceMetrics, serve_metrics
from taskstatus.adapters.telemetry.traces import configure_traces
from taskstatus.adapters.tokens.errors import CredentialConfigError
from taskstatus.adapters.tokens.execution_credentials import JwtExecutionCredentials
from taskstatus.adapters.tokens.identity_verifier import JwtIdentityVerifier
from taskstatus.adapters.tokens.realtime_tokens import EcdsaRealtimeTokens
from taskstatus.adapters.wake_up import NoWakeUp, RedisWakeUp
from taskstatus.application.data_rules import DataRules
from taskstatus.application.executions import ExecutionCommands, ExecutionDirectory
from taskstatus.application.ids_factory import IdFactory
from taskstatus.application.ports_audit import RejectionAudit
from taskstatus.application.ports_clock import Clock
from taskstatus.application.ports_definitions import DefinitionRegistry
from taskstatus.application.ports_runtime import EventWriter, WakeUp
from taskstatus.application.ports_store import StoreUnavailableError, TaskReader, TaskStore
from taskstatus.application.query import Queries
from taskstatus.application.rate_limit import RateLimit, RateLimiter
from taskstatus.application.realtime import Realtime
from taskstatus.application.register import Registration
from taskstatus.application.report import Rejections, Reporting
from taskstatus.application.service import TaskStatusService
from taskstatus.domain.notifications import OutboxTools
from taskstatus.entrypoints.grpc.server import GrpcConfig, GrpcServer
from taskstatus.entrypoints.wire.call import Dispatch
from taskstatus.entrypoints.wire.dispatch import Dispatcher
from taskstatus.entrypoints.wire.handlers import Handlers
from taskstatus.runtime.audit_writer import AuditConfig, AuditWriter
from taskstatus.runtime.lanes import LaneConfig, Lanes
from taskstatus.runtime.readiness import Readiness, ReadinessConfig
from taskstatus.runtime.shielded_store import ShieldedStore
from taskstatus.settings import Settings, SettingsError

logger = logging.getLogger(__name__)

COLLECT_AFTER = (20_000, 10, 50)
"""Net new objects until a collection of the youngest, and how many of these until one of the elder."""


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

    def is_ready(self) -> bool:
        """Whether traffic should come here."""
        return self.readiness.is_ready


def configure_process(settings: Settings, name: str) -> None:
    """Logs, traces and memory of a process called ``name``; call once, after its imports."""
    configure_logs(name, settings.log_format, settings.log_level)
    configure_traces(name)
    # Every event makes some hundred objects that die without a cycle; at Python's default of 700 the collector looks
    # them over for a tenth of the process's time. What is imported lives for ever.
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


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
        store = ShieldedStore(MySqlTaskStore(database.writer, clock, randomness, on_pool_wait=metrics.pool_waited))
        stack.push_async_callback(store.drain)
        ids = IdFactory(clock, randomness)
        tools = OutboxTools(new_id=ids.new, to_json=orjson.dumps)
        lanes = Lanes(store, OneShard(), clock, tools, wake_up, metrics, _lane_config(settings))
        stack.push_async_callback(lanes.stop)
        verifier = JwtIdentityVerifier.from_file(_path(settings.identity_file), clock)
        stack.push_async_callback(verifier.aclose)
        reader = MySqlTaskReader(database.reader)
        definitions = CachedRegistry(DefinitionTable(database.reader, database.writer))
        await definitions.start()
        stack.push_async_callback(definitions.stop)
        audit = AuditWriter(AuditTable(database.writer, ids), clock, metrics.audit_dropped, AuditConfig())
        audit.start()
        stack.push_async_callback(audit.stop)
        parts = _Parts(settings, clock, reader, store, lanes, ids, tools, wake_up, metrics, definitions, audit)
        readiness = Readiness(_DatabaseProbe(database), _Announce(server), clock, ReadinessConfig())
        await readiness.run_once()
        readiness.start()
        stack.push_async_callback(readiness.stop)
        dispatch = Dispatcher(verifier, Handlers(parts.service()).by_method(), clock, metrics)
        yield RunningService(dispatch, clock, readiness, metrics)


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
    metrics: ServiceMetrics
    definitions: DefinitionRegistry
    audit: RejectionAudit

    def service(self) -> TaskStatusService:
        settings, definitions = self.settings, self.definitions
        credentials = JwtExecutionCredentials.from_file(
            _path(settings.execution_keys_file), self.clock, token_ttl_seconds=settings.execution_token_seconds
        )
        realtime_tokens = EcdsaRealtimeTokens.from_file(
            _path(settings.realtime_key_file), settings.realtime_key_id, self.clock
        )
        executions = ExecutionCommands(credentials, ExecutionDirectory(self.reader), self.reader, self.clock)
        queries = Queries(self.reader)
        data_rules = DataRules(definitions, CompiledSchemas())
        return TaskStatusService(
            registration=Registration(self.store, executions, self.ids, self.tools, self.wake_up, definitions),
            executions=executions,
            reporting=Reporting(
                executions,
                data_rules,
                canonicalize,
                self.lanes,
                RateLimiter(self.clock, RateLimit(settings.events_per_second, settings.burst_events)),
                Rejections(self.metrics, self.audit),
            ),
            queries=queries,
            realtime=Realtime(realtime_tokens, queries, settings.centrifugo_public_url),
        )


def _lane_config(settings: Settings) -> LaneConfig:
    return LaneConfig(
        lanes_per_shard=settings.lanes,
        max_batch_commands=settings.lane_batch_commands,
        max_queued_commands=settings.lane_queue_commands,
        oldest_accepted=timedelta(seconds=settings.oldest_accepted_event_seconds),
        cached_tasks=settings.lane_cached_tasks,
    )


def _path(path: Path | None) -> Path:
    assert path is not None
    return path


class GrpcHealth:
    """Where readiness is announced: the health service of a server that is made later than the probe."""

    def __init__(self) -> None:
        self.server: GrpcServer | None = None
        self._serving = False

    async def announce(self, ready: bool) -> None:
        """Keep the state, and pass it on when the server exists."""
        self._serving = ready
        if self.server is not None:
            await self.server.set_serving(ready)

    async def attach(self, server: GrpcServer) -> None:
        """The server exists now."""
        self.server = server
        await server.set_serving(self._serving)


class _Announce:
    def __init__(self, health: GrpcHealth | None) -> None:
        self._health = health

    async def __call__(self, ready: bool) -> None:
        if self._health is not None:
            await self._health.announce(ready)


class _DatabaseProbe:
    """Whether the database answers and is fit to be written to; its warnings are logged once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._reported = False

    async def __call__(self) -> bool:
        try:
            report = await check_server(self._database.writer)
        except StoreUnavailableError as error:
            logger.warning("the database cannot be reached: %s", error)
            return False
        if not self._reported:
            self._reported = True
            logger.info("database ready", extra={"product": report.product, "version": report.version})
            for warning in report.warnings:
                logger.warning("database: %s", warning)
        return True


async def serve_grpc(settings: Settings) -> None:
    """The service process: gRPC until SIGTERM or SIGINT, then drain (T-1, N-1)."""
    health = GrpcHealth()
    async with open_service(settings, health) as service:
        serve_metrics(settings.metrics_listen, service.metrics.registry)
        config = GrpcConfig(settings.grpc_listen, reflection=settings.grpc_reflection, tls=_tls(settings))
        server = GrpcServer(config, service.dispatch, service.clock)
        port = await server.start()
        await health.attach(server)
        logger.info("serving gRPC", extra={"listen": settings.grpc_listen, "port": port})
        await until_stopped()
        logger.info("draining")
        await server.stop()
        health.server = None


async def check_configuration(settings: Settings) -> list[str]:
    """What of a configuration does not work: its files, its keys, its database. Empty when all does."""
    problems: list[str] = []
    clock = SystemClock()
    try:
        settings.require("identity_file", "execution_keys_file", "realtime_key_file")
        verifier = JwtIdentityVerifier.from_file(_path(settings.identity_file), clock)
        await verifier.aclose()
        JwtExecutionCredentials.from_file(_path(settings.execution_keys_file), clock)
        EcdsaRealtimeTokens.from_file(_path(settings.realtime_key_file), settings.realtime_key_id, clock)
    except (SettingsError, CredentialConfigError) as error:
        problems.append(str(error))
    database = open_database(settings.database_url.get_secret_value())
    try:
        report = await check_server(database.writer)
        problems.extend(f"warning: {warning}" for warning in report.warnings)
    except (StoreUnavailableError, ServerNotUsableError) as error:
        problems.append(f"database: {error}")
    finally:
        await database.dispose()
    return problems


async def until_stopped() -> None:
    """Return at the first SIGTERM or SIGINT."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    await stopped.wait()


def _tls(settings: Settings) -> grpc.ServerCredentials | None:
    """TLS, and mutual TLS when a client CA is given."""
    if settings.grpc_tls_cert_file is None or settings.grpc_tls_key_file is None:
        return None
    pair = (settings.grpc_tls_key_file.read_bytes(), settings.grpc_tls_cert_file.read_bytes())
    client_ca = settings.grpc_tls_client_ca_file
    return grpc.ssl_server_credentials(
        [pair],
        root_certificates=client_ca.read_bytes() if client_ca else None,
        require_client_auth=client_ca is not None,
    )
