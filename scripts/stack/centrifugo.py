"""Configuration and command line of Centrifugo, on the base of ``deploy/centrifugo/config.json``."""

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.stack import ports, probes
from scripts.stack.binaries import Binary
from scripts.stack.paths import ROOT
from scripts.stack.programs import Program

BASE = ROOT / "deploy" / "centrifugo" / "config.json"


@dataclass(frozen=True)
class Ports:
    """``public`` for browsers, ``internal`` for the HTTP API, health and metrics, ``grpc`` for the gRPC API."""

    public: int
    internal: int
    grpc: int

    @property
    def websocket_url(self) -> str:
        """What browsers connect to (``TASKSTATUS_CENTRIFUGO_PUBLIC_URL``)."""
        return f"ws://{ports.HOST}:{self.public}/connection/websocket"

    @property
    def api_url(self) -> str:
        """The HTTP API (``TASKSTATUS_CENTRIFUGO_API_URL``)."""
        return f"http://{ports.HOST}:{self.internal}/api"

    @property
    def grpc_target(self) -> str:
        """The gRPC API (``TASKSTATUS_CENTRIFUGO_GRPC_TARGET``)."""
        return f"{ports.HOST}:{self.grpc}"


def configuration(where: Ports, api_key: str, public_key_pem: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The base configuration with this server's ports and keys, and then ``overrides``, merged key by key."""
    tokens = {"ecdsa_public_key": public_key_pem}
    ours = {
        "http_server": {
            "address": ports.HOST,
            "port": where.public,
            "internal_address": ports.HOST,
            "internal_port": str(where.internal),
        },
        "http_api": {"key": api_key},
        "grpc_api": {"enabled": True, "address": ports.HOST, "port": where.grpc, "key": api_key},
        "client": {"token": tokens, "subscription_token": tokens},
    }
    base: dict[str, Any] = json.loads(BASE.read_text())
    return merged(merged(base, ours), overrides)


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with the values of ``over``; objects are merged, everything else is replaced."""
    result = copy.deepcopy(dict(base))
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else copy.deepcopy(value)
    return result


def program(binary: Binary, folder: Path, where: Ports, config: Mapping[str, Any], log: Path) -> Program:
    """Write the configuration (it holds the key: readable by its owner only) and say how to start the server."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "config.json"
    file.touch(mode=0o600)
    file.write_text(json.dumps(config, indent=2) + "\n")
    return Program(
        name=f"{binary.version}",
        command=[*binary.command, "--config", str(file)],
        log=log,
        ready=lambda: probes.http_ok(f"http://{ports.HOST}:{where.internal}/health"),
        listens=f"{where.websocket_url} (API {where.api_url}, gRPC API {where.grpc_target})",
    )


def origins(rest_address: str) -> list[str]:
    """The base configuration's origins and the REST gateway's own, where the board page may come from."""
    base = json.loads(BASE.read_text())["client"]["allowed_origins"]
    port = rest_address.rpartition(":")[2]
    return list(dict.fromkeys([*base, f"http://127.0.0.1:{port}", f"http://localhost:{port}"]))
