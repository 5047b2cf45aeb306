"""The processes: how each is set up, served until it is told to stop, and checked beforehand."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal

import grpc

from taskstatus.adapters.clock import SystemClock
from taskstatus.adapters.mysql.engine import open_database
from taskstatus.adapters.mysql.server_check import ServerNotUsableError, check_server
from taskstatus.adapters.telemetry.logs import configure_logs
from taskstatus.adapters.telemetry.metrics import serve_metrics
from taskstatus.adapters.telemetry.traces import configure_traces
from taskstatus.adapters.tokens.errors import CredentialConfigError
from taskstatus.adapters.tokens.execution_credentials import JwtExecutionCredentials
from taskstatus.adapters.tokens.identity_verifier import JwtIdentityVerifier
from taskstatus.adapters.tokens.realtime_tokens import EcdsaRealtimeTokens
from taskstatus.application.ports_store import StoreUnavailableError
from taskstatus.bootstrap.probes import GrpcHealth
from taskstatus.bootstrap.service import given, open_service
from taskstatus.entrypoints.grpc.server import GrpcConfig, GrpcServer
from taskstatus.settings import Settings, SettingsError

logger = logging.getLogger(__name__)

COLLECT_AFTER = (20_000, 10, 5)
"""Net new objects until a collection of the youngest, and how many of these until one of the elder.

What dies must die by its last reference: under steady load a process makes hardly more objects than it drops, and a
collection of everything can be an hour away. It never begins before the old have grown by a quarter.
"""


def configure_process(settings: Settings, name: str) -> None:
    """Logs, traces and memory of a process called ``name``; call once, after its imports."""
    configure_logs(name, settings.log_format, settings.log_level)
    configure_traces(name)
    # Every event makes some hundred objects that die without a cycle; at Python's default of 700 the collector looks
    # them over for a tenth of the process's time. What is imported lives for ever.
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


async def serve_grpc(settings: Settings) -> None:
    """The service process: gRPC until SIGTERM or SIGINT, then drain (T-1, N-1)."""
    health = GrpcHealth()
    async with open_service(settings, health) as service:
        serve_metrics(settings.metrics_listen, service.metrics.registry)
        config = GrpcConfig(settings.grpc_listen, reflection=settings.grpc_reflection, tls=_tls(settings))
        server = GrpcServer(config, service.dispatch, service.clock, service.streams)
        port = await server.start()
        await health.attach(server)
        service.reconciler.start()
        service.projector.start()
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
        verifier = JwtIdentityVerifier.from_file(given(settings.identity_file), clock)
        await verifier.aclose()
        JwtExecutionCredentials.from_file(given(settings.execution_keys_file), clock)
        EcdsaRealtimeTokens.from_file(given(settings.realtime_key_file), settings.realtime_key_id, clock)
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
