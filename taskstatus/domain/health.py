"""Health is kept as flags and shown as the worse of them; it never is a lifecycle (L-4, L-6)."""

from __future__ import annotations

from enum import StrEnum


class Health(StrEnum):
    """What is shown."""

    HEALTHY = "HEALTHY"
    STALE = "STALE"
    DEGRADED = "DEGRADED"


def shown_health(*, stale: bool, degraded: bool) -> Health:
    """STALE hides DEGRADED; recovery from STALE shows DEGRADED again."""
    if stale:
        return Health.STALE
    return Health.DEGRADED if degraded else Health.HEALTHY
