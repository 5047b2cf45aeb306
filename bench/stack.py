"""The servers and processes of one run, all its own: started in a folder of the run, ended with it.

``BenchServers`` are there for the whole run. A ``BenchStack`` is one schema with a status service of its own: sections
that must not see one another's rows take one each, builds that are compared under different settings too.
"""

from __future__ import annotations

import asyncio
import dataclasses
import importlib.util
import itertools
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import make_url
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from bench import workload
from bench.plan import ASYNCIO, PRODUCT_DRIVER, UVLOOP
from scripts.stack import centrifugo, devkeys, ports, processes, programs, servers, services
from scripts.stack.processes import Identity
from scripts.stack.progress import Progress
from scripts.stack.provide import Provider
from taskstatus.adapters.clock import SystemClock
from taskstatus.adapters.mysql.engine import driver_url
from taskstatus.adapters.mysql.migrate import migrate
from taskstatus.adapters.tokens.dev_tokens import DevPerson, DevService, mint_person_token, mint_service_token
from taskstatus.application.identity import Role

MYSQL_OPTIONS = ("--innodb-buffer-pool-size=1G", "--innodb-redo-log-capacity=1G")
"""On top of the server's own defaults: binary log on and flushed, redo log flushed, at every commit."""

SERVE, RELAY = "serve", "relay"
DATABASE, CENTRIFUGO = "database", "centrifugo"
UNLIMITED = {
    f"TASKSTATUS_{name}": "1e9"
    for name in ("EVENTS_PER_SECOND", "BURST_EVENTS", "HEARTBEATS_PER_SECOND", "BURST_HEARTBEATS")
}
"""The limits of one identity are checked as ever; they are only not what is measured."""
TOKEN_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class Engine:
    """What the service runs on."""

    driver: str = PRODUCT_DRIVER
    loop: str = UVLOOP

    @property
    def is_installed(self) -> bool:
        """Whether the driver can be imported here."""
        return importlib.util.find_spec(self.driver) is not None

    def url(self, plain: str) -> str:
        """A database URL that names the driver."""
        return make_url(plain).set(drivername=f"mysql+{self.driver}").render_as_string(hide_password=False)


@dataclass
class BenchStack:
    """One schema and its processes. ``start_relay`` comes later: nothing is published while builds are compared."""

    folder: Path
    database_url: str
    """Without a driver: what is not the service takes its own."""
    settings: dict[str, str]
    versions: tuple[str, ...]
    pids: dict[str, int]
    keys: devkeys.DevKeys
    _stack: ExitStack
    engine: Engine = field(default_factory=Engine)
    _addresses: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def grpc_target(self) -> str:
        """The status service."""
        return self._addresses[SERVE]["TASKSTATUS_GRPC_LISTEN"]

    @property
    def grpc_targets(self) -> list[str]:
        """Every replica of the status service."""
        return [each["TASKSTATUS_GRPC_LISTEN"] for each in self._addresses.values() if "TASKSTATUS_GRPC_LISTEN" in each]

    @property
    def service_pids(self) -> list[int]:
        """Of the same, in the same order."""
        return [self.pids[name] for name, each in self._addresses.items() if "TASKSTATUS_GRPC_LISTEN" in each]

    @property
    def relay_metrics_url(self) -> str:
        """The relay's ``/metrics``."""
        return f"http://{self._addresses[RELAY]['TASKSTATUS_METRICS_LISTEN']}/metrics"

    def address(self, process: str, setting: str) -> str:
        """Where a process of the run listens, by the variable that it was told so."""
        return self._addresses[process][setting]

    def worker_token(self) -> str:
        """The JWT of the service that reports."""
        service = DevService(workload.TENANT, workload.SCOPE, workload.WORKER, frozenset({Role.WORKER}))
        return mint_service_token(self.keys.identity_file, SystemClock(), service, ttl_seconds=TOKEN_SECONDS)

    def person_token(self, user_id: str) -> str:
        """The JWT of a person."""
        return mint_person_token(self.keys.identity_file, SystemClock(), DevPerson(workload.TENANT, user_id))

    def start_relay(self, name: str = RELAY, **more: str) -> Identity:
        """Start an outbox relay, which gets ``more`` settings; its pid goes by ``name``."""
        return self._start(RELAY, name, more)

    def start_service(self, name: str = SERVE) -> None:
        """Start the status service, or under another name a further replica of it."""
        self._start(SERVE, name, {"TASKSTATUS_DATABASE_URL": self.engine.url(self.database_url)})

    def stop(self, name: str, identity: Identity) -> None:
        """End a process before the others."""
        _stop(identity)
        del self.pids[name]

    def _start(self, kind: str, name: str, more: Mapping[str, str]) -> Identity:
        service = next(service for service in services.SERVICES if service.name == kind)
        if kind == SERVE and self.engine.loop == ASYNCIO:
            service = dataclasses.replace(service, command=("bin/python", "-m", "bench.serve_on_asyncio"))
        self._addresses[name] = {key: f"{ports.HOST}:{ports.any_free()}" for key in service.listens}
        settings = {**self.settings, **more}
        identity = programs.start(services.program(service, settings, self._addresses[name], self._log(name)))
        self._stack.callback(_stop, identity)
        self.pids[name] = identity.pid
        return identity

    def _log(self, name: str) -> Path:
        return self.folder / f"{make_url(self.database_url).database}-{name}.log"


