"""``make up``: servers, migrations and the project's processes, each started only if it does not run already."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from scripts.stack import centrifugo, database, given, ports, processes, redis, services
from scripts.stack.binaries import CENTRIFUGO, MARIADB, MYSQL, REDIS, Server
from scripts.stack.keeper import Keeper
from scripts.stack.paths import VENV
from scripts.stack.progress import StackError
from scripts.stack.provide import Provider

DATABASES = {"mysql": MYSQL, "mariadb": MARIADB}
DATABASE_VARIABLE = "TASKSTATUS_DB"
DATABASE_PORT = 3306
REDIS_PORT = 6379
CENTRIFUGO_PORTS = {"public": 8000, "internal": 9000, "grpc": 10000}
REALTIME_KEY_ID = "dev"


class Up:
    """One run of ``make up``. Raises StackError; what had started by then goes on running."""

    def __init__(self, keeper: Keeper, provider: Provider, environ: Mapping[str, str]) -> None:
        self._keeper = keeper
        self._provider = provider
        self._environ = environ
        self._settings = keeper.state.settings

    def start_servers(self) -> None:
        """Keys, database, Redis and Centrifugo, and the settings that lead to them."""
        self._keys()
        addresses = {service.name: self._addresses(service) for service in services.SERVICES}
        shared = {key: value for own in addresses.values() for key, value in own.items()}
        self._settings.update({key: shared[key] for key in services.SHARED_ADDRESSES})
        self._settings["TASKSTATUS_DATABASE_URL"] = self._database()
        self._settings["TASKSTATUS_REDIS_URL"] = self._redis()
        self._centrifugo(shared["TASKSTATUS_REST_LISTEN"])
        self._keeper.state.save()

    def migrate(self) -> None:
        """Bring the schema up to date; nothing to do is fine."""
        log = self._keeper.log("migrate")
        head, *arguments = services.MIGRATE
        with self._keeper.progress.step("migrations (taskstatus migrate)"):
            _run([str(VENV / head), *arguments], {**self._environ, **self._settings}, log)

    def start_services(self) -> None:
        """The project's own processes."""
        for service in services.SERVICES:
            log = self._keeper.log(service.name)
            program = services.program(service, self._settings, self._addresses(service), log)
            self._keeper.ensure(service.name, program, ".venv")

    def _keys(self) -> None:
        """Development keys, made once; the module needs the project's environment, hence the process."""
        folder = self._keeper.folder / "keys"
        command = [str(VENV / "bin" / "python"), "-m", "scripts.stack.devkeys", str(folder)]
        _run(command, self._environ, self._keeper.log("devkeys"))
        self._settings.update(
            {
                "TASKSTATUS_IDENTITY_FILE": str(folder / "identity.json"),
                "TASKSTATUS_EXECUTION_KEYS_FILE": str(folder / "execution-keys.json"),
                "TASKSTATUS_REALTIME_KEY_FILE": str(folder / "realtime.pem"),
                "TASKSTATUS_REALTIME_KEY_ID": REALTIME_KEY_ID,
                "TASKSTATUS_CENTRIFUGO_API_KEY_FILE": str(folder / "centrifugo-api.key"),
            }
        )

    def _addresses(self, service: services.Service) -> dict[str, str]:
        port = self._keeper.port
        return {key: f"{ports.HOST}:{port(service.name, key, wish)}" for key, wish in service.listens.items()}

    def _database(self) -> str:
        kind = self._environ.get(DATABASE_VARIABLE) or "mysql"
        if kind not in DATABASES:
            raise StackError(
                f"{DATABASE_VARIABLE}={kind} is none of {', '.join(DATABASES)}", "TASKSTATUS_DB=mysql make up"
            )
        if self._settings.get(DATABASE_VARIABLE, kind) != kind:
            self._stop_services()  # before the database under them is replaced by one without their schema
        self._settings[DATABASE_VARIABLE] = kind
        server = DATABASES[kind]
        url = self._given(server)
        binary = None if url else self._provider.binary(server)
        for other in DATABASES.keys() - {kind}:
            self._keeper.stop(other)
        if binary is None:
            return url
        folder = self._keeper.folder / "data" / kind
        database.prepare(binary, folder, self._provider.cache, self._keeper.progress)
        port = self._keeper.port(kind, "port", DATABASE_PORT)
        self._keeper.ensure(kind, database.program(binary, folder, port, self._keeper.log(kind)), binary.origin)
        return database.database_url(port)

    def _stop_services(self) -> None:
        for service in reversed(services.SERVICES):
            self._keeper.stop(service.name)

    def _redis(self) -> str:
        if url := self._given(REDIS):
            return url
        binary = self._provider.binary(REDIS)
        port = self._keeper.port("redis", "port", REDIS_PORT)
        folder = self._keeper.folder / "data" / "redis"
        self._keeper.ensure("redis", redis.program(binary, folder, port, self._keeper.log("redis")), binary.origin)
        return redis.redis_url(port)

    def _given(self, server: Server) -> str:
        """The URL of a server that the environment names, once it has answered; empty for one of ours."""
        url = self._environ.get(server.url_variable, "")
        entry = self._keeper.state.living(server.product)
        if not url or (entry and entry.listens == url):
            return ""
        version = given.check(server, url)
        self._keeper.stop(server.product)
        self._keeper.progress.say(f"  {version}: {server.url_variable}={given.without_password(url)}")
        return url

    def _centrifugo(self, rest: str) -> None:
        binary = self._provider.binary(CENTRIFUGO)
        where = centrifugo.Ports(
            **{use: self._keeper.port("centrifugo", use, p) for use, p in CENTRIFUGO_PORTS.items()}
        )
        keys = self._keeper.folder / "keys"
        api_key = (keys / "centrifugo-api.key").read_text().strip()
        origins = {"client": {"allowed_origins": centrifugo.origins(rest)}}
        config = centrifugo.configuration(where, api_key, (keys / "realtime.pub.pem").read_text(), origins)
        folder = self._keeper.folder / "centrifugo"
        program = centrifugo.program(binary, folder, where, config, self._keeper.log("centrifugo"))
        self._keeper.ensure("centrifugo", program, binary.origin)
        self._settings.update(
            {
                "TASKSTATUS_CENTRIFUGO_GRPC_TARGET": where.grpc_target,
                "TASKSTATUS_CENTRIFUGO_API_URL": where.api_url,
                "TASKSTATUS_CENTRIFUGO_PUBLIC_URL": where.websocket_url,
            }
        )


def _run(command: list[str], env: Mapping[str, str], log: Path) -> None:
    with log.open("wb") as out:
        done = subprocess.run(
            command, check=False, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT
        )
    if done.returncode != 0:
        what = " ".join([Path(command[0]).name, *command[1:3]])
        raise StackError(f"{what} ended with {done.returncode}; the end of {log}:\n{processes.tail(log)}", f"see {log}")


def environment() -> dict[str, str]:
    """The environment of this process, as the place where it is read."""
    return dict(os.environ)
