"""``python -m relay``: the outbox relay as a process of its own; SIGTERM drains it."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Final

import uvloop
from prometheus_client import CollectorRegistry

from relay.assembly import open_relay
from relay.config import RelayConfig, UpkeepConfig
from taskstatus.adapters.telemetry.metrics import serve_metrics
from taskstatus.bootstrap import configure_process, until_stopped
from taskstatus.settings import Settings, SettingsError, load_settings

DEFECT_EXIT_CODE: Final = 1
CONFIGURATION_EXIT_CODE: Final = 2

logger = logging.getLogger("relay")


def main() -> int:
    """Run until told to stop: 0; 1 when a loop died of a defect, 2 for a configuration that cannot work."""
    try:
        settings = load_settings()
        configure_process(settings, "relay")
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(run(settings, RelayConfig(), UpkeepConfig()))
    except (SettingsError, OSError) as error:
        print(f"relay: {error}", file=sys.stderr)
        return CONFIGURATION_EXIT_CODE


async def run(settings: Settings, config: RelayConfig, upkeep: UpkeepConfig) -> int:
    """Relay until SIGTERM, SIGINT or the death of a loop; the exit code. ``/metrics`` answers while it runs."""
    registry = CollectorRegistry()
    async with open_relay(settings, registry, config, upkeep) as loops:
        serve_metrics(settings.metrics_listen, registry)
        logger.info("relaying", extra={"publisher": settings.relay_publisher, "metrics": settings.metrics_listen})
        stopped = asyncio.create_task(until_stopped())
        await asyncio.wait([stopped, *loops], return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        dead = [task for task in loops if task.done()]
        for task in dead:
            logger.critical("a loop died", exc_info=task.exception(), extra={"loop": task.get_name()})
        logger.info("draining")
    return DEFECT_EXIT_CODE if dead else 0


if __name__ == "__main__":
    sys.exit(main())
