"""Wires the processes: the one place where entrypoints, adapters and runtime meet through the application's ports."""

from taskstatus.bootstrap.processes import check_configuration, configure_process, serve_grpc, until_stopped
from taskstatus.bootstrap.service import OneShard, RunningService, open_service

__all__ = [
    "OneShard",
    "RunningService",
    "check_configuration",
    "configure_process",
    "open_service",
    "serve_grpc",
    "until_stopped",
]
