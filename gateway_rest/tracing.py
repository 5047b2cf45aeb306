"""One server span for each request, child of the caller's when it sends a ``traceparent``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from opentelemetry import trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.datastructures import Headers

TRACER_NAME = "taskstatus.rest"


@dataclass(frozen=True, slots=True)
class RequestSpan:
    """The span of the request being served."""

    span: trace.Span
    traceparent: str
    """W3C trace context of the span; empty when nothing traces and the caller sent none."""
    trace_id: str
    """32 hex digits; empty likewise."""

    def finish(self, status: int, error: str) -> None:
        """Note the outcome; ``error`` is the reason or the exception's class, empty when there is none."""
        self.span.set_attribute("http.response.status_code", status)
        if error:
            self.span.set_attribute("error.type", error)
        # A refusal is the caller's affair: only the service's own faults make a server span an error.
        if status >= 500:
            self.span.set_status(trace.Status(trace.StatusCode.ERROR))


@contextmanager
def request_span(tracer: trace.Tracer, headers: Headers, http_method: str, route: str) -> Iterator[RequestSpan]:
    """Open the span; ``route`` is the template, so that names stay few."""
    parent = TraceContextTextMapPropagator().extract(headers)
    with tracer.start_as_current_span(
        f"{http_method} {route}",
        context=parent,
        kind=trace.SpanKind.SERVER,
        attributes={"http.request.method": http_method, "http.route": route},
        # What remains is a client that has gone; every other exception became a response inside.
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        context = span.get_span_context()
        if not context.is_valid:
            yield RequestSpan(span, "", "")
            return
        trace_id = f"{context.trace_id:032x}"
        traceparent = f"00-{trace_id}-{context.span_id:016x}-{context.trace_flags:02x}"
        yield RequestSpan(span, traceparent, trace_id)
