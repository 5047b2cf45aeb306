"""Forks relays with a short lease on demand: a killed one is replaced at once, without loading its modules anew.

Each line of standard input is the log file of one more relay; the answer is its process number.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import uvloop

from relay.__main__ import run
from relay.config import RelayConfig, UpkeepConfig
from taskstatus.bootstrap import configure_process
from taskstatus.settings import Settings, load_settings

LEASE_SECONDS = 7.0
PUBLISH_TIMEOUT_SECONDS = 3.0


def main() -> None:
    """Fork until the input ends."""
    settings = load_settings()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while line := sys.stdin.readline():
        pid = os.fork()
        if pid == 0:
            os._exit(_relay(settings, line.strip()))
        print(pid, flush=True)


def _relay(settings: Settings, log: str) -> int:
    """The child: a relay as ``python -m relay`` runs it, but for its lease."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.close(0)
    configure_process(settings, "relay")
    config = RelayConfig(lease_seconds=LEASE_SECONDS, publish_timeout_seconds=PUBLISH_TIMEOUT_SECONDS)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run(settings, config, UpkeepConfig()))


if __name__ == "__main__":
    main()
