"""A whole stack of a test's own: servers, migrations, service, relay and gateway, each of which may be killed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from scripts.stack import devkeys, ports, programs, servers, services
from scripts.stack.paths import VENV
from scripts.stack.servers import RunningServer

DATABASES: Final = {"mysql": servers.start_mysql, "mariadb": servers.start_mariadb}


@dataclass
class Stack:
    """Everything that runs, by name: ``database``, ``centrifugo`` and the names of ``scripts.stack.services``."""

    settings: dict[str, str]
    parts: dict[str, RunningServer] = field(default_factory=dict)

    def mend(self) -> None:
        """Start again what a test has killed and not brought back."""
        for part in self.parts.values():
            if not part.alive():
                part.restart()

    def environment(self) -> dict[str, str]:
        """For processes that use the stack."""
        return {**os.environ, **self.settings}


@contextmanager
def running_stack(database: str, workdir: Path) -> Iterator[Stack]:
    """Start everything on ports of its own; end everything, whatever happened."""
    keys = devkeys.ensure(workdir / "keys")
    stack = Stack(_key_settings(keys))
    with ExitStack() as ends:

        def add(name: str, server: object) -> RunningServer:
            assert isinstance(server, RunningServer)
            stack.parts[name] = server
            ends.callback(server.stop)
            return server

        store = add("database", DATABASES[database](workdir, own=True))
        redis = add("redis", servers.start_redis(workdir, own=True))
        api_key, public_key = (
            keys.centrifugo_api_key_file.read_text().strip(),
            keys.realtime_public_key_file.read_text(),
        )
        centrifugo = servers.start_centrifugo(workdir, api_key=api_key, public_key_pem=public_key)
        add("centrifugo", centrifugo)
        stack.settings |= {
            "TASKSTATUS_DATABASE_URL": store.url,
            "TASKSTATUS_REDIS_URL": redis.url,
            "TASKSTATUS_CENTRIFUGO_GRPC_TARGET": centrifugo.ports.grpc_target,
            "TASKSTATUS_CENTRIFUGO_API_URL": centrifugo.ports.api_url,
            "TASKSTATUS_CENTRIFUGO_PUBLIC_URL": centrifugo.ports.websocket_url,
        }
        subprocess.run([str(VENV / "bin/taskstatus"), "migrate"], env=stack.environment(), check=True)
        addresses = {service.name: _addresses(service) for service in services.SERVICES}
        for own in addresses.values():
            stack.settings |= {name: own[name] for name in services.SHARED_ADDRESSES if name in own}
        for service in services.SERVICES:
            add(service.name, _start(service, stack.settings, addresses[service.name], workdir))
        yield stack


def _start(
    service: services.Service, settings: dict[str, str], addresses: dict[str, str], workdir: Path
) -> RunningServer:
    program = services.program(service, settings, addresses, workdir / f"{service.name}.log")
    return RunningServer(program.listens, 0, service.title, program, programs.start(program))


def _addresses(service: services.Service) -> dict[str, str]:
    return {name: f"{ports.HOST}:{ports.any_free()}" for name in service.listens}


def _key_settings(keys: devkeys.DevKeys) -> dict[str, str]:
    return {
        "TASKSTATUS_IDENTITY_FILE": str(keys.identity_file),
        "TASKSTATUS_EXECUTION_KEYS_FILE": str(keys.execution_keys_file),
        "TASKSTATUS_REALTIME_KEY_FILE": str(keys.realtime_key_file),
        "TASKSTATUS_REALTIME_KEY_ID": devkeys.KEY_ID,
        "TASKSTATUS_CENTRIFUGO_API_KEY_FILE": str(keys.centrifugo_api_key_file),
    }
