"""The figures of the relay: one frozen object, checked when it is made."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayConfig:
    """Batch, lease, failures and pace of the publishing loop; all times in seconds."""

    batch_rows: int = 100
    turns_at_once: int = 3
    """While claims come back full: one turn waits for the database while another sends."""
    lease_seconds: float = 30.0
    publish_timeout_seconds: float = 5.0
    """Of one request to Centrifugo."""
    failure_budget: int = 20
    """Retryable failures after which a row goes DEAD; an outage is none."""
    backoff_first_seconds: float = 0.5
    backoff_most_seconds: float = 60.0
    """Far below the five minutes for which Centrifugo remembers an idempotency key."""
    poll_busy_seconds: float = 0.005
    poll_idle_seconds: float = 0.25
    outage_first_seconds: float = 0.1
    outage_most_seconds: float = 5.0

    def __post_init__(self) -> None:
        """Raise ValueError for figures that cannot work together."""
        if not 1 <= self.batch_rows <= 1000:
            raise ValueError("batch_rows must be 1 to 1000")
        if self.failure_budget < 1 or self.turns_at_once < 1:
            raise ValueError("failure_budget and turns_at_once must be at least 1")
        if self.publish_timeout_seconds <= 0 or self.lease_seconds <= 2 * self.publish_timeout_seconds:
            raise ValueError("lease_seconds must be more than twice publish_timeout_seconds, which must be above 0")
        for first, most in (
            (self.backoff_first_seconds, self.backoff_most_seconds),
            (self.poll_busy_seconds, self.poll_idle_seconds),
            (self.outage_first_seconds, self.outage_most_seconds),
        ):
            if not 0 < first <= most:
                raise ValueError("each pair of times must be above 0 and rising")


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepConfig:
    """Pace of counting and cleaning (O-4)."""

    gauge_interval_seconds: float = 15.0
    clean_interval_seconds: float = 300.0
    clean_batch_rows: int = 1000
    published_retention_seconds: int = 3 * 24 * 3600

    def __post_init__(self) -> None:
        """Raise ValueError for figures that cannot work."""
        if min(self.gauge_interval_seconds, self.clean_interval_seconds) <= 0 or self.clean_batch_rows < 1:
            raise ValueError("intervals and clean_batch_rows must be above 0")
        if self.published_retention_seconds < 600:
            raise ValueError("published_retention_seconds must be at least 600: rows are evidence while people look")
