"""The relay's Prometheus metrics (names.md *Metrics*); label values are bounded, never an id."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from relay.rows import Backlog

BUCKETS_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300, 1800)


class RelayMetrics:
    """All metrics of one relay process, in the registry given."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.commit_to_publish = Histogram(
            "state_commit_to_publish_seconds",
            "From the commit of a row to Centrifugo's answer, on the database's clock",
            registry=registry,
            buckets=BUCKETS_SECONDS,
        )
        self.oldest_age = Gauge(
            "relay_outbox_oldest_age_seconds",
            "Age of the oldest row that is neither PUBLISHED nor DEAD",
            registry=registry,
        )
        self.rows = Gauge("relay_outbox_rows", "Rows of the outbox: READY, WAITING, DEAD", ["state"], registry=registry)
        self.claims = Counter("relay_claims_total", "Rows claimed", registry=registry)
        self.published = Counter("relay_published_total", "Messages that Centrifugo took", registry=registry)
        self.failures = Counter(
            "relay_publish_failures_total",
            "Rows not published: retryable, permanent, exhausted (failures used up), outage, lease (not sent in time)",
            ["class"],
            registry=registry,
        )
        self.lease_timeouts = Counter(
            "relay_lease_timeouts_total", "Rows claimed after another claim of them ran out", registry=registry
        )
        self.fenced = Counter("relay_fenced_total", "Rows not marked: another relay had taken them", registry=registry)
        self.cleaned = Counter("relay_cleaned_total", "PUBLISHED rows deleted after their retention", registry=registry)

    def show(self, backlog: Backlog) -> None:
        """Set the gauges."""
        self.oldest_age.set(backlog.oldest_age_seconds)
        for state, count in backlog.rows.items():
            self.rows.labels(state).set(count)
