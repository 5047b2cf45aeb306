"""Every process of a chaos run: two replicas, the gateway, two relays, Centrifugo and a database of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from scripts.stack import centrifugo, devkeys, paths, ports, probes, processes, programs, servers, services
from scripts.stack.servers import RunningServer
from taskstatus.adapters.mysql.migrate import migrate
from tests.chaos import terms
from tests.chaos.options import CENTRIFUGO, DATABASE, GATEWAY, RELAYS, REPLICAS, SERVICES
from tests.chaos.proxy import FaultyProxy
from tests.chaos.replica import CLOCK_FILE_VARIABLE
from tests.chaos.stream_proxy import CuttingProxy
from tests.chaos.watcher import HISTORY_MOST

DATABASES: Final = {"mysql": servers.start_mysql, "mariadb": servers.start_mariadb}
OPTIONS: Final = ("--skip-log-bin", "--max-connections=300")
_BY_NAME: Final = {service.name: service for service in services.SERVICES}
PROCESSES: Final[Mapping[str, services.Service]] = {
    **{name: replace(_BY_NAME["serve"], command=("bin/python", "-m", "tests.chaos.replica")) for name in REPLICAS},
    GATEWAY: replace(_BY_NAME["gateway_rest"], command=("bin/python", "-m", "tests.chaos.gateway")),
    **{name: replace(_BY_NAME["relay"], command=("bin/python", "-m", "tests.chaos.relay")) for name in RELAYS},
}
GRACE_SECONDS = 15.0


@dataclass
class ChaosStack:
    """Everything that runs, by the names of ``options``; ``proxies`` stand between each process and the database."""

    folder: Path
    database: RunningServer
    centrifugo: servers.RunningCentrifugo
    keys: devkeys.DevKeys
    settings: dict[str, str]
    proxies: dict[str, FaultyProxy] = field(default_factory=dict)
    stream_proxies: dict[str, CuttingProxy] = field(default_factory=dict)
    """Between stream clients and each replica."""
    parts: dict[str, RunningServer] = field(default_factory=dict)
    addresses: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def grpc_targets(self) -> list[str]:
        """Of both replicas."""
        return [self.addresses[name]["TASKSTATUS_GRPC_LISTEN"] for name in REPLICAS]

    @property
    def stream_targets(self) -> list[str]:
        """Of both replicas, through their proxies."""
        return [f"{ports.HOST}:{self.stream_proxies[name].port}" for name in REPLICAS]

    @property
    def rest_url(self) -> str:
        """Of the gateway."""
        return f"http://{self.addresses[GATEWAY]['TASKSTATUS_REST_LISTEN']}"

    def clock_file(self, name: str) -> Path:
        """Where a process reads how far its wall clock is off."""
        return self.folder / f"{name}.clock"

    def step_clock(self, name: str, seconds: float) -> None:
        """Set the wall clock of the stepped replica off by so many seconds."""
        self.clock_file(name).write_text(str(seconds))
        processes.send(self.parts[name].identity, signal.SIGUSR1)

    def mend(self) -> None:
        """Start again what is dead, let go on what is paused."""
        for part in self.parts.values():
            part.resume()
            if not part.alive():
                part.restart()

    def log_sizes(self) -> dict[str, int]:
        """Where the log of each of the project's processes ends now."""
        return {name: self.parts[name].log.stat().st_size for name in PROCESSES}

    def errors_since(self, sizes: Mapping[str, int]) -> list[str]:
        """What the processes logged as an error since ``log_sizes``."""
        return [f"{name}: {line}" for name, size in sizes.items() for line in _errors(self.parts[name].log, size)]


def _errors(log: Path, after: int) -> list[str]:
    with log.open("rb") as file:
        file.seek(after)
        lines = file.read().decode(errors="replace").splitlines()
    return [line for line in lines if _is_error(line)]


def _is_error(line: str) -> bool:
    if not line.startswith("{"):
        return not line.startswith("INFO") and bool(line.strip())
    try:
        return str(json.loads(line).get("level", "")).upper() in ("ERROR", "CRITICAL")
    except ValueError:
        return True


