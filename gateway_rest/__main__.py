"""``python -m gateway_rest``: the REST adapter as a process of its own, over the same application service as gRPC."""

from __future__ import annotations

import asyncio
import logging
import sys

import uvloop

from gateway_rest.app import RestSettings, create_app
from gateway_rest.server import ListenAddressError, make_server, serve_until_stopped
from taskstatus.adapters.telemetry.metrics import serve_metrics
from taskstatus.adapters.tokens.errors import CredentialConfigError
from taskstatus.bootstrap import configure_process, open_service
from taskstatus.settings import Settings, SettingsError, load_settings

CONFIGURATION_EXIT_CODE = 2

logger = logging.getLogger("taskstatus.rest")


def main() -> int:
    """Load and check the settings, then serve until told to stop; 2 for a configuration that cannot work."""
    try:
        settings = load_settings()
        configure_process(settings, "gateway_rest")
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run(settings))
    except (SettingsError, CredentialConfigError, ListenAddressError, OSError) as error:
        print(f"gateway_rest: {error}", file=sys.stderr)
        return CONFIGURATION_EXIT_CODE
    return 0


async def run(settings: Settings) -> None:
    """Serve; the service is closed, and its lanes drained, after the last request has been answered."""
    async with open_service(settings) as service:
        serve_metrics(settings.metrics_listen, service.metrics.registry)
        rest = RestSettings(cors_origins=settings.cors_origins)
        app = create_app(service.dispatch, service.clock, service.is_ready, rest)
        logger.info("serving REST", extra={"listen": settings.rest_listen})
        await serve_until_stopped(make_server(app, settings.rest_listen))
        logger.info("draining")


if __name__ == "__main__":
    sys.exit(main())
