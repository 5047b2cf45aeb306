"""The project's own processes as data: what each is called, how it starts, where it listens, when it is ready."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from scripts.stack import probes, processes
from scripts.stack.paths import VENV
from scripts.stack.programs import Program

Probe = Callable[[Mapping[str, str]], Callable[[], bool]]
"""Makes the question "is it ready?" from the settings of a process."""


@dataclass(frozen=True)
class Service:
    """A long-running process of ours. ``listens`` maps each setting of an address to its preferred port."""

    name: str
    command: tuple[str, ...]
    listens: Mapping[str, int]
    ready: Probe
    title: str


def _grpc_serving(settings: Mapping[str, str]) -> Callable[[], bool]:
    target = settings["TASKSTATUS_GRPC_LISTEN"]
    question = [str(VENV / "bin" / "python"), "-m", "scripts.stack.grpc_health", target]
    port = int(target.rpartition(":")[2])
    return lambda: probes.tcp_accepts(port) and processes.succeeds(question)


def _http(setting: str, path: str) -> Probe:
    def probe(settings: Mapping[str, str]) -> Callable[[], bool]:
        url = f"http://{settings[setting]}{path}"
        return lambda: probes.http_ok(url)

    return probe


SERVICES = (
    Service(
        name="serve",
        command=("bin/taskstatus", "serve"),
        listens={"TASKSTATUS_GRPC_LISTEN": 50051, "TASKSTATUS_METRICS_LISTEN": 9464},
        ready=_grpc_serving,
        title="status service (gRPC)",
    ),
    Service(
        name="relay",
        command=("bin/python", "-m", "relay"),
        listens={"TASKSTATUS_METRICS_LISTEN": 9465},
        ready=_http("TASKSTATUS_METRICS_LISTEN", "/metrics"),
        title="outbox relay",
    ),
    Service(
        name="gateway_rest",
        command=("bin/python", "-m", "gateway_rest"),
        listens={"TASKSTATUS_REST_LISTEN": 8080, "TASKSTATUS_METRICS_LISTEN": 9466},
        ready=_http("TASKSTATUS_REST_LISTEN", "/healthz"),
        title="REST gateway",
    ),
)
"""In the order in which they start; they end in the opposite order."""

SHARED_ADDRESSES = ("TASKSTATUS_GRPC_LISTEN", "TASKSTATUS_REST_LISTEN")
"""Addresses that other processes and people need; each process has its own address of metrics."""

MIGRATE = ("bin/taskstatus", "migrate")


def program(service: Service, settings: Mapping[str, str], addresses: Mapping[str, str], log: Path) -> Program:
    """How to start ``service`` with the common ``settings`` and its own ``addresses``."""
    own = {**settings, **addresses}
    head, *arguments = service.command
    return Program(
        name=service.title,
        command=[str(VENV / head), *arguments],
        log=log,
        ready=service.ready(own),
        listens=", ".join(f"{_kind(name)} {address}" for name, address in addresses.items()),
        env={**own, "PYTHONUNBUFFERED": "1"},
        ready_seconds=60.0,
        grace_seconds=30.0,
    )


def _kind(setting: str) -> str:
    return {"GRPC": "gRPC", "REST": "http", "METRICS": "metrics"}[setting.split("_")[1]]
