"""The trace id inside a W3C ``traceparent``."""

from __future__ import annotations

import re

_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}\Z")


def trace_id_of(traceparent: str) -> bytes | None:
    """16 bytes, or None for an empty, malformed or all-zero trace."""
    match = _TRACEPARENT.match(traceparent)
    if match is None:
        return None
    raw = bytes.fromhex(match[1])
    return raw if any(raw) else None
