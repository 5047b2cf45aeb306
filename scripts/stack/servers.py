"""Real servers for tests and benches: started in a folder of the caller, ended by the caller.

``start_mysql``, ``start_mariadb``, ``start_redis`` and ``start_centrifugo`` return when the server answers. Each
takes a port that the system gives out, so that several may run at once beside the stack of ``make up``. A server
named by a URL in the environment is handed back as it is (:class:`GivenServer`) unless ``own`` asks for one that
may be killed.
"""

import os
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from scripts.stack import centrifugo, database, ports, processes, programs, redis
from scripts.stack.binaries import CENTRIFUGO, MARIADB, MYSQL, REDIS, Server
from scripts.stack.processes import Identity
from scripts.stack.programs import Program
from scripts.stack.progress import Progress, StackError
from scripts.stack.provide import Provider

START_ATTEMPTS = 3
"""A port given out by the system can be taken by somebody else before the server binds it."""

PORT_TAKEN = re.compile(r"address already in use", re.IGNORECASE)


@dataclass
class RunningServer:
    """A server that we started. Not thread-safe; every method may be called again."""

    url: str
    port: int
    version: str
    program: Program
    identity: Identity

    @property
    def pid(self) -> int:
        """The operating system's number of the present process."""
        return self.identity.pid

    @property
    def log(self) -> Path:
        """Where the server writes its log."""
        return self.program.log

    def alive(self) -> bool:
        """Whether the process runs."""
        return processes.alive(self.identity)

    def stop(self) -> None:
        """End the server in its own orderly way (SIGTERM), by force when it takes too long."""
        processes.stop(self.identity, self.program.grace_seconds)

    def kill9(self) -> None:
        """End the process at once, as a crash would."""
        processes.kill(self.identity)

    def pause(self) -> None:
        """SIGSTOP: the process holds its connections and answers nobody."""
        processes.send(self.identity, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT: the end of :meth:`pause`."""
        processes.send(self.identity, signal.SIGCONT)

    def restart(self) -> None:
        """Start again on the same folder and port, ending the present process first if it still runs."""
        self.resume()
        self.stop()
        self.identity = programs.start(self.program)


@dataclass
class RunningCentrifugo(RunningServer):
    """A Centrifugo server with the addresses of its APIs and the key of both."""

    ports: centrifugo.Ports
    api_key: str


Started = TypeVar("Started", bound=RunningServer)


@dataclass(frozen=True)
class GivenServer:
    """A server that the environment named: used as it is, never ended."""

    url: str

    def stop(self) -> None:
        """Nothing to do: it is not ours."""


def start_mysql(
    workdir: Path, *, options: Sequence[str] = database.LEAN, own: bool = False, provider: Provider | None = None
) -> RunningServer | GivenServer:
    """A MySQL server (9.7 when installed by us); ``options`` are added to its command line."""
    return _start_database(MYSQL, workdir, options, own, provider)


def start_mariadb(
    workdir: Path, *, options: Sequence[str] = database.LEAN, own: bool = False, provider: Provider | None = None
) -> RunningServer | GivenServer:
    """A MariaDB server (10.11 when installed by us); ``options`` are added to its command line."""
    return _start_database(MARIADB, workdir, options, own, provider)


def start_redis(workdir: Path, *, own: bool = False, provider: Provider | None = None) -> RunningServer | GivenServer:
    """A Redis server that keeps nothing."""
    if given := _given(REDIS, own):
        return given
    binary = _provider(provider).binary(REDIS)

    def launch() -> RunningServer:
        port = ports.any_free()
        program = redis.program(binary, workdir / "redis", port, workdir / "redis.log")
        return RunningServer(redis.redis_url(port), port, str(binary.version), program, programs.start(program))

    return _with_new_ports(launch)


def start_centrifugo(
    workdir: Path,
    *,
    api_key: str,
    public_key_pem: str,
    overrides: Mapping[str, Any] | None = None,
    provider: Provider | None = None,
) -> RunningCentrifugo:
    """A Centrifugo server with the project's configuration; ``overrides`` are merged into it last."""
    binary = _provider(provider).binary(CENTRIFUGO)

    def launch() -> RunningCentrifugo:
        where = centrifugo.Ports(ports.any_free(), ports.any_free(), ports.any_free())
        config = centrifugo.configuration(where, api_key, public_key_pem, overrides or {})
        log = workdir / "centrifugo.log"
        program = centrifugo.program(binary, workdir / "centrifugo", where, config, log)
        identity = programs.start(program)
        url, version = where.websocket_url, str(binary.version)
        return RunningCentrifugo(url, where.public, version, program, identity, where, api_key)

    return _with_new_ports(launch)


def _start_database(
    server: Server, workdir: Path, options: Sequence[str], own: bool, provider: Provider | None
) -> RunningServer | GivenServer:
    if given := _given(server, own):
        return given
    source = _provider(provider)
    binary = source.binary(server)
    folder = workdir / server.product
    database.prepare(binary, folder, source.cache, source.progress)

    def launch() -> RunningServer:
        port = ports.any_free()
        program = database.program(binary, folder, port, workdir / f"{server.product}.log", options)
        url, version = database.database_url(port), str(binary.version)
        return RunningServer(url, port, version, program, programs.start(program))

    return _with_new_ports(launch)


def _with_new_ports(launch: Callable[[], Started]) -> Started:
    for _ in range(START_ATTEMPTS - 1):
        try:
            return launch()
        except StackError as error:
            if not PORT_TAKEN.search(str(error)):
                raise
    return launch()


def _given(server: Server, own: bool) -> GivenServer | None:
    url = os.environ.get(server.url_variable, "")
    return GivenServer(url) if url and not own else None


def _provider(provider: Provider | None) -> Provider:
    return provider or Provider.from_environment(Progress())
