"""The relay as ``python -m relay`` runs it, with a short lease: for tests that cannot wait for half a minute."""

from __future__ import annotations

import asyncio
import sys

import uvloop

from relay.__main__ import run
from relay.config import RelayConfig, UpkeepConfig
from taskstatus.bootstrap import configure_process
from taskstatus.settings import load_settings

LEASE_SECONDS = 7.0
PUBLISH_TIMEOUT_SECONDS = 3.0


def main() -> int:
    """Run until SIGTERM."""
    settings = load_settings()
    configure_process(settings, "relay")
    config = RelayConfig(lease_seconds=LEASE_SECONDS, publish_timeout_seconds=PUBLISH_TIMEOUT_SECONDS)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run(settings, config, UpkeepConfig()))


if __name__ == "__main__":
    sys.exit(main())
