"""The Prometheus metrics of the processes, read from their registries."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Metric

from relay.metrics import RelayMetrics
from scripts.docs.markdown import code, page, prose, table
from taskstatus.adapters.telemetry.metrics import ServiceMetrics

HEADS = ("metric", "type", "what it tells")


def metrics() -> str:
    """Names as Prometheus shows them."""
    relay = CollectorRegistry()
    RelayMetrics(relay)
    intro = """Each process serves its own at `http://$TASKSTATUS_METRICS_LISTEN/metrics`. Times are in seconds; label
        values are bounded, never an id. A metric with labels appears with its first value."""
    return page(
        "Metrics",
        prose(intro),
        "## Status service and REST gateway",
        table(HEADS, _rows(ServiceMetrics().registry)),
        "## Relay",
        table(HEADS, _rows(relay)),
    )


def _rows(registry: CollectorRegistry) -> Iterator[tuple[str, str, str]]:
    for metric in registry.collect():
        yield code(_shown_name(metric)), metric.type, metric.documentation


def _shown_name(metric: Metric) -> str:
    return f"{metric.name}_total" if metric.type == "counter" else metric.name
