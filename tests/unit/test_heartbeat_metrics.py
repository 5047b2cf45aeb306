"""The metrics of heartbeats: bounded labels, credentials that are not the caller's counted apart (N-3)."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from taskstatus.adapters.telemetry.metrics import ServiceMetrics
from taskstatus.domain.reasons import Reason


def test_n3_heartbeats_are_counted_by_outcome() -> None:
    registry = CollectorRegistry()
    metrics = ServiceMetrics(registry)

    metrics.heartbeats_judged("accepted", 40)
    metrics.heartbeats_judged("accepted", 2)
    metrics.heartbeats_judged(Reason.STALE_SEQUENCE, 1)
    metrics.heartbeats_judged(Reason.PRODUCER_MISMATCH, 3)
    metrics.heartbeats_pending(7)
    metrics.heartbeats_lost(5)

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"taskstatus_{name}", labels)

    assert value("heartbeats_total", outcome="accepted") == 42
    assert value("heartbeats_total", outcome="STALE_SEQUENCE") == 1
    assert value("heartbeats_total", outcome="PRODUCER_MISMATCH") == 3
    assert value("identity_mismatch_total") == 3
    assert value("heartbeats_pending") == 7
    assert value("heartbeats_lost_total") == 5
