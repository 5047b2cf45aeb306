"""What the model says must become of a command or an event."""

from __future__ import annotations

from dataclasses import dataclass

from taskstatus.domain.reasons import Reason


@dataclass(frozen=True)
class Expected:
    """One answer; ``kind`` is done, unchanged, duplicate, stale or refused."""

    kind: str
    version: int = 0
    lifecycle: str = ""
    reason: Reason | None = None


def refused(reason: Reason) -> Expected:
    """Nothing is written."""
    return Expected("refused", reason=reason)
