"""``python -m tests.chaos.gateway``: the REST gateway with the short heartbeat terms of a run."""

from __future__ import annotations

import sys

from gateway_rest.__main__ import main
from tests.chaos.terms import short_terms

if __name__ == "__main__":
    with short_terms():
        sys.exit(main())
