"""One server span per call, and its W3C context for what the call commits (N-3)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_PROPAGATOR = TraceContextTextMapPropagator()


@lru_cache(maxsize=8)
def _tracer(transport: str) -> trace.Tracer:
    return trace.get_tracer(f"taskstatus.{transport}")


@contextmanager
def server_span(transport: str, method: str, traceparent: str) -> Iterator[tuple[Span, str]]:
    """A span under the caller's context; yields it and its own traceparent (empty when nothing is traced)."""
    parent = _PROPAGATOR.extract({"traceparent": traceparent}) if traceparent else None
    attributes = {"rpc.system.name": transport, "rpc.method": method}
    with _tracer(transport).start_as_current_span(method, parent, SpanKind.SERVER, attributes) as span:
        carrier: dict[str, str] = {}
        _PROPAGATOR.inject(carrier)
        yield span, carrier.get("traceparent", "")


def mark_failed(span: Span, status: str, reason: str) -> None:
    """Note on the span how the call ended: the transport's status and our reason."""
    span.set_attribute("rpc.response.status_code", status)
    span.set_attribute("error.type", reason)
    span.set_status(Status(StatusCode.ERROR, reason))
