"""The servers and processes of one run, all its own: started in a folder of the run, ended with it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench import workload
from scripts.stack import centrifugo, devkeys, ports, processes, programs, servers, services
from scripts.stack.processes import Identity
from scripts.stack.progress import Progress
from scripts.stack.provide import Provider
from taskstatus.adapters.clock import SystemClock
from taskstatus.adapters.mysql.migrate import migrate
from taskstatus.adapters.tokens.dev_tokens import DevPerson, DevService, mint_person_token, mint_service_token
from taskstatus.application.identity import Role

MYSQL_OPTIONS = ("--innodb-buffer-pool-size=1G", "--innodb-redo-log-capacity=1G")
"""On top of the server's own defaults: binary log on and flushed, redo log flushed, at every commit."""

SERVE, RELAY = "serve", "relay"


@dataclass
class BenchStack:
    """Where everything listens. ``start_relay`` comes later: nothing is published while the builds are compared."""

    folder: Path
    database_url: str
    settings: dict[str, str]
    versions: tuple[str, ...]
    pids: dict[str, int]
    keys: devkeys.DevKeys
    _stack: ExitStack
    _addresses: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def grpc_target(self) -> str:
        """The status service."""
        return self._addresses[SERVE]["TASKSTATUS_GRPC_LISTEN"]

    @property
    def relay_metrics_url(self) -> str:
        """The relay's ``/metrics``."""
        return f"http://{self._addresses[RELAY]['TASKSTATUS_METRICS_LISTEN']}/metrics"

    def worker_token(self) -> str:
        """The JWT of the service that reports."""
        service = DevService(workload.TENANT, workload.SCOPE, workload.WORKER, frozenset({Role.WORKER}))
        return mint_service_token(self.keys.identity_file, SystemClock(), service)

    def person_token(self, user_id: str) -> str:
        """The JWT of a person."""
        return mint_person_token(self.keys.identity_file, SystemClock(), DevPerson(workload.TENANT, user_id))

    def start_relay(self) -> None:
        """Start the outbox relay."""
        self._start(RELAY)

    def start_service(self) -> None:
        """Start the status service."""
        self._start(SERVE)

    def _start(self, name: str) -> None:
        service = next(service for service in services.SERVICES if service.name == name)
        self._addresses[name] = {key: f"{ports.HOST}:{ports.any_free()}" for key in service.listens}
        log = self.folder / f"{name}.log"
        identity = programs.start(services.program(service, self.settings, self._addresses[name], log))
        self._stack.callback(_stop, identity)
        self.pids[name] = identity.pid


def _stop(identity: Identity) -> None:
    processes.stop(identity)


@contextmanager
def running_stack(folder: Path, progress: Progress) -> Iterator[BenchStack]:
    """MySQL, Redis, Centrifugo, the schema and the status service."""
    keys = devkeys.ensure(folder / "keys")
    provider = Provider.from_environment(progress)
    with ExitStack() as stack:
        with progress.step("MySQL, Redis, Centrifugo"):
            mysql = servers.start_mysql(folder, options=MYSQL_OPTIONS, own=True, provider=provider)
            assert isinstance(mysql, servers.RunningServer)
            stack.callback(mysql.stop)
            redis = servers.start_redis(folder, own=True, provider=provider)
            assert isinstance(redis, servers.RunningServer)
            stack.callback(redis.stop)
            realtime = _start_centrifugo(folder, keys, provider)
            stack.callback(realtime.stop)
        bench = BenchStack(
            folder=folder,
            database_url=mysql.url,
            settings=_settings(mysql.url, redis.url, keys, realtime.ports),
            versions=(mysql.version, redis.version, realtime.version),
            pids={"database": mysql.pid, "centrifugo": realtime.pid},
            keys=keys,
            _stack=stack,
        )
        with progress.step("migrations and status service"):
            asyncio.run(migrate(mysql.url))
            bench.start_service()
        yield bench


def _start_centrifugo(folder: Path, keys: devkeys.DevKeys, provider: Provider) -> servers.RunningCentrifugo:
    return servers.start_centrifugo(
        folder,
        api_key=keys.centrifugo_api_key_file.read_text().strip(),
        public_key_pem=keys.realtime_public_key_file.read_text(),
        provider=provider,
    )


def _settings(database_url: str, redis_url: str, keys: devkeys.DevKeys, realtime: centrifugo.Ports) -> dict[str, str]:
    return {
        "TASKSTATUS_DATABASE_URL": database_url,
        "TASKSTATUS_REDIS_URL": redis_url,
        "TASKSTATUS_IDENTITY_FILE": str(keys.identity_file),
        "TASKSTATUS_EXECUTION_KEYS_FILE": str(keys.execution_keys_file),
        "TASKSTATUS_REALTIME_KEY_FILE": str(keys.realtime_key_file),
        "TASKSTATUS_REALTIME_KEY_ID": devkeys.KEY_ID,
        "TASKSTATUS_CENTRIFUGO_API_KEY_FILE": str(keys.centrifugo_api_key_file),
        "TASKSTATUS_CENTRIFUGO_GRPC_TARGET": realtime.grpc_target,
        "TASKSTATUS_CENTRIFUGO_API_URL": realtime.api_url,
        "TASKSTATUS_CENTRIFUGO_PUBLIC_URL": realtime.websocket_url,
    }
