"""``python -m gateway_rest``: the REST adapter as a process of its own, over the same application service as gRPC."""

from __future__ import annotations

import asyncio

import uvloop

from gateway_rest.app import RestSettings, create_app
from gateway_rest.server import make_server, serve_until_stopped
from taskstatus.bootstrap import configure_process, open_service
from taskstatus.settings import Settings, load_settings


def main() -> None:
    """Load and check the settings, then serve until told to stop."""
    settings = load_settings()
    configure_process(settings, "gateway_rest")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run(settings))


async def run(settings: Settings) -> None:
    """Serve; the service is closed, and its lanes drained, after the last request has been answered."""
    async with open_service(settings) as service:
        rest = RestSettings(cors_origins=tuple(settings.cors_origins))
        app = create_app(service.dispatch, service.clock, service.is_ready, rest)
        await serve_until_stopped(make_server(app, settings.rest_listen))


if __name__ == "__main__":
    main()