def _stop(identity: Identity) -> None:
    processes.stop(identity)


@dataclass
class BenchServers:
    """MySQL, Redis and Centrifugo of one run."""

    folder: Path
    mysql: servers.RunningServer
    redis: servers.RunningServer
    realtime: servers.RunningCentrifugo
    keys: devkeys.DevKeys
    engine: Engine
    progress: Progress
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def versions(self) -> tuple[str, ...]:
        """Of the servers."""
        return (self.mysql.version, self.redis.version, self.realtime.version)

    @contextmanager
    def site(
        self, more: Mapping[str, str] | None = None, *, serving: bool = True, engine: Engine | None = None
    ) -> Iterator[BenchStack]:
        """A new schema, dropped afterwards, and its status service, which gets ``more`` settings."""
        url = make_url(self.mysql.url).set(database=f"bench_{next(self._numbers)}")
        plain = url.render_as_string(hide_password=False)
        with ExitStack() as stack:
            stack.callback(lambda: asyncio.run(_drop(plain)))
            bench = BenchStack(
                folder=self.folder,
                database_url=plain,
                settings=_settings(plain, self.redis.url, self.keys, self.realtime.ports)
                | UNLIMITED
                | dict(more or {}),
                versions=self.versions,
                pids={DATABASE: self.mysql.pid, CENTRIFUGO: self.realtime.pid},
                keys=self.keys,
                _stack=stack,
                engine=engine or self.engine,
            )
            with self.progress.step("migrations and status service" if serving else "migrations"):
                asyncio.run(migrate(plain))
                if serving:
                    bench.start_service()
            yield bench


async def _drop(url: str) -> None:
    parsed = driver_url(url)
    engine = create_async_engine(parsed.set(database=""), poolclass=NullPool, isolation_level="AUTOCOMMIT")
    async with engine.connect() as connection:
        await connection.exec_driver_sql(f"DROP DATABASE IF EXISTS `{parsed.database}`")
    await engine.dispose()


@contextmanager
def running_servers(folder: Path, progress: Progress, engine: Engine | None = None) -> Iterator[BenchServers]:
    """The servers of one run; ``engine`` is what its services run on."""
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
        yield BenchServers(folder, mysql, redis, realtime, keys, engine or Engine(), progress)


@contextmanager
def running_stack(folder: Path, progress: Progress, **more: str) -> Iterator[BenchStack]:
    """Servers, one schema and its status service, which gets ``more`` settings (``TASKSTATUS_…``)."""
    with running_servers(folder, progress) as all_servers, all_servers.site(more) as bench:
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