@asynccontextmanager
async def running_stack(
    product: str, folder: Path, names: Collection[str] = tuple(PROCESSES), **settings: str
) -> AsyncIterator[ChaosStack]:
    """Start everything, or those of ``PROCESSES`` named, on ports of its own; end everything, whatever happened."""
    keys = devkeys.ensure(folder / "keys")
    async with AsyncExitStack() as ends:
        database = await asyncio.to_thread(DATABASES[product], folder, options=OPTIONS, own=True)
        assert isinstance(database, RunningServer)
        ends.push_async_callback(asyncio.to_thread, database.stop)
        realtime = await asyncio.to_thread(_start_centrifugo, folder, keys)
        ends.push_async_callback(asyncio.to_thread, realtime.stop)
        await migrate(database.url)
        stack = ChaosStack(folder, database, realtime, keys, {**_settings(realtime, keys), **settings})
        stack.parts |= {DATABASE: database, CENTRIFUGO: realtime}
        for name in names:
            stack.proxies[name] = await ends.enter_async_context(FaultyProxy(database.port))
        ends.push_async_callback(_stop_processes, stack)
        await asyncio.gather(*(_start(stack, name, PROCESSES[name]) for name in names))
        for name in filter(names.__contains__, REPLICAS):
            port = int(stack.addresses[name]["TASKSTATUS_GRPC_LISTEN"].rpartition(":")[2])
            stack.stream_proxies[name] = await ends.enter_async_context(CuttingProxy(port))
        yield stack


async def _start(stack: ChaosStack, name: str, service: services.Service) -> None:
    stack.addresses[name] = {setting: f"{ports.HOST}:{ports.any_free()}" for setting in service.listens}
    url = stack.database.url.replace(f":{stack.database.port}/", f":{stack.proxies[name].port}/")
    stack.clock_file(name).write_text("0")
    settings = {**stack.settings, "TASKSTATUS_DATABASE_URL": url, CLOCK_FILE_VARIABLE: str(stack.clock_file(name))}
    program = services.program(service, settings, stack.addresses[name], stack.folder / f"{name}.log")
    # A process that accepts connections is enough here, and asked cheaply: clients wait for the rest themselves.
    port = int(next(iter(stack.addresses[name].values())).rpartition(":")[2])
    program = replace(program, name=name, grace_seconds=GRACE_SECONDS, ready=lambda: probes.tcp_accepts(port))
    identity = await asyncio.to_thread(programs.start, program)
    stack.parts[name] = RunningServer(program.listens, 0, name, program, identity)


async def _stop_processes(stack: ChaosStack) -> None:
    parts = [stack.parts[name] for name in (*SERVICES, *RELAYS) if name in stack.parts]
    await asyncio.gather(*(asyncio.to_thread(part.stop) for part in parts))


def _start_centrifugo(folder: Path, keys: devkeys.DevKeys) -> servers.RunningCentrifugo:
    return servers.start_centrifugo(
        folder,
        api_key=keys.centrifugo_api_key_file.read_text().strip(),
        public_key_pem=keys.realtime_public_key_file.read_text(),
        overrides={"client": {"channel_limit": 10_000}, "channel": {"namespaces": _namespaces_with_long_history()}},
    )


def _namespaces_with_long_history() -> list[dict[str, Any]]:
    base = json.loads(centrifugo.BASE.read_text())["channel"]["namespaces"]
    return [{**namespace, "history_size": HISTORY_MOST} for namespace in base]


def _settings(realtime: servers.RunningCentrifugo, keys: devkeys.DevKeys) -> dict[str, str]:
    return {
        **terms.SETTINGS,
        "PYTHONPATH": os.pathsep.join([str(paths.ROOT), os.environ.get("PYTHONPATH", "")]),
        "TASKSTATUS_IDENTITY_FILE": str(keys.identity_file),
        "TASKSTATUS_EXECUTION_KEYS_FILE": str(keys.execution_keys_file),
        "TASKSTATUS_REALTIME_KEY_FILE": str(keys.realtime_key_file),
        "TASKSTATUS_REALTIME_KEY_ID": devkeys.KEY_ID,
        "TASKSTATUS_CENTRIFUGO_API_KEY_FILE": str(keys.centrifugo_api_key_file),
        "TASKSTATUS_CENTRIFUGO_GRPC_TARGET": realtime.ports.grpc_target,
        "TASKSTATUS_CENTRIFUGO_API_URL": realtime.ports.api_url,
        "TASKSTATUS_CENTRIFUGO_PUBLIC_URL": realtime.ports.websocket_url,
    }
