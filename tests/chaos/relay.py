"""``python -m tests.chaos.relay``: the relay with short times, so that a lost lease is taken over in seconds."""

from __future__ import annotations

import asyncio
import sys

import uvloop

from relay.__main__ import run
from relay.config import RelayConfig, UpkeepConfig
from taskstatus.bootstrap import configure_process
from taskstatus.settings import load_settings

LEASE_SECONDS = 3.0
CONFIG = RelayConfig(
    lease_seconds=LEASE_SECONDS,
    publish_timeout_seconds=1.0,
    backoff_first_seconds=0.1,
    backoff_most_seconds=1.0,
    poll_idle_seconds=0.1,
    outage_most_seconds=1.0,
)


def main() -> int:
    """Relay until SIGTERM; the exit code is the relay's own."""
    settings = load_settings()
    configure_process(settings, "relay")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run(settings, CONFIG, UpkeepConfig()))


if __name__ == "__main__":
    sys.exit(main())
