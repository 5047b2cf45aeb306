"""``python -m bench.serve_on_asyncio``: the status service on asyncio's own loop, to be measured beside uvloop's."""

from __future__ import annotations

import asyncio
import sys

from taskstatus import bootstrap
from taskstatus.settings import load_settings


def main() -> int:
    """Serve until SIGTERM, as ``taskstatus serve`` does but for the loop."""
    settings = load_settings()
    bootstrap.configure_process(settings, "serve")
    asyncio.run(bootstrap.serve_grpc(settings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
