"""``python -m tests.chaos.replica``: the service process, with short terms and a wall clock that can be stepped.

The offset in seconds stands in the file that ``CHAOS_CLOCK_FILE`` names; it is read at the start and at each SIGUSR1.
"""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from unittest.mock import patch

import uvloop

from taskstatus import bootstrap
from taskstatus.adapters.clock import SystemClock
from taskstatus.bootstrap import service
from taskstatus.settings import load_settings
from tests.chaos.terms import short_terms

CLOCK_FILE_VARIABLE = "CHAOS_CLOCK_FILE"


class SteppedClock(SystemClock):
    """The system's clocks; the wall clock is off by what the file says."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._offset_seconds = 0.0

    def unix_seconds(self) -> float:
        """See Clock."""
        return super().unix_seconds() + self._offset_seconds

    def read_offset(self, *_signal: object) -> None:
        """Take over the file's offset; a handler of signals."""
        self._offset_seconds = float(self._file.read_text())


def main() -> None:
    """Serve gRPC until SIGTERM, as ``taskstatus serve`` does."""
    clock = SteppedClock(Path(os.environ[CLOCK_FILE_VARIABLE]))
    clock.read_offset()
    signal.signal(signal.SIGUSR1, clock.read_offset)
    settings = load_settings()
    bootstrap.configure_process(settings, "serve")
    with (
        short_terms(),
        patch.object(service, "SystemClock", lambda: clock),
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        runner.run(bootstrap.serve_grpc(settings))


if __name__ == "__main__":
    main()
